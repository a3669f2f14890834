// Many callers at once, callers with little stack, what the pool does for small calls, and where its threads may run.
// Guards against scratch that two calls share, deadlocks of the pool, products that wake threads for nothing, and helpers
// that are kept from cores, or put on cores, that the process did not say.
#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>
#include <map>

#include "harness.hpp"

using namespace test;
using Values = std::vector<float>;

namespace {

Values random_values(int64_t count, uint64_t seed) {
  Random random(seed);
  Values values(static_cast<size_t>(count));
  for (float &value : values) value = random.value();
  return values;
}

// One caller's own operands and the results that a lone caller got.
struct Caller {
  static constexpr int64_t kT = 65, kK = 33, kN = 129, kRows = 200;
  Literal x, w, dy, feature, g;
  Values serial[5];
  int rounds = 0;

  explicit Caller(uint64_t seed, Type type)
      : x(type, {kT, kK}, random_values(kT * kK, seed)),
        w(type, {kK, kN}, random_values(kK * kN, seed + 1)),
        dy(type, {kT, kN}, random_values(kT * kN, seed + 2)),
        feature(type, {kN}, random_values(kN, seed + 3)),
        g(type, {kT}, random_values(kT, seed + 4)) {}

  void compute(Values *results) {
    Literal y(Type::f32, {kT, kN}, NAN), dx(Type::f32, {kT, kK}, NAN), dw(Type::f32, {kK, kN}, 1.0f);
    Literal sums(Type::f32, {kT}, NAN), gw(Type::f32, {kN}, 1.0f);
    CHECK_OK(y_launch(x.tensor(), w.tensor(), y.tensor(), nullptr));
    CHECK_OK(dx_launch(dy.tensor(), w.tensor(), dx.tensor(), nullptr));
    CHECK_OK(dw_launch(x.tensor(), dy.tensor(), dw.tensor(), 4, 1, nullptr));
    CHECK_OK(weighted_sum_fwd(dy.tensor(), feature.tensor(), sums.tensor(), nullptr));
    CHECK_OK(weighted_sum_bwd(dy.tensor(), feature.tensor(), g.tensor(), nullptr, gw.tensor(), nullptr));
    results[0] = y.stored();
    results[1] = dx.stored();
    results[2] = dw.stored();
    results[3] = sums.stored();
    results[4] = gw.stored();
  }

  void compare() {
    Values results[5];
    compute(results);
    const char *const names[] = {"Y", "dX", "dW", "weighted sum", "gw"};
    for (int i = 0; i < 5; ++i) expect(names[i], results[i], serial[i]);
  }
};

void *compare_often(void *argument) {
  Caller *caller = static_cast<Caller *>(argument);
  for (int round = 0; round < caller->rounds; ++round) caller->compare();
  return nullptr;
}

void many_callers(int rounds) {
  constexpr int kCallers = 32;
  std::vector<Caller *> callers;
  CHECK_OK(dxdw_set_threads(1));
  for (int i = 0; i < kCallers; ++i) {
    callers.push_back(new Caller(static_cast<uint64_t>(i) * 100, kTypes[i % 3]));
    callers.back()->compute(callers.back()->serial);
    callers.back()->rounds = rounds;
  }
  for (int32_t threads : {0, 1, 4, 16}) {
    CHECK_OK(dxdw_set_threads(threads));
    pthread_t ids[kCallers];
    for (int i = 0; i < kCallers; ++i)
      CHECK(pthread_create(&ids[i], nullptr, compare_often, callers[static_cast<size_t>(i)]) == 0, "no thread");
    for (pthread_t id : ids) pthread_join(id, nullptr);
  }
  for (Caller *caller : callers) delete caller;
}

// Large products of several callers meet in the pool.
struct Large {
  Literal x{Type::f32, {500, 300}, random_values(500 * 300, 1)}, w{Type::f32, {300, 400}, random_values(300 * 400, 2)};
  Literal dy{Type::f32, {500, 400}, random_values(500 * 400, 3)};
  Values serial_y, serial_dw;

  void compute(Values *y_values, Values *dw_values) {
    Literal y(Type::f32, {500, 400}, NAN), dw(Type::f32, {300, 400}, 0.0f);
    CHECK_OK(y_launch(x.tensor(), w.tensor(), y.tensor(), nullptr));
    CHECK_OK(dw_launch(x.tensor(), dy.tensor(), dw.tensor(), 0, 1, nullptr));
    *y_values = y.stored();
    *dw_values = dw.stored();
  }
};

void large_products_meet(int rounds) {
  static int shared_rounds;
  shared_rounds = rounds;
  Large serial;
  CHECK_OK(dxdw_set_threads(1));
  serial.compute(&serial.serial_y, &serial.serial_dw);
  CHECK_OK(dxdw_set_threads(4));
  static Large *wanted;
  wanted = &serial;
  pthread_t ids[6];
  const auto body = [](void *) -> void * {
    Large mine;
    for (int round = 0; round < shared_rounds; ++round) {
      Values y, dw;
      mine.compute(&y, &dw);
      if (y != wanted->serial_y || dw != wanted->serial_dw)
        FAIL("large products of several callers differ from a lone one's");
    }
    return nullptr;
  };
  for (pthread_t &id : ids) CHECK(pthread_create(&id, nullptr, body, nullptr) == 0, "no thread");
  for (pthread_t id : ids) pthread_join(id, nullptr);
}

// The number of threads changes while calls run.
void thread_count_changes_meanwhile(int rounds) {
  static std::atomic<bool> stop;
  stop = false;
  pthread_t changer;
  const auto body = [](void *) -> void * {
    for (int32_t i = 0; !stop; ++i) {
      CHECK_OK(dxdw_set_threads(i % 6));
      usleep(200);
    }
    return nullptr;
  };
  Large large;
  CHECK_OK(dxdw_set_threads(1));
  large.compute(&large.serial_y, &large.serial_dw);
  CHECK(pthread_create(&changer, nullptr, body, nullptr) == 0, "no thread");
  for (int round = 0; round < rounds; ++round) {
    Values y, dw;
    large.compute(&y, &dw);
    if (y != large.serial_y || dw != large.serial_dw) FAIL("results change with the number of threads");
  }
  stop = true;
  pthread_join(changer, nullptr);
}

// A caller with 256 KB of stack.
void little_stack() {
  CHECK_OK(dxdw_set_threads(2));
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  CHECK(pthread_attr_setstacksize(&attributes, 256 << 10) == 0, "no such stack size");
  Caller caller(1, Type::f32);
  caller.compute(caller.serial);
  caller.rounds = 1;
  pthread_t id;
  CHECK(pthread_create(&id, &attributes, compare_often, &caller) == 0, "no thread");
  pthread_join(id, nullptr);
  static Large *large;
  Large on_heap;
  large = &on_heap;
  on_heap.compute(&on_heap.serial_y, &on_heap.serial_dw);
  const auto body = [](void *) -> void * {
    Values y, dw;
    large->compute(&y, &dw);
    if (y != large->serial_y || dw != large->serial_dw) FAIL("results differ on a small stack");
    return nullptr;
  };
  CHECK(pthread_create(&id, &attributes, body, nullptr) == 0, "no thread");
  pthread_join(id, nullptr);
  pthread_attr_destroy(&attributes);
}

// Small products run on the caller alone; large ones use the pool, unless one thread is all that is allowed.
void pool_is_left_asleep() {
  CHECK_OK(dxdw_set_threads(2));
  Literal x(Type::f32, {16, 16}, 1.0f), w(Type::f32, {16, 16}, 1.0f), out(Type::f32, {16, 16}, 0.0f),
      row(Type::f32, {16}, 1.0f);
  Literal sums(Type::f32, {16}, 0.0f);
  int64_t before = dxdw_counter(DXDW_COUNTER_POOL_JOBS);
  CHECK_OK(y_launch(x.tensor(), w.tensor(), out.tensor(), nullptr));
  CHECK_OK(dx_launch(x.tensor(), w.tensor(), out.tensor(), nullptr));
  CHECK_OK(dw_launch(x.tensor(), w.tensor(), out.tensor(), 0, 1, nullptr));
  CHECK_OK(weighted_sum_fwd(x.tensor(), row.tensor(), sums.tensor(), nullptr));
  CHECK_OK(weighted_sum_bwd(x.tensor(), row.tensor(), row.tensor(), out.tensor(), sums.tensor(), nullptr));
  CHECK(dxdw_counter(DXDW_COUNTER_POOL_JOBS) == before, "small calls used the thread pool");
  Large large;
  Values y, dw;
  large.compute(&y, &dw);
  CHECK(dxdw_counter(DXDW_COUNTER_POOL_JOBS) > before, "large products did not use the thread pool");
  CHECK_OK(dxdw_set_threads(1));
  before = dxdw_counter(DXDW_COUNTER_POOL_JOBS);
  large.compute(&y, &dw);
  CHECK(dxdw_counter(DXDW_COUNTER_POOL_JOBS) == before, "the thread pool was used though one thread is allowed");
}

// ---- Where helpers may run ----

// The cores that each thread of this process may run on.
std::map<int, std::string> cores_of_threads() {
  std::map<int, std::string> all;
  DIR *const tasks = opendir("/proc/self/task");
  CHECK(tasks != nullptr, "/proc/self/task can't be read");
  while (const dirent *entry = readdir(tasks)) {
    cpu_set_t set;
    const int thread = atoi(entry->d_name);
    if (thread == 0 || sched_getaffinity(thread, sizeof set, &set) != 0) continue;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) all[thread] += std::to_string(cpu) + " ";
  }
  closedir(tasks);
  return all;
}

// Calls after rests, when helpers wake and may be moved.
void compute_after_rests(int32_t threads, int rounds) {
  Large large;
  CHECK_OK(dxdw_set_threads(1));
  large.compute(&large.serial_y, &large.serial_dw);
  CHECK_OK(dxdw_set_threads(threads));
  for (int round = 0; round < rounds; ++round) {
    usleep(2000);
    Values y, dw;
    large.compute(&y, &dw);
    if (y != large.serial_y || dw != large.serial_dw) FAIL("results differ after a rest");
  }
}

// Three helpers at least, all where the process may run. Threads that were there before are not looked at: a sanitizer
// has one of its own.
void check_cores(const std::map<int, std::string> &before) {
  const std::map<int, std::string> all = cores_of_threads();
  const std::string &process = all.at(getpid());
  int helpers = 0;
  for (const auto &[thread, cores] : all) {
    if (thread == getpid() || before.count(thread) != 0) continue;
    ++helpers;
    CHECK(cores == process, "a thread may run on cores %s, the process on %s", cores.c_str(), process.c_str());
  }
  CHECK(helpers >= 3, "%d helpers, expected three", helpers);
}

void helpers_keep_their_cores(int rounds) {
  compute_after_rests(4, rounds);
  check_cores({});
}

// Runs body in a process of its own, before this one has helpers.
void apart(void (*body)()) {
  fflush(stdout);
  const pid_t child = fork();
  CHECK(child >= 0, "no process");
  if (child == 0) {
    body();
    exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0, "the process of its own ended with status 0x%x", status);
}

void one_core_is_enough() {
  const std::map<int, std::string> before = cores_of_threads();
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(sched_getcpu()), &one);
  CHECK(sched_setaffinity(0, sizeof one, &one) == 0, "can't be restricted to one core");
  compute_after_rests(4, 10);
  check_cores(before);
}

// As in a sandbox that lets no thread be moved.
void moving_is_not_needed() {
  const auto number = [](uint16_t code, uint32_t k) { return sock_filter{code, 0, 0, k}; };
  const auto refuse = [](uint32_t call) { return sock_filter{BPF_JMP | BPF_JEQ | BPF_K, 0, 1, call}; };
  sock_filter filter[] = {number(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)), refuse(SYS_sched_setaffinity),
                          number(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                          number(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program = {sizeof filter / sizeof filter[0], filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    printf("threads that can't be moved: not tested, for this system has no filters of system calls\n");
    return;
  }
  cpu_set_t set;
  CHECK(sched_getaffinity(0, sizeof set, &set) == 0 && sched_setaffinity(0, sizeof set, &set) != 0,
        "nothing is refused");
  compute_after_rests(4, 10);
}

// Messages belong to the thread that failed.
void messages_stay_apart() {
  Literal x(Type::f32, {2, 3}, 1.0f);
  CHECK(y_launch(x.tensor(), nullptr, x.tensor(), nullptr) == DXDW_INVALID_ARGUMENT, "NULL passes");
  const std::string mine = dxdw_last_error();
  pthread_t id;
  const auto body = [](void *) -> void * {
    CHECK(dxdw_last_error()[0] == 0, "a thread starts with a message: %s", dxdw_last_error());
    CHECK(dx_launch(nullptr, nullptr, nullptr, nullptr) == DXDW_INVALID_ARGUMENT, "NULL passes");
    return nullptr;
  };
  CHECK(pthread_create(&id, nullptr, body, nullptr) == 0, "no thread");
  pthread_join(id, nullptr);
  CHECK(mine == dxdw_last_error(), "another thread's failure changed the message to: %s", dxdw_last_error());
}

}  // namespace

int main(int count, char **arguments) {
  const int rounds = count > 1 ? atoi(arguments[1]) : 20;
  report_faults();
  alarm(600);  // a deadlock ends the test
  apart(one_core_is_enough);
  apart(moving_is_not_needed);
  messages_stay_apart();
  pool_is_left_asleep();
  many_callers(rounds);
  large_products_meet(rounds);
  thread_count_changes_meanwhile(rounds * 3);
  little_stack();
  helpers_keep_their_cores(rounds * 2);
  printf("passed, level %s\n", dxdw_simd_level());
  return 0;
}
