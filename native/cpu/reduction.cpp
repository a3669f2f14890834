// dW = sum of partials, or dW += that sum: sum = +0; sum += partials[s] for s = 0, 1, 2, ...; one float32 operation
// each.
#include <string.h>

#include <algorithm>

#include "arithmetic.hpp"
#include "counters.hpp"
#include "cpu.hpp"
#include "product.hpp"
#include "threads.hpp"

namespace dxdw {
namespace cpu {

namespace {

// Columns that are summed at a time when dW or the partials don't stand side by side.
constexpr int64_t kChunk = 1024;
constexpr int64_t kItemsPerTask = 1 << 15;

// Columns [from, from + count) of row r, by way of a buffer.
void reduce_any(const Reduction &d, int64_t r, int64_t from, int64_t count) {
  float sums[kChunk], old[kChunk];
  memset(sums, 0, sizeof sums);
  for (int64_t s = 0; s < d.split; ++s) {
    const float *row = reinterpret_cast<const float *>(d.partials.at(r, from)) + s * d.split_stride;
    for (int64_t i = 0; i < count; ++i) sums[i] += row[i * d.partials.col_stride];
  }
  char *out = d.dw.at(r, from);
  if (d.add) {
    convert(out, d.dw.type, d.dw.col_stride, reinterpret_cast<char *>(old), DType::f32, 1, count);
    for (int64_t i = 0; i < count; ++i) sums[i] = old[i] + sums[i];
  }
  convert(reinterpret_cast<const char *>(sums), DType::f32, 1, out, d.dw.type, d.dw.col_stride, count);
}

void reduce_row(const Reduction &d, int64_t r) {
  if (d.dw.type == DType::f32 && d.dw.col_stride == 1 && d.partials.col_stride == 1)
    return kernels().reduce(reinterpret_cast<const float *>(d.partials.at(r, 0)), d.split, d.split_stride,
                            reinterpret_cast<float *>(d.dw.at(r, 0)), d.dw.cols, d.add);
  for (int64_t from = 0; from < d.dw.cols; from += kChunk) reduce_any(d, r, from, std::min(kChunk, d.dw.cols - from));
}

struct Run {
  Reduction reduction;
  int64_t rows_per_task;
};

void run_task(void *context, int64_t index, int32_t) {
  const Run &run = *static_cast<const Run *>(context);
  const int64_t from = index * run.rows_per_task;
  const int64_t to = std::min(run.reduction.dw.rows, from + run.rows_per_task);
  for (int64_t r = from; r < to; ++r) reduce_row(run.reduction, r);
}

}  // namespace

void run_reduction(const Reduction &reduction, int32_t threads) {
  count_launch();
  Run run = {reduction, 0};
  Matrix &dw = run.reduction.dw, &partials = run.reduction.partials;
  if (dw.col_stride != 1 && dw.row_stride == 1) {
    dw = dw.transposed();
    partials = partials.transposed();
  }
  // One long row where rows follow one another without a gap.
  const bool gapless =
      dw.row_stride == dw.cols * dw.col_stride && partials.row_stride == partials.cols * partials.col_stride;
  if (gapless && dw.rows > 1 && dw.cols < kChunk) {
    const int64_t width = std::max<int64_t>(1, kChunk / dw.cols);
    if (dw.rows % width == 0) {
      dw = {dw.data, dw.type, dw.rows / width, dw.cols * width, dw.row_stride * width, dw.col_stride};
      partials = {partials.data, partials.type, dw.rows, dw.cols, partials.row_stride * width, partials.col_stride};
    }
  }
  run.rows_per_task = std::max<int64_t>(1, kItemsPerTask / std::max<int64_t>(1, dw.cols));
  parallel_for(ceil_div(dw.rows, run.rows_per_task), threads, run_task, &run);
}

}  // namespace cpu
}  // namespace dxdw
