// C[m,n] = or += sum over k of A[m,k] . B[k,n], in float32 multiply-add, for every type and every stride.
//
// Each element is one chain of fused multiply-adds in rising k that starts at +0.0, whatever the tile: a row of C has
// the same bits for any number of rows, and a slice the same bits as the product over that slice alone.
//
// A block owns a square tile of C and walks k in steps of 16. A step's elements are read straight from memory, along
// whichever direction of the operand is contiguous, into registers; then stored to shared memory as float32, k-major,
// while the products of the step before are formed. Thread (tx, ty) of 16 x 16 forms two groups of rows and columns,
// half a tile apart, so that shared memory is read four floats at a time without conflicts.
#include "kernels.hpp"
#include "types.cuh"

namespace dxdw {
namespace cuda {

namespace {

constexpr int kStep = 16;
constexpr int kThreads = 256;

struct SimtOperand {
  const char *data;
  int64_t line_stride;  // between rows of A, columns of B
  int64_t k_stride;
  int64_t lines;
};

struct SimtArguments {
  SimtOperand a, b;
  Target c;
  int64_t contraction, chunk;
  int64_t tiles_m, tiles_n, units;  // units = tiles * slices
};

// The part of an operand's tile that one thread carries: R elements, `step` apart.
template <typename T, int R>
struct Carrier {
  static constexpr int kTile = 16 * R;
  const T *at;      // this thread's first element of the current step
  int64_t hop;      // elements from one of its elements to the next
  int64_t advance;  // elements from step to step
  int line, line_hop;
  int k, k_hop;
  int64_t lines_left;  // lines from the tile's first on

  __device__ void start(const SimtOperand &operand, int64_t first_line, int64_t first_k) {
    const int thread = threadIdx.x;
    const auto magnitude = [](int64_t stride) { return stride < 0 ? -stride : stride; };
    if (magnitude(operand.k_stride) < magnitude(operand.line_stride)) {
      k = thread % kStep, k_hop = 0;
      line = thread / kStep, line_hop = kThreads / kStep;
    } else {
      line = thread % kTile, line_hop = 0;
      k = thread / kTile, k_hop = kThreads / kTile;
    }
    at = reinterpret_cast<const T *>(operand.data) + (first_line + line) * operand.line_stride +
         (first_k + k) * operand.k_stride;
    hop = line_hop * operand.line_stride + k_hop * operand.k_stride;
    advance = kStep * operand.k_stride;
    lines_left = operand.lines - first_line;
  }

  // Elements outside the matrix or the slice read as 0.
  __device__ void load(int64_t k_left, float (&values)[R]) {
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const bool inside = line + i * line_hop < lines_left && k + i * k_hop < k_left;
      values[i] = inside ? to_float(at[i * hop]) : 0.0f;
    }
    at += advance;
  }

  __device__ void store(const float (&values)[R], float (*shared)[kTile + 4]) const {
#pragma unroll
    for (int i = 0; i < R; ++i) shared[k + i * k_hop][line + i * line_hop] = values[i];
  }
};

// R = 8: tile 128 x 128, R = 4: tile 64 x 64.
template <typename T, int R>
__global__ void __launch_bounds__(kThreads, 2) simt_kernel(const SimtArguments p) {
  constexpr int kTile = 16 * R;
  constexpr int kGroups = R / 4;  // of four rows, and of four columns
  __shared__ __align__(16) float shared_a[2][kStep][kTile + 4];
  __shared__ __align__(16) float shared_b[2][kStep][kTile + 4];
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;

  for (int64_t unit = blockIdx.x; unit < p.units; unit += gridDim.x) {
    const int64_t tile = unit % (p.tiles_m * p.tiles_n), slice = unit / (p.tiles_m * p.tiles_n);
    // Eight rows of tiles are walked together, so that the blocks at work share lines of both operands in the cache.
    const int64_t band = tile / (8 * p.tiles_n), in_band = tile % (8 * p.tiles_n);
    const int64_t band_rows = min(int64_t{8}, p.tiles_m - 8 * band);
    const int64_t row0 = (8 * band + in_band % band_rows) * kTile, col0 = in_band / band_rows * kTile;
    const int64_t first_k = min(slice * p.chunk, p.contraction);
    const int64_t length = min(p.chunk, p.contraction - first_k);

    Carrier<T, R> carry_a, carry_b;
    carry_a.start(p.a, row0, first_k);
    carry_b.start(p.b, col0, first_k);
    float sum[R][R] = {};
    float next_a[R], next_b[R];
    const int64_t steps = (length + kStep - 1) / kStep;
    if (steps > 0) {
      carry_a.load(length, next_a);
      carry_b.load(length, next_b);
      carry_a.store(next_a, shared_a[0]);
      carry_b.store(next_b, shared_b[0]);
    }
    __syncthreads();
    for (int64_t step = 0; step < steps; ++step) {
      const int now = step & 1;
      const bool more = step + 1 < steps;
      if (more) {
        carry_a.load(length - (step + 1) * kStep, next_a);
        carry_b.load(length - (step + 1) * kStep, next_b);
      }
      // A slice may end within the step: its zeros must not meet an infinite or NaN partner, so they are left out.
      const int depth = static_cast<int>(min(static_cast<int64_t>(kStep), length - step * kStep));
      const auto multiply = [&](int k) {
        float a[R], b[R];
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
          const float4 fa = *reinterpret_cast<const float4 *>(&shared_a[now][k][g * 64 + ty * 4]);
          const float4 fb = *reinterpret_cast<const float4 *>(&shared_b[now][k][g * 64 + tx * 4]);
          a[4 * g] = fa.x, a[4 * g + 1] = fa.y, a[4 * g + 2] = fa.z, a[4 * g + 3] = fa.w;
          b[4 * g] = fb.x, b[4 * g + 1] = fb.y, b[4 * g + 2] = fb.z, b[4 * g + 3] = fb.w;
        }
#pragma unroll
        for (int i = 0; i < R; ++i)
#pragma unroll
          for (int j = 0; j < R; ++j) sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
      };
      if (depth == kStep) {
#pragma unroll
        for (int k = 0; k < kStep; ++k) multiply(k);
      } else {
#pragma unroll 1
        for (int k = 0; k < depth; ++k) multiply(k);
      }
      if (more) {
        carry_a.store(next_a, shared_a[now ^ 1]);
        carry_b.store(next_b, shared_b[now ^ 1]);
      }
      __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < R; ++i) {
      const int64_t row = row0 + i / 4 * 64 + ty * 4 + i % 4;
      int64_t elements[R];
      bool inside[R];
#pragma unroll
      for (int j = 0; j < R; ++j) {
        const int64_t col = col0 + j / 4 * 64 + tx * 4 + j % 4;
        elements[j] = slice * p.c.slice_stride + row * p.c.row_stride + col * p.c.col_stride;
        inside[j] = row < p.a.lines && col < p.b.lines;
      }
      put(p.c.data, p.c.type, elements, inside, sum[i], p.c.add, p.c.atomic);
    }
  }
}

template <typename T>
const void *kernel_for(int32_t tile) {
  return tile == 128 ? reinterpret_cast<const void *>(simt_kernel<T, 8>)
                     : reinterpret_cast<const void *>(simt_kernel<T, 4>);
}

}  // namespace

cudaError_t product_simt(const gpu::ProductPlan &p, const Target &target, cudaStream_t stream) {
  const Product &w = p.work;
  SimtArguments arguments = {{w.a.data, w.a.row_stride, w.a.col_stride, w.a.rows},
                             {w.b.data, w.b.col_stride, w.b.row_stride, w.b.cols},
                             target,
                             w.contraction(),
                             p.chunk,
                             p.tiles_m,
                             p.tiles_n,
                             p.tiles * p.split};
  const void *kernel = w.a.type == DType::f32   ? kernel_for<float>(p.tile_m)
                       : w.a.type == DType::f16 ? kernel_for<__half>(p.tile_m)
                                                : kernel_for<__nv_bfloat16>(p.tile_m);
  void *pointers[] = {&arguments};
  return launch(kernel, dim3(static_cast<unsigned>(p.blocks)), dim3(kThreads), 0, stream, pointers);
}

}  // namespace cuda
}  // namespace dxdw
