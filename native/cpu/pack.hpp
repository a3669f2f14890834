// Packing: lines of any type and strides into panels of W lines, [panel][depth][W], as floats or as pairs of bfloat16.
// Reads each element once and never outside the lines; writes whole panels, zeros where lines end. No arithmetic but
// widening.
#pragma once

#include "kernels.hpp"
#include "simd.hpp"

namespace {

using dxdw::DType;
using dxdw::cpu::Lines;

// So many panels are written side by side where lines stand side by side in memory: long runs are read, and few streams
// written, for panels are often a multiple of 4 KiB apart and so meet in one set of the first-level cache.
constexpr int kNarrowAtOnce = 4, kWideAtOnce = 2;

constexpr int least(int64_t a, int b) { return a < b ? static_cast<int>(a) : b; }

// Lines side by side in memory: each step of depth is a run of `count` items of W-wide panels, `steps` steps in all.
// load(step, line, n) gives the first n of kLanes lines. What a vector holds beyond the panel is overwritten by the next
// step, so only the last step must keep within.
template <int W, bool Last, typename Load>
DXDW_INLINE void pack_run(int64_t k, int64_t line, int count, float *to, const Load &load) {
#pragma GCC unroll 4
  for (int i = 0; i < W; i += kLanes) {
    const int wanted = least(W - i, kLanes), there = least(count - i, wanted);
    const Vec v = there <= 0 ? v_zero() : load(k, line + i, there);
    wanted == kLanes || !Last ? v_store(to + i, v) : v_store_n(to + i, v, wanted);
  }
}

template <int W, bool Last, typename Load>
DXDW_INLINE void pack_step(int64_t k, int64_t from, int64_t end, int64_t steps, float *out, const Load &load) {
  int64_t line = from;
  float *to = out + from * steps + k * W;
  // Whole panels apart, so that the compiler knows their width.
  for (; line + W <= end; line += W, to += W * steps) pack_run<W, Last>(k, line, W, to, load);
  if (line < end) pack_run<W, Last>(k, line, static_cast<int>(end - line), to, load);
}

template <int W, typename Load>
DXDW_INLINE void pack_runs(int64_t count, int64_t steps, float *out, const Load &load) {
  constexpr int kAtOnce = W > kLanes ? kWideAtOnce : kNarrowAtOnce;
  for (int64_t from = 0; from < count; from += kAtOnce * W) {
    const int64_t end = count - from < kAtOnce * W ? count : from + kAtOnce * W;
    for (int64_t k = 0; k + 1 < steps; ++k) pack_step<W, false>(k, from, end, steps, out, load);
    if (steps > 0) pack_step<W, true>(steps - 1, from, end, steps, out, load);
  }
}

// Depth side by side in each line, or every second element: squares of kLanes x kLanes are turned in registers.
// load(line, step, n) gives n <= kLanes steps of a line.
template <int W, typename Load>
DXDW_INLINE void pack_turned(int64_t count, int64_t steps, float *out, const Load &load) {
  for (int64_t line = 0; line < count; line += W, out += W * steps)
    for (int i = 0; i < W; i += kLanes) {
      const int wanted = W - i < kLanes ? W - i : kLanes;
      for (int64_t k = 0; k < steps; k += kLanes) {
        const int there = least(steps - k, kLanes);
        Vec square[kLanes];
#pragma GCC unroll 16
        for (int j = 0; j < kLanes; ++j)
          square[j] = j < wanted && line + i + j < count ? load(line + i + j, k, there) : v_zero();
        v_transpose(square);
        float *to = out + k * W + i;
        for (int j = 0; j < there; ++j)
          wanted == kLanes ? v_store(to + j * W, square[j]) : v_store_n(to + j * W, square[j], wanted);
      }
    }
}

// Any strides, one by one: get(line, step). near: lines stand closer together than steps.
template <int W, typename Get>
DXDW_INLINE void pack_any(int64_t count, int64_t steps, bool near, float *out, const Get &get) {
  const int64_t group = near ? kNarrowAtOnce * W : W;
  for (int64_t from = 0; from < count; from += group)
    for (int64_t k = 0; k < steps; ++k)
      for (int64_t line = from; line < from + group && line < count; line += W) {
        float *const to = out + line * steps + k * W;
        const int there = least(count - line, W);
        for (int i = 0; i < there; ++i) to[i] = get(line + i, k);
        for (int i = there; i < W; ++i) to[i] = 0.0f;
      }
}

DXDW_INLINE bool lines_are_near(const Lines &lines) {
  const auto magnitude = [](int64_t stride) { return stride < 0 ? -stride : stride; };
  return magnitude(lines.line_stride) < magnitude(lines.depth_stride);
}

template <int W, typename T>
void pack_typed(const Lines &lines, float *out) {
  const typename T::Item *const p = items<T>(lines.data);
  const int64_t line_stride = lines.line_stride, depth_stride = lines.depth_stride;
  if (line_stride == 1)
    return pack_runs<W>(lines.count, lines.depth, out, [=](int64_t k, int64_t line, int n) {
      return v_load_first<T>(p + k * depth_stride + line, n);
    });
  if (depth_stride == 1)
    return pack_turned<W>(lines.count, lines.depth, out, [=](int64_t line, int64_t k, int n) {
      return v_load_first<T>(p + line * line_stride + k, n);
    });
  if (line_stride == 2)
    return pack_runs<W>(lines.count, lines.depth, out, [=](int64_t k, int64_t line, int n) {
      return v_load_second<T>(p + k * depth_stride + 2 * line, n);
    });
  if (depth_stride == 2)
    return pack_turned<W>(lines.count, lines.depth, out, [=](int64_t line, int64_t k, int n) {
      return v_load_second<T>(p + line * line_stride + 2 * k, n);
    });
  pack_any<W>(lines.count, lines.depth, lines_are_near(lines), out,
              [=](int64_t line, int64_t k) { return T::get(p + line * line_stride + k * depth_stride); });
}

template <int W>
void pack(const Lines &lines, float *out) {
  switch (lines.type) {
    case DType::f32: return pack_typed<W, F32>(lines, out);
    case DType::f16: return pack_typed<W, F16>(lines, out);
    default: return pack_typed<W, BF16>(lines, out);
  }
}

#if defined(DXDW_BF16_PAIRS)

// The first n pairs of a line with an odd last item, which zero follows.
DXDW_INLINE Vec odd_pairs(const uint16_t *p, int64_t stride, int n) {
  uint16_t near[2 * kLanes] = {};
  for (int i = 0; i < 2 * n - 1; ++i) near[i] = p[i * stride];
  Vec pairs;
  memcpy(&pairs, near, sizeof pairs);
  return pairs;
}

template <int W>
void pack_pairs(const Lines &lines, float *out) {
  const int64_t steps = (lines.depth + 1) / 2, whole = lines.depth / 2;
  const int64_t line_stride = lines.line_stride, depth_stride = lines.depth_stride;
  const uint16_t *const p = items<BF16>(lines.data);
  static const uint16_t zeros[2 * kLanes] = {};
  if (line_stride == 1)
    return pack_runs<W>(lines.count, steps, out, [=](int64_t k, int64_t line, int n) {
      const uint16_t *const low = p + 2 * k * depth_stride + line;
      return v_pairs(low, k < whole ? low + depth_stride : zeros, n);
    });
  // Two neighbours are one 32-bit item that moves as it is.
  if (depth_stride == 1)
    return pack_turned<W>(lines.count, steps, out, [=](int64_t line, int64_t k, int n) {
      const uint16_t *const from = p + line * line_stride + 2 * k;
      return k + n > whole ? odd_pairs(from, 1, n) : v_load_n(reinterpret_cast<const float *>(from), n);
    });
  if (line_stride == 2)
    return pack_runs<W>(lines.count, steps, out, [=](int64_t k, int64_t line, int n) {
      const uint16_t *const low = p + 2 * k * depth_stride + 2 * line;
      return v_pairs_second(low, k < whole ? low + depth_stride : zeros, n);
    });
  if (depth_stride == 2)
    return pack_turned<W>(lines.count, steps, out, [=](int64_t line, int64_t k, int n) {
      const uint16_t *const from = p + line * line_stride + 4 * k;
      return k + n > whole ? odd_pairs(from, 2, n) : v_line_pairs_second(from, n);
    });
  pack_any<W>(lines.count, steps, lines_are_near(lines), out, [=](int64_t line, int64_t k) {
    const uint16_t *const low = p + line * line_stride + 2 * k * depth_stride;
    const uint32_t high = k < whole ? low[depth_stride] : 0;
    return float_of_bits(*low | high << 16);
  });
}

#endif

}  // namespace
