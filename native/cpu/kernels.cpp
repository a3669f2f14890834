// Compiled once per SIMD level, with that level's flags and its DXDW_LEVEL_ macro: the level's table of kernels.
#include "kernels.hpp"

#include "elementwise.hpp"
#include "micro.hpp"
#include "pack.hpp"
#include "rows.hpp"

namespace dxdw {
namespace cpu {

namespace {

template <int Rows, int Cols>
constexpr TileShape shape() {
  // Where two tiles' rows fit a vector, packing and reading a panel of both costs no more than one of one.
  constexpr int kLines = 2 * Rows <= kLanes ? 2 * Rows : Rows;
#if defined(DXDW_BF16_PAIRS)
  return {Rows, Cols, kLines, pack<kLines>, pack<Cols>, pack_pairs<kLines>, pack_pairs<Cols>};
#else
  return {Rows, Cols, kLines, pack<kLines>, pack<Cols>, nullptr, nullptr};
#endif
}

}  // namespace

extern const Kernels DXDW_TABLE;

const Kernels DXDW_TABLE = {
    kName,
    kFused,
#if defined(DXDW_BF16_PAIRS)
    true,
#else
    false,
#endif
    shape<kTileRows, kTileCols>(),
    shape<kWideRows, kWideCols>(),
    tile_of<Single, PanelRows, kTileCols, kTileVectors>,
    tile_of<Single, AnyRows, kTileCols, kTileVectors>,
    tile_of<Single, AnyRows, kWideCols, kWideVectors>,
    tile_of<Single, NearRows, 0, kTileVectors>,
    tile_of<Single, AnyRows, 0, kTileVectors>,
#if defined(DXDW_BF16_PAIRS)
    tile_of<Pairs, PanelRows, kTileCols, kTileVectors>,
    tile_of<Pairs, AnyRows, kTileCols, kTileVectors>,
    tile_of<Pairs, AnyRows, kWideCols, kWideVectors>,
    tile_of<PairRows, NearRows, 0, kTileVectors>,
#else
    nullptr,
    nullptr,
    nullptr,
    nullptr,
#endif
    convert,
    reduce,
    dot,
    dots,
    add_scaled,
    scale,
    scale_and_add,
    {add_pairs, relu, relu_backward, gelu, gelu_backward, scaled_difference, scaled_exp},
    largest,
    exp_sum,
    squared_distance,
    squared_sum,
    sgd,
    adamw,
    v_fence,
};

}  // namespace cpu
}  // namespace dxdw
