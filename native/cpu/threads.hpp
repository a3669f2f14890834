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

// Runs task(context, index, slot) for index = 0 .. count - 1. Indices are handed out in rising order, so a task may
// wait for lower ones. slot is below `threads` and belongs to one thread at a time. The caller takes part; with threads
// = 1 it is alone and the pool is not touched. Returns when all tasks are done.
void parallel_for(int64_t count, int32_t threads, void (*task)(void *context, int64_t index, int32_t slot),
                  void *context);

// Gives the processor to whoever may be waited for.
void wait_politely(int *rounds);

}  // namespace cpu
}  // namespace dxdw
