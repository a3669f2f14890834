// Times the CUDA backend against cuBLASLt on one GPU: Y, dX, dW assigned and added in place, weighted sums, fp32 (plain,
// in bfloat16 parts, TF32), graphs of small products beside graphs of empty kernels.
//
//   dxdw_bench_cuda [--json FILE] [--runs N] [--shapes a,b,...] [--products Y,dX,dW,"dW add"] [--no-cublas] [--sustained]
//                   [--variants [--only a,b,...]] [--plans N [--seed S] [--bands a,b,...]] [--float32 TxKxN,...]
//
// Shapes go by name, or are products of bfloat16 as TxKxN; --float32 adds such of float32, each tile of which is timed.
//
// cuBLASLt is loaded at run time (libcublasLt.so.13 or .12, or the path in CUBLASLT): its first heuristic choice, and
// the fastest of its first 32. Arms alternate over rotating sets of operands. Each launch stands between two events
// behind one of the same arm, a sweep of the L2 cache and a kernel that holds the stream while the host catches up; the
// median is told: bursts of the device's time, at high clocks. With --sustained a sample is a train of launches without
// a pause, kSampleSeconds long, behind another of the same arm, and its time is for one launch: clocks are what the
// board's power allows. Data: normal, random. The copy of 1 GiB and the clock after each row tell what the machine gave
// at that time.
//
// --variants times what the plan of a product of 16-bit operands could have chosen, beside what it chose;
// --plans tells of N random products how much longer the planned choice takes than the fastest forced one, among the
// bands of rows given (4 and 8). --json writes ways as [columns of a tile, band, keeps, split, milliseconds]: "ways" as
// timed first, the plan's own in front, "again" the plan's and the five fastest.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "device.hpp"
#include "dxdw.h"
#include "gpu_plan.hpp"

namespace {

#define CUDA(expression)                                                                         \
  do {                                                                                           \
    const cudaError_t error_of_call = (expression);                                              \
    if (error_of_call != cudaSuccess) {                                                          \
      fprintf(stderr, "%d: %s: %s\n", __LINE__, #expression, cudaGetErrorString(error_of_call)); \
      exit(1);                                                                                   \
    }                                                                                            \
  } while (0)

#define DXDW(expression)                                                         \
  do {                                                                           \
    if ((expression) != DXDW_OK) {                                               \
      fprintf(stderr, "%d: %s: %s\n", __LINE__, #expression, dxdw_last_error()); \
      exit(1);                                                                   \
    }                                                                            \
  } while (0)

constexpr double kSampleSeconds = 0.06;  // of --sustained

int runs = 0, warm_ups = 2;  // 20, or 7 of --sustained, if not told
bool variants = false;       // also time what the plan could have chosen instead
std::string only;            // of the variants, between commas
std::string products;        // of those of a shape, between commas
bool sustained = false;
FILE *json = nullptr;
bool first_line = true;

// ---- Data ----

__global__ void fill_normal(void *data, int64_t count, uint64_t seed, bool is_float) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += gridDim.x * int64_t{blockDim.x}) {
    uint64_t z = seed + 0x9E3779B97F4A7C15u * static_cast<uint64_t>(i + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    const float u = (static_cast<uint32_t>(z) + 0.5f) * 0x1p-32f, v = static_cast<uint32_t>(z >> 32) * 0x1p-32f;
    const float value = sqrtf(-2 * logf(u)) * cospif(2 * v);
    if (is_float)
      reinterpret_cast<float *>(data)[i] = value;
    else
      reinterpret_cast<__nv_bfloat16 *>(data)[i] = __float2bfloat16(value);
  }
}

void *filled(int64_t count, bool is_float, uint64_t seed) {
  void *data;
  CUDA(cudaMalloc(&data, static_cast<size_t>(count * (is_float ? 4 : 2)) + 256));
  fill_normal<<<1024, 256>>>(data, count, seed, is_float);
  CUDA(cudaGetLastError());
  return data;
}

// ---- Timing ----

struct Timer {
  cudaEvent_t start, end;
  dxdw_event *our_start, *our_end;
  dxdw_stream *stream;
  Timer() {
    CUDA(cudaEventCreate(&start));
    CUDA(cudaEventCreate(&end));
    DXDW(dxdw_stream_create(0, &stream));
    DXDW(dxdw_event_create(0, &our_start));
    DXDW(dxdw_event_create(0, &our_end));
  }
};

Timer *timer;

// Reads twice what the L2 cache holds: no arm finds its operands there, or has to write back what another left.
__global__ void sweep_cache(const uint4 *data, int64_t count, uint32_t *never) {
  uint32_t all = ~0u;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += gridDim.x * int64_t{blockDim.x})
    all &= data[i].x | data[i].y | data[i].z | data[i].w;
  if (all == 0xDEADBEEF) *never = all;
}

// Keeps the stream busy while the host puts two events and a call behind it, so that the device's time alone is told.
__global__ void hold_stream() {
  constexpr uint64_t kNanoseconds = 30000;
  uint64_t start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    __nanosleep(500);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < kNanoseconds);
}

constexpr int64_t kSweepBytes = 128 << 20;
uint4 *sweep;

void settle(cudaStream_t stream) {
  sweep_cache<<<528, 256, 0, stream>>>(sweep, kSweepBytes / 16, reinterpret_cast<uint32_t *>(sweep));
  hold_stream<<<1, 1, 0, stream>>>();
}

double time_ours(const std::function<void()> &call) {
  double milliseconds;
  settle(timer->stream->handle);
  DXDW(dxdw_event_record(timer->our_start, timer->stream));
  call();
  DXDW(dxdw_event_record(timer->our_end, timer->stream));
  DXDW(dxdw_event_synchronize(timer->our_end));
  DXDW(dxdw_event_elapsed(timer->our_start, timer->our_end, &milliseconds));
  return milliseconds;
}

double time_theirs(const std::function<void()> &call) {
  float milliseconds;
  settle(nullptr);
  CUDA(cudaEventRecord(timer->start, nullptr));
  call();
  CUDA(cudaEventRecord(timer->end, nullptr));
  CUDA(cudaEventSynchronize(timer->end));
  CUDA(cudaEventElapsedTime(&milliseconds, timer->start, timer->end));
  return milliseconds;
}

struct Arm {
  std::string name;
  bool ours;
  std::function<void(int)> call;  // on the set of operands of that number
  std::vector<double> times;

  double median() {
    std::sort(times.begin(), times.end());
    return times.empty() ? NAN : times[times.size() / 2];
  }
};

double time_of(const Arm &arm, const std::function<void()> &call) {
  return arm.ours ? time_ours(call) : time_theirs(call);
}

// Alternates the arms, a single launch at a time. Each arm sees each set, and is launched once just before it is timed,
// so that its code stands in the caches whatever ran before. Shuffled, each round has another order: an arm that draws
// much power leaves the next a lower clock, whichever that is.
void measure_bursts(std::vector<Arm> *arms, int sets, int rounds, bool shuffled = false) {
  std::vector<size_t> order(arms->size());
  std::iota(order.begin(), order.end(), 0);
  std::minstd_rand random;
  for (int round = -warm_ups; round < rounds; ++round) {
    if (shuffled) std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order) {
      Arm &arm = (*arms)[i];
      const int set = (round + warm_ups + static_cast<int>(i)) % sets;
      arm.call(set);
      const double milliseconds = time_of(arm, [&] { arm.call(set); });
      if (round >= 0) arm.times.push_back(milliseconds);
    }
  }
}

// Alternates the arms, two trains of launches over the sets at a time, of which the second is timed: in the first the
// board's clock settles, which lags behind what it draws.
void measure_sustained(std::vector<Arm> *arms, int sets) {
  for (int round = 0; round < runs; ++round)
    for (Arm &arm : *arms) {
      arm.call(0);
      const double single = time_of(arm, [&] { arm.call(1 % sets); });
      const int launches = std::max(4, static_cast<int>(kSampleSeconds * 1e3 / single));
      const auto train = [&] {
        for (int i = 0; i < launches; ++i) arm.call(i % sets);
      };
      train();
      arm.times.push_back(time_of(arm, train) / launches);
    }
}

void measure(std::vector<Arm> *arms, int sets) {
  if (sustained)
    measure_sustained(arms, sets);
  else
    measure_bursts(arms, sets, runs);
}

// ---- The board ----

// Clock in MHz and power in W as the driver's management library tells them; -1 where it is missing.
struct Board {
  int (*Clock)(void *, int, unsigned *) = nullptr;
  int (*Power)(void *, unsigned *) = nullptr;
  void *device = nullptr;

  Board() {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library == nullptr) return;
    const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
    const auto handle =
        reinterpret_cast<int (*)(const char *, void **)>(dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2"));
    // The library counts all boards, CUDA those that it may see.
    char bus[32];
    if (init == nullptr || handle == nullptr || cudaDeviceGetPCIBusId(bus, sizeof bus, 0) != cudaSuccess ||
        init() != 0 || handle(bus, &device) != 0)
      return;
    Clock = reinterpret_cast<decltype(Clock)>(dlsym(library, "nvmlDeviceGetClockInfo"));
    Power = reinterpret_cast<decltype(Power)>(dlsym(library, "nvmlDeviceGetPowerUsage"));
  }
  int megahertz() const {
    unsigned value;
    return Clock != nullptr && Clock(device, 1, &value) == 0 ? static_cast<int>(value) : -1;
  }
  int watts() const {
    unsigned value;
    return Power != nullptr && Power(device, &value) == 0 ? static_cast<int>(value / 1000) : -1;
  }
};

const Board *board;

void report(const std::string &shape, const std::string &what, double flop, double bytes, std::vector<Arm> *arms) {
  const double floor_ms = std::max(flop / 720e12, bytes / 4.25e12) * 1e3;
  printf("%-26s %-10s floor %8.4f", shape.c_str(), what.c_str(), floor_ms);
  double ours = 0, best = 0;
  for (Arm &arm : *arms) {
    const double t = arm.median();
    printf("  %s %8.4f", arm.name.c_str(), t);
    if (arm.ours && ours == 0) ours = t;
    // What rounds its operands further is told, but no peer of what does not.
    if (!arm.ours && arm.name != "tf32 best" && (best == 0 || t < best)) best = t;
  }
  if (flop > 0) printf("  %6.1f TFLOP/s", flop / ours * 1e-9);
  if (flop == 0) printf("  %6.0f GB/s", bytes / ours * 1e-6);
  if (best > 0) printf("  ratio %.3f", best / ours);
  const int clock = board->megahertz(), power = board->watts();
  printf("  %d MHz %d W\n", clock, power);
  if (json == nullptr) return;
  fprintf(json,
          "%s\n  {\"shape\": \"%s\", \"what\": \"%s\", \"sustained\": %s, \"flop\": %.0f, \"bytes\": %.0f, "
          "\"floor_ms\": %.5f, \"clock_mhz\": %d, \"power_w\": %d",
          first_line ? "" : ",", shape.c_str(), what.c_str(), sustained ? "true" : "false", flop, bytes, floor_ms,
          clock, power);
  for (Arm &arm : *arms) {
    arm.median();
    fprintf(json, ", \"%s\": {\"median_ms\": %.5f, \"min_ms\": %.5f, \"max_ms\": %.5f}", arm.name.c_str(), arm.median(),
            arm.times.front(), arm.times.back());
  }
  fprintf(json, "}");
  first_line = false;
}

// ---- cuBLASLt ----

// The few declarations of cuBLASLt's header that are needed, so that the program builds where the header is missing.
using LtHandle = void *;
using LtDesc = void *;
using LtLayout = void *;
using LtPreference = void *;
struct LtAlgorithm {
  uint64_t data[8];
};
struct LtResult {
  LtAlgorithm algorithm;
  size_t workspace;
  int32_t state;
  float waves;
  int32_t reserved[4];
};
constexpr int32_t kLtNoTranspose = 0, kLtTranspose = 1;
constexpr int32_t kLtCompute32F = 68, kLtComputeTf32 = 77;
constexpr int32_t kLtTransA = 3, kLtTransB = 4, kLtMostWorkspace = 1;

struct Cublas {
  void *library = nullptr;
  LtHandle handle = nullptr;
  void *workspace = nullptr;
  static constexpr size_t kWorkspace = 64 << 20;

  int (*Create)(LtHandle *);
  int (*MatmulDescCreate)(LtDesc *, int32_t compute, int32_t scale);
  int (*MatmulDescSetAttribute)(LtDesc, int32_t attribute, const void *value, size_t bytes);
  int (*MatrixLayoutCreate)(LtLayout *, int32_t type, uint64_t rows, uint64_t cols, int64_t pitch);
  int (*MatmulPreferenceCreate)(LtPreference *);
  int (*MatmulPreferenceSetAttribute)(LtPreference, int32_t attribute, const void *value, size_t bytes);
  int (*MatmulAlgoGetHeuristic)(LtHandle, LtDesc, LtLayout, LtLayout, LtLayout, LtLayout, LtPreference, int count,
                                LtResult *results, int *returned);
  int (*Matmul)(LtHandle, LtDesc, const void *alpha, const void *a, LtLayout, const void *b, LtLayout, const void *beta,
                const void *c, LtLayout, void *d, LtLayout, const LtAlgorithm *, void *workspace, size_t, cudaStream_t);
  size_t (*GetVersion)();

  bool open() {
    const char *path = getenv("CUBLASLT");
    for (const char *name : {path, "libcublasLt.so.13", "libcublasLt.so.12"})
      if (library == nullptr && name != nullptr) library = dlopen(name, RTLD_NOW);
    if (library == nullptr) {
      printf("cuBLASLt was not found: %s\n", dlerror());
      return false;
    }
#define LT(name) name = reinterpret_cast<decltype(name)>(dlsym(library, "cublasLt" #name))
    LT(Create);
    LT(MatmulDescCreate);
    LT(MatmulDescSetAttribute);
    LT(MatrixLayoutCreate);
    LT(MatmulPreferenceCreate);
    LT(MatmulPreferenceSetAttribute);
    LT(MatmulAlgoGetHeuristic);
    LT(Matmul);
    LT(GetVersion);
#undef LT
    CUDA(cudaMalloc(&workspace, kWorkspace));
    return Create(&handle) == 0;
  }
};

// Column-major D = op(A) . op(B), or += in place.
struct LtProduct {
  Cublas *lt;
  LtDesc desc;
  LtLayout a, b, d;
  std::vector<LtResult> found;
  float alpha = 1, beta;

  LtProduct(Cublas *cublas, int32_t op_a, int32_t op_b, int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb,
            int64_t ldd, cudaDataType in, cudaDataType out, int32_t compute, bool add)
      : lt(cublas), beta(add ? 1.0f : 0.0f) {
    lt->MatmulDescCreate(&desc, compute, CUDA_R_32F);
    lt->MatmulDescSetAttribute(desc, kLtTransA, &op_a, sizeof op_a);
    lt->MatmulDescSetAttribute(desc, kLtTransB, &op_b, sizeof op_b);
    lt->MatrixLayoutCreate(&a, in, op_a == kLtNoTranspose ? m : k, op_a == kLtNoTranspose ? k : m, lda);
    lt->MatrixLayoutCreate(&b, in, op_b == kLtNoTranspose ? k : n, op_b == kLtNoTranspose ? n : k, ldb);
    lt->MatrixLayoutCreate(&d, out, m, n, ldd);
    LtPreference preference;
    lt->MatmulPreferenceCreate(&preference);
    size_t bytes = Cublas::kWorkspace;
    lt->MatmulPreferenceSetAttribute(preference, kLtMostWorkspace, &bytes, sizeof bytes);
    found.resize(32);
    int count = 0;
    lt->MatmulAlgoGetHeuristic(lt->handle, desc, a, b, d, d, preference, 32, found.data(), &count);
    found.resize(static_cast<size_t>(count));
  }
  bool run(size_t algorithm, const void *pa, const void *pb, void *pd) {
    return lt->Matmul(lt->handle, desc, &alpha, pa, a, pb, b, &beta, pd, d, pd, d, &found[algorithm].algorithm,
                      lt->workspace, Cublas::kWorkspace, nullptr) == 0;
  }
  // The fastest of those found, by three timed runs each.
  size_t fastest(const void *pa, const void *pb, void *pd) {
    size_t best = 0;
    double best_time = 1e30;
    for (size_t i = 0; i < found.size(); ++i) {
      if (!run(i, pa, pb, pd)) continue;
      double time = 1e30;
      for (int repeat = 0; repeat < 3; ++repeat) time = std::min(time, time_theirs([&] { run(i, pa, pb, pd); }));
      if (time < best_time) best_time = time, best = i;
    }
    return best;
  }
};

// ---- Products ----

// Choices that can be forced on the plan of a product of 16-bit operands.
struct Choice {
  const char *name;
  dxdw::gpu::Forced forced;  // tile_n, band, keeps_columns, fetch_old
};
constexpr Choice kChoices[] = {{"wide", {256, 0, -1}},
                               {"wide band 4", {256, 4, -1}},
                               {"turned", {160}},
                               {"turns", {128, 0, -1}},
                               {"turns band 4", {128, 4, -1}},
                               {"keeps", {128, 0, 1}},
                               {"keeps wide", {256, 0, 1}},
                               {"narrow", {64}},
                               {"late", {0, 0, 0, 0, 0, 0, 0, -1}},
                               {"no thin", {0, 0, 0, 0, 0, 0, 0, 0, -1}},
                               {"no clusters", {0, 0, 0, 0, 0, 0, 0, 0, 0, -1}},
                               {"clusters of 1", {0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
                               {"clusters of 2", {0, 0, 0, 0, 0, 0, 0, 0, 0, 2}}};
constexpr Choice kChoicesOfAdd[] = {{"wide fetch", {256, 0, -1, 1}},  {"wide no", {256, 0, -1, -1}},
                                    {"turns fetch", {128, 0, -1, 1}}, {"turns no", {128, 0, -1, -1}},
                                    {"keeps fetch", {128, 0, 1, 1}},  {"keeps no", {128, 0, 1, -1}},
                                    {"narrow fetch", {64, 0, 0, 1}},  {"narrow no", {64, 0, 0, -1}}};

bool is_listed(const std::string &list, const std::string &name) {
  return list.empty() || list.find("," + name + ",") != std::string::npos;
}

struct Shape {
  const char *name;
  int64_t t, k, n;
};

dxdw_tensor matrix(void *data, int64_t *shape, bool is_float) {
  return {data,
          DXDW_CUDA,
          0,
          2,
          static_cast<uint8_t>(is_float ? DXDW_FLOAT : DXDW_BFLOAT),
          static_cast<uint8_t>(is_float ? 32 : 16),
          1,
          shape,
          nullptr,
          0};
}

void bench_products(const Shape &s, Cublas *lt, bool fp32) {
  const int64_t t = s.t, k = s.k, n = s.n, size = fp32 ? 4 : 2;
  const int64_t set_bytes = (t * k + t * n + k * n) * size + k * n * 4;
  const int sets = static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(4, (int64_t{240} << 20) / set_bytes + 1)));
  std::vector<void *> x, w, dy, dw, out;
  const bool rows = is_listed(products, "Y") || is_listed(products, "dX");
  for (int i = 0; i < sets; ++i) {
    const uint64_t seed = static_cast<uint64_t>(i) * 10;
    x.push_back(filled(t * k, fp32, seed + 1));
    w.push_back(filled(k * n, fp32, seed + 2));
    dy.push_back(filled(t * n, fp32, seed + 3));
    dw.push_back(filled(k * n, true, seed + 4));
    if (rows) out.push_back(filled(t * std::max(k, n), fp32, seed + 5));
  }
  int64_t x_shape[] = {t, k}, w_shape[] = {k, n}, dy_shape[] = {t, n};
  dxdw_options options = {};
  options.size = sizeof options;
  options.stream = timer->stream;
  const double flop = 2.0 * t * k * n;
  const cudaDataType in = fp32 ? CUDA_R_32F : CUDA_R_16BF;
  char label[64];
  snprintf(label, sizeof label, "%s%s", s.name, fp32 ? " fp32" : "");

  // Of float32 operands: the same call with tiles that threads copy, with those that TMA loads, and under each precision.
  const auto by_name = [&](std::vector<Arm> *arms) {
    if (!fp32) return;
    const std::function<void(int)> call = (*arms)[0].call;
    const struct {
      const char *name;
      int32_t precision;
    } precisions[] = {{"bf16x3", DXDW_PRECISION_BF16X3}, {"tf32", DXDW_PRECISION_TF32}};
    const struct {
      const char *name;
      int32_t tile_n, fed;
    } ways[] = {{"copied", 0, -1}, {"fed 256", 256, 1}, {"fed 128", 128, 1}, {"fed 64", 64, 1}};
    for (const auto &way : ways)
      arms->push_back({way.name,
                       true,
                       [call, way](int i) {
                         dxdw::gpu::forced.tile_n = way.tile_n;
                         dxdw::gpu::forced.fed = way.fed;
                         call(i);
                         dxdw::gpu::forced = {};
                       },
                       {}});
    for (const auto &precision : precisions)
      arms->push_back({precision.name,
                       true,
                       [&options, call, precision](int i) {
                         options.precision = precision.precision;
                         call(i);
                         options.precision = DXDW_PRECISION_DEFAULT;
                       },
                       {}});
  };
  const auto both = [&](const char *what, double bytes, std::vector<Arm> arms, LtProduct *product, LtProduct *tf32,
                        const std::vector<void *> &a, const std::vector<void *> &b, const std::vector<void *> &d) {
    by_name(&arms);
    if (tf32 != nullptr && !tf32->found.empty()) {
      const size_t best = tf32->fastest(a[0], b[0], d[0]);
      arms.push_back({"tf32 best", false, [&, tf32, best](int i) { tf32->run(best, a[i], b[i], d[i]); }, {}});
    }
    if (variants && !fp32) {
      const Arm ours = arms[0];
      const auto offer = [&](const Choice &choice) {
        if (!is_listed(only, choice.name)) return;
        arms.push_back({choice.name,
                        true,
                        [ours, choice](int i) {
                          dxdw::gpu::forced = choice.forced;
                          ours.call(i);
                          dxdw::gpu::forced = {};
                        },
                        {}});
      };
      for (const Choice &choice : kChoices) offer(choice);
      if (strcmp(what, "dW add") == 0)
        for (const Choice &choice : kChoicesOfAdd) offer(choice);
    }
    if (product != nullptr && !product->found.empty()) {
      arms.push_back({"first", false, [&, product](int i) { product->run(0, a[i], b[i], d[i]); }, {}});
      const size_t best = product->fastest(a[0], b[0], d[0]);
      arms.push_back({"best32", false, [&, product, best](int i) { product->run(best, a[i], b[i], d[i]); }, {}});
    }
    measure(&arms, sets);
    report(label, what, flop, bytes, &arms);
  };
  const double in_bytes = static_cast<double>(size);
  const auto peer_of = [&](int32_t op_a, int32_t op_b, int64_t rows, int64_t cols, int64_t contraction, int64_t lda,
                           int64_t ldb, int64_t ldd, cudaDataType type, bool add) {
    std::vector<LtProduct *> peers(2, nullptr);
    for (int i = 0; lt != nullptr && i < (fp32 ? 2 : 1); ++i)
      peers[static_cast<size_t>(i)] = new LtProduct(lt, op_a, op_b, rows, cols, contraction, lda, ldb, ldd, in, type,
                                                    i == 0 ? kLtCompute32F : kLtComputeTf32, add);
    return peers;
  };
  if (is_listed(products, "Y")) {
    const auto peers = peer_of(kLtNoTranspose, kLtNoTranspose, n, t, k, n, k, n, in, false);
    both("Y", in_bytes * (t * k + k * n + t * n),
         {{"ours",
           true,
           [&](int i) {
             const dxdw_tensor a = matrix(x[i], x_shape, fp32), b = matrix(w[i], w_shape, fp32),
                               c = matrix(out[i], dy_shape, fp32);
             DXDW(y_launch(&a, &b, &c, &options));
           },
           {}}},
         peers[0], peers[1], w, x, out);
  }
  if (is_listed(products, "dX")) {
    const auto peers = peer_of(kLtTranspose, kLtNoTranspose, k, t, n, n, n, k, in, false);
    both("dX", in_bytes * (t * k + k * n + t * n),
         {{"ours",
           true,
           [&](int i) {
             const dxdw_tensor a = matrix(dy[i], dy_shape, fp32), b = matrix(w[i], w_shape, fp32),
                               c = matrix(out[i], x_shape, fp32);
             DXDW(dx_launch(&a, &b, &c, &options));
           },
           {}}},
         peers[0], peers[1], w, dy, out);
  }
  for (bool add : {false, true}) {
    const char *what = add ? "dW add" : "dW";
    if (!is_listed(products, what)) continue;
    options.accumulate = add ? DXDW_ADD : DXDW_ASSIGN;
    const auto peers = peer_of(kLtNoTranspose, kLtTranspose, n, k, t, n, k, n, CUDA_R_32F, add);
    const auto arm = [&](int deterministic) {
      return [&, deterministic](int i) {
        const dxdw_tensor a = matrix(x[i], x_shape, fp32), b = matrix(dy[i], dy_shape, fp32),
                          c = matrix(dw[i], w_shape, true);
        DXDW(dw_launch(&a, &b, &c, 0, deterministic, &options));
      };
    };
    std::vector<Arm> arms = {{"ours", true, arm(1), {}}};
    if (add) arms.push_back({"atomic", true, arm(0), {}});
    both(what, in_bytes * (t * k + t * n) + (add ? 8.0 : 4.0) * k * n, arms, peers[0], peers[1], dy, x, dw);
  }
  for (auto *list : {&x, &w, &dy, &dw, &out})
    for (void *p : *list) CUDA(cudaFree(p));
}

// ---- The plan beside what it could have chosen ----

// One way to run a product of 16-bit operands: all that the plan chooses, forced, and the plan that comes of it.
struct Way {
  dxdw::gpu::Forced forced;
  int32_t split;
  dxdw::gpu::ProductPlan plan;
};

// Are they the same launches? A band is only seen where there are more rows of tiles.
bool same(const dxdw::gpu::ProductPlan &a, const dxdw::gpu::ProductPlan &b) {
  const auto band = [](const dxdw::gpu::ProductPlan &p) { return std::min<int64_t>(p.band, p.tiles_m); };
  return strcmp(dxdw::gpu::kernel_name(a), dxdw::gpu::kernel_name(b)) == 0 && a.keeps_columns == b.keeps_columns &&
         a.fetch_old == b.fetch_old && a.split == b.split && a.blocks == b.blocks && band(a) == band(b);
}

std::vector<Way> forced_ways(int function, int64_t t, int64_t k, int64_t n, const std::vector<int32_t> &bands) {
  std::vector<Way> ways;
  for (int32_t tile : {256, 160, 128, 64})
    for (int32_t band : bands) ways.push_back({{tile, band, -1}, 1, {}});
  for (int32_t tile : {256, 128}) ways.push_back({{tile, 0, 1}, 1, {}});
  if (function != DXDW_DW) return ways;
  for (int32_t tile : {256, 128, 64})
    for (int32_t split : {2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 96}) {
      const int64_t units = (k + 127) / 128 * ((n + tile - 1) / tile) * split;
      if (units > 400 || t / split < 256 || split * k * n * 4 > int64_t{1} << 26) continue;
      ways.push_back({{tile}, split, {}});
    }
  for (int32_t split : {1, 2})
    if (std::min(k, n) <= dxdw::gpu::kClusteredTile) ways.push_back({{0, 0, 0, 0, 0, 0, 0, 0, 0, split}, split, {}});
  return ways;
}

dxdw::gpu::Chip chip_of_device() {
  cudaDeviceProp properties;
  CUDA(cudaGetDeviceProperties(&properties, 0));
  return {properties.major * 10 + properties.minor, properties.multiProcessorCount};
}

// Random products of 16-bit operands: the planned choice over the fastest of all that can be forced. The least of some
// twenty medians is partly luck, so the fastest five are timed again beside the plan's choice, four times as often, and
// only these times count. Ways that come to the same launches are one, and so the plan's may be the fastest itself.
void bench_plans(int shapes, uint64_t seed, const std::vector<int32_t> &bands) {
  using dxdw::DType;
  using dxdw::Matrix;
  constexpr int64_t kMost = int64_t{1} << 27;  // elements of an operand
  void *x = filled(kMost, false, 1), *w = filled(kMost, false, 2), *dy = filled(kMost, false, 3);
  void *out = filled(kMost, true, 4);
  const dxdw::gpu::Chip chip = chip_of_device();
  dxdw_options options = {};
  options.size = sizeof options;
  options.stream = timer->stream;
  options.accumulate = DXDW_ASSIGN;
  uint64_t state = seed;
  const auto below = [&](double limit) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 33) * 0x1p-31 * limit;
  };
  const auto size = [&] {
    const int64_t any = static_cast<int64_t>(exp2(6 + below(9)));
    return below(1) < 0.7 ? (any + 63) / 64 * 64 : (any + 7) / 8 * 8;
  };
  std::vector<double> ratios;
  for (int shape = 0; shape < shapes; ++shape) {
    int64_t t, k, n;
    do t = size(), k = size(), n = size();
    while (t * k > kMost || k * n > kMost || t * n > kMost || 2.0 * t * k * n > 1e12 || k * n < 128 * 64);
    const int function = static_cast<int>(below(3));
    int64_t x_shape[] = {t, k}, w_shape[] = {k, n}, dy_shape[] = {t, n};
    const dxdw_tensor tx = matrix(x, x_shape, false), tw = matrix(w, w_shape, false), tdy = matrix(dy, dy_shape, false);
    const auto bf16 = [](void *data, int64_t rows, int64_t cols) {
      return Matrix{static_cast<char *>(data), DType::bf16, rows, cols, cols, 1};
    };
    dxdw_tensor operands[3];
    dxdw::Product product = {};
    product.deterministic = true;
    if (function == DXDW_Y) {
      operands[0] = tx, operands[1] = tw, operands[2] = matrix(out, dy_shape, false);
      product.a = bf16(x, t, k), product.b = bf16(w, k, n), product.c = bf16(out, t, n);
    } else if (function == DXDW_DX) {
      operands[0] = tdy, operands[1] = tw, operands[2] = matrix(out, x_shape, false);
      product.a = bf16(dy, t, n), product.b = bf16(w, k, n).transposed(), product.c = bf16(out, t, k);
    } else {
      operands[0] = tx, operands[1] = tdy, operands[2] = matrix(out, w_shape, true);
      product.a = bf16(x, t, k).transposed(), product.b = bf16(dy, t, n), product.c = bf16(out, k, n);
      product.c.type = DType::f32;
    }
    // The plan's own way comes first.
    std::vector<Way> ways;
    std::vector<Way> wanted = forced_ways(function, t, k, n, bands);
    wanted.insert(wanted.begin(), Way{{}, function == DXDW_DW ? 0 : 1, {}});
    for (Way &way : wanted) {
      product.split = way.split;
      dxdw::gpu::forced = way.forced;
      way.plan = dxdw::gpu::plan_product(product, function, chip);
      dxdw::gpu::forced = {};
      const auto is_this = [&](const Way &other) { return same(way.plan, other.plan); };
      if (std::none_of(ways.begin(), ways.end(), is_this)) ways.push_back(way);
    }
    std::vector<Arm> arms;
    for (const Way &way : ways)
      arms.push_back({"",
                      true,
                      [&, way](int) {
                        dxdw::gpu::forced = way.forced;
                        DXDW(dxdw_call(function, operands, way.split, 1, &options, 0, 0, 0, 0, 0, 0));
                        dxdw::gpu::forced = {};
                      },
                      {}});
    measure_bursts(&arms, 1, runs, true);
    std::vector<size_t> order(arms.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin() + 1, order.end(), [&](size_t a, size_t b) { return arms[a].median() < arms[b].median(); });
    order.resize(std::min<size_t>(order.size(), 6));
    std::vector<Arm> finalists;
    for (const size_t i : order) finalists.push_back({"", true, arms[i].call, {}});
    measure_bursts(&finalists, 1, 4 * runs, true);
    size_t first = 0;
    for (size_t i = 1; i < finalists.size(); ++i)
      if (finalists[i].median() < finalists[first].median()) first = i;
    const double planned = finalists[0].median(), fastest = finalists[first].median();
    ratios.push_back(planned / fastest);
    const char *name = function == DXDW_Y ? "Y" : function == DXDW_DX ? "dX" : "dW";
    const auto integer = [](int64_t value) { return static_cast<long long>(value); };
    const auto print_way = [](const char *before, const dxdw::gpu::ProductPlan &p, double milliseconds) {
      printf("%s%d columns, band %d%s, split %d: %.4f ms", before, p.tile_n, p.band, p.keeps_columns ? ", kept" : "",
             p.split, milliseconds);
    };
    if (planned > 1.05 * fastest) {
      printf("  %s %lld, %lld, %lld: %.3f", name, integer(t), integer(k), integer(n), planned / fastest);
      print_way("; plan ", ways[0].plan, planned);
      print_way("; best ", ways[order[first]].plan, fastest);
      printf("\n");
    }
    if (json == nullptr) continue;
    fprintf(json, "%s\n  {\"product\": \"%s\", \"t\": %lld, \"k\": %lld, \"n\": %lld, \"planned_ms\": %.5f",
            first_line ? "" : ",", name, integer(t), integer(k), integer(n), planned);
    const auto write_way = [](const char *before, const dxdw::gpu::ProductPlan &p, double milliseconds) {
      fprintf(json, "%s[%d, %d, %d, %d, %.5f]", before, p.tile_n, p.band, p.keeps_columns, p.split, milliseconds);
    };
    fprintf(json, ", \"ways\": [");
    for (size_t i = 0; i < arms.size(); ++i) write_way(i == 0 ? "" : ", ", ways[i].plan, arms[i].median());
    fprintf(json, "], \"again\": [");
    for (size_t i = 0; i < finalists.size(); ++i)
      write_way(i == 0 ? "" : ", ", ways[order[i]].plan, finalists[i].median());
    fprintf(json, "]}");
    first_line = false;
  }
  std::sort(ratios.begin(), ratios.end());
  const auto at = [&](double share) { return ratios[static_cast<size_t>(share * (ratios.size() - 1))]; };
  const auto above = ratios.end() - std::upper_bound(ratios.begin(), ratios.end(), 1.05);
  printf(
      "planned over fastest forced choice, %d random products: median %.3f, 90 %% below %.3f, 95 %% below %.3f, most "
      "%.3f; %d above 1.05 (%.1f %%)\n",
      shapes, at(0.5), at(0.9), at(0.95), at(1), static_cast<int>(above), 100.0 * static_cast<double>(above) / shapes);
  for (void *p : {x, w, dy, out}) CUDA(cudaFree(p));
}

// ---- Weighted sums ----

void bench_weighted(int64_t rows, int64_t d, bool fp32) {
  const int64_t size = fp32 ? 4 : 2;
  const int sets =
      static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(4, (int64_t{240} << 20) / (rows * d * size) + 1)));
  std::vector<void *> x, gx;
  for (int i = 0; i < sets; ++i) {
    x.push_back(filled(rows * d, fp32, static_cast<uint64_t>(i)));
    gx.push_back(filled(rows * d, fp32, static_cast<uint64_t>(i) + 50));
  }
  void *w = filled(d, fp32, 7), *g = filled(rows, fp32, 8), *gw = filled(d, true, 9);
  int64_t x_shape[] = {rows, d};
  dxdw_options options = {};
  options.size = sizeof options;
  options.stream = timer->stream;
  const auto vector = [&](void *data, int64_t *shape, bool is_float) {
    dxdw_tensor v = matrix(data, shape, is_float);
    v.ndim = 1;
    return v;
  };
  char label[64];
  snprintf(label, sizeof label, "ws %lld x %lld %s", static_cast<long long>(rows), static_cast<long long>(d),
           fp32 ? "fp32" : "bf16");
  std::vector<Arm> forward = {{"ours",
                               true,
                               [&](int i) {
                                 const dxdw_tensor tx = matrix(x[i], x_shape, fp32), tw = vector(w, x_shape + 1, fp32),
                                                   ty = vector(g, x_shape, fp32);
                                 DXDW(weighted_sum_fwd(&tx, &tw, &ty, &options));
                               },
                               {}}};
  measure(&forward, sets);
  report(label, "forward", 0, static_cast<double>(rows * d * size), &forward);
  std::vector<Arm> backward = {{"ours",
                                true,
                                [&](int i) {
                                  const dxdw_tensor tx = matrix(x[i], x_shape, fp32), tw = vector(w, x_shape + 1, fp32),
                                                    tg = vector(g, x_shape, fp32), tgx = matrix(gx[i], x_shape, fp32),
                                                    tgw = vector(gw, x_shape + 1, true);
                                  DXDW(weighted_sum_bwd(&tx, &tw, &tg, &tgx, &tgw, &options));
                                },
                                {}}};
  measure(&backward, sets);
  report(label, "backward", 0, static_cast<double>(rows * d * size * 2), &backward);
  for (auto *list : {&x, &gx})
    for (void *p : *list) CUDA(cudaFree(p));
  for (void *p : {w, g, gw}) CUDA(cudaFree(p));
}

// ---- What a launch costs on the device ----

// Graphs of 100 products of 64 x 64 x 64, and of 512 rows, that add to one dW, so that they run one after the other,
// beside a graph of 100 kernels that do nothing: the floor. Microseconds a launch, medians of replays in turn.
void bench_graphs() {
  constexpr int kLaunches = 100;
  int64_t shape[] = {64, 64};
  dxdw_options options = {};
  options.size = sizeof options;
  options.stream = timer->stream;
  const auto recorded = [&](const std::function<void()> &call) {
    dxdw_graph *graph;
    DXDW(dxdw_graph_begin(timer->stream));
    for (int i = 0; i < kLaunches; ++i) call();
    DXDW(dxdw_graph_end(timer->stream, &graph));
    return graph;
  };
  std::vector<Arm> arms;
  std::vector<void *> memory;
  const auto add_arm = [&](const char *name, dxdw_graph *graph) {
    arms.push_back({name, true, [graph](int) { DXDW(dxdw_graph_launch(graph, timer->stream)); }, {}});
  };
  add_arm("empty", recorded([] { DXDW(dxdw_cuda_nop(timer->stream)); }));
  const struct {
    const char *name;
    bool fp32;
    int64_t t;
  } products[] = {{"dW fp32", true, 64}, {"dW bf16", false, 64}, {"dW bf16, T 512", false, 512}};
  for (const auto &product : products) {
    const bool fp32 = product.fp32;
    void *x = filled(product.t * 64, fp32, 1), *dy = filled(product.t * 64, fp32, 2), *dw = filled(64 * 64, true, 3);
    memory.insert(memory.end(), {x, dy, dw});
    int64_t rows[] = {product.t, 64};
    const dxdw_tensor a = matrix(x, rows, fp32), b = matrix(dy, rows, fp32), c = matrix(dw, shape, true);
    add_arm(product.name, recorded([&] { DXDW(dw_launch(&a, &b, &c, 1, 1, &options)); }));
  }
  // Alone first, then all in turn.
  for (size_t i = 0; i < arms.size(); ++i) {
    std::vector<Arm> alone = {arms[i]};
    measure_bursts(&alone, 1, runs);
    printf("graph of %d, alone: %-8s %6.2f us a launch\n", kLaunches, alone[0].name.c_str(),
           alone[0].median() * 1e3 / kLaunches);
  }
  measure_bursts(&arms, 1, runs);
  for (Arm &arm : arms)
    printf("graph of %d, in turn: %-8s %6.2f us a launch\n", kLaunches, arm.name.c_str(),
           arm.median() * 1e3 / kLaunches);
  for (void *m : memory) CUDA(cudaFree(m));
}

// Sums words; what is read is never written.
__global__ void read_all(const uint4 *data, int64_t count, uint32_t *never) {
  uint32_t sum = 0;
  constexpr int kAhead = 8;
  const int64_t hop = gridDim.x * int64_t{blockDim.x};
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += kAhead * hop) {
    uint4 words[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) words[j] = i + j * hop < count ? __ldcs(data + i + j * hop) : uint4{};
#pragma unroll
    for (int j = 0; j < kAhead; ++j) sum += words[j].x + words[j].y + words[j].z + words[j].w;
  }
  if (sum == 0x12345678) *never = sum;
}

void bench_copy() {
  const int64_t count = int64_t{1} << 28;
  void *from = filled(count, true, 1), *to = filled(count, true, 2);
  std::vector<Arm> arms = {
      {"copy", false, [&](int) { CUDA(cudaMemcpyAsync(to, from, count * 4, cudaMemcpyDeviceToDevice, nullptr)); }, {}}};
  measure(&arms, 1);
  printf("device copy of 1 GiB: %.0f GB/s read and written\n", count * 8.0 / arms[0].median() * 1e-6);
  std::vector<Arm> reads = {{"read",
                             false,
                             [&](int) {
                               read_all<<<132 * 4, 256>>>(static_cast<const uint4 *>(from), count / 4,
                                                          static_cast<uint32_t *>(to));
                             },
                             {}}};
  measure(&reads, 1);
  printf("read of 1 GiB: %.0f GB/s\n", count * 4.0 / reads[0].median() * 1e-6);
  CUDA(cudaFree(from));
  CUDA(cudaFree(to));
}

// Of a list between commas.
std::vector<int32_t> integers(const char *list) {
  std::vector<int32_t> found;
  for (char *end; *list != 0; list = *end == ',' ? end + 1 : end) {
    found.push_back(static_cast<int32_t>(strtol(list, &end, 10)));
    if (end == list) fprintf(stderr, "no number: %s\n", list), exit(2);
  }
  return found;
}

}  // namespace

int main(int count, char **arguments) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  std::string wanted, float32;
  bool cublas = true;
  int plans = 0;
  uint64_t seed = 12345;
  std::vector<int32_t> bands = {4, 8};
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument == "--json" && i + 1 < count)
      json = fopen(arguments[++i], "w");
    else if (argument == "--runs" && i + 1 < count)
      runs = atoi(arguments[++i]);
    else if (argument == "--shapes" && i + 1 < count)
      wanted = std::string(",") + arguments[++i] + ",";
    else if (argument == "--products" && i + 1 < count)
      products = std::string(",") + arguments[++i] + ",";
    else if (argument == "--float32" && i + 1 < count)
      float32 = std::string(",") + arguments[++i] + ",";
    else if (argument == "--variants")
      variants = true;
    else if (argument == "--plans" && i + 1 < count)
      plans = atoi(arguments[++i]);
    else if (argument == "--seed" && i + 1 < count)
      seed = strtoull(arguments[++i], nullptr, 10);
    else if (argument == "--bands" && i + 1 < count)
      bands = integers(arguments[++i]);
    else if (argument == "--only" && i + 1 < count)
      only = std::string(",") + arguments[++i] + ",";
    else if (argument == "--no-cublas")
      cublas = false;
    else if (argument == "--sustained")
      sustained = true;
    else
      return fprintf(stderr, "unknown argument %s\n", arguments[i]), 2;
  }
  if (runs <= 0) runs = sustained ? 7 : 20;
  const char *why = dxdw_device_unavailable(DXDW_CUDA, 0);
  if (why[0] != 0) {
    printf("skipped: %s\n", why);
    return 77;
  }
  timer = new Timer;
  CUDA(cudaMalloc(reinterpret_cast<void **>(&sweep), kSweepBytes));
  CUDA(cudaMemset(sweep, 0, kSweepBytes));
  board = new Board;
  Cublas lt;
  if (cublas) cublas = lt.open();
  printf("%s; cuBLASLt %zu; medians of %d %s, ms; ratio: best peer over ours\n", dxdw_build_description(),
         cublas ? lt.GetVersion() : 0, runs, sustained ? "trains of launches" : "single launches");
  if (json != nullptr) fprintf(json, "[");
  if (plans > 0) bench_plans(plans, seed, bands);
  const auto is_wanted = [&](const char *name) { return is_listed(wanted, name); };
  bench_copy();
  const Shape shapes[] = {
      {"mlp", 8192, 4096, 14336},         {"qkv", 8192, 4096, 4096},       {"square", 8192, 8192, 8192},
      {"starved1024", 32768, 1024, 1024}, {"starved512", 65536, 512, 512}, {"tiny256", 65536, 256, 256},
      {"lora64", 16384, 4096, 64},        {"lora16", 16384, 4096, 16},     {"ragged", 8191, 4095, 4097},
      {"batch512", 512, 4096, 4096},      {"logits", 4096, 4096, 32000},   {"lora64up", 16384, 64, 4096},
      {"lora16up", 16384, 16, 4096}};
  for (const Shape &shape : shapes)
    if (is_wanted(shape.name)) bench_products(shape, cublas ? &lt : nullptr, false);
  const auto bench_sizes = [&](const std::string &list, bool fp32) {
    for (size_t at = 1; at < list.size(); at = list.find(',', at) + 1) {
      const std::string name = list.substr(at, list.find(',', at) - at);
      long long t, k, n;
      if (sscanf(name.c_str(), "%lldx%lldx%lld", &t, &k, &n) == 3)
        bench_products({name.c_str(), t, k, n}, cublas ? &lt : nullptr, fp32);
    }
  };
  bench_sizes(wanted, false);
  if (is_wanted("ws")) {
    bench_weighted(65536, 8192, true);
    bench_weighted(65536, 8192, false);
    bench_weighted(1048576, 128, true);
    bench_weighted(4096, 65536, true);
  }
  if (is_wanted("graph")) bench_graphs();
  if (is_wanted("mlp32")) bench_products({"mlp", 8192, 4096, 14336}, cublas ? &lt : nullptr, true);
  if (is_wanted("fp32")) {
    bench_products({"qkv", 8192, 4096, 4096}, cublas ? &lt : nullptr, true);
    bench_products({"starved1024", 32768, 1024, 1024}, cublas ? &lt : nullptr, true);
  }
  // Tiles of 128 x 128.
  if (is_wanted("mid32")) bench_products({"mid", 1408, 1408, 1408}, cublas ? &lt : nullptr, true);
  bench_sizes(float32, true);
  if (json != nullptr) fprintf(json, "\n]\n"), fclose(json);
  return 0;
}
