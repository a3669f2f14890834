// dW[k,n] = or += sum over s of partials[s,k,n], s = 0, 1, 2, ... in that order.
//
// sum = +0.0; sum += partials[s], one float32 addition each; dW = sum, or dW + sum: the order that dxdw.h promises, so
// every thread owns whole elements and walks the slices one by one. Loads run ahead of the additions, as many as there are
// slices up to sixteen, the old value in front.
#include "kernels.hpp"
#include "ptx.cuh"
#include "types.cuh"

namespace dxdw {
namespace cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kFew = 8, kMany = 16;         // loads ahead, for few slices and for many
constexpr int64_t kManyElements = 1 << 18;  // below, fewer elements a thread keep more loads in flight

template <int kWidth>
struct Floats {
  float at[kWidth];
};

template <int kWidth>
__device__ __forceinline__ Floats<kWidth> load_floats(const float *from) {
  Floats<kWidth> floats;
  if constexpr (kWidth == 4) {
    const float4 word = __ldcs(reinterpret_cast<const float4 *>(from));
    floats.at[0] = word.x, floats.at[1] = word.y, floats.at[2] = word.z, floats.at[3] = word.w;
  } else if constexpr (kWidth == 2) {
    const float2 word = __ldcs(reinterpret_cast<const float2 *>(from));
    floats.at[0] = word.x, floats.at[1] = word.y;
  } else {
    floats.at[0] = __ldcs(from);
  }
  return floats;
}

// Both sides contiguous along columns: kWidth neighbours a thread, 4 where rows stand on 16 bytes and there are enough
// of them to fill the chip, else 2, or 1 where rows are off 8 bytes. Few enough registers for a block to wait beside one
// of the product's kernel for narrow tiles.
template <int kWidth, int kAhead>
__global__ void __launch_bounds__(kThreads, kWidth == 4 ? 1 : 4) reduce_dense(const Reduction r) {
  const int64_t groups = r.dw.cols / kWidth, count = r.dw.rows * groups;
  bool waited = false;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += gridDim.x * int64_t{kThreads}) {
    const int64_t row = i / groups, col = (i - row * groups) * kWidth;
    const float *from = reinterpret_cast<const float *>(r.partials.data) + row * r.partials.row_stride + col;
    float *to = reinterpret_cast<float *>(r.dw.data) + row * r.dw.row_stride + col;
    if (!waited) ptx::wait_for_kernel_before();
    waited = true;
    Floats<kWidth> old = {}, sum = {};
    if (r.add) old = load_floats<kWidth>(to);
    for (int64_t s = 0; s < r.split; s += kAhead) {
      const int64_t left = r.split - s;
      Floats<kWidth> values[kAhead];
#pragma unroll
      for (int j = 0; j < kAhead; ++j)
        if (j < left) values[j] = load_floats<kWidth>(from), from += r.split_stride;
#pragma unroll
      for (int j = 0; j < kAhead; ++j)
        if (j < left)
#pragma unroll
          for (int e = 0; e < kWidth; ++e) sum.at[e] = __fadd_rn(sum.at[e], values[j].at[e]);
    }
    if (r.add) {
#pragma unroll
      for (int e = 0; e < kWidth; ++e) sum.at[e] = __fadd_rn(old.at[e], sum.at[e]);
    }
    if constexpr (kWidth == 4)
      *reinterpret_cast<float4 *>(to) = make_float4(sum.at[0], sum.at[1], sum.at[2], sum.at[3]);
    else if constexpr (kWidth == 2)
      *reinterpret_cast<float2 *>(to) = make_float2(sum.at[0], sum.at[1]);
    else
      *to = sum.at[0];
  }
}

// Any strides, any type of dW.
template <int kAhead>
__global__ void __launch_bounds__(kThreads) reduce_elements(const Reduction r) {
  ptx::wait_for_kernel_before();
  const int64_t count = r.dw.rows * r.dw.cols;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += gridDim.x * int64_t{kThreads}) {
    const int64_t row = i / r.dw.cols, col = i % r.dw.cols;
    const float *from =
        reinterpret_cast<const float *>(r.partials.data) + row * r.partials.row_stride + col * r.partials.col_stride;
    float sum = 0.0f;
    for (int64_t s = 0; s < r.split; s += kAhead) {
      const int64_t left = r.split - s;
      float values[kAhead];
#pragma unroll
      for (int j = 0; j < kAhead; ++j)
        if (j < left) values[j] = from[(s + j) * r.split_stride];
#pragma unroll
      for (int j = 0; j < kAhead; ++j)
        if (j < left) sum = __fadd_rn(sum, values[j]);
    }
    put(r.dw.data, r.dw.type, row * r.dw.row_stride + col * r.dw.col_stride, sum, r.add, false);
  }
}

// May `width` neighbours be read and written at once?
bool fits(const Reduction &r, int64_t width) {
  const auto aligned = [&](const void *data) { return reinterpret_cast<uintptr_t>(data) % (4 * width) == 0; };
  return aligned(r.dw.data) && aligned(r.partials.data) && r.dw.cols % width == 0 &&
         (r.dw.rows == 1 || (r.dw.row_stride % width == 0 && r.partials.row_stride % width == 0)) &&
         (r.split <= 1 || r.split_stride % width == 0);
}

template <int kWidth>
const void *dense_kernel(bool few) {
  return few ? reinterpret_cast<const void *>(reduce_dense<kWidth, kFew>)
             : reinterpret_cast<const void *>(reduce_dense<kWidth, kMany>);
}

}  // namespace

cudaError_t reduce(const Reduction &reduction, bool overlap, cudaStream_t stream) {
  const Reduction &r = reduction;
  const bool dense = r.dw.type == DType::f32 && r.dw.col_stride == 1 && r.partials.col_stride == 1;
  const int64_t width = !dense ? 1 : r.dw.rows * r.dw.cols >= kManyElements && fits(r, 4) ? 4 : fits(r, 2) ? 2 : 1;
  const int64_t count = r.dw.rows * r.dw.cols / width;
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  Reduction argument = r;
  if (r.dw.rows == 1) argument.dw.row_stride = 0;
  void *pointers[] = {&argument};
  const bool few = r.split <= kFew;
  const void *kernel = !dense       ? reinterpret_cast<const void *>(reduce_elements<kFew>)
                       : width == 4 ? dense_kernel<4>(few)
                       : width == 2 ? dense_kernel<2>(few)
                                    : dense_kernel<1>(few);
  return launch(kernel, dim3(static_cast<unsigned>(blocks < (1 << 20) ? blocks : 1 << 20)), dim3(kThreads), 0, stream,
                pointers, overlap);
}

}  // namespace cuda
}  // namespace dxdw
