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

// Depth contiguous in each line: squares of kLanes x kLanes are turned in registers.
template <int W, typename T>
void pack_turned(const char *p, int64_t line_bytes, int count, int64_t depth, float *out) {
  for (int i = 0; i < W; i += kLanes) {
    const int wanted = W - i < kLanes ? W - i : kLanes;
    for (int64_t k = 0; k < depth; k += kLanes) {
      const int steps = depth - k < kLanes ? static_cast<int>(depth - k) : kLanes;
      Vec square[kLanes];
#pragma GCC unroll 16
      for (int j = 0; j < kLanes; ++j)
        square[j] =
            j < wanted && i + j < count ? v_load_first<T>(items<T>(p + (i + j) * line_bytes) + k, steps) : v_zero();
      v_transpose(square);
      float *to = out + k * W + i;
      for (int j = 0; j < steps; ++j)
        wanted == kLanes ? v_store(to + j * W, square[j]) : v_store_n(to + j * W, square[j], wanted);
    }
  }
}

template <int W, typename T>
void pack_any(const typename T::Item *p, int64_t line_stride, int64_t depth_stride, int count, int64_t depth,
              float *out) {
  for (int64_t k = 0; k < depth; ++k, out += W) {
    for (int i = 0; i < count; ++i) out[i] = T::get(p + i * line_stride + k * depth_stride);
    for (int i = count; i < W; ++i) out[i] = 0.0f;
  }
}

template <int W, typename T>
void pack_typed(const Lines &lines, float *out) {
  typedef typename T::Item Item;
  const Item *p = items<T>(lines.data);
  if (lines.line_stride == 1)
    return pack_runs<W>(lines.count, lines.depth, out, [&](int64_t k, int64_t line, int n) {
      return v_load_first<T>(p + k * lines.depth_stride + line, n);
    });
  for (int64_t line = 0; line < lines.count; line += W, out += W * lines.depth, p += W * lines.line_stride) {
    const int count = least(lines.count - line, W);
    if (lines.depth_stride == 1)
      pack_turned<W, T>(reinterpret_cast<const char *>(p), lines.line_stride * static_cast<int64_t>(sizeof(Item)),
                        count, lines.depth, out);
    else
      pack_any<W, T>(p, lines.line_stride, lines.depth_stride, count, lines.depth, out);
  }
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

DXDW_INLINE float pair(uint16_t low, uint16_t high) {
  return float_of_bits(static_cast<uint32_t>(low) | static_cast<uint32_t>(high) << 16);
}

template <int W>
void pack_pair_any(const uint16_t *p, int64_t line_stride, int64_t depth_stride, int count, int64_t depth, float *out) {
  for (int64_t k = 0; k < depth; k += 2, out += W) {
    for (int i = 0; i < count; ++i) {
      const uint16_t *low = p + i * line_stride + k * depth_stride;
      out[i] = pair(*low, k + 1 < depth ? low[depth_stride] : 0);
    }
    for (int i = count; i < W; ++i) out[i] = 0.0f;
  }
}

template <int W>
void pack_pairs(const Lines &lines, float *out) {
  const int64_t pairs = (lines.depth + 1) / 2, even = lines.depth / 2 * 2;
  const uint16_t *p = items<BF16>(lines.data);
  if (lines.line_stride == 1) {
    static const uint16_t zeros[kLanes] = {};
    return pack_runs<W>(lines.count, pairs, out, [&](int64_t k, int64_t line, int n) {
      const uint16_t *low = p + 2 * k * lines.depth_stride + line;
      return v_pairs(low, 2 * k < even ? low + lines.depth_stride : zeros, n);
    });
  }
  for (int64_t line = 0; line < lines.count; line += W, out += W * pairs, p += W * lines.line_stride) {
    const int count = least(lines.count - line, W);
    if (lines.depth_stride == 1) {
      // Two neighbours are one 32-bit item that is moved as it is; an odd last one follows alone.
      pack_turned<W, F32>(reinterpret_cast<const char *>(p), lines.line_stride * 2, count, even / 2, out);
      pack_pair_any<W>(p + even, lines.line_stride, 1, count, lines.depth - even, out + W * (even / 2));
    } else {
      pack_pair_any<W>(p, lines.line_stride, lines.depth_stride, count, lines.depth, out);
    }
  }
}

#endif

}  // namespace
