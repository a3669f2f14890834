// Micro-kernels: C[rows, cols] = A[rows, depth] . B[depth, cols], or that added to what was there, all accumulators in
// registers. Each element is one chain of multiply-adds in rising order of depth that starts at +0.0.
#pragma once

#include <type_traits>

#include "kernels.hpp"
#include "simd.hpp"

namespace {

using dxdw::DType;
using dxdw::cpu::Tile;

// What one step of depth does: a float, or a pair of bfloat16. step_at has A's item in memory. load reads V vectors of a
// row of B, of the last one `last` lanes where B is no panel; b_depth is the stride of its rows. finish puts columns in
// the order of memory.
struct Single {
  static constexpr bool kNormal = false;
  DXDW_INLINE Vec step(Vec a, Vec b, Vec acc) { return v_fma(a, b, acc); }
  DXDW_INLINE Vec step_at(const float *a, Vec b, Vec acc) { return v_fma(v_set(load_unaligned(a)), b, acc); }
  template <bool Panel, int V>
  DXDW_INLINE void load(const float *b, int64_t, int last, Vec (&row)[V]) {
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v)
      row[v] = Panel || v < V - 1 || last == kLanes ? v_load(b + v * kLanes) : v_load_n(b + v * kLanes, last);
  }
  // Asks for that row.
  template <int V>
  DXDW_INLINE void ask(const char *b, int64_t) {
    for (int v = 0; v < V; ++v) __builtin_prefetch(b + v * kLanes * static_cast<int>(sizeof(float)), 0, 3);
  }
  template <int R, int V>
  DXDW_INLINE void finish(Vec (&)[R][V]) {}
};

#if defined(DXDW_BF16_PAIRS)
struct Pairs : Single {
  static constexpr bool kNormal = true;
  DXDW_INLINE Vec step(Vec a, Vec b, Vec acc) { return v_dot_pairs(a, b, acc); }
  DXDW_INLINE Vec step_at(const float *a, Vec b, Vec acc) { return v_dot_pair_at(a, b, acc); }
};

// B as it lies: two rows of bfloat16 make a row of pairs.
struct PairRows : Pairs {
  template <bool, int V>
  DXDW_INLINE void load(const float *b, int64_t b_depth, int last, Vec (&row)[V]) {
    const uint16_t *low = reinterpret_cast<const uint16_t *>(b), *high = low + b_depth;
    if constexpr (V == 1)
      row[0] = v_pairs(low, high, last);
    else
      v_pairs_mixed(low, high, kLanes + last, row);
  }
  template <int V>
  DXDW_INLINE void ask(const char *b, int64_t b_depth) {
    __builtin_prefetch(b, 0, 3);
    __builtin_prefetch(b + b_depth * static_cast<int>(sizeof(uint16_t)), 0, 3);
  }
  template <int R, int V>
  DXDW_INLINE void finish(Vec (&acc)[R][V]) {
    if constexpr (V == 2)
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) v_unmix(acc[r]);
  }
};
#endif

// R rows of A anywhere, reached from as few pointers as loads can reach them all from: one for each three.
template <int R>
struct AnyRows {
  static constexpr int kReach = 3, kCount = (R + kReach - 1) / kReach;
  const char *pointers[kCount];
  int64_t stride, step;  // bytes from row to row, from step to step

  explicit AnyRows(const Tile &t)
      : stride(t.a_line * static_cast<int>(sizeof(float))), step(t.a_depth * static_cast<int>(sizeof(float))) {
    for (int i = 0; i < kCount; ++i) {
      pointers[i] = reinterpret_cast<const char *>(t.a) + i * kReach * stride;
      // The compiler would otherwise derive each row's offset, and run out of registers for them.
      asm("" : "+r"(pointers[i]));
    }
  }
  __attribute__((always_inline)) const float *row(int r) const {
    return reinterpret_cast<const float *>(pointers[r / kReach] + r % kReach * stride);
  }
  __attribute__((always_inline)) void ask() const {}
  __attribute__((always_inline)) void advance() {
    for (int i = 0; i < kCount; ++i) pointers[i] += step;
  }
};

// How many steps ahead operands in place are asked for.
constexpr int kStepsAhead = 16;

// R rows of A side by side.
template <int R>
struct NearRows {
  const char *pointer;
  int64_t step;

  explicit NearRows(const Tile &t)
      : pointer(reinterpret_cast<const char *>(t.a)), step(t.a_depth * static_cast<int>(sizeof(float))) {}
  __attribute__((always_inline)) const float *row(int r) const { return reinterpret_cast<const float *>(pointer) + r; }
  __attribute__((always_inline)) void ask() const {
    __builtin_prefetch(pointer + kStepsAhead * step, 0, 3);
    if (R > 1) __builtin_prefetch(pointer + kStepsAhead * step + (R - 1) * static_cast<int>(sizeof(float)), 0, 3);
  }
  __attribute__((always_inline)) void advance() { pointer += step; }
};

// R rows of a panel.
template <int R>
struct PanelRows {
  const float *pointer;

  explicit PanelRows(const Tile &t) : pointer(t.a) {}
  __attribute__((always_inline)) const float *row(int r) const { return pointer + r; }
  __attribute__((always_inline)) void ask() const {}
  __attribute__((always_inline)) void advance() { pointer += kTileRows; }
};

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

// R rows of V vectors, the last of which has `last` live lanes. Panel: B is one.
template <typename Op, template <int> typename A, bool Panel, int R, int V>
__attribute__((noinline)) void micro(const Tile &t, int last) {
  A<R> a(t);
  const int64_t b_depth = Panel ? kTileCols : t.b_depth;
  const float *b = t.b;
  // Unrolled whole, or the accumulators would live in memory.
  Vec acc[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) acc[r][v] = v_zero();
  const char *ahead = Panel ? t.ahead : reinterpret_cast<const char *>(b + kStepsAhead * b_depth);
  const int64_t ahead_step = Panel ? t.ahead_step : b_depth * static_cast<int>(sizeof(float));
  for (int64_t k = 0; k < t.depth; ++k, a.advance(), b += b_depth, ahead += ahead_step) {
    if (!Panel) {
      Op::template ask<V>(ahead, b_depth);
      a.ask();
    } else if (std::is_same_v<A<R>, PanelRows<R>>) {
      // Both operands stand as the first-level cache likes them: the second level is enough.
      __builtin_prefetch(ahead, 0, 2);
    } else {
      __builtin_prefetch(ahead, 0, 3);
    }
    Vec row[V];
    Op::template load<Panel>(b, b_depth, last, row);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      if constexpr (V == 1) {
        acc[r][0] = Op::step_at(a.row(r), row[0], acc[r][0]);
        continue;
      }
      const Vec x = v_set(load_unaligned(a.row(r)));
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) acc[r][v] = Op::step(x, row[v], acc[r][v]);
    }
  }
  Op::finish(acc);
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

// micro for 1 .. kTileRows rows as a table.
template <typename Op, template <int> typename A, bool Panel, int V>
struct ByRows {
  Micro micros[kTileRows];
  constexpr ByRows() : micros() { fill<kTileRows>(); }
  template <int R>
  constexpr void fill() {
    micros[R - 1] = micro<Op, A, Panel, R, V>;
    if constexpr (R > 1) fill<R - 1>();
  }
};

// Asks for a tile of C, to write it: for two lines of the cache in each row, or for one.
template <bool Two>
DXDW_INLINE void ask_for_c(const char *c, int32_t rows, int64_t stride) {
  for (int32_t r = 0; r < rows; ++r, c += stride) {
    __builtin_prefetch(c, 1, 3);
    if (Two) __builtin_prefetch(c + 64, 1, 3);
  }
}

static_assert(kTileVectors == 2, "the dispatch below knows one and two vectors");

template <typename Op, template <int> typename A, bool Panel>
void tile_of(const Tile &first) {
  static constexpr ByRows<Op, A, Panel, 1> one;
  static constexpr ByRows<Op, A, Panel, 2> two;
  const bool wide = first.cols > kLanes;
  const Micro micro = (wide ? two.micros : one.micros)[first.rows - 1];
  const int last = wide ? first.cols - kLanes : first.cols;
  if (first.count == 1) return micro(first, last);
  Tile t = first;
  const int64_t item = dxdw::size_of(t.c_type), c_stride = t.c_stride * item, c_below = t.rows * c_stride;
  const bool two_lines = t.cols * item > 64;
  for (int32_t left = t.count; left > 0; --left) {
    if (!t.stream && left > 1) (two_lines ? ask_for_c<true> : ask_for_c<false>)(t.c + c_below, t.rows, c_stride);
    micro(t, last);
    t.a += t.a_below;
    t.c += c_below;
    if (t.from != nullptr) t.from += t.rows * t.from_stride;
    t.ahead += t.depth * t.ahead_step;
  }
}

}  // namespace
