#include "gpu_plan.hpp"

#include <math.h>
#include <stdio.h>

#include <initializer_list>

#include "arithmetic.hpp"
#include "status.hpp"

namespace dxdw {
namespace gpu {

namespace {

constexpr int64_t kVectorBytes = 16;
constexpr uint64_t kPartAlignment = 256;

// Below this many elements of the output (dW) or the weights (Y, dX) the tensor-core tiles of the Hopper kernel are
// mostly padding. The choice must not look at the contraction of dW, or a slice would take another kernel than the
// whole, nor at T in Y and dX, or a row's bits would depend on its neighbours.
constexpr int64_t kLeastHopperWeights = 128 * 64;

// What an H200 took, in cycles, bytes and lines of 128 bytes a cycle: fitted to 11,200 times of 1,300 random products and
// the sustained ones of native/bench/NOTES.md, which says how.
constexpr double kMemoryBytesPerCycle = 2760;
constexpr double kCacheBytesPerCycle = 8790;  // loads of all multiprocessors, from the L2 cache
constexpr double kLoadBytesPerCycle = 80.9;   // loads of one
// TMA's boxes are whole. Their lines outside an operand cost more than those that are read.
constexpr double kOutsideLinesPerCycle = 18.5;
// Columns of tiles read the same rows at the same time. Of these the second and third each cause a part to come from
// memory again, because they ask before it has come for the first.
constexpr double kAskedAgain = 0.074;
// Tiles of 64 and 128 columns find fewer rows that another block has asked for where such blocks stand a band of eight
// apart, not of four.
constexpr double kFarApart = 1.29;
// Bytes of the columns' operand that are still in the L2 cache when the next band of rows walks over it. Of twice as many
// none are.
constexpr double kCacheKeepsBytes = 13.7e6;
constexpr double kRoundCycles = 633;           // of a tile, neither computing nor loading
constexpr double kReduceBytesPerCycle = 2660;  // of the kernel that adds slices, mostly from the L2 cache
constexpr double kReduceCyclesPerSlice = 96;
// Under load the board's power limits the clock, and narrower tiles take more energy for a product. From so many
// operations on that decides; the wider of these tiles take less of it.
constexpr double kLargeProduct = 5e10, kLargeTurned = 1e11;
constexpr double kEnergyOfNarrow = 1.06;
constexpr double kOftenUsed = 200;              // operations for a byte
constexpr int64_t kLeastSlice = 256;            // of the contraction
constexpr int64_t kFewTiles = 8;                // k-tiles of a contraction that memory outlasts: up to 512
constexpr int64_t kShortTiles = 4;              // k-tiles of which a block can keep 256 columns
constexpr int64_t kMostPartialBytes = 1 << 26;  // keeps partials near the L2 cache
constexpr double kNever = 1e30;                 // cycles of what was forced not to be
// From where on the thin kernel is taken.
constexpr int64_t kThinContraction = 2048, kThinRows = 8192;
constexpr int64_t kClusteredContraction = 2048, kClusteredNarrow = 33;  // and clusters
constexpr int64_t kFewTokens = 4096;  // that clusters on half of the chip read sooner than a second kernel starts

int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

// lines x contraction, or its transpose: `line_stride` between lines, `inner` along the contraction.
Walk walk_of(const char *data, int64_t size, int64_t lines, int64_t contraction, int64_t line_stride,
             int64_t contraction_stride) {
  Walk walk;
  const bool inner = contraction_stride == 1 || contraction == 1;
  const bool outer = line_stride == 1 || lines == 1;
  const auto fits = [&](int64_t pitch, int64_t count) {
    return count == 1 || (pitch > 0 && pitch * size % kVectorBytes == 0 && pitch * size < (int64_t{1} << 40));
  };
  const bool base = reinterpret_cast<uint64_t>(data) % kVectorBytes == 0;
  const bool small = lines < INT32_MAX && contraction < INT32_MAX;
  const bool inner_fits = inner && fits(line_stride, lines);
  const bool outer_fits = outer && fits(contraction_stride, contraction);
  // Where neither direction can be walked by vectors, packing follows the smaller stride.
  const auto magnitude = [](int64_t stride) { return stride < 0 ? -stride : stride; };
  walk.contraction_inner =
      inner_fits || (!outer_fits && (inner || (!outer && magnitude(contraction_stride) <= magnitude(line_stride))));
  walk.aligned = base && small && (inner_fits || outer_fits);
  walk.pitch = walk.contraction_inner ? line_stride : contraction_stride;
  const int64_t count = walk.contraction_inner ? lines : contraction;
  // A single line's stride means nothing; TMA wants a lawful one.
  if (count == 1) walk.pitch = round_up(walk.contraction_inner ? contraction : lines, 8);
  return walk;
}

struct Parts {
  uint64_t used = 0;
  uint64_t take(uint64_t bytes) {
    const uint64_t at = used;
    used += (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
    return at;
  }
};

// A multiprocessor's time for a tile, in cycles.
struct Pace {
  double k_tile;
  double between;  // of the store of a tile's results, what the next tile does not hide
  double last;     // the whole store, when no tile follows
  double reduce;   // the kernel that adds slices, but for its bytes
};

// Of the Hopper kernel.
struct HopperPace {
  double k_tile[3];            // by the number of operands whose contraction is inner
  double between[2], last[2];  // 16-bit results, float32 results
  double adding;               // more where float32 results are added in place
  double reduce;
};
constexpr HopperPace kWide = {{1214, 1180, 1211}, {2340, 4880}, {4150, 5540}, 5900, 3810};
constexpr HopperPace kTurned = {{0, 676, 702}, {499, 0}, {2570, 0}, 0, 0};
constexpr HopperPace kTurns = {{536, 514, 544}, {428, 568}, {2630, 3800}, 2950, 6000};
constexpr HopperPace kKeeps = {{568, 571, 613}, {893, 1800}, {2900, 4410}, 1700, 0};
constexpr HopperPace kShort = {{0, 1242, 1241}, {476, 0}, {2950, 0}, 0, 0};
constexpr HopperPace kNarrow = {{272, 273, 315}, {1030, 1460}, {1760, 2370}, 200, 4400};

// Of float32 multiply-add, fitted to 190 times of 12 shapes: cycles over those of 128 multiply-adds a cycle, for tiles of
// 256, 128 and 64 columns, by the number of operands whose contraction is inner. These are turned in shared memory, or
// copied by 4 bytes.
constexpr double kFedPace[3][3] = {{1.19, 1.185, 1.265}, {1.19, 1.235, 1.345}, {1.2, 1.26, 1.345}};
constexpr double kCopiedPace[3][3] = {{1.35, 1.35, 1.47}, {1.48, 1.48, 1.48}, {1.8, 2.15, 2.25}};
constexpr double kAlone = 0.1;         // more for a block that is alone where two have room
constexpr double kSimtBetween = 8000;  // cycles: of the store of 128 x 256 results, what the next tile does not hide
constexpr double kSimtAdding = 34000;  // more for these where they are added in place
constexpr double kSimtLast = 20000;    // of a product: launch, first loads, last store
constexpr double kSimtReduce = 4700;   // the kernel that adds slices, but for its bytes
constexpr double kWorthSlices = 0.97;  // slices must take less, of what another tile takes without

// What a line of 128 bytes costs for one that starts on 128 bytes: all others touch two lines of memory, those off a grid
// of 32 bytes a sector more, too.
struct LineCost {
  double cache, multiprocessor;
};
LineCost line_cost(const Walk &walk, int64_t size) {
  if (!walk.aligned) return {1, 1};  // it will be packed
  const int64_t off = walk.pitch % 128 * size % 128;
  if (off == 0) return {1, 1};
  if (off == 64) return {1.42, 1.12};
  return off % 32 == 0 ? LineCost{1.79, 1.27} : LineCost{3.11, 1.99};
}

// Lines of boxes outside an operand, for each step of the contraction: one for each row of a tile where the contraction
// is inner, else one for each k and 64 rows.
double lines_outside(const Walk &walk, int64_t lines, int64_t tile) {
  return static_cast<double>(round_up(lines, tile) - (walk.contraction_inner ? lines : round_up(lines, 64)));
}

// The time of two that run at once: about the greater's; where they are near, more.
double at_once(double a, double b) { return sqrt(sqrt(a * a * a * a + b * b * b * b)); }

// The same of two that get in each other's way.
double in_turns(double a, double b) { return sqrt(a * a + b * b); }

double operations_of(const Product &w) {
  return 2.0 * static_cast<double>(w.c.rows) * static_cast<double>(w.c.cols) * static_cast<double>(w.contraction());
}

// Of both operands and the result.
double bytes_of(const Product &w) {
  const double rows = static_cast<double>(w.c.rows), cols = static_cast<double>(w.c.cols);
  return (rows + cols) * static_cast<double>(w.contraction()) * size_of(w.a.type) + rows * cols * size_of(w.c.type);
}

// Are float32 results added to what is there, each once?
bool adds_in_place(const ProductPlan &p, int64_t split) {
  return p.work.add && p.work.c.type == DType::f32 && split == 1;
}

Pace pace_of(const ProductPlan &p, int64_t split) {
  const bool floats = split > 1 || p.work.c.type == DType::f32;
  const double ideal = static_cast<double>(p.tile_m) * p.tile_n * p.tile_k / 2048;
  const double store = 7000.0 * p.tile_n / 256, reduce = 6000;
  const int mix = p.a.contraction_inner + p.b.contraction_inner;
  if (p.kernel == kSimt && p.tile_n >= 64) {
    const double share = static_cast<double>(p.tile_m) * p.tile_n / (128 * 256);
    const double adding = adds_in_place(p, split) ? share * kSimtAdding : 0;
    const double pace = (p.fed ? kFedPace : kCopiedPace)[p.tile_n >= 256 ? 0 : p.tile_n >= 128 ? 1 : 2][mix];
    return {16 * ideal * pace, share * kSimtBetween + adding, kSimtLast + adding, kSimtReduce};
  }
  if (p.kernel == kSimt) return {16 * ideal * 1.7, store, store, reduce};
  if (p.kernel == kMma) return {1.1 * ideal, store, store, reduce};
  if (p.kernel == kTf32) return {2 * ideal, store, store, reduce};    // half the rate of 16-bit operands
  if (p.kernel == kBf16x3) return {6 * ideal, store, store, reduce};  // products of parts
  const HopperPace &pace = p.tile_n == 256   ? p.keeps_columns ? kShort : kWide
                           : p.tile_n == 160 ? kTurned
                           : p.tile_n == 64  ? kNarrow
                           : p.keeps_columns ? kKeeps
                                             : kTurns;
  const bool costs_energy = p.tile_n < 256 && operations_of(p.work) >= (p.turned ? kLargeTurned : kLargeProduct);
  const double k_tile = pace.k_tile[mix] * (costs_energy ? kEnergyOfNarrow : 1);
  const int64_t size = size_of(p.work.a.type);
  const double columns = p.keeps_columns ? 0 : p.tile_n * line_cost(p.b, size).multiprocessor;
  const double loads = (p.tile_m * line_cost(p.a, size).multiprocessor + columns) * 128 / kLoadBytesPerCycle;
  const double adding = adds_in_place(p, split) ? pace.adding : 0;
  return {k_tile > loads ? k_tile : loads, pace.between[floats] + adding, pace.last[floats] + adding, pace.reduce};
}

// Of float32 multiply-add, do two blocks share a multiprocessor?
bool shares(const ProductPlan &p) {
  const int32_t widest = p.fed || p.work.a.type != DType::f32 ? 64 : 128;
  return p.kernel == kSimt && p.tile_n >= 64 && p.tile_n <= widest;
}

int64_t most_blocks(const Chip &chip) { return forced.blocks > 0 ? forced.blocks : chip.multiprocessors; }

// Blocks that can walk down the rows of the same columns, where each keeps its columns.
int64_t walkers_of(const ProductPlan &p, const Chip &chip) { return least(most_blocks(chip) / p.tiles_n, p.tiles_m); }

// What all loads of a product take, whatever its slices.
struct Traffic {
  double memory_bytes;  // of operands: once, and what comes again
  double cache_cycles;  // of the L2 cache
};

Traffic traffic_of(const ProductPlan &p, const Chip &chip) {
  const int64_t size = size_of(p.work.a.type);
  const double rows = static_cast<double>(p.work.c.rows), cols = static_cast<double>(p.work.c.cols);
  const double depth = static_cast<double>(p.work.contraction()) * static_cast<double>(size);
  const double tiles_m = static_cast<double>(p.tiles_m), tiles_n = static_cast<double>(p.tiles_n);
  const bool is_far = !p.keeps_columns && p.band > 4 && p.tiles_m > p.band && p.tile_n <= 128;
  const double again = kAskedAgain * static_cast<double>(least(p.tiles_n - 1, 2));
  double bytes = rows * (1 + again) + cols;
  double lines = rows * tiles_n * line_cost(p.a, size).cache * (is_far ? kFarApart : 1);
  double outside = 0;
  if (!p.keeps_columns) lines += cols * tiles_m * line_cost(p.b, size).cache;
  if (p.kernel == kHopper) {
    const bool is_short = p.keeps_columns && p.tile_n == 256;  // 64 rows at a time
    outside = lines_outside(p.a, p.work.c.rows, is_short ? 64 : p.tile_m) * tiles_n;
    if (!p.keeps_columns) outside += lines_outside(p.b, p.work.c.cols, p.tile_n) * tiles_m;
    const double missed = cols * depth / kCacheKeepsBytes - 1;
    if (!p.keeps_columns && missed > 0) {
      // How often the columns are walked over, one walk after the other.
      const double bands = static_cast<double>(ceil_div(p.tiles_m, p.band));
      const double band = static_cast<double>(least(p.band, p.tiles_m)) * tiles_n;
      const double walks = chip.multiprocessors > band ? bands * band / chip.multiprocessors : bands;
      if (walks > 1) bytes += cols * (walks - 1) * (missed < 1 ? missed : 1);
    }
  }
  return {bytes * depth, lines * depth / kCacheBytesPerCycle + outside * depth / 128 / kOutsideLinesPerCycle};
}

// Time of the whole product in cycles under a split.
double modelled_cycles(const ProductPlan &p, const Traffic &traffic, int64_t split, const Chip &chip) {
  const Matrix &c = p.work.c;
  const double results = static_cast<double>(c.rows) * static_cast<double>(c.cols);
  const int64_t chunk = ceil_div(most(p.work.contraction(), 1), split);
  // Of tiles that TMA loads, k's beyond the contraction are not multiplied.
  const double k_tiles = p.fed ? static_cast<double>(chunk) / p.tile_k : static_cast<double>(ceil_div(chunk, p.tile_k));
  const double rounds = static_cast<double>(p.keeps_columns ? ceil_div(p.tiles_m, walkers_of(p, chip))
                                                            : ceil_div(p.tiles * split, chip.multiprocessors));
  const Pace pace = pace_of(p, split);
  const double alone = shares(p) && fmod(rounds, 2) == 1 ? kAlone : 0;
  const double computing = (rounds + alone) * k_tiles * pace.k_tile + (rounds - 1) * pace.between;
  const int result_bytes = split > 1 ? 0 : adds_in_place(p, split) ? 8 : c.type == DType::f32 ? 4 : 2;
  const double memory = (traffic.memory_bytes + results * result_bytes) / kMemoryBytesPerCycle;
  double cycles = pace.last + rounds * kRoundCycles + at_once(computing, in_turns(memory, traffic.cache_cycles));
  if (split > 1)
    cycles += pace.reduce + kReduceCyclesPerSlice * static_cast<double>(split) +
              static_cast<double>(split + 2) * results * 4 / kReduceBytesPerCycle;
  return cycles;
}

// The Hopper kernel counts tiles, slices and coordinates in 32 bits.
bool fits_32_bits(const Product &w) {
  constexpr int64_t kMost = INT32_MAX - 1024;
  if (w.a.rows > kMost || w.b.cols > kMost || w.contraction() > kMost) return false;
  // Expanded operands may be larger than any memory: what packing them takes must be countable, and TMA's strides are.
  constexpr double kMostPacked = 1e12;  // bytes
  const double k = static_cast<double>(w.contraction()) + 64.0 * most(w.split, 1);
  if (6 * k * static_cast<double>(most(w.a.rows, w.b.cols)) > kMostPacked) return false;
  const int64_t tiles = ceil_div(w.a.rows, 128) * ceil_div(w.b.cols, 64);
  return tiles <= kMost / 2 / most(w.split, 1);
}

// Can TMA walk both operands?
bool can_be_fed(const ProductPlan &p, const Chip &chip) {
  const Product &w = p.work;
  return p.kernel == kSimt && chip.capability == 90 && w.a.type == DType::f32 && w.c.type == DType::f32 &&
         w.contraction() > 0 && p.a.aligned && p.b.aligned && fits_32_bits(w);
}

void set_tiles(ProductPlan *p, int32_t tile_m, int32_t tile_n, int32_t tile_k) {
  p->tile_m = tile_m;
  p->tile_n = tile_n;
  p->tile_k = tile_k;
  p->tiles_m = ceil_div(p->work.c.rows, tile_m);
  p->tiles_n = ceil_div(p->work.c.cols, tile_n);
  p->tiles = p->tiles_m * p->tiles_n;
}

// Where the way to memory and back is all that a product takes: many small blocks, one a tile and slice. Is it so?
bool set_small_tiles(ProductPlan *p, int32_t tile, int32_t tile_k, int32_t multiprocessors) {
  const int64_t tiles = ceil_div(p->work.c.rows, tile) * ceil_div(p->work.c.cols, tile);
  if (tiles > 2 * multiprocessors || p->work.contraction() > kMostSmallContraction) return false;
  set_tiles(p, tile, tile, tile_k);
  p->split = 0;
  return true;
}

// Sets the rows of tiles that are walked together: four, or eight, of wide tiles sixteen, where that is faster, or of large
// products reads less from memory. Where nothing tells them apart, wide tiles of many columns take more: a wave of 16 x 8
// wide tiles is square.
Traffic choose_band(ProductPlan *p, const Chip &chip) {
  p->band = forced.band != 0 ? forced.band : 4;
  const Traffic four = traffic_of(*p, chip);
  if (forced.band != 0 || p->kernel != kHopper || p->tiles_m <= 4) return four;
  p->band = p->tile_n == 256 ? 16 : 8;
  const Traffic more = traffic_of(*p, chip);
  const bool large = operations_of(p->work) >= kLargeProduct;
  const auto cost = [large](const Traffic &t) {
    return large ? t.memory_bytes : in_turns(t.memory_bytes / kMemoryBytesPerCycle, t.cache_cycles);
  };
  const bool square = p->tile_n > 128 && p->tiles_n * p->tile_n >= 4096;
  if (cost(more) < cost(four) || (square && cost(more) == cost(four))) return more;
  p->band = 4;
  return four;
}

struct Split {
  int64_t slices;
  double cycles;
};

// The split asked for, or the best of those worth a look: from a third of a wave, or of the shortest slices, to two
// waves, three where few slices make one.
Split best_split(const ProductPlan &p, const Traffic &traffic, const Chip &chip) {
  const int32_t multiprocessors = chip.multiprocessors;
  if (p.work.split != 0) return {p.work.split, modelled_cycles(p, traffic, p.work.split, chip)};
  const int64_t contraction = p.work.contraction();
  const int64_t output_bytes = p.work.c.rows * p.work.c.cols * 4;
  const int64_t one_wave = multiprocessors / p.tiles, least_slice = p.kernel == kHopper ? kLeastSlice : 8 * p.tile_k;
  const int64_t most_slices = contraction / least_slice, few = least(one_wave, most_slices) / 3;
  const int64_t waves = one_wave < 4 ? 3 : 2;
  Split best = {1, modelled_cycles(p, traffic, 1, chip)};
  constexpr int64_t kCandidates[] = {0, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};  // 0: as fill one wave
  for (const int64_t number : kCandidates) {
    const int64_t candidate = number == 0 ? one_wave : number;
    if (candidate < 2 || candidate < few || candidate * p.tiles > waves * multiprocessors) continue;
    // Slices of whole k-tiles, where the contraction allows it.
    const int64_t chunk = round_up(ceil_div(contraction, candidate), 64);
    const int64_t split = ceil_div(contraction, most(chunk, 1));
    if (split < 2 || split > most_slices || split * output_bytes > kMostPartialBytes) continue;
    const double cycles = modelled_cycles(p, traffic, split, chip);
    if (cycles < (best.slices == 1 ? 0.97 : 1) * best.cycles) best = {split, cycles};
  }
  return best;
}

// TMA writes whole chunks of 16 bytes: rows must end on one. It adds float32 only.
bool fits_boxes(const Matrix &c, bool add) {
  const int64_t size = size_of(c.type);
  const auto whole = [&](int64_t elements) { return elements * size % kVectorBytes == 0; };
  return c.col_stride == 1 && reinterpret_cast<uint64_t>(c.data) % kVectorBytes == 0 && whole(c.cols) &&
         (c.rows == 1 || (c.row_stride > 0 && whole(c.row_stride))) && (c.type == DType::f32 || !add);
}

// Do the slices go to the workspace? There every row is padded.
bool makes_partials(const Product &w, int64_t split) {
  return split > 1 && (w.deterministic || w.c.type != DType::f32);
}

bool stores_boxes(const Product &w, int64_t split) { return makes_partials(w, split) || fits_boxes(w.c, w.add); }

struct TileSize {
  int32_t m, n, k;
  bool keeps = false;
};

bool decide(int32_t wish, bool choice) { return wish == 0 ? choice : wish > 0; }

// May blocks of this tile of 128 columns keep their columns' operand?
bool can_keep(const ProductPlan &p, int64_t split, const Chip &chip) {
  return p.kernel == kHopper && p.tile_n == 128 && split == 1 && walkers_of(p, chip) > 0 &&
         ceil_div(p.work.contraction(), p.tile_k) <= kFewTiles;
}

// The tile under which the product is over soonest, with the split asked for or the best. Returns that time in cycles.
template <int kCount>
double choose_tile(ProductPlan *p, const TileSize (&sizes)[kCount], const Chip &chip) {
  double best = 0;
  TileSize chosen = {0, 0, 0};
  int64_t slices = 1;
  int32_t band = 1;
  for (const TileSize &size : sizes) {
    const bool wished = p->kernel != kHopper || forced.tile_n == 0 || size.n == forced.tile_n;
    set_tiles(p, size.m, size.n, size.k);
    p->keeps_columns = false;
    const Traffic traffic = choose_band(p, chip);
    Split split = best_split(*p, traffic, chip);
    // The Hopper kernel's widest tiles leave in boxes only.
    if (p->kernel == kHopper && size.n == 256 && !stores_boxes(p->work, split.slices)) continue;
    if (size.keeps) {
      if (!can_keep(*p, split.slices, chip)) continue;
      p->keeps_columns = true;
      split.cycles = modelled_cycles(*p, traffic_of(*p, chip), 1, chip);
    }
    if (!wished) split.cycles += kNever;
    if (chosen.m != 0 && split.cycles >= best) continue;
    best = split.cycles;
    chosen = size;
    slices = split.slices;
    band = p->band;
  }
  set_tiles(p, chosen.m, chosen.n, chosen.k);
  p->keeps_columns = chosen.keeps;
  p->band = band;
  p->split = static_cast<int32_t>(slices);
  return best;
}

// The transposed product, whose rows are the columns': 128 x 160 tiles, if that is faster than `cycles`. Only where the
// result has 16 bits and one slice.
void choose_turned(ProductPlan *p, double cycles, const Chip &chip) {
  const Product &w = p->work;
  if (w.split != 1 || w.c.type == DType::f32 || !fits_boxes(w.c, w.add) || !p->a.contraction_inner) return;
  ProductPlan turned = *p;
  turned.turned = true;
  turned.swap = !p->swap;
  turned.keeps_columns = false;
  turned.work.a = w.b.transposed();
  turned.work.b = w.a.transposed();
  turned.work.c = w.c.transposed();
  turned.a = p->b;
  turned.b = p->a;
  set_tiles(&turned, 128, 160, 64);
  const double turned_cycles = modelled_cycles(turned, choose_band(&turned, chip), 1, chip);
  if (forced.tile_n == 160 || (forced.tile_n == 0 && turned_cycles < cycles)) *p = turned;
}

// Contractions so short that memory sets the rate, and many rows: each block keeps its 256 columns, if that is faster
// than `cycles`. Returns the faster's.
double choose_short(ProductPlan *p, double cycles, const Chip &chip) {
  const Product &w = p->work;
  if (w.split != 1 || ceil_div(w.contraction(), 64) > kShortTiles || !p->a.contraction_inner) return cycles;
  ProductPlan kept = *p;
  set_tiles(&kept, 128, 256, 64);
  if (walkers_of(kept, chip) == 0) return cycles;
  kept.keeps_columns = true;
  const double kept_cycles = modelled_cycles(kept, traffic_of(kept, chip), 1, chip);
  if (forced.tile_n != 0 || forced.keeps_columns != 0 ? forced.tile_n != 256 || forced.keeps_columns < 1
                                                      : w.c.type == DType::f32 || kept_cycles >= cycles)
    return cycles;
  *p = kept;
  return kept_cycles;
}

// Few columns and a long contraction: what the thin kernel can compute, and where it is faster.
bool choose_thin(ProductPlan *p) {
  const Product &w = p->work;
  if (w.split != 1 || w.c.cols != kThinColumns || !p->a.contraction_inner || p->b.contraction_inner) return false;
  if (!p->a.aligned || !p->b.aligned) return false;
  const bool pays = w.contraction() >= kThinContraction && w.c.rows >= kThinRows && forced.tile_n == 0;
  if (!decide(forced.thin, pays)) return false;
  p->thin = true;
  p->split = 1;
  set_tiles(p, 128, kThinColumns, 64);
  return true;
}

// The slices of a tile as a cluster: as many as were asked for, or as there are places for. It pays where nearly all
// multiprocessors have a block, of few tokens half of them, and lines are carried or not so short that their number is
// what costs.
bool choose_clustered(ProductPlan *p, const Chip &chip) {
  const Product &w = p->work;
  const int64_t narrow = least(w.c.rows, w.c.cols), multiprocessors = chip.multiprocessors;
  if (p->a.contraction_inner || p->b.contraction_inner || !p->a.aligned || !p->b.aligned) return false;
  if (w.c.type != DType::f32 || w.c.col_stride != 1 || narrow > kClusteredTile) return false;
  const int64_t tiles = ceil_div(w.c.rows, kClusteredTile) * ceil_div(w.c.cols, kClusteredTile);
  const int64_t best = kMostClustered * tiles <= multiprocessors ? kMostClustered : 1;
  const int64_t slices = w.split != 0 ? w.split : forced.clustered > 0 ? forced.clustered : best;
  if (slices > kMostClustered) return false;
  const int64_t blocks = tiles * slices;
  const bool carried = narrow == kThinColumns;
  const int64_t tenths = (w.contraction() <= kFewTokens ? 20 : 10) * blocks / multiprocessors;
  const bool pays = slices == best && blocks <= multiprocessors && tenths >= 9 &&
                    (carried || narrow >= kClusteredNarrow) && w.contraction() >= kClusteredContraction &&
                    forced.tile_n == 0;
  if (!decide(forced.clustered, pays)) return false;
  p->clustered = true;
  p->carried = carried;
  p->split = static_cast<int32_t>(slices);
  set_tiles(p, kClusteredTile, kClusteredTile, 64);
  return true;
}

// How the Hopper kernel's blocks share the tiles.
void choose_walk(ProductPlan *p, const Chip &chip) {
  const int64_t units = p->tiles * p->split, k_tiles = ceil_div(p->chunk, p->tile_k);
  // Few k-tiles, old values to add to: what is read from memory must be asked for early.
  if (can_keep(*p, p->split, chip)) p->keeps_columns = decide(forced.keeps_columns, p->keeps_columns);
  const bool is_short = p->keeps_columns && p->tile_n == 256;
  p->fetch_old = adds_in_place(*p, p->split) && !is_short && !p->thin && decide(forced.fetch_old, k_tiles <= kFewTiles);
  const int64_t walkers = walkers_of(*p, chip);
  if (p->keeps_columns) {
    p->band = 1;
    p->blocks = static_cast<int32_t>(ceil_div(p->tiles_m, ceil_div(p->tiles_m, walkers)) * p->tiles_n);
    return;
  }
  // As many blocks as make the waves equally full: all work to the end, in step.
  p->blocks = static_cast<int32_t>(ceil_div(units, ceil_div(units, most_blocks(chip))));
}

// Tiles loaded by TMA, the fastest whose slices start on 16 bytes along an inner contraction, if they are faster than
// `cycles`.
void choose_fed(ProductPlan *p, double cycles, const Chip &chip) {
  const bool inner = p->a.contraction_inner || p->b.contraction_inner;
  ProductPlan best = *p;
  double best_cycles = kNever;
  for (const int32_t tile_n : {256, 128, 64}) {
    if (forced.tile_n != 0 && forced.tile_n != tile_n) continue;
    ProductPlan fed = *p;
    fed.fed = true;
    set_tiles(&fed, kFedTileM, tile_n, kFedTileK);
    const Split split = best_split(fed, traffic_of(fed, chip), chip);
    const int64_t chunk = ceil_div(p->work.contraction(), split.slices);
    if (split.slices > 1 && inner && chunk * 4 % kVectorBytes != 0) continue;
    const double tile_cycles = split.slices > 1 ? split.cycles / kWorthSlices : split.cycles;
    if (tile_cycles >= best_cycles) continue;
    fed.split = static_cast<int32_t>(split.slices);
    best = fed;
    best_cycles = tile_cycles;
  }
  if (best_cycles < kNever && decide(forced.fed, best_cycles < cycles)) *p = best;
}

}  // namespace

Forced forced = {};

namespace {

// swap: by the transposed product, C^T = B^T . A^T.
ProductPlan plan_oriented(const Product &product, int32_t function, const Chip &chip, bool swap) {
  ProductPlan p;
  p.swap = swap;
  p.work = product;
  if (p.swap) {
    p.work.a = product.b.transposed();
    p.work.b = product.a.transposed();
    p.work.c = product.c.transposed();
  }
  const Product &w = p.work;
  const int64_t contraction = w.contraction();
  const int32_t multiprocessors = chip.multiprocessors;
  p.a = walk_of(w.a.data, size_of(w.a.type), w.a.rows, contraction, w.a.row_stride, w.a.col_stride);
  p.b = walk_of(w.b.data, size_of(w.b.type), w.b.cols, contraction, w.b.col_stride, w.b.row_stride);
  p.pack_a = p.pack_b = false;
  p.band = 1;
  p.turned = p.stores_boxes = p.keeps_columns = p.fetch_old = p.fed = p.thin = p.clustered = p.carried = false;
  p.split = 0;
  p.overlap = chip.capability >= 90;
  p.pack_a_pitch = p.pack_b_pitch = 0;

  // Weights are the output of dW and an operand of Y and dX; either way their size is free of T. dW is the one product
  // that may be split or order its slices.
  const bool is_16_bit = w.a.type != DType::f32;
  const bool is_dw = function == DXDW_DW;
  const int64_t weights = is_dw ? w.c.rows * w.c.cols : product.b.rows * product.b.cols;
  const int64_t narrow = is_dw ? least(w.c.rows, w.c.cols) : least(product.b.rows, product.b.cols);
  const bool wgmma = chip.capability == 90 && weights >= kLeastHopperWeights && narrow >= 16 && fits_32_bits(w);
  const bool by_name = w.precision == DXDW_PRECISION_TF32 || w.precision == DXDW_PRECISION_BF16X3;
  const char *why;
  if (!is_16_bit && by_name && wgmma && contraction > 0) {
    p.kernel = w.precision == DXDW_PRECISION_TF32 ? kTf32 : kBf16x3;
    set_tiles(&p, kPartsTileM, kPartsTileN, kPartsTileK);
    why = p.kernel == kTf32 ? "wgmma: float32 operands rounded to TF32, as asked for"
                            : "wgmma: float32 operands in three bfloat16 parts, as asked for";
  } else if (!is_16_bit || w.precision == DXDW_PRECISION_EXACT || contraction == 0) {
    p.kernel = kSimt;
    why = contraction == 0 ? "the contraction is empty"
          : is_16_bit      ? "exact precision asks for float32 multiply-add"
          : by_name        ? "float32 multiply-add: the precision asked for needs capability 9.0 and more weights"
                           : "float32 operands use float32 multiply-add";
    double cycles = is_16_bit ? choose_tile(&p, {{128, 128, 16}, {64, 64, 16}}, chip)
                              : choose_tile(&p, {{128, 256, 16}, {128, 128, 16}, {64, 64, 16}}, chip);
    if (set_small_tiles(&p, 16, 64, multiprocessors)) cycles = 0;
    if (can_be_fed(p, chip)) choose_fed(&p, cycles, chip);
  } else if (wgmma) {
    p.kernel = kHopper;
    if (!(is_dw && choose_clustered(&p, chip)) && !choose_thin(&p)) {
      const double cycles =
          choose_tile(&p, {{128, 256, 64}, {128, 128, 64}, {128, 128, 64, true}, {128, 64, 64}}, chip);
      choose_turned(&p, choose_short(&p, cycles, chip), chip);
    }
    why = "wgmma and TMA: 16-bit operands on capability 9.0";
  } else {
    p.kernel = kMma;
    set_tiles(&p, 128, 128, 32);
    set_small_tiles(&p, 32, 32, multiprocessors);
    why = chip.capability == 90 ? "few weights: mma.sync tiles" : "mma.sync: 16-bit operands";
  }

  // Slices.
  if (p.split == 0) p.split = static_cast<int32_t>(best_split(p, traffic_of(p, chip), chip).slices);
  const int64_t split = p.split;
  p.chunk = ceil_div(most(contraction, 1), split);
  p.combine = split == 1 || p.clustered ? kDirect : makes_partials(w, split) ? kWorkspace : kAtomic;
  p.stores_boxes = p.turned || (!p.clustered && stores_boxes(w, split));
  const int64_t units = p.tiles * split;
  p.waves = static_cast<double>(units) / multiprocessors;

  Parts parts;
  p.pack_a_at = p.pack_b_at = p.partials_at = 0;
  if (p.kernel == kHopper) {
    // TMA walks slices as a third dimension: along an inner contraction a slice must start on 16 bytes.
    const bool slices_fit = split == 1 || p.chunk * 2 % kVectorBytes == 0;
    p.pack_a = !p.a.aligned || (p.a.contraction_inner && !slices_fit);
    p.pack_b = !p.b.aligned || (p.b.contraction_inner && !slices_fit);
    const auto packed = [&](const Walk &walk, int64_t lines, int64_t *pitch) {
      *pitch = walk.contraction_inner ? round_up(p.chunk, 64) * split : round_up(lines, 64);
      return static_cast<uint64_t>(*pitch * (walk.contraction_inner ? lines : contraction) * 2);
    };
    if (p.pack_a) p.pack_a_at = parts.take(packed(p.a, w.a.rows, &p.pack_a_pitch));
    if (p.pack_b) p.pack_b_at = parts.take(packed(p.b, w.b.cols, &p.pack_b_pitch));
    if (p.clustered)
      p.blocks = static_cast<int32_t>(units);
    else
      choose_walk(&p, chip);
  } else if (p.kernel == kTf32 || p.kernel == kBf16x3) {
    p.pack_a = p.pack_b = true;
    p.pack_a_pitch = p.pack_b_pitch = round_up(p.chunk, kPartsPadding);
    const int64_t part_bytes = p.kernel == kTf32 ? 4 : 3 * 2;
    p.pack_a_at = parts.take(static_cast<uint64_t>(w.a.rows * split * p.pack_a_pitch * part_bytes));
    p.pack_b_at = parts.take(static_cast<uint64_t>(w.b.cols * split * p.pack_b_pitch * part_bytes));
    p.blocks = static_cast<int32_t>(ceil_div(units, ceil_div(units, multiprocessors)));
  } else if (p.fed) {
    // Where two blocks share a multiprocessor, the second comes when all have one.
    const int64_t most = most_blocks(chip);
    p.blocks = static_cast<int32_t>(shares(p) ? least(units, 2 * most) : ceil_div(units, ceil_div(units, most)));
  } else {
    p.blocks = static_cast<int32_t>(least(units, int64_t{1} << 30));
  }
  p.partial_pitch = round_up(w.c.cols, 4);
  if (p.combine == kWorkspace)
    p.partials_at = parts.take(static_cast<uint64_t>(split * w.c.rows * p.partial_pitch * 4));
  p.workspace_bytes = parts.used;
  // A block that starts where another has ended is out of step with those that share its operands. Where each byte is
  // used often, by tiles of the same slice, that costs more than a launch.
  const double operations_per_byte = operations_of(w) / bytes_of(w);
  p.early = decide(forced.early, p.overlap && (split > 1 || operations_per_byte < kOftenUsed));
  p.reason = why;
  return p;
}

}  // namespace

ProductPlan plan_product(const Product &product, int32_t function, const Chip &chip) {
  const Matrix &c = product.c;
  const bool column_major = c.cols > 1 && c.col_stride != 1 && (c.row_stride == 1 || c.rows == 1);
  const ProductPlan p = plan_oriented(product, function, chip, column_major);
  // Few rows leave most of a tile empty, few columns do not: tiles can be narrow. Partial sums may lie in either direction.
  if (p.kernel == kHopper && p.combine == kWorkspace && p.work.c.rows <= 64 && p.work.c.rows < p.work.c.cols) {
    const ProductPlan other = plan_oriented(product, function, chip, !column_major);
    if (other.combine == kWorkspace) return other;
  }
  return p;
}

namespace {

struct Question {
  Product product;
  int32_t function;
  Chip chip;
  Forced choices;
};

bool same(const Matrix &a, const Matrix &b) {
  return a.data == b.data && a.type == b.type && a.rows == b.rows && a.cols == b.cols && a.row_stride == b.row_stride &&
         a.col_stride == b.col_stride;
}

bool same(const Product &a, const Product &b) {
  return same(a.a, b.a) && same(a.b, b.b) && same(a.c, b.c) && a.add == b.add && a.precision == b.precision &&
         a.batch_invariant == b.batch_invariant && a.split == b.split && a.deterministic == b.deterministic;
}

bool same(const Question &a, const Question &b) {
  return same(a.product, b.product) && a.function == b.function && a.chip.capability == b.chip.capability &&
         a.chip.multiprocessors == b.chip.multiprocessors && a.choices.tile_n == b.choices.tile_n &&
         a.choices.band == b.choices.band && a.choices.keeps_columns == b.choices.keeps_columns &&
         a.choices.fetch_old == b.choices.fetch_old && a.choices.blocks == b.choices.blocks &&
         a.choices.fed == b.choices.fed && a.choices.early == b.choices.early && a.choices.thin == b.choices.thin &&
         a.choices.clustered == b.choices.clustered;
}

}  // namespace

const ProductPlan &planned_product(const Product &product, int32_t function, const Chip &chip) {
  static thread_local Question last;  // of no multiprocessors at first: never asked for
  static thread_local ProductPlan plan;
  const Question question = {product, function, chip, forced};
  if (!same(question, last)) {
    plan = plan_product(product, function, chip);
    last = question;
  }
  return plan;
}

Sentence explain(const ProductPlan &p, const Chip &chip) {
  Sentence s;
  write_text(s.text, sizeof s.text,
             "%s; %lld tiles of %dx%d times %lld slices of %lld on %d multiprocessors: %.2f waves%s%s%s%s%s%s",
             p.reason, static_cast<long long>(p.tiles), p.tile_m, p.tile_n, static_cast<long long>(p.split),
             static_cast<long long>(p.chunk), chip.multiprocessors, p.waves,
             p.pack_a && p.pack_b ? "; both operands packed"
             : p.pack_a           ? "; one operand packed"
             : p.pack_b           ? "; one operand packed"
                                  : "",
             p.clustered ? "; slices meet in clusters" : "", p.turned ? "; stored turned" : "",
             p.keeps_columns ? "; columns kept" : "", p.fetch_old ? "; old values fetched ahead" : "",
             p.work.batch_invariant ? "; a row's bits are free of T" : "");
  return s;
}

void describe(const ProductPlan &p, const Chip &chip, dxdw_plan *out) {
  out->split = p.split;
  out->threads = p.blocks;
  out->reserved = 0;
  out->tiles = p.tiles;
  out->workspace_bytes = p.workspace_bytes;
  snprintf(out->kernel, sizeof out->kernel, "%s%s", kernel_name(p),
           p.combine == kAtomic      ? "+atomic"
           : p.combine == kWorkspace ? "+reduce"
                                     : "");
  snprintf(out->level, sizeof out->level, "sm_%d", chip.capability);
  snprintf(out->why, sizeof out->why, "%s", explain(p, chip).text);
}

const char *kernel_name(const ProductPlan &plan) {
  switch (plan.kernel) {
    case kSimt:
      return plan.fed             ? plan.tile_n == 256   ? "simt_fed_128x256x32"
                                    : plan.tile_n == 128 ? "simt_fed_128x128x32"
                                                         : "simt_fed_128x64x32"
             : plan.tile_n == 256 ? "simt_128x256x16"
             : plan.tile_n == 128 ? "simt_128x128x16"
             : plan.tile_n == 64  ? "simt_64x64x16"
                                  : "simt_16x16x64";
    case kMma: return plan.tile_m == 128 ? "mma_128x128x32" : "mma_32x32x64";
    case kTf32: return "hopper_tf32_128x192x32";
    case kBf16x3: return "hopper_bf16x3_128x192x32";
    default:
      return plan.clustered       ? "hopper_cluster_64x64x64"
             : plan.thin          ? "hopper_thin_128x16x64"
             : plan.tile_n == 256 ? "hopper_128x256x64"
             : plan.tile_n == 160 ? "hopper_128x160x64"
             : plan.tile_n == 128 ? "hopper_128x128x64"
                                  : "hopper_128x64x64";
  }
}

namespace {

// More of x than caches hold.
bool is_large(const WeightedSumBackward &w) {
  return static_cast<double>(w.rows.count) * static_cast<double>(w.features) * static_cast<double>(size_of(w.x.type)) >=
         0x1p26;
}

// Rows that fill thread blocks side by side.
bool is_long(const WeightedSumBackward &w) { return w.features >= 1024 && is_large(w); }

// Rows that a warp covers by one vector a lane.
bool is_short(const WeightedSumBackward &w) {
  return w.features * size_of(w.x.type) <= 32 * kVectorBytes && is_large(w);
}

}  // namespace

RowBlocks plan_rows(const WeightedSumBackward &w) {
  // 512 thread blocks of 256 threads with 16 bytes of features each run at once on any large chip; so few keep the
  // partial sums small beside x. Where it is read alone, four times as many are faster.
  constexpr int64_t kLeastRows = 16;
  const int64_t thread_blocks = is_long(w) ? 2048 : 512;
  const int64_t block_features = 256 * kVectorBytes / size_of(w.x.type);
  const int64_t wanted = most(thread_blocks / most(ceil_div(w.features, block_features), 1), 1);
  RowBlocks plan;
  plan.rows_per_block = most(ceil_div(w.rows.count, wanted), kLeastRows);
  plan.blocks = most(ceil_div(w.rows.count, plan.rows_per_block), 1);  // no rows: one empty block, whose sum is +0.0
  return plan;
}

bool writes_apart(const WeightedSumBackward &w) {
  return w.gx.data != nullptr && w.gw.data != nullptr && decide(forced.apart, is_long(w) || is_short(w));
}

uint64_t backward_workspace(const WeightedSumBackward &backward) {
  if (backward.gw.data == nullptr) return 0;
  const RowBlocks blocks = plan_rows(backward);
  return blocks.blocks <= 1 ? 0 : static_cast<uint64_t>(blocks.blocks * backward.features * 4);
}

}  // namespace gpu
}  // namespace dxdw
