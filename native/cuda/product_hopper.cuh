// C[m,n] = or += sum over k of A[m,k] . B[k,n] for 16-bit operands on Hopper: wgmma fed by TMA. Products are exact,
// sums float32, k in rising order in steps of 16 whatever the tile, so that tiles of all widths give the same bits.
//
//                A, contraction inner   B, contraction inner
//   Y  = X.W     yes                    no
//   dX = dY.W^T  yes                    yes
//   dW = X^T.dY  no                     no
// Any other mix comes from transposed views. Nothing is transposed in memory: wgmma reads either direction.
//
// A block of three warpgroups owns a tile of 128 x kTileN at a time and walks from tile to tile. One warp of the first
// warpgroup loads steps of 64 k into a ring of stages by TMA. The other two multiply: tiles of 256 and 64 columns are
// shared, 64 rows each; tiles of 128 and 160 columns are taken in turn, so that one warpgroup stores its tile while the
// other multiplies. Where they are shared, tiles of 256 columns wait in registers for that, as far as there are
// registers, and leave while the next tile is multiplied. Tiles of 160 columns are those of the transposed product: as
// their rows are contiguous in memory, they are stored turned.
//
// Short contractions may keep their columns' operand: then a block walks down rows alone and loads the panel of its
// columns once, only the rows' operand passes through the ring. With 128 columns, blocks that share rows take turns at
// asking the L2 cache for those of the next tile; with 256 the warpgroups walk on their own, in a kernel of its own.
//
// Slices of the contraction are the third dimension of the maps: what lies behind a slice's end reads as 0, and the last
// slice has maps of its own. Blocks form no clusters: loads that blocks near each other have in common cost the L2 cache
// little more than multicast ones, and wait for nobody.
//
// The result leaves through small sub-tiles in shared memory, while the loads of the next tile run on: stored by TMA,
// added by TMA (float32: one addition an element, so one bit pattern with one slice), or element by element where TMA
// cannot address the output.
//
// A kernel is launched while the one before it on the stream ends. It waits for that one's results before it touches
// memory; its maps and barriers are ready by then, and the first loads wait for nothing but their own warp. A block's end
// does not wait for its results to be written, only until they have left shared memory: the end of the kernel does.
//
// What chooses an instruction's operands must be the same for all threads of a warp, and the compiler must see that: a
// warp's role comes from one of its lanes, and a whole warp walks where one thread issues. Else each wgmma and each load
// takes a dozen instructions more.
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
constexpr int kProducerRegisters = 24;  // 24 + 2 * 240 = 504 of 512 a thread slot
constexpr int kConsumerRegisters = 240;
// Tiles of 64 columns leave registers for a block of the kernel that adds their slices: it waits beside them for their
// end. 24 + 2 * 176 = 376 of 3 * 128 a thread slot.
constexpr int kFewConsumerRegisters = 176;
constexpr int kThreadsOfFew = 512;  // as many threads would have so few
constexpr int kTurnBarrier = 3;     // and 4; 1 and 2 belong to the warpgroups
constexpr int kReadyBarrier = 5;

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

// The maps that a block needs first: by one thread, while another prepares the barriers.
template <typename Operands>
__device__ __forceinline__ void prefetch_operand_maps(const Operands &p) {
  if (p.last_slice > 0) {
    ptx::prefetch_map(&p.a);
    ptx::prefetch_map(&p.b);
  }
  ptx::prefetch_map(&p.a_last);
  ptx::prefetch_map(&p.b_last);
}
__device__ __forceinline__ void prefetch_maps(const Arguments &p) {
  prefetch_operand_maps(p);
  if (p.epilogue != Epilogue::kElements) ptx::prefetch_map(&p.c);
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

// A warpgroup's way out: sub-tiles of shared memory, used in turn, and its named barrier.
struct Outlet {
  uint32_t buffers;
  int bar;
  int turn;
};

// Where a sub-tile's 64 rows go.
struct Place {
  int32_t row, col, slice;
};

template <int kBuffers, int kBytes = kStagingBytes>
__device__ __forceinline__ uint32_t open_buffer(Outlet *outlet) {
  const uint32_t buffer = outlet->buffers + outlet->turn * kBytes;
  outlet->turn = outlet->turn + 1 == kBuffers ? 0 : outlet->turn + 1;
  if (threadIdx.x % 128 == 0) ptx::bulk_wait_read<kBuffers - 1>();  // what stood in this buffer has left it
  ptx::named_barrier(outlet->bar, 128);
  return buffer;
}

// 64 columns of 16 bits, two to a word.
template <int kBuffers>
__device__ __forceinline__ void store_halves(const Arguments &p, const uint32_t *words, const Place &at,
                                             Outlet *outlet) {
  if (at.col >= p.cols) return;
  const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32, i = lane / 8;
  const uint32_t buffer = open_buffer<kBuffers>(outlet);
  const uint32_t line = 16 * warp + lane % 8 + 8 * (i % 2);
#pragma unroll
  for (int pair = 0; pair < 4; ++pair)
    ptx::store_matrices(buffer + swizzled(line, 2 * pair + i / 2), words[4 * pair], words[4 * pair + 1],
                        words[4 * pair + 2], words[4 * pair + 3]);
  ptx::fence_proxy_async();
  ptx::named_barrier(outlet->bar, 128);
  if (thread == 0) {
    ptx::tma_store(&p.c, buffer, at.col, at.row, at.slice);
    ptx::bulk_commit();
  }
}

// 80 columns of 64 rows of 16 bits, the rows contiguous in memory; words as above.
template <int kBuffers>
__device__ __forceinline__ void store_turned(const Arguments &p, const uint32_t *words, const Place &at,
                                             Outlet *outlet) {
  if (at.col >= p.cols) return;
  const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32, i = lane / 8;
  const uint32_t buffer = open_buffer<kBuffers, kTurnedBytes>(outlet);
#pragma unroll
  for (int pair = 0; pair < kTurnedColumns / 16; ++pair)
    ptx::store_matrices_turned(buffer + swizzled(16 * pair + 8 * (i / 2) + lane % 8, 2 * warp + i % 2), words[4 * pair],
                               words[4 * pair + 1], words[4 * pair + 2], words[4 * pair + 3]);
  ptx::fence_proxy_async();
  ptx::named_barrier(outlet->bar, 128);
  if (thread == 0) {
    ptx::tma_store(&p.c, buffer, at.row, at.col, at.slice);
    ptx::bulk_commit();
  }
}

// 32 columns of float32 into a buffer: floats, or their bits.
__device__ __forceinline__ void stage_pair(uint32_t to, float low, float high) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(low), "f"(high) : "memory");
}
__device__ __forceinline__ void stage_pair(uint32_t to, uint32_t low, uint32_t high) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(low), "r"(high) : "memory");
}
template <int kBuffers, typename Word>
__device__ __forceinline__ uint32_t stage_floats(const Word *words, Outlet *outlet) {
  const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
  const uint32_t buffer = open_buffer<kBuffers>(outlet);
  const uint32_t line = 16 * warp + lane / 4;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const uint32_t to = buffer + 8 * (lane % 2), chunk = 2 * j + lane % 4 / 2;
    stage_pair(to + swizzled(line, chunk), words[4 * j], words[4 * j + 1]);
    stage_pair(to + swizzled(line + 8, chunk), words[4 * j + 2], words[4 * j + 3]);
  }
  return buffer;
}

// They are stored, or added, by TMA.
template <int kBuffers, typename Word>
__device__ __forceinline__ void store_floats(const Arguments &p, const Word *words, const Place &at, Outlet *outlet) {
  if (at.col >= p.cols) return;
  const uint32_t buffer = stage_floats<kBuffers>(words, outlet);
  ptx::fence_proxy_async();
  ptx::named_barrier(outlet->bar, 128);
  if (threadIdx.x % 128 == 0) {
    if (p.epilogue == Epilogue::kStore)
      ptx::tma_store(&p.c, buffer, at.col, at.row, at.slice);
    else
      ptx::tma_reduce_add(&p.c, buffer, at.col, at.row, p.target.atomic ? 0 : at.slice);
    ptx::bulk_commit();
  }
}

// They are stored one by one: a warp takes rows of 32 columns, eight at a time.
template <int kBuffers>
__device__ __forceinline__ void store_elements(const Arguments &p, const float *words, const Place &at,
                                               Outlet *outlet) {
  if (at.col >= p.cols) return;
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  const uint32_t buffer = stage_floats<kBuffers>(words, outlet);
  ptx::named_barrier(outlet->bar, 128);
#pragma unroll 1
  for (int first = warp; first < 64; first += 32) {
    int64_t elements[8];
    bool inside[8];
    float values[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int line = first + 4 * i;
      const int64_t row = int64_t{at.row} + line, col = int64_t{at.col} + lane;
      asm volatile("ld.shared.f32 %0, [%1];"
                   : "=f"(values[i])
                   : "r"(buffer + swizzled(line, lane / 4) + 4 * (lane % 4)));
      elements[i] = at.slice * p.target.slice_stride + row * p.target.row_stride + col * p.target.col_stride;
      inside[i] = row < p.rows && col < p.cols;
    }
    put(p.target.data, p.target.type, elements, inside, values, p.target.add, p.target.atomic);
  }
}

// What leaves a warpgroup's registers at a time. Accumulator 4j + 2h + e of lane l of warp w is row 16w + l / 4 + 8h,
// column 8j + 2 (l % 4) + e: 16 of them are 32 columns, 16 pairs are 64. Moved by hand: the compiler would read what a
// wgmma still writes, and wait for it there.
template <int kAccumulators>
__device__ __forceinline__ void take_floats(const float (&sum)[kAccumulators], int part, uint32_t *words) {
#pragma unroll
  for (int i = 0; i < 16; ++i) asm volatile("mov.b32 %0, %1;" : "=r"(words[i]) : "f"(sum[16 * part + i]));
}
template <typename T, int kAccumulators>
__device__ __forceinline__ void take_halves(const float (&sum)[kAccumulators], int part, uint32_t *words) {
#pragma unroll
  for (int i = 0; i < 16; ++i) words[i] = pack_pair<T>(sum[32 * part + 2 * i], sum[32 * part + 2 * i + 1]);
}

// 64 rows of a tile are stored at once.
template <typename T, int kBuffers, int kAccumulators>
__device__ __forceinline__ void write_rows(const Arguments &p, const float (&sum)[kAccumulators], const Place &at,
                                           Outlet *outlet) {
  if (p.epilogue == Epilogue::kElements) {
#pragma unroll
    for (int part = 0; part < kAccumulators / 16; ++part)
      store_elements<kBuffers>(p, sum + 16 * part, {at.row, at.col + part * 32, at.slice}, outlet);
  } else if (p.target.type == DType::f32) {
#pragma unroll
    for (int part = 0; part < kAccumulators / 16; ++part)
      store_floats<kBuffers>(p, sum + 16 * part, {at.row, at.col + part * 32, at.slice}, outlet);
  } else {
#pragma unroll
    for (int part = 0; part < kAccumulators / 32; ++part) {
      uint32_t words[16];
      take_halves<T>(sum, part, words);
      store_halves<kBuffers>(p, words, {at.row, at.col + part * 64, at.slice}, outlet);
    }
  }
}

// The same for 160 columns, turned.
template <typename T, int kBuffers, int kAccumulators>
__device__ __forceinline__ void write_turned(const Arguments &p, const float (&sum)[kAccumulators], const Place &at,
                                             Outlet *outlet) {
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    constexpr int kPairs = kAccumulators / 4;
    uint32_t words[kPairs];
#pragma unroll
    for (int i = 0; i < kPairs; ++i)
      words[i] = pack_pair<T>(sum[2 * (kPairs * part + i)], sum[2 * (kPairs * part + i) + 1]);
    store_turned<kBuffers>(p, words, {at.row, at.col + part * kTurnedColumns, at.slice}, outlet);
  }
}

// Results that wait in registers and leave, a sub-tile at a time, while the next tile is multiplied: all of 16 bits, or
// as many of float32 as there is room for. The others are stored at once.
template <typename T, int kAccumulators, int kBuffers>
class Held {
  static constexpr int kWords = kAccumulators / 2;
  static constexpr int kParts = kWords / 16;
  static constexpr int kFirst = kAccumulators - kWords;  // float32 accumulators before it are stored at once

 public:
  __device__ __forceinline__ void take(const Arguments &p, const float (&sum)[kAccumulators], const Place &place,
                                       Outlet *outlet) {
    at = place;
    next = 0;
    if (p.target.type == DType::f32) {
#pragma unroll
      for (int part = 0; part < kFirst / 16; ++part)
        store_floats<kBuffers>(p, sum + 16 * part, {at.row, at.col + part * 32, at.slice}, outlet);
#pragma unroll
      for (int part = 0; part < kParts; ++part) take_floats(sum, kFirst / 16 + part, words + 16 * part);
      at.col += kFirst * 2;
      parts = kParts;
    } else {
#pragma unroll
      for (int part = 0; part < kAccumulators / 32; ++part) take_halves<T>(sum, part, words + 16 * part);
      parts = kAccumulators / 32;
    }
  }

  __device__ __forceinline__ void store_next(const Arguments &p, Outlet *outlet) {
    if (next == parts) return;
    // Registers have no index: a case for each part.
    switch (next++) {
      case 0: store_part<0>(p, outlet); break;
      case 1: store_part<1>(p, outlet); break;
      case 2: store_part<2>(p, outlet); break;
      default: store_part<3>(p, outlet); break;
    }
  }

  __device__ __forceinline__ void store_all(const Arguments &p, Outlet *outlet) {
    while (next < parts) store_next(p, outlet);
  }

 private:
  template <int kPart>
  __device__ __forceinline__ void store_part(const Arguments &p, Outlet *outlet) {
    if constexpr (kPart < kParts) {
      if (p.target.type == DType::f32)
        store_floats<kBuffers>(p, words + 16 * kPart, {at.row, at.col + kPart * 32, at.slice}, outlet);
      else
        store_halves<kBuffers>(p, words + 16 * kPart, {at.row, at.col + kPart * 64, at.slice}, outlet);
    }
  }

  uint32_t words[kWords];
  Place at;
  int next = 0, parts = 0;
};

template <typename T, bool kInnerA, bool kInnerB, int kTileN, bool kKeeps>
__global__ void __launch_bounds__(kTileN == 64 ? kThreadsOfFew : kThreads, 1)
    hopper_kernel(const __grid_constant__ Arguments p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr int kStages = layout(kTileN, kKeeps).stages;
  constexpr int kBuffers = layout(kTileN, kKeeps).buffers;
  constexpr int kStageBytes = stage_bytes(kTileN, kKeeps);
  constexpr int kOutletBytes = kBuffers * buffer_bytes(kTileN);
  constexpr int kAccumulators = kTileN / 2;
  constexpr bool kPingPong = is_ping_pong(kTileN);
  constexpr int kHalves = kPingPong ? 2 : 1;  // of 64 rows a warpgroup
  extern __shared__ char shared_raw[];
  const uint32_t panel = (ptx::shared_address(shared_raw) + 1023) & ~1023u;
  const uint32_t shared = panel + (kKeeps ? kPanel * bytes_b(kTileN) : 0);
  const uint32_t staging = shared + kStages * kStageBytes;
  const uint32_t full = staging + kConsumers * kOutletBytes, empty = full + 8 * kStages;
  const uint32_t panel_full = empty + 8 * kStages;

  ptx::let_next_kernel_start();
  const int warpgroup = ptx::uniform(threadIdx.x / 128);
  const int32_t first_unit = blockIdx.x, unit_step = gridDim.x;

  // The warp that loads prepares the barriers and goes on; all others wait for them.
  const bool loads = ptx::uniform(threadIdx.x / 32) == 0;
  if (loads) {
    if (threadIdx.x == 0) {
      for (int s = 0; s < kStages; ++s) {
        ptx::mbarrier_init(full + 8 * s, 1);
        ptx::mbarrier_init(empty + 8 * s, kPingPong ? 1 : kConsumers);
      }
      for (int s = 0; kKeeps && s < kPanel; ++s) ptx::mbarrier_init(panel_full + 8 * s, 1);
      ptx::fence_mbarrier_init();
      ptx::fence_proxy_async();
    }
    __syncwarp();
    ptx::named_barrier_arrive(kReadyBarrier, kThreads);
  } else {
    if (threadIdx.x == 32) prefetch_maps(p);
    ptx::named_barrier(kReadyBarrier, kThreads);
  }
  ptx::wait_for_kernel_before();

  if (warpgroup == 0) {
    ptx::give_registers<kProducerRegisters>();
    if (loads) {
      const bool issuer = ptx::elect_one();
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
        if (p.fetch_old && issuer) {
#pragma unroll 1
          for (int box = 0; box < kTileN / 16; ++box) ptx::prefetch(&p.c, col + box / 2 * 32, row + box % 2 * 64, 0);
        }
        for (int32_t tile = 0; tile < unit.k_tiles; ++tile) {
          const int k = tile * kTileK;
          const uint32_t to_a = shared + stage * kStageBytes;
          const uint32_t to_b = kKeeps ? panel + tile * bytes_b(kTileN) : to_a + kBytesA;
          uint32_t barrier = full + 8 * stage;
          ptx::mbarrier_wait(empty + 8 * stage, parity);
          if (++stage == kStages) stage = 0, parity ^= 1;
          if (!issuer) continue;
          ptx::mbarrier_arrive_expect_tx(barrier, kStageBytes);
          if (kInnerA) {
            ptx::tma_load(to_a, map_a, barrier, k, row, slice);
          } else {
#pragma unroll
            for (int box = 0; box < kTileM / 64; ++box)
              ptx::tma_load(to_a + box * kBox, map_a, barrier, row + box * 64, k, slice);
          }
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
    ptx::take_registers<kTileN == 64 ? kFewConsumerRegisters : kConsumerRegisters>();
    const int consumer = warpgroup - 1, thread = threadIdx.x % 128;
    // One arrival a warpgroup: the stage may be overwritten.
    const auto release = [&](int which) {
      if (thread == 0) ptx::mbarrier_arrive(empty + 8 * which);
    };

    Outlet outlet = {staging + consumer * kOutletBytes, 1 + consumer, 0};
    Held<T, kAccumulators, kBuffers> held;  // of tiles of 256 columns
    uint32_t loaded = 0;                    // steps of k that the ring has seen before this tile
    int tiles_seen = 0;                     // by both warpgroups
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
        if constexpr (is_held(kTileN)) held.store_next(p, &outlet);
        // The products of the step before are done once only one group is pending.
        ptx::wgmma_wait<1>();
        if (tile > 0) release(before);
        before = stage;
        if (++stage == kStages) stage = 0, parity ^= 1;
      }
      if (kPingPong) ptx::named_barrier_arrive(kTurnBarrier + 1 - consumer, 256);
      if constexpr (is_held(kTileN)) held.store_all(p, &outlet);
      ptx::wgmma_wait<0>();
      if (unit.k_tiles > 0) release(before);
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        pin(sum[half]);
        const Place place = {unit.row * kTileM + (kPingPong ? half : consumer) * 64, unit.col * kTileN, unit.slice};
        if constexpr (is_held(kTileN))
          held.take(p, sum[half], place, &outlet);
        else if constexpr (is_turned(kTileN))
          write_turned<T, kBuffers>(p, sum[half], place, &outlet);
        else
          write_rows<T, kBuffers>(p, sum[half], place, &outlet);
      }
    }
    if constexpr (is_held(kTileN)) held.store_all(p, &outlet);
    if (thread == 0) ptx::bulk_wait_read<0>();
  }
#endif
}

// Contractions of up to kShort steps of k: a block keeps the operand of its 256 columns, and its two warpgroups walk down
// the rows on their own, 64 at a time, each with a ring of its own, loaded by a warp of its own.
constexpr int kShortTileN = 256, kShortRows = 64, kShort = 4, kShortStages = 4, kShortBuffers = 2;
constexpr int kShortShared = 1024 + kShort * (bytes_b(kShortTileN) + 8) +
                             kConsumers * (kShortStages * (kBox + 16) + kShortBuffers * kStagingBytes);

template <typename T, bool kInnerB>
__global__ void __launch_bounds__(kThreads, 1) short_kernel(const __grid_constant__ Arguments p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ char shared_raw[];
  const uint32_t panel = (ptx::shared_address(shared_raw) + 1023) & ~1023u;
  const uint32_t rings = panel + kShort * bytes_b(kShortTileN);
  const uint32_t staging = rings + kConsumers * kShortStages * kBox;
  const uint32_t barriers = staging + kConsumers * kShortBuffers * kStagingBytes;
  const uint32_t panel_full = barriers + 16 * kConsumers * kShortStages;

  ptx::let_next_kernel_start();
  const int warpgroup = ptx::uniform(threadIdx.x / 128);
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2 * kConsumers * kShortStages; ++s) ptx::mbarrier_init(barriers + 8 * s, 1);
    for (int s = 0; s < kShort; ++s) ptx::mbarrier_init(panel_full + 8 * s, 1);
    ptx::fence_mbarrier_init();
  } else if (threadIdx.x == 32) {
    prefetch_maps(p);
  }
  __syncthreads();
  ptx::wait_for_kernel_before();

  const int32_t k_tiles = static_cast<int32_t>((p.contraction + kTileK - 1) / kTileK);
  const int32_t units = static_cast<int32_t>((p.rows + kShortRows - 1) / kShortRows);
  const int32_t walkers = gridDim.x / p.tiles_n, walker = blockIdx.x / p.tiles_n;
  const int32_t col = blockIdx.x % p.tiles_n * kShortTileN;
  // The consumer that this warp is of, or loads for.
  const int consumer = warpgroup == 0 ? ptx::uniform(threadIdx.x / 32) : warpgroup - 1;
  const uint32_t ring = rings + consumer * kShortStages * kBox;
  const uint32_t full = barriers + consumer * 16 * kShortStages, empty = full + 8 * kShortStages;
  const int32_t first = kConsumers * walker + consumer, step = kConsumers * walkers;
  int stage = 0;
  if (warpgroup == 0) {
    ptx::give_registers<kProducerRegisters>();
    if (consumer < kConsumers) {
      const bool issuer = ptx::elect_one();
      uint32_t parity = 1;
      for (int32_t unit = first; unit < units; unit += step)
        for (int32_t tile = 0; tile < k_tiles; ++tile) {
          const uint32_t to = ring + stage * kBox, barrier = full + 8 * stage;
          ptx::mbarrier_wait(empty + 8 * stage, parity);
          if (++stage == kShortStages) stage = 0, parity ^= 1;
          if (!issuer) continue;
          ptx::mbarrier_arrive_expect_tx(barrier, kBox);
          ptx::tma_load(to, &p.a_last, barrier, tile * kTileK, unit * kShortRows, 0);
          if (unit != first || consumer != 0) continue;
          const uint32_t kept = panel + tile * bytes_b(kShortTileN), kept_full = panel_full + 8 * tile;
          ptx::mbarrier_arrive_expect_tx(kept_full, bytes_b(kShortTileN));
          if (kInnerB) {
            ptx::tma_load(kept, &p.b_last, kept_full, tile * kTileK, col, 0);
          } else {
#pragma unroll
            for (int box = 0; box < kShortTileN / 64; ++box)
              ptx::tma_load(kept + box * kBox, &p.b_last, kept_full, col + box * 64, tile * kTileK, 0);
          }
        }
    }
    __syncwarp();
  } else {
    ptx::take_registers<kConsumerRegisters>();
    const int thread = threadIdx.x % 128;
    Outlet outlet = {staging + consumer * kShortBuffers * kStagingBytes, 1 + consumer, 0};
    uint32_t parity = 0;
    for (int32_t unit = first; unit < units; unit += step) {
      float sum[kShortTileN / 2];
      int before = 0;
      for (int32_t tile = 0; tile < k_tiles; ++tile) {
        ptx::mbarrier_wait(full + 8 * stage, parity);
        ptx::mbarrier_wait(panel_full + 8 * tile, 0);
        const uint64_t a = descriptor(ring + stage * kBox, true);
        const uint64_t b = descriptor(panel + tile * bytes_b(kShortTileN), kInnerB);
        pin(sum);
        ptx::wgmma_fence();
#pragma unroll
        for (int s = 0; s < kTileK / 16; ++s)
          Wgmma<T, kShortTileN, 0, !kInnerB>::run(sum, a + s * descriptor_step(true), b + s * descriptor_step(kInnerB),
                                                  tile > 0 || s > 0);
        ptx::wgmma_commit();
        pin(sum);
        ptx::wgmma_wait<1>();
        if (tile > 0 && thread == 0) ptx::mbarrier_arrive(empty + 8 * before);
        before = stage;
        if (++stage == kShortStages) stage = 0, parity ^= 1;
      }
      ptx::wgmma_wait<0>();
      if (thread == 0) ptx::mbarrier_arrive(empty + 8 * before);
      pin(sum);
      write_rows<T, kShortBuffers>(p, sum, {unit * kShortRows, col, 0}, &outlet);
    }
    if (thread == 0) ptx::bulk_wait_read<0>();
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

// How the result leaves: where it goes, by which epilogue, by which map.
inline bool describe_result(Arguments *arguments, const gpu::ProductPlan &p, const Target &target) {
  const int64_t rows = p.work.c.rows, cols = p.work.c.cols, size = size_of(target.type);
  arguments->target = target;
  arguments->rows = rows;
  arguments->cols = cols;
  // Where TMA cannot add, single additions that return nothing do: still one an element.
  if (!p.stores_boxes && target.add && target.type == DType::f32) arguments->target.atomic = true;
  arguments->epilogue = !p.stores_boxes               ? Epilogue::kElements
                        : target.add || target.atomic ? Epilogue::kReduceAdd
                                                      : Epilogue::kStore;
  if (!p.stores_boxes) return true;
  // A single line's stride means nothing; TMA wants a lawful one.
  const auto pitch = [&](int64_t lines, int64_t line, int64_t stride) {
    return lines == 1 ? (line * size + 15) / 16 * 16 / size : stride;
  };
  if (p.turned)
    return encode(&arguments->c, target.type, target.data, rows, cols, 1, pitch(cols, rows, target.col_stride), 0, 64,
                  kTurnedColumns);
  const int64_t slices = target.slice_stride > 0 ? p.split : 1;
  return encode(&arguments->c, target.type, target.data, cols, rows, slices, pitch(rows, cols, target.row_stride),
                target.slice_stride, 128 / static_cast<int>(size), 64);
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

// Tiles of 160 columns: the contraction of the columns' operand is inner.
template <typename T>
Variant turned_variant(bool inner_a) {
  static_assert(shared_bytes(160, false) <= kMostShared, "a block's shared memory is too large");
  static std::atomic<uint64_t> devices[2];
  return {inner_a ? reinterpret_cast<const void *>(hopper_kernel<T, true, true, 160, false>)
                  : reinterpret_cast<const void *>(hopper_kernel<T, false, true, 160, false>),
          shared_bytes(160, false), &devices[inner_a]};
}

// Short contractions: that of the rows' operand is inner.
template <typename T>
Variant short_variant(bool inner_b) {
  static_assert(kShortShared <= kMostShared, "a block's shared memory is too large");
  static std::atomic<uint64_t> devices[2];
  return {inner_b ? reinterpret_cast<const void *>(short_kernel<T, true>)
                  : reinterpret_cast<const void *>(short_kernel<T, false>),
          kShortShared, &devices[inner_b]};
}

template <typename T>
cudaError_t product(const gpu::ProductPlan &p, const TiledOperand &a, const TiledOperand &b, const Target &target,
                    cudaStream_t stream) {
  const Product &w = p.work;
  const int64_t rows = w.c.rows, cols = w.c.cols, contraction = w.contraction();
  const DType type = w.a.type;
  Arguments arguments;
  arguments.contraction = contraction;
  arguments.chunk = p.chunk;
  arguments.tiles_m = static_cast<int32_t>(p.tiles_m);
  arguments.tiles_n = static_cast<int32_t>(p.tiles_n);
  arguments.units = arguments.tiles_m * arguments.tiles_n * p.split;
  const int64_t last_slice = (contraction + p.chunk - 1) / p.chunk - 1;
  arguments.last_slice = static_cast<int32_t>(last_slice);
  const int64_t last_length = contraction - last_slice * p.chunk;
  const bool is_short = p.keeps_columns && p.tile_n == kShortTileN;
  if (!encode_operand(&arguments.a, &arguments.a_last, type, a, rows, p.chunk, last_slice, last_length,
                      is_short ? kShortRows : kTileM) ||
      !encode_operand(&arguments.b, &arguments.b_last, type, b, cols, p.chunk, last_slice, last_length, p.tile_n) ||
      !describe_result(&arguments, p, target))
    return cudaErrorInvalidValue;
  arguments.band = p.band;
  arguments.fetch_old = p.fetch_old && arguments.epilogue == Epilogue::kReduceAdd;

  const bool inner_a = a.contraction_inner, inner_b = b.contraction_inner;
  const Variant chosen = is_short          ? short_variant<T>(inner_b)
                         : p.turned        ? turned_variant<T>(inner_a)
                         : p.tile_n == 64  ? variant<T, 64, false>(inner_a, inner_b)
                         : p.tile_n == 256 ? variant<T, 256, false>(inner_a, inner_b)
                         : p.keeps_columns ? variant<T, 128, true>(inner_a, inner_b)
                                           : variant<T, 128, false>(inner_a, inner_b);
  const cudaError_t error = allow_shared(chosen.kernel, chosen.shared_bytes, chosen.devices);
  if (error != cudaSuccess) return error;
  void *pointers[] = {&arguments};
  return launch(chosen.kernel, dim3(static_cast<unsigned>(p.blocks)), dim3(kThreads), chosen.shared_bytes, stream,
                pointers, p.early);
}

}  // namespace hopper
}  // namespace cuda
}  // namespace dxdw
