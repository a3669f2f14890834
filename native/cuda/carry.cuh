// Steps of k of an operand of gpu::kThinColumns columns, whose contraction is outer, by vectors. TMA would make a request
// to the L2 cache of each of its short rows, from all blocks at about the same time; vectors take several rows a request.
// Warps of their own carry them, beside the one that loads the other operand by TMA.
#pragma once

#include "gpu_plan.hpp"
#include "hopper_layout.hpp"
#include "ptx.cuh"

namespace dxdw {
namespace cuda {
namespace hopper {

// Stages of shared memory that are used in turn, with two barriers each.
struct Ring {
  uint32_t at;  // where the first stage has what is loaded
  int32_t stage_bytes, stages;
  uint32_t full, empty;  // the first stage's barriers; those of the next follow by 8 bytes
};

struct ThinOperand {
  const char *data;
  int64_t pitch;        // elements
  int64_t contraction;  // k behind it read as 0
};

// The part of one of kCarriers warps, each of which loads a step in turn: turn t is step t % steps. A stage is full once all
// lanes of a warp have arrived, beside who loads the other operand. Lines have 64 columns in shared memory, as the products
// read them. The columns behind the last hold anything: what is multiplied with them must never be stored.
template <int kCarriers>
[[maybe_unused]] __device__ __forceinline__ void carry_columns(const ThinOperand &from, const Ring &ring, int carrier,
                                                               int32_t turns, int32_t steps) {
  constexpr int kOfRow = gpu::kThinColumns * 2 / 16;  // vectors
  constexpr int kVectors = kTileK * kOfRow / 32;      // of a lane
  const int lane = threadIdx.x % 32;
  uint4 vectors[kVectors];
  const auto ask = [&](int32_t turn) {
    const int32_t first = turn % steps * kTileK;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int at = lane + 32 * i;
      const int64_t k = first + at / kOfRow;
      vectors[i] = k < from.contraction
                       ? __ldcg(reinterpret_cast<const uint4 *>(from.data + 2 * (k * from.pitch + at % kOfRow * 8)))
                       : make_uint4(0, 0, 0, 0);
    }
  };
  if (carrier < turns) ask(carrier);
  // There are no fewer stages than warps: a parity tells a round of the ring from the next only, and a warp must not wait
  // for a stage two rounds ahead.
  int stage = carrier;
  uint32_t parity = 1;  // the first round finds every stage free
  for (int32_t turn = carrier; turn < turns; turn += kCarriers) {
    uint4 now[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) now[i] = vectors[i];
    if (turn + kCarriers < turns) ask(turn + kCarriers);
    ptx::mbarrier_wait(ring.empty + 8 * stage, parity);
    const uint32_t to = ring.at + stage * ring.stage_bytes;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int at = lane + 32 * i;
      ptx::store_shared(to + swizzled(at / kOfRow, at % kOfRow), now[i]);
    }
    ptx::fence_proxy_async();
    ptx::mbarrier_arrive(ring.full + 8 * stage);
    stage += kCarriers;
    if (stage >= ring.stages) stage -= ring.stages, parity ^= 1;
  }
}

}  // namespace hopper
}  // namespace cuda
}  // namespace dxdw
