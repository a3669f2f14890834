// C[m,n] = or += sum over k of A[m,k] . B[k,n] for 16-bit operands on Hopper: wgmma fed by TMA. Products are exact,
// sums float32, k in rising order in steps of 16 whatever the tile, so that tiles of all widths give the same bits.
//
//                A, contraction inner   B, contraction inner
//   Y  = X.W     yes                    no
//   dX = dY.W^T  yes                    yes
//   dW = X^T.dY  no                     no
// Any other mix comes from transposed views. Nothing is transposed in memory: wgmma reads either direction.
//
// A block of three warpgroups owns a tile of 128 x kTileN at a time and walks from tile to tile. One thread of the
// first warpgroup loads steps of 64 k into a ring of stages by TMA. The other two multiply: tiles of 256 and 64 columns
// are shared, 64 rows each; tiles of 128 columns are taken in turn, so that one warpgroup stores its tile while the
// other multiplies. Short contractions may keep their columns' operand: then a block walks down rows alone and loads
// the panel of its columns once, only the rows' operand passes through the ring, and blocks that share rows take turns
// at asking the L2 cache for those of the next tile. Slices of the contraction are the third dimension of the maps:
// what lies behind a slice's end reads as 0, and the last slice has maps of its own. Blocks form no clusters: operands
// that come from memory for the first time arrived later by multicast than by loads of each block's own.
//
// The result leaves through small sub-tiles in shared memory, while the loads of the next tile run on: stored by TMA,
// added by TMA (float32: one addition an element, so one bit pattern with one slice), or element by element where TMA
// cannot address the output.
#pragma once

#include "hopper_layout.hpp"
#include "kernels.hpp"
#include "ptx.cuh"
#include "tensor_map.hpp"
#include "types.cuh"
#include "wgmma.cuh"

namespace dxdw {
namespace cuda {
namespace hopper {

constexpr int kThreads = 384;
constexpr int kProducerRegisters = 40;  // 40 + 2 * 232 = 504 of 512 a thread slot
constexpr int kConsumerRegisters = 232;
constexpr int kTurnBarrier = 3;  // and 4; 1 and 2 belong to the warpgroups

enum class Epilogue : int32_t { kStore, kReduceAdd, kElements };

struct Arguments {
  CUtensorMap a, b;            // slices before the last
  CUtensorMap a_last, b_last;  // the last slice
  CUtensorMap c;
  Target target;
  int64_t rows, cols, contraction, chunk;
  int32_t tiles_m, tiles_n;
  int32_t last_slice;
  int32_t units;  // tiles_m * tiles_n * slices
  int32_t band;   // rows of tiles that are walked together
  Epilogue epilogue;
  bool fetch_old;  // what will be added to comes into the L2 cache while a tile is multiplied
};

// Which tile a block works on: bands of rows, columns there and back, so that blocks that run at the same time share
// lines of both operands in the L2 cache. Bands of one row start with the first column each: so a number of blocks that
// is a multiple of the columns' keeps each block to its own column.
struct Unit {
  int32_t row, col, slice;  // in tiles
  int32_t k_tiles;
};

__device__ __forceinline__ Unit unit_at(const Arguments &p, int32_t index) {
  const int32_t tiles = p.tiles_m * p.tiles_n;
  Unit unit;
  unit.slice = index / tiles;
  const int32_t tile = index % tiles, band = tile / (p.band * p.tiles_n), in_band = tile % (p.band * p.tiles_n);
  const int32_t rows = min(p.band, p.tiles_m - band * p.band);
  unit.row = band * p.band + in_band % rows;
  unit.col = in_band / rows;
  if (p.band > 1 && band % 2 == 1) unit.col = p.tiles_n - 1 - unit.col;
  const int64_t left = p.contraction - unit.slice * p.chunk;
  const int64_t length = left < p.chunk ? left : p.chunk;
  unit.k_tiles = length <= 0 ? 0 : static_cast<int32_t>((length + kTileK - 1) / kTileK);
  return unit;
}

// Keeps the compiler from moving reads and writes of the accumulators across the asynchronous products.
template <int kCount>
__device__ __forceinline__ void pin(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}

template <typename T>
__device__ __forceinline__ uint32_t pack_pair(float low, float high);
template <>
__device__ __forceinline__ uint32_t pack_pair<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t *>(&pair);
}
template <>
__device__ __forceinline__ uint32_t pack_pair<__half>(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t *>(&pair);
}

// 64 rows of a tile leave a warpgroup's registers: accumulator 4j + 2h + e of lane l of warp w is row
// 16w + l / 4 + 8h, column 8j + 2 (l % 4) + e. `buffers`: kBuffers sub-tiles of shared memory, used in turn; `bar`: the
// warpgroup's named barrier.
template <typename T, int kBuffers, int kAccumulators>
__device__ __forceinline__ void write_rows(const Arguments &p, const Unit &unit, const float (&sum)[kAccumulators],
                                           int64_t row0, uint32_t buffers, int bar, int *turns) {
  constexpr int kCols = 2 * kAccumulators;
  const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
  int turn = *turns;
  const int64_t col0 = static_cast<int64_t>(unit.col) * kCols;
  const bool issuer = thread == 0;
  if (p.epilogue == Epilogue::kStore && p.target.type != DType::f32) {
#pragma unroll
    for (int part = 0; part < kCols / 64; ++part) {
      if (col0 + part * 64 >= p.cols) continue;
      const uint32_t buffer = buffers + turn * kStagingBytes;
      if (issuer) ptx::bulk_wait_read<kBuffers - 1>();  // what stood in this buffer has left it
      ptx::named_barrier(bar, 128);
      const int i = lane / 8;
      const uint32_t line = 16 * warp + lane % 8 + 8 * (i % 2);
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        const float *d = sum + part * 32 + pair * 8;
        ptx::store_matrices(buffer + swizzled(line, 2 * pair + i / 2), pack_pair<T>(d[0], d[1]),
                            pack_pair<T>(d[2], d[3]), pack_pair<T>(d[4], d[5]), pack_pair<T>(d[6], d[7]));
      }
      ptx::fence_proxy_async();
      ptx::named_barrier(bar, 128);
      if (issuer) {
        ptx::tma_store(&p.c, buffer, static_cast<int>(col0) + part * 64, static_cast<int>(row0), unit.slice);
        ptx::bulk_commit();
      }
      turn = turn + 1 == kBuffers ? 0 : turn + 1;
    }
  } else {
#pragma unroll
    for (int part = 0; part < kCols / 32; ++part) {
      if (col0 + part * 32 >= p.cols) continue;
      const uint32_t buffer = buffers + turn * kStagingBytes;
      if (issuer) ptx::bulk_wait_read<kBuffers - 1>();
      ptx::named_barrier(bar, 128);
      const uint32_t line = 16 * warp + lane / 4;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float *d = sum + part * 16 + j * 4;
        const uint32_t to = buffer + 8 * (lane % 2), chunk = 2 * j + lane % 4 / 2;
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to + swizzled(line, chunk)), "f"(d[0]), "f"(d[1])
                     : "memory");
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to + swizzled(line + 8, chunk)), "f"(d[2]), "f"(d[3])
                     : "memory");
      }
      if (p.epilogue == Epilogue::kElements) {
        // A warp takes rows of 32 columns, eight at a time.
        ptx::named_barrier(bar, 128);
        const int64_t col = col0 + part * 32 + lane;
#pragma unroll 1
        for (int first = warp; first < 64; first += 32) {
          int64_t elements[8];
          bool inside[8];
          float values[8];
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            const int at = first + 4 * i;
            const int64_t row = row0 + at;
            asm volatile("ld.shared.f32 %0, [%1];"
                         : "=f"(values[i])
                         : "r"(buffer + swizzled(at, lane / 4) + 4 * (lane % 4)));
            elements[i] = unit.slice * p.target.slice_stride + row * p.target.row_stride + col * p.target.col_stride;
            inside[i] = row < p.rows && col < p.cols;
          }
          put(p.target.data, p.target.type, elements, inside, values, p.target.add, p.target.atomic);
        }
      } else {
        ptx::fence_proxy_async();
        ptx::named_barrier(bar, 128);
        if (issuer) {
          const int x = static_cast<int>(col0) + part * 32, y = static_cast<int>(row0);
          if (p.epilogue == Epilogue::kStore)
            ptx::tma_store(&p.c, buffer, x, y, unit.slice);
          else
            ptx::tma_reduce_add(&p.c, buffer, x, y, p.target.atomic ? 0 : unit.slice);
          ptx::bulk_commit();
        }
      }
      turn = turn + 1 == kBuffers ? 0 : turn + 1;
    }
  }
  *turns = turn;
}

template <typename T, bool kInnerA, bool kInnerB, int kTileN, bool kKeeps>
__global__ void __launch_bounds__(kThreads, 1) hopper_kernel(const __grid_constant__ Arguments p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr int kStages = layout(kTileN, kKeeps).stages;
  constexpr int kBuffers = layout(kTileN, kKeeps).buffers;
  constexpr int kStageBytes = stage_bytes(kTileN, kKeeps);
  constexpr int kAccumulators = kTileN / 2;
  constexpr bool kPingPong = is_ping_pong(kTileN);
  constexpr int kHalves = kPingPong ? 2 : 1;  // of 64 rows a warpgroup
  extern __shared__ char shared_raw[];
  const uint32_t panel = (ptx::shared_address(shared_raw) + 1023) & ~1023u;
  const uint32_t shared = panel + (kKeeps ? kPanel * bytes_b(kTileN) : 0);
  const uint32_t staging = shared + kStages * kStageBytes;
  const uint32_t full = staging + kConsumers * kBuffers * kStagingBytes, empty = full + 8 * kStages;
  const uint32_t panel_full = empty + 8 * kStages;

  ptx::let_next_kernel_start();
  const int warpgroup = threadIdx.x / 128;
  const int32_t first_unit = blockIdx.x, unit_step = gridDim.x;

  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      ptx::mbarrier_init(full + 8 * s, 1);
      ptx::mbarrier_init(empty + 8 * s, kPingPong ? 1 : kConsumers);
    }
    for (int s = 0; kKeeps && s < kPanel; ++s) ptx::mbarrier_init(panel_full + 8 * s, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  if (warpgroup == 0) {
    ptx::give_registers<kProducerRegisters>();
    if (threadIdx.x == 0) {
      ptx::prefetch_map(&p.a_last);
      ptx::prefetch_map(&p.b_last);
      int stage = 0;
      uint32_t parity = 1;  // the first round finds every stage free
      for (int32_t index = first_unit; index < p.units; index += unit_step) {
        const Unit unit = unit_at(p, index);
        const bool last = unit.slice == p.last_slice;
        const CUtensorMap *map_a = last ? &p.a_last : &p.a, *map_b = last ? &p.b_last : &p.b;
        const int slice = last ? 0 : unit.slice;
        const int row = unit.row * kTileM, col = unit.col * kTileN;
        const bool more = kKeeps && index + unit_step < p.units;
        const int next_row = more ? unit_at(p, index + unit_step).row * kTileM : 0;
        if (p.fetch_old) {
#pragma unroll 1
          for (int box = 0; box < kTileN / 16; ++box) ptx::prefetch(&p.c, col + box / 2 * 32, row + box % 2 * 64, 0);
        }
        for (int32_t tile = 0; tile < unit.k_tiles; ++tile) {
          const int k = tile * kTileK;
          const uint32_t to_a = shared + stage * kStageBytes;
          const uint32_t to_b = kKeeps ? panel + tile * bytes_b(kTileN) : to_a + kBytesA;
          uint32_t barrier = full + 8 * stage;
          ptx::mbarrier_wait(empty + 8 * stage, parity);
          ptx::mbarrier_arrive_expect_tx(barrier, kStageBytes);
          if (kInnerA) {
            ptx::tma_load(to_a, map_a, barrier, k, row, slice);
          } else {
#pragma unroll
            for (int box = 0; box < kTileM / 64; ++box)
              ptx::tma_load(to_a + box * kBox, map_a, barrier, row + box * 64, k, slice);
          }
          if (++stage == kStages) stage = 0, parity ^= 1;
          if (kKeeps) {
            if (more && tile % p.tiles_n == unit.col) {
              if (kInnerA) {
                ptx::prefetch(map_a, k, next_row, slice);
              } else {
#pragma unroll
                for (int box = 0; box < kTileM / 64; ++box) ptx::prefetch(map_a, next_row + box * 64, k, slice);
              }
            }
            if (index != first_unit) continue;
            barrier = panel_full + 8 * tile;
            ptx::mbarrier_arrive_expect_tx(barrier, bytes_b(kTileN));
          }
          if (kInnerB) {
            ptx::tma_load(to_b, map_b, barrier, k, col, slice);
          } else {
#pragma unroll
            for (int box = 0; box < kTileN / 64; ++box)
              ptx::tma_load(to_b + box * kBox, map_b, barrier, col + box * 64, k, slice);
          }
        }
      }
    }
    __syncwarp();
  } else {
    ptx::take_registers<kConsumerRegisters>();
    const int consumer = warpgroup - 1, thread = threadIdx.x % 128;
    // One arrival a warpgroup: the stage may be overwritten.
    const auto release = [&](int which) {
      if (thread == 0) ptx::mbarrier_arrive(empty + 8 * which);
    };

    int turn = 0;         // this warpgroup's next buffer
    uint32_t loaded = 0;  // steps of k that the ring has seen before this tile
    int tiles_seen = 0;   // by both warpgroups
    for (int32_t index = first_unit; index < p.units; index += unit_step) {
      const Unit unit = unit_at(p, index);
      int stage = static_cast<int>(loaded % kStages);
      uint32_t parity = loaded / kStages & 1;
      loaded += static_cast<uint32_t>(unit.k_tiles);
      if (kPingPong) {
        if (tiles_seen++ % 2 != consumer) continue;
        // A parity tells a round of the ring from the next only: nobody may wait for a stage before the other warpgroup
        // has seen all of its own.
        if (tiles_seen > 1) ptx::named_barrier(kTurnBarrier + consumer, 256);
      }

      float sum[kHalves][kAccumulators];
      if (unit.k_tiles == 0) {
#pragma unroll
        for (int half = 0; half < kHalves; ++half)
#pragma unroll
          for (int i = 0; i < kAccumulators; ++i) sum[half][i] = 0.0f;
      }
      int before = 0;
      for (int32_t tile = 0; tile < unit.k_tiles; ++tile) {
        ptx::mbarrier_wait(full + 8 * stage, parity);
        if (kKeeps) ptx::mbarrier_wait(panel_full + 8 * tile, 0);
        const uint32_t at = shared + stage * kStageBytes;
        const uint64_t a = descriptor(at + (kPingPong ? 0 : consumer * kBox), kInnerA);
        const uint64_t b = descriptor(kKeeps ? panel + tile * bytes_b(kTileN) : at + kBytesA, kInnerB);
#pragma unroll
        for (int half = 0; half < kHalves; ++half) pin(sum[half]);
        ptx::wgmma_fence();
#pragma unroll
        for (int step = 0; step < kTileK / 16; ++step)
#pragma unroll
          for (int half = 0; half < kHalves; ++half)
            Wgmma<T, kTileN, !kInnerA, !kInnerB>::run(sum[half],
                                                      a + half * (kBox >> 4) + step * descriptor_step(kInnerA),
                                                      b + step * descriptor_step(kInnerB), tile > 0 || step > 0);
        ptx::wgmma_commit();
#pragma unroll
        for (int half = 0; half < kHalves; ++half) pin(sum[half]);
        // The products of the step before are done once only one group is pending.
        ptx::wgmma_wait<1>();
        if (tile > 0) release(before);
        before = stage;
        if (++stage == kStages) stage = 0, parity ^= 1;
      }
      if (kPingPong) ptx::named_barrier_arrive(kTurnBarrier + 1 - consumer, 256);
      ptx::wgmma_wait<0>();
      if (unit.k_tiles > 0) release(before);
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        pin(sum[half]);
        write_rows<T, kBuffers>(p, unit, sum[half],
                                static_cast<int64_t>(unit.row) * kTileM + (kPingPong ? half : consumer) * 64,
                                staging + consumer * kBuffers * kStagingBytes, 1 + consumer, &turn);
      }
    }
    if (thread == 0) ptx::bulk_wait<0>();
  }
#endif
}

// ---- Host side ----

// Maps of an operand for the slices before the last, and for the last.
inline bool encode_operand(CUtensorMap *map, CUtensorMap *map_last, DType type, const TiledOperand &o, int64_t lines,
                           int64_t chunk, int64_t last_slice, int64_t last_length, int box_lines) {
  const auto one = [&](CUtensorMap *to, const char *data, int64_t length, int64_t slices) {
    return o.contraction_inner
               ? encode(to, type, data, length, lines, slices, o.pitch, o.slice_stride, kTileK, box_lines)
               : encode(to, type, data, lines, length, slices, o.pitch, o.slice_stride, 64, kTileK);
  };
  const char *last = o.data + last_slice * o.slice_stride * size_of(type);
  if (!one(map_last, last, last_length, 1)) return false;
  return last_slice == 0 || one(map, o.data, chunk, last_slice);
}

// A kernel, its shared memory, and the devices that know of it.
struct Variant {
  const void *kernel;
  int shared_bytes;
  std::atomic<uint64_t> *devices;
};

template <typename T, int kTileN, bool kKeeps>
Variant variant(bool inner_a, bool inner_b) {
  static_assert(shared_bytes(kTileN, kKeeps) <= kMostShared, "a block's shared memory is too large");
  static std::atomic<uint64_t> devices[4];
  const void *kernels[] = {reinterpret_cast<const void *>(hopper_kernel<T, false, false, kTileN, kKeeps>),
                           reinterpret_cast<const void *>(hopper_kernel<T, false, true, kTileN, kKeeps>),
                           reinterpret_cast<const void *>(hopper_kernel<T, true, false, kTileN, kKeeps>),
                           reinterpret_cast<const void *>(hopper_kernel<T, true, true, kTileN, kKeeps>)};
  const int mix = 2 * inner_a + inner_b;
  return {kernels[mix], shared_bytes(kTileN, kKeeps), &devices[mix]};
}

template <typename T>
cudaError_t product(const gpu::ProductPlan &p, const TiledOperand &a, const TiledOperand &b, const Target &target,
                    cudaStream_t stream) {
  const Product &w = p.work;
  const int64_t rows = w.c.rows, cols = w.c.cols, contraction = w.contraction();
  const DType type = w.a.type;
  Arguments arguments;
  arguments.target = target;
  arguments.rows = rows;
  arguments.cols = cols;
  arguments.contraction = contraction;
  arguments.chunk = p.chunk;
  arguments.tiles_m = static_cast<int32_t>(p.tiles_m);
  arguments.tiles_n = static_cast<int32_t>(p.tiles_n);
  arguments.units = arguments.tiles_m * arguments.tiles_n * p.split;
  const int64_t last_slice = (contraction + p.chunk - 1) / p.chunk - 1;
  arguments.last_slice = static_cast<int32_t>(last_slice);
  const int64_t last_length = contraction - last_slice * p.chunk;
  if (!encode_operand(&arguments.a, &arguments.a_last, type, a, rows, p.chunk, last_slice, last_length, kTileM) ||
      !encode_operand(&arguments.b, &arguments.b_last, type, b, cols, p.chunk, last_slice, last_length, p.tile_n))
    return cudaErrorInvalidValue;

  // TMA writes whole chunks of 16 bytes: rows must end on one, unless the padding behind them is ours.
  const int64_t size = size_of(target.type);
  const bool addressable = target.col_stride == 1 && reinterpret_cast<uintptr_t>(target.data) % 16 == 0 &&
                           (target.padded || cols * size % 16 == 0) &&
                           (rows == 1 || (target.row_stride > 0 && target.row_stride * size % 16 == 0)) &&
                           (target.type == DType::f32 || !target.add);
  // Where TMA cannot add, single additions that return nothing do: still one an element.
  if (!addressable && target.add && target.type == DType::f32) arguments.target.atomic = true;
  arguments.epilogue = !addressable                  ? Epilogue::kElements
                       : target.add || target.atomic ? Epilogue::kReduceAdd
                                                     : Epilogue::kStore;
  arguments.band = p.band;
  arguments.fetch_old = p.fetch_old && arguments.epilogue == Epilogue::kReduceAdd;
  if (addressable) {
    const int64_t row_stride = rows == 1 ? (cols * size + 15) / 16 * 16 / size : target.row_stride;
    const int64_t slices = target.slice_stride > 0 ? p.split : 1;
    if (!encode(&arguments.c, target.type, target.data, cols, rows, slices, row_stride, target.slice_stride,
                128 / static_cast<int>(size), 64))
      return cudaErrorInvalidValue;
  }

  const bool inner_a = a.contraction_inner, inner_b = b.contraction_inner;
  const Variant chosen = p.tile_n == 64    ? variant<T, 64, false>(inner_a, inner_b)
                         : p.tile_n == 256 ? variant<T, 256, false>(inner_a, inner_b)
                         : p.keeps_columns ? variant<T, 128, true>(inner_a, inner_b)
                                           : variant<T, 128, false>(inner_a, inner_b);
  const cudaError_t error = allow_shared(chosen.kernel, chosen.shared_bytes, chosen.devices);
  if (error != cudaSuccess) return error;
  void *pointers[] = {&arguments};
  return launch(chosen.kernel, dim3(static_cast<unsigned>(p.blocks)), dim3(kThreads), chosen.shared_bytes, stream,
                pointers);
}

}  // namespace hopper
}  // namespace cuda
}  // namespace dxdw
