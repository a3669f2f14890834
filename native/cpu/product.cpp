// C = A . B, or C += A . B, with any strides and types.
//
// A and B are packed into panels of as many lines as a micro-tile has, unless a micro-kernel can read them where they
// are. The contraction is cut into blocks of DXDW_CPU_BLOCK; C gathers block after block, in place where it is float32
// with rows side by side, else in a scratch tile. A row or column of C sees the same operations in the same order
// wherever its tile lies and whatever thread computes it, so neither the number of threads nor the other sizes show in
// the bits.
//
// Work is done in phases: pack the B of a step, compute the C of that step, pack the B of the next step, ...
#include "product.hpp"

#include <stdio.h>
#include <string.h>

#include <algorithm>

#include "arithmetic.hpp"
#include "counters.hpp"
#include "cpu.hpp"
#include "scratch.hpp"
#include "threads.hpp"

namespace dxdw {
namespace cpu {

namespace {

constexpr int64_t kBlock = DXDW_CPU_BLOCK;
// Rows of A that are packed at a time: with kBlock floats each they take a quarter of a 1 MiB second-level cache.
constexpr int64_t kPackedRows = 112;
// Columns of C that a scratch tile has.
constexpr int64_t kScratchCols = 512;
// Packed B of one step, and the columns below which a step does not shrink to meet that.
constexpr int64_t kPackedBytes = 8 << 20;
constexpr int64_t kStepCols = 1024;
// A block of B that packed takes no more than this is packed, and used, while it is in the second-level cache: so much
// for each thread.
constexpr int64_t kStepBytes = 512 << 10;
// Below so many multiply-adds a thread more costs more than it brings.
constexpr int64_t kWorkPerThread = 1 << 18;
// What it may cost that each thread packs all of A, for its own columns.
constexpr double kPackedAgain = 1.02;
// Rows of A in place need not fit a cache: so many multiply-adds a task, of so many rows at most.
constexpr int64_t kWorkPerTask = 1 << 20, kMostRows = 1024;
// An operand is worth packing when each of its elements is used by more micro-tiles than this. Pairs of a B in place are
// made anew for each.
constexpr int64_t kDirectUses = 32, kDirectUsesOfPairs = 8;
// The same of B where its rows meet in one set of the first-level cache.
constexpr int64_t kDirectUsesColliding = 8;
// The same of A where neither its rows nor its steps stand side by side, or where its steps meet in one set of the
// first-level cache, which few may.
constexpr int64_t kDirectUsesApart = 1;
constexpr int64_t kFewSteps = 256;
// The same where both have the contraction outermost, as dW's operands do: so many micro-tiles down and across.
constexpr int64_t kNearRowUses = 40, kNearColUses = 16;
// Micro-tiles' worth of rows that a task then has at least.
constexpr int64_t kEvenTiles = 2;
// Rows that then pass over a block of B at a time: B is read anew for each such part.
constexpr int64_t kNearRows = 256;
// C from this size on goes past the caches, when it is written once.
constexpr int64_t kStreamBytes = 8 << 20;
// Vectors in a row of a micro-tile, on every level.
constexpr int64_t kVectorsPerTile = 2;
// C with fewer columns is computed transposed.
constexpr int64_t kThinCols = 8;
// Packed B up to this size stays in the second-level cache while all rows of A pass by.
constexpr int64_t kCachedBytes = 384 << 10;
// Addresses so far apart meet in one set of the first-level cache.
constexpr int64_t kWayBytes = 4096;
// Rows of a micro-tile that may do so and still stay there.
constexpr int64_t kCollidingRows = 8;
// Rows of A that stay near, if not in the first-level cache, while the panels of B pass by.
constexpr int64_t kTallBytes = 56 << 10;

// How slices of T come together.
enum class Finish { direct, scratch, atomic };

// One product without split, and how it is cut.
struct Blocks {
  Matrix a, b, c;
  bool add;
  bool pairs;  // packed as pairs of bfloat16
  bool a_direct, b_direct;
  bool rows_side_by_side;  // in C
  bool stream;             // C is assigned once, and too large to be worth a place in the caches
  Finish finish;
  const TileShape *shape;  // of micro-tiles
  int64_t tile_rows;       // that they have here, at most shape->mr
  int64_t row_panels, col_panels, depth_blocks;
  // Steps: chunks of columns times chunks of the contraction; in a step, rows and columns are cut into compute tasks.
  int64_t step_panels, step_blocks;
  int64_t row_tasks, col_tasks;
  bool even_rows;      // tasks have equal numbers of rows, not of whole micro-tiles
  int64_t pack_group;  // (panel, block) pairs of B that one pack task takes

  int64_t units(int64_t depth) const { return pairs ? (depth + 1) / 2 : depth; }
  // Bytes of one packed panel of B over a full block.
  int64_t panel_bytes() const { return shape->nr * units(kBlock) * 4; }
  int64_t pack_tasks(int64_t panels, int64_t blocks) const {
    return b_direct ? 0 : ceil_div(panels * blocks, pack_group);
  }
  // With one block of the contraction a scratch tile is as small as the micro-tile.
  bool by_tile() const { return finish != Finish::direct && depth_blocks == 1; }
  int64_t compute_tasks() const { return row_tasks * col_tasks; }
  // Where the rows of a task begin.
  int64_t first_row(int64_t task) const {
    return even_rows ? c.rows * task / row_tasks : std::min(c.rows, row_panels * task / row_tasks * tile_rows);
  }
  // Micro-tiles below one another that a task has at most.
  int64_t panels_per_task() const {
    return even_rows ? ceil_div(ceil_div(c.rows, row_tasks), tile_rows) : ceil_div(row_panels, row_tasks);
  }
  // Regions of scratch, guards included.
  uint64_t packed_b_bytes() const {
    return b_direct ? 0 : with_guard(static_cast<uint64_t>(step_panels * step_blocks * panel_bytes()));
  }
  uint64_t packed_a_bytes() const {
    const int64_t lines = ceil_div(panels_per_task() * shape->mr, shape->a_lines) * shape->a_lines;
    return a_direct ? 0 : with_guard(static_cast<uint64_t>(lines * units(kBlock) * 4));
  }
  uint64_t tile_bytes() const {
    if (finish == Finish::direct) return 0;
    if (by_tile()) return with_guard(static_cast<uint64_t>(shape->mr * shape->nr * 4));
    const int64_t rows = panels_per_task() * shape->mr, cols = ceil_div(step_panels, col_tasks) * shape->nr;
    return with_guard(static_cast<uint64_t>(rows * cols * 4));
  }
  // What each thread needs for itself.
  uint64_t slot_bytes() const { return packed_a_bytes() + tile_bytes(); }
};

// Computing the transposed product instead costs nothing: it swaps strides. It pays where C's unit stride is that of
// its rows, for the micro-kernel writes rows that stand side by side itself; and where C is thin, for vectors run along
// the columns.
bool should_turn(const Matrix &a, const Matrix &c) {
  const bool as_is = c.col_stride == 1 || c.cols == 1, turned = c.row_stride == 1 || c.rows == 1;
  if (c.rows > c.cols && c.cols < kThinCols) return true;
  // Long and thin: read the wide operand in whole rows.
  if (c.rows > 2 * c.cols && c.cols <= kernels().tall.nr && a.row_stride == 1 && a.cols >= kBlock) return true;
  return turned && !as_is;
}

// May the micro-kernel take B's rows, of floats or of pairs, from where they are?
bool b_readable_in_place(const Blocks &s) {
  return (s.pairs ? s.b.rows % 2 == 0 : s.b.type == DType::f32) && (s.b.col_stride == 1 || s.b.cols == 1);
}

// Do rows, or steps, that are so far apart meet in one set of the first-level cache?
bool collide(const Matrix &m, int64_t stride) { return stride != 0 && stride * size_of(m.type) % kWayBytes == 0; }

// By how many micro-tiles each of A's elements may be used in place before packing pays.
int64_t uses_in_place(const Matrix &a) {
  const bool far_apart = a.row_stride != 1 && a.col_stride != 1;
  const bool steps_collide = collide(a, a.col_stride) && a.cols > kFewSteps;
  return far_apart || steps_collide ? kDirectUsesApart : kDirectUses;
}

// May it take A's elements from there? Not pairs beside a B in place, for which there is no micro-kernel.
bool a_readable_in_place(const Blocks &s) {
  if (s.pairs) return !s.b_direct && s.a.col_stride == 1 && s.a.row_stride % 2 == 0 && s.a.cols % 2 == 0;
  return s.a.type == DType::f32;
}

// How much longer than with equal parts it takes threads that share so many panels.
double unevenness(int64_t panels, int32_t threads) {
  return static_cast<double>(ceil_div(panels, threads) * threads) / static_cast<double>(panels);
}

Blocks cut(const Product &p, Finish split_finish, int32_t threads) {
  const Kernels &k = kernels();
  Blocks s;
  s.a = p.a;
  s.b = p.b;
  s.c = p.c;
  s.add = p.add;
  if (should_turn(p.a, p.c)) {
    s.a = p.b.transposed();
    s.b = p.a.transposed();
    s.c = p.c.transposed();
  }
  s.pairs = k.bf16_pairs && p.a.type == DType::bf16 && p.precision != DXDW_PRECISION_EXACT;
  s.depth_blocks = std::max<int64_t>(1, ceil_div(p.contraction(), kBlock));
  s.rows_side_by_side = s.c.col_stride == 1 || s.c.cols == 1;
  s.finish = split_finish;
  // A micro-kernel can write C itself unless sums must rest between blocks in more than C's 16 bits.
  const bool rests_in_c = s.c.type == DType::f32 || (s.depth_blocks == 1 && !s.add);
  if (split_finish == Finish::direct && !(s.rows_side_by_side && rests_in_c)) s.finish = Finish::scratch;
  const int64_t alignment = k.tall.nr / kVectorsPerTile * 4;  // of a vector of floats or of two halves
  s.stream = s.finish == Finish::direct && s.depth_blocks == 1 && !s.add &&
             s.c.rows * s.c.cols * size_of(s.c.type) >= kStreamBytes &&
             reinterpret_cast<uint64_t>(s.c.data) % static_cast<uint64_t>(alignment) == 0 &&
             s.c.row_stride * size_of(s.c.type) % alignment == 0;
  const int64_t tiles_down = ceil_div(s.c.rows, k.tall.mr), tiles_across = ceil_div(s.c.cols, k.tall.nr);
  const bool few = tiles_down <= kNearRowUses && tiles_across <= kNearColUses && s.a.row_stride == 1;
  const int64_t uses_of_b = collide(s.b, s.b.row_stride) ? kDirectUsesColliding
                            : s.pairs                    ? kDirectUsesOfPairs
                                                         : kDirectUses;
  s.b_direct = false;
  // Where one operand of pairs has to be packed, it is the smaller one.
  const bool a_stays = s.pairs && s.c.rows > s.c.cols && a_readable_in_place(s) && tiles_across <= uses_in_place(s.a);
  s.b_direct = b_readable_in_place(s) && (few || (tiles_down <= uses_of_b && !a_stays));
  s.shape = !s.b_direct && tiles_across > 1 && k.wide.nr > k.tall.nr ? &k.wide : &k.tall;
  s.col_panels = ceil_div(s.c.cols, s.shape->nr);
  s.a_direct = a_readable_in_place(s) && ((few && s.b_direct) || s.col_panels <= uses_in_place(s.a));
  // A micro-tile in place may have any height up to mr: equal ones waste the least.
  const int64_t most_rows = collide(s.a, s.a.row_stride) ? std::min<int64_t>(s.shape->mr, kCollidingRows) : s.shape->mr;
  s.tile_rows = s.a_direct ? ceil_div(s.c.rows, ceil_div(s.c.rows, most_rows)) : s.shape->mr;
  s.row_panels = ceil_div(s.c.rows, s.tile_rows);

  // Steps. A scratch tile must see the whole contraction within one step, so its columns give way; else the contraction
  // does.
  s.step_blocks = s.depth_blocks;
  s.step_panels = s.col_panels;
  if (!s.b_direct) {
    const int64_t fit = std::max<int64_t>(1, kPackedBytes / s.panel_bytes());
    const bool in_place = s.finish == Finish::direct;
    s.step_panels =
        std::min(s.step_panels, std::max<int64_t>(fit / s.step_blocks, in_place ? kStepCols / s.shape->nr : 1));
    const int64_t near = s.step_panels * s.panel_bytes() <= kStepBytes ? kStepBytes * threads / s.panel_bytes() : fit;
    if (in_place) s.step_blocks = std::min(s.step_blocks, std::max<int64_t>(1, std::min(fit, near) / s.step_panels));
  }

  // Tasks: rows first, in equal parts that fit the cache; columns too where rows are few, or can't be shared evenly.
  const int64_t worth_a_task = kWorkPerTask / std::max<int64_t>(1, s.c.cols * std::min(kBlock, p.contraction()));
  const int64_t part_rows = few && s.b_direct ? kNearRows
                            : s.a_direct      ? std::max(kPackedRows, std::min(kMostRows, worth_a_task))
                                              : kPackedRows;
  const int64_t row_parts = ceil_div(s.c.rows, part_rows);
  const int64_t enough = threads == 1 ? 1 : 2 * threads;
  const bool by_rows = unevenness(s.row_panels, threads) <= kPackedAgain * unevenness(s.step_panels, threads);
  s.row_tasks = std::min(s.row_panels, by_rows ? ceil_div(row_parts, threads) * threads : row_parts);
  s.col_tasks = by_rows ? 1 : std::min<int64_t>(s.step_panels, threads);
  if (s.finish != Finish::direct)
    s.col_tasks = std::max(s.col_tasks, ceil_div(s.step_panels, kScratchCols / s.shape->nr));
  // What tasks across would each pack anew is shared by rows alone, as long as each has some micro-tiles.
  s.even_rows = threads > 1 && few && s.b_direct && !s.a_direct;
  if (s.even_rows) {
    s.row_tasks = std::max(row_parts, std::min(enough, s.c.rows / (kEvenTiles * s.shape->mr)));
    s.col_tasks = 1;
  }
  if (s.row_tasks * s.col_tasks < enough)
    s.col_tasks = std::max(s.col_tasks, std::min(s.step_panels, ceil_div(enough, s.row_tasks)));
  s.pack_group = std::max<int64_t>(1, std::min<int64_t>(8, s.step_panels * s.step_blocks / (4 * threads)));
  return s;
}

// ---- Scratch tiles: from and to C of any type and strides ----

// C = scratch or scratch = C: as many rows and columns as C has.
void load_tile(const Matrix &c, const Matrix &scratch) {
  kernels().convert(c.data, c.type, c.row_stride, c.col_stride, scratch.data, DType::f32, scratch.row_stride, 1, c.rows,
                    c.cols);
}

void store_tile(const Matrix &c, const Matrix &scratch) {
  kernels().convert(scratch.data, DType::f32, scratch.row_stride, 1, c.data, c.type, c.row_stride, c.col_stride, c.rows,
                    c.cols);
}

void add_tile_atomically(const Matrix &c, const Matrix &scratch) {
  for (int64_t r = 0; r < c.rows; ++r)
    for (int64_t n = 0; n < c.cols; ++n) {
      uint32_t *place = reinterpret_cast<uint32_t *>(c.at(r, n));
      const float addend = *reinterpret_cast<const float *>(scratch.at(r, n));
      uint32_t before = __atomic_load_n(place, __ATOMIC_RELAXED), after;
      do {
        float sum;
        memcpy(&sum, &before, sizeof sum);
        sum += addend;
        memcpy(&after, &sum, sizeof after);
      } while (!__atomic_compare_exchange_n(place, &before, after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    }
}

// ---- Running ----

// A run of one Blocks: what its tasks share.
struct Run {
  Blocks s;
  char *packed_b;
  char *slots;
};

Lines lines_of_a(const Blocks &s, int64_t row, int64_t rows, int64_t k, int64_t depth) {
  return {s.a.at(row, k), s.a.type, rows, depth, s.a.row_stride, s.a.col_stride};
}

Lines lines_of_b(const Blocks &s, int64_t col, int64_t cols, int64_t k, int64_t depth) {
  return {s.b.at(k, col), s.b.type, cols, depth, s.b.col_stride, s.b.row_stride};
}

// A step: columns from panel `col` on, contraction from block `block` on.
struct Step {
  int64_t col, panels, block, blocks;
};

Step step_at(const Blocks &s, int64_t col, int64_t block) {
  return {col, std::min(s.step_panels, s.col_panels - col), block, std::min(s.step_blocks, s.depth_blocks - block)};
}

int64_t depth_of_block(const Blocks &s, int64_t block) { return std::min(kBlock, s.a.cols - block * kBlock); }

// Panels of a block stand close together, blocks at full size: only the last may be shorter.
float *packed_panel(const Run &run, const Step &step, int64_t panel, int64_t block) {
  const int64_t panel_floats = run.s.shape->nr * run.s.units(depth_of_block(run.s, step.block + block));
  char *const start = run.packed_b + block * step.panels * run.s.panel_bytes();
  return reinterpret_cast<float *>(start) + panel * panel_floats;
}

void pack_b(const Run &run, const Step &step, int64_t task) {
  const Blocks &s = run.s;
  const int64_t end = std::min(step.panels * step.blocks, (task + 1) * s.pack_group);
  for (int64_t i = task * s.pack_group; i < end;) {
    const int64_t panel = i % step.panels, block = i / step.panels;
    const int64_t panels = std::min(end - i, step.panels - panel);
    const int64_t col = (step.col + panel) * s.shape->nr,
                  cols = std::min<int64_t>(panels * s.shape->nr, s.c.cols - col);
    const int64_t at = (step.block + block) * kBlock;
    const Lines lines = lines_of_b(s, col, cols, at, depth_of_block(s, step.block + block));
    (s.pairs ? s.shape->pack_b_pairs : s.shape->pack_b)(lines, packed_panel(run, step, panel, block));
    i += panels;
  }
}

// The part of C that one compute task owns in one step.
struct Part {
  int64_t first_row, col_from, col_to;  // col within the step, in panels
  Matrix target;                        // in C
  Matrix into;                          // where micro-kernels write: target itself or scratch
};

// From C to scratch, before anything is added there.
void begin(const Blocks &s, const Matrix &target, const Matrix &into) {
  if (s.add && s.finish == Finish::scratch) load_tile(target, into);
}

// From scratch to C, once; the last micro-kernel may have done so itself.
void end(const Blocks &s, const Matrix &target, const Matrix &into) {
  if (s.finish == Finish::scratch && !s.rows_side_by_side) store_tile(target, into);
  if (s.finish == Finish::atomic) add_tile_atomically(target, into);
}

void (*micro_of(const Blocks &s))(const Tile &) {
  const Kernels &k = kernels();
  if (s.shape == &k.wide) return s.pairs ? k.tile_pairs_wide : k.tile_wide;
  if (s.pairs) return s.b_direct ? k.tile_pairs_near_ab : s.a_direct ? k.tile_pairs_any_a : k.tile_pairs;
  if (!s.b_direct) return s.a_direct ? k.tile_any_a : k.tile;
  return !s.a_direct || s.a.row_stride == 1 ? k.tile_near_ab : k.tile_any_ab;
}

// All micro-tiles of a part over one block of the contraction.
void compute_block(const Run &run, const Step &step, const Part &part, int64_t block, float *packed_a) {
  const Blocks &s = run.s;
  const TileShape &shape = *s.shape;
  const int64_t at = (step.block + block) * kBlock, depth = depth_of_block(s, step.block + block);
  const int64_t first_row = part.first_row, first_col = (step.col + part.col_from) * shape.nr;
  const int64_t rows = part.target.rows, cols = part.target.cols;
  const int64_t row_panels = ceil_div(rows, s.tile_rows), col_panels = part.col_to - part.col_from;
  void (*const micro)(const Tile &) = micro_of(s);
  if (!s.a_direct) (s.pairs ? shape.pack_a_pairs : shape.pack_a)(lines_of_a(s, first_row, rows, at, depth), packed_a);
  Tile tile;
  tile.depth = s.units(depth);
  const bool adds = step.block + block > 0 || (s.add && s.finish != Finish::atomic);
  const bool ends = s.finish == Finish::scratch && s.rows_side_by_side && block == step.blocks - 1;
  const Matrix &to = ends ? part.target : part.into;
  tile.c_stride = to.row_stride;
  tile.c_type = to.type;
  tile.from_stride = part.into.row_stride;
  // In 32-bit units: a pair is one.
  const int64_t unit = s.pairs ? 2 : 1;
  tile.a_line = !s.a_direct ? 1 : s.a.row_stride / unit;
  tile.a_depth = !s.a_direct ? shape.a_lines : s.pairs ? 1 : s.a.col_stride;
  const bool two_a_panel = !s.a_direct && shape.a_lines != shape.mr;
  tile.a_below[0] = s.a_direct ? s.tile_rows * tile.a_line : two_a_panel ? shape.mr : shape.a_lines * tile.depth;
  tile.a_below[1] = two_a_panel ? shape.a_lines * tile.depth - shape.mr : tile.a_below[0];
  tile.b_depth = s.b_direct ? s.b.row_stride : shape.nr;
  // The inner loop runs over the operand that the caches hold.
  const bool rows_outside = col_panels * s.panel_bytes() * depth / kBlock <= kCachedBytes;
  tile.stream = s.stream;
  // Rows of A in place that follow one another without gaps are asked for early.
  const int64_t steps = std::max<int64_t>(1, tile.depth);
  const int64_t row_bytes = s.a.row_stride * size_of(s.a.type);
  const bool next_rows = s.a_direct && rows_outside && s.a.col_stride == 1 && s.a.row_stride == depth;
  const int64_t next_rows_step = ceil_div(s.tile_rows * row_bytes, steps);
  // Each tile asks for its share of the panel of B that follows.
  const bool next_panel = !s.a_direct && !s.b_direct && !rows_outside;
  const int64_t share = ceil_div(shape.nr * tile.depth * 4, row_panels), share_step = ceil_div(share, steps);
  // Tiles below one another are one call, for a short tile takes hardly longer than a call: all of them where rows are
  // inside, else as many as leave their rows of A near. A scratch tile serves one at a time.
  const int64_t fit = std::max<int64_t>(1, kTallBytes / (s.tile_rows * steps * 4));
  // In twos where a panel has the rows of two.
  const int64_t group = s.by_tile() ? 1 : rows_outside ? std::min((fit + 1) / 2 * 2, row_panels) : row_panels;
  const int64_t whole = rows / s.tile_rows;
  for (int64_t above = 0; above < row_panels; above += group)
    for (int64_t q = 0; q < col_panels; ++q) {
      const int64_t below = std::min(row_panels, above + group), col = q * shape.nr;
      const bool last_panel = q + 1 == col_panels;
      for (int64_t r = above; r < below; r += tile.count) {
        const int64_t row = r * s.tile_rows;
        tile.count = static_cast<int32_t>(r < whole ? std::min(below, whole) - r : 1);
        tile.rows = static_cast<int32_t>(std::min(s.tile_rows, rows - row));
        tile.cols = static_cast<int32_t>(std::min<int64_t>(shape.nr, cols - col));
        tile.a = s.a_direct ? reinterpret_cast<const float *>(s.a.at(first_row + row, at))
                            : packed_a + row / shape.a_lines * shape.a_lines * tile.depth + row % shape.a_lines;
        tile.b = s.b_direct ? reinterpret_cast<const float *>(s.b.at(at, first_col + col))
                            : packed_panel(run, step, part.col_from + q, block);
        tile.ahead = reinterpret_cast<const char *>(tile.a);
        tile.ahead_step = 0;
        if (next_panel && (!last_panel || block + 1 < step.blocks)) {
          const int64_t next = last_panel ? 0 : q + 1;
          tile.ahead =
              reinterpret_cast<const char *>(packed_panel(run, step, part.col_from + next, block + last_panel)) +
              r * share;
          tile.ahead_step = share_step;
        } else if (next_rows && q == 0) {
          tile.ahead += s.tile_rows * row_bytes;
          tile.ahead_step = next_rows_step;
        }
        const int64_t next_row = r + tile.count < below ? r + tile.count : last_panel ? below : above;
        const int64_t next_col = r + tile.count < below ? q : last_panel ? 0 : q + 1;
        const bool more = next_row < row_panels && !(s.by_tile() && !ends);
        tile.next_c = more && !tile.stream ? to.at(next_row * s.tile_rows, next_col * shape.nr) : nullptr;
        const float *const from =
            reinterpret_cast<const float *>(s.by_tile() ? part.into.data : part.into.at(row, col));
        tile.from = adds ? from : nullptr;
        tile.c = s.by_tile() && !ends ? part.into.data : to.at(row, col);
        if (!s.by_tile()) {
          micro(tile);
          continue;
        }
        const Matrix target = part.target.block(row, col, tile.rows, tile.cols);
        begin(s, target, part.into);
        micro(tile);
        end(s, target, part.into);
      }
    }
}

void compute(const Run &run, const Step &step, int64_t task, int32_t slot) {
  const Blocks &s = run.s;
  const int64_t row_task = task / s.col_tasks, col_task = task % s.col_tasks;
  Part part;
  part.first_row = s.first_row(row_task);
  part.col_from = step.panels * col_task / s.col_tasks;
  part.col_to = step.panels * (col_task + 1) / s.col_tasks;
  const int64_t nr = s.shape->nr;
  const int64_t row = part.first_row, rows = s.first_row(row_task + 1) - row;
  const int64_t col = (step.col + part.col_from) * nr;
  const int64_t cols = std::min(s.c.cols, (step.col + part.col_to) * nr) - col;
  if (rows <= 0 || cols <= 0) return;
  char *const own = run.slots + static_cast<uint64_t>(slot) * s.slot_bytes();
  part.target = s.c.block(row, col, rows, cols);
  part.into = part.target;
  if (s.finish != Finish::direct) {
    const int64_t stride = s.by_tile() ? nr : (part.col_to - part.col_from) * nr;
    part.into = {own + s.packed_a_bytes(), DType::f32, rows, cols, stride, 1};
  }
  if (!s.by_tile()) begin(s, part.target, part.into);
  for (int64_t block = 0; block < step.blocks; ++block)
    compute_block(run, step, part, block, reinterpret_cast<float *>(own));
  if (!s.by_tile()) end(s, part.target, part.into);
  if (s.stream) kernels().fence();
}

// Each step is a phase that packs, which may have no tasks, and one that computes.
int64_t count_phases(const Blocks &s) {
  return 2 * ceil_div(s.col_panels, s.step_panels) * ceil_div(s.depth_blocks, s.step_blocks);
}

Step step_of_phase(const Blocks &s, int64_t phase) {
  const int64_t step = phase / 2, steps_down = ceil_div(s.depth_blocks, s.step_blocks);
  return step_at(s, step / steps_down * s.step_panels, step % steps_down * s.step_blocks);
}

bool packs(int64_t phase) { return phase % 2 == 0; }

int64_t count_tasks(void *context, int64_t phase) {
  const Blocks &s = static_cast<const Run *>(context)->s;
  if (!packs(phase)) return s.compute_tasks();
  const Step step = step_of_phase(s, phase);
  return s.pack_tasks(step.panels, step.blocks);
}

void run_task(void *context, int64_t phase, int64_t index, int32_t slot) {
  const Run &run = *static_cast<const Run *>(context);
  const Step step = step_of_phase(run.s, phase);
  packs(phase) ? pack_b(run, step, index) : compute(run, step, index, slot);
}

// Slices in turn may cut the same scratch differently, so each run sets its own guards and takes them away.
void set_guards(const Run &run, int32_t threads, bool closed) {
  const Blocks &s = run.s;
  set_guard(run.packed_b, s.packed_b_bytes(), closed);
  for (int32_t slot = 0; slot < threads; ++slot) {
    char *const own = run.slots + static_cast<uint64_t>(slot) * s.slot_bytes();
    set_guard(own, s.packed_a_bytes(), closed);
    set_guard(own + s.packed_a_bytes(), s.tile_bytes(), closed);
  }
}

void run_blocks(const Blocks &s, int32_t threads, char *scratch) {
  count_launch();
  Run run;
  run.s = s;
  run.packed_b = scratch;
  run.slots = scratch + s.packed_b_bytes();
  if (kGuardBytes != 0) set_guards(run, threads, true);
  parallel_phases({count_phases(s), count_tasks, run_task, &run}, threads);
  if (kGuardBytes != 0) set_guards(run, threads, false);
}

uint64_t scratch_bytes(const Blocks &s, int32_t threads) {
  return s.packed_b_bytes() + static_cast<uint64_t>(threads) * s.slot_bytes();
}

int32_t threads_of(const Product &p) {
  // As a double, for the product of three sizes may not fit 64 bits.
  const double work =
      static_cast<double>(p.c.rows) * static_cast<double>(p.c.cols) * static_cast<double>(p.contraction());
  if (work < 2.0 * kWorkPerThread) return 1;
  return static_cast<int32_t>(std::min<double>(threads(), work / kWorkPerThread));
}

// ---- Split over T ----

// Slices of T where the output alone gives too few tasks: outputs up to so many elements, slices of at least so many
// tokens.
constexpr int64_t kStarvedOutput = 160 * 160;
constexpr int64_t kTokensPerSlice = 1024;
constexpr int64_t kMostSlices = 16;

int32_t plan_split(const Product &p) {
  if (p.split != 0) return p.split;
  if (p.c.rows * p.c.cols > kStarvedOutput) return 1;
  return static_cast<int32_t>(std::max<int64_t>(1, std::min(kMostSlices, p.contraction() / kTokensPerSlice)));
}

bool adds_atomically(const Product &p, int32_t split) {
  return split > 1 && !p.deterministic && p.c.type == DType::f32 && p.add;
}

// Slice s of the product, into partial s or, atomically, into C.
Product slice_of(const Product &p, int32_t split, int64_t s, float *partials) {
  const int64_t chunk = ceil_div(p.contraction(), split);
  const int64_t from = std::min(p.contraction(), s * chunk), to = std::min(p.contraction(), from + chunk);
  Product slice = p;
  slice.a = p.a.block(0, from, p.a.rows, to - from);
  slice.b = p.b.block(from, 0, to - from, p.b.cols);
  slice.split = 1;
  if (partials != nullptr) {
    float *partial = partials + s * p.c.rows * p.c.cols;
    slice.c = {reinterpret_cast<char *>(partial), DType::f32, p.c.rows, p.c.cols, p.c.cols, 1};
    slice.add = false;
  }
  return slice;
}

struct Slices {
  const Product *product;
  int32_t split;
  float *partials;  // NULL: atomically into C
  Finish finish;
  char *scratch;
  uint64_t bytes_per_slot;
};

// Scratch that serves every slice: full ones, the shorter one that ends T, and empty ones are cut differently, and a
// shorter one may well need more, as where an odd length keeps pairs from being read in place.
uint64_t bytes_of_any_slice(const Slices &all, int32_t threads) {
  const int64_t tokens = all.product->contraction(), chunk = ceil_div(tokens, all.split);
  uint64_t most = 0;
  for (const int64_t s :
       {int64_t{0}, std::min<int64_t>(all.split - 1, chunk == 0 ? 0 : tokens / chunk), int64_t{all.split} - 1})
    most = std::max(
        most, scratch_bytes(cut(slice_of(*all.product, all.split, s, all.partials), all.finish, threads), threads));
  return most;
}

void run_slice(const Slices &all, int64_t index, int32_t threads, char *scratch) {
  const Blocks s = cut(slice_of(*all.product, all.split, index, all.partials), all.finish, threads);
  run_blocks(s, threads, scratch);
}

void run_slice_task(void *context, int64_t index, int32_t slot) {
  const Slices &all = *static_cast<const Slices *>(context);
  run_slice(all, index, 1, all.scratch + static_cast<uint64_t>(slot) * all.bytes_per_slot);
}

Status run_split(const Product &p, const Plan &plan, const Context &context) {
  const bool atomic = adds_atomically(p, plan.split);
  Scratch own_workspace;
  float *partials = nullptr;
  if (!atomic) {
    if (context.workspace == nullptr && !own_workspace.take(plan.workspace_bytes))
      return out_of_memory(plan.workspace_bytes);
    partials = static_cast<float *>(context.workspace != nullptr ? context.workspace : own_workspace.data());
  }
  Slices slices = {&p, plan.split, partials, atomic ? Finish::atomic : Finish::direct, nullptr, 0};
  // Slices side by side where they are many, else one after the other with all threads on each.
  const bool side_by_side = plan.split >= 2 * plan.threads;
  const int32_t inside = side_by_side ? 1 : plan.threads;
  slices.bytes_per_slot = with_guard(bytes_of_any_slice(slices, inside));
  Scratch scratch;
  const int32_t slots = side_by_side ? plan.threads : 1;
  const uint64_t bytes = slices.bytes_per_slot * static_cast<uint64_t>(slots);
  if (!scratch.take(bytes)) return out_of_memory(bytes);
  slices.scratch = scratch.data();
  for (int32_t slot = 0; slot < slots; ++slot)
    set_guard(slices.scratch + static_cast<uint64_t>(slot) * slices.bytes_per_slot, slices.bytes_per_slot, true);
  if (side_by_side)
    parallel_for(plan.split, plan.threads, run_slice_task, &slices);
  else
    for (int32_t s = 0; s < plan.split; ++s) run_slice(slices, s, inside, scratch.data());
  if (atomic) return DXDW_OK;
  const Matrix first = {reinterpret_cast<char *>(partials), DType::f32, p.c.rows, p.c.cols, p.c.cols, 1};
  run_reduction({first, plan.split, p.c.rows * p.c.cols, p.c, p.add}, plan.threads);
  return DXDW_OK;
}

// ---- Small products: in place, by the caller alone ----

constexpr int64_t kSmall = 32 * 32 * 32;

enum Variant { kVariantBlocks = 0, kVariantSmall = 1 };

bool runs_side_by_side(const Matrix &m) { return m.type == DType::f32 && (m.col_stride == 1 || m.cols == 1); }

bool is_small(const Product &p) {
  return p.split <= 1 && p.a.type == DType::f32 && runs_side_by_side(p.b) && runs_side_by_side(p.c) &&
         p.c.rows <= kSmall && p.c.cols <= kSmall && p.contraction() <= kSmall && p.c.rows * p.c.cols <= kSmall &&
         p.c.rows * p.c.cols * p.contraction() <= kSmall;
}

void run_small(const Product &p) {
  const Kernels &k = kernels();
  count_launch();
  Tile tile;
  tile.a_line = p.a.row_stride;
  tile.a_depth = p.a.col_stride;
  tile.b_depth = p.b.row_stride;
  tile.c_stride = p.c.row_stride;
  tile.c_type = DType::f32;
  tile.count = 1;
  tile.a_below[0] = tile.a_below[1] = 0;
  tile.next_c = nullptr;
  tile.stream = false;
  tile.ahead_step = 0;
  const int64_t height = p.c.rows <= k.tall.mr ? p.c.rows : ceil_div(p.c.rows, ceil_div(p.c.rows, k.tall.mr));
  for (int64_t row = 0; row < p.c.rows; row += height)
    for (int64_t col = 0; col < p.c.cols; col += k.tall.nr) {
      tile.rows = static_cast<int32_t>(std::min(height, p.c.rows - row));
      tile.cols = static_cast<int32_t>(std::min<int64_t>(k.tall.nr, p.c.cols - col));
      tile.c = p.c.at(row, col);
      tile.from_stride = p.c.row_stride;
      tile.from = p.add ? reinterpret_cast<const float *>(tile.c) : nullptr;
      int64_t at = 0;
      do {
        tile.a = reinterpret_cast<const float *>(p.a.at(row, at));
        tile.b = reinterpret_cast<const float *>(p.b.at(at, col));
        tile.depth = std::min(kBlock, p.contraction() - at);
        tile.ahead = reinterpret_cast<const char *>(tile.a);
        k.tile_any_ab(tile);
        tile.from = reinterpret_cast<const float *>(tile.c);
        at += kBlock;
      } while (at < p.contraction());
    }
}

}  // namespace

Plan plan_product(const Product &p) {
  if (is_small(p)) return {1, 1, kVariantSmall, 0, 0};
  Plan plan;
  plan.split = plan_split(p);
  plan.threads = threads_of(p);
  plan.variant = kVariantBlocks;
  plan.workspace_bytes = 0;
  if (plan.split > 1 && !adds_atomically(p, plan.split))
    plan.workspace_bytes = static_cast<uint64_t>(plan.split) * static_cast<uint64_t>(p.c.rows * p.c.cols) * 4;
  plan.tiles = 0;  // told by explain_product alone
  return plan;
}

void explain_product(const Product &p, const Plan &plan, dxdw_plan *out) {
  if (plan.variant == kVariantSmall) {
    const TileShape &shape = kernels().tall;
    out->tiles = ceil_div(p.c.rows, shape.mr) * ceil_div(p.c.cols, shape.nr);
    snprintf(out->kernel, sizeof out->kernel, "fma %dx%d, small", shape.mr, shape.nr);
    snprintf(out->why, sizeof out->why, "at most %lld multiply-adds: all operands in place, no threads, no scratch",
             (long long)kSmall);
    return;
  }
  const Blocks s = cut(p, Finish::direct, plan.threads);
  out->tiles = s.row_panels * s.col_panels;
  snprintf(out->kernel, sizeof out->kernel, "%s %dx%d%s%s", s.pairs ? "bf16-pairs" : "fma", s.shape->mr, s.shape->nr,
           s.a_direct ? ", A in place" : ", A packed", s.b_direct ? ", B in place" : ", B packed");
  const char *finish = s.finish == Finish::direct
                           ? "results go straight to the output"
                           : "results go through a scratch tile, for the output is 16-bit or strided";
  if (plan.split == 1)
    snprintf(out->why, sizeof out->why, "%lld x %lld outputs over a contraction of %lld; %s", (long long)p.c.rows,
             (long long)p.c.cols, (long long)p.contraction(), finish);
  else
    snprintf(out->why, sizeof out->why, "%lld x %lld outputs, %lld tokens in %d slices %s; %s", (long long)p.c.rows,
             (long long)p.c.cols, (long long)p.contraction(), plan.split,
             adds_atomically(p, plan.split) ? "added atomically" : "reduced in order",
             p.split == 0 ? "few outputs and many tokens" : "as asked");
}

Status run_product(const Product &p, const Plan &plan, const Context &context) {
  if (plan.variant == kVariantSmall) {
    run_small(p);
    return DXDW_OK;
  }
  if (plan.split > 1) return run_split(p, plan, context);
  const Blocks s = cut(p, Finish::direct, plan.threads);
  Scratch scratch;
  const uint64_t bytes = scratch_bytes(s, plan.threads);
  if (!scratch.take(bytes)) return out_of_memory(bytes);
  run_blocks(s, plan.threads, scratch.data());
  return DXDW_OK;
}

uint64_t product_scratch_bytes(const Product &p, const Plan &plan) {
  return plan.variant == kVariantSmall ? 0 : scratch_bytes(cut(p, Finish::direct, plan.threads), plan.threads);
}

void run_product_in(const Product &p, const Plan &plan, char *scratch) {
  if (plan.variant == kVariantSmall) {
    run_small(p);
    return;
  }
  const Blocks s = cut(p, Finish::direct, plan.threads);
  run_blocks(s, plan.threads, scratch);
}

Status run(const Product &p) {
  if (is_small(p)) {
    run_small(p);
    return DXDW_OK;
  }
  return run_product(p, plan_product(p), {DXDW_CPU, 0, nullptr, nullptr, 0});
}

}  // namespace cpu
}  // namespace dxdw
