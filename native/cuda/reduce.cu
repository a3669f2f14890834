// dW[k,n] = or += sum over s of partials[s,k,n], s = 0, 1, 2, ... in that order.
//
// sum = +0.0; sum += partials[s], one float32 addition each; dW = sum, or dW + sum: the order that dxdw.h promises, so
// every thread owns whole elements and walks the slices one by one. Loads run ahead of the additions, eight at a time.
#include "kernels.hpp"
#include "types.cuh"

namespace dxdw {
namespace cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kAhead = 8;

// Four neighbours at a time: both sides contiguous along columns and aligned to 16 bytes.
__global__ void __launch_bounds__(kThreads) reduce_vectors(const Reduction r) {
  const int64_t quads = r.dw.cols / 4, count = r.dw.rows * quads;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += gridDim.x * int64_t{kThreads}) {
    const int64_t row = i / quads, col = i % quads * 4;
    const float *from = reinterpret_cast<const float *>(r.partials.data) + row * r.partials.row_stride + col;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const auto add = [&sum](const float4 &value) {
      sum.x = __fadd_rn(sum.x, value.x);
      sum.y = __fadd_rn(sum.y, value.y);
      sum.z = __fadd_rn(sum.z, value.z);
      sum.w = __fadd_rn(sum.w, value.w);
    };
    int64_t s = 0;
    for (; s + kAhead <= r.split; s += kAhead) {
      float4 values[kAhead];
#pragma unroll
      for (int j = 0; j < kAhead; ++j)
        values[j] = __ldcs(reinterpret_cast<const float4 *>(from + (s + j) * r.split_stride));
#pragma unroll
      for (int j = 0; j < kAhead; ++j) add(values[j]);
    }
    for (; s < r.split; ++s) add(__ldcs(reinterpret_cast<const float4 *>(from + s * r.split_stride)));
    float4 *to = reinterpret_cast<float4 *>(r.dw.data) + (row * r.dw.row_stride + col) / 4;
    if (r.add) {
      const float4 old = *to;
      sum.x = __fadd_rn(old.x, sum.x);
      sum.y = __fadd_rn(old.y, sum.y);
      sum.z = __fadd_rn(old.z, sum.z);
      sum.w = __fadd_rn(old.w, sum.w);
    }
    *to = sum;
  }
}

// Any strides, any type of dW.
__global__ void __launch_bounds__(kThreads) reduce_elements(const Reduction r) {
  const int64_t count = r.dw.rows * r.dw.cols;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += gridDim.x * int64_t{kThreads}) {
    const int64_t row = i / r.dw.cols, col = i % r.dw.cols;
    const float *from =
        reinterpret_cast<const float *>(r.partials.data) + row * r.partials.row_stride + col * r.partials.col_stride;
    float sum = 0.0f;
    int64_t s = 0;
    for (; s + kAhead <= r.split; s += kAhead) {
      float values[kAhead];
#pragma unroll
      for (int j = 0; j < kAhead; ++j) values[j] = from[(s + j) * r.split_stride];
#pragma unroll
      for (int j = 0; j < kAhead; ++j) sum = __fadd_rn(sum, values[j]);
    }
    for (; s < r.split; ++s) sum = __fadd_rn(sum, from[s * r.split_stride]);
    put(r.dw.data, r.dw.type, row * r.dw.row_stride + col * r.dw.col_stride, sum, r.add, false);
  }
}

bool aligned(const void *data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

}  // namespace

cudaError_t reduce(const Reduction &reduction, cudaStream_t stream) {
  const Reduction &r = reduction;
  const bool vectors = r.dw.type == DType::f32 && r.dw.col_stride == 1 && r.partials.col_stride == 1 &&
                       aligned(r.dw.data) && aligned(r.partials.data) && r.dw.cols % 4 == 0 &&
                       (r.dw.rows == 1 || (r.dw.row_stride % 4 == 0 && r.partials.row_stride % 4 == 0)) &&
                       (r.split <= 1 || r.split_stride % 4 == 0);
  const int64_t count = r.dw.rows * r.dw.cols / (vectors ? 4 : 1);
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  Reduction argument = r;
  if (r.dw.rows == 1) argument.dw.row_stride = 0;
  void *pointers[] = {&argument};
  const void *kernel =
      vectors ? reinterpret_cast<const void *>(reduce_vectors) : reinterpret_cast<const void *>(reduce_elements);
  return launch(kernel, dim3(static_cast<unsigned>(blocks < (1 << 20) ? blocks : 1 << 20)), dim3(kThreads), 0, stream,
                pointers);
}

}  // namespace cuda
}  // namespace dxdw
