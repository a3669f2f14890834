// What the CPU backend offers beyond backend.hpp: threads, SIMD level, conversions.
#pragma once

#include "backend.hpp"

namespace dxdw {
namespace cpu {

const char *simd_level();

Status set_threads(int32_t threads);
int32_t threads();

Status device_info(dxdw_device_info *info);

// count elements from one type to another; strides in elements.
void convert(const char *source, DType from, int64_t source_stride, char *destination, DType to,
             int64_t destination_stride, int64_t count);

}  // namespace cpu
}  // namespace dxdw
