#include "scratch.hpp"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

#include "counters.hpp"

namespace dxdw {
namespace cpu {

namespace {

// Whole pages: sums that begin a vector behind a page, as small allocations do, would meet the next vector of an operand
// that begins on a page, for addresses that are alike in their low twelve bits are taken for the same by reads that
// pass writes.
constexpr uint64_t kPage = 4096;
constexpr uint64_t kHugePage = 2 << 20;
// What stays for reuse: so many blocks, and so many bytes in all.
constexpr int kBlocks = 16;
constexpr uint64_t kKept = 64 << 20;

struct Block {
  char *address;
  uint64_t bytes;
};

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
Block blocks[kBlocks];
int count = 0;
uint64_t kept = 0;

uint64_t round_up(uint64_t bytes) {
  const uint64_t unit = bytes >= kHugePage ? kHugePage : kPage;
  return (bytes + unit - 1) / unit * unit;
}

char *allocate(uint64_t bytes) {
  if (fault_strikes(DXDW_FAULT_ALLOCATE)) return nullptr;
  const uint64_t alignment = bytes >= kHugePage ? kHugePage : kPage;
  char *address = static_cast<char *>(aligned_alloc(alignment, bytes));
  if (address == nullptr) return nullptr;
#if defined(MADV_HUGEPAGE)
  if (bytes >= kHugePage) madvise(address, bytes, MADV_HUGEPAGE);
#endif
  counters.scratch_bytes.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  return address;
}

void release(Block block) {
  counters.scratch_bytes.fetch_sub(static_cast<int64_t>(block.bytes), std::memory_order_relaxed);
  free(block.address);
}

}  // namespace

void set_guard(char *region, uint64_t bytes_with_guard, bool closed) {
  if (bytes_with_guard == 0) return;
  char *const guard = region + (bytes_with_guard - kGuardBytes);
  if (closed)
    ASAN_POISON_MEMORY_REGION(guard, kGuardBytes);
  else
    ASAN_UNPOISON_MEMORY_REGION(guard, kGuardBytes);
}

bool Scratch::take(uint64_t bytes) {
  if (bytes == 0) return true;
  const uint64_t needed = round_up(with_guard(bytes));
  pthread_mutex_lock(&lock);
  int best = -1;
  for (int i = 0; i < count; ++i)
    if (blocks[i].bytes >= needed && (best < 0 || blocks[i].bytes < blocks[best].bytes)) best = i;
  if (best >= 0 && !fault_strikes(DXDW_FAULT_ALLOCATE)) {
    address_ = blocks[best].address;
    bytes_ = blocks[best].bytes;
    kept -= bytes_;
    blocks[best] = blocks[--count];
    pthread_mutex_unlock(&lock);
    ASAN_POISON_MEMORY_REGION(address_ + bytes, bytes_ - bytes);
    return true;
  }
  pthread_mutex_unlock(&lock);
  if (best >= 0) return false;
  address_ = allocate(needed);
  bytes_ = address_ == nullptr ? 0 : needed;
  if (address_ == nullptr) return false;
  ASAN_POISON_MEMORY_REGION(address_ + bytes, bytes_ - bytes);
  return true;
}

Scratch::~Scratch() {
  if (address_ == nullptr) return;
  ASAN_UNPOISON_MEMORY_REGION(address_, bytes_);
  const Block mine = {address_, bytes_};
  Block evicted[kBlocks];
  int evictions = 0;
  bool keep = mine.bytes <= kKept;
  pthread_mutex_lock(&lock);
  // Room is made by letting go of the smallest blocks: larger ones serve every request that they could.
  while (keep && count > 0 && (count == kBlocks || kept + mine.bytes > kKept)) {
    int smallest = 0;
    for (int i = 1; i < count; ++i)
      if (blocks[i].bytes < blocks[smallest].bytes) smallest = i;
    if (blocks[smallest].bytes >= mine.bytes) {
      keep = false;
      break;
    }
    kept -= blocks[smallest].bytes;
    evicted[evictions++] = blocks[smallest];
    blocks[smallest] = blocks[--count];
  }
  if (keep) {
    blocks[count++] = mine;
    kept += mine.bytes;
  }
  pthread_mutex_unlock(&lock);
  for (int i = 0; i < evictions; ++i) release(evicted[i]);
  if (!keep) release(mine);
}

Status out_of_memory(uint64_t bytes) {
  struct sysinfo memory = {};
  sysinfo(&memory);
  return fail(DXDW_OUT_OF_MEMORY,
              "cpu: no memory for %llu bytes of scratch; %llu of %llu bytes are free, %lld are scratch",
              static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(memory.freeram) * memory.mem_unit,
              static_cast<unsigned long long>(memory.totalram) * memory.mem_unit,
              static_cast<long long>(counters.scratch_bytes.load(std::memory_order_relaxed)));
}

}  // namespace cpu
}  // namespace dxdw
