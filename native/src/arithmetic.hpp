// Arithmetic that every part of the library needs.
#pragma once

#include <stdint.h>

namespace dxdw {

// a / b rounded up, for a >= 0 and b > 0.
static inline int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

}  // namespace dxdw
