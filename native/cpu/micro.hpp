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
// row of B, of the last one `last` lanes where B is no panel; b_depth is the stride of its rows. finish puts a row's
// columns in the order of memory. kNormal: sums are never subnormal, and the chip makes such bfloat16 at once.
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
  template <int V>
  DXDW_INLINE void finish(Vec (&)[V]) {}
};

#if defined(DXDW_BF16_PAIRS)
struct Pairs : Single {
#if defined(DXDW_LEVEL_AVX512BF16)
  static constexpr bool kNormal = true;
#endif
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
  template <int V>
  DXDW_INLINE void finish(Vec (&acc)[V]) {
    if constexpr (V == 2) v_unmix(acc);
  }
};
#endif

// Each kind of A has row(r), row r's item of the present step, and row_after(r), that of the following one.

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
  __attribute__((always_inline)) const float *row_after(int r) const {
    const char *after = pointers[r / kReach] + step;
    // Computed where it is used, for the same reason.
    asm("" : "+r"(after));
    return reinterpret_cast<const float *>(after + r % kReach * stride);
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
  __attribute__((always_inline)) const float *row_after(int r) const {
    return reinterpret_cast<const float *>(pointer + step) + r;
  }
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
  __attribute__((always_inline)) const float *row_after(int r) const { return pointer + kTileRows + r; }
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

// Asks for row r of the next tile of C.
template <int V>
DXDW_INLINE void ask_for_next_c(const Tile &t, int r) {
  if (t.next_c == nullptr) return;
  const int64_t item = dxdw::size_of(t.c_type);
  const char *const row = t.next_c + r * t.c_stride * item;
  for (int64_t at = 0; at < V * kLanes * item; at += 64) __builtin_prefetch(row + at, 1, 3);
}

// A step of one row, whose item of A is at x.
template <typename Op, int V>
DXDW_INLINE void step_row(const float *x, const Vec (&row)[V], Vec (&acc)[V]) {
  if constexpr (V == 1) {
    acc[0] = Op::step_at(x, row[0], acc[0]);
  } else {
    const Vec item = v_set(load_unaligned(x));
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) acc[v] = Op::step(item, row[v], acc[v]);
  }
}

// The last two steps, row by row, and put(r) behind those of row r. A vector's store takes its unit as long as two
// multiply-adds take theirs: in a burst behind all steps stores fill the scheduler and so keep the multiply-adds of the
// next tile from it, while two stores for four multiply-adds cost no time.
template <typename Op, bool Panel, typename A, int R, int V, typename Put>
DXDW_INLINE void last_steps(const A &a, const float *b, int64_t b_depth, Vec (&acc)[R][V], const Tile &t,
                            const Put &put) {
  Vec row[V], row_after[V];
  Op::template load<Panel>(b, b_depth, kLanes, row);
  Op::template load<Panel>(b + b_depth, b_depth, kLanes, row_after);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    step_row<Op>(a.row(r), row, acc[r]);
    step_row<Op>(a.row_after(r), row_after, acc[r]);
    Op::finish(acc[r]);
    put(r);
    ask_for_next_c<V>(t, r);
  }
}

// last_steps where vectors are whole, with what belongs behind them.
template <typename Op, bool Panel, typename A, int R, int V>
DXDW_INLINE void end_by_row(const A &a, const float *b, int64_t b_depth, Vec (&acc)[R][V], const Tile &t) {
  if (t.c_type == DType::f32) {
    float *const c = reinterpret_cast<float *>(t.c);
    const auto put = [&](int r) __attribute__((always_inline)) {
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) v_store(c + r * t.c_stride + v * kLanes, acc[r][v]);
    };
    const auto stream = [&](int r) __attribute__((always_inline)) {
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) v_stream(c + r * t.c_stride + v * kLanes, acc[r][v]);
    };
    const auto add_and_put = [&](int r) __attribute__((always_inline)) {
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) acc[r][v] = v_add(v_load(t.from + r * t.from_stride + v * kLanes), acc[r][v]);
      put(r);
    };
    if (t.stream) return last_steps<Op, Panel>(a, b, b_depth, acc, t, stream);
    if (t.from == nullptr) return last_steps<Op, Panel>(a, b, b_depth, acc, t, put);
    return last_steps<Op, Panel>(a, b, b_depth, acc, t, add_and_put);
  }
#if defined(DXDW_LEVEL_AVX512BF16)
  if constexpr (V % 2 == 0) {
    uint16_t *const c = reinterpret_cast<uint16_t *>(t.c);
    const auto put = [&](int r) __attribute__((always_inline)) {
#pragma GCC unroll 16
      for (int v = 0; v < V; v += 2) v_to_bf16_normal(c + r * t.c_stride + v * kLanes, acc[r][v], acc[r][v + 1], false);
    };
    const auto stream = [&](int r) __attribute__((always_inline)) {
#pragma GCC unroll 16
      for (int v = 0; v < V; v += 2) v_to_bf16_normal(c + r * t.c_stride + v * kLanes, acc[r][v], acc[r][v + 1], true);
    };
    if (t.stream) return last_steps<Op, Panel>(a, b, b_depth, acc, t, stream);
    return last_steps<Op, Panel>(a, b, b_depth, acc, t, put);
  }
#endif
}

// May and should a tile end so? Shorter vectors than 64 bytes are stored as fast as multiplied, and leave fewer
// registers.
template <typename Op, int V>
DXDW_INLINE bool ends_by_row(const Tile &t, int last) {
  if (sizeof(Vec) < 64 || last < kLanes || t.depth < 2) return false;
  return t.c_type == DType::f32 || (Op::kNormal && V % 2 == 0 && t.c_type == DType::bf16 && t.from == nullptr);
}

// R rows of V vectors, the last of which has `last` live lanes. Columns: of a panel of B, or 0 where B is in place.
template <typename Op, template <int> typename A, int Columns, int R, int V>
__attribute__((noinline)) void micro(const Tile &t, int last) {
  A<R> a(t);
  constexpr bool Panel = Columns != 0;
  const int64_t b_depth = Panel ? Columns : t.b_depth;
  const float *b = t.b;
  // Unrolled whole, or the accumulators would live in memory.
  Vec acc[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) acc[r][v] = v_zero();
  const char *ahead = Panel ? t.ahead : reinterpret_cast<const char *>(b + kStepsAhead * b_depth);
  const int64_t ahead_step = Panel ? t.ahead_step : b_depth * static_cast<int>(sizeof(float));
  // Where both operands stand as the first-level cache likes them, the second level is near enough.
  constexpr int kNear = std::is_same_v<A<R>, PanelRows<R>> ? 2 : 3;
  const bool by_row = ends_by_row<Op, V>(t, last);
  const int64_t depth = by_row ? t.depth - 2 : t.depth;
  for (int64_t k = 0; k < depth; ++k, a.advance(), b += b_depth, ahead += ahead_step) {
    if (Panel) {
      __builtin_prefetch(ahead, 0, kNear);
    } else {
      Op::template ask<V>(ahead, b_depth);
      a.ask();
    }
    Vec row[V];
    Op::template load<Panel>(b, b_depth, last, row);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) step_row<Op>(a.row(r), row, acc[r]);
  }
  if (by_row) {
    if (Panel) {
      __builtin_prefetch(ahead, 0, kNear);
      __builtin_prefetch(ahead + ahead_step, 0, kNear);
    }
    return end_by_row<Op, Panel>(a, b, b_depth, acc, t);
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    Op::finish(acc[r]);
    ask_for_next_c<V>(t, r);
  }
  if (t.from != nullptr) add_from<R, V>(acc, t.from, t.from_stride, last);
  switch (t.c_type) {
    case DType::f32: return put<F32, R, V>(acc, t, last);
    case DType::f16: return put<F16, R, V>(acc, t, last);
    default: return put<BF16, R, V>(acc, t, last);
  }
}

typedef void (*Micro)(const Tile &, int);

// micro for 1 .. Vectors vectors, and as many rows as tiles of so many have, as a table.
template <typename Op, template <int> typename A, int Columns, int Vectors>
struct Micros {
  Micro of[Vectors][kTileRows];
  static constexpr int kRows = Vectors > kTileVectors ? kWideRows : kTileRows;
  constexpr Micros() : of() { fill<1, kRows>(); }
  template <int V, int R>
  constexpr void fill() {
    of[V - 1][R - 1] = micro<Op, A, Columns, R, V>;
    if constexpr (R > 1)
      fill<V, R - 1>();
    else if constexpr (V < Vectors)
      fill<V + 1, kRows>();
  }
};

template <typename Op, template <int> typename A, int Columns, int Vectors>
void tile_of(const Tile &first) {
  static constexpr Micros<Op, A, Columns, Vectors> micros;
  const int vectors = (first.cols + kLanes - 1) / kLanes, last = first.cols - (vectors - 1) * kLanes;
  const Micro micro = micros.of[vectors - 1][first.rows - 1];
  if (first.count == 1) return micro(first, last);
  Tile t = first;
  const int64_t c_below = t.rows * t.c_stride * dxdw::size_of(t.c_type);
  for (int32_t i = 0; i < t.count; ++i) {
    if (!t.stream) t.next_c = i + 1 < t.count ? t.c + c_below : first.next_c;
    micro(t, last);
    t.a += t.a_below[i % 2];
    t.c += c_below;
    if (t.from != nullptr) t.from += t.rows * t.from_stride;
    t.ahead += t.depth * t.ahead_step;
  }
}

}  // namespace
