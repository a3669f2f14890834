// Softmax cross entropy and squared error of rows, and their gradients.
//
// A row belongs to a group of threads: a warp or a thread block that holds all of it in registers, where its features
// stand side by side on 16 bytes and are not too many; else 4 threads, a warp or a thread block that read it once for
// each of its sums, from the caches after the first time. The order of a sum depends on the number of features and on
// which of the two it is.
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

cudaError_t launch_rows(const void *kernel, const RowLoss &r, int64_t rows_per_block, cudaStream_t stream) {
  const int64_t blocks = (r.rows.count + rows_per_block - 1) / rows_per_block;
  RowLoss argument = r;
  void *pointers[] = {&argument};
  return launch(kernel, dim3(static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks)), dim3(kThreads), 0,
                stream, pointers);
}

constexpr int kHeld = 32;  // features that a thread holds

template <typename T>
__device__ __forceinline__ void load_held(const T *row, int64_t d, int64_t features, float beyond,
                                          float (&values)[Vector<T>::kSize]) {
  if (d < features) {
    unpack<T>(__ldcs(reinterpret_cast<const uint4 *>(row + d)), values);
  } else {
#pragma unroll
    for (int e = 0; e < Vector<T>::kSize; ++e) values[e] = beyond;
  }
}

// At most kGroup * kHeld features, a multiple of a vector; gx, where there is one, of x's type and assigned.
template <typename T, int kGroup, bool kSoftmax, bool kBackward>
__global__ void __launch_bounds__(kThreads) row_losses_held(const RowLoss r) {
  constexpr int kRows = kThreads / kGroup, kVector = Vector<T>::kSize, kVectors = kHeld / kVector;
  const int lane = threadIdx.x % kGroup;
  const int64_t features = r.features;
  for (int64_t first = blockIdx.x * int64_t{kRows}; first < r.rows.count; first += gridDim.x * int64_t{kRows}) {
    const bool inside = first + threadIdx.x / kGroup < r.rows.count;
    const int64_t row = inside ? first + threadIdx.x / kGroup : r.rows.count - 1;
    const T *x = reinterpret_cast<const T *>(r.x.data) + row_offset(r.rows, r.x.row_strides, row);
    const int64_t target_at = row_offset(r.rows, r.target.row_strides, row);
    const int64_t y_at = row_offset(r.rows, r.y.row_strides, row);
    const float g = kBackward ? load_any(r.y.data, r.y.type, y_at) : 0.0f;
    float values[kVectors][kVector];
#pragma unroll
    for (int j = 0; j < kVectors; ++j)
      load_held(x, (int64_t{j} * kGroup + lane) * kVector, features, kSoftmax ? -INFINITY : 0.0f, values[j]);
    if (kSoftmax) {
      const int64_t label = reinterpret_cast<const int32_t *>(r.target.data)[target_at];
      const bool known = label >= 0 && label < features;
      float most = -INFINITY, sum = 0.0f;
#pragma unroll
      for (int j = 0; j < kVectors; ++j)
#pragma unroll
        for (int e = 0; e < kVector; ++e) most = fmaxf(most, values[j][e]);
      most = group_max<kGroup>(most);
#pragma unroll
      for (int j = 0; j < kVectors; ++j)
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          values[j][e] = exp_of(__fsub_rn(values[j][e], most));
          sum = __fadd_rn(sum, values[j][e]);
        }
      sum = group_sum<kGroup>(sum);
      if (!kBackward) {
        if (!inside || lane != 0) continue;
        const float apart = known ? __fsub_rn(most, to_float(x[label])) : NAN;
        put(r.y.data, r.y.type, y_at, __fadd_rn(logf(sum), apart), r.add, false);
        continue;
      }
      const float inverse = __fdiv_rn(1.0f, sum);
#pragma unroll
      for (int j = 0; j < kVectors; ++j)
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          const float p = __fmul_rn(values[j][e], inverse);
          const bool chosen = (int64_t{j} * kGroup + lane) * kVector + e == label;
          values[j][e] = known ? __fmul_rn(g, chosen ? __fsub_rn(p, 1.0f) : p) : NAN;
        }
    } else {
      const T *target = reinterpret_cast<const T *>(r.target.data) + target_at;
      float sum = 0.0f;
#pragma unroll
      for (int j = 0; j < kVectors; ++j) {
        float wanted[kVector];
        load_held(target, (int64_t{j} * kGroup + lane) * kVector, features, 0.0f, wanted);
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          values[j][e] = __fsub_rn(values[j][e], wanted[e]);
          if (kBackward)
            values[j][e] = __fmul_rn(__fmul_rn(2.0f, g), values[j][e]);
          else
            sum = fmaf(values[j][e], values[j][e], sum);
        }
      }
      if (!kBackward) {
        sum = group_sum<kGroup>(sum);
        if (inside && lane == 0) put(r.y.data, r.y.type, y_at, sum, r.add, false);
        continue;
      }
    }
    T *gx = reinterpret_cast<T *>(r.gx.data) + row_offset(r.rows, r.gx.row_strides, row);
#pragma unroll
    for (int j = 0; j < kVectors; ++j) {
      const int64_t d = (int64_t{j} * kGroup + lane) * kVector;
      if (inside && d < features) __stcs(reinterpret_cast<uint4 *>(gx + d), repack<T>(values[j]));
    }
  }
}

// Can rows of the operand be taken in vectors?
bool takes_vectors(const RowsView &view, const Rows &rows, int64_t vector) {
  if (view.feature_stride != 1 || reinterpret_cast<uintptr_t>(view.data) % 16 != 0) return false;
  for (int32_t d = 0; d < rows.ndim; ++d)
    if (view.row_strides[d] % vector != 0) return false;
  return true;
}

bool can_be_held(const RowLoss &r, bool softmax, bool backward) {
  const int64_t vector = 16 / size_of(r.x.type);
  if (r.features < 32 || r.features > kThreads * kHeld || r.features % vector != 0) return false;
  return takes_vectors(r.x, r.rows, vector) && (softmax || takes_vectors(r.target, r.rows, vector)) &&
         (!backward || (!r.add && r.gx.type == r.x.type && takes_vectors(r.gx, r.rows, vector)));
}

template <typename T, int kGroup>
cudaError_t run_held(const RowLoss &r, bool softmax, bool backward, cudaStream_t stream) {
  const void *kernel = softmax ? (backward ? reinterpret_cast<const void *>(row_losses_held<T, kGroup, true, true>)
                                           : reinterpret_cast<const void *>(row_losses_held<T, kGroup, true, false>))
                               : (backward ? reinterpret_cast<const void *>(row_losses_held<T, kGroup, false, true>)
                                           : reinterpret_cast<const void *>(row_losses_held<T, kGroup, false, false>));
  return launch_rows(kernel, r, kThreads / kGroup, stream);
}

template <typename T, int kGroup>
cudaError_t run(const RowLoss &r, bool softmax, bool backward, cudaStream_t stream) {
  const void *kernel = softmax ? (backward ? reinterpret_cast<const void *>(row_losses<T, kGroup, true, true>)
                                           : reinterpret_cast<const void *>(row_losses<T, kGroup, true, false>))
                               : (backward ? reinterpret_cast<const void *>(row_losses<T, kGroup, false, true>)
                                           : reinterpret_cast<const void *>(row_losses<T, kGroup, false, false>));
  return launch_rows(kernel, r, kThreads / kGroup, stream);
}

template <typename T>
cudaError_t run_typed(const RowLoss &r, bool softmax, bool backward, cudaStream_t stream) {
  if (can_be_held(r, softmax, backward))
    return r.features <= 32 * kHeld ? run_held<T, 32>(r, softmax, backward, stream)
                                    : run_held<T, kThreads>(r, softmax, backward, stream);
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
