// Softmax cross entropy and squared error of rows, and their gradients.
//
// A row is walked in pieces of kTile features; its sums are added piece by piece, so their order depends on the number
// of features alone. Rows are independent of each other.
#include "counters.hpp"
#include "tiles.hpp"
#include "training.hpp"

namespace dxdw {
namespace cpu {

namespace {

struct Run {
  const RowLoss *loss;
  int64_t rows_per_task;
};

// Address of row i.
char *row_of(const RowsView &view, const Rows &rows, int64_t i) {
  int64_t offset = 0;
  for (int32_t d = rows.ndim - 1; d >= 0; --d) {
    offset += i % rows.shape[d] * view.row_strides[d];
    i /= rows.shape[d];
  }
  return view.data + offset * size_of(view.type);
}

// Features [at, at + count) of a row as floats side by side.
const float *piece(const RowsView &view, const char *row, int64_t at, int64_t count, float *buffer) {
  const char *const from = row + at * view.feature_stride * size_of(view.type);
  if (view.type == DType::f32 && view.feature_stride == 1) return reinterpret_cast<const float *>(from);
  convert(from, view.type, view.feature_stride, reinterpret_cast<char *>(buffer), DType::f32, 1, count);
  return buffer;
}

// result, or old + result, to features [at, at + count) of a row.
void put_piece(const RowsView &view, char *row, int64_t at, int64_t count, float *result, bool add) {
  char *const to = row + at * view.feature_stride * size_of(view.type);
  if (add) {
    float old[kTile];
    convert(to, view.type, view.feature_stride, reinterpret_cast<char *>(old), DType::f32, 1, count);
    kernels().elementwise[kAdd]({old, result, result, count, false, {}});
  }
  convert(reinterpret_cast<const char *>(result), DType::f32, 1, to, view.type, view.feature_stride, count);
}

float get(const char *p, DType type) {
  float value;
  convert(p, type, 1, reinterpret_cast<char *>(&value), DType::f32, 1, 1);
  return value;
}

void put(char *p, DType type, float value, bool add) {
  if (add) value = get(p, type) + value;
  convert(reinterpret_cast<const char *>(&value), DType::f32, 1, p, type, 1, 1);
}

int32_t label_at(const RowLoss &r, int64_t i) {
  return *reinterpret_cast<const int32_t *>(row_of(r.target, r.rows, i));
}

// log(x) for x >= 1, within 1e-12: x = m . 2^e with m near 1, log m = 2 (s + s^3 / 3 + s^5 / 5 + ...), s = (m - 1) / (m
// + 1). What is not finite stays as it is.
float log_of(float x) {
  if (!(x < __builtin_inff())) return x;
  int exponent = 0;
  double m = static_cast<double>(x);
  for (; m > 0x1p16; m *= 0x1p-16) exponent += 16;
  for (; m > 1.4142135623730951; m *= 0.5) ++exponent;
  const double s = (m - 1.0) / (m + 1.0), square = s * s;
  double sum = 0.0;
  for (int n = 15; n >= 1; n -= 2) sum = sum * square + 1.0 / n;
  return static_cast<float>(2.0 * s * sum + exponent * 0.69314718055994531);
}

struct Softmax {
  float most, sum;
};

Softmax softmax_of(const RowLoss &r, const char *row, float *buffer) {
  Softmax softmax = {-__builtin_inff(), 0.0f};
  for (int64_t at = 0; at < r.features; at += kTile) {
    const int64_t count = std::min(kTile, r.features - at);
    const float most = kernels().largest(piece(r.x, row, at, count, buffer), count);
    softmax.most = most > softmax.most ? most : softmax.most;
  }
  for (int64_t at = 0; at < r.features; at += kTile) {
    const int64_t count = std::min(kTile, r.features - at);
    softmax.sum += kernels().exp_sum(piece(r.x, row, at, count, buffer), softmax.most, count);
  }
  return softmax;
}

void softmax_forward_task(void *context, int64_t index, int32_t) {
  const Run &run = *static_cast<const Run *>(context);
  const RowLoss &r = *run.loss;
  float buffer[kTile];
  const int64_t end = std::min(r.rows.count, (index + 1) * run.rows_per_task);
  for (int64_t i = index * run.rows_per_task; i < end; ++i) {
    const char *const row = row_of(r.x, r.rows, i);
    const Softmax softmax = softmax_of(r, row, buffer);
    const int64_t label = label_at(r, i);
    // A label that another thread has changed since the check must not be followed out of the row.
    const float chosen = label < 0 || label >= r.features
                             ? __builtin_nanf("")
                             : get(row + label * r.x.feature_stride * size_of(r.x.type), r.x.type);
    put(row_of(r.y, r.rows, i), r.y.type, log_of(softmax.sum) + (softmax.most - chosen), r.add);
  }
}

void softmax_backward_task(void *context, int64_t index, int32_t) {
  const Run &run = *static_cast<const Run *>(context);
  const RowLoss &r = *run.loss;
  float buffer[kTile], result[kTile];
  const int64_t end = std::min(r.rows.count, (index + 1) * run.rows_per_task);
  for (int64_t i = index * run.rows_per_task; i < end; ++i) {
    const char *const row = row_of(r.x, r.rows, i);
    char *const to = row_of(r.gx, r.rows, i);
    const Softmax softmax = softmax_of(r, row, buffer);
    const float g = get(row_of(r.y, r.rows, i), r.y.type), inverse = 1.0f / softmax.sum;
    const int64_t label = label_at(r, i);
    for (int64_t at = 0; at < r.features; at += kTile) {
      const int64_t count = std::min(kTile, r.features - at);
      const float *const x = piece(r.x, row, at, count, buffer);
      kernels().elementwise[kScaledExp]({x, nullptr, result, count, false, {softmax.most, inverse, g}});
      if (at <= label && label < at + count) {
        float *const chosen = result + (label - at);
        kernels().elementwise[kScaledExp]({x + (label - at), nullptr, chosen, 1, false, {softmax.most, inverse, 1.0f}});
        *chosen = g * (*chosen - 1.0f);
      }
      put_piece(r.gx, to, at, count, result, r.add);
    }
  }
}

void error_forward_task(void *context, int64_t index, int32_t) {
  const Run &run = *static_cast<const Run *>(context);
  const RowLoss &r = *run.loss;
  float x[kTile], target[kTile];
  const int64_t end = std::min(r.rows.count, (index + 1) * run.rows_per_task);
  for (int64_t i = index * run.rows_per_task; i < end; ++i) {
    float sum = 0.0f;
    for (int64_t at = 0; at < r.features; at += kTile) {
      const int64_t count = std::min(kTile, r.features - at);
      sum += kernels().squared_distance(piece(r.x, row_of(r.x, r.rows, i), at, count, x),
                                        piece(r.target, row_of(r.target, r.rows, i), at, count, target), count);
    }
    put(row_of(r.y, r.rows, i), r.y.type, sum, r.add);
  }
}

void error_backward_task(void *context, int64_t index, int32_t) {
  const Run &run = *static_cast<const Run *>(context);
  const RowLoss &r = *run.loss;
  float x[kTile], target[kTile], result[kTile];
  const int64_t end = std::min(r.rows.count, (index + 1) * run.rows_per_task);
  for (int64_t i = index * run.rows_per_task; i < end; ++i) {
    const float g = get(row_of(r.y, r.rows, i), r.y.type);
    for (int64_t at = 0; at < r.features; at += kTile) {
      const int64_t count = std::min(kTile, r.features - at);
      const Stretch s = {piece(r.x, row_of(r.x, r.rows, i), at, count, x),
                         piece(r.target, row_of(r.target, r.rows, i), at, count, target),
                         result,
                         count,
                         false,
                         {2.0f * g}};
      kernels().elementwise[kScaledDifference](s);
      put_piece(r.gx, row_of(r.gx, r.rows, i), at, count, result, r.add);
    }
  }
}

// Labels are indices: they are looked at before anything is written.
Status check_labels(const RowLoss &r) {
  for (int64_t i = 0; i < r.rows.count; ++i) {
    const int64_t label = label_at(r, i);
    if (label < 0 || label >= r.features)
      return fail(DXDW_INVALID_ARGUMENT, "labels: value %lld at row %lld is outside 0 to %lld, the classes of logits",
                  static_cast<long long>(label), static_cast<long long>(i), static_cast<long long>(r.features - 1));
  }
  return DXDW_OK;
}

}  // namespace

Plan plan_row_loss(const RowLoss &r) {
  return {1, threads_for_elements(r.rows.count * std::max<int64_t>(1, r.features)), 0, r.rows.count, 0};
}

Status run_row_loss(const RowLoss &r, int32_t function, const Plan &plan) {
  void (*task)(void *, int64_t, int32_t) = function == DXDW_SOFTMAX_CROSS_ENTROPY_FWD   ? softmax_forward_task
                                           : function == DXDW_SOFTMAX_CROSS_ENTROPY_BWD ? softmax_backward_task
                                           : function == DXDW_SQUARED_ERROR_FWD         ? error_forward_task
                                                                                        : error_backward_task;
  if (r.target.type == DType::i32) DXDW_TRY(check_labels(r));
  count_launch();
  Run run = {&r, std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, r.features))};
  parallel_for(ceil_div(r.rows.count, run.rows_per_task), plan.threads, task, &run);
  return DXDW_OK;
}

}  // namespace cpu
}  // namespace dxdw
