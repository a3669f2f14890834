// Threads of the CPU backend: one pool for the process, shared by all callers, asleep when there is nothing to do.
#pragma once

#include <stdint.h>

#include "status.hpp"

namespace dxdw {
namespace cpu {

constexpr int32_t kMostThreads = 1024;

Status set_threads(int32_t threads);
int32_t threads();

// As many as the process may run on, whatever was set.
int32_t machine_threads();

// Runs task(context, index, slot) for index = 0 .. count - 1. slot is below `threads` and belongs to one thread at a
// time. The caller takes part; with threads = 1 it is alone, goes by rising index, and the pool is not touched. Returns
// when all tasks are done.
//
// Each slot has a share of the indices, side by side and the same in every call, which it goes through before it helps
// others: data that call after call works on stay in the caches of a core, and near it where cores share no cache.
void parallel_for(int64_t count, int32_t threads, void (*task)(void *context, int64_t index, int32_t slot),
                  void *context);

// Tasks in phases, each of which begins when all tasks of the one before are done. Otherwise as above.
struct Phases {
  int64_t phases;
  int64_t (*count)(void *context, int64_t phase);  // of its tasks
  void (*task)(void *context, int64_t phase, int64_t index, int32_t slot);
  void *context;
};

void parallel_phases(const Phases &work, int32_t threads);

}  // namespace cpu
}  // namespace dxdw
