// Chooses kernel, tile, number of slices and workspace for a product on a GPU: a pure function of the product's shape,
// strides, types and of the chip. No CUDA in here, so that it can be tested and printed on any machine.
#pragma once

#include "problem.hpp"

namespace dxdw {
namespace gpu {

// What a plan needs to know of a chip.
struct Chip {
  int32_t capability;       // 80, 90, ...: major * 10 + minor
  int32_t multiprocessors;  // 132 on an H200
};

enum Kernel : int32_t {
  kSimt = 0,    // float32 multiply-add: float32 operands, DXDW_PRECISION_EXACT, empty contractions
  kMma = 1,     // mma.sync on 16-bit operands, any strides
  kHopper = 2,  // wgmma and TMA on 16-bit operands, capability 9.0 only
  kTf32 = 3,    // wgmma on float32 operands rounded to TF32, capability 9.0 only
  kBf16x3 = 4,  // wgmma on float32 operands in three bfloat16 parts each, capability 9.0 only
};

// Tiles of kSimt that TMA loads, 64, 128 or 256 columns wide.
constexpr int32_t kFedTileM = 128, kFedTileK = 32;

// Tiles of kTf32 and kBf16x3, and what their packed lines are rounded up to.
constexpr int32_t kPartsTileM = 128, kPartsTileN = 192, kPartsTileK = 32, kPartsPadding = 64;

// Columns of the results that the thin kernel for 16-bit operands computes, and of operands that clusters carry.
constexpr int32_t kThinColumns = 16;

// Tiles, in both directions, of dW whose slices are the blocks of a cluster, and the most of these. Larger clusters of
// blocks that need a multiprocessor each do not reach all of the chip.
constexpr int32_t kClusteredTile = 64, kMostClustered = 2;

// Contractions that the kernels for small tiles of kMma take at once.
constexpr int64_t kMostSmallContraction = 512;

// How the slices of a contraction come together.
enum Combine : int32_t {
  kDirect = 0,     // one slice, or clusters: the product kernel writes the output
  kAtomic = 1,     // slices are added into the float32 output in any order
  kWorkspace = 2,  // each slice writes a partial; the reduction adds them in slice order
};

// How TMA, or a vector load, walks a matrix whose contraction runs along one of its dimensions.
struct Walk {
  bool contraction_inner;  // the contraction has unit stride ("K-major"); else the other dimension has
  bool aligned;            // unit stride, base and pitch multiples of 16 bytes
  int64_t pitch;           // elements between lines
};

struct ProductPlan {
  Kernel kernel;
  Combine combine;
  bool swap;            // compute C^T = B^T . A^T, because C is column-major or `turned`
  Product work;         // the product to run: swapped where `swap` says so
  Walk a, b;            // of `work`
  bool pack_a, pack_b;  // always for kTf32 and kBf16x3, whose operands are rounded on the way
  int32_t tile_m, tile_n, tile_k;
  bool fed;  // of kSimt on capability 9.0: TMA loads the tiles
  // Of the Hopper kernel:
  bool turned;         // `work` is the transposed product, and its result's rows are contiguous
  bool stores_boxes;   // TMA can address the result
  int32_t band;        // rows of tiles that are walked together
  bool keeps_columns;  // a block loads its columns' operand once for all of its tiles
  bool fetch_old;      // what will be added to is asked into the L2 cache while a tile is multiplied
  bool early;          // it is launched to overlap the end of the kernel before it
  bool thin;           // kThinColumns columns and a long contraction: a kernel of their own
  bool clustered;      // dW of few rows or columns: the slices of a tile are a cluster, and meet in its shared memory
  bool carried;        // of these: warps carry the operand of few columns, which TMA would ask for by short rows
  int32_t split;       // slices; slice s covers [s * chunk, min((s + 1) * chunk, contraction))
  int64_t chunk;
  int64_t tiles_m, tiles_n, tiles;  // of one slice
  int32_t blocks;
  bool overlap;  // capability 9.0 and newer: a kernel may be launched to overlap the end of the one before it
  // Workspace, in bytes from its start; each part is aligned to 256 bytes.
  uint64_t pack_a_at, pack_b_at, partials_at, workspace_bytes;
  int64_t pack_a_pitch, pack_b_pitch;  // elements; of a slice alone for kTf32 and kBf16x3
  int64_t partial_pitch;               // floats between rows of a partial
  double waves;                        // tiles times slices over what runs at once
  const char *reason;                  // for the kernel
};

// What tests and benchmarks set to have a plan's choices made for it; 0 leaves a choice to the plan, -1 says no.
struct Forced {
  int32_t tile_n = 0, band = 0, keeps_columns = 0, fetch_old = 0;
  int32_t blocks = 0;  // at most, of kernels whose blocks walk from tile to tile
  int32_t fed = 0;     // of float32 products, whose fed tiles `tile_n` chooses
  int32_t apart = 0;   // of a weighted sum's backward
  int32_t early = 0;   // of 16-bit products
  int32_t thin = 0;
  int32_t clustered = 0;  // the number of slices, where the call leaves it to the plan
};
extern Forced forced;

// function: DXDW_Y, DXDW_DX or DXDW_DW.
ProductPlan plan_product(const Product &product, int32_t function, const Chip &chip);

// The same, at once where it is what the calling thread asked last: a call asks twice, for its workspace and for its
// launch, and most calls are like the one before. Stays as it is until the thread asks again.
const ProductPlan &planned_product(const Product &product, int32_t function, const Chip &chip);

// One sentence.
struct Sentence {
  char text[256];
};
Sentence explain(const ProductPlan &plan, const Chip &chip);

// All fields of `out` but its size.
void describe(const ProductPlan &plan, const Chip &chip, dxdw_plan *out);

const char *kernel_name(const ProductPlan &plan);

// Blocks of rows of a weighted sum's backward, from shape and type alone, so that gw has the same bits on every device.
struct RowBlocks {
  int64_t rows_per_block;
  int64_t blocks;
};
RowBlocks plan_rows(const WeightedSumBackward &backward);

// Are gx and gw, of operands that vectors can walk, left to kernels of their own?
bool writes_apart(const WeightedSumBackward &backward);

// Bytes for the partial sums of gw; 0 when one block of rows holds all.
uint64_t backward_workspace(const WeightedSumBackward &backward);

}  // namespace gpu
}  // namespace dxdw
