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

// One result to its place: assigned, added with one rounding, or added atomically (float32; subnormal sums become 0).
__device__ __forceinline__ void put(char *data, DType type, int64_t element, float value, bool add, bool atomic) {
  if (atomic) {
    atomicAdd(reinterpret_cast<float *>(data) + element, value);
  } else {
    store_any(data, type, element, add ? load_any(data, type, element) + value : value);
  }
}

}  // namespace cuda
}  // namespace dxdw
