// destination[...] = source[...] over any strides and types on one device; and packing of operands that TMA cannot
// address.
#include "kernels.hpp"
#include "types.cuh"

namespace dxdw {
namespace cuda {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1 << 20;  // each thread walks on, so any count is served

dim3 blocks_for(int64_t count) {
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  return dim3(static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks));
}

// Calls `move` with the offsets of every element that is this thread's, in elements.
template <typename Move>
__device__ __forceinline__ void for_each_element(const Copy &c, const Move &move) {
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < c.count; i += gridDim.x * int64_t{kThreads}) {
    int64_t rest = i, from = 0, to = 0;
    for (int32_t d = c.ndim - 1; d > 0; --d) {
      const int64_t index = rest % c.shape[d];
      rest /= c.shape[d];
      from += index * c.source_strides[d];
      to += index * c.destination_strides[d];
    }
    move(from + rest * c.source_strides[0], to + rest * c.destination_strides[0]);
  }
}

template <typename From, typename To>
__global__ void __launch_bounds__(kThreads) copy_kernel(const Copy c) {
  for_each_element(c, [&](int64_t from, int64_t to) {
    const From value = reinterpret_cast<const From *>(c.source)[from];
    reinterpret_cast<To *>(c.destination)[to] = from_float<To>(to_float(value));
  });
}

// The same type on both sides: bits are carried, NaN payloads included.
template <typename Word>
__global__ void __launch_bounds__(kThreads) move_kernel(const Copy c) {
  for_each_element(c, [&](int64_t from, int64_t to) {
    reinterpret_cast<Word *>(c.destination)[to] = reinterpret_cast<const Word *>(c.source)[from];
  });
}

__global__ void __launch_bounds__(kThreads) fill_kernel(const Matrix m) {
  const int64_t count = m.rows * m.cols;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += gridDim.x * int64_t{kThreads})
    reinterpret_cast<float *>(m.data)[i / m.cols * m.row_stride + i % m.cols * m.col_stride] = 0.0f;
}

// 16 bytes that start `offset` bytes (even, below 16) behind the start of two neighbouring words of 16 bytes.
__device__ __forceinline__ uint4 shifted(const uint4 &first, const uint4 &second, uint32_t offset) {
  uint32_t w[8] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
  if (offset & 8) {
#pragma unroll
    for (int i = 0; i < 6; ++i) w[i] = w[i + 2];
  }
  if (offset & 4) {
#pragma unroll
    for (int i = 0; i < 5; ++i) w[i] = w[i + 1];
  }
  const uint32_t bits = (offset & 2) * 8;
  return make_uint4(__funnelshift_r(w[0], w[1], bits), __funnelshift_r(w[1], w[2], bits),
                    __funnelshift_r(w[2], w[3], bits), __funnelshift_r(w[3], w[4], bits));
}

// A thread writes eight neighbours at once. Lines without gaps between their elements are read in whole words of 16
// bytes and shifted into place, except where such a word would reach beyond the line; all others element by element.
__global__ void __launch_bounds__(kThreads) pack_kernel(const Pack p) {
  const int64_t groups = (p.inner + 7) / 8;
  const int64_t count = groups * p.outer * p.slices;
  const uint16_t *source = reinterpret_cast<const uint16_t *>(p.source);
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += gridDim.x * int64_t{kThreads}) {
    const int64_t line = i / groups, inner = (i - line * groups) * 8;
    const int64_t slice = p.slices == 1 ? 0 : line / p.outer, outer = line - slice * p.outer;
    const int64_t left = min(p.inner - inner, p.inner_total - slice * p.inner - inner);
    const uint16_t *start = source + outer * p.source_outer + slice * p.inner * p.source_inner;
    const uint16_t *from = start + inner * p.source_inner;
    const uint32_t offset = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from) & 15);
    const int64_t before = static_cast<int64_t>(offset) / 2;  // elements in front of `from` in its word
    uint4 word;
    if (p.source_inner == 1 && left >= 16 - before && inner >= before) {
      const uint4 *aligned = reinterpret_cast<const uint4 *>(from - before);
      const uint4 first = __ldg(aligned);
      word = offset == 0 ? first : shifted(first, __ldg(aligned + 1), offset);
    } else {
      uint16_t values[8];
#pragma unroll
      for (int e = 0; e < 8; ++e) values[e] = e < left ? __ldg(from + e * p.source_inner) : uint16_t{0};
      word.x = values[0] | static_cast<uint32_t>(values[1]) << 16;
      word.y = values[2] | static_cast<uint32_t>(values[3]) << 16;
      word.z = values[4] | static_cast<uint32_t>(values[5]) << 16;
      word.w = values[6] | static_cast<uint32_t>(values[7]) << 16;
    }
    *reinterpret_cast<uint4 *>(p.destination +
                               (slice * p.destination_slice + outer * p.destination_outer + inner) * 2) = word;
  }
}

template <typename From>
const void *kernel_from(DType to) {
  return to == DType::f32   ? reinterpret_cast<const void *>(copy_kernel<From, float>)
         : to == DType::f16 ? reinterpret_cast<const void *>(copy_kernel<From, __half>)
                            : reinterpret_cast<const void *>(copy_kernel<From, __nv_bfloat16>);
}

int64_t magnitude(int64_t value) { return value < 0 ? -value : value; }

}  // namespace

cudaError_t copy_elements(const Copy &copy, cudaStream_t stream) {
  // Neighbouring threads take neighbours of the destination: dimensions in falling order of its strides.
  Copy c = copy;
  for (int32_t d = 1; d < c.ndim; ++d)
    for (int32_t e = d; e > 0 && magnitude(c.destination_strides[e - 1]) < magnitude(c.destination_strides[e]); --e) {
      const auto swap = [e](int64_t *values) {
        const int64_t kept = values[e];
        values[e] = values[e - 1];
        values[e - 1] = kept;
      };
      swap(c.shape);
      swap(c.source_strides);
      swap(c.destination_strides);
    }
  const void *kernel;
  if (c.source_type == c.destination_type)
    kernel = size_of(c.source_type) == 4 ? reinterpret_cast<const void *>(move_kernel<uint32_t>)
                                         : reinterpret_cast<const void *>(move_kernel<uint16_t>);
  else
    kernel = c.source_type == DType::f32   ? kernel_from<float>(c.destination_type)
             : c.source_type == DType::f16 ? kernel_from<__half>(c.destination_type)
                                           : kernel_from<__nv_bfloat16>(c.destination_type);
  void *pointers[] = {&c};
  return launch(kernel, blocks_for(c.count), dim3(kThreads), 0, stream, pointers);
}

cudaError_t fill_zero(const Matrix &matrix, cudaStream_t stream) {
  Matrix argument = matrix;
  void *pointers[] = {&argument};
  return launch(reinterpret_cast<const void *>(fill_kernel), blocks_for(matrix.rows * matrix.cols), dim3(kThreads), 0,
                stream, pointers);
}

cudaError_t pack(const Pack &pack, cudaStream_t stream) {
  Pack argument = pack;
  void *pointers[] = {&argument};
  return launch(reinterpret_cast<const void *>(pack_kernel),
                blocks_for((pack.inner + 7) / 8 * pack.outer * pack.slices), dim3(kThreads), 0, stream, pointers);
}

}  // namespace cuda
}  // namespace dxdw
