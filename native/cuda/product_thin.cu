// C = or += A . B of 16 columns and a long contraction on Hopper: Y = X.W of adapters of low rank. The contraction of A is
// inner, that of B outer. Reading A once is all the time it takes. Results have the bits of the Hopper kernel's tiles.
//
// As there, a block walks over tiles of 128 rows, one warp loads steps of 64 k of A into a ring of stages by TMA, and two
// warpgroups multiply 64 rows each. But rows of B have 32 bytes, each of which TMA would make a request of its own to the
// L2 cache, from all blocks at about the same time. So three more warps load B by vectors, four rows a request, and the
// steps that lie ahead are asked into the L2 cache by one block each, so that they hit for all others.
//
// A step of B has lines of 64 columns in shared memory, as the products read them. The columns behind the sixteenth hold
// anything: what is multiplied with them is never stored.
#include "carry.cuh"
#include "product_hopper.cuh"

namespace dxdw {
namespace cuda {
namespace hopper {
namespace {

constexpr int kThinStages = 8, kThinBuffers = 2;
constexpr int kThinStageBytes = kBytesA + bytes_b(64);
constexpr int kThinShared = 1024 + kThinStages * (kThinStageBytes + 16) + kConsumers * kThinBuffers * kStagingBytes;
static_assert(kThinShared <= kMostShared, "a block's shared memory is too large");
constexpr int kCarriers = 3;  // warps that load B
// Not used where the kernel is compiled empty, for other chips.
[[maybe_unused]] constexpr int kStepsAhead = 2 * kThinStages;  // that B is asked into the L2 cache
static_assert(kCarriers <= kThinStages, "a warp would wait for a stage two rounds ahead");

struct ThinArguments {
  Arguments product;  // of it: a_last, b_last, c, last_slice, target, rows, cols, contraction, tiles_m, epilogue
  const char *b;
  int64_t pitch_b;
};

template <typename T>
__global__ void __launch_bounds__(kThreads, 1) thin_kernel(const __grid_constant__ ThinArguments p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ char shared_raw[];
  const uint32_t shared = (ptx::shared_address(shared_raw) + 1023) & ~1023u;
  const uint32_t staging = shared + kThinStages * kThinStageBytes;
  const uint32_t full = staging + kConsumers * kThinBuffers * kStagingBytes, empty = full + 8 * kThinStages;

  ptx::let_next_kernel_start();
  const int warp = ptx::uniform(threadIdx.x / 32);
  const int32_t steps = static_cast<int32_t>((p.product.contraction + kTileK - 1) / kTileK);
  const int32_t first_tile = blockIdx.x, hop = gridDim.x;
  if (warp == 0) {
    if (threadIdx.x == 0) {
      for (int s = 0; s < kThinStages; ++s) {
        ptx::mbarrier_init(full + 8 * s, 1 + 32);  // A, and a warp's B
        ptx::mbarrier_init(empty + 8 * s, kConsumers);
      }
      ptx::fence_mbarrier_init();
      ptx::fence_proxy_async();
    }
    __syncwarp();
    ptx::named_barrier_arrive(kReadyBarrier, kThreads);
  } else {
    if (threadIdx.x == 32) prefetch_maps(p.product);
    ptx::named_barrier(kReadyBarrier, kThreads);
  }
  ptx::wait_for_kernel_before();

  if (warp == 0) {
    const bool issuer = ptx::elect_one();
    int stage = 0;
    uint32_t parity = 1;
    for (int32_t tile = first_tile; tile < p.product.tiles_m; tile += hop) {
      for (int32_t step = 0; step < steps; ++step) {
        const uint32_t to = shared + stage * kThinStageBytes, barrier = full + 8 * stage;
        ptx::mbarrier_wait(empty + 8 * stage, parity);
        if (++stage == kThinStages) stage = 0, parity ^= 1;
        if (!issuer) continue;
        ptx::mbarrier_arrive_expect_tx(barrier, kBytesA);
        ptx::tma_load(to, &p.product.a_last, barrier, step * kTileK, tile * kTileM, 0);
        // What lies ahead in B is asked for at once when the ring is full, then a step at a time.
        if (tile != first_tile || step < kThinStages - 1) continue;
        const int32_t end = min(step + kStepsAhead + 1, steps);
        for (int32_t ahead = step == kThinStages - 1 ? kThinStages : step + kStepsAhead; ahead < end; ++ahead)
          if (ahead % hop == first_tile) ptx::prefetch(&p.product.b_last, 0, ahead * kTileK, 0);
      }
    }
    __syncwarp();
  } else if (warp < 4) {
    const int32_t tiles = (p.product.tiles_m - first_tile - 1) / hop + 1;
    carry_columns<kCarriers>({p.b, p.pitch_b, p.product.contraction},
                             {shared + kBytesA, kThinStageBytes, kThinStages, full, empty}, warp - 1, tiles * steps,
                             steps);
  } else {
    const int consumer = warp / 4 - 1, thread = threadIdx.x % 128;
    Outlet outlet = {staging + consumer * kThinBuffers * kStagingBytes, 1 + consumer, 0};
    int stage = 0;
    uint32_t parity = 0;
    for (int32_t tile = first_tile; tile < p.product.tiles_m; tile += hop) {
      float sum[32];
      int before = 0;
      for (int32_t step = 0; step < steps; ++step) {
        ptx::mbarrier_wait(full + 8 * stage, parity);
        const uint32_t at = shared + stage * kThinStageBytes;
        const uint64_t a = descriptor(at + consumer * kBox, true), b = descriptor(at + kBytesA, false);
        pin(sum);
        ptx::wgmma_fence();
#pragma unroll
        for (int s = 0; s < kTileK / 16; ++s)
          Wgmma<T, 64, 0, 1>::run(sum, a + s * descriptor_step(true), b + s * descriptor_step(false),
                                  step > 0 || s > 0);
        ptx::wgmma_commit();
        pin(sum);
        ptx::wgmma_wait<1>();
        if (step > 0 && thread == 0) ptx::mbarrier_arrive(empty + 8 * before);
        before = stage;
        if (++stage == kThinStages) stage = 0, parity ^= 1;
      }
      ptx::wgmma_wait<0>();
      if (thread == 0) ptx::mbarrier_arrive(empty + 8 * before);
      pin(sum);
      write_rows<T, kThinBuffers>(p.product, sum, {tile * kTileM + consumer * 64, 0, 0}, &outlet);
    }
    if (thread == 0) ptx::bulk_wait_read<0>();
  }
#endif
}

template <typename T>
cudaError_t launch_thin(const gpu::ProductPlan &plan, const TiledOperand &a, const TiledOperand &b,
                        const Target &target, cudaStream_t stream) {
  const Product &w = plan.work;
  const int64_t contraction = w.contraction();
  ThinArguments arguments;
  Arguments &product = arguments.product;
  if (!encode(&product.a_last, w.a.type, a.data, contraction, w.c.rows, 1, a.pitch, 0, kTileK, kTileM) ||
      !encode(&product.b_last, w.b.type, b.data, w.c.cols, contraction, 1, b.pitch, 0, 64, kTileK) ||
      !describe_result(&product, plan, target))
    return cudaErrorInvalidValue;
  product.last_slice = 0;
  product.contraction = contraction;
  product.tiles_m = static_cast<int32_t>(plan.tiles_m);
  arguments.b = b.data;
  arguments.pitch_b = b.pitch;
  static std::atomic<uint64_t> devices;
  const void *kernel = reinterpret_cast<const void *>(thin_kernel<T>);
  const cudaError_t error = allow_shared(kernel, kThinShared, &devices);
  if (error != cudaSuccess) return error;
  void *pointers[] = {&arguments};
  return launch(kernel, dim3(static_cast<unsigned>(plan.blocks)), dim3(kThreads), kThinShared, stream, pointers,
                plan.early);
}

}  // namespace
}  // namespace hopper

cudaError_t product_thin(const gpu::ProductPlan &p, const TiledOperand &a, const TiledOperand &b, const Target &target,
                         cudaStream_t stream) {
  return p.work.a.type == DType::f16 ? hopper::launch_thin<__half>(p, a, b, target, stream)
                                     : hopper::launch_thin<__nv_bfloat16>(p, a, b, target, stream);
}

}  // namespace cuda
}  // namespace dxdw
