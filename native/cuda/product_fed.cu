// C[m,n] = or += sum over k of A[m,k] . B[k,n] in float32 multiply-add on Hopper, for operands that the tensor copy engine
// can walk. Each element is one chain of fused multiply-adds in rising k that starts at +0.0: the bits are those of the
// kernels in product_simt.cu.
//
// A block owns a tile at a time and walks from tile to tile. One warp of its first warpgroup loads steps of 32 k into a
// ring of stages by TMA; the others multiply: two warpgroups tiles of 128 x 256, 8 x 16 elements a thread, or of 128 x 128,
// 8 x 8 elements; one those of 128 x 64, and two such blocks share a multiprocessor. They copy nothing and compute no
// addresses of memory, and wait for a stage without waiting for each other.
//
// Reads of shared memory are of four rows, or four columns, of a k. That decides more than their number: a multiply-add
// reads three registers, each of the two banks (odd and even) gives one in a cycle, and one factor stays from the
// multiply-add before. Rows that come four at a time lie in both banks by turns whatever k, and the compiler finds a
// place in the other bank for every sum. Reads of four k of a row would not leave it that.
//
// Lines with their k side by side (x of Y, both operands of dX) come as they are, and three warps of the first warpgroup
// turn 4 x 4 elements at a time, in place, before they are read.
//
// What the next k needs of A, and the next eight columns of B, is read while what is there is multiplied.
#include "kernels.hpp"
#include "ptx.cuh"
#include "tensor_map.hpp"
#include "tiled.cuh"

namespace dxdw {
namespace cuda {

namespace fed {

constexpr int kTileM = gpu::kFedTileM;
constexpr int kStep = gpu::kFedTileK;  // k of a stage: a line of the 128-byte swizzle
// Not used where the kernel is compiled empty, for other chips.
[[maybe_unused]] constexpr int kFirstTurner = 1, kTurners = 3;  // warps of the first warpgroup
constexpr int M = 8;                                            // rows of a thread

// Tiles of 128 x `tile_n`, M x N elements a thread; a warp has eight threads below one another and four side by side.
template <int tile_n>
struct Shape {
  static constexpr int kTileN = tile_n, N = tile_n == 256 ? 16 : 8;
  static constexpr int kWarpsAcross = kTileN / (4 * N), kMultiplyingWarps = 2 * kWarpsAcross;
  static constexpr int kBlock = 128 / N;  // k's of the innermost loop
  static constexpr int kThreads = 128 + 32 * kMultiplyingWarps;
  static constexpr int kBytesA = kTileM * kStep * 4, kBytesB = kTileN * kStep * 4;
  static constexpr int kStageBytes = kBytesA + kBytesB;
  // Blocks on a multiprocessor, as registers allow.
  static constexpr int kBlocks = kMultiplyingWarps == 4 ? 2 : 1;
  static constexpr int kStages = (kBlocks == 2 ? 114688 : 229376) / kStageBytes;
  // 1024 more than is used, because the swizzle wants stages at multiples of 1024; three barriers a stage.
  static constexpr int kSharedBytes = 1024 + kStages * (kStageBytes + 3 * 8);
  static_assert(kBlocks * (kSharedBytes + 1024) <= 233472, "blocks take more shared memory than there is");
};

struct Arguments {
  CUtensorMap a, b;
  TiledArguments p;
};

__device__ __forceinline__ void read_four(uint32_t from, float (&to)[4]) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
               : "r"(from));
}

// Lines of 32 k stand in a stage as TMA's swizzle leaves them: four k `chunk` of line l at 128 l + 16 (chunk ^ l % 8).
//
// Turned, the 16 cells of lines 4 q + 0..3 and of a chunk hold lines where they held k: k 4 chunk + e of lines 4 q + 0..3
// is in the cell of line 4 q + (e ^ q / 2 % 4). Threads read cells of q side by side, which are so in different banks.
//
// From group of four lines `kFirst` of a stage to `kEnd`; those of B follow those of A. The turning warps take four groups
// each by turns; a warp's next ones are always as far away, so that its addresses are made once a stage.
template <int kFirst, int kEnd>
__device__ __forceinline__ void turn_stage(uint32_t stage_at, int warp, int lane) {
  constexpr int kPasses = (kEnd - kFirst) / 4, kHop = kTurners * 4 * 512;
  static_assert(kTurners % 2 == 1 && kFirst % 8 == 0, "q / 2 % 4 changes by 2 from pass to pass");
  const uint32_t q = kFirst + 4 * warp + lane / 8, chunk = lane % 8;
  const uint32_t at = stage_at + 512 * q + 16 * (chunk ^ q % 2 * 4);
  uint32_t from[4], to[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    from[e] = at ^ 144 * e;
    to[e] = from[e] ^ 144 * (q / 2 % 4);
  }
#pragma unroll
  for (int pass = 0; kTurners * pass < kPasses; ++pass) {
    if (kTurners * pass + warp >= kPasses) break;
    float cell[4][4];
#pragma unroll
    for (int e = 0; e < 4; ++e) read_four(from[e] + kHop * pass, cell[e]);
#pragma unroll
    for (int e = 0; e < 4; ++e)
      ptx::store_shared(to[e ^ 2 * (pass % 2)] + kHop * pass,
                        make_uint4(__float_as_uint(cell[0][e]), __float_as_uint(cell[1][e]),
                                   __float_as_uint(cell[2][e]), __float_as_uint(cell[3][e])));
  }
}

// How a thread reads its kCount lines of an operand: groups of four, kLanes lanes side by side. Warps have kLanes * kCount
// lines each.
template <bool kTurned, int kTile, int kLanes, int kCount>
struct Reader {
  static constexpr int kLines = kLanes * kCount;
  uint32_t lane_at;

  __device__ Reader(int warp, int lane) {
    lane_at = kTurned ? 128 * kLines * warp + 512 * lane + (64 * (lane % 2) ^ 144 * (lane / 2))
                      : 4 * kLines * warp + 16 * lane;
  }
  // Where a block of a stage that starts with k `first` is for this thread.
  __device__ __forceinline__ uint32_t block_at(uint32_t operand, int first) const {
    const uint32_t at = operand + lane_at;
    return kTurned ? at ^ 4 * first : at + kTile * 4 * first;
  }
  // Group `group` of k `k` of a block.
  static __device__ __forceinline__ void read(uint32_t block_at, int k, int group, float (&to)[4]) {
    if (kTurned) {
      const int cell = kLanes == 4 ? k % 4 ^ 2 * (group % 2) : k % 4;
      read_four((block_at ^ (16 * (k / 4) ^ 144 * cell)) + 512 * kLanes * group, to);
    } else {
      read_four(block_at + kTile * 4 * k + 16 * kLanes * group, to);
    }
  }
  static __device__ __forceinline__ void read_k(uint32_t block_at, int k, float (&to)[kCount]) {
#pragma unroll
    for (int group = 0; group < kCount / 4; ++group) {
      float four[4];
      read(block_at, k, group, four);
#pragma unroll
      for (int e = 0; e < 4; ++e) to[4 * group + e] = four[e];
    }
  }
  static __device__ __forceinline__ int line(int warp, int lane, int i) {
    return kLines * warp + 4 * kLanes * (i / 4) + 4 * lane + i % 4;
  }
};

template <typename Rows, typename Columns, int N>
__device__ __forceinline__ void write_tile(const TiledArguments &p, const TileUnit &u, const float (&sum)[M][N],
                                           int row_warp, int row_lane, int col_warp, int col_lane) {
  const Target &c = p.c;
  const bool vectors = c.col_stride == 1 && !c.atomic && c.row_stride % 4 == 0 && c.slice_stride % 4 == 0 &&
                       reinterpret_cast<uintptr_t>(c.data) % 16 == 0;
  const int64_t cols_left = p.b.lines - u.col0;
#pragma unroll
  for (int i = 0; i < M; ++i) {
    const int64_t row = u.row0 + Rows::line(row_warp, row_lane, i);
    if (row >= p.a.lines) continue;
#pragma unroll
    for (int g = 0; g < N / 4; ++g) {
      const int col = Columns::line(col_warp, col_lane, 4 * g);
      const int64_t first = u.slice * c.slice_stride + row * c.row_stride + (u.col0 + col) * c.col_stride;
      put_four(c, DType::f32, first, col, cols_left, vectors, &sum[i][4 * g]);
    }
  }
}

template <typename S, bool kInnerA, bool kInnerB>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks) fed_kernel(const __grid_constant__ Arguments arguments) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr int kTileN = S::kTileN, N = S::N, kBlock = S::kBlock, kStages = S::kStages, kStageBytes = S::kStageBytes,
                kBytesA = S::kBytesA;
  constexpr bool kTurns = kInnerA || kInnerB;
  // Those that feed and turn leave the rest to one or two warpgroups that multiply.
  constexpr int kFeederRegisters = !kTurns ? 40 : S::kBlocks == 2 ? 48 : 56;
  constexpr int kRegisters = S::kBlocks == 2 ? 256 - kFeederRegisters : (504 - kFeederRegisters) / 2;
  using Rows = Reader<kInnerA, kTileM, 8, M>;
  using Columns = Reader<kInnerB, kTileN, 4, N>;
  const TiledArguments &p = arguments.p;
  extern __shared__ char shared_raw[];
  const uint32_t shared = (ptx::shared_address(shared_raw) + 1023) & ~1023u;
  const uint32_t full = shared + kStages * kStageBytes, empty = full + 8 * kStages, turned = empty + 8 * kStages;
  const int warp = ptx::uniform(threadIdx.x / 32);

  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      ptx::mbarrier_init(full + 8 * s, 1);
      ptx::mbarrier_init(empty + 8 * s, S::kMultiplyingWarps * 32);
      ptx::mbarrier_init(turned + 8 * s, kTurners * 32);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  // All roles walk the same stages in the same order.
  int stage = 0;
  uint32_t parity = 0;
  const auto advance = [&] {
    if (++stage == kStages) stage = 0, parity ^= 1;
  };

  if (warp < 4) {
    ptx::give_registers<kFeederRegisters>();
    const auto each_step = [&](const auto &work) {
      for (int64_t unit = blockIdx.x; unit < p.units; unit += gridDim.x) {
        const TileUnit u = tile_unit<kTileM, kTileN>(p, unit);
        const int length = static_cast<int>(u.length);
        for (int k = 0; k < length; k += kStep) {
          work(u, k, shared + stage * kStageBytes);
          advance();
        }
      }
    };
    if (warp == 0) {
      const bool issuer = ptx::elect_one();
      each_step([&](const TileUnit &u, int step_k, uint32_t at) {
        const uint32_t barrier = full + 8 * stage;
        const int row = static_cast<int>(u.row0), col = static_cast<int>(u.col0),
                  k = static_cast<int>(u.first_k) + step_k;
        ptx::mbarrier_wait(empty + 8 * stage, parity ^ 1);  // the first round finds every stage free
        if (issuer) {
          ptx::mbarrier_arrive_expect_tx(barrier, kStageBytes);
          ptx::tma_load(at, &arguments.a, barrier, kInnerA ? k : row, kInnerA ? row : k, 0);
          ptx::tma_load(at + kBytesA, &arguments.b, barrier, kInnerB ? k : col, kInnerB ? col : k, 0);
        }
        __syncwarp();
      });
    } else if (kTurns && warp >= kFirstTurner && warp < kFirstTurner + kTurners) {
      each_step([&](const TileUnit &, int, uint32_t at) {
        ptx::mbarrier_wait(full + 8 * stage, parity);
        turn_stage<kInnerA ? 0 : kTileM / 4, (kInnerB ? kTileM + kTileN : kTileM) / 4>(at, warp - kFirstTurner,
                                                                                       threadIdx.x % 32);
        ptx::fence_proxy_async();  // in front of what the copy engine writes there next
        ptx::mbarrier_arrive(turned + 8 * stage);
      });
    }
  } else {
    ptx::take_registers<kRegisters>();
    const int lane = threadIdx.x % 32;
    const int row_warp = (warp - 4) / S::kWarpsAcross, col_warp = warp % S::kWarpsAcross;
    // The order of lanes lets each read of 16 bytes take the fewest passes through shared memory.
    const int row_lane = lane / 2 % 8, col_lane = lane % 2 + lane / 16 * 2;
    const Rows rows(row_warp, row_lane);
    const Columns columns(col_warp, col_lane);
    const auto wait = [&] {
      ptx::mbarrier_wait(full + 8 * stage, parity);
      if (kTurns) ptx::mbarrier_wait(turned + 8 * stage, parity);
    };

    for (int64_t unit = blockIdx.x; unit < p.units; unit += gridDim.x) {
      const TileUnit u = tile_unit<kTileM, kTileN>(p, unit);
      const int length = static_cast<int>(u.length);
      float sum[M][N] = {};
      if (length > 0) {
        float a[2][M], b[2][2][4];
        wait();
        uint32_t stage_at = shared + stage * kStageBytes;
        uint32_t a_at = rows.block_at(stage_at, 0), b_at = columns.block_at(stage_at + kBytesA, 0);
        int block = 0;  // of the stage
        Rows::read_k(a_at, 0, a[0]);
        Columns::read(b_at, 0, 0, b[0][0]);
        Columns::read(b_at, 0, 1, b[0][1]);
        // One k of a block, eight columns after the other, while what follows is read: A's rows of the next k, B's next
        // eight columns.
        const auto multiply_k = [&](int k, uint32_t next_a, uint32_t next_b) {
          constexpr int kParts = N / 8;
          const int next = (k + 1) % kBlock;
#pragma unroll
          for (int part = 0; part < kParts; ++part) {
            const int now = (k * kParts + part) % 2;
#pragma unroll
            for (int g = 0; g < 2; ++g)
              if (part + 1 < kParts)
                Columns::read(b_at, k, 2 * (part + 1) + g, b[1 - now][g]);
              else
                Columns::read(next_b, next, g, b[1 - now][g]);
            if (part == 0) Rows::read_k(next_a, next, a[next % 2]);
#pragma unroll
            for (int j = 0; j < 8; ++j)
#pragma unroll
              for (int turn = 0; turn < M; ++turn) {
                // There and back: the row that was last stays.
                const int i = j % 2 == 0 ? turn : M - 1 - turn;
                sum[i][8 * part + j] = fmaf(a[k % 2][i], b[now][j / 4][j % 4], sum[i][8 * part + j]);
              }
          }
        };
        // What is read behind the last block, of the same stage, is not used.
#pragma unroll 1
        for (int left = length; left >= kBlock; left -= kBlock) {
#pragma unroll
          for (int k = 0; k < kBlock - 1; ++k) multiply_k(k, a_at, b_at);
          const bool leaves = block == kStep / kBlock - 1;
          const int done = stage;
          if (leaves) {
            advance();
            if (left > kBlock) {
              wait();
              stage_at = shared + stage * kStageBytes;
            }
          }
          block = leaves ? 0 : block + 1;
          const uint32_t next_a = rows.block_at(stage_at, kBlock * block),
                         next_b = columns.block_at(stage_at + kBytesA, kBlock * block);
          multiply_k(kBlock - 1, next_a, next_b);
          a_at = next_a;
          b_at = next_b;
          if (leaves) ptx::mbarrier_arrive(empty + 8 * done);
        }
#pragma unroll 1
        for (int k = 0; k < length % kBlock; ++k) {
          float a_k[M], b_k[N];
          Rows::read_k(a_at, k, a_k);
          Columns::read_k(b_at, k, b_k);
#pragma unroll
          for (int j = 0; j < N; ++j)
#pragma unroll
            for (int i = 0; i < M; ++i) sum[i][j] = fmaf(a_k[i], b_k[j], sum[i][j]);
        }
        if (length % kStep != 0) {
          ptx::mbarrier_arrive(empty + 8 * stage);
          advance();
        }
      }
      write_tile<Rows, Columns>(p, u, sum, row_warp, row_lane, col_warp, col_lane);
    }
  }
#endif
}

template <typename S, bool kInnerA, bool kInnerB>
cudaError_t launch_mix(Arguments *arguments, int32_t blocks, cudaStream_t stream) {
  static std::atomic<uint64_t> devices;
  const void *kernel = reinterpret_cast<const void *>(fed_kernel<S, kInnerA, kInnerB>);
  const cudaError_t error = allow_shared(kernel, S::kSharedBytes, &devices);
  if (error != cudaSuccess) return error;
  void *pointers[] = {arguments};
  return launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(S::kThreads), S::kSharedBytes, stream, pointers);
}

template <typename S>
cudaError_t launch_tiles(const gpu::ProductPlan &p, Arguments *arguments, cudaStream_t stream) {
  if (p.a.contraction_inner)
    return p.b.contraction_inner ? launch_mix<S, true, true>(arguments, p.blocks, stream)
                                 : launch_mix<S, true, false>(arguments, p.blocks, stream);
  return p.b.contraction_inner ? launch_mix<S, false, true>(arguments, p.blocks, stream)
                               : launch_mix<S, false, false>(arguments, p.blocks, stream);
}

// Boxes of 32 k and all lines of a tile.
bool encode_operand(CUtensorMap *map, const char *data, const gpu::Walk &walk, int64_t lines, int64_t contraction,
                    int tile) {
  return walk.contraction_inner
             ? hopper::encode(map, DType::f32, data, contraction, lines, 1, walk.pitch, 0, kStep, tile)
             : hopper::encode(map, DType::f32, data, lines, contraction, 1, walk.pitch, 0, tile, kStep,
                              CU_TENSOR_MAP_SWIZZLE_NONE);
}

}  // namespace fed

cudaError_t product_fed(const gpu::ProductPlan &p, const Target &target, cudaStream_t stream) {
  const Product &w = p.work;
  fed::Arguments arguments;
  arguments.p = tiled_arguments(p, target);
  if (!fed::encode_operand(&arguments.a, w.a.data, p.a, w.a.rows, w.contraction(), fed::kTileM) ||
      !fed::encode_operand(&arguments.b, w.b.data, p.b, w.b.cols, w.contraction(), p.tile_n))
    return cudaErrorInvalidValue;
  switch (p.tile_n) {
    case 64: return fed::launch_tiles<fed::Shape<64>>(p, &arguments, stream);
    case 128: return fed::launch_tiles<fed::Shape<128>>(p, &arguments, stream);
    default: return fed::launch_tiles<fed::Shape<256>>(p, &arguments, stream);
  }
}

}  // namespace cuda
}  // namespace dxdw
