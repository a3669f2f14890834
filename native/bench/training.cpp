// How fast the functions around products move memory: bytes that each must read and write, over its time, beside what
// the machine streams. The best of several runs, for neighbours on a shared machine only take; operands far larger than
// the caches, compact, float32 and bfloat16.
//
//   dxdw_bench_training [cuda] [threads] [elements]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "dxdw.h"

namespace {

bool on_gpu = false;
dxdw_stream *stream = nullptr;
dxdw_event *begin = nullptr, *end = nullptr;

void ok(int32_t status, const char *what) {
  if (status == DXDW_OK) return;
  fprintf(stderr, "%s: status %d, %s\n", what, status, dxdw_last_error());
  exit(1);
}

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Seconds of one run: the best of several.
double seconds(const std::function<void()> &run) {
  constexpr int kRuns = 15, kAtOnce = 10;
  std::vector<double> times;
  for (int i = 0; i < kRuns; ++i) {
    if (on_gpu) {
      if (i == 0) run();
      ok(dxdw_event_record(begin, stream), "record");
      for (int k = 0; k < kAtOnce; ++k) run();
      ok(dxdw_event_record(end, stream), "record");
      ok(dxdw_event_synchronize(end), "synchronize");
      double milliseconds;
      ok(dxdw_event_elapsed(begin, end, &milliseconds), "elapsed");
      times.push_back(milliseconds * 1e-3 / kAtOnce);
    } else {
      const double from = now();
      run();
      times.push_back(now() - from);
    }
  }
  return *std::min_element(times.begin(), times.end());
}

// Memory of one operand, filled with ones.
char *allocate(int64_t bytes) {
  if (!on_gpu) {
    void *address = aligned_alloc(4096, static_cast<size_t>((bytes + 4095) / 4096 * 4096));
    if (address == nullptr) exit(1);
    for (int64_t i = 0; i + 4 <= bytes; i += 4) memcpy(static_cast<char *>(address) + i, "\x80\x3f\x80\x3f", 4);
    return static_cast<char *>(address);
  }
  void *address;
  ok(dxdw_memory_allocate(0, static_cast<uint64_t>(bytes), nullptr, &address), "allocate");
  ok(dxdw_memory_set(0, address, 0x3f, static_cast<uint64_t>(bytes), nullptr), "set");
  return static_cast<char *>(address);
}

struct Tensor {
  int64_t shape[2], strides[2];
  dxdw_tensor tensor;
};

Tensor *tensor(char *data, bool half, int64_t rows, int64_t cols, int code = -1) {
  Tensor *t = new Tensor{{rows, cols}, {cols, 1}, {}};
  const bool matrix = cols > 0;
  const int type = code >= 0 ? code : half ? DXDW_BFLOAT : DXDW_FLOAT;
  t->tensor = {data,
               on_gpu ? DXDW_CUDA : DXDW_CPU,
               0,
               matrix ? 2 : 1,
               static_cast<uint8_t>(type),
               static_cast<uint8_t>(half ? 16 : 32),
               1,
               t->shape,
               nullptr,
               0};
  return t;
}

void measure(const char *name, int32_t function, std::vector<Tensor *> operands, double bytes,
             std::vector<double> scalars = {}) {
  std::vector<dxdw_tensor> all;
  for (Tensor *t : operands) {
    all.push_back(t == nullptr ? dxdw_tensor{} : t->tensor);
    if (t == nullptr) all.back().ndim = -1;
  }
  dxdw_options options = {};
  options.size = sizeof options;
  options.stream = stream;
  std::copy(scalars.begin(), scalars.end(), options.scalars);
  const double time = seconds([&] {
    ok(dxdw_call(function, all.data(), 1, 1, &options, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr), name);
  });
  printf("%-34s %9.3f ms %8.1f GB/s\n", name, time * 1e3, bytes / time * 1e-9);
}

}  // namespace

int main(int count, char **arguments) {
  int at = 1;
  if (at < count && strcmp(arguments[at], "cuda") == 0) on_gpu = true, ++at;
  const int32_t threads = at < count ? atoi(arguments[at++]) : 1;
  const int64_t n = at < count ? atoll(arguments[at++]) : int64_t{1} << (on_gpu ? 28 : 24);
  ok(dxdw_set_threads(threads), "threads");
  if (on_gpu) {
    ok(dxdw_stream_create(0, &stream), "stream");
    ok(dxdw_event_create(0, &begin), "event");
    ok(dxdw_event_create(0, &end), "event");
  }
  printf("%s, %lld elements, %d threads\n", dxdw_build_description(), static_cast<long long>(n), threads);
  char *memory[5];
  for (char *&m : memory) m = allocate(n * 4);
  char *number = allocate(64);
  const double f = 4.0 * static_cast<double>(n), h = f / 2;
  if (!on_gpu) {
    const double time = seconds([&] { memcpy(memory[1], memory[0], static_cast<size_t>(n) * 4); });
    printf("%-34s %9.3f ms %8.1f GB/s\n", "memcpy", time * 1e3, 2 * f / time * 1e-9);
  }
  const int64_t cols = 1024, rows = n / cols;
  for (bool half : {false, true}) {
    const double item = half ? h : f;
    const auto flat = [&](int i) { return tensor(memory[i], half, n, 0); };
    const auto matrix = [&](int i) { return tensor(memory[i], half, rows, cols); };
    const auto row = [&](int i) { return tensor(memory[i], false, rows, 0); };
    printf("%s\n", half ? "bfloat16" : "float32");
    measure("copy", DXDW_COPY, {flat(0), flat(1)}, 2 * item);
    measure("add", DXDW_ADD_FWD, {flat(0), flat(1), flat(2)}, 3 * item);
    measure("relu", DXDW_RELU_FWD, {flat(0), flat(2)}, 2 * item);
    measure("relu in place", DXDW_RELU_FWD, {flat(2), flat(2)}, 2 * item);
    measure("relu backward", DXDW_RELU_BWD, {flat(0), flat(1), flat(2)}, 3 * item);
    measure("gelu", DXDW_GELU_FWD, {flat(0), flat(2)}, 2 * item);
    measure("gelu backward", DXDW_GELU_BWD, {flat(0), flat(1), flat(2)}, 3 * item);
    Tensor *bias = tensor(memory[3], half, rows, cols);
    bias->strides[0] = 0;
    bias->tensor.strides = bias->strides;
    measure("add of a bias to rows of 1024", DXDW_ADD_FWD, {matrix(0), bias, matrix(2)}, 2 * item);
    measure("sum of rows of 1024", DXDW_SUM_ROWS, {matrix(0), tensor(memory[3], false, cols, 0)}, item);
    char *labels = allocate(rows * 4);
    if (!on_gpu) memset(labels, 0, static_cast<size_t>(rows) * 4);
    if (on_gpu) ok(dxdw_memory_set(0, labels, 0, static_cast<uint64_t>(rows) * 4, nullptr), "set");
    Tensor *label = tensor(labels, false, rows, 0, DXDW_INT);
    measure("softmax cross entropy of 1024", DXDW_SOFTMAX_CROSS_ENTROPY_FWD, {matrix(0), label, row(3)}, item);
    measure("its backward", DXDW_SOFTMAX_CROSS_ENTROPY_BWD, {matrix(0), label, row(3), matrix(2)}, 2 * item);
    measure("squared error of 1024", DXDW_SQUARED_ERROR_FWD, {matrix(0), matrix(1), row(3)}, 2 * item);
    measure("its backward", DXDW_SQUARED_ERROR_BWD, {matrix(0), matrix(1), row(3), matrix(2)}, 3 * item);
    measure("squared norm", DXDW_SQUARED_NORM, {flat(0), tensor(number, false, 1, 0)}, item);
  }
  const auto flat = [&](int i) { return tensor(memory[i], false, n, 0); };
  printf("float32, copy in bfloat16\n");
  measure("SGD", DXDW_SGD, {flat(0), flat(1), nullptr, nullptr, nullptr}, 3 * f, {1e-9, 0, 0, 0});
  measure("SGD, momentum, copy", DXDW_SGD, {flat(0), flat(1), flat(2), tensor(memory[4], true, n, 0), nullptr},
          5 * f + h, {1e-9, 0.9, 0.01, 0});
  measure("AdamW", DXDW_ADAMW, {flat(0), flat(1), flat(2), flat(3), nullptr, nullptr}, 7 * f,
          {1e-9, 0.9, 0.999, 1e-8, 0.01, 3});
  measure("AdamW, copy", DXDW_ADAMW, {flat(0), flat(1), flat(2), flat(3), tensor(memory[4], true, n, 0), nullptr},
          7 * f + h, {1e-9, 0.9, 0.999, 1e-8, 0.01, 3});
  return 0;
}
