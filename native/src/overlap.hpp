// Do strided views share memory? Never "no" where they do. Views that boil down to runs of adjacent elements at equal
// distances, or to single elements at equal distances, are compared exactly. Other rows count from their first to their
// last element, gaps included, unless all elements of both views lie on grids that never touch; so views with gaps in
// their rows and different strides may be said to overlap though they share no element. So may views of more than two
// dimensions that don't merge, and two of more than 2^20 rows each at different distances.
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

// May two elements of one view share a byte? Exact for nested dimensions and for any two; else a careful yes.
bool overlaps_itself(const Footprint &view);

// May an element of one view share a byte with an element of the other?
bool overlap(const Footprint &a, const Footprint &b);

}  // namespace dxdw
