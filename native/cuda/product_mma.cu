// C[m,n] = or += sum over k of A[m,k] . B[k,n] for 16-bit operands, on the tensor cores through mma.sync
// (capability 8.0 and newer), for every stride. Products are exact, sums float32.
//
// A block owns a tile of 128 x 128 and walks k in steps of 32 through a ring of four stages in shared memory. Eight
// warps, two by four, form 64 x 32 each by m16n8k16. An operand's stage keeps the direction that is contiguous in
// memory: k ("inner") or the other; ldmatrix reads both, transposing where it must. Chunks of 16 bytes are swizzled so
// that the eight lines that one ldmatrix phase reads lie in different banks:
//   contraction inner: line r of 32 k = 4 chunks, chunk c stands at c ^ (r / 2 % 4)
//   contraction outer: line k of 128   = 16 chunks, chunk c stands at c ^ (k % 8)
// Lines that start on 16 bytes arrive by cp.async; all others element by element. Both ways give the same bits.
#include "kernels.hpp"
#include "types.cuh"

namespace dxdw {
namespace cuda {

namespace {

constexpr int kTile = 128;  // of m and of n: 64 accumulators a thread
constexpr int kStep = 32;   // of k
constexpr int kStages = 4;  // three steps of loads in flight
constexpr int kThreads = 256;
constexpr int kOperandBytes = kTile * kStep * 2;
constexpr int kStageBytes = 2 * kOperandBytes;
constexpr int kSharedBytes = kStages * kStageBytes;

struct MmaOperand {
  const char *data;
  int64_t line_stride, k_stride, lines;
  bool aligned;  // chunks of 16 bytes along the contiguous direction
};

struct MmaArguments {
  MmaOperand a, b;
  Target c;
  int64_t contraction, chunk;
  int64_t tiles_m, tiles_n, units;
};

__device__ __forceinline__ uint32_t shared_address(const void *pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// 16 bytes of which the first `bytes` come from memory and the rest are 0.
__device__ __forceinline__ void copy_async(uint32_t shared, const void *global, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes));
}

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
template <bool kInner>
__device__ __forceinline__ int chunk_offset(int line, int k) {
  return kInner ? line * 64 + ((k / 8) ^ (line / 2 % 4)) * 16 : k * 256 + ((line / 8) ^ (k % 8)) * 16;
}

// Fills one operand's stage with lines [first_line, +128) and k [first_k, +32) of its slice; what lies outside is 0.
template <bool kInner>
__device__ __forceinline__ void fill(char *stage, const MmaOperand &operand, bool by_chunks, int64_t first_line,
                                     int64_t first_k, int64_t k_left) {
  const int thread = threadIdx.x;
  const uint16_t *data = reinterpret_cast<const uint16_t *>(operand.data);
  const int64_t lines_left = operand.lines - first_line;
  if (by_chunks) {
#pragma unroll
    for (int i = 0; i < kOperandBytes / 16 / kThreads; ++i) {
      const int chunk = thread + i * kThreads;
      const int line = kInner ? chunk / 4 : chunk % 16 * 8, k = kInner ? chunk % 4 * 8 : chunk / 16;
      const int64_t inside = kInner ? (line < lines_left ? k_left - k : 0) : (k < k_left ? lines_left - line : 0);
      const int bytes = static_cast<int>(max(int64_t{0}, min(int64_t{8}, inside))) * 2;
      const uint16_t *from =
          bytes == 0 ? data : data + (first_line + line) * operand.line_stride + (first_k + k) * operand.k_stride;
      copy_async(shared_address(stage + chunk_offset<kInner>(line, k)), from, bytes);
    }
  } else {
#pragma unroll 4
    for (int i = 0; i < kTile * kStep / kThreads; ++i) {
      const int element = thread + i * kThreads;
      const int line = kInner ? element / kStep : element % kTile, k = kInner ? element % kStep : element / kTile;
      uint16_t value = 0;
      if (line < lines_left && k < k_left)
        value = data[(first_line + line) * operand.line_stride + (first_k + k) * operand.k_stride];
      const int within = kInner ? k % 8 : line % 8;
      *reinterpret_cast<uint16_t *>(stage + chunk_offset<kInner>(line, k) + within * 2) = value;
    }
  }
}

template <typename T, bool kInnerA, bool kInnerB>
__global__ void __launch_bounds__(kThreads) mma_kernel(const MmaArguments p) {
  extern __shared__ __align__(128) char shared[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_m = warp / 4 * 64, warp_n = warp % 4 * 32;

  for (int64_t unit = blockIdx.x; unit < p.units; unit += gridDim.x) {
    const int64_t tiles = p.tiles_m * p.tiles_n;
    const int64_t tile = unit % tiles, slice = unit / tiles;
    const int64_t band = tile / (8 * p.tiles_n), in_band = tile % (8 * p.tiles_n);
    const int64_t band_rows = min(int64_t{8}, p.tiles_m - 8 * band);
    const int64_t row0 = (8 * band + in_band % band_rows) * kTile, col0 = in_band / band_rows * kTile;
    const int64_t first_k = min(slice * p.chunk, p.contraction);
    const int64_t length = min(p.chunk, p.contraction - first_k);
    const int64_t steps = (length + kStep - 1) / kStep;
    // A slice may start off 16 bytes where the contraction is the contiguous direction.
    const bool chunks_a = p.a.aligned && (!kInnerA || first_k % 8 == 0);
    const bool chunks_b = p.b.aligned && (!kInnerB || first_k % 8 == 0);

    const auto load = [&](int64_t step) {
      if (step < steps) {
        char *stage = shared + step % kStages * kStageBytes;
        const int64_t at = first_k + step * kStep, left = length - step * kStep;
        fill<kInnerA>(stage, p.a, chunks_a, row0, at, left);
        fill<kInnerB>(stage + kOperandBytes, p.b, chunks_b, col0, at, left);
      }
      asm volatile("cp.async.commit_group;");
    };

    float sum[4][4][4] = {};
    for (int64_t step = 0; step < kStages - 1; ++step) load(step);
    for (int64_t step = 0; step < steps; ++step) {
      asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2));
      __syncthreads();
      load(step + kStages - 1);  // into the stage that the step before has left
      const char *stage_a = shared + step % kStages * kStageBytes, *stage_b = stage_a + kOperandBytes;
#pragma unroll
      for (int k = 0; k < kStep; k += 16) {
        // Fragments of A: matrices (rows 0-7, k 0-7), (rows 8-15, k 0-7), (rows 0-7, k 8-15), (rows 8-15, k 8-15).
        uint32_t a[4][4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (kInnerA) {
            const int line = warp_m + i * 16 + lane % 16;
            load_matrices(a[i], shared_address(stage_a + chunk_offset<true>(line, k + lane / 16 * 8)));
          } else {
            const int line = warp_m + i * 16 + lane / 8 % 2 * 8, at = k + lane / 16 * 8 + lane % 8;
            load_matrices_transposed(a[i], shared_address(stage_a + chunk_offset<false>(line, at)));
          }
        }
        // Fragments of B for two groups of eight columns: (k 0-7), (k 8-15) of the first, then of the second.
        uint32_t b[2][4];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          if (kInnerB) {
            const int line = warp_n + j * 16 + lane / 16 * 8 + lane % 8;
            load_matrices(b[j], shared_address(stage_b + chunk_offset<true>(line, k + lane / 8 % 2 * 8)));
          } else {
            const int line = warp_n + j * 16 + lane / 16 * 8, at = k + lane % 16;
            load_matrices_transposed(b[j], shared_address(stage_b + chunk_offset<false>(line, at)));
          }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int j = 0; j < 4; ++j) multiply<T>(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
      }
    }
    // The next unit's first loads reuse stages that other warps may still read.
    asm volatile("cp.async.wait_group 0;");
    __syncthreads();

#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t row = row0 + warp_m + i * 16 + half * 8 + lane / 4;
        int64_t elements[8];
        bool inside[8];
        float values[8];
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int64_t col = col0 + warp_n + j * 8 + lane % 4 * 2 + e;
            elements[2 * j + e] = slice * p.c.slice_stride + row * p.c.row_stride + col * p.c.col_stride;
            inside[2 * j + e] = row < p.a.lines && col < p.b.lines;
            values[2 * j + e] = sum[i][j][half * 2 + e];
          }
        put(p.c.data, p.c.type, elements, inside, values, p.c.add, p.c.atomic);
      }
  }
}

template <typename T>
const void *kernel_for(bool inner_a, bool inner_b) {
  if (inner_a)
    return inner_b ? reinterpret_cast<const void *>(mma_kernel<T, true, true>)
                   : reinterpret_cast<const void *>(mma_kernel<T, true, false>);
  return inner_b ? reinterpret_cast<const void *>(mma_kernel<T, false, true>)
                 : reinterpret_cast<const void *>(mma_kernel<T, false, false>);
}

}  // namespace

cudaError_t product_mma(const gpu::ProductPlan &p, const Target &target, cudaStream_t stream) {
  const Product &w = p.work;
  // A single line's stride may be anything; no chunk leaves it, so any stride will do for the address.
  MmaArguments arguments = {{w.a.data, w.a.row_stride, w.a.col_stride, w.a.rows, p.a.aligned},
                            {w.b.data, w.b.col_stride, w.b.row_stride, w.b.cols, p.b.aligned},
                            target,
                            w.contraction(),
                            p.chunk,
                            p.tiles_m,
                            p.tiles_n,
                            p.tiles * p.split};
  const void *kernel = w.a.type == DType::f16 ? kernel_for<__half>(p.a.contraction_inner, p.b.contraction_inner)
                                              : kernel_for<__nv_bfloat16>(p.a.contraction_inner, p.b.contraction_inner);
  static std::atomic<uint64_t> devices[8];
  const int number = (w.a.type == DType::f16) * 4 + p.a.contraction_inner * 2 + p.b.contraction_inner;
  const cudaError_t error = allow_shared(kernel, kSharedBytes, &devices[number]);
  if (error != cudaSuccess) return error;
  void *pointers[] = {&arguments};
  return launch(kernel, dim3(static_cast<unsigned>(p.blocks)), dim3(kThreads), kSharedBytes, stream, pointers);
}

}  // namespace cuda
}  // namespace dxdw
