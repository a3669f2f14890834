#include "threads.hpp"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif

#include <algorithm>
#include <atomic>
#include <bitset>

#include "counters.hpp"

// Functions that later C libraries moved carry a later version there: ask for the one that older C libraries have too.
#if defined(__GLIBC__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#if defined(__x86_64__)
#define DXDW_FIRST_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define DXDW_FIRST_GLIBC "GLIBC_2.17"
#endif
#endif
#if defined(DXDW_FIRST_GLIBC)
asm(".symver pthread_create, pthread_create@" DXDW_FIRST_GLIBC);
asm(".symver pthread_attr_setstacksize, pthread_attr_setstacksize@" DXDW_FIRST_GLIBC);
asm(".symver pthread_sigmask, pthread_sigmask@" DXDW_FIRST_GLIBC);
#endif

namespace dxdw {
namespace cpu {

namespace {

// Shares of a job: one for each slot, or for some neighbouring ones where these are very many.
constexpr int32_t kMostShares = 64;
// Counters of shares go on from phase to phase, each of which has fewer tasks than this.
constexpr int64_t kPhase = int64_t{1} << 40;

// On a line of its own, for it is mostly one thread's.
struct alignas(64) Share {
  std::atomic<int64_t> taken;  // phase . kPhase + tasks of it that were taken; may lag behind the phase
};

// A call's tasks, on its caller's stack.
struct Job {
  Phases work;
  int32_t most_helpers;
  int cpu;       // that the caller was on
  int64_t late;  // when the caller sends away helpers that have not come, in nanoseconds; 0 = no more
  int32_t shares_count;
  Share shares[kMostShares];
  std::atomic<int64_t> finished{0};    // tasks, of all phases but the last
  std::atomic<bool> exhausted{false};  // the last phase has no task left to take
  std::atomic<int32_t> slots{1};       // that are taken; 0 is the caller's
  std::bitset<kMostThreads> taken{1};  // which; changed under the lock
  std::atomic<int32_t> helpers{0};     // workers inside; changed under the lock
  Job *link = nullptr;
};

constexpr int kSpins = 2000;  // some ten microseconds: the next call of a caller in a loop finds the workers awake
constexpr size_t kStack = 256 << 10;
// By then a helper that woke on a core of its own has come.
constexpr int64_t kLateNanoseconds = 60000;

struct Worker {
  int32_t thread;  // its number for the system
  bool free;       // without a part in any job, asleep or awake; changed under the lock
};

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t work_arrived = PTHREAD_COND_INITIALIZER;
pthread_cond_t helper_left = PTHREAD_COND_INITIALIZER;
Job *jobs = nullptr;
Worker workers[kMostThreads];
int32_t hired = 0;
std::atomic<uint32_t> arrivals{0};
std::atomic<int32_t> wanted{0};  // 0 = what the machine allows

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// ---- Where threads run ----
//
// The system may wake a helper on its caller's core, though another is idle, and then takes milliseconds to part them: the
// helper waits there for the caller to be interrupted, or interrupts it itself. So one that finds itself on its caller's
// core leaves it, and a caller sends away those that have not come.

#if defined(__linux__)

int32_t this_thread() { return static_cast<int32_t>(syscall(SYS_gettid)); }

int this_cpu() { return sched_getcpu(); }

// Has a thread (0: the calling one) leave a core for any other that it may run on. What it may run on is as before
// afterwards. Not for several callers and one thread at a time.
void leave(int32_t thread, int cpu) {
  cpu_set_t allowed;
  if (cpu < 0 || sched_getaffinity(thread, sizeof allowed, &allowed) != 0) return;
  cpu_set_t others = allowed;
  CPU_CLR(static_cast<size_t>(cpu), &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(thread, sizeof others, &others) != 0) return;
  sched_setaffinity(thread, sizeof allowed, &allowed);
}

#else

int32_t this_thread() { return 0; }
int this_cpu() { return -1; }
void leave(int32_t, int) {}

#endif

int64_t nanoseconds_now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{1000000000} * now.tv_sec + now.tv_nsec;
}

// Under the lock.
void send_free_ones_away(const Job &job) {
  int32_t left = job.most_helpers;
  for (int32_t i = 0; i < hired && left > 0; ++i)
    if (workers[i].free) {
      leave(workers[i].thread, job.cpu);
      --left;
    }
}

// ---- Jobs ----

// A task of the phase, which has `count`: of the slot's own share, else of one behind it.
bool take(Job *job, int64_t phase, int64_t count, int32_t slot, int64_t *index) {
  const int32_t shares = job->shares_count, own = slot % shares;
  for (int32_t i = 0; i < shares; ++i) {
    const int32_t share = own + i < shares ? own + i : own + i - shares;
    const int64_t from = count * share / shares, size = count * (share + 1) / shares - from;
    std::atomic<int64_t> &taken = job->shares[share].taken;
    int64_t seen = taken.load(std::memory_order_relaxed);
    for (;;) {
      const int64_t before = std::max(seen, phase * kPhase) - phase * kPhase;
      if (before >= size) break;
      if (!taken.compare_exchange_weak(seen, phase * kPhase + before + 1, std::memory_order_relaxed)) continue;
      *index = from + before;
      return true;
    }
  }
  return false;
}

// Between tasks of the caller.
void watch(Job *job) {
  if (job->slots.load(std::memory_order_relaxed) > 1) {
    job->late = 0;
  } else if (nanoseconds_now() >= job->late) {
    job->late = 0;
    pthread_mutex_lock(&lock);
    send_free_ones_away(*job);
    pthread_mutex_unlock(&lock);
  }
}

// Gives the processor to whoever may be waited for.
void wait_politely(int *rounds) {
  if (++*rounds < 200)
    relax();
  else
    sched_yield();
}

void work(Job *job, int32_t slot) {
  const Phases &work = job->work;
  int64_t tasks = 0;  // of this phase and those before
  for (int64_t phase = 0; phase < work.phases; ++phase) {
    const int64_t count = work.count(work.context, phase);
    int64_t index, done = 0;
    for (; take(job, phase, count, slot, &index); ++done) {
      work.task(work.context, phase, index, slot);
      if (slot == 0 && job->late != 0) watch(job);
    }
    if (phase + 1 == work.phases) break;
    tasks += count;
    if (done > 0) job->finished.fetch_add(done, std::memory_order_release);
    for (int rounds = 0; job->finished.load(std::memory_order_acquire) < tasks;) wait_politely(&rounds);
  }
  job->exhausted.store(true, std::memory_order_relaxed);
}

// Under the lock: a job that still has tasks and room for a helper.
Job *find_job() {
  for (Job *job = jobs; job != nullptr; job = job->link)
    if (job->helpers.load(std::memory_order_relaxed) < job->most_helpers &&
        job->slots.load(std::memory_order_relaxed) <= job->most_helpers &&
        !job->exhausted.load(std::memory_order_relaxed))
      return job;
  return nullptr;
}

// Under the lock. A worker has the same slot in call after call where it can, and so the same share.
int32_t take_slot(Job *job, int32_t wanted) {
  size_t slot = static_cast<size_t>(wanted);
  if (wanted > job->most_helpers || job->taken[slot])
    for (slot = 1; job->taken[slot]; ++slot) {
    }
  job->taken[slot] = true;
  job->slots.fetch_add(1, std::memory_order_relaxed);
  return static_cast<int32_t>(slot);
}

// A thread begins with the rounding mode and the treatment of subnormals of the thread that made it, here some caller's
// own: the pool serves all callers, in the default mode.
void enter_default_float_mode() {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(0x1F80);
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" : : "r"(0L));
#endif
}

void *worker(void *argument) {
  Worker *const self = static_cast<Worker *>(argument);
  enter_default_float_mode();
  pthread_mutex_lock(&lock);
  self->thread = this_thread();
  self->free = true;
  bool moved = false;  // for the job that it is about to join
  for (;;) {
    Job *job = find_job();
    if (job == nullptr) {
      const uint32_t seen = arrivals.load(std::memory_order_relaxed);
      pthread_mutex_unlock(&lock);
      for (int i = 0; i < kSpins && arrivals.load(std::memory_order_relaxed) == seen; ++i) relax();
      pthread_mutex_lock(&lock);
      if (arrivals.load(std::memory_order_relaxed) == seen) pthread_cond_wait(&work_arrived, &lock);
      moved = false;
      continue;
    }
    self->free = false;
    if (!moved && job->cpu == this_cpu()) {
      // Before it takes part, for the caller waits for those who do.
      const int cpu = job->cpu;
      moved = true;
      pthread_mutex_unlock(&lock);
      leave(0, cpu);
      pthread_mutex_lock(&lock);
      self->free = true;
      continue;
    }
    moved = false;
    job->helpers.fetch_add(1, std::memory_order_relaxed);
    const int32_t slot = take_slot(job, static_cast<int32_t>(self - workers) + 1);
    pthread_mutex_unlock(&lock);
    work(job, slot);
    pthread_mutex_lock(&lock);
    self->free = true;
    if (job->helpers.fetch_sub(1, std::memory_order_release) == 1) pthread_cond_broadcast(&helper_left);
  }
  return nullptr;
}

// Under the lock. A thread that can't be had is done without. Workers take no signals: handlers are the caller's, for
// the caller's threads.
void hire(int32_t needed) {
  if (hired >= needed) return;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (hired < needed) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, kStack);
    pthread_t thread;
    const int failed = pthread_create(&thread, &attributes, worker, &workers[hired]);
    pthread_attr_destroy(&attributes);
    if (failed) break;
    ++hired;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

int32_t machine_threads() {
  cpu_set_t set;
  int32_t count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                              : static_cast<int32_t>(sysconf(_SC_NPROCESSORS_ONLN));
  if (count < 1) count = 1;
  return count > kMostThreads ? kMostThreads : count;
}

Status set_threads(int32_t threads) {
  if (threads < 0 || threads > kMostThreads)
    return fail(DXDW_INVALID_ARGUMENT, "threads: %d is outside 0 to %d", threads, kMostThreads);
  wanted.store(threads, std::memory_order_relaxed);
  return DXDW_OK;
}

int32_t threads() {
  const int32_t set = wanted.load(std::memory_order_relaxed);
  if (set != 0) return set;
  static std::atomic<int32_t> allowed{0};
  if (allowed.load(std::memory_order_relaxed) == 0) allowed.store(machine_threads(), std::memory_order_relaxed);
  return allowed.load(std::memory_order_relaxed);
}

void parallel_phases(const Phases &all, int32_t threads) {
  int64_t most = 0;
  for (int64_t phase = 0; phase < all.phases; ++phase) most = std::max(most, all.count(all.context, phase));
  if (threads > most) threads = static_cast<int32_t>(most);
  if (threads <= 1) {
    for (int64_t phase = 0; phase < all.phases; ++phase)
      for (int64_t i = 0, count = all.count(all.context, phase); i < count; ++i) all.task(all.context, phase, i, 0);
    return;
  }
  counters.pool_jobs.fetch_add(1, std::memory_order_relaxed);
  Job job;
  job.work = all;
  job.most_helpers = threads - 1;
  job.cpu = this_cpu();
  job.late = nanoseconds_now() + kLateNanoseconds;
  job.shares_count = std::min(threads, kMostShares);
  for (int32_t i = 0; i < job.shares_count; ++i) job.shares[i].taken.store(0, std::memory_order_relaxed);
  pthread_mutex_lock(&lock);
  hire(threads - 1);
  job.link = jobs;
  jobs = &job;
  arrivals.fetch_add(1, std::memory_order_relaxed);
  pthread_cond_broadcast(&work_arrived);
  pthread_mutex_unlock(&lock);

  work(&job, 0);

  for (int i = 0; i < kSpins && job.helpers.load(std::memory_order_acquire) != 0; ++i) relax();
  pthread_mutex_lock(&lock);
  Job **link = &jobs;
  while (*link != &job) link = &(*link)->link;
  *link = job.link;
  while (job.helpers.load(std::memory_order_acquire) != 0) pthread_cond_wait(&helper_left, &lock);
  pthread_mutex_unlock(&lock);
}

void parallel_for(int64_t count, int32_t threads, void (*task)(void *, int64_t, int32_t), void *context) {
  struct Loop {
    int64_t count;
    void (*task)(void *, int64_t, int32_t);
    void *context;
  } loop = {count, task, context};
  const auto count_of = [](void *all, int64_t) { return static_cast<const Loop *>(all)->count; };
  const auto task_of = [](void *all, int64_t, int64_t index, int32_t slot) {
    const Loop &own = *static_cast<const Loop *>(all);
    own.task(own.context, index, slot);
  };
  parallel_phases({1, count_of, task_of, &loop}, threads);
}

}  // namespace cpu
}  // namespace dxdw
