// The table of SIMD kernels. kernels.cpp is compiled once per level into one such table; levels.cpp picks one at load.
#pragma once

#include <stdint.h>

#include "dtype.hpp"
#include "numbers.hpp"

namespace dxdw {
namespace cpu {

// Lines (rows of A, columns of B) along the contraction; strides in elements.
struct Lines {
  const char *data;
  DType type;
  int64_t count, depth;
  int64_t line_stride, depth_stride;
};

// What a micro-kernel works on; strides in elements. A: element (r, k) at a + r * a_line + k * a_depth. B: row k at b +
// k * b_depth. In 32-bit units: one float, or one pair of bfloat16 (then k counts pairs).
struct Tile {
  const float *a;
  int64_t a_line, a_depth;
  const float *b;
  int64_t b_depth;
  int64_t depth;
  // C = product, or from + product, rounded once to c_type. Rows side by side; `from` may be C itself when that is
  // float32.
  char *c;
  int64_t c_stride;
  DType c_type;
  const float *from;  // NULL: nothing is added
  int64_t from_stride;
  int32_t rows, cols;  // at most mr, nr of one of the shapes
  // So many tiles one below the other, all with as many rows: C and `from` go on below the tile before, A that much
  // further, by turns.
  int32_t count;
  int64_t a_below[2];
  // Where the tile behind these will be, with as many rows, or NULL: it is asked for, to be written. So is that of each
  // but the last of `count`.
  char *next_c;
  // C goes past the caches, with stores that want whole aligned vectors. Follow it with fence().
  bool stream;
  // Where B is in panels, memory to be asked for meanwhile, so many bytes further at each step of depth of each tile.
  const char *ahead;
  int64_t ahead_step;
};

// Elementwise work on elements side by side, all of one type: out may be a or b.
struct Stretch {
  const void *a, *b;  // b where the function has two operands
  void *out;
  int64_t count;
  bool stream;  // out goes past the caches: follow it with fence()
  float numbers[3];
  DType type = DType::f32;
};

enum ElementwiseKernel {
  kAdd,
  kRelu,
  kReluBackward,
  kGelu,
  kGeluBackward,
  kScaledDifference,  // numbers[0] . (a - b)
  kScaledExp,         // numbers[2] . (e^(a - numbers[0]) . numbers[1])
  kElementwiseKernels
};

// A step of an optimizer on floats side by side.
struct StepStretch {
  float *p;
  const float *g;
  float *state[2];  // velocity, which may be NULL; m and v
  int64_t count;
  float scale;  // of g
  SgdNumbers sgd;
  AdamWNumbers adamw;
};

// How many rows a weighted sum's backward walks side by side: w and the sums of gw are read once for all of them, and each
// row is a stream of its own. Many are eight of float32, four of 16 bits.
enum class Abreast { one, two, many };

// A shape of micro-tiles, and what packs for it.
struct TileShape {
  int32_t mr, nr;   // rows and columns
  int32_t a_lines;  // of a panel of A: rows of one tile, or of two
  // Panels of a_lines or nr lines, [panel][depth][a_lines or nr] floats, lines beyond count filled with zeros.
  void (*pack_a)(const Lines &lines, float *out);
  void (*pack_b)(const Lines &lines, float *out);
  // The same in pairs of bfloat16 along the contraction, [panel][ceil(depth / 2)][a_lines or nr].
  void (*pack_a_pairs)(const Lines &lines, float *out);
  void (*pack_b_pairs)(const Lines &lines, float *out);
};

struct Kernels {
  const char *name;
  bool fused;       // multiply-add rounds once
  bool bf16_pairs;  // the pair kernels exist

  // Wide tiles are for more columns than tall ones have. On some levels they are no others.
  TileShape tall, wide;

  // Micro-kernels by where operands are, for tall tiles where not said otherwise. In panels: a_line = 1 and a_depth =
  // a_lines, or b_depth = nr, are taken for granted. B in place: rows contiguous, and readable in the tile's own columns
  // only.
  void (*tile)(const Tile &tile);          // both in panels
  void (*tile_any_a)(const Tile &tile);    // A anywhere, B in panels
  void (*tile_wide)(const Tile &tile);     // the same, wide
  void (*tile_near_ab)(const Tile &tile);  // A with a_line = 1, B in place
  void (*tile_any_ab)(const Tile &tile);   // A anywhere, B in place
  // The same for pairs; B in place is two rows of bfloat16 at each step.
  void (*tile_pairs)(const Tile &tile);
  void (*tile_pairs_any_a)(const Tile &tile);
  void (*tile_pairs_wide)(const Tile &tile);
  void (*tile_pairs_near_ab)(const Tile &tile);

  // rows x cols elements between any two types and strides, one rounding; the same type moves bits.
  void (*convert)(const char *source, DType from, int64_t source_row, int64_t source_col, char *destination, DType to,
                  int64_t destination_row, int64_t destination_col, int64_t rows, int64_t cols);
  // out[i] (+)= sum over s of partials[s * split_stride + i], in order; contiguous.
  void (*reduce)(const float *partials, int64_t split, int64_t split_stride, float *out, int64_t count, bool add);
  // Sum of x[d] * w[d] over contiguous w, x of any type and stride. Memory at `ahead` is asked for meanwhile, as many
  // bytes as x has.
  float (*dot)(const char *x, DType type, int64_t stride, const float *w, int64_t count, const char *ahead);
  // The same for so many rows, each so many bytes behind the one before.
  void (*dots)(const char *x, int64_t x_bytes, DType type, int64_t stride, const float *w, int64_t count, int64_t rows,
               float *sums);
  // sums[d] += x[d] * g for contiguous sums; `ahead` as above.
  void (*add_scaled)(const char *x, DType type, int64_t stride, float g, float *sums, int64_t count, const char *ahead);
  // out[d] = g * w[d], or out[d] = out[d] + g * w[d]. `stream`: the output is too large to be worth a place in the
  // cache.
  void (*scale)(const float *w, float g, char *out, DType type, int64_t stride, int64_t count, bool add, bool stream);
  // scale and add_scaled in one pass over rows so many bytes apart, for an x and a gx of one type with features side by
  // side. gx = NULL: add_scaled alone.
  void (*scale_and_add)(const char *x, int64_t x_bytes, DType type, const float *w, const float *g, char *gx,
                        int64_t gx_bytes, float *sums, int64_t count, int64_t rows, Abreast abreast, bool stream);
  void (*elementwise[kElementwiseKernels])(const Stretch &stretch);
  // The largest of count floats, NaN passed over or not; sums of e^(a - most), (a - b)^2 and a^2.
  float (*largest)(const float *a, int64_t count);
  float (*exp_sum)(const float *a, float most, int64_t count);
  float (*squared_distance)(const float *a, const float *b, int64_t count);
  float (*squared_sum)(const float *a, int64_t count);
  void (*sgd)(const StepStretch &stretch);
  void (*adamw)(const StepStretch &stretch);
  // Orders streamed stores before whatever tells another thread that they are done.
  void (*fence)();
};

// The table for this machine, capped by DXDW_SIMD; chosen once.
const Kernels &kernels();

}  // namespace cpu
}  // namespace dxdw
