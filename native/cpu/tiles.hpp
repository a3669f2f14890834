// Operands that have their dimensions in common, walked in small tiles: where an operand's floats stand side by side a
// tile is used in place, else by way of a buffer in the first-level cache, converted on the way.
#pragma once

#include <algorithm>

#include "arithmetic.hpp"
#include "cpu.hpp"
#include "kernels.hpp"
#include "problem.hpp"
#include "threads.hpp"

namespace dxdw {
namespace cpu {

constexpr int64_t kTile = 1024;                // elements
constexpr int64_t kElementsPerTask = 1 << 15;  // that are worth a task of their own

// A part of the last two dimensions, at one place of the others.
struct Tile2 {
  int64_t outer, row, col;  // where it begins
  int64_t rows, cols;

  int64_t count() const { return rows * cols; }
};

class Tiles {
 public:
  explicit Tiles(const Rows &grid) : grid_(grid) {
    cols_ = grid.shape[grid.ndim - 1];
    rows_ = grid.ndim > 1 ? grid.shape[grid.ndim - 2] : 1;
    tile_cols_ = std::min(cols_, kTile);
    tile_rows_ = std::min(rows_, kTile / tile_cols_);
    across_ = ceil_div(cols_, tile_cols_);
    down_ = ceil_div(rows_, tile_rows_);
    count_ = grid.count / (rows_ * cols_) * down_ * across_;
  }

  int64_t count() const { return count_; }
  int64_t per_task() const { return std::max<int64_t>(1, kElementsPerTask / (tile_rows_ * tile_cols_)); }

  Tile2 at(int64_t index) const {
    Tile2 tile;
    tile.col = index % across_ * tile_cols_;
    index /= across_;
    tile.row = index % down_ * tile_rows_;
    tile.outer = index / down_;
    tile.rows = std::min(tile_rows_, rows_ - tile.row);
    tile.cols = std::min(tile_cols_, cols_ - tile.col);
    return tile;
  }

  int64_t col_stride(const RowsView &view) const { return view.row_strides[grid_.ndim - 1]; }
  int64_t row_stride(const RowsView &view) const { return grid_.ndim > 1 ? view.row_strides[grid_.ndim - 2] : 0; }

  char *address(const RowsView &view, const Tile2 &tile) const {
    int64_t offset = tile.col * col_stride(view) + tile.row * row_stride(view), rest = tile.outer;
    for (int32_t d = grid_.ndim - 3; d >= 0; --d) {
      offset += rest % grid_.shape[d] * view.row_strides[d];
      rest /= grid_.shape[d];
    }
    return view.data + offset * size_of(view.type);
  }

  bool side_by_side(const RowsView &view, const Tile2 &tile) const {
    return (tile.cols == 1 || col_stride(view) == 1) && (tile.rows == 1 || row_stride(view) == tile.cols);
  }

  // May a kernel use the operand's own memory as floats side by side?
  bool in_place(const RowsView &view, const Tile2 &tile) const {
    return view.type == DType::f32 && side_by_side(view, tile);
  }

  // The tile as floats side by side: the operand's own, or `buffer`, which then gets them.
  float *load(const RowsView &view, const Tile2 &tile, float *buffer) const {
    char *const from = address(view, tile);
    if (in_place(view, tile)) return reinterpret_cast<float *>(from);
    if (tile.count() > 1 && col_stride(view) == 0 && row_stride(view) == 0) {
      convert(from, view.type, 1, reinterpret_cast<char *>(buffer), DType::f32, 1, 1);
      std::fill(buffer + 1, buffer + tile.count(), buffer[0]);
      return buffer;
    }
    kernels().convert(from, view.type, row_stride(view), col_stride(view), reinterpret_cast<char *>(buffer), DType::f32,
                      tile.cols, 1, tile.rows, tile.cols);
    return buffer;
  }

  // Where a kernel may leave the tile's floats for store() to take.
  float *room(const RowsView &view, const Tile2 &tile, float *buffer) const {
    return in_place(view, tile) ? reinterpret_cast<float *>(address(view, tile)) : buffer;
  }

  void store(const RowsView &view, const Tile2 &tile, const float *floats) const {
    char *const to = address(view, tile);
    if (reinterpret_cast<const char *>(floats) == to) return;
    kernels().convert(reinterpret_cast<const char *>(floats), DType::f32, tile.cols, 1, to, view.type, row_stride(view),
                      col_stride(view), tile.rows, tile.cols);
  }

 private:
  const Rows &grid_;
  int64_t rows_, cols_, tile_rows_, tile_cols_, across_, down_, count_;
};

inline int32_t threads_for_elements(int64_t count) {
  return static_cast<int32_t>(std::max<int64_t>(1, std::min<int64_t>(threads(), count / kElementsPerTask)));
}

}  // namespace cpu
}  // namespace dxdw
