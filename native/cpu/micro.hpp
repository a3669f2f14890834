// Micro-kernels: C[rows, cols] = A[rows, depth] . B[depth, cols], or that added to what was there, all accumulators in
// registers. Each element is one chain of multiply-adds in rising order of depth that starts at +0.0.
#pragma once

#include "kernels.hpp"
#include "simd.hpp"

namespace {

using dxdw::DType;
using dxdw::cpu::Tile;

// What one step of depth does: a float, or a pair of bfloat16.
struct Single {
  static constexpr bool kNormal = false;
  DXDW_INLINE Vec step(Vec a, Vec b, Vec acc) { return v_fma(a, b, acc); }
};

#if defined(DXDW_BF16_PAIRS)
struct Pairs {
  static constexpr bool kNormal = true;
  DXDW_INLINE Vec step(Vec a, Vec b, Vec acc) { return v_dot_pairs(a, b, acc); }
};
#endif

template <int R, int V>
DXDW_INLINE void add_from(Vec (&acc)[R][V], const float *from, int64_t stride, int last) {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) {
      const float *old = from + r * stride + v * kLanes;
      acc[r][v] = v_add(v < V - 1 || last == kLanes ? v_load(old) : v_load_n(old, last), acc[r][v]);
    }
}

template <typename T, int R, int V>
DXDW_INLINE void put(const Vec (&acc)[R][V], const Tile &t, int last) {
  typename T::Item *c = reinterpret_cast<typename T::Item *>(t.c);
  if (t.stream && last == kLanes) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) T::stream(c + r * t.c_stride + v * kLanes, acc[r][v]);
  } else if (last == kLanes) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) T::store(c + r * t.c_stride + v * kLanes, acc[r][v]);
  } else {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < V - 1; ++v) T::store(c + r * t.c_stride + v * kLanes, acc[r][v]);
      v_store_first<T>(c + r * t.c_stride + (V - 1) * kLanes, acc[r][V - 1], last);
    }
  }
}

// Whole rows of two vectors without subnormals to bfloat16.
template <int R>
DXDW_INLINE void put_normal(const Vec (&acc)[R][2], const Tile &t) {
#if defined(DXDW_LEVEL_AVX512BF16)
  uint16_t *c = reinterpret_cast<uint16_t *>(t.c);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) v_to_bf16_normal(c + r * t.c_stride, acc[r][0], acc[r][1], t.stream);
#else
  put<BF16, R, 2>(acc, t, kLanes);
#endif
}

// R rows of V vectors, the last of which has `last` live lanes. Packed: strides of A and B are the panel's. Masked: B
// is not padded.
template <typename Op, int R, int V, bool Packed, bool Masked>
__attribute__((noinline)) void micro(const Tile &t, int last) {
  const int64_t a_line = Packed ? 1 : t.a_line, a_depth = Packed ? kTileRows : t.a_depth;
  const int64_t b_depth = Packed ? kTileCols : t.b_depth;
  const float *a = t.a, *b = t.b;
  // Unrolled whole, or the accumulators would live in memory.
  Vec acc[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) acc[r][v] = v_zero();
  const char *ahead = t.ahead;
  for (int64_t k = 0; k < t.depth; ++k, a += a_depth, b += b_depth) {
    if (!Packed) {
      __builtin_prefetch(ahead, 0, 3);
      ahead += t.ahead_step;
    }
    Vec row[V];
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) row[v] = Masked && v == V - 1 ? v_load_n(b + v * kLanes, last) : v_load(b + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Vec x = v_set(load_unaligned(a + r * a_line));
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) acc[r][v] = Op::step(x, row[v], acc[r][v]);
    }
  }
  // What comes out of the pair unit is never subnormal.
  if constexpr (Op::kNormal && V == 2)
    if (t.from == nullptr && last == kLanes && t.c_type == DType::bf16) return put_normal<R>(acc, t);
  if (t.from != nullptr) add_from<R, V>(acc, t.from, t.from_stride, last);
  switch (t.c_type) {
    case DType::f32: return put<F32, R, V>(acc, t, last);
    case DType::f16: return put<F16, R, V>(acc, t, last);
    default: return put<BF16, R, V>(acc, t, last);
  }
}

typedef void (*Micro)(const Tile &, int);

// micro<Op, 1 .. kTileRows, V> as a table.
template <typename Op, int V, bool Packed, bool Masked>
struct Rows {
  Micro by_rows[kTileRows];
  constexpr Rows() : by_rows() { fill<kTileRows>(); }
  template <int R>
  constexpr void fill() {
    by_rows[R - 1] = micro<Op, R, V, Packed, Masked>;
    if constexpr (R > 1) fill<R - 1>();
  }
};

static_assert(kTileVectors == 2, "the dispatch below knows one and two vectors");

template <typename Op, bool Packed>
void tile_of(const Tile &t) {
  const int vectors = (t.cols + kLanes - 1) / kLanes;
  const int last = t.cols - (vectors - 1) * kLanes;
  if (Packed || last == kLanes) {
    static constexpr Rows<Op, 1, Packed, false> one;
    static constexpr Rows<Op, 2, Packed, false> two;
    (vectors == 1 ? one.by_rows : two.by_rows)[t.rows - 1](t, last);
  } else {
    static constexpr Rows<Op, 1, Packed, true> one;
    static constexpr Rows<Op, 2, Packed, true> two;
    (vectors == 1 ? one.by_rows : two.by_rows)[t.rows - 1](t, last);
  }
}

}  // namespace
