// y[i] = sum over d of x[i,d] . w[d];  gx[i,d] = g[i] . w[d];  gw[d] = sum over i of x[i,d] . g[i].
//
// Both directions read x once, row by row. gw is summed in two stages: each block of rows gives one partial, and the
// partials are added in order. The number of blocks depends on the number of rows alone, so neither threads nor strides
// show in the bits.
#include "weighted_sum.hpp"

#include <stdio.h>

#include <algorithm>

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
// A gx beyond this would only push other data out of the caches.
constexpr int64_t kStreamBytes = 8 << 20;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

int32_t threads_for(int64_t rows, int64_t features) {
  return static_cast<int32_t>(
      std::max<int64_t>(1, std::min<int64_t>(threads(), rows * std::max<int64_t>(1, features) / kItemsPerTask)));
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

void write(char *p, DType type, float value, bool add) {
  if (add) value = read(p, type) + value;
  convert(reinterpret_cast<const char *>(&value), DType::f32, 1, p, type, 1, 1);
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

Status out_of_memory(uint64_t bytes) {
  return fail(DXDW_OUT_OF_MEMORY, "cpu: no memory for %llu bytes of scratch", static_cast<unsigned long long>(bytes));
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
  for (int64_t i = from; i < to; ++i) {
    const float sum =
        f.features == 0 ? 0.0f : kernels().dot(row_of(f.x, f.rows, i), f.x.type, f.x.feature_stride, run.w, f.features);
    write(row_of(f.y, f.rows, i), f.y.type, sum, f.add);
  }
}

struct Backward {
  WeightedSumBackward b;
  const float *w;
  float *partials;  // NULL: gw is not wanted
  int64_t rows_per_block;
  bool stream;
};

int64_t rows_per_block(const WeightedSumBackward &b) {
  return std::max(kRowsPerBlock, ceil_div(b.rows.count, kMostBlocks));
}

int64_t blocks_of(const WeightedSumBackward &b) {
  return std::max<int64_t>(1, ceil_div(b.rows.count, rows_per_block(b)));
}

void backward_task(void *context, int64_t index, int32_t) {
  const Backward &run = *static_cast<const Backward *>(context);
  const WeightedSumBackward &b = run.b;
  const int64_t from = index * run.rows_per_block, to = std::min(b.rows.count, from + run.rows_per_block);
  for (int64_t at = 0; at < b.features; at += kFeatures) {
    const int64_t count = std::min(kFeatures, b.features - at);
    float *sums = run.partials == nullptr ? nullptr : run.partials + index * b.features + at;
    if (sums != nullptr) std::fill(sums, sums + count, 0.0f);
    for (int64_t i = from; i < to; ++i) {
      const float g = read(row_of(b.g, b.rows, i), b.g.type);
      if (b.gx.data != nullptr)
        kernels().scale(run.w + at, g, row_of(b.gx, b.rows, i) + at * b.gx.feature_stride * size_of(b.gx.type),
                        b.gx.type, b.gx.feature_stride, count, b.add_gx, run.stream);
      if (sums != nullptr)
        kernels().add_scaled(row_of(b.x, b.rows, i) + at * b.x.feature_stride * size_of(b.x.type), b.x.type,
                             b.x.feature_stride, g, sums, count);
    }
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
  Forward run = {f, widen(f.w, f.features, scratch.data()),
                 std::max<int64_t>(1, kItemsPerTask / std::max<int64_t>(1, f.features))};
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
  if (run.partials == nullptr) return DXDW_OK;
  const Matrix first = {workspace, DType::f32, 1, b.features, b.features, 1};
  const Matrix gw = {b.gw.data, b.gw.type, 1, b.features, 0, b.gw.feature_stride};
  run_reduction({first, plan.tiles, b.features, gw, b.add_gw}, plan.threads);
  return DXDW_OK;
}

}  // namespace cpu
}  // namespace dxdw
