// One bit pattern for given inputs, split and types: over runs, thread counts and rows of a batch. Guards against sums
// whose order follows the number of threads, their luck, or the batch size. Argument: runs with each number of threads.
#include "harness.hpp"

using namespace test;
using Values = std::vector<float>;

namespace {

constexpr int32_t kThreads[] = {1, 2, 7, 100};  // the last: more than have shares of their own

Values random_values(int64_t count, uint64_t seed) {
  Random random(seed);
  Values values(static_cast<size_t>(count));
  for (float &value : values) value = random.value();
  return values;
}

struct Product {
  int32_t function;
  int64_t t, k, n;
  int32_t split, precision;
};

void run(const Product &p, Literal &a, Literal &b, Literal &out) {
  const dxdw_options options = options_of(DXDW_ASSIGN, p.precision);
  CHECK_OK(p.function == DXDW_Y    ? y_launch(a.tensor(), b.tensor(), out.tensor(), &options)
           : p.function == DXDW_DX ? dx_launch(a.tensor(), b.tensor(), out.tensor(), &options)
                                   : dw_launch(a.tensor(), b.tensor(), out.tensor(), p.split, 1, &options));
}

void thread_counts_and_runs(int rounds) {
  const Product products[] = {
      {DXDW_Y, 300, 600, 200, 1, 0},  {DXDW_Y, 1000, 64, 48, 1, 0},   {DXDW_Y, 3, 1100, 900, 1, 0},
      {DXDW_Y, 2000, 16, 1, 1, 0},    {DXDW_DX, 300, 200, 600, 1, 0}, {DXDW_DX, 33, 1000, 1030, 1, 0},
      {DXDW_DW, 2100, 64, 64, 0, 0},  {DXDW_DW, 2100, 64, 64, 8, 0},  {DXDW_DW, 700, 300, 200, 1, 0},
      {DXDW_DW, 700, 300, 200, 3, 0}, {DXDW_DW, 9000, 16, 5, 0, 0},   {DXDW_DW, 9001, 1, 1, 7, 0},
      {DXDW_DW, 300, 130, 70, 5, 1},  {DXDW_DW, 530, 173, 190, 1, 0}, {DXDW_Y, 300, 100, 48, 1, 0}};
  for (const Product &p : products)
    for (Type type : kTypes) {
      const int64_t shapes[3][3][2] = {{{p.t, p.k}, {p.k, p.n}, {p.t, p.n}},
                                       {{p.t, p.n}, {p.k, p.n}, {p.t, p.k}},
                                       {{p.t, p.k}, {p.t, p.n}, {p.k, p.n}}};
      const auto &s = shapes[p.function];
      Literal a(type, {s[0][0], s[0][1]}, random_values(s[0][0] * s[0][1], 1));
      Literal b(type, {s[1][0], s[1][1]}, random_values(s[1][0] * s[1][1], 2));
      Values first;
      for (int round = 0; round < rounds; ++round)
        for (int32_t threads : kThreads) {
          CHECK_OK(dxdw_set_threads(threads));
          Literal out(Type::f32, {s[2][0], s[2][1]}, NAN);
          run(p, a, b, out);
          const Values values = out.stored();
          if (first.empty()) first = values;
          for (size_t i = 0; i < values.size(); ++i)
            CHECK(same(values[i], first[i]),
                  "function %d, T %lld K %lld N %lld split %d %s: element %zu is %.9g with %d threads, %.9g with 1",
                  p.function, static_cast<long long>(p.t), static_cast<long long>(p.k), static_cast<long long>(p.n),
                  p.split, name_of(type), i, static_cast<double>(values[i]), threads, static_cast<double>(first[i]));
        }
    }
}

// The deterministic sum of slices is dw_reduce over what each slice gives alone.
void slices_alone() {
  constexpr int64_t kTokens = 1030, kK = 37, kN = 29;
  for (Type type : kTypes)
    for (int32_t split : {2, 3, 7, 16, 1000}) {
      const Values x_values = random_values(kTokens * kK, 3), dy_values = random_values(kTokens * kN, 4);
      Literal x(type, {kTokens, kK}, x_values), dy(type, {kTokens, kN}, dy_values);
      const int64_t chunk = (kTokens + split - 1) / split;
      Literal partials(Type::f32, {split, kK, kN}, NAN);
      const dxdw_options assign = options_of(DXDW_ASSIGN);
      for (int64_t s = 0; s < split; ++s) {
        const int64_t from = s * chunk < kTokens ? s * chunk : kTokens;
        const int64_t rows = kTokens - from < chunk ? kTokens - from : chunk;
        dxdw_tensor slice_x = *x.tensor(), slice_dy = *dy.tensor(), partial = *partials.tensor();
        int64_t x_shape[] = {rows, kK}, dy_shape[] = {rows, kN}, out_shape[] = {kK, kN};
        slice_x.shape = x_shape;
        slice_dy.shape = dy_shape;
        partial.shape = out_shape;
        partial.ndim = 2;
        slice_x.byte_offset = static_cast<uint64_t>(from * kK * size_of(type));
        slice_dy.byte_offset = static_cast<uint64_t>(from * kN * size_of(type));
        partial.byte_offset = static_cast<uint64_t>(s * kK * kN * 4);
        CHECK_OK(dw_launch(&slice_x, &slice_dy, &partial, 1, 1, &assign));
      }
      const Values old = random_values(kK * kN, 5);
      Literal reduced(Type::f32, {kK, kN}, old), direct(Type::f32, {kK, kN}, old);
      CHECK_OK(dw_reduce(partials.tensor(), reduced.tensor(), nullptr));
      CHECK_OK(dw_launch(x.tensor(), dy.tensor(), direct.tensor(), split, 1, nullptr));
      for (int64_t i = 0; i < kK * kN; ++i)
        CHECK(same(reduced.stored(i), direct.stored(i)),
              "split %d %s, element %lld: slices alone give %.9g, together %.9g", split, name_of(type),
              static_cast<long long>(i), static_cast<double>(reduced.stored(i)), static_cast<double>(direct.stored(i)));
    }
}

void weighted_sums() {
  const std::vector<std::pair<int64_t, int64_t>> shapes = {{5000, 70}, {3, 40000}, {70000, 3}, {257, 1025}, {1, 1}};
  for (const auto &[rows, d] : shapes)
    for (Type type : kTypes) {
      Literal x(type, {rows, d}, random_values(rows * d, 6)), w(type, {d}, random_values(d, 7)),
          g(type, {rows}, random_values(rows, 8));
      Values first[3];
      for (int32_t threads : kThreads) {
        CHECK_OK(dxdw_set_threads(threads));
        Literal y(Type::f32, {rows}, NAN), gx(type, {rows, d}, NAN), gw(Type::f32, {d}, NAN);
        const dxdw_options options = options_of(DXDW_ASSIGN);
        CHECK_OK(weighted_sum_fwd(x.tensor(), w.tensor(), y.tensor(), nullptr));
        CHECK_OK(weighted_sum_bwd(x.tensor(), w.tensor(), g.tensor(), gx.tensor(), gw.tensor(), &options));
        const Values values[] = {y.stored(), gx.stored(), gw.stored()};
        for (int i = 0; i < 3; ++i) {
          if (first[i].empty()) first[i] = values[i];
          for (size_t at = 0; at < values[i].size(); ++at)
            CHECK(same(values[i][at], first[i][at]),
                  "%s of [%lld, %lld] %s: element %zu is %.9g with %d threads, %.9g with 1",
                  i == 0   ? "y"
                  : i == 1 ? "gx"
                           : "gw",
                  static_cast<long long>(rows), static_cast<long long>(d), name_of(type), at,
                  static_cast<double>(values[i][at]), threads, static_cast<double>(first[i][at]));
        }
      }
    }
}

// Row i of Y, dX and the weighted sum is the same for every number of rows, and for every place in memory.
void batch_invariance(int64_t k) {
  constexpr int64_t kMost = 300, kN = 130;
  for (Type type : kTypes) {
    const Values x_values = random_values(kMost * k, 9), w_values = random_values(k * kN, 10);
    Literal w(type, {k, kN}, w_values), w_dx(type, {kN, k}, w_values), feature(type, {k}, random_values(k, 11));
    Values rows[3];
    for (int64_t t : {kMost, int64_t{1}, int64_t{2}, int64_t{5}, int64_t{16}, int64_t{31}, int64_t{64}})
      for (int32_t threads : {1, 3}) {
        CHECK_OK(dxdw_set_threads(threads));
        Literal x(type, {t, k}, x_values);
        Literal y(Type::f32, {t, kN}, NAN), dx(Type::f32, {t, kN}, NAN), sums(Type::f32, {t}, NAN);
        dxdw_options options = options_of(DXDW_ASSIGN);
        options.flags = DXDW_BATCH_INVARIANT;
        CHECK_OK(y_launch(x.tensor(), w.tensor(), y.tensor(), &options));
        CHECK_OK(dx_launch(x.tensor(), w_dx.tensor(), dx.tensor(), &options));
        CHECK_OK(weighted_sum_fwd(x.tensor(), feature.tensor(), sums.tensor(), &options));
        const Values values[] = {y.stored(), dx.stored(), sums.stored()};
        const char *const names[] = {"Y", "dX", "weighted sum"};
        for (int i = 0; i < 3; ++i) {
          if (rows[i].empty()) rows[i] = values[i];
          for (size_t at = 0; at < values[i].size(); ++at)
            CHECK(same(values[i][at], rows[i][at]), "%s, %s, %lld rows: element %zu is %.9g, with %lld rows %.9g",
                  names[i], name_of(type), static_cast<long long>(t), at, static_cast<double>(values[i][at]),
                  static_cast<long long>(kMost), static_cast<double>(rows[i][at]));
        }
      }
  }
}

}  // namespace

int main(int count, char **arguments) {
  report_faults();
  thread_counts_and_runs(count > 1 ? atoi(arguments[1]) : 2);
  slices_alone();
  weighted_sums();
  batch_invariance(700);
  batch_invariance(2048);  // rows a multiple of 4 KiB apart, which are read fewer at a time
  printf("passed, level %s\n", dxdw_simd_level());
  return 0;
}
