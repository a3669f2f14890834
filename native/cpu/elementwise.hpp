// Kernels over floats side by side: activations, optimizer steps, the steps of the losses. Every element goes through
// the same operations wherever it stands, so neither tails nor tiles show in the bits.
#pragma once

#include "kernels.hpp"
#include "normal_constants.hpp"
#include "rows.hpp"
#include "simd.hpp"

namespace {

using dxdw::cpu::StepStretch;
using dxdw::cpu::Stretch;

// ---- exp and the normal distribution ----

// e^(a + d), for |d| far below 1 and d the part of the exponent that a has no room for; 0 for exponents below -104,
// infinite above 89. Off by at most 1 unit in the last place, or half of the smallest subnormal more. With n = round((a
// + d) / ln 2) and r = a + d - n ln 2 it is 2^n e^r; see normal_constants.hpp.
DXDW_INLINE Vec v_exp_of_sum(Vec a, Vec d) {
  const Vec big = v_set(0x1.8p23f);
  const Vec n = v_sub(v_add(v_mul(v_add(a, d), v_set(dxdw::kPerLn2)), big), big);
  const Vec r = v_add(v_fma(n, v_set(-dxdw::kLn2High), a), v_fma(n, v_set(-dxdw::kLn2Low), d));
  Vec c = v_set(dxdw::kExp4);
  c = v_fma(c, r, v_set(dxdw::kExp3));
  c = v_fma(c, r, v_set(dxdw::kExp2));
  c = v_fma(c, r, v_set(dxdw::kExp1));
  c = v_fma(c, r, v_set(dxdw::kExp0));
  return v_scale(v_add(v_set(1.0f), v_fma(v_mul(r, r), c, r)), n);
}

// v held between low and high; NaN stays NaN.
DXDW_INLINE Vec v_between(Vec v, float low, float high) {
  v = v_if_greater(v, v_set(high), v_set(high), v);
  return v_if_greater(v_set(low), v, v_set(low), v);
}

DXDW_INLINE Vec v_exp(Vec x) { return v_exp_of_sum(v_between(x, -110.0f, 100.0f), v_zero()); }

struct Normal {
  Vec below;    // Phi(x), the integral of phi from -infinity to x
  Vec density;  // phi(x) = exp(-x^2 / 2) / sqrt(2 pi)
};

// By Phi(-t), t = |x|, as in normal_constants.hpp. t^2 needs twice the bits of a float: with h, t to 12 bits, h^2 is
// exact and t^2 = h^2 + (t - h)(t + h).
DXDW_INLINE Normal v_normal(Vec x) {
  const Vec bounded = v_between(x, -dxdw::kTailEnd, dxdw::kTailEnd);
  const Vec t = v_if_greater(v_zero(), bounded, v_sub(v_zero(), bounded), bounded);
  const Vec wide = v_mul(t, v_set(4097.0f));
  const Vec h = v_sub(wide, v_sub(wide, t));
  const Vec half = v_set(-0.5f);
  const Vec e = v_exp_of_sum(v_mul(half, v_mul(h, h)), v_mul(half, v_mul(v_sub(t, h), v_add(t, h))));
  const Vec s = v_div(v_set(1.0f), v_fma(t, v_set(dxdw::kTailScale), v_set(1.0f)));
  const Vec u = v_fma(s, v_set(2.0f), v_set(-1.0f));
  Vec p = v_set(dxdw::kTail9);
  p = v_fma(p, u, v_set(dxdw::kTail8));
  p = v_fma(p, u, v_set(dxdw::kTail7));
  p = v_fma(p, u, v_set(dxdw::kTail6));
  p = v_fma(p, u, v_set(dxdw::kTail5));
  p = v_fma(p, u, v_set(dxdw::kTail4));
  p = v_fma(p, u, v_set(dxdw::kTail3));
  p = v_fma(p, u, v_set(dxdw::kTail2));
  p = v_fma(p, u, v_set(dxdw::kTail1));
  p = v_fma(p, u, v_set(dxdw::kTail0));
  const Vec tail = v_mul(e, v_mul(s, p));
  return {v_if_greater(x, v_zero(), v_sub(v_set(1.0f), tail), tail), v_mul(e, v_set(dxdw::kPerRoot2Pi))};
}

// ---- One stretch ----

// out[i] = f(a[i], b[i]) for elements of type T; b is read where Two says so.
template <bool Two, typename T, typename F>
DXDW_INLINE void each_of(const Stretch &s, const F &f) {
  typedef typename T::Item Item;
  const Item *a = static_cast<const Item *>(s.a), *b = static_cast<const Item *>(s.b);
  Item *out = static_cast<Item *>(s.out);
  const auto some = [&](int64_t i, int n) {
    v_store_first<T>(out + i, f(v_load_first<T>(a + i, n), Two ? v_load_first<T>(b + i, n) : v_zero()), n);
  };
  int64_t i = 0;
  if (s.stream) {
    // Streamed stores want whole aligned vectors.
    constexpr uintptr_t kBytes = kLanes * sizeof(Item);
    const int64_t odd =
        static_cast<int64_t>((kBytes - reinterpret_cast<uintptr_t>(out) % kBytes) % kBytes / sizeof(Item));
    i = odd < s.count ? odd : s.count;
    if (i > 0) some(0, static_cast<int>(i));
    for (; i + kLanes <= s.count; i += kLanes) T::stream(out + i, f(T::load(a + i), Two ? T::load(b + i) : v_zero()));
  }
  for (; i + kLanes <= s.count; i += kLanes) T::store(out + i, f(T::load(a + i), Two ? T::load(b + i) : v_zero()));
  if (i < s.count) some(i, static_cast<int>(s.count - i));
}

template <bool Two, typename F>
DXDW_INLINE void each(const Stretch &s, const F &f) {
  with_type(s.type, [&](auto t) { each_of<Two, decltype(t)>(s, f); });
}

void add_pairs(const Stretch &s) {
  each<true>(s, [](Vec a, Vec b) { return v_add(a, b); });
}

// Where x is neither above nor below 0 it is a zero or NaN, and then x + 0 is what is wanted.
void relu(const Stretch &s) {
  each<false>(s, [](Vec x, Vec) {
    return v_if_greater(x, v_zero(), x, v_if_greater(v_zero(), x, v_zero(), v_add(x, v_zero())));
  });
}

void relu_backward(const Stretch &s) {
  each<true>(s, [](Vec x, Vec g) { return v_if_greater(x, v_zero(), g, v_zero()); });
}

void gelu(const Stretch &s) {
  each<false>(s, [](Vec x, Vec) { return v_mul(x, v_normal(x).below); });
}

void gelu_backward(const Stretch &s) {
  each<true>(s, [](Vec x, Vec g) {
    const Normal normal = v_normal(x);
    return v_mul(g, v_fma(x, normal.density, normal.below));
  });
}

// number[0] . (a - b)
void scaled_difference(const Stretch &s) {
  const Vec factor = v_set(s.numbers[0]);
  each<true>(s, [=](Vec a, Vec b) { return v_mul(factor, v_sub(a, b)); });
}

// number[2] . (e^(a - number[0]) . number[1])
void scaled_exp(const Stretch &s) {
  const Vec most = v_set(s.numbers[0]), inverse = v_set(s.numbers[1]), factor = v_set(s.numbers[2]);
  each<false>(s, [=](Vec a, Vec) { return v_mul(factor, v_mul(v_exp(v_sub(a, most)), inverse)); });
}

// ---- Reductions of a stretch; their order depends on count alone ----

// The largest; NaN may be passed over.
float largest(const float *a, int64_t count) {
  Vec most = v_set(-__builtin_inff());
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Vec v = v_load(a + i);
    most = v_if_greater(v, most, v, most);
  }
  float lanes[kLanes];
  v_store(lanes, most);
  float result = lanes[0];
  for (int lane = 1; lane < kLanes; ++lane) result = lanes[lane] > result ? lanes[lane] : result;
  for (; i < count; ++i) result = a[i] > result ? a[i] : result;
  return result;
}

// Sum of f(i, n) over vectors from i on with n live lanes, whose others must be 0.
template <typename F>
DXDW_INLINE float sum_of(int64_t count, const F &f) {
  Vec sums[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes)
    for (int c = 0; c < 4; ++c) sums[c] = f(i + c * kLanes, kLanes, sums[c]);
  for (; i + kLanes <= count; i += kLanes) sums[0] = f(i, kLanes, sums[0]);
  if (i < count) sums[1] = f(i, static_cast<int>(count - i), sums[1]);
  return v_sum(v_add(v_add(sums[0], sums[1]), v_add(sums[2], sums[3])));
}

DXDW_INLINE Vec v_first(const float *p, int n) { return n == kLanes ? v_load(p) : v_load_n(p, n); }

// Sum of e^(a - most).
float exp_sum(const float *a, float most, int64_t count) {
  return sum_of(count, [=](int64_t i, int n, Vec sum) {
    Vec e = v_exp(v_sub(v_first(a + i, n), v_set(most)));
    if (n < kLanes) {
      float lanes[kLanes];
      v_store(lanes, e);
      e = v_load_n(lanes, n);
    }
    return v_add(sum, e);
  });
}

// Sum of (a - b)^2.
float squared_distance(const float *a, const float *b, int64_t count) {
  return sum_of(count, [=](int64_t i, int n, Vec sum) {
    const Vec d = v_sub(v_first(a + i, n), v_first(b + i, n));
    return v_fma(d, d, sum);
  });
}

// Sum of a^2.
float squared_sum(const float *a, int64_t count) {
  return sum_of(count, [=](int64_t i, int n, Vec sum) {
    const Vec v = v_first(a + i, n);
    return v_fma(v, v, sum);
  });
}

// ---- Optimizer steps ----

// body(i, n) for vectors of n live lanes from i on.
template <typename Body>
DXDW_INLINE void each_vector(int64_t count, const Body &body) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) body(i, kLanes);
  if (i < count) body(i, static_cast<int>(count - i));
}

DXDW_INLINE void v_put(float *p, Vec v, int n) { n == kLanes ? v_store(p, v) : v_store_n(p, v, n); }

void sgd(const StepStretch &s) {
  const Vec scale = v_set(s.scale), lr = v_set(-s.sgd.lr), momentum = v_set(s.sgd.momentum);
  const Vec decay = v_set(s.sgd.decay);
  const bool nesterov = s.sgd.nesterov;
  each_vector(s.count, [=](int64_t i, int n) {
    const Vec p = v_first(s.p + i, n);
    const Vec d = v_fma(decay, p, v_mul(scale, v_first(s.g + i, n)));
    Vec move = d;
    if (s.state[0] != nullptr) {
      const Vec velocity = v_fma(momentum, v_first(s.state[0] + i, n), d);
      v_put(s.state[0] + i, velocity, n);
      move = nesterov ? v_fma(momentum, velocity, d) : velocity;
    }
    v_put(s.p + i, v_fma(lr, move, p), n);
  });
}

void adamw(const StepStretch &s) {
  const Vec scale = v_set(s.scale), keep = v_set(s.adamw.keep), step = v_set(-s.adamw.step);
  const Vec beta1 = v_set(s.adamw.beta1), rest1 = v_set(s.adamw.rest1);
  const Vec beta2 = v_set(s.adamw.beta2), rest2 = v_set(s.adamw.rest2);
  const Vec inverse_root = v_set(s.adamw.inverse_root), eps = v_set(s.adamw.eps);
  each_vector(s.count, [=](int64_t i, int n) {
    const Vec d = v_mul(scale, v_first(s.g + i, n));
    const Vec m = v_fma(rest1, d, v_mul(beta1, v_first(s.state[0] + i, n)));
    const Vec v = v_fma(v_mul(rest2, d), d, v_mul(beta2, v_first(s.state[1] + i, n)));
    v_put(s.state[0] + i, m, n);
    v_put(s.state[1] + i, v, n);
    const Vec divisor = v_fma(v_sqrt(v), inverse_root, eps);
    v_put(s.p + i, v_fma(step, v_div(m, divisor), v_mul(keep, v_first(s.p + i, n))), n);
  });
}

}  // namespace
