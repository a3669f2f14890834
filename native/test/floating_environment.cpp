// Loading the library and calling it leave the floating-point environment alone, and what one caller has set in its own
// does not leak into the pool. Guards against start-up code that flushes subnormals, and against workers that inherit
// the mode of whoever needed them first.
//
//   dxdw_test_floating_environment path/to/libdxdw.so [rounds]
#include <dlfcn.h>
#include <pthread.h>

#include "harness.hpp"

using namespace test;

namespace {

struct Environment {
  uint64_t control;  // MXCSR's control bits, or FPCR
  uint16_t x87;
};

#if defined(__x86_64__)
Environment environment() {
  uint32_t sse;
  Environment e;
  asm volatile("stmxcsr %0" : "=m"(sse));
  asm volatile("fnstcw %0" : "=m"(e.x87));
  e.control = sse & 0xFFC0;
  return e;
}
void set_control(uint64_t bits) {
  const uint32_t sse = static_cast<uint32_t>(bits);
  asm volatile("ldmxcsr %0" : : "m"(sse));
}
constexpr uint64_t kDefault = 0x1F80, kFlush = 0x8040, kTowardsZero = 0x6000;
#elif defined(__aarch64__)
Environment environment() {
  Environment e = {0, 0};
  asm volatile("mrs %0, fpcr" : "=r"(e.control));
  return e;
}
void set_control(uint64_t bits) { asm volatile("msr fpcr, %0" : : "r"(bits)); }
constexpr uint64_t kDefault = 0, kFlush = 1 << 24, kTowardsZero = 3 << 22;
#endif

decltype(&y_launch) launch;
decltype(&dxdw_set_threads) set_threads;
decltype(&dxdw_float_to_float16) convert;
decltype(&dxdw_last_error) last_error;

bool subnormals_live() {
  volatile float smallest = 0x1p-126f;
  volatile float half = smallest / 2;
  return half != 0.0f;
}

void check_environment(const char *when, const Environment &before) {
  const Environment now = environment();
  CHECK(now.control == before.control, "%s: the control register went from 0x%llX to 0x%llX", when,
        static_cast<unsigned long long>(before.control), static_cast<unsigned long long>(now.control));
  CHECK(now.x87 == before.x87, "%s: the x87 control word went from 0x%04X to 0x%04X", when, before.x87, now.x87);
}

// A product large enough for the pool, all results subnormal. Returns how many came out as they must.
int64_t subnormal_product() {
  constexpr int64_t kT = 400, kK = 160, kN = 300;
  Literal x(Type::f32, {kT, kK}, 0x1p-100f), w(Type::f32, {kK, kN}, 0x1p-40f), y(Type::f32, {kT, kN}, NAN);
  const int32_t status = launch(x.tensor(), w.tensor(), y.tensor(), nullptr);
  CHECK(status == DXDW_OK, "status %d: %s", status, last_error());
  int64_t right = 0;
  for (int64_t i = 0; i < kT * kN; ++i) right += y.stored(i) == kK * 0x1p-140f;
  return right - kT * kN;
}

void calls(const char *who) {
  const Environment before = environment();
  for (int32_t threads : {1, 4}) {
    CHECK(set_threads(threads) == DXDW_OK, "%s", last_error());
    const int64_t wrong = subnormal_product();
    CHECK(wrong == 0, "%s, %d threads: %lld subnormal sums are wrong", who, threads, static_cast<long long>(-wrong));
    check_environment(who, before);
  }
  float values[20] = {1.5f, 1e-42f};
  uint16_t halves[20];
  CHECK(convert(values, halves, 20) == DXDW_OK, "%s", last_error());
  CHECK(launch(nullptr, nullptr, nullptr, nullptr) == DXDW_INVALID_ARGUMENT, "NULL passes");
  check_environment(who, before);
}

void on_new_thread(const char *who) {
  pthread_t id;
  static const char *name;
  name = who;
  const auto body = [](void *) -> void * {
    CHECK(subnormals_live(), "%s: a fresh thread flushes subnormals", name);
    calls(name);
    CHECK(subnormals_live(), "%s: subnormals are flushed after calls", name);
    return nullptr;
  };
  CHECK(pthread_create(&id, nullptr, body, nullptr) == 0, "no thread");
  pthread_join(id, nullptr);
}

template <typename F>
void find(void *library, const char *name, F *function) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  CHECK(*function != nullptr, "%s is missing", name);
}

}  // namespace

int main(int count, char **arguments) {
  CHECK(count >= 2, "usage: %s path/to/libdxdw.so [rounds]", arguments[0]);
  const int rounds = count > 2 ? atoi(arguments[2]) : 20;
  const Environment before = environment();
  CHECK(subnormals_live(), "subnormals are flushed before the library is there");
  void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  CHECK(library != nullptr, "%s", dlerror());
  check_environment("loading", before);
  CHECK(subnormals_live(), "loading the library makes subnormals vanish");
  find(library, "y_launch", &launch);
  find(library, "dxdw_set_threads", &set_threads);
  find(library, "dxdw_float_to_float16", &convert);
  find(library, "dxdw_last_error", &last_error);

  // The first caller of the pool flushes subnormals and rounds towards zero: its own affair, and its alone.
  set_control(kDefault | kFlush | kTowardsZero);
  const Environment odd = environment();
  CHECK(set_threads(4) == DXDW_OK, "%s", last_error());
  subnormal_product();
  check_environment("a caller that flushes subnormals", odd);
  set_control(kDefault);
  for (int round = 0; round < rounds; ++round) calls("the thread that loaded the library");
  on_new_thread("a new thread");
  check_environment("all calls", before);
  CHECK(subnormals_live(), "subnormals are flushed at the end");
  printf("passed\n");
  return 0;
}
