// What kernels over rows and elements share: 16 bytes at a time as floats, where an element lies, sums over a warp.
#pragma once

#include "types.cuh"

namespace dxdw {
namespace cuda {

// 16 bytes as floats.
template <typename T>
struct Vector {
  static constexpr int kSize = 16 / sizeof(T);
};

template <typename T>
__device__ __forceinline__ void unpack(const uint4 &word, float (&values)[Vector<T>::kSize]);

template <>
__device__ __forceinline__ void unpack<float>(const uint4 &word, float (&values)[4]) {
  values[0] = __uint_as_float(word.x), values[1] = __uint_as_float(word.y);
  values[2] = __uint_as_float(word.z), values[3] = __uint_as_float(word.w);
}

template <>
__device__ __forceinline__ void unpack<__nv_bfloat16>(const uint4 &word, float (&values)[8]) {
  const uint32_t words[] = {word.x, word.y, word.z, word.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[2 * i] = __uint_as_float(words[i] << 16);
    values[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}

template <>
__device__ __forceinline__ void unpack<__half>(const uint4 &word, float (&values)[8]) {
  const uint32_t words[] = {word.x, word.y, word.z, word.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = __half22float2(*reinterpret_cast<const __half2 *>(&words[i]));
    values[2 * i] = pair.x;
    values[2 * i + 1] = pair.y;
  }
}

template <typename T>
__device__ __forceinline__ uint4 repack(const float (&values)[Vector<T>::kSize]);

template <>
__device__ __forceinline__ uint4 repack<float>(const float (&v)[4]) {
  return make_uint4(__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]), __float_as_uint(v[3]));
}

template <>
__device__ __forceinline__ uint4 repack<__nv_bfloat16>(const float (&v)[8]) {
  uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(v[2 * i], v[2 * i + 1]);
    words[i] = *reinterpret_cast<const uint32_t *>(&pair);
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

template <>
__device__ __forceinline__ uint4 repack<__half>(const float (&v)[8]) {
  uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const __half2 pair = __floats2half2_rn(v[2 * i], v[2 * i + 1]);
    words[i] = *reinterpret_cast<const uint32_t *>(&pair);
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

__device__ __forceinline__ int64_t row_offset(const Rows &rows, const int64_t *strides, int64_t row) {
  if (rows.ndim == 1) return row * strides[0];
  int64_t offset = 0;
  for (int32_t d = rows.ndim - 1; d > 0; --d) {
    offset += row % rows.shape[d] * strides[d];
    row /= rows.shape[d];
  }
  return offset + row * strides[0];
}

__device__ __forceinline__ float sum_over_warp(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(~0u, value, distance);
  return value;
}

}  // namespace cuda
}  // namespace dxdw
