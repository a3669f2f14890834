// Memory that a call borrows for packing: kept between calls, bounded, shared by all threads.
#pragma once

#include <stdint.h>

#include "status.hpp"

namespace dxdw {
namespace cpu {

// In builds with the address sanitizer each region of scratch is followed by a guard, bytes that nobody may touch: who
// needs more than was planned for is stopped there. In other builds regions follow one another.
#if defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kGuardBytes = 1024;
#else
constexpr uint64_t kGuardBytes = 0;
#endif

// What a region of so many bytes takes with its guard; an empty region has none.
constexpr uint64_t with_guard(uint64_t bytes) { return bytes == 0 ? 0 : bytes + kGuardBytes; }

// Closes or opens the guard at the end of a region that takes so many bytes with it. Scratch that is let go is open.
void set_guard(char *region, uint64_t bytes_with_guard, bool closed);

class Scratch {
 public:
  Scratch() : address_(nullptr), bytes_(0) {}
  ~Scratch();
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;

  // At least `bytes` bytes aligned to 64, contents undefined; false when there is no memory. bytes = 0 takes none. All
  // that lies behind them is a guard.
  bool take(uint64_t bytes);
  char *data() const { return address_; }

 private:
  char *address_;
  uint64_t bytes_;
};

// The status of a call that found no memory for so many bytes of scratch.
Status out_of_memory(uint64_t bytes);

}  // namespace cpu
}  // namespace dxdw
