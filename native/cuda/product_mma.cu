// C[m,n] = or += sum over k of A[m,k] . B[k,n] for 16-bit operands, on the tensor cores through mma.sync
// (capability 8.0 and newer), for every stride. Products are exact, sums float32.
//
// A block owns a tile of C and walks k in steps of 32 through a ring of four stages in shared memory: 128 x 128 by
// eight warps, two by four, of 64 x 32 each; or, for small products, whose time is that of the way to memory and back,
// 32 x 32 by four warps of 16 x 16, with the old values of C asked for in front and the launch overlapping the end of
// the kernel before it. Warps multiply by m16n8k16, k in rising order, so that both tiles give the same bits. An
// operand's stage keeps the direction that is contiguous in memory: k ("inner") or the other; ldmatrix reads both,
// transposing where it must. Chunks of 16 bytes are swizzled so that the eight lines that one ldmatrix phase reads lie
// in different banks, c being the chunk:
//   contraction inner: line r of 32 k = 4 chunks                   c stands at c ^ (r / 2 % 4)
//   contraction outer: line k of 128 = 16 chunks, or of 32 = 4     c stands at c ^ (k % 8), or c ^ (k / 2 % 4)
// Lines that start on 16 bytes arrive by cp.async; all others element by element. Both ways give the same bits.
#include "tiled.cuh"

namespace dxdw {
namespace cuda {

namespace {

constexpr int kStep = 32;   // of k
constexpr int kStages = 4;  // three steps of loads in flight

template <int kTileOfC>
struct Shape {
  static constexpr int kTile = kTileOfC;
  static constexpr bool kSmall = kTile == 32;
  static constexpr int kThreads = kSmall ? 128 : 256;
  static constexpr int kWarpsN = kSmall ? 2 : 4;
  static constexpr int kBlocksM = kSmall ? 1 : 4;  // of 16 rows, a warp
  static constexpr int kBlocksN = kSmall ? 2 : 4;  // of 8 columns, a warp
  static constexpr int kOperandBytes = kTile * kStep * 2;
  static constexpr int kStageBytes = 2 * kOperandBytes;
  static constexpr int kSharedBytes = kStages * kStageBytes;
};

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

// Byte offset, in an operand's stage, of the 16-byte chunk that holds (line, k) and follows the contiguous direction.
template <bool kInner, int kTile>
__device__ __forceinline__ int chunk_offset(int line, int k) {
  if (kInner) return line * 64 + ((k / 8) ^ (line / 2 % 4)) * 16;
  return kTile == 128 ? k * 256 + ((line / 8) ^ (k % 8)) * 16 : k * 64 + ((line / 8) ^ (k / 2 % 4)) * 16;
}

// Fills one operand's stages, step after step, with lines [first_line, +tile) and 32 k each; what lies outside is 0. A
// thread's chunks, or elements, are the same in every step, so that addresses only advance.
template <bool kInner, typename S>
struct Filler {
  static constexpr int kTile = S::kTile, kThreads = S::kThreads;
  static constexpr int kChunks = S::kOperandBytes / 16 / kThreads;  // of a thread
  static constexpr int kElements = kTile * kStep / kThreads;        // of a thread
  // From one chunk, or element, of a thread to its next: lines where k is inner, k where it is not.
  static constexpr int kChunkHop = kInner ? kThreads / 4 : kThreads / (kTile / 8);
  static constexpr int kElementHop = kInner ? kThreads / kStep : kThreads / kTile;

  const uint16_t *any, *at;
  int64_t hop, advance;
  int line, k;     // of the first, in the tile and the step
  int lines_left;  // from `line` on
  bool by_chunks;

  __device__ Filler(const StridedOperand &o, bool chunks, int64_t first_line, int64_t first_k) : by_chunks(chunks) {
    const int thread = threadIdx.x;
    if (by_chunks) {
      line = kInner ? thread / 4 : thread % (kTile / 8) * 8;
      k = kInner ? thread % 4 * 8 : thread / (kTile / 8);
    } else {
      line = kInner ? thread / kStep : thread % kTile;
      k = kInner ? thread % kStep : thread / kTile;
    }
    any = reinterpret_cast<const uint16_t *>(o.data);
    at = any + (first_line + line) * o.line_stride + (first_k + k) * o.k_stride;
    hop = (by_chunks ? kChunkHop : kElementHop) * (kInner ? o.line_stride : o.k_stride);
    advance = kStep * o.k_stride;
    lines_left = static_cast<int>(max(int64_t{0}, min(int64_t{kTile}, o.lines - first_line - line)));
  }

  // Not 0, and known only when all is that a fill starts from.
  __device__ __forceinline__ int64_t ready() const {
    return reinterpret_cast<int64_t>(at) | hop | advance | lines_left | line | k;
  }

  __device__ __forceinline__ void fill(char *stage, int64_t step_left) {
    const int k_left = static_cast<int>(min(int64_t{kStep}, step_left)) - k;
    if (by_chunks) {
      const uint32_t to = ptx::shared_address(stage) + chunk_offset<kInner, kTile>(line, k);
      // Neighbours of a chunk that lie inside.
      const int inside = max(0, min(8, kInner ? k_left : lines_left));
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        const int bytes = i * kChunkHop < (kInner ? lines_left : k_left) ? inside * 2 : 0;
        copy_async_16(to + i * kChunkHop * (kInner ? 64 : kTile * 2), bytes == 0 ? any : at + i * hop, bytes);
      }
    } else {
      constexpr int kAhead = 8;
#pragma unroll 1
      for (int first = 0; first < kElements; first += kAhead) {
        uint16_t values[kAhead];
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
          const int reach = (first + i) * kElementHop;
          const bool inside = kInner ? reach < lines_left && k_left > 0 : lines_left > 0 && reach < k_left;
          values[i] = inside ? at[(first + i) * hop] : uint16_t{0};
        }
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
          const int reach = (first + i) * kElementHop;
          const int to_line = kInner ? line + reach : line, to_k = kInner ? k : k + reach;
          *reinterpret_cast<uint16_t *>(stage + chunk_offset<kInner, kTile>(to_line, to_k) +
                                        (kInner ? to_k % 8 : to_line % 8) * 2) = values[i];
        }
      }
    }
    at += advance;
  }
};

template <typename T, bool kInnerA, bool kInnerB, int kTileOfC>
__global__ void __launch_bounds__(Shape<kTileOfC>::kThreads, 1) mma_kernel(const TiledArguments p) {
  using S = Shape<kTileOfC>;
  constexpr int kTile = S::kTile, kM = S::kBlocksM, kN = S::kBlocksN;
  extern __shared__ __align__(128) char shared[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_m = warp / S::kWarpsN * (16 * kM), warp_n = warp % S::kWarpsN * (8 * kN);

  // A block has one small tile, or walks from large tile to large tile.
  for (int64_t unit = S::kSmall ? 0 : blockIdx.x; unit < (S::kSmall ? 1 : p.units); unit += gridDim.x) {
    const TileUnit u = S::kSmall ? tile_of_block<kTile>(p) : tile_unit<kTile, kTile>(p, unit);
    const int64_t steps = (u.length + kStep - 1) / kStep;
    // A slice may start off 16 bytes where the contraction is the contiguous direction.
    const bool chunks_a = p.a.aligned && (!kInnerA || u.first_k % 8 == 0);
    const bool chunks_b = p.b.aligned && (!kInnerB || u.first_k % 8 == 0);

    Filler<kInnerA, S> fill_a(p.a, chunks_a, u.row0, u.first_k);
    Filler<kInnerB, S> fill_b(p.b, chunks_b, u.col0, u.first_k);
    const auto load = [&](int64_t step) {
      if (step < steps) {
        char *stage = shared + static_cast<int>(step % kStages) * S::kStageBytes;
        fill_a.fill(stage, u.length - step * kStep);
        fill_b.fill(stage + S::kOperandBytes, u.length - step * kStep);
      }
      copy_async_commit();
    };
    // Element (i, half, j, e) of a thread's part of the tile.
    const auto row_of = [&](int i, int half) { return u.row0 + warp_m + i * 16 + half * 8 + lane / 4; };
    const auto col_of = [&](int j, int e) { return u.col0 + warp_n + j * 8 + lane % 4 * 2 + e; };
    const auto element_of = [&](int64_t row, int64_t col) {
      return u.slice * p.c.slice_stride + row * p.c.row_stride + col * p.c.col_stride;
    };
    const auto is_inside = [&](int64_t row, int64_t col) { return row < p.a.lines && col < p.b.lines; };

    if (S::kSmall) {
      ptx::wait_for_kernel_before(fill_a.ready() | fill_b.ready());
      ptx::let_next_kernel_start();
    }
    for (int step = 0; step < kStages - 1; ++step) load(step);
    float old[2][kN][2] = {};  // of a small tile
    if (S::kSmall && p.c.add && !p.c.atomic) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int j = 0; j < kN; ++j)
#pragma unroll
          for (int e = 0; e < 2; ++e)
            if (is_inside(row_of(0, half), col_of(j, e)))
              old[half][j][e] = load_any(p.c.data, p.c.type, element_of(row_of(0, half), col_of(j, e)));
    }
    float sum[kM][kN][4] = {};
    for (int64_t step = 0; step < steps; ++step) {
      copy_async_wait<kStages - 2>();
      __syncthreads();
      load(step + kStages - 1);  // into the stage that the step before has left
      const char *stage_a = shared + static_cast<int>(step % kStages) * S::kStageBytes,
                 *stage_b = stage_a + S::kOperandBytes;
#pragma unroll
      for (int k = 0; k < kStep; k += 16) {
        // Fragments of A: matrices (rows 0-7, k 0-7), (rows 8-15, k 0-7), (rows 0-7, k 8-15), (rows 8-15, k 8-15).
        uint32_t a[kM][4];
#pragma unroll
        for (int i = 0; i < kM; ++i) {
          if (kInnerA) {
            const int line = warp_m + i * 16 + lane % 16;
            load_matrices(a[i], ptx::shared_address(stage_a + chunk_offset<true, kTile>(line, k + lane / 16 * 8)));
          } else {
            const int line = warp_m + i * 16 + lane / 8 % 2 * 8, at = k + lane / 16 * 8 + lane % 8;
            load_matrices_transposed(a[i], ptx::shared_address(stage_a + chunk_offset<false, kTile>(line, at)));
          }
        }
        // Fragments of B for two groups of eight columns: (k 0-7), (k 8-15) of the first, then of the second.
        uint32_t b[kN / 2][4];
#pragma unroll
        for (int j = 0; j < kN / 2; ++j) {
          if (kInnerB) {
            const int line = warp_n + j * 16 + lane / 16 * 8 + lane % 8;
            load_matrices(b[j], ptx::shared_address(stage_b + chunk_offset<true, kTile>(line, k + lane / 8 % 2 * 8)));
          } else {
            const int line = warp_n + j * 16 + lane / 16 * 8, at = k + lane % 16;
            load_matrices_transposed(b[j], ptx::shared_address(stage_b + chunk_offset<false, kTile>(line, at)));
          }
        }
#pragma unroll
        for (int i = 0; i < kM; ++i)
#pragma unroll
          for (int j = 0; j < kN; ++j) multiply<T>(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
      }
    }
    // The next unit's first loads reuse stages that other warps may still read.
    copy_async_wait<0>();
    __syncthreads();

#pragma unroll
    for (int i = 0; i < kM; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        int64_t elements[2 * kN];
        bool inside[2 * kN];
        float values[2 * kN];
#pragma unroll
        for (int j = 0; j < kN; ++j)
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int64_t row = row_of(i, half), col = col_of(j, e);
            elements[2 * j + e] = element_of(row, col);
            inside[2 * j + e] = is_inside(row, col);
            values[2 * j + e] = sum[i][j][half * 2 + e];
            if (S::kSmall && !p.c.atomic)
              values[2 * j + e] = p.c.add ? old[half][j][e] + values[2 * j + e] : values[2 * j + e];
          }
        put(p.c.data, p.c.type, elements, inside, values, p.c.add && !S::kSmall, p.c.atomic);
      }
  }
}

template <typename T, int kTile>
const void *kernel_for(bool inner_a, bool inner_b) {
  if (inner_a)
    return inner_b ? reinterpret_cast<const void *>(mma_kernel<T, true, true, kTile>)
                   : reinterpret_cast<const void *>(mma_kernel<T, true, false, kTile>);
  return inner_b ? reinterpret_cast<const void *>(mma_kernel<T, false, true, kTile>)
                 : reinterpret_cast<const void *>(mma_kernel<T, false, false, kTile>);
}

template <int kTile>
cudaError_t launch_tiles(const gpu::ProductPlan &p, TiledArguments *arguments, cudaStream_t stream) {
  using S = Shape<kTile>;
  const bool inner_a = p.a.contraction_inner, inner_b = p.b.contraction_inner, is_f16 = p.work.a.type == DType::f16;
  const void *kernel =
      is_f16 ? kernel_for<__half, kTile>(inner_a, inner_b) : kernel_for<__nv_bfloat16, kTile>(inner_a, inner_b);
  static std::atomic<uint64_t> devices[8];
  const cudaError_t error = allow_shared(kernel, S::kSharedBytes, &devices[is_f16 * 4 + inner_a * 2 + inner_b]);
  if (error != cudaSuccess) return error;
  void *pointers[] = {arguments};
  return launch(kernel, S::kSmall ? grid_of_tiles(p) : dim3(static_cast<unsigned>(p.blocks)), dim3(S::kThreads),
                S::kSharedBytes, stream, pointers, S::kSmall && p.overlap);
}

}  // namespace

cudaError_t product_mma(const gpu::ProductPlan &p, const Target &target, cudaStream_t stream) {
  // A single line's stride may be anything; no chunk leaves it, so any stride will do for the address.
  TiledArguments arguments = tiled_arguments(p, target);
  return p.tile_m == 32 ? launch_tiles<32>(p, &arguments, stream) : launch_tiles<128>(p, &arguments, stream);
}

}  // namespace cuda
}  // namespace dxdw
