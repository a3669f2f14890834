// What the machine is and what its units give at most: measured here, in the run that the kernels are measured in.
#pragma once

#include <stdint.h>

#include <string>

namespace bench {

// Wall time; with one thread the processor time of the calling thread, which a neighbour on a shared machine does not
// add to.
double seconds_now(int threads);

// "AMD EPYC, 2 cores, gcc 12.2.0, glibc 2.36, load 0.4"
std::string machine_line();

// Floating-point operations per second of register-only loops, on `threads` threads at once.
double fma_peak(int threads);
double bf16_dot_peak(int threads);  // 0 where the machine has no such instruction

// Bytes per second of plain streaming loops over memory far larger than the caches, best of several passes.
double read_stream(const void *memory, int64_t bytes, int threads);
// Reads `from` and writes `to`, bytes of both counted; with ordinary or with non-temporal stores.
double copy_stream(const void *from, void *to, int64_t bytes, int threads, bool non_temporal);

}  // namespace bench
