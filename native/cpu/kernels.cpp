// Compiled once per SIMD level, with that level's flags and its DXDW_LEVEL_ macro: the level's table of kernels.
#include "kernels.hpp"

#include "elementwise.hpp"
#include "micro.hpp"
#include "pack.hpp"
#include "rows.hpp"

namespace dxdw {
namespace cpu {

extern const Kernels DXDW_TABLE;

const Kernels DXDW_TABLE = {
    kName,
    kTileRows,
    kTileCols,
    kFused,
#if defined(DXDW_BF16_PAIRS)
    true,
#else
    false,
#endif
    pack<kTileRows>,
    pack<kTileCols>,
#if defined(DXDW_BF16_PAIRS)
    pack_pairs<kTileRows>,
    pack_pairs<kTileCols>,
#else
    nullptr,
    nullptr,
#endif
    tile_of<Single, PanelRows, true>,
    tile_of<Single, AnyRows, true>,
    tile_of<Single, NearRows, false>,
    tile_of<Single, AnyRows, false>,
#if defined(DXDW_BF16_PAIRS)
    tile_of<Pairs, PanelRows, true>,
    tile_of<Pairs, AnyRows, true>,
    tile_of<PairRows, NearRows, false>,
#else
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
