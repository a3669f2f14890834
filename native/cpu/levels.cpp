// Which SIMD level this process uses: the best that the machine has, or less where DXDW_SIMD says so.
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#include "kernels.hpp"

namespace dxdw {
namespace cpu {

#if defined(__x86_64__)
extern const Kernels kernels_avx512bf16, kernels_avx512, kernels_avx2;
extern const Kernels kernels_baseline;
#elif defined(__aarch64__)
extern const Kernels kernels_neonbf16, kernels_neon;
#else
extern const Kernels kernels_baseline;
#endif

namespace {

// Best first.
struct Level {
  const Kernels *table;
  bool (*available)();
};

#if defined(__x86_64__)

// Not every compiler's __builtin_cpu_supports knows the name.
bool has_f16c() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c(); }

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

bool has_avx512bf16() { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }

#elif defined(__aarch64__)

bool has_neonbf16() {
#if defined(__linux__)
  constexpr unsigned long kBf16 = 1ul << 14;  // HWCAP2_BF16, which older headers lack
  return (getauxval(AT_HWCAP2) & kBf16) != 0;
#else
  return false;
#endif
}

#endif

bool always() { return true; }

const Level kLevels[] = {
#if defined(__x86_64__)
    {&kernels_avx512bf16, has_avx512bf16},
    {&kernels_avx512, has_avx512},
    {&kernels_avx2, has_avx2},
    {&kernels_baseline, always},
#elif defined(__aarch64__)
    {&kernels_neonbf16, has_neonbf16},
    {&kernels_neon, always},
#else
    {&kernels_baseline, always},
#endif
};

// The best level at or below the one named; a name that no level has caps nothing.
const Kernels &choose() {
#if defined(__x86_64__)
  __builtin_cpu_init();
#endif
  const char *cap = getenv("DXDW_SIMD");
  bool known = false;
  if (cap != nullptr)
    for (const Level &level : kLevels) known = known || strcmp(level.table->name, cap) == 0;
  bool below = !known;
  for (const Level &level : kLevels) {
    below = below || strcmp(level.table->name, cap) == 0;
    if (below && level.available()) return *level.table;
  }
  return *kLevels[sizeof kLevels / sizeof kLevels[0] - 1].table;
}

const Kernels *const chosen = &choose();

}  // namespace

const Kernels &kernels() { return *chosen; }

}  // namespace cpu
}  // namespace dxdw
