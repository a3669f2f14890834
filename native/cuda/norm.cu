// norm = or += sum of x^2; scale = min(1, most / sqrt(norm)).
//
// Elements in row-major order are cut into blocks whose size the number of elements alone sets; in a block, neighbours
// in groups of eight are dealt out to the threads, each sums its groups in rising order, and the threads' sums are added
// along a fixed tree. One warp then adds the blocks in rising order. So neither strides nor types show in the order.
#include "kernels.hpp"
#include "vectors.cuh"

namespace dxdw {
namespace cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kGroup = 8;  // elements: 16 bytes of 16-bit types, 32 of float32
constexpr int64_t kMostBlocks = 1024, kLeastElements = 16 * kThreads * kGroup;

int64_t block_size(int64_t count) {
  const int64_t wanted = (count + kMostBlocks - 1) / kMostBlocks;
  const int64_t size = wanted > kLeastElements ? wanted : kLeastElements;
  return (size + kGroup - 1) / kGroup * kGroup;
}

template <typename T>
__device__ __forceinline__ void load_group(const T *from, float (&values)[kGroup]) {
  constexpr int kVector = Vector<T>::kSize;
#pragma unroll
  for (int e = 0; e < kGroup; e += kVector) {
    float part[kVector];
    unpack<T>(__ldcs(reinterpret_cast<const uint4 *>(from + e)), part);
#pragma unroll
    for (int k = 0; k < kVector; ++k) values[e + k] = part[k];
  }
}

template <typename T, bool kDense>
__global__ void __launch_bounds__(kThreads) norm_blocks(const SquaredNorm n, const int64_t size, float *sums) {
  const int64_t from = blockIdx.x * size, end = min(from + size, n.grid.count);
  float sum = 0.0f;
#pragma unroll 4
  for (int64_t at = from + threadIdx.x * kGroup; at < end; at += kThreads * kGroup) {
    float values[kGroup];
    if (kDense && at + kGroup <= end) {
      load_group(reinterpret_cast<const T *>(n.x.data) + at, values);
    } else {
#pragma unroll
      for (int e = 0; e < kGroup; ++e)
        values[e] = at + e < end
                        ? to_float(reinterpret_cast<const T *>(n.x.data)[row_offset(n.grid, n.x.row_strides, at + e)])
                        : 0.0f;
    }
#pragma unroll
    for (int e = 0; e < kGroup; ++e) sum = fmaf(values[e], values[e], sum);
  }
  __shared__ float of_warp[kThreads / 32];
  sum = sum_over_warp(sum);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
#pragma unroll
  for (int warp = 1; warp < kThreads / 32; ++warp) sum = __fadd_rn(sum, of_warp[warp]);
  sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(32) norm_end(const SquaredNorm n, const float *sums, const int64_t blocks) {
  float sum = 0.0f;
  for (int64_t at = 0; at < blocks; at += 32) {
    const float mine = at + threadIdx.x < blocks ? sums[at + threadIdx.x] : 0.0f;
#pragma unroll
    for (int lane = 0; lane < 32; ++lane) sum = __fadd_rn(sum, __shfl_sync(~0u, mine, lane));
  }
  float *norm = reinterpret_cast<float *>(n.norm);
  if (threadIdx.x == 0) *norm = n.add ? __fadd_rn(*norm, sum) : sum;
}

__global__ void clip(const ClipFactor c) {
  const float norm = *reinterpret_cast<const float *>(c.norm), factor = __fdiv_rn(c.most, __fsqrt_rn(norm));
  // A norm of 0 asks for no scaling, also where 0 is the most that is allowed.
  *reinterpret_cast<float *>(c.scale) = norm == 0.0f || factor > 1.0f ? 1.0f : factor;
}

template <typename T>
const void *kernel_for(bool dense) {
  return dense ? reinterpret_cast<const void *>(norm_blocks<T, true>)
               : reinterpret_cast<const void *>(norm_blocks<T, false>);
}

}  // namespace

int64_t norm_blocks_of(int64_t count) { return (count + block_size(count) - 1) / block_size(count); }

cudaError_t squared_norm(const SquaredNorm &norm, float *sums, cudaStream_t stream) {
  SquaredNorm argument = norm;
  int64_t size = block_size(norm.grid.count), blocks = norm_blocks_of(norm.grid.count);
  const bool dense = norm.grid.ndim == 1 && (norm.x.row_strides[0] == 1 || norm.grid.count == 1) &&
                     reinterpret_cast<uintptr_t>(norm.x.data) % 16 == 0;
  if (blocks > 0) {
    void *pointers[] = {&argument, &size, &sums};
    const void *kernel = norm.x.type == DType::f32   ? kernel_for<float>(dense)
                         : norm.x.type == DType::f16 ? kernel_for<__half>(dense)
                                                     : kernel_for<__nv_bfloat16>(dense);
    const cudaError_t error = launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0, stream, pointers);
    if (error != cudaSuccess) return error;
  }
  void *pointers[] = {&argument, &sums, &blocks};
  return launch(reinterpret_cast<const void *>(norm_end), dim3(1), dim3(32), 0, stream, pointers);
}

cudaError_t clip_factor(const ClipFactor &factor, cudaStream_t stream) {
  ClipFactor argument = factor;
  void *pointers[] = {&argument};
  return launch(reinterpret_cast<const void *>(clip), dim3(1), dim3(1), 0, stream, pointers);
}

}  // namespace cuda
}  // namespace dxdw
