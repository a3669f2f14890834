// The functions around products - activations, sums, losses, norms, optimizer steps - against float64, for random
// shapes, layouts, types and thread counts; exp and erf over the whole range of floats; what is promised of order, of
// NaN and infinity, of calls in place, of labels and of empty sizes. Guards against tails, strides and broadcasts that
// are walked wrongly, sums whose order varies, and steps that read or write what is not theirs.
//
// Usage: dxdw_test_training [random cases [cuda]]
//
// cuda: the same on the first GPU, or skipped (exit code 77) where there is none. Operands are copied there and back
// around each call, with bytes before and behind that nobody may touch.
#include <algorithm>
#include <memory>
#include <numeric>

#include "harness.hpp"

using namespace test;

namespace {

constexpr int kMost = 6;
constexpr double kUnit = 0x1p-24;

bool on_gpu = false;
// Few cases: for sanitizers and emulators.
bool brief = false;

// A stretch of host memory and its copy on the GPU, at the same distance from 256 bytes, between guards; or with nothing
// behind, so that memcheck sees a read beyond it.
class Copied {
 public:
  static constexpr int64_t kGuard = 256;

  Copied(char *low, char *high, bool nothing_behind) : low_(low), high_(high), behind_(nothing_behind ? 0 : kGuard) {
    image_.assign(static_cast<size_t>(bytes()), 0x5A);
    memcpy(image_.data() + lead(), low, static_cast<size_t>(high - low));
    void *address = nullptr;
    CHECK_OK(dxdw_memory_allocate(0, static_cast<uint64_t>(bytes()), nullptr, &address));
    device_ = static_cast<char *>(address);
    copy(image_.data(), DXDW_CPU, device_, DXDW_CUDA);
  }
  ~Copied() { dxdw_memory_free(0, device_, nullptr); }
  Copied(const Copied &) = delete;

  bool holds(const char *address) const { return low_ <= address && address < high_; }
  char *there(const char *address) const { return device_ + lead() + (address - low_); }
  void fetch() {
    copy(device_, DXDW_CUDA, image_.data(), DXDW_CPU);
    const int64_t end = lead() + (high_ - low_);
    for (int64_t i = 0; i < bytes(); ++i)
      if (i < lead() || i >= end)
        CHECK(image_[static_cast<size_t>(i)] == 0x5A, "byte %lld of %lld, operand at %lld to %lld: written",
              static_cast<long long>(i), static_cast<long long>(bytes()), static_cast<long long>(lead()),
              static_cast<long long>(end));
    memcpy(low_, image_.data() + lead(), static_cast<size_t>(high_ - low_));
  }

 private:
  int64_t lead() const { return kGuard + static_cast<int64_t>(reinterpret_cast<uintptr_t>(low_) % kGuard); }
  int64_t bytes() const { return lead() + (high_ - low_) + behind_; }
  // As float16 elements, whose bits are carried: no type is smaller.
  void copy(char *from, int32_t from_device, char *to, int32_t to_device) const {
    int64_t shape[] = {bytes() / 2};
    const dxdw_tensor source = {from, from_device, 0, 1, DXDW_FLOAT, 16, 1, shape, nullptr, 0};
    const dxdw_tensor destination = {to, to_device, 0, 1, DXDW_FLOAT, 16, 1, shape, nullptr, 0};
    CHECK_OK(dxdw_copy(&source, &destination, nullptr));
  }

  char *low_, *high_, *device_;
  int64_t behind_;
  std::vector<char> image_;
};

// Operands that share memory share a copy.
int32_t call_on_gpu(int32_t function, dxdw_tensor *all, int count, const dxdw_options *options, int32_t split,
                    int32_t deterministic) {
  std::vector<std::pair<char *, char *>> stretches;
  for (int i = 0; i < count; ++i) {
    const dxdw_tensor &t = all[i];
    if (t.ndim < 0 || t.data == nullptr) continue;
    char *low = static_cast<char *>(t.data) + t.byte_offset, *high = low + t.dtype_bits / 8;
    int64_t unit = t.dtype_bits / 8;
    bool empty = false;
    for (int32_t d = t.ndim - 1; d >= 0; --d) {
      empty = empty || t.shape[d] == 0;
      if (t.shape[d] > 1) {
        const int64_t reach = (t.strides == nullptr ? unit : t.strides[d] * (t.dtype_bits / 8)) * (t.shape[d] - 1);
        (reach < 0 ? low : high) += reach;
      }
      unit *= t.shape[d];
    }
    if (empty) continue;
    for (size_t s = 0; s < stretches.size();) {
      if (low < stretches[s].second && stretches[s].first < high) {
        low = std::min(low, stretches[s].first);
        high = std::max(high, stretches[s].second);
        stretches.erase(stretches.begin() + static_cast<std::ptrdiff_t>(s));
        s = 0;
      } else {
        ++s;
      }
    }
    stretches.push_back({low, high});
  }
  static int calls = 0;
  const bool nothing_behind = ++calls % 2 == 0;
  std::vector<std::unique_ptr<Copied>> copies;
  for (const auto &stretch : stretches) copies.emplace_back(new Copied(stretch.first, stretch.second, nothing_behind));
  for (int i = 0; i < count; ++i) {
    dxdw_tensor &t = all[i];
    if (t.ndim < 0) continue;
    t.device_type = DXDW_CUDA;
    char *const address = static_cast<char *>(t.data) + t.byte_offset;
    t.data = nullptr;
    t.byte_offset = 0;
    for (const auto &copy : copies)
      if (copy->holds(address)) t.data = copy->there(address);
  }
  dxdw_options changed;
  void *workspace = nullptr;
  if (options != nullptr && options->workspace != nullptr) {
    changed = *options;
    uint64_t bytes;
    CHECK_OK(dxdw_workspace(function, all, split, deterministic, options, &bytes));
    CHECK_OK(dxdw_memory_allocate(0, bytes, nullptr, &workspace));
    changed.workspace = workspace;
    changed.workspace_bytes = bytes;
    options = &changed;
  }
  const int32_t status =
      dxdw_call(function, all, split, deterministic, options, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  const std::string message = dxdw_last_error();
  for (const auto &copy : copies) copy->fetch();
  CHECK_OK(dxdw_memory_free(0, workspace, nullptr));
  return status;
}

int32_t call(int32_t function, const std::vector<const dxdw_tensor *> &operands, const dxdw_options *options,
             int32_t split = 1, int32_t deterministic = 1) {
  dxdw_tensor all[kMost] = {};
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] != nullptr)
      all[i] = *operands[i];
    else
      all[i].ndim = -1;
  }
  if (on_gpu) return call_on_gpu(function, all, static_cast<int>(operands.size()), options, split, deterministic);
  return dxdw_call(function, all, split, deterministic, options, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
}

dxdw_options with_scalars(std::initializer_list<double> scalars, int32_t accumulate = DXDW_ACCUMULATE_DEFAULT) {
  dxdw_options options = options_of(accumulate);
  std::copy(scalars.begin(), scalars.end(), options.scalars);
  return options;
}

// ---- The reference: a value, and how far a result may lie from it before its own rounding ----

struct Bounded {
  double value, error;
};

double phi(double x) { return exp(-x * x / 2) / sqrt(2 * M_PI); }
double Phi(double x) { return erfc(-x / sqrt(2.0)) / 2; }

// Phi and phi as the header states them: 4 units in the last place, at most 8 half units, or 2^-148.
double phi_error(double value) { return 8 * kUnit * fabs(value) + 0x1p-148; }

void expect_close(const std::string &what, Type type, float got, Bounded wanted) {
  if (isnan(wanted.value)) {
    CHECK(isnan(got), "%s: got %.9g, expected NaN", what.c_str(), static_cast<double>(got));
    return;
  }
  // The float that is rounded last is itself rounded.
  const double error = wanted.error + kUnit * fabs(wanted.value) + 0x1p-150;
  const float low = rounded(type, static_cast<float>(wanted.value - error));
  const float high = rounded(type, static_cast<float>(wanted.value + error));
  CHECK(low <= got && got <= high, "%s: got %.9g, expected %.17g, error at most %.3g", what.c_str(),
        static_cast<double>(got), wanted.value, error);
}

// ---- Random cases ----

struct Case {
  int32_t function;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<Type> types;
  std::vector<bool> outputs, present;
  dxdw_options options = options_of(DXDW_ACCUMULATE_DEFAULT);
  int32_t split = 1, deterministic = 1;
  Type input;
};

std::vector<int64_t> random_shape(Random *random, int most_dims) {
  std::vector<int64_t> shape(static_cast<size_t>(random->between(0, most_dims)));
  for (int64_t &size : shape) size = random->one_in(25) ? 0 : random->between(1, random->one_in(4) ? 40 : 6);
  return shape;
}

Case draw(Random *random, int32_t function) {
  Case c;
  c.function = function;
  c.input = kTypes[random->between(0, 2)];
  const Type out = random->one_in(2) ? c.input : Type::f32;
  c.options.accumulate = static_cast<int32_t>(random->between(0, 2));
  std::vector<int64_t> shape = random_shape(random, 5);
  const auto add = [&](const std::vector<int64_t> &s, Type type, bool output, bool present = true) {
    c.shapes.push_back(s);
    c.types.push_back(type);
    c.outputs.push_back(output);
    c.present.push_back(present);
  };
  const std::vector<int64_t> number = random->one_in(2) ? std::vector<int64_t>{} : std::vector<int64_t>{1};
  if (random->one_in(10)) shape = {random->between(1, 5000)};
  std::vector<int64_t> rows = shape;
  rows.push_back(random->one_in(15) ? 0 : random->between(1, random->one_in(5) ? 3000 : 40));
  while (std::accumulate(rows.begin(), rows.end(), int64_t{1}, std::multiplies<int64_t>()) > 40000) {
    rows.erase(rows.begin());
    if (!shape.empty()) shape.erase(shape.begin());
  }
  while (std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>()) > 40000)
    shape.erase(shape.begin());
  switch (function) {
    case DXDW_ADD_FWD:
    case DXDW_RELU_BWD:
    case DXDW_GELU_BWD:
      add(shape, c.input, false);
      add(shape, c.input, false);
      add(shape, out, true);
      break;
    case DXDW_RELU_FWD:
    case DXDW_GELU_FWD:
      add(shape, c.input, false);
      add(shape, out, true);
      break;
    case DXDW_SUM_ROWS:
      add(rows, c.input, false);
      add({rows.back()}, Type::f32, true);
      break;
    case DXDW_DW_BIAS: {
      const int64_t t = random->between(0, random->one_in(4) ? 1500 : 70), k = random->between(1, 30),
                    n = random->between(1, 50);
      add({t, k}, c.input, false);
      add({t, n}, c.input, false);
      add({k, n}, out, true);
      add({n}, Type::f32, true);
      c.split = static_cast<int32_t>(random->between(0, std::max<int64_t>(1, std::min<int64_t>(t, 4))));
      break;
    }
    case DXDW_SOFTMAX_CROSS_ENTROPY_FWD:
    case DXDW_SOFTMAX_CROSS_ENTROPY_BWD:
      rows.back() = std::max<int64_t>(1, rows.back());
      add(rows, c.input, false);
      add(shape, Type::i32, false);
      if (function == DXDW_SOFTMAX_CROSS_ENTROPY_BWD) {
        add(shape, random->one_in(2) ? c.input : Type::f32, false);
        add(rows, out, true);
      } else {
        add(shape, Type::f32, true);
      }
      break;
    case DXDW_SQUARED_ERROR_FWD:
    case DXDW_SQUARED_ERROR_BWD:
      add(rows, c.input, false);
      add(rows, c.input, false);
      if (function == DXDW_SQUARED_ERROR_BWD) {
        add(shape, random->one_in(2) ? c.input : Type::f32, false);
        add(rows, out, true);
      } else {
        add(shape, Type::f32, true);
      }
      break;
    case DXDW_SQUARED_NORM:
      add(shape, c.input, false);
      add(number, Type::f32, true);
      break;
    case DXDW_CLIP_FACTOR:
      c.options = with_scalars({random->one_in(5) ? 0.0 : 0.5});
      add(number, Type::f32, false);
      add(number, Type::f32, true);
      break;
    case DXDW_SGD: {
      const bool velocity = random->one_in(2), nesterov = velocity && random->one_in(2);
      c.options = with_scalars({0.1, velocity ? 0.9 : 0.0, random->one_in(2) ? 0.01 : 0.0, nesterov ? 1.0 : 0.0});
      add(shape, Type::f32, true);
      add(shape, Type::f32, false);
      add(shape, Type::f32, true, velocity);
      add(shape, random->one_in(2) ? Type::f16 : Type::bf16, true, random->one_in(2));
      add(number, Type::f32, false, random->one_in(2));
      break;
    }
    default:
      c.options = with_scalars({0.01, 0.9, 0.999, 1e-8, random->one_in(2) ? 0.01 : 0.0,
                                static_cast<double>(random->between(1, random->one_in(2) ? 5 : 100000))});
      add(shape, Type::f32, true);
      add(shape, Type::f32, false);
      add(shape, Type::f32, true);
      add(shape, Type::f32, true);
      add(shape, random->one_in(2) ? Type::f16 : Type::bf16, true, random->one_in(2));
      add(number, Type::f32, false, random->one_in(2));
      break;
  }
  return c;
}

Layout random_layout(Random *random, bool output) {
  Layout layout;
  if (random->one_in(3)) return layout;
  for (int i = kMostDims - 1; i > 0; --i) std::swap(layout.order[i], layout.order[random->between(0, i)]);
  if (random->one_in(3)) layout = {};
  layout.step = random->between(1, 2);
  layout.pad = random->between(0, 3);
  layout.reversed = static_cast<unsigned>(random->next() & random->next());
  if (!output) layout.expanded = static_cast<unsigned>(random->next() & random->next() & random->next());
  layout.wild = random->one_in(3);
  return layout;
}

struct Values {
  std::vector<float> of[kMost];
};

double sum_bound(double length) { return length * kUnit / (1 - length * kUnit); }

// Every element of every output, from what the operands held before.
void compare(const Case &c, const Values &before, const std::vector<Operand> &operands, const std::string &text) {
  const auto in = [&](int operand, int64_t i) {
    return static_cast<double>(before.of[operand][static_cast<size_t>(i)]);
  };
  const auto element = [&](int out, int64_t i, Bounded wanted, bool adds_by_default = false) {
    const bool adds =
        c.options.accumulate == DXDW_ADD || (c.options.accumulate == DXDW_ACCUMULATE_DEFAULT && adds_by_default);
    if (adds) {
      wanted.error += kUnit * fabs(wanted.value);
      wanted.value += in(out, i);
    }
    expect_close(text + " operand " + std::to_string(out) + " element " + std::to_string(i),
                 c.types[static_cast<size_t>(out)], operands[static_cast<size_t>(out)].get(i), wanted);
  };
  const int64_t count = operands[0].count();
  const auto rounding = [](double value) { return kUnit * fabs(value); };
  switch (c.function) {
    case DXDW_ADD_FWD:
      for (int64_t i = 0; i < count; ++i) element(2, i, {in(0, i) + in(1, i), 0});
      return;
    case DXDW_RELU_FWD:
      for (int64_t i = 0; i < count; ++i) element(1, i, {std::max(in(0, i), 0.0), 0});
      return;
    case DXDW_RELU_BWD:
      for (int64_t i = 0; i < count; ++i) element(2, i, {in(0, i) > 0 ? in(1, i) : 0, 0});
      return;
    case DXDW_GELU_FWD:
      for (int64_t i = 0; i < count; ++i) {
        const double x = in(0, i);
        element(1, i, {x * Phi(x), fabs(x) * phi_error(Phi(x))});
      }
      return;
    case DXDW_GELU_BWD:
      for (int64_t i = 0; i < count; ++i) {
        const double x = in(0, i), g = in(1, i), value = Phi(x) + x * phi(x);
        element(2, i, {g * value, fabs(g) * (phi_error(Phi(x)) + fabs(x) * phi_error(phi(x)) + 2 * rounding(value))});
      }
      return;
    case DXDW_SUM_ROWS: {
      const int64_t n = operands[1].count(), rows = n == 0 ? 0 : count / n;
      for (int64_t i = 0; i < n; ++i) {
        Bounded sum = {0, 0};
        for (int64_t r = 0; r < rows; ++r) sum = {sum.value + in(0, r * n + i), sum.error + fabs(in(0, r * n + i))};
        element(1, i, {sum.value, sum.error * sum_bound(static_cast<double>(rows) + 2)}, true);
      }
      return;
    }
    case DXDW_DW_BIAS: {
      const int64_t t = c.shapes[0][0], k = c.shapes[0][1], n = c.shapes[1][1];
      // Matrix units of GPUs cut sums off where others round them.
      const double bound =
          sum_bound((on_gpu ? 2 : 1) * static_cast<double>(t) + 8) + (c.input == Type::bf16 ? 0x1p-22 : 0);
      for (int64_t i = 0; i < k * n; ++i) {
        Bounded sum = {0, 0};
        for (int64_t r = 0; r < t; ++r) {
          const double term = in(0, r * k + i / n) * in(1, r * n + i % n);
          sum = {sum.value + term, sum.error + fabs(term)};
        }
        element(2, i, {sum.value, sum.error * bound + 0x1p-120}, true);
      }
      for (int64_t i = 0; i < n; ++i) {
        Bounded sum = {0, 0};
        for (int64_t r = 0; r < t; ++r) sum = {sum.value + in(1, r * n + i), sum.error + fabs(in(1, r * n + i))};
        element(3, i, {sum.value, sum.error * sum_bound(static_cast<double>(t) + 2)}, true);
      }
      return;
    }
    case DXDW_SOFTMAX_CROSS_ENTROPY_FWD:
    case DXDW_SOFTMAX_CROSS_ENTROPY_BWD: {
      const int64_t classes = c.shapes[0].back(), rows = count / classes;
      for (int64_t r = 0; r < rows; ++r) {
        double most = -INFINITY, sum = 0, spread = 0;
        for (int64_t i = 0; i < classes; ++i) most = std::max(most, in(0, r * classes + i));
        for (int64_t i = 0; i < classes; ++i) {
          sum += exp(in(0, r * classes + i) - most);
          spread = std::max(spread, most - in(0, r * classes + i));
        }
        const int64_t label = static_cast<int64_t>(in(1, r));
        // Relative errors: of each exponent's difference, of exp, of the sum.
        const double of_exp = kUnit * (spread + 3), of_sum = of_exp + sum_bound(static_cast<double>(classes) + 4);
        if (c.function == DXDW_SOFTMAX_CROSS_ENTROPY_FWD) {
          const double apart = most - in(0, r * classes + label), log_sum = log(sum);
          element(2, r, {log_sum + apart, of_sum * 1.01 + rounding(apart) + rounding(log_sum)});
          continue;
        }
        const double g = in(2, r);
        for (int64_t i = 0; i < classes; ++i) {
          const double p = exp(in(0, r * classes + i) - most) / sum, value = p - (i == label ? 1 : 0);
          const double error = p * (of_exp + of_sum + 2 * kUnit) * 1.01 + 2 * rounding(value) + 0x1p-148;
          element(3, r * classes + i, {g * value, fabs(g) * error});
        }
      }
      return;
    }
    case DXDW_SQUARED_ERROR_FWD:
    case DXDW_SQUARED_ERROR_BWD: {
      const int64_t features = c.shapes[0].back();
      const bool forward = c.function == DXDW_SQUARED_ERROR_FWD;
      const int64_t rows = operands[2].count();
      for (int64_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (int64_t i = r * features; i < (r + 1) * features; ++i) {
          const double d = in(0, i) - in(1, i), gx = 2 * (forward ? 0 : in(2, r)) * d;
          sum += d * d;
          if (!forward) element(3, i, {gx, 2 * rounding(gx)});
        }
        if (forward) element(2, r, {sum, sum * sum_bound(static_cast<double>(features) + 6)});
      }
      return;
    }
    case DXDW_SQUARED_NORM: {
      double sum = 0;
      for (int64_t i = 0; i < count; ++i) sum += in(0, i) * in(0, i);
      element(1, 0, {sum, sum * sum_bound(static_cast<double>(count) + 4)}, true);
      return;
    }
    case DXDW_CLIP_FACTOR: {
      const double factor = c.options.scalars[0] / sqrt(in(0, 0));
      element(1, 0, {in(0, 0) == 0 ? 1 : std::min(1.0, factor), 2 * kUnit});
      return;
    }
    default: break;
  }
  const double *const s = c.options.scalars;
  const double scale = c.present[c.present.size() - 1] ? in(static_cast<int>(c.present.size()) - 1, 0) : 1;
  const size_t copy = c.present.size() - 2;
  for (int64_t i = 0; i < count; ++i) {
    const double p = in(0, i), g = scale * in(1, i);
    if (c.function == DXDW_SGD) {
      const double d = g + s[2] * p, d_error = 3 * kUnit * (fabs(g) + fabs(s[2] * p));
      Bounded move = {d, d_error};
      if (c.present[2]) {
        const double kept = s[1] * in(2, i), velocity = kept + d;
        const double error = d_error + 3 * kUnit * (fabs(kept) + fabs(d));
        element(2, i, {velocity, error});
        move = s[3] != 0 ? Bounded{d + s[1] * velocity, d_error + error + 3 * kUnit * (fabs(d) + fabs(velocity))}
                         : Bounded{velocity, error};
      }
      element(0, i, {p - s[0] * move.value, s[0] * (move.error + 3 * kUnit * fabs(move.value)) + kUnit * fabs(p)});
    } else {
      const double m = s[1] * in(2, i) + (1 - s[1]) * g, v = s[2] * in(3, i) + (1 - s[2]) * g * g;
      const double m_error = 4 * kUnit * (fabs(s[1] * in(2, i)) + fabs((1 - s[1]) * g)), v_error = 6 * kUnit * v;
      element(2, i, {m, m_error});
      element(3, i, {v, v_error});
      const double divisor = sqrt(v / (1 - pow(s[2], s[5]))) + s[3], step = s[0] / (1 - pow(s[1], s[5]));
      const double move = step * m / divisor;
      const double error = step * m_error / divisor + 12 * kUnit * fabs(move);
      element(0, i, {p * (1 - s[0] * s[4]) - move, error + 3 * kUnit * fabs(p)});
    }
    if (c.present[copy]) {
      const float given = operands[copy].get(i), wanted = rounded(c.types[copy], operands[0].get(i));
      CHECK(same(given, wanted), "%s: copy is %.9g, p rounded %.9g", text.c_str(), static_cast<double>(given),
            static_cast<double>(wanted));
    }
  }
}

// `plain`: operands compact, from 16 bytes on.
void run_case(Random *random, const Case &c, bool plain) {
  const int32_t function = c.function;
  const size_t count = c.shapes.size();
  std::vector<Arena *> arenas;
  std::vector<Operand> operands(count);
  std::string text = "function " + std::to_string(function) + " accumulate " + std::to_string(c.options.accumulate);
  Values before;
  for (size_t i = 0; i < count; ++i) {
    static Arena *const kept[kMost] = {new Arena(8 << 20), new Arena(8 << 20), new Arena(8 << 20),
                                       new Arena(8 << 20), new Arena(8 << 20), new Arena(8 << 20)};
    Operand &o = operands[i];
    o.place(*kept[i], plain ? Place::low : static_cast<Place>(random->between(0, 2)), c.types[i], c.shapes[i],
            plain ? Layout() : random_layout(random, c.outputs[i]));
    const bool positive = (function == DXDW_ADAMW && i == 3) || (function == DXDW_CLIP_FACTOR && i == 0);
    const float reach = random->one_in(3) ? 8.0f : 1.0f;
    if (c.types[i] == Type::i32)
      o.fill([&](int64_t) { return static_cast<float>(random->between(0, c.shapes[0].back() - 1)); });
    else
      o.fill([&](int64_t) { return positive ? fabsf(random->value()) : reach * random->value(); });
    const bool overwritten = c.outputs[i] && c.options.accumulate == DXDW_ASSIGN;
    if (overwritten) o.fill([](int64_t) { return NAN; });
    o.remember();
    before.of[i] = o.values();
    text += "; " + o.text() + (c.present[i] ? "" : " absent");
  }
  set_context(text);
  std::vector<const dxdw_tensor *> pointers;
  for (size_t i = 0; i < count; ++i) pointers.push_back(c.present[i] ? operands[i].tensor(random->one_in(2)) : nullptr);
  std::vector<std::vector<float>> first;
  for (int32_t threads : {1, 3}) {
    CHECK_OK(dxdw_set_threads(threads));
    for (size_t i = 0; i < count; ++i)
      if (c.outputs[i]) {
        int64_t at = 0;
        operands[i].fill([&](int64_t) { return before.of[i][static_cast<size_t>(at++)]; });
      }
    CHECK_OK(call(function, pointers, &c.options, c.split, c.deterministic));
    for (size_t i = 0; i < count; ++i) {
      if (c.outputs[i] && c.present[i])
        CHECK(operands[i].gaps_untouched(), "operand %zu: a gap was written", i);
      else if (!c.outputs[i])
        CHECK(operands[i].untouched(), "operand %zu: an input was written", i);
    }
    if (threads == 1) {
      compare(c, before, operands, text);
      for (const Operand &o : operands) first.push_back(o.values());
    } else {
      for (size_t i = 0; i < count; ++i) expect("bits of one and of three threads", operands[i].values(), first[i]);
    }
  }
  CHECK_OK(dxdw_set_threads(0));
}

// Rows of losses on both sides of the widths at which kernels change, compact and not.
void widths() {
  for (int32_t function = DXDW_SOFTMAX_CROSS_ENTROPY_FWD; function <= DXDW_SQUARED_ERROR_BWD; ++function)
    for (int64_t features : {31, 32, 40, 1016, 1024, 1032, 2056, 8192, 8200})
      for (Type type : kTypes)
        for (bool plain : {true, false}) {
          Random random(static_cast<uint64_t>(features));
          Case c = draw(&random, function);
          case_name = "width " + std::to_string(features);
          const bool softmax = c.types[1] == Type::i32;
          c.input = type;
          c.options.accumulate = DXDW_ACCUMULATE_DEFAULT;
          for (size_t i = 0; i < c.shapes.size(); ++i) {
            const bool per_row = i == 2 || (i == 1 && softmax);
            c.shapes[i] = per_row ? std::vector<int64_t>{5} : std::vector<int64_t>{5, features};
            if (c.types[i] != Type::i32) c.types[i] = i == 2 ? Type::f32 : type;
          }
          run_case(&random, c, plain);
        }
  case_name.clear();
}

// ---- Accuracy of exp and erf ----

// gelu, its derivative and exp at every `stride`-th float.
void whole_range(uint32_t stride) {
  constexpr int64_t kBatch = 4096;
  std::vector<float> x, y(kBatch), gx(kBatch), ones(kBatch, 1.0f);
  double worst_gelu = 0, worst_slope = 0;
  int64_t shape[] = {0};
  const auto tensor = [&](std::vector<float> &values) {
    return dxdw_tensor{values.data(), DXDW_CPU, 0, 1, DXDW_FLOAT, 32, 1, shape, nullptr, 0};
  };
  for (uint64_t bits = 0; bits <= UINT32_MAX;) {
    x.clear();
    for (; bits <= UINT32_MAX && x.size() < kBatch; bits += stride)
      x.push_back(float_of_bits(static_cast<uint32_t>(bits)));
    shape[0] = static_cast<int64_t>(x.size());
    dxdw_tensor in = tensor(x), out = tensor(y), slope = tensor(gx), g = tensor(ones);
    CHECK_OK(call(DXDW_GELU_FWD, {&in, &out}, nullptr));
    CHECK_OK(call(DXDW_GELU_BWD, {&in, &g, &slope}, nullptr));
    for (size_t i = 0; i < x.size(); ++i) {
      const double a = static_cast<double>(x[i]);
      const std::string what = "gelu of " + std::to_string(a) + " bits " + std::to_string(bits_of_float(x[i]));
      if (isnan(a) || isinf(a)) {
        CHECK(a > 0 ? y[i] > 0 && isinf(y[i]) : isnan(y[i]), "%s: %g", what.c_str(), static_cast<double>(y[i]));
        CHECK(isnan(gx[i]), "slope of %s: %g", what.c_str(), static_cast<double>(gx[i]));
        continue;
      }
      const double below = Phi(a), density = phi(a);
      expect_close(what, Type::f32, y[i], {a * below, fabs(a) * phi_error(below)});
      const double value = below + a * density;
      expect_close("slope of " + what, Type::f32, gx[i],
                   {value, phi_error(below) + fabs(a) * phi_error(density) + 2 * kUnit * fabs(value)});
      if (fabs(a * below) > 0x1p-120)
        worst_gelu = std::max(worst_gelu, fabs(static_cast<double>(y[i]) / (a * below) - 1) / (2 * kUnit));
      if (below + fabs(a) * density > 0x1p-120)
        worst_slope =
            std::max(worst_slope, fabs(static_cast<double>(gx[i]) - value) / (2 * kUnit * (below + fabs(a) * density)));
    }
  }
  printf("gelu: at most %.2f units of 2^-23 off; its slope: %.2f of Phi + |x| phi\n", worst_gelu, worst_slope);
}

// The softmax of (0, -x) is e^-x / (1 + e^-x) at its second class.
void exp_range() {
  constexpr int64_t kRows = 1 << 16;
  std::vector<float> logits(2 * kRows), gx(2 * kRows), g(kRows, 1.0f);
  std::vector<int32_t> labels(kRows, 0);
  int64_t shape[] = {kRows, 2};
  const dxdw_tensor l = {logits.data(), DXDW_CPU, 0, 2, DXDW_FLOAT, 32, 1, shape, nullptr, 0};
  const dxdw_tensor out = {gx.data(), DXDW_CPU, 0, 2, DXDW_FLOAT, 32, 1, shape, nullptr, 0};
  const dxdw_tensor gradient = {g.data(), DXDW_CPU, 0, 1, DXDW_FLOAT, 32, 1, shape, nullptr, 0};
  const dxdw_tensor label = {labels.data(), DXDW_CPU, 0, 1, DXDW_INT, 32, 1, shape, nullptr, 0};
  double worst = 0;
  for (int part = 0; part < 4; ++part) {
    for (int64_t i = 0; i < kRows; ++i)
      logits[static_cast<size_t>(2 * i + 1)] = -static_cast<float>(i * 4 + part) * (105.0f / (4 * kRows));
    CHECK_OK(call(DXDW_SOFTMAX_CROSS_ENTROPY_BWD, {&l, &label, &gradient, &out}, nullptr));
    for (int64_t i = 0; i < kRows; ++i) {
      const double e = exp(static_cast<double>(logits[static_cast<size_t>(2 * i + 1)])), p = e / (1 + e);
      const float got = gx[static_cast<size_t>(2 * i + 1)];
      expect_close("softmax", Type::f32, got, {p, 8 * kUnit * p + 0x1p-148});
      if (e > 0x1p-120) worst = std::max(worst, fabs(static_cast<double>(got) / p - 1) / (2 * kUnit));
    }
  }
  printf("softmax: at most %.2f units of 2^-23 off\n", worst);
}

// ---- What is promised ----

const float kNan = NAN, kInf = INFINITY;

void special_values() {
  set_context("special values");
  Literal x(Type::f32, {6}, std::vector<float>{kNan, kInf, -kInf, -0.0f, 2.0f, -3.0f});
  Literal y(Type::f32, {6}, 7.0f), g(Type::f32, {6}, std::vector<float>{1, kNan, kInf, kNan, -0.0f, kNan});
  CHECK_OK(call(DXDW_RELU_FWD, {x.tensor(), y.tensor()}, nullptr));
  expect("relu", y.stored(), {kNan, kInf, 0, 0, 2, 0});
  CHECK_OK(call(DXDW_RELU_BWD, {x.tensor(), g.tensor(), y.tensor()}, nullptr));
  expect("relu backward", y.stored(), {0, kNan, 0, 0, -0.0f, 0});
  CHECK_OK(call(DXDW_GELU_FWD, {x.tensor(), y.tensor()}, nullptr));
  CHECK(isnan(y.stored(0)) && y.stored(1) == kInf && isnan(y.stored(2)) && same(y.stored(3), -0.0f),
        "gelu of special values: %s", text_of(y.stored()).c_str());
  Literal logits(Type::f32, {4, 3}, std::vector<float>{0, kNan, 0, kInf, 0, 0, -kInf, -kInf, -kInf, -kInf, 1, -kInf});
  Literal labels(Type::i32, {4}, std::vector<float>{0, 0, 0, 1}), loss(Type::f32, {4}, 5.0f);
  CHECK_OK(call(DXDW_SOFTMAX_CROSS_ENTROPY_FWD, {logits.tensor(), labels.tensor(), loss.tensor()}, nullptr));
  expect("cross entropy", loss.stored(), {kNan, kNan, kNan, 0});
  for (float norm : {0.0f, 4.0f, kNan, kInf, -1.0f}) {
    Literal from(Type::f32, {}, std::vector<float>{norm}), to(Type::f32, {1}, 9.0f);
    dxdw_options most = with_scalars({1.0});
    CHECK_OK(call(DXDW_CLIP_FACTOR, {from.tensor(), to.tensor()}, &most));
    const float wanted = norm == 0 ? 1.0f : norm == 4 ? 0.5f : norm == kInf ? 0.0f : kNan;
    expect("clip factor", to.stored(), {wanted});
    CHECK_OK(call(DXDW_CLIP_FACTOR, {from.tensor(), from.tensor()}, &most));
    expect("clip factor in place", from.stored(), {wanted});
  }
}

void in_place() {
  Random random(5);
  for (Type type : kTypes)
    for (int32_t function : {DXDW_ADD_FWD, DXDW_RELU_FWD, DXDW_RELU_BWD, DXDW_GELU_FWD, DXDW_GELU_BWD})
      for (int64_t step : {1, 2})
        for (int which = 0; which < 2; ++which)
          for (int32_t accumulate : {DXDW_ASSIGN, DXDW_ADD}) {
            const bool two = function != DXDW_RELU_FWD && function != DXDW_GELU_FWD;
            set_context("in place, function " + std::to_string(function));
            if (which == 1 && !two) continue;
            Arena memory[3] = {Arena(1 << 20), Arena(1 << 20), Arena(1 << 20)};
            Operand a, b, out;
            Layout layout;
            layout.step = step;
            layout.pad = step - 1;
            a.place(memory[0], Place::middle, type, {37, 53}, layout);
            b.place(memory[1], Place::middle, type, {37, 53}, layout);
            out.place(memory[2], Place::middle, type, {37, 53}, layout);
            a.fill_random(&random);
            b.fill_random(&random);
            const Operand &over = which == 0 ? a : b;
            out.fill([&](int64_t i) { return over.get(i); });
            dxdw_options options = options_of(accumulate);
            std::vector<const dxdw_tensor *> operands = {a.tensor()};
            if (two) operands.push_back(b.tensor());
            operands.push_back(out.tensor());
            CHECK_OK(call(function, operands, &options));
            operands.back() = operands[static_cast<size_t>(which)];
            CHECK_OK(call(function, operands, &options));
            expect("bits in place", over.values(), out.values());
            // One element on is not in place.
            dxdw_tensor shifted = *operands.back();
            shifted.byte_offset += static_cast<uint64_t>(size_of(type));
            operands.back() = &shifted;
            if (step == 1)
              CHECK(call(function, operands, &options) == DXDW_INVALID_ARGUMENT &&
                        strstr(dxdw_last_error(), "shares memory") != nullptr,
                    "shifted by one element: %s", dxdw_last_error());
          }
}

void labels() {
  set_context("labels");
  Literal logits(Type::f32, {2, 2}, std::vector<float>{1, 2, 3, 4}), g(Type::f32, {2}, 1.0f);
  for (float wrong : {-1.0f, 2.0f, -2147483648.0f}) {
    Literal labels(Type::i32, {2}, std::vector<float>{1, wrong}), loss(Type::f32, {2}, 5.0f),
        gx(Type::f32, {2, 2}, 5.0f);
    if (on_gpu) {
      CHECK_OK(call(DXDW_SOFTMAX_CROSS_ENTROPY_FWD, {logits.tensor(), labels.tensor(), loss.tensor()}, nullptr));
      CHECK_OK(
          call(DXDW_SOFTMAX_CROSS_ENTROPY_BWD, {logits.tensor(), labels.tensor(), g.tensor(), gx.tensor()}, nullptr));
      CHECK(isfinite(loss.stored(0)) && isnan(loss.stored(1)), "loss: %s", text_of(loss.stored()).c_str());
      CHECK(isfinite(gx.stored(0)) && isfinite(gx.stored(1)) && isnan(gx.stored(2)) && isnan(gx.stored(3)),
            "gradient: %s", text_of(gx.stored()).c_str());
      continue;
    }
    CHECK(call(DXDW_SOFTMAX_CROSS_ENTROPY_FWD, {logits.tensor(), labels.tensor(), loss.tensor()}, nullptr) ==
                  DXDW_INVALID_ARGUMENT &&
              strstr(dxdw_last_error(), "labels: value ") == dxdw_last_error() &&
              strstr(dxdw_last_error(), std::to_string(static_cast<int64_t>(wrong)).c_str()) != nullptr &&
              strstr(dxdw_last_error(), "row 1") != nullptr,
          "wrong label: %s", dxdw_last_error());
    CHECK(call(DXDW_SOFTMAX_CROSS_ENTROPY_BWD, {logits.tensor(), labels.tensor(), g.tensor(), gx.tensor()}, nullptr) ==
              DXDW_INVALID_ARGUMENT,
          "wrong label, backward");
    expect("loss of a refused call", loss.stored(), {5, 5});
    expect("gradient of a refused call", gx.stored(), {5, 5, 5, 5});
  }
}

// Sums whose bits are promised.
void orders() {
  Random random(11);
  for (Type type : kTypes)
    for (int64_t rows : {1, 63, 64, 65, 700, 4097, 9000}) {
      if (brief && rows != 65 && rows != 700) continue;
      set_context("order of sums, rows " + std::to_string(rows));
      const int64_t n = random.between(1, 70), k = random.between(1, 40);
      Arena memory[2] = {Arena(4 << 20), Arena(4 << 20)};
      Operand dy, x;
      dy.place(memory[0], Place::high, type, {rows, n}, random_layout(&random, true));
      x.place(memory[1], Place::high, type, {rows, k});
      dy.fill_random(&random);
      x.fill_random(&random);
      Literal ones(type, {rows}, 1.0f), w(type, {n}, 1.0f);
      Literal gw(Type::f32, {n}, 0.5f), gb(Type::f32, {n}, 0.5f);
      CHECK_OK(call(DXDW_WEIGHTED_SUM_BWD, {dy.tensor(), w.tensor(), ones.tensor(), nullptr, gw.tensor()}, nullptr));
      CHECK_OK(call(DXDW_SUM_ROWS, {dy.tensor(), gb.tensor()}, nullptr));
      expect("sum of rows, as a weighted sum", gb.stored(), gw.stored());
      for (Type out : {Type::f32, type})
        for (int32_t split : {0, 1, 3})
          for (int32_t accumulate : {DXDW_ADD, DXDW_ASSIGN})
            for (int32_t threads : {1, 2, 5}) {
              if (split > rows || (brief && (threads != 2 || split == 1))) continue;
              dxdw_options options = options_of(accumulate);
              CHECK_OK(dxdw_set_threads(threads));
              Literal dw(out, {k, n}, 0.25f), alone(out, {k, n}, 0.25f), db(Type::f32, {n}, 0.5f),
                  sums(Type::f32, {n}, 0.5f);
              CHECK_OK(call(DXDW_DW_BIAS, {x.tensor(), dy.tensor(), dw.tensor(), db.tensor()}, &options, split));
              CHECK_OK(call(DXDW_DW, {x.tensor(), dy.tensor(), alone.tensor()}, &options, split));
              CHECK_OK(call(DXDW_SUM_ROWS, {dy.tensor(), sums.tensor()}, &options));
              expect("dw with a bias", dw.stored(), alone.stored());
              expect("db", db.stored(), sums.stored());
              // The same in a workspace of exactly the size that was told.
              dxdw_tensor all[] = {*x.tensor(), *dy.tensor(), *dw.tensor(), *db.tensor()};
              uint64_t bytes = 0;
              CHECK_OK(dxdw_workspace(DXDW_DW_BIAS, all, split, 1, &options, &bytes));
              std::vector<char> room(bytes + 192);
              options.workspace = room.data() + 64 - reinterpret_cast<uintptr_t>(room.data()) % 64;
              options.workspace_bytes = bytes;
              Literal dw2(out, {k, n}, 0.25f), db2(Type::f32, {n}, 0.5f);
              CHECK_OK(call(DXDW_DW_BIAS, {x.tensor(), dy.tensor(), dw2.tensor(), db2.tensor()}, &options, split));
              expect("dw in a workspace", dw2.stored(), alone.stored());
              expect("db in a workspace", db2.stored(), sums.stored());
              CHECK_OK(dxdw_set_threads(0));
            }
    }
  // The norm's bits depend on the number of elements alone.
  for (int64_t count : {1, 1000, 16384, 16385, 100003, 5000000}) {
    if (brief && count > 200000) continue;
    set_context("order of a norm of " + std::to_string(count));
    Arena memory[2] = {Arena(24 << 20), Arena(48 << 20)};
    Operand x, spread;
    Layout layout;
    layout.step = 2;
    layout.reversed = 1;
    x.place(memory[0], Place::high, Type::f32, {count});
    spread.place(memory[1], Place::high, Type::f32, {count}, layout);
    x.fill_random(&random);
    spread.fill([&](int64_t i) { return x.get(i); });
    std::vector<float> first;
    for (int32_t threads : {1, 2, 7})
      for (Operand *o : {&x, &spread}) {
        CHECK_OK(dxdw_set_threads(threads));
        Literal norm(Type::f32, {}, std::vector<float>{0});
        CHECK_OK(call(DXDW_SQUARED_NORM, {o->tensor(), norm.tensor()}, nullptr));
        if (first.empty()) first = norm.stored();
        expect("norm", norm.stored(), first);
      }
    CHECK_OK(dxdw_set_threads(0));
  }
}

// 32 dimensions, of which some are expanded.
void many_dimensions() {
  set_context("32 dimensions");
  int64_t shape[32], strides[32], broadcast[32], unit = 1;
  for (int d = 31; d >= 0; --d) {
    shape[d] = d % 3 == 0 ? 2 : 1;
    strides[d] = shape[d] == 1 ? 77 : unit;
    if (shape[d] > 1) unit *= 2;
    broadcast[d] = d % 2 == 0 ? 0 : strides[d];
  }
  std::vector<float> a(static_cast<size_t>(unit)), b(static_cast<size_t>(unit)), y(static_cast<size_t>(unit));
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i), b[i] = static_cast<float>(10000 * i);
  const dxdw_tensor ta = {a.data(), DXDW_CPU, 0, 32, DXDW_FLOAT, 32, 1, shape, strides, 0};
  const dxdw_tensor tb = {b.data(), DXDW_CPU, 0, 32, DXDW_FLOAT, 32, 1, shape, broadcast, 0};
  const dxdw_tensor ty = {y.data(), DXDW_CPU, 0, 32, DXDW_FLOAT, 32, 1, shape, strides, 0};
  CHECK_OK(call(DXDW_ADD_FWD, {&ta, &tb, &ty}, nullptr));
  for (int64_t i = 0; i < unit; ++i) {
    int64_t rest = i, from = 0;
    for (int d = 31; d >= 0; --d) {
      if (shape[d] == 1) continue;
      from += rest % 2 * broadcast[d];
      rest /= 2;
    }
    CHECK(y[static_cast<size_t>(i)] == static_cast<float>(i + 10000 * from), "element %lld: %g",
          static_cast<long long>(i), static_cast<double>(y[static_cast<size_t>(i)]));
  }
  Literal norm(Type::f32, {}, std::vector<float>{0});
  CHECK_OK(call(DXDW_SQUARED_NORM, {&ta, norm.tensor()}, nullptr));
}

// Outputs so large that they go past the caches, at every offset of the first element.
void large() {
  set_context("large outputs");
  constexpr int64_t kCount = (8 << 20) / 4 + 1009;
  std::vector<float> a(kCount + 32), b(kCount + 32), y(kCount + 32);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 4096), b[i] = static_cast<float>(i % 1000);
  for (size_t offset : {0, 1, 7, 15}) {
    std::fill(y.begin(), y.end(), -1.0f);
    int64_t shape[] = {kCount};
    const dxdw_tensor ta = {a.data(), DXDW_CPU, 0, 1, DXDW_FLOAT, 32, 1, shape, nullptr, 0};
    const dxdw_tensor tb = {b.data(), DXDW_CPU, 0, 1, DXDW_FLOAT, 32, 1, shape, nullptr, 0};
    const dxdw_tensor ty = {y.data() + offset, DXDW_CPU, 0, 1, DXDW_FLOAT, 32, 1, shape, nullptr, 0};
    CHECK_OK(call(DXDW_ADD_FWD, {&ta, &tb, &ty}, nullptr));
    for (size_t i = 0; i < y.size(); ++i) {
      const bool inside = i >= offset && i < offset + kCount;
      const float wanted = inside ? a[i - offset] + b[i - offset] : -1.0f;
      CHECK(y[i] == wanted, "offset %zu, element %zu: %g", offset, i, static_cast<double>(y[i]));
    }
  }
}

void plans() {
  set_context("plans");
  for (int32_t function = DXDW_ADD_FWD; function <= DXDW_ADAMW; ++function) {
    Random random(static_cast<uint64_t>(function));
    for (int i = 0; i < 20; ++i) {
      Case c = draw(&random, function);
      Arena memory(1 << 23);
      dxdw_tensor all[kMost] = {};
      for (size_t o = 0; o < c.shapes.size(); ++o) {
        all[o] = {memory.low() + o * (1 << 20),
                  DXDW_CPU,
                  0,
                  static_cast<int32_t>(c.shapes[o].size()),
                  code_of(c.types[o]),
                  bits_of(c.types[o]),
                  1,
                  c.shapes[o].data(),
                  nullptr,
                  0};
        if (!c.present[o]) all[o] = {}, all[o].ndim = -1;
      }
      dxdw_plan plan = {};
      plan.size = sizeof plan;
      CHECK_OK(dxdw_explain(function, all, c.split, 1, &c.options, &plan));
      CHECK(plan.kernel[0] != 0 && plan.why[0] != 0, "function %d: an empty plan", function);
    }
  }
}

}  // namespace

int main(int count, char **arguments) {
  report_faults();
  const int cases = count > 1 ? atoi(arguments[1]) : 3000;
  brief = cases < 1000;
  on_gpu = count > 2 && strcmp(arguments[2], "cuda") == 0;
  if (on_gpu && dxdw_device_unavailable(DXDW_CUDA, 0)[0] != 0) {
    printf("skipped: %s\n", dxdw_device_unavailable(DXDW_CUDA, 0));
    return 77;
  }
  special_values();
  in_place();
  labels();
  many_dimensions();
  plans();
  orders();
  large();
  widths();
  for (int i = 0; i < cases; ++i) {
    case_name = "case " + std::to_string(i);
    Random random(static_cast<uint64_t>(i) * 7919 + 1);
    const Case c = draw(&random, DXDW_ADD_FWD + i % (DXDW_ADAMW - DXDW_ADD_FWD + 1));
    run_case(&random, c, random.one_in(8));
  }
  case_name.clear();
  whole_range(brief ? 400009 : 4099);
  exp_range();
  printf("%d random cases\n", cases);
  return 0;
}
