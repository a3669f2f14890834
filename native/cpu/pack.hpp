// Packing: lines of any type and strides into panels of W lines, [panel][depth][W], as floats or as pairs of bfloat16.
// Reads each element once and never outside the lines; writes whole panels, zeros where lines end. No arithmetic but
// widening.
#pragma once

#include "kernels.hpp"
#include "simd.hpp"

namespace {

using dxdw::DType;
using dxdw::cpu::Lines;

// Lines side by side in memory: each depth step is a run of `count` elements.
template <int W, typename T>
void pack_runs(const typename T::Item *p, int64_t depth_stride, int count, int64_t depth, float *out) {
  for (int64_t k = 0; k < depth; ++k, p += depth_stride, out += W)
    for (int i = 0; i < W; i += kLanes) {
      const int wanted = W - i < kLanes ? W - i : kLanes;
      const int there = count - i < 0 ? 0 : count - i < wanted ? count - i : wanted;
      const Vec v = there == 0 ? v_zero() : v_load_first<T>(p + i, there);
      wanted == kLanes ? v_store(out + i, v) : v_store_n(out + i, v, wanted);
    }
}

// Depth contiguous in each line: squares of kLanes x kLanes are turned in registers.
template <int W, typename T>
void pack_turned(const typename T::Item *p, int64_t line_stride, int count, int64_t depth, float *out) {
  for (int i = 0; i < W; i += kLanes) {
    const int wanted = W - i < kLanes ? W - i : kLanes;
    for (int64_t k = 0; k < depth; k += kLanes) {
      const int steps = depth - k < kLanes ? static_cast<int>(depth - k) : kLanes;
      Vec square[kLanes];
#pragma GCC unroll 16
      for (int j = 0; j < kLanes; ++j)
        square[j] = j < wanted && i + j < count ? v_load_first<T>(p + (i + j) * line_stride + k, steps) : v_zero();
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
  for (int64_t line = 0; line < lines.count; line += W, out += W * lines.depth) {
    const Item *p = reinterpret_cast<const Item *>(lines.data) + line * lines.line_stride;
    const int count = lines.count - line < W ? static_cast<int>(lines.count - line) : W;
    if (lines.line_stride == 1)
      pack_runs<W, T>(p, lines.depth_stride, count, lines.depth, out);
    else if (lines.depth_stride == 1)
      pack_turned<W, T>(p, lines.line_stride, count, lines.depth, out);
    else
      pack_any<W, T>(p, lines.line_stride, lines.depth_stride, count, lines.depth, out);
  }
}

template <int W>
void pack(const Lines &lines, float *out) {
  switch (lines.type) {
    case DType::f32: return pack_typed<W, F32>(lines, out);
    case DType::f16: return pack_typed<W, F16>(lines, out);
    case DType::bf16: return pack_typed<W, BF16>(lines, out);
  }
}

#if defined(DXDW_BF16_PAIRS)

DXDW_INLINE float pair(uint16_t low, uint16_t high) {
  return float_of_bits(static_cast<uint32_t>(low) | static_cast<uint32_t>(high) << 16);
}

template <int W>
void pack_pair_runs(const uint16_t *p, int64_t depth_stride, int count, int64_t depth, float *out) {
  static const uint16_t zeros[W + kLanes] = {};
  for (int64_t k = 0; k < depth; k += 2, out += W) {
    const uint16_t *low = p + k * depth_stride;
    const uint16_t *high = k + 1 < depth ? low + depth_stride : zeros;
    for (int i = 0; i < W; i += kLanes) {
      const int wanted = W - i < kLanes ? W - i : kLanes;
      const int there = count - i < 0 ? 0 : count - i < wanted ? count - i : wanted;
      const Vec v = v_pairs(low + i, high + i, there);
      wanted == kLanes ? v_store(out + i, v) : v_store_n(out + i, v, wanted);
    }
  }
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
  const int64_t pairs = (lines.depth + 1) / 2;
  for (int64_t line = 0; line < lines.count; line += W, out += W * pairs) {
    const uint16_t *p = reinterpret_cast<const uint16_t *>(lines.data) + line * lines.line_stride;
    const int count = lines.count - line < W ? static_cast<int>(lines.count - line) : W;
    const int64_t even = lines.depth / 2 * 2;
    if (lines.line_stride == 1) {
      pack_pair_runs<W>(p, lines.depth_stride, count, lines.depth, out);
    } else if (lines.depth_stride == 1 && lines.line_stride % 2 == 0) {
      // Two neighbours are one 32-bit item that is moved as it is; an odd last one follows alone.
      pack_turned<W, F32>(reinterpret_cast<const float *>(p), lines.line_stride / 2, count, even / 2, out);
      pack_pair_any<W>(p + even, lines.line_stride, 1, count, lines.depth - even, out + W * (even / 2));
    } else {
      pack_pair_any<W>(p, lines.line_stride, lines.depth_stride, count, lines.depth, out);
    }
  }
}

#endif

}  // namespace
