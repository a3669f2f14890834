// exp and the normal distribution on the device, by the same steps as on a CPU with fused multiply-add.
#pragma once

#include "normal_constants.hpp"

namespace dxdw {
namespace cuda {

// 2^n for whole n from -126 to 127.
__device__ __forceinline__ float power_of_two(float n) { return __int_as_float((__float2int_rn(n) + 127) << 23); }

// e^(a + d), for |d| far below 1 and d the part of the exponent that a has no room for; a + d from -115 to 100.
__device__ __forceinline__ float exp_of_sum(float a, float d) {
  const float n = rintf(__fmul_rn(__fadd_rn(a, d), kPerLn2));
  const float r = __fadd_rn(fmaf(n, -kLn2High, a), fmaf(n, -kLn2Low, d));
  float c = kExp4;
  c = fmaf(c, r, kExp3);
  c = fmaf(c, r, kExp2);
  c = fmaf(c, r, kExp1);
  c = fmaf(c, r, kExp0);
  const float value = __fadd_rn(1.0f, fmaf(__fmul_rn(r, r), c, r)), half = rintf(__fmul_rn(n, 0.5f));
  return __fmul_rn(__fmul_rn(value, power_of_two(half)), power_of_two(__fsub_rn(n, half)));
}

// v held between low and high; NaN stays NaN.
__device__ __forceinline__ float between(float v, float low, float high) { return v > high ? high : v < low ? low : v; }

__device__ __forceinline__ float exp_of(float x) { return exp_of_sum(between(x, -110.0f, 100.0f), 0.0f); }

struct Normal {
  float below;    // Phi(x), the integral of phi from -infinity to x
  float density;  // phi(x) = exp(-x^2 / 2) / sqrt(2 pi)
};

// As normal_constants.hpp says. t^2 needs twice the bits of a float: with h, t to 12 bits, h^2 is exact and t^2 = h^2 +
// (t - h)(t + h).
__device__ __forceinline__ Normal normal_of(float x) {
  const float t = fabsf(between(x, -kTailEnd, kTailEnd));
  const float wide = __fmul_rn(t, 4097.0f), h = __fsub_rn(wide, __fsub_rn(wide, t));
  const float e =
      exp_of_sum(__fmul_rn(-0.5f, __fmul_rn(h, h)), __fmul_rn(-0.5f, __fmul_rn(__fsub_rn(t, h), __fadd_rn(t, h))));
  // A reciprocal within 1 unit in the last place, and a step that takes it to half of one.
  const float below_s = fmaf(t, kTailScale, 1.0f), guess = __fdividef(1.0f, below_s);
  const float s = fmaf(fmaf(-below_s, guess, 1.0f), guess, guess);
  const float u = fmaf(s, 2.0f, -1.0f);
  float p = kTail9;
  p = fmaf(p, u, kTail8);
  p = fmaf(p, u, kTail7);
  p = fmaf(p, u, kTail6);
  p = fmaf(p, u, kTail5);
  p = fmaf(p, u, kTail4);
  p = fmaf(p, u, kTail3);
  p = fmaf(p, u, kTail2);
  p = fmaf(p, u, kTail1);
  p = fmaf(p, u, kTail0);
  const float tail = __fmul_rn(e, __fmul_rn(s, p));
  return {x > 0.0f ? __fsub_rn(1.0f, tail) : tail, __fmul_rn(e, kPerRoot2Pi)};
}

}  // namespace cuda
}  // namespace dxdw
