// y[i] = sum over d of x[i,d] . w[d];  gx[i,d] = g[i] . w[d];  gw[d] = sum over i of x[i,d] . g[i].
//
// Both directions read x once, row by row. gw is summed in two stages: each block of rows gives one partial, and the
// partials are added in order. The number of blocks depends on the number of rows alone, so neither threads nor strides
// show in the bits.
#include "weighted_sum.hpp"

#include <stdio.h>

#include <algorithm>

#include "arithmetic.hpp"
#include "counters.hpp"
#include "cpu.hpp"
#include "kernels.hpp"
#include "product.hpp"
#include "scratch.hpp"
#include "threads.hpp"

namespace dxdw {
namespace cpu {

namespace {

// Elements of x that are worth a task of their own.
constexpr int64_t kItemsPerTask = 1 << 15;
// Rows of a block of gw, and how many blocks there are at most.
constexpr int64_t kRowsPerBlock = 64;
constexpr int64_t kMostBlocks = 64;
// Features of a block that are walked at a time, so that their partial stays in the first-level cache.
constexpr int64_t kFeatures = 2048;
// The same where rows are long: each row is then a stream that breaks off less often.
constexpr int64_t kLongRow = 8192;
constexpr int64_t kLongFeatures = 4096;
// Features from which on the backward walks many rows side by side.
constexpr int64_t kRowOfMany = 256;
// Rows that a task of the forward has at least, if there are enough: they are walked side by side.
constexpr int64_t kRowsPerTask = 4;
// Rows whose y or g are converted at a time.
constexpr int64_t kRowsAtOnce = 256;
// How far ahead of what is read memory is asked for.
constexpr int64_t kAheadBytes = 4096;
// A gx beyond this would only push other data out of the caches.
constexpr int64_t kStreamBytes = 8 << 20;

int32_t threads_for(int64_t rows, int64_t features) {
  int64_t items;
  if (__builtin_mul_overflow(rows, std::max<int64_t>(1, features), &items)) return threads();
  return static_cast<int32_t>(std::max<int64_t>(1, std::min<int64_t>(threads(), items / kItemsPerTask)));
}

// Address of row i.
char *row_of(const RowsView &view, const Rows &rows, int64_t i) {
  int64_t offset = 0;
  for (int32_t d = rows.ndim - 1; d > 0; --d) {
    offset += i % rows.shape[d] * view.row_strides[d];
    i /= rows.shape[d];
  }
  return view.data + (offset + i * view.row_strides[0]) * size_of(view.type);
}

float read(const char *p, DType type) {
  float value;
  convert(p, type, 1, reinterpret_cast<char *>(&value), DType::f32, 1, 1);
  return value;
}

// One item of each of `count` rows from row i on, as floats.
void read_rows(const RowsView &view, const Rows &rows, int64_t i, int64_t count, float *values) {
  if (rows.ndim == 1)
    return convert(row_of(view, rows, i), view.type, view.row_strides[0], reinterpret_cast<char *>(values), DType::f32,
                   1, count);
  for (int64_t r = 0; r < count; ++r) values[r] = read(row_of(view, rows, i + r), view.type);
}

void write_rows(const RowsView &view, const Rows &rows, int64_t i, int64_t count, const float *values) {
  const char *from = reinterpret_cast<const char *>(values);
  if (rows.ndim == 1) return convert(from, DType::f32, 1, row_of(view, rows, i), view.type, view.row_strides[0], count);
  for (int64_t r = 0; r < count; ++r) convert(from + r * 4, DType::f32, 1, row_of(view, rows, i + r), view.type, 1, 1);
}

// The row to ask for while row i is read: far enough ahead for the memory to answer in time.
int64_t row_ahead(int64_t i, int64_t end, int64_t row_bytes) {
  return std::min(end - 1, i + 1 + kAheadBytes / std::max<int64_t>(1, row_bytes));
}

// Bytes of scratch for w as floats side by side; 0 where it is that already.
uint64_t widened_bytes(const RowsView &w, int64_t features) {
  return w.type == DType::f32 && w.feature_stride == 1 ? 0 : static_cast<uint64_t>(features) * 4;
}

const float *widen(const RowsView &w, int64_t features, char *scratch) {
  if (widened_bytes(w, features) == 0) return reinterpret_cast<const float *>(w.data);
  convert(w.data, w.type, w.feature_stride, scratch, DType::f32, 1, features);
  return reinterpret_cast<const float *>(scratch);
}

struct Forward {
  WeightedSum f;
  const float *w;
  int64_t rows_per_task;
};

void forward_task(void *context, int64_t index, int32_t) {
  const Forward &run = *static_cast<const Forward *>(context);
  const WeightedSum &f = run.f;
  const int64_t from = index * run.rows_per_task, to = std::min(f.rows.count, from + run.rows_per_task);
  const int64_t row_bytes = f.features * size_of(f.x.type);
  for (int64_t at = from; at < to; at += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, to - at);
    float sums[kRowsAtOnce], old[kRowsAtOnce];
    if (f.rows.ndim == 1) {
      kernels().dots(row_of(f.x, f.rows, at), f.x.row_strides[0] * size_of(f.x.type), f.x.type, f.x.feature_stride,
                     run.w, f.features, count, sums);
    } else {
      for (int64_t r = 0; r < count; ++r) {
        const char *ahead = row_of(f.x, f.rows, row_ahead(at + r, to, row_bytes));
        sums[r] = kernels().dot(row_of(f.x, f.rows, at + r), f.x.type, f.x.feature_stride, run.w, f.features, ahead);
      }
    }
    if (f.add) {
      read_rows(f.y, f.rows, at, count, old);
      for (int64_t r = 0; r < count; ++r) sums[r] = old[r] + sums[r];
    }
    write_rows(f.y, f.rows, at, count, sums);
  }
}

}  // namespace

int64_t rows_per_block(const WeightedSumBackward &b) {
  return std::max(kRowsPerBlock, ceil_div(b.rows.count, kMostBlocks));
}

namespace {

struct Backward {
  WeightedSumBackward b;
  const float *w;
  float *partials;  // NULL: gw is not wanted
  int64_t rows_per_block;
  bool stream;
};

int64_t blocks_of(const WeightedSumBackward &b) {
  return std::max<int64_t>(1, ceil_div(b.rows.count, rows_per_block(b)));
}

Abreast abreast(const WeightedSumBackward &b) {
  if (b.features >= kRowOfMany) return Abreast::many;
  return b.gx.data != nullptr ? Abreast::two : Abreast::one;
}

// gx and the sums of gw for rows [row, row + count) and features [at, at + features).
void backward_block(const Backward &run, int64_t row, int64_t count, const float *g, int64_t at, int64_t features,
                    float *sums) {
  const WeightedSumBackward &b = run.b;
  const int64_t x_offset = at * b.x.feature_stride * size_of(b.x.type);
  const int64_t gx_offset = at * b.gx.feature_stride * size_of(b.gx.type);
  const bool no_gx = b.gx.data == nullptr;
  const bool one_pass = sums != nullptr && b.x.feature_stride == 1 &&
                        (no_gx || (!b.add_gx && b.x.type == b.gx.type && b.gx.feature_stride == 1));
  if (one_pass) {
    const bool even = b.rows.ndim == 1;  // rows so many bytes apart
    const int64_t x_bytes = b.x.row_strides[0] * size_of(b.x.type),
                  gx_bytes = no_gx ? 0 : b.gx.row_strides[0] * size_of(b.gx.type);
    for (int64_t r = 0; r < count; r += even ? count : 1)
      kernels().scale_and_add(row_of(b.x, b.rows, row + r) + x_offset, x_bytes, b.x.type, run.w + at, g + r,
                              no_gx ? nullptr : row_of(b.gx, b.rows, row + r) + gx_offset, gx_bytes, sums, features,
                              even ? count : 1, abreast(b), run.stream);
    return;
  }
  for (int64_t r = 0; r < count; ++r) {
    const char *const x = row_of(b.x, b.rows, row + r) + x_offset;
    const char *const ahead =
        row_of(b.x, b.rows, row_ahead(row + r, row + count, features * size_of(b.x.type))) + x_offset;
    char *const gx = b.gx.data == nullptr ? nullptr : row_of(b.gx, b.rows, row + r) + gx_offset;
    if (gx != nullptr)
      kernels().scale(run.w + at, g[r], gx, b.gx.type, b.gx.feature_stride, features, b.add_gx, run.stream);
    if (sums != nullptr) kernels().add_scaled(x, b.x.type, b.x.feature_stride, g[r], sums, features, ahead);
  }
}

void backward_task(void *context, int64_t index, int32_t) {
  const Backward &run = *static_cast<const Backward *>(context);
  const WeightedSumBackward &b = run.b;
  const int64_t from = index * run.rows_per_block, to = std::min(b.rows.count, from + run.rows_per_block);
  float *const partial = run.partials == nullptr ? nullptr : run.partials + index * b.features;
  if (partial != nullptr) std::fill(partial, partial + b.features, 0.0f);
  for (int64_t row = from; row < to; row += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, to - row);
    float g[kRowsAtOnce];
    if (b.g.data == nullptr)
      std::fill(g, g + count, 1.0f);
    else
      read_rows(b.g, b.rows, row, count, g);
    const int64_t width = b.features >= kLongRow && b.rows.ndim == 1 ? kLongFeatures : kFeatures;
    for (int64_t at = 0; at < b.features; at += width)
      backward_block(run, row, count, g, at, std::min(width, b.features - at),
                     partial == nullptr ? nullptr : partial + at);
  }
  if (run.stream) kernels().fence();
}

}  // namespace

Plan plan_forward(const WeightedSum &f) { return {1, threads_for(f.rows.count, f.features), 0, f.rows.count, 0}; }

Status run_forward(const WeightedSum &f, const Plan &plan) {
  Scratch scratch;
  const uint64_t bytes = widened_bytes(f.w, f.features);
  if (!scratch.take(bytes)) return out_of_memory(bytes);
  count_launch();
  const int64_t least = std::max<int64_t>(1, std::min<int64_t>(kRowsPerTask, f.rows.count / plan.threads));
  Forward run = {f, widen(f.w, f.features, scratch.data()),
                 std::max(least, kItemsPerTask / std::max<int64_t>(1, f.features))};
  parallel_for(ceil_div(f.rows.count, run.rows_per_task), plan.threads, forward_task, &run);
  return DXDW_OK;
}

Plan plan_backward(const WeightedSumBackward &b) {
  const int64_t blocks = blocks_of(b);
  const uint64_t partials = b.gw.data == nullptr ? 0 : static_cast<uint64_t>(blocks * b.features) * 4;
  return {1, threads_for(b.rows.count, b.features), 0, blocks, partials};
}

Status run_backward(const WeightedSumBackward &b, const Plan &plan, const Context &context) {
  Scratch scratch, own_workspace;
  const uint64_t bytes = widened_bytes(b.w, b.features);
  if (!scratch.take(bytes)) return out_of_memory(bytes);
  if (context.workspace == nullptr && !own_workspace.take(plan.workspace_bytes))
    return out_of_memory(plan.workspace_bytes);
  char *const workspace = context.workspace != nullptr ? static_cast<char *>(context.workspace) : own_workspace.data();
  count_launch();
  Backward run;
  run.b = b;
  run.w = widen(b.w, b.features, scratch.data());
  run.partials = b.gw.data == nullptr ? nullptr : reinterpret_cast<float *>(workspace);
  run.rows_per_block = rows_per_block(b);
  run.stream = b.rows.count * b.features * size_of(b.gx.type) >= kStreamBytes;
  parallel_for(plan.tiles, plan.threads, backward_task, &run);
  if (run.partials != nullptr) finish_backward(b, run.partials, plan.threads);
  return DXDW_OK;
}

void finish_backward(const WeightedSumBackward &b, const float *partials, int32_t threads) {
  char *const at = const_cast<char *>(reinterpret_cast<const char *>(partials));
  const Matrix first = {at, DType::f32, 1, b.features, b.features, 1};
  const Matrix gw = {b.gw.data, b.gw.type, 1, b.features, 0, b.gw.feature_stride};
  run_reduction({first, blocks_of(b), b.features, gw, b.add_gw}, threads);
}

}  // namespace cpu
}  // namespace dxdw
