// Small products with known results, one for each kind of fault that users of such kernels have reported. Each call
// runs at 1 and at 3 threads.
#include "harness.hpp"

using namespace test;
using Values = std::vector<float>;

namespace {

constexpr float kNaN = NAN, kInf = INFINITY;

dxdw_options assign() { return options_of(DXDW_ASSIGN); }

void y(Literal &x, Literal &w, Literal &out, dxdw_options options = options_of(DXDW_ACCUMULATE_DEFAULT)) {
  CHECK_OK(y_launch(x.tensor(), w.tensor(), out.tensor(), &options));
}
void dx(Literal &dy, Literal &w, Literal &out, dxdw_options options = options_of(DXDW_ACCUMULATE_DEFAULT)) {
  CHECK_OK(dx_launch(dy.tensor(), w.tensor(), out.tensor(), &options));
}
void dw(Literal &x, Literal &dy, Literal &out, dxdw_options options = options_of(DXDW_ACCUMULATE_DEFAULT),
        int32_t split = 1, int32_t deterministic = 1) {
  CHECK_OK(dw_launch(x.tensor(), dy.tensor(), out.tensor(), split, deterministic, &options));
}

// ---- Strides ----

// A gradient that came out of a sum has stride 0 in every dimension; a BLAS would reject or misread it.
void expanded_gradient() {
  Literal x(Type::f32, {2, 2}, {1, 2, 3, 4}), w(Type::f32, {2, 2}, {1, 2, 3, 4});
  Literal dy(Type::f32, {2, 2}, {1}, {0, 0});
  Literal dense(Type::f32, {2, 2}, {1, 1, 1, 1});
  for (Literal *gradient : {&dy, &dense}) {
    Literal out_dw(Type::f32, {2, 2}, kNaN), out_dx(Type::f32, {2, 2}, kNaN);
    dw(x, *gradient, out_dw, assign());
    dx(*gradient, w, out_dx);
    expect("dW of an expanded gradient", out_dw.stored(), {4, 4, 6, 6});
    expect("dX of an expanded gradient", out_dx.stored(), {3, 7, 3, 7});
  }
}

// A broadcast operand, all ones: every entry is the contraction length.
void broadcast_operand() {
  Literal x(Type::f32, {32, 32}, {1}, {0, 0}), w(Type::f32, {32, 32}, 1.0f), out(Type::f32, {32, 32}, kNaN);
  y(x, w, out);
  expect("Y of a broadcast X", out.stored(), Values(32 * 32, 32.0f));
}

// The gradient is the left half of a wider buffer whose right half must not be read.
void narrowed_gradient() {
  constexpr int64_t kRows = 5, kCols = 7;
  Values wide(static_cast<size_t>(kRows * 2 * kCols), kNaN), narrow;
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t c = 0; c < kCols; ++c) {
      const float value = static_cast<float>(r * 3 - c) * 0.37f;
      wide[static_cast<size_t>(r * 2 * kCols + c)] = value;
      narrow.push_back(value);
    }
  Values weights, inputs;
  for (int i = 0; i < 3 * kCols; ++i) weights.push_back(static_cast<float>(i) * 0.3f - 2);
  for (int i = 0; i < kRows * 3; ++i) inputs.push_back(static_cast<float>(i) * 0.7f - 4);
  Literal w(Type::f32, {3, kCols}, weights), x(Type::f32, {kRows, 3}, inputs),
      feature(Type::f32, {kCols}, Values(7, 0.5f));
  Literal view(Type::f32, {kRows, kCols}, wide, {2 * kCols, 1}), dense(Type::f32, {kRows, kCols}, narrow);
  Values results[2][3];
  for (int i = 0; i < 2; ++i) {
    Literal &gradient = i == 0 ? view : dense;
    Literal out_dx(Type::f32, {kRows, 3}, kNaN), out_dw(Type::f32, {3, kCols}, kNaN), out_y(Type::f32, {kRows}, kNaN);
    dx(gradient, w, out_dx);
    dw(x, gradient, out_dw, assign());
    CHECK_OK(weighted_sum_fwd(gradient.tensor(), feature.tensor(), out_y.tensor(), nullptr));
    results[i][0] = out_dx.stored();
    results[i][1] = out_dw.stored();
    results[i][2] = out_y.stored();
  }
  expect("dX of a narrowed gradient", results[0][0], results[1][0]);
  expect("dW of a narrowed gradient", results[0][1], results[1][1]);
  expect("weighted sum of a narrowed view", results[0][2], results[1][2]);
}

// An expanded row as input.
void expanded_input() {
  Literal x(Type::f32, {2, 2}, {1, 2}, {0, 1}), dy(Type::f32, {2, 2}, {1, 0, 0, 1}), out(Type::f32, {2, 2}, kNaN);
  dw(x, dy, out, assign());
  expect("dW of an expanded input", out.stored(), {1, 1, 2, 2});
}

// Leading dimensions of any number, permuted ones included.
void leading_dimensions() {
  Literal w(Type::f32, {4}, {1, 2, 3, 4});
  const std::vector<std::vector<int64_t>> shapes = {{4}, {3, 4}, {2, 3, 4}, {1, 2, 1, 3, 4}};
  for (const auto &shape : shapes) {
    Literal x(Type::f32, shape, 1.0f);
    const std::vector<int64_t> rows(shape.begin(), shape.end() - 1);
    Literal out(Type::f32, rows, kNaN);
    CHECK_OK(weighted_sum_fwd(x.tensor(), w.tensor(), out.tensor(), nullptr));
    expect("weighted sum over leading dimensions", out.stored(),
           Values(static_cast<size_t>(Literal::count_of(rows)), 10));
  }
  // x[i, j, d] = i + 10 j + 100 d, stored with i innermost; y[i, j] = 10 i + 100 j + 3000.
  Values stored;
  for (int d = 0; d < 4; ++d)
    for (int j = 0; j < 3; ++j)
      for (int i = 0; i < 2; ++i) stored.push_back(static_cast<float>(i + 10 * j + 100 * d));
  Literal x(Type::f32, {2, 3, 4}, stored, {1, 2, 6}), out(Type::f32, {2, 3}, kNaN);
  CHECK_OK(weighted_sum_fwd(x.tensor(), w.tensor(), out.tensor(), nullptr));
  expect("weighted sum of a permuted view", out.stored(), {2000, 2100, 2200, 2010, 2110, 2210});
}

// Outputs in column-major order.
void column_major_output() {
  Literal x(Type::f32, {2, 3}, {1, 2, 3, 4, 5, 6}), w(Type::f32, {3, 2}, {1, 2, 3, 4, 5, 6});
  Literal out(Type::f32, {2, 2}, Values(4, kNaN), {1, 2});
  y(x, w, out);
  expect("column-major Y", out.stored(), {22, 49, 28, 64});
}

// The stride of a dimension of size 1 means nothing.
void meaningless_strides() {
  for (int64_t row : {0, 1, -7, 999999})
    for (int64_t col : {0, 12345}) {
      Literal x(Type::f32, {1, 3}, {1, 2, 3}, {row, 1}), dy(Type::f32, {1, 1}, {5}, {1, col});
      Literal out(Type::f32, {3, 1}, Values(3, kNaN), {1, row});
      dw(x, dy, out, assign());
      expect("dW with meaningless strides", out.stored(), {5, 10, 15});
    }
  Literal tall(Type::f32, {3, 1}, {1, 2, 3}, {1, 12345}), wide(Type::f32, {1, 2}, {4, 5}, {-7, 1});
  Literal out(Type::f32, {3, 2}, kNaN);
  y(tall, wide, out);
  expect("Y with meaningless strides", out.stored(), {4, 5, 8, 10, 12, 15});
}

// Views that start at an odd 16-bit element: no vector load may assume more than the element's own alignment.
void odd_half_elements() {
  for (Type type : {Type::f16, Type::bf16})
    for (int64_t k : {1, 3, 7, 129})
      for (int64_t n : {1, 3, 7, 129}) {
        const int64_t t = 5;
        Values x_values, dy_values;
        for (int64_t i = 0; i < t * k; ++i) x_values.push_back(static_cast<float>(i % 13) - 6);
        for (int64_t i = 0; i < t * n; ++i) dy_values.push_back(static_cast<float>(i % 11) - 5);
        Values x_odd = x_values, dy_odd = dy_values;
        x_odd.insert(x_odd.begin(), kNaN);
        dy_odd.insert(dy_odd.begin(), kNaN);
        Literal x(type, {t, k}, x_values), dy(type, {t, n}, dy_values);
        Literal x1(type, {t, k}, x_odd, {k, 1}, 1), dy1(type, {t, n}, dy_odd, {n, 1}, 1);
        Literal out(Type::f32, {k, n}, kNaN), out1(Type::f32, {k, n}, kNaN);
        dw(x, dy, out, assign());
        dw(x1, dy1, out1, assign());
        expect("dW of views at an odd element", out1.stored(), out.stored());
      }
}

// ---- Precision ----

// Slices that cancel: a partial kept in bfloat16 would lose the one that is left.
void cancelling_slices() {
  Values ones(1024, 0.0f);
  for (size_t t = 0; t < 257; ++t) ones[t] = 1;
  for (size_t t = 0; t < 256; ++t) ones[512 + t] = -1;
  Literal x(Type::bf16, {1024, 1}, 1.0f), dy(Type::bf16, {1024, 1}, ones);
  for (int32_t split : {0, 1, 2, 3, 8})
    for (int32_t deterministic : {0, 1})
      for (Type out_type : {Type::f32, Type::bf16}) {
        Literal out(out_type, {1, 1}, kNaN);
        dw(x, dy, out, assign(), split, deterministic);
        expect("dW of cancelling slices", {out.stored(0)}, {1});
      }
}

// The accumulation buffer is float32: it holds 256 + 1, and many small steps.
void accumulation_buffer() {
  Literal x(Type::bf16, {1, 1}, {1}), dy(Type::bf16, {1, 1}, {1}), out(Type::f32, {1, 1}, {256});
  dw(x, dy, out);
  expect("256 + 1", {out.stored(0)}, {257});
  Literal small(Type::bf16, {1, 1}, {0x1p-10f}), sum(Type::f32, {1, 1}, {0});
  for (int i = 0; i < 4096; ++i) dw(small, dy, sum);
  expect("4096 steps of 2^-10", {sum.stored(0)}, {4});
}

// A float32 output never passes through the 16-bit type.
void no_round_trip() {
  Literal x(Type::bf16, {2, 1}, {1, 0x1p-12f}), dy(Type::bf16, {2, 1}, {1, 1});
  Literal assigned(Type::f32, {1, 1}, {kNaN}), added(Type::f32, {1, 1}, {0});
  dw(x, dy, assigned, assign());
  dw(x, dy, added);
  expect("1 + 2^-12, assigned", {assigned.stored(0)}, {1.000244140625f});
  expect("1 + 2^-12, added", {added.stored(0)}, {1.000244140625f});
}

// 2048 + 1 is 2048 in a 16-bit accumulator.
void half_accumulator() {
  for (Type type : {Type::f16, Type::bf16})
    for (int32_t split : {0, 1, 7}) {
      Literal ones(type, {4096, 1}, 1.0f), out(Type::f32, {1, 1}, {kNaN}), half(type, {1, 1}, {kNaN});
      dw(ones, ones, out, assign(), split);
      dw(ones, ones, half, assign(), split);
      expect("sum of 4096 ones", {out.stored(0)}, {4096});
      expect("sum of 4096 ones, 16-bit output", {half.stored(0)}, {4096});
    }
}

// Beyond the largest float16 the output is infinite; float32 holds it.
void half_overflow() {
  Literal x(Type::f16, {1, 3}, {35008, 34976, 16}), w(Type::f16, {3, 1}, {1, 1, 1});
  Literal half(Type::f16, {1, 1}, {kNaN}), single(Type::f32, {1, 1}, {kNaN});
  y(x, w, half);
  y(x, w, single);
  expect("70000 in float16", {half.stored(0)}, {kInf});
  expect("70000 in float32", {single.stored(0)}, {70000});
}

// float32 operands stay float32: TF32 would give 1024 or 1025.
void full_single_precision() {
  Literal dy(Type::f32, {1, 1}, {1024.5f}), w(Type::f32, {1, 1}, {1}), out(Type::f32, {1, 1}, {kNaN});
  for (int32_t precision : {DXDW_PRECISION_DEFAULT, DXDW_PRECISION_EXACT}) {
    dx(dy, w, out, options_of(DXDW_ASSIGN, precision));
    expect("1024.5 times 1", {out.stored(0)}, {1024.5f});
  }
}

// ---- NaN, infinities, zeros ----

// Assigning must not multiply the old contents by 0; adding to NaN leaves NaN.
void assign_over_garbage() {
  Literal x(Type::f32, {2, 1}, {1, 2}), dy(Type::f32, {2, 1}, {3, 4});
  for (float old : {kNaN, kInf, -kInf})
    for (int32_t split : {0, 1, 2})
      for (int32_t deterministic : {0, 1}) {
        Literal out(Type::f32, {1, 1}, {old});
        dw(x, dy, out, assign(), split, deterministic);
        expect("assigned over garbage", {out.stored(0)}, {11});
      }
  Literal nan(Type::f32, {1, 1}, {kNaN}), inf(Type::f32, {1, 1}, {kInf});
  dw(x, dy, nan);
  dw(x, dy, inf);
  expect("added to NaN", {nan.stored(0)}, {kNaN});
  expect("added to infinity", {inf.stored(0)}, {kInf});
}

// A contraction of length 0: zeros where assigned, nothing where added.
void empty_contractions() {
  Literal x(Type::f32, {0, 2}, Values{}), dy(Type::f32, {0, 3}, Values{});
  for (int32_t split : {0, 1})
    for (int32_t deterministic : {0, 1}) {
      Literal out(Type::f32, {2, 3}, kNaN), kept(Type::f32, {2, 3}, 7.0f);
      dw(x, dy, out, assign(), split, deterministic);
      dw(x, dy, kept, options_of(DXDW_ADD), split, deterministic);
      expect("dW without tokens, assigned", out.stored(), Values(6, 0.0f));
      expect("dW without tokens, added", kept.stored(), Values(6, 7.0f));
    }
  Literal no_outputs(Type::bf16, {2, 0}, Values{}), w(Type::bf16, {3, 0}, Values{}), dx_out(Type::bf16, {2, 3}, kNaN);
  dx(no_outputs, w, dx_out);
  expect("dX without outputs", dx_out.stored(), Values(6, 0.0f));
  Literal no_features(Type::f32, {2, 0}, Values{}), no_weights(Type::f32, {0}, Values{}), sums(Type::f32, {2}, kNaN);
  CHECK_OK(weighted_sum_fwd(no_features.tensor(), no_weights.tensor(), sums.tensor(), nullptr));
  expect("weighted sum without features", sums.stored(), {0, 0});
  Literal no_rows(Type::f32, {0, 2}, Values{}), weights(Type::f32, {2}, {1, 2}), no_g(Type::f32, {0}, Values{});
  Literal no_gx(Type::f32, {0, 2}, Values{}), gw(Type::f32, {2}, kNaN), gw_kept(Type::f32, {2}, 7.0f);
  const dxdw_options options = assign();
  CHECK_OK(weighted_sum_bwd(no_rows.tensor(), weights.tensor(), no_g.tensor(), no_gx.tensor(), gw.tensor(), &options));
  expect("gw without rows, assigned", gw.stored(), {0, 0});
  CHECK_OK(
      weighted_sum_bwd(no_rows.tensor(), weights.tensor(), no_g.tensor(), no_gx.tensor(), gw_kept.tensor(), nullptr));
  expect("gw without rows, added", gw_kept.stored(), {7, 7});
  Literal partials(Type::f32, {0, 2, 2}, Values{}), reduced(Type::f32, {2, 2}, kNaN);
  CHECK_OK(dw_reduce(partials.tensor(), reduced.tensor(), &options));
  expect("no partials, assigned", reduced.stored(), Values(4, 0.0f));
}

// Empty calls run no kernel, and asking the planner about them does not divide by zero.
void empty_calls_launch_nothing() {
  const int64_t before = dxdw_counter(DXDW_COUNTER_LAUNCHES);
  for (int which = 0; which < 3; ++which) {
    const int64_t t = which == 0 ? 0 : 2, k = which == 1 ? 0 : 3, n = which == 2 ? 0 : 4;
    Literal x(Type::f32, {t, k}, 1.0f), dy(Type::f32, {t, n}, 1.0f), out(Type::f32, {k, n}, 7.0f);
    dw(x, dy, out, options_of(DXDW_ADD), 0, 0);
    expect("empty dW", out.stored(), Values(static_cast<size_t>(k * n), 7.0f));
    dxdw_tensor array[] = {*x.tensor(), *dy.tensor(), *out.tensor()};
    dxdw_plan plan = {};
    plan.size = sizeof plan;
    CHECK_OK(dxdw_explain(DXDW_DW, array, 0, 1, nullptr, &plan));
    CHECK(plan.split >= 1, "planned split %d of an empty product", plan.split);
  }
  CHECK(dxdw_counter(DXDW_COUNTER_LAUNCHES) == before, "an empty call ran a kernel");
}

// 0 . NaN and 0 . Inf are NaN, a whole tile of zeros included.
void zeros_hide_no_nan() {
  for (float odd : {kNaN, kInf})
    for (Type type : kTypes) {
      Literal x(type, {2, 2}, {0, 1, 1, 1}), dy(type, {2, 2}, {odd, 1, 1, 1}), out(Type::f32, {2, 2}, 0.0f);
      dw(x, dy, out, assign());
      expect("0 opposite NaN or infinity", out.stored(), {kNaN, 1, odd, 2});
      Values values(64 * 64, 1.0f);
      values[64 * 17 + 5] = odd;
      Literal zeros(type, {64, 64}, 0.0f), big(type, {64, 64}, values), product(Type::f32, {64, 64}, 0.0f);
      y(zeros, big, product);
      for (int64_t i = 0; i < 64 * 64; ++i)
        CHECK(i % 64 == 5 ? isnan(product.stored(i)) : product.stored(i) == 0,
              "tile of zeros opposite %f: element %lld is %g", static_cast<double>(odd), static_cast<long long>(i),
              static_cast<double>(product.stored(i)));
    }
}

// A tiny product must not vanish: results below the smallest normal number are kept.
void subnormal_results() {
  Literal x(Type::f32, {130, 70}, 0x1p-100f), w(Type::f32, {70, 130}, 0x1p-40f), out(Type::f32, {130, 130}, kNaN);
  y(x, w, out);
  expect("subnormal sums", out.stored(), Values(130 * 130, 70 * 0x1p-140f));
  Literal rows(Type::f32, {300, 70}, 0x1p-100f), weights(Type::f32, {70}, 0x1p-40f), sums(Type::f32, {300}, kNaN);
  CHECK_OK(weighted_sum_fwd(rows.tensor(), weights.tensor(), sums.tensor(), nullptr));
  expect("subnormal weighted sums", sums.stored(), Values(300, 70 * 0x1p-140f));
  Literal half_x(Type::f16, {3, 1}, 0x1p-20f), half_w(Type::f16, {1, 3}, 0x1p-3f), half(Type::f16, {3, 3}, kNaN);
  y(half_x, half_w, half);
  expect("subnormal float16", half.stored(), Values(9, 0x1p-23f));
  Literal b_x(Type::bf16, {3, 1}, 0x1p-100f), b_w(Type::bf16, {1, 3}, 0x1p-30f), b(Type::bf16, {3, 3}, kNaN);
  y(b_x, b_w, b, options_of(DXDW_ASSIGN, DXDW_PRECISION_EXACT));
  expect("subnormal bfloat16, exact", b.stored(), Values(9, 0x1p-130f));
}

// ---- Weighted sum, both gradients; reduction order ----

void weighted_sum_gradients() {
  Literal x(Type::f32, {2, 2}, {1, 2, 3, 4}), w(Type::f32, {2}, {1, 1}), g(Type::f32, {2}, {1, 10});
  Literal gx(Type::f32, {2, 2}, kNaN), gw(Type::f32, {2}, {100, 200});
  CHECK_OK(weighted_sum_bwd(x.tensor(), w.tensor(), g.tensor(), gx.tensor(), gw.tensor(), nullptr));
  expect("gx", gx.stored(), {1, 1, 10, 10});
  expect("gw, added by default", gw.stored(), {131, 242});
  const dxdw_options options = assign();
  CHECK_OK(weighted_sum_bwd(x.tensor(), w.tensor(), g.tensor(), nullptr, gw.tensor(), &options));
  expect("gw, assigned", gw.stored(), {31, 42});
}

// A gx of 8 MiB and more is written past the caches, in whole lines from the first that begins within a row: guards
// against rows, walked several at a time, that are taken for one another, and against loose ends of lines and of rows.
void large_gradients() {
  for (Type type : {Type::f32, Type::bf16})
    for (int64_t d : {64, 1056, 1057}) {
      const int64_t rows = (int64_t{8} << 20) / (d * size_of(type)) + 5;
      const auto x_at = [](int64_t i, int64_t k) { return static_cast<float>((i + k) % 3); };
      const auto w_at = [](int64_t k) { return static_cast<float>(k % 5); };
      const auto g_at = [](int64_t i) { return static_cast<float>(i % 7); };
      Values x_values, w_values, g_values, expected_gx, expected_gw(static_cast<size_t>(d), 0.0f);
      for (int64_t k = 0; k < d; ++k) w_values.push_back(w_at(k));
      for (int64_t i = 0; i < rows; ++i) {
        g_values.push_back(g_at(i));
        for (int64_t k = 0; k < d; ++k) {
          x_values.push_back(x_at(i, k));
          expected_gx.push_back(g_at(i) * w_at(k));
          expected_gw[static_cast<size_t>(k)] += g_at(i) * x_at(i, k);
        }
      }
      Literal x(type, {rows, d}, x_values), w(type, {d}, w_values), g(type, {rows}, g_values);
      Literal gx(type, {rows, d}, kNaN), gw(Type::f32, {d}, kNaN);
      const dxdw_options options = assign();
      CHECK_OK(weighted_sum_bwd(x.tensor(), w.tensor(), g.tensor(), gx.tensor(), gw.tensor(), &options));
      expect("large gx", gx.stored(), expected_gx);
      expect("gw beside a large gx", gw.stored(), expected_gw);
      CHECK_OK(weighted_sum_bwd(x.tensor(), w.tensor(), g.tensor(), nullptr, gw.tensor(), &options));
      expect("gw of a large x alone", gw.stored(), expected_gw);
    }
}

// A side that nobody wants costs no workspace.
void unwanted_side_costs_nothing() {
  Literal x(Type::f32, {20000, 64}, 1.0f), w(Type::f32, {64}, 1.0f), g(Type::f32, {20000}, 1.0f);
  Literal gx(Type::f32, {20000, 64}, kNaN);
  uint64_t bytes = 1;
  CHECK_OK(dxdw_weighted_sum_bwd_workspace(x.tensor(), w.tensor(), g.tensor(), gx.tensor(), nullptr, nullptr, &bytes));
  CHECK(bytes == 0, "gx alone asks for %llu bytes", static_cast<unsigned long long>(bytes));
  const int64_t before = dxdw_counter(DXDW_COUNTER_LAUNCHES);
  CHECK_OK(weighted_sum_bwd(x.tensor(), w.tensor(), g.tensor(), nullptr, nullptr, nullptr));
  CHECK(dxdw_counter(DXDW_COUNTER_LAUNCHES) == before, "a backward that nobody wants ran a kernel");
}

// Accumulating without a split needs no temporary of K x N.
void no_hidden_temporary() {
  Literal x(Type::bf16, {64, 300}, 1.0f), dy(Type::bf16, {64, 300}, 1.0f), out(Type::f32, {300, 300}, 0.0f);
  uint64_t bytes = 1;
  CHECK_OK(dxdw_dw_workspace(x.tensor(), dy.tensor(), out.tensor(), 1, 1, nullptr, &bytes));
  CHECK(bytes == 0, "dW without a split asks for %llu bytes", static_cast<unsigned long long>(bytes));
}

// Slice order shows where sums round: 2^24 + 1 + 1 is 2^24, 1 + 1 + 2^24 is 2^24 + 2.
void reduction_order() {
  Literal rising(Type::f32, {3, 1, 1}, {0x1p24f, 1, 1}), falling(Type::f32, {3, 1, 1}, {1, 1, 0x1p24f});
  Literal out(Type::f32, {1, 1}, {kNaN}), sum(Type::f32, {1, 1}, {0x1p24f}), ones(Type::f32, {2, 1, 1}, {1, 1});
  const dxdw_options options = assign();
  CHECK_OK(dw_reduce(rising.tensor(), out.tensor(), &options));
  expect("2^24 + 1 + 1", {out.stored(0)}, {0x1p24f});
  CHECK_OK(dw_reduce(falling.tensor(), out.tensor(), &options));
  expect("1 + 1 + 2^24", {out.stored(0)}, {0x1p24f + 2});
  CHECK_OK(dw_reduce(ones.tensor(), sum.tensor(), nullptr));
  expect("2^24 + (1 + 1)", {sum.stored(0)}, {0x1p24f + 2});
}

// ---- Conversions ----

void conversion_tables() {
  const struct {
    uint32_t single;
    uint16_t half;
  } to_bfloat16[] = {{0x3E89CCD5, 0x3E8A}, {0x3F808000, 0x3F80}, {0x3F818000, 0x3F82}, {0x7F7FFFFF, 0x7F80},
                     {0xFF7FFFFF, 0xFF80}, {0x00000000, 0x0000}, {0x80000000, 0x8000}, {0x7F800000, 0x7F80},
                     {0x3F808001, 0x3F81}, {0x00018000, 0x0002}, {0x00008000, 0x0000}, {0x00008001, 0x0001}},
    to_float16[] = {{0x477FE000, 0x7BFF}, {0x477FEFFF, 0x7BFF}, {0x477FF000, 0x7C00}, {0x38800000, 0x0400},
                    {0x33800000, 0x0001}, {0x33000000, 0x0000}, {0x33000001, 0x0001}, {0x33C00000, 0x0002},
                    {0x387FE000, 0x0400}, {0x3F801000, 0x3C00}, {0x3F803000, 0x3C02}, {0xC7800000, 0xFC00},
                    {0x00000001, 0x0000}, {0x80000000, 0x8000}};
  for (const auto &row : to_bfloat16) {
    const float value = float_of_bits(row.single);
    uint16_t got = 0;
    CHECK_OK(dxdw_float_to_bfloat16(&value, &got, 1));
    CHECK(got == row.half, "0x%08X became bfloat16 0x%04X, expected 0x%04X", row.single, got, row.half);
  }
  for (const auto &row : to_float16) {
    const float value = float_of_bits(row.single);
    uint16_t got = 0;
    CHECK_OK(dxdw_float_to_float16(&value, &got, 1));
    CHECK(got == row.half, "0x%08X became float16 0x%04X, expected 0x%04X", row.single, got, row.half);
  }
  // NaN of any payload stays NaN, also one whose payload lies in the bits that are dropped.
  for (uint32_t bits : {0x7F800001u, 0x7FC00000u, 0xFF800001u, 0x7FFFFFFFu, 0x7F80FFFFu, 0xFFFFFFFFu}) {
    const float value = float_of_bits(bits);
    uint16_t b = 0, h = 0;
    CHECK_OK(dxdw_float_to_bfloat16(&value, &b, 1));
    CHECK_OK(dxdw_float_to_float16(&value, &h, 1));
    CHECK((b & 0x7F80) == 0x7F80 && (b & 0x7F) != 0, "NaN 0x%08X became bfloat16 0x%04X", bits, b);
    CHECK((h & 0x7C00) == 0x7C00 && (h & 0x3FF) != 0, "NaN 0x%08X became float16 0x%04X", bits, h);
  }
}

// Every 16-bit pattern widens right and comes back; counts that leave every tail; random floats.
void conversions_in_bulk() {
  constexpr int64_t kAll = 1 << 16;
  std::vector<uint16_t> half(kAll), back(kAll);
  std::vector<float> wide(kAll);
  for (int64_t i = 0; i < kAll; ++i) half[static_cast<size_t>(i)] = static_cast<uint16_t>(i);
  for (bool bfloat : {false, true}) {
    CHECK_OK(bfloat ? dxdw_bfloat16_to_float(half.data(), wide.data(), kAll)
                    : dxdw_float16_to_float(half.data(), wide.data(), kAll));
    CHECK_OK(bfloat ? dxdw_float_to_bfloat16(wide.data(), back.data(), kAll)
                    : dxdw_float_to_float16(wide.data(), back.data(), kAll));
    for (size_t i = 0; i < kAll; ++i) {
      const float wanted = bfloat ? float_of_bits(static_cast<uint32_t>(i) << 16) : float_of_float16(half[i]);
      CHECK(same(wide[i], wanted), "0x%04zX widened to %.9g, expected %.9g", i, static_cast<double>(wide[i]),
            static_cast<double>(wanted));
      CHECK(back[i] == half[i] || isnan(wanted), "0x%04zX came back as 0x%04X", i, back[i]);
    }
  }
  Random random(77);
  std::vector<float> source(70);
  for (int64_t count = 0; count <= 67; ++count)
    for (int round = 0; round < 20; ++round) {
      for (float &value : source) value = float_of_bits(static_cast<uint32_t>(random.next()));
      std::vector<uint16_t> b(70, 0xABCD), h(70, 0xABCD);
      CHECK_OK(dxdw_float_to_bfloat16(source.data() + 1, b.data() + 1, count));
      CHECK_OK(dxdw_float_to_float16(source.data() + 1, h.data() + 1, count));
      for (size_t i = 0; i < 70; ++i) {
        const bool inside = i >= 1 && i <= static_cast<size_t>(count);
        const bool nan = inside && isnan(source[i]);
        if (nan) continue;
        CHECK(b[i] == (inside ? bfloat16_of(source[i]) : 0xABCD),
              "count %lld, element %zu: %.9g became bfloat16 0x%04X", static_cast<long long>(count), i,
              static_cast<double>(source[i]), b[i]);
        CHECK(h[i] == (inside ? float16_of(source[i]) : 0xABCD), "count %lld, element %zu: %.9g became float16 0x%04X",
              static_cast<long long>(count), i, static_cast<double>(source[i]), h[i]);
      }
    }
}

// What arrives is what was passed.
void echo() {
  Literal x(Type::bf16, {2, 3}, 1.0f);
  dxdw_tensor *tensor = x.tensor();
  int64_t strides[] = {-9, 5000000000};
  tensor->strides = strides;
  tensor->byte_offset = 40;
  int64_t out[11];
  CHECK_OK(dxdw_echo(tensor, out, 11));
  const int64_t wanted[] = {1, 0, 2, 4, 16, 1, 40, 2, 3, -9, 5000000000};
  for (int i = 0; i < 11; ++i)
    CHECK(out[i] == wanted[i], "echo %d: %lld, expected %lld", i, static_cast<long long>(out[i]),
          static_cast<long long>(wanted[i]));
}

// First, second and tenth call add the same: no tuning on live outputs.
void first_call_like_the_tenth() {
  Values x_values, dy_values;
  Random random(5);
  for (int i = 0; i < 200 * 40; ++i) {
    x_values.push_back(random.value());
    dy_values.push_back(random.value());
  }
  Literal x(Type::f32, {200, 40}, x_values), dy(Type::f32, {200, 40}, dy_values);
  Values first;
  for (int call = 0; call < 10; ++call) {
    Literal out(Type::f32, {40, 40}, 1.0f);
    dw(x, dy, out, options_of(DXDW_ACCUMULATE_DEFAULT), 0, 1);
    if (call == 0) first = out.stored();
    expect("dW of later calls", out.stored(), first);
  }
}

void all() {
  expanded_gradient();
  broadcast_operand();
  narrowed_gradient();
  expanded_input();
  leading_dimensions();
  column_major_output();
  meaningless_strides();
  odd_half_elements();
  cancelling_slices();
  accumulation_buffer();
  no_round_trip();
  half_accumulator();
  half_overflow();
  full_single_precision();
  assign_over_garbage();
  empty_contractions();
  empty_calls_launch_nothing();
  zeros_hide_no_nan();
  subnormal_results();
  weighted_sum_gradients();
  large_gradients();
  unwanted_side_costs_nothing();
  no_hidden_temporary();
  reduction_order();
  first_call_like_the_tenth();
}

}  // namespace

int main() {
  // Before the first call of all, so that nothing has been planned yet.
  first_call_like_the_tenth();
  for (int32_t threads : {1, 3}) {
    CHECK_OK(dxdw_set_threads(threads));
    all();
  }
  conversion_tables();
  conversions_in_bulk();
  echo();
  printf("passed, level %s\n", dxdw_simd_level());
  return 0;
}
