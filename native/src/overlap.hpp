// Do strided views share memory? Exact where views boil down to two dimensions, careful (yes) where they don't.
#pragma once

#include <stdint.h>

#include "dxdw.h"

namespace dxdw {

// A strided set of elements in memory: at least one element, byte strides.
struct Footprint {
  uint64_t address;  // of element 0
  int64_t item;      // bytes of an element
  int32_t ndim;
  int64_t shape[DXDW_MAX_NDIM];
  int64_t strides[DXDW_MAX_NDIM];

  uint64_t lowest() const;
  uint64_t end() const;  // one past the highest byte
};

// May two elements of one view share a byte?
bool overlaps_itself(const Footprint &view);

// May an element of one view share a byte with an element of the other?
bool overlap(const Footprint &a, const Footprint &b);

}  // namespace dxdw
