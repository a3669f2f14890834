// Kernels over one row: conversion, ordered reduction, and the three steps of a weighted sum.
#pragma once

#include <type_traits>

#include "kernels.hpp"
#include "simd.hpp"

namespace {

using dxdw::DType;

// Calls body(F32()), body(F16()) or body(BF16()).
template <typename Body>
DXDW_INLINE auto with_type(DType type, const Body &body) {
  switch (type) {
    case DType::f16: return body(F16());
    case DType::bf16: return body(BF16());
    default: return body(F32());
  }
}

// ---- Conversion: destination = source; through float32, one rounding ----

template <typename From, typename To>
void convert_rows(const char *source, int64_t source_row, int64_t source_col, char *destination,
                  int64_t destination_row, int64_t destination_col, int64_t rows, int64_t cols) {
  const typename From::Item *from = items<From>(source);
  typename To::Item *to = items<To>(destination);
  const bool near = source_col == 1 && destination_col == 1;
  for (int64_t r = 0; r < rows; ++r, from += source_row, to += destination_row) {
    int64_t i = 0;
    if (near)
      for (; i + kLanes <= cols; i += kLanes) To::store(to + i, From::load(from + i));
    for (; i < cols; ++i) To::put(to + i * destination_col, From::get(from + i * source_col));
  }
}

// Same type: bits are moved as they are.
template <typename Item>
void move_rows(const char *source, int64_t source_row, int64_t source_col, char *destination, int64_t destination_row,
               int64_t destination_col, int64_t rows, int64_t cols) {
  const Item *from = reinterpret_cast<const Item *>(source);
  Item *to = reinterpret_cast<Item *>(destination);
  for (int64_t r = 0; r < rows; ++r, from += source_row, to += destination_row) {
    if (source_col == 1 && destination_col == 1)
      memcpy(to, from, static_cast<size_t>(cols) * sizeof(Item));
    else
      for (int64_t i = 0; i < cols; ++i) to[i * destination_col] = from[i * source_col];
  }
}

void convert(const char *source, DType from, int64_t source_row, int64_t source_col, char *destination, DType to,
             int64_t destination_row, int64_t destination_col, int64_t rows, int64_t cols) {
  if (from == to && (from == DType::f32 || from == DType::i32))
    return move_rows<uint32_t>(source, source_row, source_col, destination, destination_row, destination_col, rows,
                               cols);
  if (from == to)
    return move_rows<uint16_t>(source, source_row, source_col, destination, destination_row, destination_col, rows,
                               cols);
  with_type(from, [&](auto f) {
    with_type(to, [&](auto t) {
      convert_rows<decltype(f), decltype(t)>(source, source_row, source_col, destination, destination_row,
                                             destination_col, rows, cols);
    });
  });
}

// ---- Reduction: out[i] (+)= ((+0 + p[0][i]) + p[1][i]) + ... ----

void reduce(const float *partials, int64_t split, int64_t split_stride, float *out, int64_t count, bool add) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Vec sum = v_zero();
    for (int64_t s = 0; s < split; ++s) sum = v_add(sum, v_load(partials + s * split_stride + i));
    v_store(out + i, add ? v_add(v_load(out + i), sum) : sum);
  }
  for (; i < count; ++i) {
    float sum = 0.0f;
    for (int64_t s = 0; s < split; ++s) sum += partials[s * split_stride + i];
    out[i] = add ? out[i] + sum : sum;
  }
}

// ---- Weighted sum ----

using dxdw::cpu::Abreast;

// How far ahead of the next row memory is asked for.
constexpr int64_t kAheadBytes = 4096;
constexpr int kChains = 4;  // independent accumulators, to hide the latency of the multiply-add
// Rows of a forward that are walked side by side: their sums fit the registers.
constexpr int kDotRows = kTileRows >= 12 ? 4 : 2;
// The next rows are asked for if they begin no further away: else they would be gone from the second-level cache by then.
constexpr int64_t kNearBytes = 256 << 10;

// Asks for the vector at item i of what will be read next.
template <typename T>
DXDW_INLINE void ask(const char *ahead, int64_t i) {
  __builtin_prefetch(ahead + i * static_cast<int64_t>(sizeof(typename T::Item)), 0, 2);
}

// Sums over whole chunks with elements side by side, of R rows at a time: w is read once for all, and each row is a stream
// of its own. The order depends on count alone. Row r's `ahead` is as far from the first one's as row r from the first.
template <typename T, int R>
DXDW_INLINE void dot_runs(const char *x, int64_t x_bytes, const float *w, int64_t count, const char *ahead,
                          float *out) {
  const auto row = [=](int r) { return items<T>(x + r * x_bytes); };
  Vec sums[R][kChains];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) sums[r][c] = v_zero();
  int64_t i = 0;
  for (; i + kChains * kLanes <= count; i += kChains * kLanes)
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < kChains; ++c) {
        ask<T>(ahead + r * x_bytes, i + c * kLanes);
        sums[r][c] = v_fma(T::load(row(r) + i + c * kLanes), v_load(w + i + c * kLanes), sums[r][c]);
      }
  for (; i + kLanes <= count; i += kLanes)
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) sums[r][0] = v_fma(T::load(row(r) + i), v_load(w + i), sums[r][0]);
  if (i < count) {
    const int n = static_cast<int>(count - i);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
      sums[r][1] = v_fma(v_load_first<T>(row(r) + i, n), v_load_first<F32>(w + i, n), sums[r][1]);
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) out[r] = v_sum(v_add(v_add(sums[r][0], sums[r][1]), v_add(sums[r][2], sums[r][3])));
}

float dot(const char *x, DType type, int64_t stride, const float *w, int64_t count, const char *ahead) {
  return with_type(type, [&](auto t) {
    typedef decltype(t) T;
    if (stride == 1) {
      float sum;
      dot_runs<T, 1>(x, 0, w, count, ahead, &sum);
      return sum;
    }
    // The same order as a run's, whatever the stride: gather what a run would read side by side.
    typename T::Item near[kChains * kLanes];
    Vec sums[kChains];
    for (int c = 0; c < kChains; ++c) sums[c] = v_zero();
    int64_t i = 0;
    for (; i + kChains * kLanes <= count; i += kChains * kLanes) {
      for (int j = 0; j < kChains * kLanes; ++j) near[j] = items<T>(x)[(i + j) * stride];
      for (int c = 0; c < kChains; ++c)
        sums[c] = v_fma(T::load(near + c * kLanes), v_load(w + i + c * kLanes), sums[c]);
    }
    for (; i < count; i += kLanes) {
      const int n = count - i < kLanes ? static_cast<int>(count - i) : kLanes;
      for (int j = 0; j < n; ++j) near[j] = items<T>(x)[(i + j) * stride];
      const int chain = n == kLanes ? 0 : 1;
      sums[chain] = v_fma(v_load_first<T>(near, n), v_load_first<F32>(w + i, n), sums[chain]);
    }
    return v_sum(v_add(v_add(sums[0], sums[1]), v_add(sums[2], sums[3])));
  });
}

void dots(const char *x, int64_t x_bytes, DType type, int64_t stride, const float *w, int64_t count, int64_t rows,
          float *sums) {
  with_type(type, [&](auto t) {
    typedef decltype(t) T;
    const int64_t group_bytes = kDotRows * x_bytes;
    const bool near = -kNearBytes <= group_bytes && group_bytes <= kNearBytes;
    const int64_t row_bytes = count * static_cast<int64_t>(sizeof(typename T::Item));
    const int64_t rows_ahead = 1 + kAheadBytes / (row_bytes > 0 ? row_bytes : 1);
    int64_t r = 0;
    if (stride == 1)
      for (; r + kDotRows <= rows; r += kDotRows) {
        const char *const rows_of_x = x + r * x_bytes;
        const char *const ahead = rows_of_x + (near ? group_bytes : kAheadBytes / 2);
        dot_runs<T, kDotRows>(rows_of_x, x_bytes, w, count, ahead, sums + r);
      }
    for (; r < rows; ++r) {
      const int64_t next = r + rows_ahead < rows ? r + rows_ahead : rows - 1;
      sums[r] = dot(x + r * x_bytes, type, stride, w, count, x + next * x_bytes);
    }
  });
}

void add_scaled(const char *x, DType type, int64_t stride, float g, float *sums, int64_t count, const char *ahead) {
  with_type(type, [&](auto t) {
    typedef decltype(t) T;
    const typename T::Item *p = items<T>(x);
    int64_t i = 0;
    if (stride == 1)
      for (; i + kLanes <= count; i += kLanes) {
        ask<T>(ahead, i);
        v_store(sums + i, v_fma(T::load(p + i), v_set(g), v_load(sums + i)));
      }
    for (; i < count; ++i) sums[i] = s_fma(T::get(p + i * stride), g, sums[i]);
  });
}

void scale(const float *w, float g, char *out, DType type, int64_t stride, int64_t count, bool add, bool stream) {
  with_type(type, [&](auto t) {
    typedef decltype(t) T;
    typename T::Item *p = items<T>(out);
    int64_t i = 0;
    if (stride == 1 && !add) {
      if (stream) {
        // Streaming stores want whole aligned vectors.
        constexpr uintptr_t kBytes = kLanes * sizeof(typename T::Item);
        for (; i < count && reinterpret_cast<uintptr_t>(p + i) % kBytes != 0; ++i) T::put(p + i, g * w[i]);
        for (; i + kLanes <= count; i += kLanes) T::stream(p + i, v_mul(v_set(g), v_load(w + i)));
      }
      for (; i + kLanes <= count; i += kLanes) T::store(p + i, v_mul(v_set(g), v_load(w + i)));
    }
    for (; i < count; ++i) {
      typename T::Item *to = p + i * stride;
      T::put(to, add ? T::get(to) + g * w[i] : g * w[i]);
    }
  });
}

// How results leave: not at all, by way of the caches, past them.
enum class Results { none, stored, streamed };

// V vectors of features of K rows of x and gx, so many bytes apart. All loads come before the stores, for x, w, sums and
// gx are often alike in their low address bits, and such a read would wait for the write.
template <typename T, int K, int V, Results Gx>
DXDW_INLINE void scale_and_add_vectors(const char *x, int64_t x_bytes, const float *w, const Vec (&factors)[K],
                                       char *gx, int64_t gx_bytes, float *sums, int64_t i, int64_t ahead) {
  Vec weights[V], sum[V];
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    weights[v] = Gx == Results::none ? v_zero() : v_load(w + i + v * kLanes);
    sum[v] = v_load(sums + i + v * kLanes);
  }
#pragma GCC unroll 8
  for (int r = 0; r < K; ++r) {
    ask<T>(x + r * x_bytes + ahead, i);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[v] = v_fma(T::load(items<T>(x + r * x_bytes) + i + v * kLanes), factors[r], sum[v]);
  }
  if (Gx != Results::none)
#pragma GCC unroll 8
    for (int r = 0; r < K; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        typename T::Item *const out = items<T>(gx + r * gx_bytes) + i + v * kLanes;
        const Vec scaled = v_mul(factors[r], weights[v]);
        Gx == Results::streamed ? T::stream(out, scaled) : T::store(out, scaled);
      }
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) v_store(sums + i + v * kLanes, sum[v]);
}

// So many vectors are a line of the cache, which streamed stores should fill at once.
template <typename T>
constexpr int line_vectors() {
  constexpr int kVectors = 64 / (kLanes * static_cast<int>(sizeof(typename T::Item)));
  return kVectors > 4 ? 4 : kVectors;
}

// Features [from, to) of K rows: whole vectors.
template <typename T, int K, Results Gx>
DXDW_INLINE void scale_and_add_runs(const char *x, int64_t x_bytes, const float *w, const float *g, char *gx,
                                    int64_t gx_bytes, float *sums, int64_t from, int64_t to, int64_t ahead) {
  constexpr int V = line_vectors<T>();
  Vec factors[K];
#pragma GCC unroll 8
  for (int r = 0; r < K; ++r) factors[r] = v_set(g[r]);
  int64_t i = from;
  for (; i + V * kLanes <= to; i += V * kLanes)
    scale_and_add_vectors<T, K, V, Gx>(x, x_bytes, w, factors, gx, gx_bytes, sums, i, ahead);
  for (; i < to; i += kLanes) scale_and_add_vectors<T, K, 1, Gx>(x, x_bytes, w, factors, gx, gx_bytes, sums, i, ahead);
}

template <typename T, int K>
DXDW_INLINE void scale_and_add_rows(const char *x, int64_t x_bytes, const float *w, const float *g, char *gx,
                                    int64_t gx_bytes, float *sums, int64_t count, bool stream, int64_t ahead) {
  const auto ones = [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i)
      for (int r = 0; r < K; ++r) {
        if (gx != nullptr) T::put(items<T>(gx + r * gx_bytes) + i, g[r] * w[i]);
        sums[i] = s_fma(T::get(items<T>(x + r * x_bytes) + i), g[r], sums[i]);
      }
  };
  // Streaming stores want whole aligned vectors.
  constexpr int64_t kItem = sizeof(typename T::Item), kBytes = line_vectors<T>() * kLanes * kItem;
  const int64_t past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(gx)) & (kBytes - 1);
  const bool streams = gx != nullptr && stream && (K == 1 || gx_bytes % kBytes == 0);
  const int64_t wanted = streams ? (kBytes - past) % kBytes / kItem : 0, head = wanted < count ? wanted : count;
  const int64_t body = head + (count - head) / kLanes * kLanes;
  ones(0, head);
  const auto run = streams         ? scale_and_add_runs<T, K, Results::streamed>
                   : gx != nullptr ? scale_and_add_runs<T, K, Results::stored>
                                   : scale_and_add_runs<T, K, Results::none>;
  run(x, x_bytes, w, g, gx, gx_bytes, sums, head, body, ahead);
  ones(body, count);
}

void scale_and_add(const char *x, int64_t x_bytes, DType type, const float *w, const float *g, char *gx,
                   int64_t gx_bytes, float *sums, int64_t count, int64_t rows, Abreast abreast, bool stream) {
  with_type(type, [&](auto t) {
    typedef decltype(t) T;
    const int64_t row_bytes = count * static_cast<int64_t>(sizeof(typename T::Item));
    const int64_t rows_ahead = 1 + kAheadBytes / row_bytes;
    constexpr int kMany = 2 * sizeof(typename T::Item);
    int64_t r = 0;
    const auto groups = [&](auto size) {
      constexpr int K = decltype(size)::value;
      for (; r + K <= rows; r += K)
        scale_and_add_rows<T, K>(x + r * x_bytes, x_bytes, w, g + r, gx == nullptr ? gx : gx + r * gx_bytes, gx_bytes,
                                 sums, count, stream, K * x_bytes);
    };
    if (abreast == Abreast::many) groups(std::integral_constant<int, kMany>());
    if (abreast == Abreast::two) groups(std::integral_constant<int, 2>());
    for (; r < rows; ++r) {
      const int64_t next = r + rows_ahead < rows ? r + rows_ahead : rows - 1;
      scale_and_add_rows<T, 1>(x + r * x_bytes, 0, w, g + r, gx == nullptr ? gx : gx + r * gx_bytes, 0, sums, count,
                               stream, (next - r) * x_bytes);
    }
  });
}

}  // namespace
