// What the kernels that take operands of any stride share: their arguments, and which tile a block works on.
#pragma once

#include "kernels.hpp"
#include "ptx.cuh"
#include "types.cuh"

namespace dxdw {
namespace cuda {

struct StridedOperand {
  const char *data;
  int64_t line_stride;  // between rows of A, columns of B
  int64_t k_stride;
  int64_t lines;
  bool k_inner;  // the contraction is the direction to read along
  bool aligned;  // chunks of 16 bytes along that direction
};

struct TiledArguments {
  StridedOperand a, b;
  Target c;
  int64_t contraction, chunk;
  int64_t tiles_m, tiles_n, units;  // units = tiles * slices
};

inline TiledArguments tiled_arguments(const gpu::ProductPlan &p, const Target &target) {
  const Product &w = p.work;
  return {{w.a.data, w.a.row_stride, w.a.col_stride, w.a.rows, p.a.contraction_inner, p.a.aligned},
          {w.b.data, w.b.col_stride, w.b.row_stride, w.b.cols, p.b.contraction_inner, p.b.aligned},
          target,
          w.contraction(),
          p.chunk,
          p.tiles_m,
          p.tiles_n,
          p.tiles * p.split};
}

struct TileUnit {
  int64_t slice, row0, col0;
  int64_t first_k, length;
};

// Eight rows of tiles are walked together, so that the blocks at work share lines of both operands in the cache.
template <int kTileM, int kTileN>
__device__ __forceinline__ TileUnit tile_unit(const TiledArguments &p, int64_t unit) {
  const int64_t tiles = p.tiles_m * p.tiles_n, tile = unit % tiles;
  const int64_t band = tile / (8 * p.tiles_n), in_band = tile % (8 * p.tiles_n);
  const int64_t band_rows = min(int64_t{8}, p.tiles_m - 8 * band);
  TileUnit u;
  u.slice = unit / tiles;
  u.row0 = (8 * band + in_band % band_rows) * kTileM;
  u.col0 = in_band / band_rows * kTileN;
  u.first_k = min(u.slice * p.chunk, p.contraction);
  u.length = min(p.chunk, p.contraction - u.first_k);
  return u;
}

// The tile of a block of a grid of columns, rows and slices of tiles: no division.
template <int kTile>
__device__ __forceinline__ TileUnit tile_of_block(const TiledArguments &p) {
  TileUnit u;
  u.slice = blockIdx.z;
  u.row0 = static_cast<int64_t>(blockIdx.y) * kTile;
  u.col0 = static_cast<int64_t>(blockIdx.x) * kTile;
  u.first_k = min(u.slice * p.chunk, p.contraction);
  u.length = min(p.chunk, p.contraction - u.first_k);
  return u;
}

inline dim3 grid_of_tiles(const gpu::ProductPlan &p) {
  return dim3(static_cast<unsigned>(p.tiles_n), static_cast<unsigned>(p.tiles_m), static_cast<unsigned>(p.split));
}

// Four neighbours of a row of the result, from column `col` of a tile that has `cols_left`, which is element `first`.
// vectors: whole fours of float32 are written at once.
__device__ __forceinline__ void put_four(const Target &c, DType type, int64_t first, int col, int64_t cols_left,
                                         bool vectors, const float *sums) {
  // Copies, or the compiler would put sums side by side for the store, in banks that cost the products.
  float values[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) asm volatile("mov.b32 %0, %1;" : "=f"(values[e]) : "f"(sums[e]));
  if (vectors && col + 4 <= cols_left) {
    float4 *out = reinterpret_cast<float4 *>(reinterpret_cast<float *>(c.data) + first);
    float4 result = make_float4(values[0], values[1], values[2], values[3]);
    if (c.add) {
      const float4 old = *out;
      result = make_float4(old.x + result.x, old.y + result.y, old.z + result.z, old.w + result.w);
    }
    *out = result;
  } else {
    int64_t elements[4];
    bool inside[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      elements[e] = first + e * c.col_stride;
      inside[e] = col + e < cols_left;
    }
    put(c.data, type, elements, inside, values, c.add, c.atomic);
  }
}

// ---- Copies to shared memory that run beside the arithmetic (capability 8.0) ----

// 16 bytes, all of which must lie inside the operand: to be told that fewer are wanted does not keep the copy from
// naming memory that is nobody's.
__device__ __forceinline__ void copy_async_16(uint32_t shared, const void *global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global));
}

// 4 bytes, or 0; either way the address must be that of an element.
__device__ __forceinline__ void copy_async_4(uint32_t shared, const void *global, bool inside) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(global), "r"(inside ? 4 : 0));
}

__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int kPending>
__device__ __forceinline__ void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace cuda
}  // namespace dxdw
