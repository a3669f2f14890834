// What dxdw_counter tells, and the test hook that makes operations fail.
#pragma once

#include <stdint.h>

#include <atomic>

#include "dxdw.h"
#include "status.hpp"

namespace dxdw {

struct Counters {
  std::atomic<int64_t> pool_jobs{0};
  std::atomic<int64_t> scratch_bytes{0};
};

extern Counters counters;

// Launches are counted in parts, so that threads with many small calls don't wait for one another's count.
void count_launch();
int64_t launches();

Status inject_fault(int32_t fault, int64_t skip);

// True when an armed fault of that kind strikes now. Costs one relaxed load when none is armed.
bool fault_strikes(int32_t fault);

}  // namespace dxdw
