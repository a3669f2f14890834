// C[m,n] = or += sum over k of A[m,k] . B[k,n] for 16-bit operands, on the tensor cores through mma.sync
// (capability 8.0 and newer), for every stride. Products are exact, sums float32.
//
// A block owns a tile of 128 x 128 of C and walks k in steps of 32 through a ring of four stages in shared memory, by
// eight warps, two by four, of 64 x 32 each. Small products, whose time is that of the way to memory and back, have a
// kernel of their own: tiles of 32 x 32 by four warps of 16 x 16, all of k and the old values of C asked for at once,
// the launch overlapping the end of the kernel before it. Warps multiply by m16n8k16, k in rising order, so that both
// give the same bits. An operand's stage keeps the direction that is contiguous in memory: k ("inner") or the other;
// ldmatrix reads both, transposing where it must. Chunks of 16 bytes are swizzled so that the eight lines that one
// ldmatrix phase reads lie in different banks, c being the chunk:
//   large, contraction inner: line r of 32 k = 4 chunks     c stands at c ^ (r / 2 % 4)
//   large, contraction outer: line k of 128 = 16 chunks     c stands at c ^ (k % 8)
//   small, contraction inner: line r of 64 k = 8 chunks     c stands at c ^ (r % 8)
//   small, contraction outer: line k of 32 = 4 chunks       c stands at c ^ (k / 2 % 4)
// Lines that start on 16 bytes arrive by chunks, of which those that are not whole and all other lines come element by
// element: nothing outside an operand is read. Both ways give the same bits.
#include "tiled.cuh"

namespace dxdw {
namespace cuda {

namespace {

struct Large {
  static constexpr int kTile = 128;
  static constexpr int kStep = 32;  // of k, a stage
  static constexpr int kThreads = 256;
  static constexpr int kStages = 4;  // three steps of loads in flight
  static constexpr int kAhead = 8;   // elements, where they come one by one
};
struct Small {
  static constexpr int kTile = 32;
  static constexpr int kStep = 64;
  static constexpr int kThreads = 128;
  static constexpr int kStages = gpu::kMostSmallContraction / kStep;
  static constexpr int kAhead = 16;
};

template <typename S>
constexpr int kOperandBytes = S::kTile *S::kStep * 2;  // of a stage
template <typename S>
constexpr int kStageBytes = 2 * kOperandBytes<S>;

__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared));
}

__device__ __forceinline__ void load_matrices_transposed(uint32_t (&r)[4], uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared));
}

template <typename T>
__device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

template <>
__device__ __forceinline__ void multiply<__nv_bfloat16>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                                        uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void multiply<__half>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Fills one operand's stages, step after step, with lines [first_line, +tile) and some k each; what lies outside is 0. A
// thread's chunks, or elements, are the same in every step, so that addresses only advance.
template <bool kInner, typename S>
struct Filler {
  static constexpr int kLineChunks = (kInner ? S::kStep : S::kTile) / 8;  // of a line of a stage
  static constexpr int kPitch = kLineChunks * 16;                         // bytes of it
  static constexpr int kChunks = kOperandBytes<S> / 16 / S::kThreads;     // of a thread
  static constexpr int kElements = S::kTile * S::kStep / S::kThreads;     // of a thread
  // From one chunk, or element, of a thread to its next: lines where k is inner, k where it is not.
  static constexpr int kChunkHop = S::kThreads / kLineChunks;
  static constexpr int kElementHop = S::kThreads / (kLineChunks * 8);

  const uint16_t *at;
  int64_t hop, advance;
  int line, k;                  // of the first, in the tile and the step
  int lines_left;               // from `line` on
  bool by_chunks, whole_lines;  // by chunks, of lines that are all inside

  __device__ __forceinline__ Filler(const StridedOperand &o, bool chunks, int64_t first_line, int64_t first_k)
      : by_chunks(chunks) {
    const int thread = threadIdx.x;
    if (by_chunks) {
      line = kInner ? thread / kLineChunks : thread % kLineChunks * 8;
      k = kInner ? thread % kLineChunks * 8 : thread / kLineChunks;
    } else {
      line = kInner ? thread / S::kStep : thread % S::kTile;
      k = kInner ? thread % S::kStep : thread / S::kTile;
    }
    at = reinterpret_cast<const uint16_t *>(o.data) + (first_line + line) * o.line_stride + (first_k + k) * o.k_stride;
    hop = (by_chunks ? kChunkHop : kElementHop) * (kInner ? o.line_stride : o.k_stride);
    advance = S::kStep * o.k_stride;
    lines_left = static_cast<int>(max(int64_t{0}, min(int64_t{S::kTile}, o.lines - first_line - line)));
    whole_lines = by_chunks && o.lines - first_line >= S::kTile;
  }

  // Not 0, and known only when all is that a fill starts from.
  __device__ __forceinline__ int64_t ready() const {
    return reinterpret_cast<int64_t>(at) | hop | advance | lines_left | line | k;
  }

  // Byte offset, in a stage, of the 16-byte chunk that holds (line, k) and follows the contiguous direction.
  __device__ __forceinline__ static int offset(int line, int k) {
    const int chunk = kInner ? k / 8 : line / 8, row = kInner ? line : k;
    return row * kPitch + (chunk ^ (kLineChunks >= 8 ? row % 8 : row / 2 % 4)) * 16;
  }

  // Past the registers, if all of the chunk lies inside. Else what does is read at once and the rest is 0; the barrier
  // behind the wait for the other copies orders these writes too.
  __device__ __forceinline__ static void copy_chunk(uint32_t to, const uint16_t *from, int inside) {
    if (inside == 8) {
      copy_async_16(to, from);
      return;
    }
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t low = 2 * i < inside ? from[2 * i] : 0, high = 2 * i + 1 < inside ? from[2 * i + 1] : 0;
      words[i] = low | high << 16;
    }
    ptx::store_shared(to, make_uint4(words[0], words[1], words[2], words[3]));
  }

  __device__ __forceinline__ void fill(uint32_t stage, int64_t step_left) {
    const int k_left = static_cast<int>(min(int64_t{S::kStep}, step_left)) - k;
    if (whole_lines && step_left >= S::kStep) {
#pragma unroll
      for (int i = 0; i < kChunks; ++i) copy_async_16(stage + offset(line, k) + i * kChunkHop * kPitch, at + i * hop);
    } else if (by_chunks) {
      const uint32_t to = stage + offset(line, k);
      // Neighbours of a chunk that lie inside.
      const int inside = max(0, min(8, kInner ? k_left : lines_left));
#pragma unroll
      for (int i = 0; i < kChunks; ++i)
        copy_chunk(to + i * kChunkHop * kPitch, at + i * hop,
                   i * kChunkHop < (kInner ? lines_left : k_left) ? inside : 0);
    } else {
#pragma unroll 1
      for (int first = 0; first < kElements; first += S::kAhead) {
        uint16_t values[S::kAhead];
#pragma unroll
        for (int i = 0; i < S::kAhead; ++i) {
          const int reach = (first + i) * kElementHop;
          const bool inside = kInner ? reach < lines_left && k_left > 0 : lines_left > 0 && reach < k_left;
          values[i] = inside ? at[(first + i) * hop] : uint16_t{0};
        }
#pragma unroll
        for (int i = 0; i < S::kAhead; ++i) {
          const int reach = (first + i) * kElementHop;
          const int to_line = kInner ? line + reach : line, to_k = kInner ? k : k + reach;
          const uint32_t to = stage + offset(to_line, to_k) + (kInner ? to_k % 8 : to_line % 8) * 2;
          asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(values[i]) : "memory");
        }
      }
    }
    at += advance;
  }

  // The one stage of a small product, whole chunks, by way of registers.
  __device__ __forceinline__ void load(uint4 (&words)[kChunks]) const {
#pragma unroll
    for (int i = 0; i < kChunks; ++i) words[i] = *reinterpret_cast<const uint4 *>(at + i * hop);
  }
  __device__ __forceinline__ void store(uint32_t stage, const uint4 (&words)[kChunks]) const {
#pragma unroll
    for (int i = 0; i < kChunks; ++i) ptx::store_shared(stage + offset(line, k) + i * kChunkHop * kPitch, words[i]);
  }
};

// A fragment of A: matrices (rows 0-7, k 0-7), (rows 8-15, k 0-7), (rows 0-7, k 8-15), (rows 8-15, k 8-15).
template <typename Filler, bool kInner>
__device__ __forceinline__ void load_rows(uint32_t (&r)[4], uint32_t stage, int row, int k) {
  const int lane = threadIdx.x % 32;
  if (kInner)
    load_matrices(r, stage + Filler::offset(row + lane % 16, k + lane / 16 * 8));
  else
    load_matrices_transposed(r, stage + Filler::offset(row + lane / 8 % 2 * 8, k + lane / 16 * 8 + lane % 8));
}

// Fragments of B for two groups of eight columns: (k 0-7), (k 8-15) of the first, then of the second.
template <typename Filler, bool kInner>
__device__ __forceinline__ void load_columns(uint32_t (&r)[4], uint32_t stage, int col, int k) {
  const int lane = threadIdx.x % 32;
  if (kInner)
    load_matrices(r, stage + Filler::offset(col + lane / 16 * 8 + lane % 8, k + lane / 8 % 2 * 8));
  else
    load_matrices_transposed(r, stage + Filler::offset(col + lane / 16 * 8, k + lane % 16));
}

// A slice may start off 16 bytes where the contraction is the contiguous direction.
__device__ __forceinline__ bool has_chunks(const StridedOperand &o, bool inner, const TileUnit &u) {
  return o.aligned && (!inner || u.first_k % 8 == 0);
}

template <typename T, bool kInnerA, bool kInnerB>
__global__ void __launch_bounds__(Large::kThreads, 1) mma_kernel(const TiledArguments p) {
  constexpr int kBlocks = 4, kWarpsN = 4;  // blocks of 16 rows, and of 8 columns, of a warp; warps side by side
  constexpr int kStep = Large::kStep, kStages = Large::kStages;
  using FillerA = Filler<kInnerA, Large>;
  using FillerB = Filler<kInnerB, Large>;
  extern __shared__ __align__(128) char shared[];
  const uint32_t base = ptx::shared_address(shared);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_m = warp / kWarpsN * (16 * kBlocks), warp_n = warp % kWarpsN * (8 * kBlocks);

  for (int64_t unit = blockIdx.x; unit < p.units; unit += gridDim.x) {
    const TileUnit u = tile_unit<Large::kTile, Large::kTile>(p, unit);
    const int64_t steps = (u.length + kStep - 1) / kStep;
    FillerA fill_a(p.a, has_chunks(p.a, kInnerA, u), u.row0, u.first_k);
    FillerB fill_b(p.b, has_chunks(p.b, kInnerB, u), u.col0, u.first_k);
    const auto load = [&](int64_t step) {
      if (step < steps) {
        const uint32_t stage = base + static_cast<int>(step % kStages) * kStageBytes<Large>;
        fill_a.fill(stage, u.length - step * kStep);
        fill_b.fill(stage + kOperandBytes<Large>, u.length - step * kStep);
      }
      copy_async_commit();
    };

    for (int step = 0; step < kStages - 1; ++step) load(step);
    float sum[kBlocks][kBlocks][4] = {};
    for (int64_t step = 0; step < steps; ++step) {
      copy_async_wait<kStages - 2>();
      __syncthreads();
      load(step + kStages - 1);  // into the stage that the step before has left
      const uint32_t stage_a = base + static_cast<int>(step % kStages) * kStageBytes<Large>,
                     stage_b = stage_a + kOperandBytes<Large>;
#pragma unroll
      for (int k = 0; k < kStep; k += 16) {
        uint32_t a[kBlocks][4];
#pragma unroll
        for (int i = 0; i < kBlocks; ++i) load_rows<FillerA, kInnerA>(a[i], stage_a, warp_m + i * 16, k);
        uint32_t b[kBlocks / 2][4];
#pragma unroll
        for (int j = 0; j < kBlocks / 2; ++j) load_columns<FillerB, kInnerB>(b[j], stage_b, warp_n + j * 16, k);
#pragma unroll
        for (int i = 0; i < kBlocks; ++i)
#pragma unroll
          for (int j = 0; j < kBlocks; ++j) multiply<T>(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
      }
    }
    // The next unit's first loads reuse stages that other warps may still read.
    copy_async_wait<0>();
    __syncthreads();

#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        int64_t elements[2 * kBlocks];
        bool inside[2 * kBlocks];
        float values[2 * kBlocks];
#pragma unroll
        for (int j = 0; j < kBlocks; ++j)
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int64_t row = u.row0 + warp_m + i * 16 + half * 8 + lane / 4;
            const int64_t col = u.col0 + warp_n + j * 8 + lane % 4 * 2 + e;
            elements[2 * j + e] = u.slice * p.c.slice_stride + row * p.c.row_stride + col * p.c.col_stride;
            inside[2 * j + e] = row < p.a.lines && col < p.b.lines;
            values[2 * j + e] = sum[i][j][half * 2 + e];
          }
        put(p.c.data, p.c.type, elements, inside, values, p.c.add, p.c.atomic);
      }
  }
}

// One tile a block. What stands between the wait for the kernel before and the first loads is pinned in front of it.
template <typename T, bool kInnerA, bool kInnerB>
__global__ void __launch_bounds__(Small::kThreads) mma_small_kernel(const TiledArguments p) {
  constexpr int kBlocks = 2;  // of 8 columns, a warp
  using FillerA = Filler<kInnerA, Small>;
  using FillerB = Filler<kInnerB, Small>;
  extern __shared__ __align__(128) char shared[];
  const uint32_t base = ptx::shared_address(shared);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_m = warp / 2 * 16, warp_n = warp % 2 * (8 * kBlocks);
  const TileUnit u = tile_of_block<Small::kTile>(p);
  const int length = static_cast<int>(u.length);
  FillerA fill_a(p.a, has_chunks(p.a, kInnerA, u), u.row0, u.first_k);
  FillerB fill_b(p.b, has_chunks(p.b, kInnerB, u), u.col0, u.first_k);
  const bool one_stage = length == Small::kStep && fill_a.by_chunks && fill_b.by_chunks &&
                         p.a.lines - u.row0 >= Small::kTile && p.b.lines - u.col0 >= Small::kTile;

  // A thread's results: rows lane / 4 and eight below, pairs of columns eight apart.
  const int64_t row = u.row0 + warp_m + lane / 4, col = u.col0 + warp_n + lane % 4 * 2;
  const int64_t first = u.slice * p.c.slice_stride + row * p.c.row_stride + col * p.c.col_stride;
  const int64_t half_hop = 8 * p.c.row_stride, block_hop = 8 * p.c.col_stride, col_stride = p.c.col_stride;
  const int rows_left = static_cast<int>(min(int64_t{Small::kTile}, p.a.lines - row)),
            cols_left = static_cast<int>(min(int64_t{Small::kTile}, p.b.lines - col));
  const bool reads = p.c.add && !p.c.atomic;
  const bool pairs = p.c.type == DType::f32 && !p.c.atomic && p.c.col_stride == 1 && p.c.row_stride % 2 == 0 &&
                     p.c.slice_stride % 2 == 0 && reinterpret_cast<uintptr_t>(p.c.data) % 8 == 0 && p.b.lines % 2 == 0;
  float *const floats = reinterpret_cast<float *>(p.c.data) + first;
  ptx::wait_for_kernel_before(fill_a.ready() | fill_b.ready() | reinterpret_cast<int64_t>(floats) | half_hop |
                              rows_left | cols_left | pairs | reads | one_stage);
  ptx::let_next_kernel_start();

  uint4 words_a[FillerA::kChunks], words_b[FillerB::kChunks];
  if (one_stage) {
    fill_a.load(words_a);
    fill_b.load(words_b);
  } else {
    uint32_t stage = base;
    for (int left = length; left > 0; left -= Small::kStep, stage += kStageBytes<Small>) {
      fill_a.fill(stage, left);
      fill_b.fill(stage + kOperandBytes<Small>, left);
    }
    copy_async_commit();
  }
  float old[2][kBlocks][2] = {};
  if (reads) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int j = 0; j < kBlocks; ++j) {
        if (8 * half >= rows_left || 8 * j >= cols_left) continue;
        if (pairs) {
          const float2 two = *reinterpret_cast<const float2 *>(floats + half * half_hop + 8 * j);
          old[half][j][0] = two.x, old[half][j][1] = two.y;
          continue;
        }
#pragma unroll
        for (int e = 0; e < 2; ++e)
          if (8 * j + e < cols_left)
            old[half][j][e] = load_any(p.c.data, p.c.type, first + half * half_hop + j * block_hop + e * col_stride);
      }
  }
  if (one_stage) {
    fill_a.store(base, words_a);
    fill_b.store(base + kOperandBytes<Small>, words_b);
  } else {
    copy_async_wait<0>();
  }
  __syncthreads();

  float sum[kBlocks][4] = {};
  uint32_t stage = base;
#pragma unroll 1
  for (int left = length; left > 0; left -= Small::kStep, stage += kStageBytes<Small>) {
#pragma unroll
    for (int k = 0; k < Small::kStep; k += 16) {
      uint32_t a[4], b[4];
      load_rows<FillerA, kInnerA>(a, stage, warp_m, k);
      load_columns<FillerB, kInnerB>(b, stage + kOperandBytes<Small>, warp_n, k);
#pragma unroll
      for (int j = 0; j < kBlocks; ++j) multiply<T>(sum[j], a, b[2 * j], b[2 * j + 1]);
    }
  }

#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) {
      if (8 * half >= rows_left || 8 * j >= cols_left) continue;
      float values[] = {sum[j][2 * half], sum[j][2 * half + 1]};
      if (reads) values[0] = old[half][j][0] + values[0], values[1] = old[half][j][1] + values[1];
      if (pairs) {
        *reinterpret_cast<float2 *>(floats + half * half_hop + 8 * j) = make_float2(values[0], values[1]);
        continue;
      }
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (8 * j + e >= cols_left) continue;
        const int64_t element = first + half * half_hop + j * block_hop + e * col_stride;
        if (p.c.atomic)
          atomicAdd(reinterpret_cast<float *>(p.c.data) + element, values[e]);
        else
          store_any(p.c.data, p.c.type, element, values[e]);
      }
    }
}

// The kernels for operands with inner and outer contractions, and the devices that know of them.
struct Kernels {
  const void *mixes[4];
  std::atomic<uint64_t> devices[4];
};

template <typename T>
Kernels large = {{reinterpret_cast<const void *>(mma_kernel<T, false, false>),
                  reinterpret_cast<const void *>(mma_kernel<T, false, true>),
                  reinterpret_cast<const void *>(mma_kernel<T, true, false>),
                  reinterpret_cast<const void *>(mma_kernel<T, true, true>)},
                 {}};
template <typename T>
Kernels small = {{reinterpret_cast<const void *>(mma_small_kernel<T, false, false>),
                  reinterpret_cast<const void *>(mma_small_kernel<T, false, true>),
                  reinterpret_cast<const void *>(mma_small_kernel<T, true, false>),
                  reinterpret_cast<const void *>(mma_small_kernel<T, true, true>)},
                 {}};

template <typename T>
cudaError_t launch_typed(const gpu::ProductPlan &p, TiledArguments *arguments, cudaStream_t stream) {
  const bool is_small = p.tile_m == Small::kTile;
  Kernels &kernels = is_small ? small<T> : large<T>;
  const int mix = 2 * p.a.contraction_inner + p.b.contraction_inner;
  const int most_bytes = is_small ? Small::kStages * kStageBytes<Small> : Large::kStages * kStageBytes<Large>;
  const cudaError_t error = allow_shared(kernels.mixes[mix], most_bytes, &kernels.devices[mix]);
  if (error != cudaSuccess) return error;
  void *pointers[] = {arguments};
  if (!is_small)
    return launch(kernels.mixes[mix], dim3(static_cast<unsigned>(p.blocks)), dim3(Large::kThreads),
                  static_cast<size_t>(most_bytes), stream, pointers);
  const int64_t stages = (p.chunk + Small::kStep - 1) / Small::kStep;
  return launch(kernels.mixes[mix], grid_of_tiles(p), dim3(Small::kThreads),
                static_cast<size_t>(stages * kStageBytes<Small>), stream, pointers, p.overlap);
}

}  // namespace

cudaError_t product_mma(const gpu::ProductPlan &p, const Target &target, cudaStream_t stream) {
  // A single line's stride may be anything; no chunk leaves it, so any stride will do for the address.
  TiledArguments arguments = tiled_arguments(p, target);
  return p.work.a.type == DType::f16 ? launch_typed<__half>(p, &arguments, stream)
                                     : launch_typed<__nv_bfloat16>(p, &arguments, stream);
}

}  // namespace cuda
}  // namespace dxdw
