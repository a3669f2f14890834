// dW = or += A . B with few rows or few columns on Hopper, of 16-bit operands whose contraction is outer: the slices of a
// tile are the blocks of a cluster, and meet in each other's shared memory in slice order. So there is no workspace, no
// second kernel, and results have the bits of both: sum = +0.0; sum += part[s], s = 0, 1, 2, ...; dW = sum, or dW + sum.
//
// Reading the wide operand once is all the time it takes. A block is one slice of one tile: a warp loads steps of 64 k into
// a ring of stages by TMA, as deep as shared memory allows, a warpgroup multiplies. Lines of both operands have 64 columns
// in shared memory, whatever the tile has: the rest reads as 0. Where an operand has 16, further warps carry it, see
// carry.cuh.
//
// Thread t of all blocks of a cluster holds the same elements of the tile, each of its own slice: eight groups of four.
// Each group belongs to a block. Each block stores the other blocks' groups into their shared memory, a place for
// each slice, and adds its own.
//
// Why nothing waits for ever or is read too early:
//   - The cluster's barrier is passed twice. All threads of all blocks arrive twice and wait twice, in this order, whatever
//     their role, their slice's length or the tile's edge. In front of the first arrival and between the first wait and
//     the second arrival they wait for nobody; between the first arrival and the first wait the ring's barriers are all
//     that is waited for, and they depend on this block alone. So the cluster's barrier needs no watchdog: who does not
//     come is found waiting for the ring.
//   - The first says that a block runs, so that its shared memory may be written. The places for other slices' sums are
//     used for nothing else: no block need have finished with its ring.
//   - The second says that all sums are there. Stores come before a thread's releasing arrival, loads behind its
//     acquiring wait. Nobody reads or writes another block's memory behind it, so that blocks may end as they please.
#include "carry.cuh"
#include "product_hopper.cuh"

namespace dxdw {
namespace cuda {
namespace hopper {
namespace {

constexpr int kClusterThreads = 128 + 32;  // a warpgroup that multiplies, a warp that loads
constexpr int kCarriers = 4;               // warps
constexpr int kMostClusterThreads = kClusterThreads + 32 * kCarriers;
static_assert(kCarriers <= kClusterStages, "a warp would wait for a stage two rounds ahead");
static_assert(clustered_bytes(gpu::kMostClustered) <= kMostShared, "a block's shared memory is too large");
static_assert(gpu::kClusteredTile == 64 && kGroups % gpu::kMostClustered == 0, "all blocks own as many groups");

struct ClusteredArguments {
  CUtensorMap a, b;            // slices before the last
  CUtensorMap a_last, b_last;  // the last slice that is not empty
  float *out;
  int64_t row_stride;  // columns have unit stride
  int64_t rows, cols, contraction, chunk;
  int32_t tiles_m, last_slice;
  const char *thin;  // the operand of few columns, where warps carry it; else NULL
  int64_t thin_pitch;
  bool thin_is_a;
  bool add;
  bool pairs;  // two neighbours in a row may be read and written at once
};

// Two neighbours in a row, as far as there are so many: none, one or two.
[[maybe_unused]] __device__ __forceinline__ float2 load_pair(const float *from, int count, bool pairs) {
  if (count == 2 && pairs) return *reinterpret_cast<const float2 *>(from);
  return make_float2(count > 0 ? from[0] : 0.0f, count > 1 ? from[1] : 0.0f);
}
[[maybe_unused]] __device__ __forceinline__ void store_pair(float *to, float2 pair, int count, bool pairs) {
  if (count == 2 && pairs) {
    *reinterpret_cast<float2 *>(to) = pair;
    return;
  }
  if (count > 0) to[0] = pair.x;
  if (count > 1) to[1] = pair.y;
}

// Loads a slice's steps of k: one warp.
[[maybe_unused]] __device__ __forceinline__ void load_slice(const ClusteredArguments &p, int32_t row, int32_t col,
                                                            int32_t slice, int32_t steps, const Ring &ring) {
  const bool issuer = ptx::elect_one();
  const bool last = slice == p.last_slice;
  const CUtensorMap *map_a = last ? &p.a_last : &p.a, *map_b = last ? &p.b_last : &p.b;
  const int32_t plane = last ? 0 : slice;
  const bool carried = p.thin != nullptr, loads_a = !(carried && p.thin_is_a), loads_b = !carried || p.thin_is_a;
  const uint32_t bytes = carried ? kBox : 2 * kBox;
  int stage = 0;
  uint32_t parity = 1;  // the first round finds every stage free
  for (int32_t step = 0; step < steps; ++step) {
    const uint32_t to = ring.at + stage * kClusterStageBytes, barrier = ring.full + 8 * stage;
    ptx::mbarrier_wait(ring.empty + 8 * stage, parity);
    if (++stage == kClusterStages) stage = 0, parity ^= 1;
    if (!issuer) continue;
    ptx::mbarrier_arrive_expect_tx(barrier, bytes);
    if (loads_a) ptx::tma_load(to, map_a, barrier, row, step * kTileK, plane);
    if (loads_b) ptx::tma_load(to + kBox, map_b, barrier, col, step * kTileK, plane);
  }
  __syncwarp();
}

// The same for an operand of few columns: kCarriers warps.
[[maybe_unused]] __device__ __forceinline__ void carry_slice(const ClusteredArguments &p, int carrier, int32_t slice,
                                                             int64_t length, int32_t steps, const Ring &ring) {
  const ThinOperand thin = {p.thin + 2 * (slice * p.chunk * p.thin_pitch), p.thin_pitch, length};
  const Ring to = {ring.at + (p.thin_is_a ? 0 : kBox), ring.stage_bytes, ring.stages, ring.full, ring.empty};
  carry_columns<kCarriers>(thin, to, carrier, steps, steps);
  __syncwarp();
}

// A slice's sums: one warpgroup.
template <typename T>
__device__ __forceinline__ void multiply_slice(float (&sum)[32], int32_t steps, const Ring &ring) {
#pragma unroll
  for (int i = 0; i < 32; ++i) sum[i] = 0.0f;
  int stage = 0, before = 0;
  uint32_t parity = 0;
  for (int32_t step = 0; step < steps; ++step) {
    ptx::mbarrier_wait(ring.full + 8 * stage, parity);
    const uint32_t at = ring.at + stage * kClusterStageBytes;
    const uint64_t a = descriptor(at, false), b = descriptor(at + kBox, false);
    pin(sum);
    ptx::wgmma_fence();
#pragma unroll
    for (int s = 0; s < kTileK / 16; ++s)
      Wgmma<T, 64, 1, 1>::run(sum, a + s * descriptor_step(false), b + s * descriptor_step(false), step > 0 || s > 0);
    ptx::wgmma_commit();
    pin(sum);
    // The products of the step before are done once only one group is pending.
    ptx::wgmma_wait<1>();
    if (step > 0 && threadIdx.x == 0) ptx::mbarrier_arrive(ring.empty + 8 * before);
    before = stage;
    if (++stage == kClusterStages) stage = 0, parity ^= 1;
  }
  ptx::wgmma_wait<0>();
  pin(sum);
}

template <typename T, int kSlices>
__global__ void __launch_bounds__(kMostClusterThreads, 1)
    clustered_kernel(const __grid_constant__ ClusteredArguments p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr int kOwned = kGroups / kSlices;  // groups
  extern __shared__ char shared_raw[];
  const uint32_t stages_at = (ptx::shared_address(shared_raw) + 1023) & ~1023u;
  const uint32_t received = stages_at + kClusterStages * kClusterStageBytes, full = received + received_bytes(kSlices);
  const Ring ring = {stages_at, kClusterStageBytes, kClusterStages, full, full + 8 * kClusterStages};

  ptx::let_next_kernel_start();
  const int warp = ptx::uniform(threadIdx.x / 32), threads = blockDim.x;
  if (warp == 4) {
    if (threadIdx.x % 32 == 0) {
      for (int s = 0; s < kClusterStages; ++s) {
        ptx::mbarrier_init(ring.full + 8 * s, p.thin == nullptr ? 1 : 1 + 32);  // TMA, and a warp that carries
        ptx::mbarrier_init(ring.empty + 8 * s, 1);
      }
      ptx::fence_mbarrier_init();
      ptx::fence_proxy_async();
    }
    __syncwarp();
    ptx::named_barrier_arrive(kReadyBarrier, threads);
  } else {
    if (threadIdx.x == 0) prefetch_operand_maps(p);
    __syncwarp();
    ptx::named_barrier(kReadyBarrier, threads);
  }
  if constexpr (kSlices > 1) ptx::cluster_arrive_relaxed();
  ptx::wait_for_kernel_before();

  // The blocks of a cluster follow each other.
  const int32_t slice = blockIdx.x % kSlices, tile = blockIdx.x / kSlices;
  const int32_t row = tile % p.tiles_m * 64, col = tile / p.tiles_m * 64;
  const int64_t left = p.contraction - slice * p.chunk, length = left < p.chunk ? left : p.chunk;
  const int32_t steps = length <= 0 ? 0 : static_cast<int32_t>((length + kTileK - 1) / kTileK);

  float sum[32];
  if (warp < 4)
    multiply_slice<T>(sum, steps, ring);
  else if (warp == 4)
    load_slice(p, row, col, slice, steps, ring);
  else
    carry_slice(p, warp - 5, slice, length, steps, ring);

  // Element 4j + 2h + e of lane l of warp w is row 16w + l / 4 + 8h, column 8j + 2 (l % 4) + e: what lies outside of the
  // result by whole warps or groups goes nowhere.
  const int thread = threadIdx.x % 128, lane = threadIdx.x % 32;
  const int64_t rows_left = p.rows - row, cols_left = p.cols - col;
  const bool holds = warp < 4 && 16 * warp < rows_left;
  if constexpr (kSlices > 1) {
    ptx::cluster_wait();
    if (holds) {
#pragma unroll
      for (int j = 0; j < kGroups; ++j) {
        const int owner = owner_of(kSlices, j);
        if (owner == slice || 8 * j >= cols_left) continue;
        const int place = place_of(kSlices, slice, owner, j);
        ptx::store_cluster(ptx::address_in(received + place + 16 * thread, owner), sum[4 * j], sum[4 * j + 1],
                           sum[4 * j + 2], sum[4 * j + 3]);
      }
    }
    __syncwarp();
    ptx::cluster_arrive();
  }

  // Old values are asked for before the other slices' sums are waited for.
  float own[kOwned][4];
  float2 old[kOwned][2];
  int counts[kOwned][2];
  float *places[kOwned][2];
  if (holds) {
#pragma unroll
    for (int j = 0; j < kGroups; ++j)
      if (owner_of(kSlices, j) == slice)
#pragma unroll
        for (int e = 0; e < 4; ++e) own[j / kSlices][e] = sum[4 * j + e];
#pragma unroll
    for (int i = 0; i < kOwned; ++i)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int64_t down = 16 * warp + lane / 4 + 8 * h, across = 8 * (i * kSlices + slice) + 2 * (lane % 4);
        counts[i][h] = down >= rows_left || across >= cols_left ? 0 : across + 1 == cols_left ? 1 : 2;
        places[i][h] = p.out + (row + down) * p.row_stride + col + across;
        if (p.add) old[i][h] = load_pair(places[i][h], counts[i][h], p.pairs);
      }
  }
  __syncwarp();
  if constexpr (kSlices > 1) ptx::cluster_wait();
  if (!holds) return;
#pragma unroll
  for (int i = 0; i < kOwned; ++i) {
    if (8 * (i * kSlices + slice) >= cols_left) continue;
    float4 all = make_float4(own[i][0], own[i][1], own[i][2], own[i][3]);
    if constexpr (kSlices > 1) {
      const float4 mine = all;
      all = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
      for (int s = 0; s < kSlices; ++s) {
        const int place = place_of(kSlices, s, slice, i * kSlices);
        const float4 part = s == slice ? mine : ptx::load_shared(received + place + 16 * thread);
        all.x = __fadd_rn(all.x, part.x);
        all.y = __fadd_rn(all.y, part.y);
        all.z = __fadd_rn(all.z, part.z);
        all.w = __fadd_rn(all.w, part.w);
      }
    }
    float2 halves[2] = {make_float2(all.x, all.y), make_float2(all.z, all.w)};
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (p.add) halves[h] = make_float2(__fadd_rn(old[i][h].x, halves[h].x), __fadd_rn(old[i][h].y, halves[h].y));
      store_pair(places[i][h], halves[h], counts[i][h], p.pairs);
    }
  }
#endif
}

template <typename T>
Variant clustered_variant(int slices) {
  static std::atomic<uint64_t> devices[gpu::kMostClustered];
  return {slices == 1 ? reinterpret_cast<const void *>(clustered_kernel<T, 1>)
                      : reinterpret_cast<const void *>(clustered_kernel<T, 2>),
          clustered_bytes(slices), &devices[slices - 1]};
}

template <typename T>
cudaError_t launch_clustered(const gpu::ProductPlan &plan, const TiledOperand &a, const TiledOperand &b,
                             const Target &target, cudaStream_t stream) {
  const Product &w = plan.work;
  const int64_t contraction = w.contraction(), last_slice = (contraction + plan.chunk - 1) / plan.chunk - 1;
  const int64_t last_length = contraction - last_slice * plan.chunk;
  ClusteredArguments arguments;
  if (!encode_operand(&arguments.a, &arguments.a_last, w.a.type, a, w.c.rows, plan.chunk, last_slice, last_length, 0) ||
      !encode_operand(&arguments.b, &arguments.b_last, w.b.type, b, w.c.cols, plan.chunk, last_slice, last_length, 0))
    return cudaErrorInvalidValue;
  arguments.out = reinterpret_cast<float *>(target.data);
  arguments.row_stride = target.row_stride;
  arguments.rows = w.c.rows;
  arguments.cols = w.c.cols;
  arguments.contraction = contraction;
  arguments.chunk = plan.chunk;
  arguments.tiles_m = static_cast<int32_t>(plan.tiles_m);
  arguments.last_slice = static_cast<int32_t>(last_slice);
  arguments.thin_is_a = plan.tiles_m == 1;
  arguments.thin = !plan.carried ? nullptr : arguments.thin_is_a ? a.data : b.data;
  arguments.thin_pitch = arguments.thin_is_a ? a.pitch : b.pitch;
  arguments.add = target.add;
  arguments.pairs = reinterpret_cast<uintptr_t>(target.data) % 8 == 0 && target.row_stride % 2 == 0;
  const Variant chosen = clustered_variant<T>(plan.split);
  const cudaError_t error = allow_shared(chosen.kernel, chosen.shared_bytes, chosen.devices);
  if (error != cudaSuccess) return error;
  void *pointers[] = {&arguments};
  return launch(chosen.kernel, dim3(static_cast<unsigned>(plan.blocks)),
                dim3(plan.carried ? kMostClusterThreads : kClusterThreads), chosen.shared_bytes, stream, pointers,
                plan.early, static_cast<unsigned>(plan.split));
}

}  // namespace
}  // namespace hopper

cudaError_t product_clustered(const gpu::ProductPlan &p, const TiledOperand &a, const TiledOperand &b,
                              const Target &target, cudaStream_t stream) {
  return p.work.a.type == DType::f16 ? hopper::launch_clustered<__half>(p, a, b, target, stream)
                                     : hopper::launch_clustered<__nv_bfloat16>(p, a, b, target, stream);
}

}  // namespace cuda
}  // namespace dxdw
