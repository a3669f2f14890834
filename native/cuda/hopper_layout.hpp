// Arithmetic of the Hopper kernel's tiles in shared memory, usable and tested on the host: sizes, descriptors, the
// 128-byte swizzle.
#pragma once

#include <stdint.h>

#ifdef __CUDACC__
#define DXDW_BOTH __host__ __device__
#else
#define DXDW_BOTH
#endif

namespace dxdw {
namespace cuda {
namespace hopper {

constexpr int kTileM = 128;           // two warpgroups of 64 rows
constexpr int kTileK = 64;            // 64 elements of 16 bits: one line of the 128-byte swizzle
constexpr int kLine = 128;            // bytes of such a line
constexpr int kBox = kTileK * kLine;  // 64 lines: a box of an operand with outer contraction, 64 rows of the other
constexpr int kBytesA = kTileM * kLine;
constexpr int kStagingBytes = 64 * kLine;  // an epilogue's sub-tile: 64 rows of 128 bytes
constexpr int kConsumers = 2;              // warpgroups that multiply and store
constexpr int kMostShared = 232448;        // what a block may have

// Do the two warpgroups take whole tiles in turn?
DXDW_BOTH constexpr bool is_ping_pong(int tile_n) { return tile_n == 128 || tile_n == 160; }

// Do results wait in registers while the next tile is multiplied?
DXDW_BOTH constexpr bool is_held(int tile_n) { return tile_n == 256; }

// Are rows of the result contiguous in memory, not columns? Then a sub-tile is 80 columns of 64 rows.
DXDW_BOTH constexpr bool is_turned(int tile_n) { return tile_n == 160; }
constexpr int kTurnedColumns = 80;
constexpr int kTurnedBytes = kTurnedColumns * kLine;

DXDW_BOTH constexpr int buffer_bytes(int tile_n) { return is_turned(tile_n) ? kTurnedBytes : kStagingBytes; }

DXDW_BOTH constexpr int bytes_b(int tile_n) { return tile_n * kLine; }

// A block may keep kPanel steps of k of the columns' operand for all of its tiles: contractions of up to 512. Else that
// operand passes through the ring of loads with the rows'.
constexpr int kPanel = 8;

struct Layout {
  int stages;   // of the ring
  int buffers;  // of a warpgroup: sub-tiles of the result on their way out
};
DXDW_BOTH constexpr Layout layout(int tile_n, bool keeps) {
  if (tile_n == 256) return {4, 2};
  if (tile_n == 160) return {5, 2};
  if (tile_n == 64) return {8, 2};
  return keeps ? Layout{4, 2} : Layout{5, 4};
}

DXDW_BOTH constexpr int stage_bytes(int tile_n, bool keeps) { return kBytesA + (keeps ? 0 : bytes_b(tile_n)); }
// 1024 more than is used, because the swizzle wants stages at multiples of 1024. Barriers: two a stage, one for each
// step of the panel.
DXDW_BOTH constexpr int shared_bytes(int tile_n, bool keeps) {
  const Layout l = layout(tile_n, keeps);
  return 1024 + (keeps ? kPanel * (bytes_b(tile_n) + 8) : 0) + l.stages * (stage_bytes(tile_n, keeps) + 16) +
         kConsumers * l.buffers * buffer_bytes(tile_n);
}

// Clusters, whose blocks are the slices of a tile of 64 x 64: the ring of a block, and the sums that it receives. A thread
// holds eight groups of four elements of a tile, each of which belongs to one block.
constexpr int kClusterStages = 12, kClusterStageBytes = 2 * kBox;
constexpr int kGroups = 8, kGroupBytes = 128 * 16;
DXDW_BOTH constexpr int owner_of(int slices, int group) { return group % slices; }
DXDW_BOTH constexpr int received_bytes(int slices) { return (slices - 1) * (kGroups / slices) * kGroupBytes; }
// Where the owner of a group receives it from another slice, for all threads.
DXDW_BOTH constexpr int place_of(int slices, int slice, int owner, int group) {
  return ((slice < owner ? slice : slice - 1) * (kGroups / slices) + group / slices) * kGroupBytes;
}
DXDW_BOTH constexpr int clustered_bytes(int slices) {
  return 1024 + kClusterStages * (kClusterStageBytes + 16) + received_bytes(slices);
}

// Where chunk `chunk` (16 bytes) of line `line` stands under the 128-byte swizzle.
DXDW_BOTH constexpr uint32_t swizzled(uint32_t line, uint32_t chunk) {
  return line * kLine + ((chunk ^ (line % 8)) << 4);
}

// The matrix descriptor of wgmma for a tile at `address` in shared memory, 128-byte swizzle.
//   contraction inner: a line holds 64 k of one row or column; groups of 8 lines follow each other by 1024 bytes.
//   contraction outer: a line holds 64 rows or columns of one k; groups of 8 k follow by 1024 bytes, the next 64 rows
//   or columns by a whole box.
DXDW_BOTH constexpr uint64_t descriptor(uint32_t address, bool contraction_inner) {
  const uint64_t leading = contraction_inner ? 1 : kBox >> 4;
  return (static_cast<uint64_t>(address & 0x3ffff) >> 4) | leading << 16 | (uint64_t{1024} >> 4) << 32 |
         uint64_t{1} << 62;
}

// What 16 further elements of the contraction add to a descriptor.
DXDW_BOTH constexpr uint64_t descriptor_step(bool contraction_inner) {
  return (contraction_inner ? 16 * 2 : 16 * kLine) >> 4;
}

}  // namespace hopper
}  // namespace cuda
}  // namespace dxdw
