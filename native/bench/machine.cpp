#include "machine.hpp"

#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bench {

double seconds_now(int threads) {
  timespec now;
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::string machine_line() {
  std::string model = "unknown CPU";
  FILE *file = fopen("/proc/cpuinfo", "r");
  char line[256], name[256];
  while (file != nullptr && fgets(line, sizeof line, file) != nullptr)
    if (sscanf(line, "model name : %255[^\n]", name) == 1) {
      model = name;
      break;
    }
  if (file != nullptr) fclose(file);
  double load = 0;
  if (getloadavg(&load, 1) != 1) load = -1;
  char text[512];
  snprintf(text, sizeof text, "%s, %ld cores, compiler %s, glibc %s, load %.1f", model.c_str(),
           sysconf(_SC_NPROCESSORS_ONLN), __VERSION__, gnu_get_libc_version(), load);
  return text;
}

namespace {

// Seconds that `threads` copies of body(thread) take, started together.
double together(int threads, const std::function<void(int)> &body) {
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i)
    others.emplace_back([&, i] {
      ++ready;
      while (!go) {
      }
      body(i);
    });
  while (ready < threads - 1) {
  }
  const double start = seconds_now(threads);
  go = true;
  body(0);
  for (std::thread &other : others) other.join();
  return seconds_now(threads) - start;
}

double best_rate(int threads, double amount, const std::function<void(int)> &body) {
  double best = 0;
  for (int pass = 0; pass < 7; ++pass) {
    const double rate = amount / together(threads, body);
    if (rate > best) best = rate;
  }
  return best;
}

constexpr int kSums = 12;  // independent chains: enough to hide the latency of two units
constexpr int64_t kRounds = 1 << 21;

#if defined(__x86_64__)

// Twelve chains in registers; the empty statement keeps the compiler from seeing through them.
#define TWELVE(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)
#define REGISTER_LOOP(VECTOR, ONE, STEP)                                                                     \
  VECTOR s0 = ONE, s1 = ONE, s2 = ONE, s3 = ONE, s4 = ONE, s5 = ONE, s6 = ONE, s7 = ONE, s8 = ONE, s9 = ONE, \
         s10 = ONE, s11 = ONE;                                                                               \
  for (int64_t i = 0; i < kRounds; ++i) {                                                                    \
    TWELVE(STEP)                                                                                             \
    TWELVE(KEEP)                                                                                             \
  }
#define KEEP(N) asm volatile("" : "+v"(s##N));

__attribute__((target("avx512f"))) void fma_512() {
  const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(1e-3f);
#define STEP(N) s##N = _mm512_fmadd_ps(s##N, a, b);
  REGISTER_LOOP(__m512, b, STEP)
#undef STEP
}

__attribute__((target("avx2,fma"))) void fma_256() {
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(1e-3f);
#define STEP(N) s##N = _mm256_fmadd_ps(s##N, a, b);
  REGISTER_LOOP(__m256, b, STEP)
#undef STEP
}

void multiply_add_128() {
  const __m128 a = _mm_set1_ps(0.999f), b = _mm_set1_ps(1e-3f);
#define STEP(N) s##N = _mm_add_ps(_mm_mul_ps(s##N, a), b);
  REGISTER_LOOP(__m128, b, STEP)
#undef STEP
}

__attribute__((target("avx512f,avx512bf16,avx512bw,avx512vl"))) void dot_512() {
  const __m512i bits = _mm512_set1_epi16(0x3C00);
  const __m512 one = _mm512_set1_ps(1.0f);
  __m512bh a;
  memcpy(&a, &bits, sizeof a);
#define STEP(N) s##N = _mm512_dpbf16_ps(s##N, a, a);
  REGISTER_LOOP(__m512, one, STEP)
#undef STEP
}

__attribute__((target("avx512f"))) void read_512(const char *from, int64_t bytes) {
  __m512 a = _mm512_setzero_ps(), b = a, c = a, d = a;
  for (int64_t i = 0; i + 256 <= bytes; i += 256) {
    const float *p = reinterpret_cast<const float *>(from + i);
    a = _mm512_add_ps(a, _mm512_loadu_ps(p));
    b = _mm512_add_ps(b, _mm512_loadu_ps(p + 16));
    c = _mm512_add_ps(c, _mm512_loadu_ps(p + 32));
    d = _mm512_add_ps(d, _mm512_loadu_ps(p + 48));
  }
  a = _mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d));
  asm volatile("" : : "v"(a));
}

__attribute__((target("avx512f"))) void copy_512(const char *from, char *to, int64_t bytes, bool non_temporal) {
  if (non_temporal) {
    for (int64_t i = 0; i + 64 <= bytes; i += 64)
      _mm512_stream_si512(reinterpret_cast<__m512i *>(to + i), _mm512_loadu_si512(from + i));
    _mm_sfence();
  } else {
    for (int64_t i = 0; i + 64 <= bytes; i += 64) _mm512_storeu_si512(to + i, _mm512_loadu_si512(from + i));
  }
}

#endif

void read_plain(const char *from, int64_t bytes) {
  const uint64_t *p = reinterpret_cast<const uint64_t *>(from);
  uint64_t a = 0, b = 0, c = 0, d = 0;
  for (int64_t i = 0; i + 4 <= bytes / 8; i += 4) {
    a += p[i];
    b += p[i + 1];
    c += p[i + 2];
    d += p[i + 3];
  }
  asm volatile("" : : "r"(a + b + c + d));
}

void read_any(const char *from, int64_t bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return read_512(from, bytes);
#endif
  read_plain(from, bytes);
}

void copy_any(const char *from, char *to, int64_t bytes, bool non_temporal) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return copy_512(from, to, bytes, non_temporal);
#endif
  (void)non_temporal;
  memcpy(to, from, static_cast<size_t>(bytes));
}

}  // namespace

double fma_peak(int threads) {
#if defined(__x86_64__)
  const double each = static_cast<double>(kRounds) * 2 * threads;
  if (__builtin_cpu_supports("avx512f")) return best_rate(threads, each * kSums * 16, [](int) { fma_512(); });
  if (__builtin_cpu_supports("fma")) return best_rate(threads, each * kSums * 8, [](int) { fma_256(); });
  return best_rate(threads, each * kSums * 4, [](int) { multiply_add_128(); });
#else
  (void)threads;
  return 0;
#endif
}

double bf16_dot_peak(int threads) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bf16"))
    return best_rate(threads, static_cast<double>(kRounds) * 4 * threads * kSums * 16, [](int) { dot_512(); });
#else
  (void)threads;
#endif
  return 0;
}

double read_stream(const void *memory, int64_t bytes, int threads) {
  const int64_t part = bytes / threads / 4096 * 4096;
  const char *from = static_cast<const char *>(memory);
  return best_rate(threads, static_cast<double>(part) * threads, [&](int i) { read_any(from + i * part, part); });
}

double copy_stream(const void *from, void *to, int64_t bytes, int threads, bool non_temporal) {
  const int64_t part = bytes / threads / 4096 * 4096;
  return best_rate(threads, 2.0 * static_cast<double>(part) * threads, [&](int i) {
    copy_any(static_cast<const char *>(from) + i * part, static_cast<char *>(to) + i * part, part, non_temporal);
  });
}

}  // namespace bench
