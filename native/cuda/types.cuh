// Element types on the device: load as float32, store with one rounding to nearest even.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#include "problem.hpp"

namespace dxdw {
namespace cuda {

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
__device__ __forceinline__ T from_float(float value);
template <>
__device__ __forceinline__ float from_float<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ __half from_float<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

// Types known only when the kernel runs: for epilogues, where one store decides nothing about speed.
__device__ __forceinline__ float load_any(const char *data, DType type, int64_t element) {
  switch (type) {
    case DType::f32: return reinterpret_cast<const float *>(data)[element];
    case DType::f16: return __half2float(reinterpret_cast<const __half *>(data)[element]);
    default: return __bfloat162float(reinterpret_cast<const __nv_bfloat16 *>(data)[element]);
  }
}

__device__ __forceinline__ void store_any(char *data, DType type, int64_t element, float value) {
  switch (type) {
    case DType::f32: reinterpret_cast<float *>(data)[element] = value; break;
    case DType::f16: reinterpret_cast<__half *>(data)[element] = __float2half_rn(value); break;
    default: reinterpret_cast<__nv_bfloat16 *>(data)[element] = __float2bfloat16_rn(value); break;
  }
}

template <typename T, int kCount>
__device__ __forceinline__ void put_typed(char *data, const int64_t (&elements)[kCount], const bool (&inside)[kCount],
                                          const float (&values)[kCount], bool add) {
  T *out = reinterpret_cast<T *>(data);
  T old[kCount];
  if (add) {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (inside[i]) old[i] = out[elements[i]];
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    if (inside[i]) out[elements[i]] = from_float<T>(add ? to_float(old[i]) + values[i] : values[i]);
}

// Results to their places: assigned, added with one rounding, or added atomically (float32; subnormal sums become 0).
// All old values are read before any is written, so that the reads overlap.
template <int kCount>
__device__ __forceinline__ void put(char *data, DType type, const int64_t (&elements)[kCount],
                                    const bool (&inside)[kCount], const float (&values)[kCount], bool add,
                                    bool atomic) {
  if (atomic) {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (inside[i]) atomicAdd(reinterpret_cast<float *>(data) + elements[i], values[i]);
    return;
  }
  switch (type) {
    case DType::f32: put_typed<float>(data, elements, inside, values, add); break;
    case DType::f16: put_typed<__half>(data, elements, inside, values, add); break;
    default: put_typed<__nv_bfloat16>(data, elements, inside, values, add); break;
  }
}

__device__ __forceinline__ void put(char *data, DType type, int64_t element, float value, bool add, bool atomic) {
  const int64_t elements[] = {element};
  const bool inside[] = {true};
  const float values[] = {value};
  put(data, type, elements, inside, values, add, atomic);
}

}  // namespace cuda
}  // namespace dxdw
