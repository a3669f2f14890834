// What a call asks for, after all checks: the kernels' side of the library sees these structures and never a
// dxdw_tensor.
#pragma once

#include <stdint.h>

#include "dtype.hpp"
#include "dxdw.h"
#include "numbers.hpp"

namespace dxdw {

// A matrix anywhere in memory; strides in elements.
struct Matrix {
  char *data;
  DType type;
  int64_t rows, cols;
  int64_t row_stride, col_stride;

  Matrix transposed() const { return {data, type, cols, rows, col_stride, row_stride}; }
  char *at(int64_t row, int64_t col) const { return data + (row * row_stride + col * col_stride) * size_of(type); }
  Matrix block(int64_t row, int64_t col, int64_t block_rows, int64_t block_cols) const {
    return {at(row, col), type, block_rows, block_cols, row_stride, col_stride};
  }
};

// C = A . B, or C += A . B. The contraction a.cols == b.rows may be cut into `split` slices (dW only).
struct Product {
  Matrix a, b, c;
  bool add;
  int32_t precision;  // dxdw_precision
  bool batch_invariant;
  int32_t split;  // 0 = to be planned; 1 elsewhere than in dW
  bool deterministic;

  int64_t contraction() const { return a.cols; }
};

// dW = sum of partials in order, or dW += that sum. Partial s starts s * split_stride floats behind `partials`.
struct Reduction {
  Matrix partials;  // partial 0, float32
  int64_t split;
  int64_t split_stride;
  Matrix dw;  // float32 in a dw_reduce; any type when a split dW ends in it
  bool add;
};

// The dimensions that operands have in common, with those merged that can be walked with one stride in every operand: all
// dimensions of elementwise work, the leading ones of what works on rows of features.
struct Rows {
  int32_t ndim;  // at least 1
  int64_t count;
  int64_t shape[DXDW_MAX_NDIM];
};

// An operand as rows of features, or as elements.
struct RowsView {
  char *data;  // NULL = not wanted, or absent
  DType type;
  int64_t row_strides[DXDW_MAX_NDIM];
  int64_t feature_stride;  // 0 where there is no feature dimension
};

// y[i] = sum over d of x[i,d] . w[d], or += that.
struct WeightedSum {
  Rows rows;
  int64_t features;
  RowsView x, w, y;
  bool add;
};

// gx[i,d] = g[i] . w[d]; gw[d] = sum over i of x[i,d] . g[i]; each assigned or added.
struct WeightedSumBackward {
  Rows rows;
  int64_t features;
  RowsView x, w, g, gx, gw;  // g.data NULL: all ones
  bool add_gx, add_gw;
};

// dW and, where `sums` is not empty, db.
struct ProductBias {
  Product product;
  WeightedSumBackward sums;  // of dY, into gw
  bool product_idle, sums_idle;
};

// Element by element: out = f(in[0], in[1]), or out += that.
struct Elementwise {
  Rows grid;
  RowsView in[2];  // in[1] is absent for functions of one operand
  RowsView out;
  bool add;
};

// Losses of rows against targets, and their gradients: y is loss or g, gx is absent in the forward.
struct RowLoss {
  Rows rows;
  int64_t features;
  RowsView x, target, y, gx;  // labels have no features
  bool add;
};

// norm = sum of x^2, or += that; elements of x in row-major order.
struct SquaredNorm {
  Rows grid;
  RowsView x;
  char *norm;
  bool add;
};

// scale = min(1, most / sqrt(norm)).
struct ClipFactor {
  const char *norm;
  char *scale;
  float most;
};

// A step of an optimizer. state: velocity, or m and v. All but copy are float32.
struct OptimizerStep {
  Rows grid;
  RowsView p, g, state[2], copy;
  const char *scale;  // NULL: 1
  SgdNumbers sgd;
  AdamWNumbers adamw;
};

// destination = source, element by element; dimensions are merged where possible, ndim at least 1.
struct Copy {
  int32_t ndim;
  int64_t count;
  int64_t shape[DXDW_MAX_NDIM];
  int64_t source_strides[DXDW_MAX_NDIM], destination_strides[DXDW_MAX_NDIM];
  char *source, *destination;
  DType source_type, destination_type;
  int32_t source_device_type, source_device_id, destination_device_type, destination_device_id;
};

// Where a call runs and what the caller lends it.
struct Context {
  int32_t device_type, device_id;
  dxdw_stream *stream;
  void *workspace;  // NULL: the backend finds its own
  uint64_t workspace_bytes;
};

// Functions that are planned and run alike: which member of a Call counts.
enum class Family : uint8_t {
  product,
  reduction,
  forward,
  backward,
  product_bias,
  elementwise,
  row_loss,
  squared_norm,
  clip_factor,
  step
};

// One call of any function.
struct Call {
  int32_t function;  // dxdw_function
  Family family;
  bool empty;  // nothing to write at all
  Context context;
  union {
    Product product;
    Reduction reduction;
    WeightedSum forward;
    WeightedSumBackward backward;  // of DXDW_SUM_ROWS too
    ProductBias product_bias;
    Elementwise elementwise;
    RowLoss row_loss;
    SquaredNorm squared_norm;
    ClipFactor clip_factor;
    OptimizerStep step;
  };
};

}  // namespace dxdw
