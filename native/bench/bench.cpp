// The CPU kernels against OpenBLAS, oneDNN and the machine's own limits, contenders taking turns in one run.
//
//   dxdw_bench_cpu [--quick] [--filter TEXT] [--threads N] [--json FILE] [--repeats N]
//
// A row shows the median and, in brackets, the 10th and 90th percentile of the time of one call, and the ratio of the
// best peer's median to ours (above 1: we are faster), then the same of the shortest times. With one thread the time is
// that of the processor, with more it is the wall's. Rows "rested" are of single calls, each after a rest, from which all
// threads have to wake. --filter keeps rows whose name contains TEXT, --threads those with N
// threads.
// Variables that steer the peers (OPENBLAS_..., OMP_..., DNNL_...) are removed from the environment first: a core type
// or a thread count set there for another purpose would make a slow peer.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dxdw.h"
#include "machine.hpp"
#include "peers.hpp"

using namespace bench;

extern char **environ;

namespace {

struct Settings {
  bool quick = false;
  std::string filter, json;
  int repeats = 11;
  int threads = 0;  // 0: rows with any number
  double sample_seconds = 3e-3;
} settings;

// ---- Measuring ----

struct Contender {
  std::string name;
  std::function<void()> run;
};

struct Times {
  std::string name;
  double median, low, high, best;  // seconds of one call; 10th and 90th percentile, shortest
};

double quantile(const std::vector<double> &sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(at);
  const double rest = at - static_cast<double>(below);
  return below + 1 < sorted.size() ? sorted[below] * (1 - rest) + sorted[below + 1] * rest : sorted[below];
}

// Of one call, from samples that are sorted meanwhile.
std::vector<Times> times_of(const std::vector<Contender> &contenders, std::vector<std::vector<double>> *samples) {
  std::vector<Times> times;
  for (size_t i = 0; i < contenders.size(); ++i) {
    std::vector<double> &own = (*samples)[i];
    std::sort(own.begin(), own.end());
    times.push_back({contenders[i].name, quantile(own, 0.5), quantile(own, 0.1), quantile(own, 0.9), own.front()});
  }
  return times;
}

// So long OpenBLAS's threads go on spinning after a call, 2^28 cycles of the clock, and a little more: meanwhile they
// share a core with whoever comes next.
constexpr useconds_t kSpinning = 130000;

// All contenders in turn, again and again; each sample follows an untimed call that brings back the caches. With
// several threads some time goes by before it, so that another contender's idle threads have stopped spinning; then calls
// go untimed until the system has spread the contender's own threads over the cores, which takes some milliseconds after
// they slept; and a sample is longer.
std::vector<Times> take_turns(const std::vector<Contender> &contenders, int threads) {
  const useconds_t settle = threads == 1 ? 0 : settings.quick ? 5000 : kSpinning;
  const double warm_up = threads == 1 ? 0 : 15e-3;
  const double sample_seconds = threads == 1 ? settings.sample_seconds : 5 * settings.sample_seconds;
  std::vector<int64_t> calls;
  for (const Contender &c : contenders) {
    c.run();
    usleep(settle);
    const double start = seconds_now(threads);
    c.run();
    const double once = seconds_now(threads) - start;
    calls.push_back(std::max<int64_t>(1, static_cast<int64_t>(ceil(sample_seconds / std::max(once, 1e-9)))));
  }
  std::vector<std::vector<double>> samples(contenders.size());
  for (int repeat = 0; repeat < settings.repeats; ++repeat)
    for (size_t turn = 0; turn < contenders.size(); ++turn) {
      const size_t i = (turn + static_cast<size_t>(repeat)) % contenders.size();
      usleep(settle);
      const double woken = seconds_now(threads);
      do contenders[i].run();
      while (seconds_now(threads) - woken < warm_up);
      const double start = seconds_now(threads);
      for (int64_t call = 0; call < calls[i]; ++call) contenders[i].run();
      samples[i].push_back((seconds_now(threads) - start) / static_cast<double>(calls[i]));
    }
  return times_of(contenders, &samples);
}

// Single calls in turn, each after a rest in which all threads fall asleep.
std::vector<Times> take_turns_rested(const std::vector<Contender> &contenders) {
  const int repeats = 5 * settings.repeats;
  std::vector<std::vector<double>> samples(contenders.size());
  for (const Contender &c : contenders) c.run();
  for (int repeat = 0; repeat < repeats; ++repeat)
    for (size_t i = 0; i < contenders.size(); ++i) {
      usleep(kSpinning);
      const double start = seconds_now(2);
      contenders[i].run();
      samples[i].push_back(seconds_now(2) - start);
    }
  return times_of(contenders, &samples);
}

// ---- Reporting ----

// How fast one contender was, in the row's unit; low and high from the percentiles, equal where there are none.
struct Result {
  std::string name;
  double rate, low, high;
};

struct Row {
  std::string name;
  int threads;
  std::string unit;
  std::vector<Result> results;
  double ratio, best_ratio, aim;  // of medians, of shortest times; 0 = none
};

std::vector<Row> rows;

void add_row(const Row &row) {
  printf("%-54s %d  ", row.name.c_str(), row.threads);
  for (const Result &r : row.results) {
    const int digits = r.rate < 100 ? 1 : 0;
    printf(" %s %.*f", r.name.c_str(), digits, r.rate);
    if (r.low != r.high) printf(" [%.*f-%.*f]", digits, r.low, digits, r.high);
  }
  printf(" %s", row.unit.c_str());
  if (row.ratio > 0) printf("  ratio %.2f, of best %.2f", row.ratio, row.best_ratio);
  if (row.aim > 0) printf(" (aim %.2f%s)", row.aim, row.ratio >= row.aim ? "" : ", missed");
  printf("\n");
  fflush(stdout);
  rows.push_back(row);
}

// `amount`: floating-point operations or bytes of a call. times[0] is ours, peers follow.
void report(const std::string &name, int threads, const char *unit, double amount, const std::vector<Times> &times,
            double aim) {
  Row row = {name, threads, unit, {}, 0, 0, aim};
  for (const Times &t : times)
    row.results.push_back({t.name, amount / t.median * 1e-9, amount / t.high * 1e-9, amount / t.low * 1e-9});
  for (size_t i = 1; i < times.size(); ++i) {
    const double ratio = times[i].median / times[0].median, best_ratio = times[i].best / times[0].best;
    if (i == 1 || ratio < row.ratio) row.ratio = ratio;
    if (i == 1 || best_ratio < row.best_ratio) row.best_ratio = best_ratio;
  }
  if (row.ratio == 0) row.aim = 0;
  add_row(row);
}

// The best of several passes: no spread.
void report_rate(const std::string &name, int threads, const char *unit, double rate) {
  add_row({name, threads, unit, {{"best", rate, rate, rate}}, 0, 0, 0});
}

std::string quoted(const std::string &text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c < ' ' ? ' ' : c;
  }
  return out + "\"";
}

void write_json(const std::vector<std::string> &lines) {
  FILE *file = fopen(settings.json.c_str(), "w");
  if (file == nullptr) {
    perror(settings.json.c_str());
    exit(1);
  }
  fprintf(file, "{\n  \"machine\": [");
  for (size_t i = 0; i < lines.size(); ++i) fprintf(file, "%s%s", i == 0 ? "" : ", ", quoted(lines[i]).c_str());
  fprintf(file, "],\n  \"repeats\": %d,\n  \"quick\": %s,\n  \"rows\": [", settings.repeats,
          settings.quick ? "true" : "false");
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row &row = rows[i];
    fprintf(file,
            "%s\n    {\"name\": %s, \"threads\": %d, \"unit\": %s, \"ratio\": %.4g, \"best_ratio\": %.4g, \"aim\": "
            "%.4g, \"contenders\": [",
            i == 0 ? "" : ",", quoted(row.name).c_str(), row.threads, quoted(row.unit).c_str(), row.ratio,
            row.best_ratio, row.aim);
    for (size_t c = 0; c < row.results.size(); ++c) {
      const Result &r = row.results[c];
      fprintf(file, "%s{\"name\": %s, \"median\": %.5g, \"low\": %.5g, \"high\": %.5g}", c == 0 ? "" : ", ",
              quoted(r.name).c_str(), r.rate, r.low, r.high);
    }
    fprintf(file, "]}");
  }
  fprintf(file, "\n  ]\n}\n");
  fclose(file);
}

bool wanted(const std::string &name, int threads) {
  return name.find(settings.filter) != std::string::npos && (settings.threads == 0 || settings.threads == threads);
}

// ---- Operands ----

int64_t size_of(Type type) { return type == Type::f32 ? 4 : 2; }
const char *name_of(Type type) { return type == Type::f32 ? "fp32" : type == Type::f16 ? "fp16" : "bf16"; }

void check(int32_t status) {
  if (status == DXDW_OK) return;
  fprintf(stderr, "dxdw: %s\n", dxdw_last_error());
  exit(1);
}

// Memory full of numbers in [-1, 1); every page touched.
class Buffer {
 public:
  Buffer(int64_t elements, Type type) : elements_(elements), type_(type) {
    void *memory = nullptr;
    if (posix_memalign(&memory, 4096, static_cast<size_t>(elements * size_of(type) + 4096)) != 0) {
      fprintf(stderr, "no memory for %lld elements\n", static_cast<long long>(elements));
      exit(1);
    }
    data_ = memory;
    uint32_t state = 12345;
    std::vector<float> block(4096);
    for (int64_t from = 0; from < elements; from += 4096) {
      const int64_t count = std::min<int64_t>(4096, elements - from);
      for (int64_t i = 0; i < count; ++i) {
        state = state * 1664525u + 1013904223u;
        block[static_cast<size_t>(i)] = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f;
      }
      char *to = static_cast<char *>(data_) + from * size_of(type);
      if (type == Type::f32)
        memcpy(to, block.data(), static_cast<size_t>(count) * 4);
      else
        check((type == Type::f16 ? dxdw_float_to_float16 : dxdw_float_to_bfloat16)(
            block.data(), reinterpret_cast<uint16_t *>(to), count));
    }
  }
  ~Buffer() { free(data_); }
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;

  void *data() const { return data_; }
  int64_t bytes() const { return elements_ * size_of(type_); }

 private:
  void *data_;
  int64_t elements_;
  Type type_;
};

// A tensor with its shape and strides.
struct View {
  int64_t shape[2], strides[2];
  dxdw_tensor tensor;

  View(void *data, Type type, std::vector<int64_t> sizes, std::vector<int64_t> steps = {}) {
    for (size_t d = 0; d < sizes.size(); ++d) shape[d] = sizes[d];
    for (size_t d = 0; d < steps.size(); ++d) strides[d] = steps[d];
    tensor = {data,
              DXDW_CPU,
              0,
              static_cast<int32_t>(sizes.size()),
              static_cast<uint8_t>(type == Type::bf16 ? DXDW_BFLOAT : DXDW_FLOAT),
              static_cast<uint8_t>(size_of(type) * 8),
              1,
              shape,
              steps.empty() ? nullptr : strides,
              0};
  }
  View(const View &) = delete;
  View &operator=(const View &) = delete;
};

void launch(int32_t function, const View &a, const View &b, const View &c, const dxdw_options *options) {
  check(function == DXDW_Y    ? y_launch(&a.tensor, &b.tensor, &c.tensor, options)
        : function == DXDW_DX ? dx_launch(&a.tensor, &b.tensor, &c.tensor, options)
                              : dw_launch(&a.tensor, &b.tensor, &c.tensor, 0, 1, options));
}

dxdw_options options_of(int32_t accumulate, int32_t precision = DXDW_PRECISION_DEFAULT) {
  dxdw_options options = {};
  options.size = sizeof options;
  options.accumulate = accumulate;
  options.precision = precision;
  return options;
}

// ---- Rows ----

struct Shape {
  int64_t t, k, n;
  double aim_dw;
};

// The aim against the better peer is 1; 1.5 for dW where its output is small and the contraction long.
constexpr Shape kShapes[] = {{1024, 1024, 1024, 1.0}, {2048, 1024, 4096, 1.0}, {8192, 256, 256, 1.0},
                             {16384, 64, 64, 1.5},    {32768, 128, 16, 1.5},   {1023, 1021, 1019, 1.0}};

const char *const kNames[] = {"Y", "dX", "dW"};

void sizes_of(int32_t function, const Shape &s, int64_t sizes[3][2]) {
  const int64_t all[3][3][2] = {
      {{s.t, s.k}, {s.k, s.n}, {s.t, s.n}}, {{s.t, s.n}, {s.k, s.n}, {s.t, s.k}}, {{s.t, s.k}, {s.t, s.n}, {s.k, s.n}}};
  memcpy(sizes, all[function], sizeof all[function]);
}

std::string name_of(const char *group, const Shape &s, const char *what, Type type) {
  char text[128];
  snprintf(text, sizeof text, "%s %lld,%lld,%lld %s %s", group, static_cast<long long>(s.t),
           static_cast<long long>(s.k), static_cast<long long>(s.n), what, name_of(type));
  return text;
}

void product_row(int32_t function, const Shape &s, Type type, bool add, int threads) {
  const std::string what = std::string(kNames[function]) + (add ? " add" : "");
  const std::string name = name_of("product", s, what.c_str(), type);
  if (!wanted(name, threads)) return;
  int64_t sizes[3][2];
  sizes_of(function, s, sizes);
  const Type out = function == DXDW_DW ? Type::f32 : type;
  Buffer a(sizes[0][0] * sizes[0][1], type), b(sizes[1][0] * sizes[1][1], type), c(sizes[2][0] * sizes[2][1], out);
  View a_view(a.data(), type, {sizes[0][0], sizes[0][1]}), b_view(b.data(), type, {sizes[1][0], sizes[1][1]});
  View c_view(c.data(), out, {sizes[2][0], sizes[2][1]});
  const dxdw_options options = options_of(add ? DXDW_ADD : DXDW_ASSIGN);
  check(dxdw_set_threads(threads));
  std::vector<Contender> contenders = {{"dxdw", [&] { launch(function, a_view, b_view, c_view, &options); }}};
  for (Peer &peer : peers_for({function, s.t, s.k, s.n, type, out, a.data(), b.data(), c.data(), add}, threads))
    contenders.push_back({peer.name, peer.run});
  const double operations = 2.0 * static_cast<double>(s.t) * static_cast<double>(s.k) * static_cast<double>(s.n);
  report(name, threads, "GFLOP/s", operations, take_turns(contenders, threads), function == DXDW_DW ? s.aim_dw : 1.0);
}

// One call after a rest: how soon helpers are there.
void rested_row(int32_t function, const Shape &s, int threads) {
  const std::string name = name_of("rested", s, kNames[function], Type::f32);
  if (!wanted(name, threads)) return;
  int64_t sizes[3][2];
  sizes_of(function, s, sizes);
  Buffer a(sizes[0][0] * sizes[0][1], Type::f32), b(sizes[1][0] * sizes[1][1], Type::f32),
      c(sizes[2][0] * sizes[2][1], Type::f32);
  View a_view(a.data(), Type::f32, {sizes[0][0], sizes[0][1]}), b_view(b.data(), Type::f32, {sizes[1][0], sizes[1][1]});
  View c_view(c.data(), Type::f32, {sizes[2][0], sizes[2][1]});
  const dxdw_options options = options_of(DXDW_ASSIGN);
  const auto with_threads = [&](int32_t own) {
    return [&, own] {
      check(dxdw_set_threads(own));
      launch(function, a_view, b_view, c_view, &options);
    };
  };
  std::vector<Contender> contenders = {{"dxdw", with_threads(threads)}, {"dxdw, one thread", with_threads(1)}};
  for (Peer &peer :
       peers_for({function, s.t, s.k, s.n, Type::f32, Type::f32, a.data(), b.data(), c.data(), false}, threads))
    contenders.push_back({peer.name, peer.run});
  const double operations = 2.0 * static_cast<double>(s.t) * static_cast<double>(s.k) * static_cast<double>(s.n);
  report(name, threads, "GFLOP/s", operations, take_turns_rested(contenders), 1.0);
}

// The same product from operands that lie otherwise; dense ones are the peer.
void strided_row(int32_t function, const Shape &s, Type type, int variant, int threads) {
  const char *const variants[] = {"transposed", "padded", "second columns", "column-major output"};
  const std::string what = std::string(kNames[function]) + " " + variants[variant];
  const std::string name = name_of("strided", s, what.c_str(), type);
  if (!wanted(name, threads)) return;
  int64_t sizes[3][2];
  sizes_of(function, s, sizes);
  const Type out = function == DXDW_DW ? Type::f32 : type;
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<std::unique_ptr<View>> dense, strided;
  for (int i = 0; i < 3; ++i) {
    const int64_t rows = sizes[i][0], cols = sizes[i][1];
    const Type own = i < 2 ? type : out;
    buffers.emplace_back(new Buffer(rows * (2 * cols + 3), own));
    void *data = buffers.back()->data();
    std::vector<int64_t> strides = {cols, 1};
    if (i < 2 && variant == 0) strides = {1, rows};
    if (variant == 1) strides = {cols + 3, 1};
    if (i < 2 && variant == 2) strides = {2 * cols, 2};
    if (i == 2 && variant == 3) strides = {1, rows};
    dense.emplace_back(new View(data, own, {rows, cols}));
    strided.emplace_back(new View(data, own, {rows, cols}, strides));
  }
  const dxdw_options options = options_of(DXDW_ASSIGN);
  check(dxdw_set_threads(threads));
  const std::vector<Contender> contenders = {
      {"strided", [&] { launch(function, *strided[0], *strided[1], *strided[2], &options); }},
      {"dense", [&] { launch(function, *dense[0], *dense[1], *dense[2], &options); }}};
  const double operations = 2.0 * static_cast<double>(s.t) * static_cast<double>(s.k) * static_cast<double>(s.n);
  report(name, threads, "GFLOP/s", operations, take_turns(contenders, threads), 1 / 1.3);
}

// Deterministic dW against atomic slices, and the exact bf16 path against the default one.
void option_rows(const Shape &s, int threads) {
  for (Type type : {Type::f32, Type::bf16}) {
    const std::string name = name_of("options", s, "dW deterministic : atomic, split 8", type);
    if (!wanted(name, threads)) continue;
    Buffer x(s.t * s.k, type), dy(s.t * s.n, type), dw(s.k * s.n, Type::f32);
    View x_view(x.data(), type, {s.t, s.k}), dy_view(dy.data(), type, {s.t, s.n}),
        dw_view(dw.data(), Type::f32, {s.k, s.n});
    check(dxdw_set_threads(threads));
    const auto run = [&](int32_t deterministic) {
      check(dw_launch(&x_view.tensor, &dy_view.tensor, &dw_view.tensor, 8, deterministic, nullptr));
    };
    const double operations = 2.0 * static_cast<double>(s.t) * static_cast<double>(s.k) * static_cast<double>(s.n);
    report(name, threads, "GFLOP/s", operations,
           take_turns({{"deterministic", [&] { run(1); }}, {"atomic", [&] { run(0); }}}, threads), 1 / 1.03);
  }
}

struct Sum {
  int64_t rows, d;
  Type type;
};

void weighted_rows(const Sum &s, int threads) {
  char name[128];
  snprintf(name, sizeof name, "weighted sum %lld,%lld %s", static_cast<long long>(s.rows), static_cast<long long>(s.d),
           name_of(s.type));
  if (!wanted(name, threads)) return;
  Buffer x(s.rows * s.d, s.type), gx(s.rows * s.d, s.type), w(s.d, s.type), g(s.rows, s.type), y(s.rows, Type::f32),
      gw(s.d, Type::f32);
  View x_view(x.data(), s.type, {s.rows, s.d}), gx_view(gx.data(), s.type, {s.rows, s.d}),
      w_view(w.data(), s.type, {s.d});
  View g_view(g.data(), s.type, {s.rows}), y_view(y.data(), Type::f32, {s.rows}), gw_view(gw.data(), Type::f32, {s.d});
  check(dxdw_set_threads(threads));
  const double bytes = static_cast<double>(x.bytes());
  // Streaming loops before and after, so that a change of the machine's load shows.
  const auto against = [&](const char *what, double moved, const std::function<double()> &stream,
                           const std::function<void()> &run) {
    const double before = stream();
    std::vector<Times> times = take_turns({{"dxdw", run}}, threads);
    const double after = stream();
    const double best = std::max(before, after), worst = std::min(before, after);
    times.push_back({"stream", moved / best, moved / best, moved / worst, moved / best});
    report(std::string(name) + " " + what, threads, "GB/s", moved, times, 0.9);
  };
  against(
      "fwd", bytes, [&] { return read_stream(x.data(), x.bytes(), threads); },
      [&] { check(weighted_sum_fwd(&x_view.tensor, &w_view.tensor, &y_view.tensor, nullptr)); });
  against(
      "bwd", 2 * bytes,
      [&] {
        return std::max(copy_stream(x.data(), gx.data(), x.bytes(), threads, false),
                        copy_stream(x.data(), gx.data(), x.bytes(), threads, true));
      },
      [&] {
        check(weighted_sum_bwd(&x_view.tensor, &w_view.tensor, &g_view.tensor, &gx_view.tensor, &gw_view.tensor,
                               nullptr));
      });
  against(
      "bwd gw only", bytes, [&] { return read_stream(x.data(), x.bytes(), threads); },
      [&] {
        check(weighted_sum_bwd(&x_view.tensor, &w_view.tensor, &g_view.tensor, nullptr, &gw_view.tensor, nullptr));
      });
}

void roofline(int threads) {
  if (!wanted("roofline", threads)) return;
  report_rate("roofline fp32 multiply-add", threads, "GFLOP/s", fma_peak(threads) * 1e-9);
  const double dot = bf16_dot_peak(threads);
  if (dot > 0) report_rate("roofline bf16 dot", threads, "GFLOP/s", dot * 1e-9);
  Buffer from(int64_t{64} << 20, Type::f32), to(int64_t{64} << 20, Type::f32);
  report_rate("roofline read", threads, "GB/s", read_stream(from.data(), from.bytes(), threads) * 1e-9);
  report_rate("roofline read + write", threads, "GB/s",
              copy_stream(from.data(), to.data(), from.bytes(), threads, false) * 1e-9);
  report_rate("roofline read + write, non-temporal", threads, "GB/s",
              copy_stream(from.data(), to.data(), from.bytes(), threads, true) * 1e-9);
}

// Nanoseconds of a call that has next to nothing to compute.
void overhead() {
  if (!wanted("overhead", 1)) return;
  check(dxdw_set_threads(0));
  for (int64_t size : {4, 16, 64}) {
    Buffer x(size * size, Type::f32), w(size * size, Type::f32), y(size * size, Type::f32);
    View x_view(x.data(), Type::f32, {size, size}), w_view(w.data(), Type::f32, {size, size}),
        y_view(y.data(), Type::f32, {size, size});
    const dxdw_tensor array[] = {x_view.tensor, w_view.tensor, y_view.tensor};
    std::vector<Contender> contenders = {
        {"y_launch", [&] { check(y_launch(&x_view.tensor, &w_view.tensor, &y_view.tensor, nullptr)); }},
        {"dxdw_call", [&] {
           check(dxdw_call(DXDW_Y, array, 1, 1, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr));
         }}};
    if (size == 4) contenders.push_back({"dxdw_nop", [] { check(dxdw_nop()); }});
    for (Peer &peer :
         peers_for({DXDW_Y, size, size, size, Type::f32, Type::f32, x.data(), w.data(), y.data(), false}, 1))
      contenders.push_back({peer.name, peer.run});
    // One contender is a thousand calls: the clock costs as much as some of them.
    for (Contender &c : contenders) {
      const std::function<void()> once = c.run;
      c.run = [once] {
        for (int i = 0; i < 1000; ++i) once();
      };
    }
    Row row = {"overhead " + std::to_string(size) + "x" + std::to_string(size) + "x" + std::to_string(size),
               1,
               "ns",
               {},
               0,
               0,
               0};
    const std::vector<Times> times = take_turns(contenders, 1);
    for (const Times &t : times) {
      row.results.push_back({t.name, t.median * 1e6, t.low * 1e6, t.high * 1e6});
      if (t.name != "OpenBLAS") continue;
      row.ratio = t.median / times[0].median;
      row.best_ratio = t.best / times[0].best;
    }
    add_row(row);
  }
}

// ---- Environment ----

// Runs this program again without the variables that steer the peers, for they are read when a peer is loaded.
void clean_environment(char **arguments) {
  const char *const prefixes[] = {"OPENBLAS_", "GOTO_", "OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "BLIS_"};
  std::vector<std::string> found;
  for (char **entry = environ; *entry != nullptr; ++entry)
    for (const char *prefix : prefixes)
      if (strncmp(*entry, prefix, strlen(prefix)) == 0)
        found.push_back(std::string(*entry).substr(0, strcspn(*entry, "=")));
  if (found.empty()) return;
  for (const std::string &name : found) {
    printf("removed %s from the environment\n", name.c_str());
    unsetenv(name.c_str());
  }
  fflush(stdout);
  execv("/proc/self/exe", arguments);
  perror("execv");
  exit(1);
}

[[noreturn]] void usage() {
  fprintf(stderr, "usage: dxdw_bench_cpu [--quick] [--filter TEXT] [--threads N] [--json FILE] [--repeats N]\n");
  exit(2);
}

void read_arguments(int count, char **arguments) {
  for (int i = 1; i < count; ++i) {
    const std::string option = arguments[i];
    if (option == "--quick") {
      settings.quick = true;
      settings.repeats = 5;
      settings.sample_seconds = 1e-3;
      continue;
    }
    if (i + 1 == count) usage();
    const char *value = arguments[++i];
    if (option == "--filter")
      settings.filter = value;
    else if (option == "--json")
      settings.json = value;
    else if (option == "--threads" && atoi(value) > 0)
      settings.threads = atoi(value);
    else if (option == "--repeats" && atoi(value) > 0)
      settings.repeats = atoi(value);
    else
      usage();
  }
}

}  // namespace

int main(int count, char **arguments) {
  clean_environment(arguments);
  read_arguments(count, arguments);
  std::vector<std::string> lines = {machine_line(), dxdw_build_description()};
  for (const std::string &line : peer_lines()) lines.push_back(line);
  for (const std::string &line : lines) printf("# %s\n", line.c_str());
  printf("# %d repeats, contenders in turn; rate [10th-90th percentile]; ratio = best peer's time : ours\n",
         settings.repeats);

  const int most = static_cast<int>(std::min<long>(2, sysconf(_SC_NPROCESSORS_ONLN)));
  for (int threads = 1; threads <= most; ++threads) roofline(threads);
  for (Type type : {Type::f32, Type::bf16, Type::f16})
    for (int threads = 1; threads <= most; ++threads)
      for (const Shape &shape : kShapes) {
        for (int32_t function : {DXDW_Y, DXDW_DX, DXDW_DW}) product_row(function, shape, type, false, threads);
        product_row(DXDW_DW, shape, type, true, threads);
      }
  for (Type type : {Type::f32, Type::bf16})
    for (int shape = 0; shape < 3; ++shape)
      for (int32_t function : {DXDW_Y, DXDW_DX, DXDW_DW})
        for (int variant = 0; variant < 4; ++variant) strided_row(function, kShapes[shape], type, variant, 1);
  if (most > 1)
    for (int32_t function : {DXDW_Y, DXDW_DW}) rested_row(function, kShapes[3], most);
  for (int shape : {2, 3, 4}) option_rows(kShapes[shape], most);
  for (int threads = 1; threads <= most; ++threads)
    for (const Sum &sum : {Sum{65536, 1024, Type::f32}, Sum{65536, 2048, Type::bf16}, Sum{1048576, 64, Type::f32},
                           Sum{256, 262144, Type::f32}})
      weighted_rows(sum, threads);
  overhead();
  if (!settings.json.empty()) write_json(lines);
  return 0;
}
