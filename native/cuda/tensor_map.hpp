// How the tensor copy engine walks an operand: the driver's maps, made on the host.
#pragma once

#include <cuda.h>

#include "device.hpp"
#include "problem.hpp"

namespace dxdw {
namespace cuda {
namespace hopper {

// A map of rank 3: x neighbours, strides in elements, boxes of box_x x box_y x 1. False where the driver knows no maps or
// refuses this one.
inline bool encode(CUtensorMap *map, DType type, const char *data, int64_t x, int64_t y, int64_t z, int64_t y_stride,
                   int64_t z_stride, int box_x, int box_y, CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B) {
  using Encode = decltype(&cuTensorMapEncodeTiled);
  const Encode function = reinterpret_cast<Encode>(tensor_map_encoder());
  if (function == nullptr) return false;
  const int64_t size = size_of(type);
  const cuuint64_t dims[] = {static_cast<cuuint64_t>(x), static_cast<cuuint64_t>(y), static_cast<cuuint64_t>(z)};
  // With one slice its stride means nothing but must be lawful.
  const int64_t plane = z > 1 ? z_stride : y_stride;
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(y_stride * size), static_cast<cuuint64_t>(plane * size)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(box_x), static_cast<cuuint32_t>(box_y), 1};
  const cuuint32_t element[] = {1, 1, 1};
  const CUtensorMapDataType code = type == DType::f32   ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                                   : type == DType::f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                        : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  return function(map, code, 3, const_cast<char *>(data), dims, strides, box, element, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace hopper
}  // namespace cuda
}  // namespace dxdw
