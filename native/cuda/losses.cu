// Softmax cross entropy and squared error of rows, and their gradients.
//
// A row belongs to a group of threads, 4 of them, a warp or a thread block, as many as its features make worthwhile; it
// is read once for each of its sums, from the caches after the first time. The order of a sum depends on the number of
// features alone.
#include "kernels.hpp"
#include "normal.cuh"
#include "vectors.cuh"

namespace dxdw {
namespace cuda {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1 << 20;
// Features up to which a row takes 4 threads, and up to which it takes a warp.
constexpr int64_t kFew = 16, kMany = 2048;

// The same value in all threads of the group: that of op over their values, in an order that does not vary.
template <int kGroup, typename Op>
__device__ __forceinline__ float over_group(float value, const Op &op) {
#pragma unroll
  for (int distance = (kGroup < 32 ? kGroup : 32) / 2; distance > 0; distance /= 2)
    value = op(value, __shfl_xor_sync(~0u, value, distance));
  if (kGroup <= 32) return value;
  __shared__ float of_warp[kThreads / 32];
  __syncthreads();
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  value = of_warp[0];
#pragma unroll
  for (int warp = 1; warp < kThreads / 32; ++warp) value = op(value, of_warp[warp]);
  return value;
}

template <int kGroup>
__device__ __forceinline__ float group_sum(float value) {
  return over_group<kGroup>(value, [](float a, float b) { return __fadd_rn(a, b); });
}

template <int kGroup>
__device__ __forceinline__ float group_max(float value) {
  return over_group<kGroup>(value, [](float a, float b) { return fmaxf(a, b); });
}

template <typename T, int kGroup, bool kSoftmax, bool kBackward>
__global__ void __launch_bounds__(kThreads) row_losses(const RowLoss r) {
  constexpr int kRows = kThreads / kGroup;
  const int lane = threadIdx.x % kGroup;
  const int64_t features = r.features, x_stride = r.x.feature_stride, target_stride = r.target.feature_stride;
  // All threads of a block stay to the end, for they meet in the sums.
  for (int64_t first = blockIdx.x * int64_t{kRows}; first < r.rows.count; first += gridDim.x * int64_t{kRows}) {
    const bool inside = first + threadIdx.x / kGroup < r.rows.count;
    const int64_t row = inside ? first + threadIdx.x / kGroup : r.rows.count - 1;
    const T *x = reinterpret_cast<const T *>(r.x.data) + row_offset(r.rows, r.x.row_strides, row);
    const int64_t target_at = row_offset(r.rows, r.target.row_strides, row);
    const int64_t y_at = row_offset(r.rows, r.y.row_strides, row);
    const float g = kBackward ? load_any(r.y.data, r.y.type, y_at) : 0.0f;
    const int64_t gx_at = kBackward ? row_offset(r.rows, r.gx.row_strides, row) : 0;
    const auto put_gx = [&](int64_t d, float value) {
      if (inside) put(r.gx.data, r.gx.type, gx_at + d * r.gx.feature_stride, value, r.add, false);
    };
    if (kSoftmax) {
      const int64_t label = reinterpret_cast<const int32_t *>(r.target.data)[target_at];
      const bool known = label >= 0 && label < features;
      float most = -INFINITY, sum = 0.0f;
#pragma unroll 4
      for (int64_t d = lane; d < features; d += kGroup) most = fmaxf(most, to_float(x[d * x_stride]));
      most = group_max<kGroup>(most);
#pragma unroll 4
      for (int64_t d = lane; d < features; d += kGroup)
        sum = __fadd_rn(sum, exp_of(__fsub_rn(to_float(x[d * x_stride]), most)));
      sum = group_sum<kGroup>(sum);
      if (!kBackward) {
        if (!inside || lane != 0) continue;
        const float apart = known ? __fsub_rn(most, to_float(x[label * x_stride])) : NAN;
        put(r.y.data, r.y.type, y_at, __fadd_rn(logf(sum), apart), r.add, false);
        continue;
      }
      const float inverse = __fdiv_rn(1.0f, sum);
#pragma unroll 4
      for (int64_t d = lane; d < features; d += kGroup) {
        const float p = __fmul_rn(exp_of(__fsub_rn(to_float(x[d * x_stride]), most)), inverse);
        put_gx(d, known ? __fmul_rn(g, d == label ? __fsub_rn(p, 1.0f) : p) : NAN);
      }
    } else {
      const T *target = reinterpret_cast<const T *>(r.target.data) + target_at;
      if (kBackward) {
        const float factor = __fmul_rn(2.0f, g);
#pragma unroll 4
        for (int64_t d = lane; d < features; d += kGroup)
          put_gx(d, __fmul_rn(factor, __fsub_rn(to_float(x[d * x_stride]), to_float(target[d * target_stride]))));
        continue;
      }
      float sum = 0.0f;
#pragma unroll 4
      for (int64_t d = lane; d < features; d += kGroup) {
        const float apart = __fsub_rn(to_float(x[d * x_stride]), to_float(target[d * target_stride]));
        sum = fmaf(apart, apart, sum);
      }
      sum = group_sum<kGroup>(sum);
      if (inside && lane == 0) put(r.y.data, r.y.type, y_at, sum, r.add, false);
    }
  }
}

template <typename T, int kGroup>
cudaError_t run(const RowLoss &r, bool softmax, bool backward, cudaStream_t stream) {
  const void *kernel = softmax ? (backward ? reinterpret_cast<const void *>(row_losses<T, kGroup, true, true>)
                                           : reinterpret_cast<const void *>(row_losses<T, kGroup, true, false>))
                               : (backward ? reinterpret_cast<const void *>(row_losses<T, kGroup, false, true>)
                                           : reinterpret_cast<const void *>(row_losses<T, kGroup, false, false>));
  constexpr int64_t kRows = kThreads / kGroup;
  const int64_t blocks = (r.rows.count + kRows - 1) / kRows;
  RowLoss argument = r;
  void *pointers[] = {&argument};
  return launch(kernel, dim3(static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks)), dim3(kThreads), 0,
                stream, pointers);
}

template <typename T>
cudaError_t run_typed(const RowLoss &r, bool softmax, bool backward, cudaStream_t stream) {
  if (r.features <= kFew) return run<T, 4>(r, softmax, backward, stream);
  if (r.features <= kMany) return run<T, 32>(r, softmax, backward, stream);
  return run<T, kThreads>(r, softmax, backward, stream);
}

}  // namespace

cudaError_t row_loss(const RowLoss &r, int32_t function, cudaStream_t stream) {
  const bool softmax = r.target.type == DType::i32;
  const bool backward = function == DXDW_SOFTMAX_CROSS_ENTROPY_BWD || function == DXDW_SQUARED_ERROR_BWD;
  switch (r.x.type) {
    case DType::f32: return run_typed<float>(r, softmax, backward, stream);
    case DType::f16: return run_typed<__half>(r, softmax, backward, stream);
    default: return run_typed<__nv_bfloat16>(r, softmax, backward, stream);
  }
}

}  // namespace cuda
}  // namespace dxdw
