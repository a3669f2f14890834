// Memory that a call borrows for packing: kept between calls, bounded, shared by all threads.
#pragma once

#include <stdint.h>

namespace dxdw {
namespace cpu {

class Scratch {
 public:
  Scratch() : address_(nullptr), bytes_(0) {}
  ~Scratch();
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;

  // At least `bytes` bytes aligned to 64, contents undefined; false when there is no memory. bytes = 0 takes none.
  bool take(uint64_t bytes);
  char *data() const { return address_; }

 private:
  char *address_;
  uint64_t bytes_;
};

}  // namespace cpu
}  // namespace dxdw
