#include "overlap.hpp"

namespace dxdw {

uint64_t Footprint::lowest() const {
  uint64_t low = address;
  for (int32_t d = 0; d < ndim; ++d)
    if (strides[d] < 0) low += static_cast<uint64_t>(strides[d]) * static_cast<uint64_t>(shape[d] - 1);
  return low;
}

uint64_t Footprint::end() const {
  uint64_t high = address;
  for (int32_t d = 0; d < ndim; ++d)
    if (strides[d] > 0) high += static_cast<uint64_t>(strides[d]) * static_cast<uint64_t>(shape[d] - 1);
  return high + static_cast<uint64_t>(item);
}

namespace {

int64_t gcd(int64_t a, int64_t b) {
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

// The same set of bytes with positive strides, rising from dimension 0, without sizes of 1, dense dimensions merged.
Footprint normalised(const Footprint &view) {
  Footprint out;
  out.address = view.lowest();
  out.item = view.item;
  out.ndim = 0;
  for (int32_t d = 0; d < view.ndim; ++d) {
    if (view.shape[d] == 1 || view.strides[d] == 0) continue;
    const int64_t stride = view.strides[d] < 0 ? -view.strides[d] : view.strides[d];
    int32_t at = out.ndim++;
    for (; at > 0 && out.strides[at - 1] > stride; --at) {
      out.strides[at] = out.strides[at - 1];
      out.shape[at] = out.shape[at - 1];
    }
    out.strides[at] = stride;
    out.shape[at] = view.shape[d];
  }
  int32_t kept = 0;
  for (int32_t d = 1; d < out.ndim; ++d) {
    int64_t span;
    if (!__builtin_mul_overflow(out.strides[kept], out.shape[kept], &span) && out.strides[d] == span) {
      out.shape[kept] *= out.shape[d];
    } else {
      ++kept;
      out.strides[kept] = out.strides[d];
      out.shape[kept] = out.shape[d];
    }
  }
  if (out.ndim > 0) out.ndim = kept + 1;
  return out;
}

// A view as `rows` intervals of `length` bytes, `stride` bytes apart. Covers the view; equal to it when its inner
// dimension is dense.
struct Intervals {
  uint64_t address;
  int64_t length, rows, stride;
};

bool as_intervals(const Footprint &view, Intervals *out) {
  if (view.ndim > 2) return false;
  const int64_t inner = view.ndim == 0 ? 0 : view.strides[0] * (view.shape[0] - 1);
  *out = {view.address, inner + view.item, 1, 1};
  if (view.ndim == 2) {
    out->rows = view.shape[1];
    out->stride = view.strides[1];
  } else if (view.ndim == 1 && view.strides[0] > view.item) {
    *out = {view.address, view.item, view.shape[0], view.strides[0]};
  }
  return true;
}

int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// Is there a row of `view` that meets [start, start + length), relative to the view's address?
bool row_meets(const Intervals &view, int64_t start, int64_t length) {
  // Row r covers [r.stride, r.stride + view.length): rows from `first` on end behind `start`, rows up to `last` begin
  // before the end.
  const int64_t first = floor_div(start - view.length, view.stride) + 1;
  const int64_t last = floor_div(start + length - 1, view.stride);
  const int64_t low = first < 0 ? 0 : first;
  const int64_t high = last >= view.rows ? view.rows - 1 : last;
  return low <= high;
}

// Row by row beyond this many rows would cost more than the refusal of such views is worth.
constexpr int64_t kMostRows = 1 << 20;

bool intervals_apart(const Intervals &a, const Intervals &b) {
  const int64_t shift = static_cast<int64_t>(b.address - a.address);
  if (a.stride == b.stride) {
    // Only the difference of the row numbers counts: rows of a against one long comb of b's positions.
    const Intervals comb = {0, a.length, a.rows + b.rows - 1, a.stride};
    return !row_meets(comb, shift + (b.rows - 1) * b.stride, b.length);
  }
  const Intervals &few = a.rows < b.rows ? a : b;
  const Intervals &many = a.rows < b.rows ? b : a;
  if (few.rows > kMostRows) return false;
  const int64_t offset = static_cast<int64_t>(few.address - many.address);
  for (int64_t row = 0; row < few.rows; ++row)
    if (row_meets(many, offset + row * few.stride, few.length)) return false;
  return true;
}

// Elements of both views lie on grids of one spacing: apart if the grids never touch.
bool grids_apart(const Footprint &a, const Footprint &b) {
  int64_t spacing = 0;
  for (int32_t d = 0; d < a.ndim; ++d) spacing = gcd(a.strides[d], spacing);
  for (int32_t d = 0; d < b.ndim; ++d) spacing = gcd(b.strides[d], spacing);
  if (spacing == 0) return false;
  int64_t phase = static_cast<int64_t>(b.address - a.address) % spacing;
  if (phase < 0) phase += spacing;
  return phase >= a.item && phase + b.item <= spacing;
}

}  // namespace

bool overlaps_itself(const Footprint &view) {
  for (int32_t d = 0; d < view.ndim; ++d)
    if (view.shape[d] > 1 && view.strides[d] == 0) return true;
  const Footprint flat = normalised(view);
  bool nested = true;
  int64_t inner = flat.item;
  for (int32_t d = 0; d < flat.ndim; ++d) {
    if (flat.strides[d] < inner) nested = false;
    inner = flat.strides[d] * (flat.shape[d] - 1) + inner;
  }
  if (nested) return false;
  if (flat.ndim != 2) return true;
  // Two dimensions, strides in whole elements: i.s0 + j.s1 = 0 has its smallest solution at (s1, -s0) / gcd.
  const int64_t common = gcd(flat.strides[0], flat.strides[1]);
  return common < flat.item || (flat.strides[1] / common < flat.shape[0] && flat.strides[0] / common < flat.shape[1]);
}

bool overlap(const Footprint &a, const Footprint &b) {
  if (a.end() <= b.lowest() || b.end() <= a.lowest()) return false;
  const Footprint flat_a = normalised(a), flat_b = normalised(b);
  if (grids_apart(flat_a, flat_b)) return false;
  Intervals rows_a, rows_b;
  if (!as_intervals(flat_a, &rows_a) || !as_intervals(flat_b, &rows_b)) return true;
  return !intervals_apart(rows_a, rows_b);
}

}  // namespace dxdw
