// Element types inside the library. Free of functions with external linkage: the SIMD kernels include it.
#pragma once

#include <stdint.h>

namespace dxdw {

// i32 is for labels and for moving bits.
enum class DType : uint8_t { f32, f16, bf16, i32 };

static inline int64_t size_of(DType type) { return type == DType::f32 || type == DType::i32 ? 4 : 2; }

}  // namespace dxdw
