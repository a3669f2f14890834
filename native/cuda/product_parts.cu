// C[m,n] = or += sum over k of A[m,k] . B[k,n] for float32 operands on Hopper's tensor cores, where the caller asks for
// it by name: DXDW_PRECISION_BF16X3 and DXDW_PRECISION_TF32.
//
// A first pass over each operand rounds it and lays it out anew with the contraction inner, in slices of their own that
// end in zeros, so that any stride is served and TMA can address all:
//   BF16X3  x = h + m + l, three bfloat16 parts of 8 bits each, every one the rest of the one before rounded to nearest:
//           24 bits, all that float32 has. Of the nine products of parts the six of the first three orders count:
//           l.h, h.l, m.m, m.h, h.m, h.h, smallest first. What is left out is below 2^-24 of the product.
//   TF32    x rounded to nearest, 10 bits behind the point.
//
// The second pass multiplies as the 16-bit kernel does: a block of three warpgroups walks over tiles of 128 x 192; one
// warp loads steps of 32 k (of every part) into a ring of stages, two warpgroups of 64 rows each multiply. The sums of
// the tensor cores are cut, not rounded, at each step: BF16X3 therefore adds them to float32 sums in registers every 64
// k, rounded to nearest, and starts anew. That, not the parts, makes it as exact as float32 multiply-add.
#include "kernels.hpp"
#include "ptx.cuh"
#include "tensor_map.hpp"
#include "types.cuh"
#include "wgmma.cuh"

namespace dxdw {
namespace cuda {
namespace parts {

constexpr int kThreads = 384;
constexpr int kTileM = gpu::kPartsTileM, kTileN = gpu::kPartsTileN, kTileK = gpu::kPartsTileK;
constexpr int kSums = kTileN / 2;  // a thread: 64 rows of a warpgroup, 128 threads
constexpr int kBand = 16;          // rows of tiles that are walked together

struct Bf16Parts {
  using Multiply = WgmmaParts;
  static constexpr DType kType = DType::bf16;
  static constexpr int kParts = 3;
  static constexpr int kProducts = 6;
  static constexpr int kLine = kTileK * 2;  // bytes: 64-byte swizzle
  static constexpr int kStages = 3;
  static constexpr int kSteps = kTileK / 16;
  static constexpr int kFlush = 2;  // stages that the tensor cores add up before their sums are added in float32
  static constexpr uint64_t kSwizzle = uint64_t{2} << 62;
  static constexpr CUtensorMapSwizzle kMapSwizzle = CU_TENSOR_MAP_SWIZZLE_64B;
  static __device__ __forceinline__ constexpr int part_a(int product) {
    return product == 0 ? 2 : product == 2 || product == 3 ? 1 : 0;
  }
  static __device__ __forceinline__ constexpr int part_b(int product) {
    return product == 1 ? 2 : product == 2 || product == 4 ? 1 : 0;
  }
};

struct Tf32 {
  using Multiply = WgmmaTf32;
  static constexpr DType kType = DType::f32;
  static constexpr int kParts = 1;
  static constexpr int kProducts = 1;
  static constexpr int kLine = kTileK * 4;  // bytes: 128-byte swizzle
  static constexpr int kStages = 5;
  static constexpr int kSteps = kTileK / 8;
  static constexpr int kFlush = 1;  // not at all: rounding the operands costs more than cutting the sums
  static constexpr uint64_t kSwizzle = uint64_t{1} << 62;
  static constexpr CUtensorMapSwizzle kMapSwizzle = CU_TENSOR_MAP_SWIZZLE_128B;
  static __device__ __forceinline__ constexpr int part_a(int) { return 0; }
  static __device__ __forceinline__ constexpr int part_b(int) { return 0; }
};

template <typename F>
struct Layout {
  static constexpr int kBytesA = kTileM * F::kLine, kBytesB = kTileN * F::kLine;
  static constexpr int kStageBytes = F::kParts * (kBytesA + kBytesB);
  // 1024 more than is used, because the swizzle wants stages at multiples of 1024.
  static constexpr int kSharedBytes = 1024 + F::kStages * kStageBytes + 2 * 8 * F::kStages;
  static_assert(kSharedBytes <= 232448 && kStageBytes % 1024 == 0 && kBytesA % 1024 == 0 && kBytesB % 1024 == 0,
                "a block's shared memory");
};

// ---- Operands into parts ----

struct Parting {
  const float *source;
  char *destination;  // [part][slice][line][padded]
  int64_t lines, contraction, chunk;
  int64_t line_stride, k_stride;  // of the source
  int64_t padded;                 // chunk rounded up to kPadding
  int64_t slices;
  bool k_inner;  // the smaller stride is k's: neighbouring threads read along it
};

constexpr int kPadding = gpu::kPartsPadding;
constexpr int kPartThreads = 256;
constexpr int kPartTile = 64;  // lines, and k
static_assert(kPadding == kPartTile, "a tile of the pass never leaves its slice");

__device__ __forceinline__ float rounded_to_bf16(float value) { return __bfloat162float(__float2bfloat16_rn(value)); }

// h + m + l. Near the end of float32's range, where h would become infinite, it is cut; what is not finite has no rest.
__device__ __forceinline__ void into_parts(float value, float (&parts)[3]) {
  const uint32_t bits = __float_as_uint(value);
  const bool finite = (bits & 0x7f800000u) != 0x7f800000u;
  float h = rounded_to_bf16(value);
  if (finite && isinf(h)) h = __uint_as_float(bits & 0xffff0000u);
  const float rest = finite ? value - h : 0.0f;
  const float m = rounded_to_bf16(rest);
  parts[0] = h, parts[1] = m, parts[2] = rest - m;
}

__device__ __forceinline__ uint32_t rounded_to_tf32(float value) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
}

__device__ __forceinline__ uint32_t bf16_pair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t *>(&pair);
}

// Tiles of 64 lines and 64 k through shared memory: read along the source's inner direction, written along k.
template <typename F>
__global__ void __launch_bounds__(kPartThreads, 4) parting_kernel(const Parting p) {
  __shared__ float tile[kPartTile][kPartTile + 1];
  constexpr int kEach = kPartTile * kPartTile / kPartThreads;
  const int thread = threadIdx.x;
  const int64_t tiles_k = p.padded / kPartTile, tiles_l = (p.lines + kPartTile - 1) / kPartTile;
  const int64_t count = tiles_k * tiles_l * p.slices;
  for (int64_t unit = blockIdx.x; unit < count; unit += gridDim.x) {
    const int64_t slice = unit / (tiles_k * tiles_l), in_slice = unit % (tiles_k * tiles_l);
    const int64_t k0 = (p.k_inner ? in_slice % tiles_k : in_slice / tiles_l) * kPartTile;
    const int64_t line0 = (p.k_inner ? in_slice / tiles_k : in_slice % tiles_l) * kPartTile;
    const int64_t k_left = min(p.chunk, p.contraction - slice * p.chunk) - k0, lines_left = p.lines - line0;
    // A thread reads a column of the tile, every fourth element.
    constexpr int kHop = kPartThreads / kPartTile;
    const int inner = thread % kPartTile, outer = thread / kPartTile;
    const int64_t inner_stride = p.k_inner ? p.k_stride : p.line_stride,
                  outer_stride = p.k_inner ? p.line_stride : p.k_stride;
    const int64_t outer_left = inner < (p.k_inner ? k_left : lines_left) ? (p.k_inner ? lines_left : k_left) : 0;
    const int rows_left = static_cast<int>(max(int64_t{0}, min(int64_t{kPartTile}, outer_left)));
    const float *from = p.source + line0 * p.line_stride + (slice * p.chunk + k0) * p.k_stride + inner * inner_stride +
                        outer * outer_stride;
    float values[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      values[i] = outer + i * kHop < rows_left ? __ldcs(from) : 0.0f;
      from += kHop * outer_stride;
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = outer + i * kHop;
      tile[p.k_inner ? at : inner][p.k_inner ? inner : at] = values[i];
    }
    __syncthreads();
    const int64_t plane = p.slices * p.lines * p.padded;
    constexpr int kGroup = 16 / (F::kParts == 1 ? 4 : 2);  // elements in 16 bytes
    constexpr int kGroups = kPartTile / kGroup;
#pragma unroll
    for (int i = 0; i < kPartTile * kGroups / kPartThreads; ++i) {
      const int group = thread + i * kPartThreads, line = group / kGroups, k = group % kGroups * kGroup;
      if (line >= lines_left) continue;
      const int64_t at = (slice * p.lines + line0 + line) * p.padded + k0 + k;
      if constexpr (F::kParts == 1) {
        uint32_t words[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) words[e] = rounded_to_tf32(tile[line][k + e]);
        *reinterpret_cast<uint4 *>(p.destination + at * 4) = make_uint4(words[0], words[1], words[2], words[3]);
      } else {
        float parts[8][3];
#pragma unroll
        for (int e = 0; e < 8; ++e) into_parts(tile[line][k + e], parts[e]);
#pragma unroll
        for (int part = 0; part < 3; ++part)
          *reinterpret_cast<uint4 *>(p.destination + (part * plane + at) * 2) =
              make_uint4(bf16_pair(parts[0][part], parts[1][part]), bf16_pair(parts[2][part], parts[3][part]),
                         bf16_pair(parts[4][part], parts[5][part]), bf16_pair(parts[6][part], parts[7][part]));
      }
    }
    __syncthreads();
  }
}

// ---- The product ----

struct Arguments {
  CUtensorMap a, b;  // x: k of a slice, y: lines, z: part * slices + slice
  Target target;
  int64_t rows, cols, contraction, chunk;
  int32_t tiles_m, tiles_n, slices, units;  // units = tiles_m * tiles_n * slices
};

struct Unit {
  int32_t row, col, slice;  // in tiles
  int32_t k_tiles;
};

__device__ __forceinline__ Unit unit_at(const Arguments &p, int32_t index) {
  const int32_t tiles = p.tiles_m * p.tiles_n;
  Unit unit;
  unit.slice = index / tiles;
  const int32_t tile = index % tiles, band = tile / (kBand * p.tiles_n), in_band = tile % (kBand * p.tiles_n);
  const int32_t rows = min(kBand, p.tiles_m - band * kBand);
  unit.row = band * kBand + in_band % rows;
  unit.col = in_band / rows;
  if (band % 2 == 1) unit.col = p.tiles_n - 1 - unit.col;
  const int64_t left = min(p.chunk, p.contraction - unit.slice * p.chunk);
  unit.k_tiles = left <= 0 ? 0 : static_cast<int32_t>((left + kTileK - 1) / kTileK);
  return unit;
}

// Keeps the compiler from moving reads and writes of the accumulators across the asynchronous products.
__device__ __forceinline__ void pin(float (&values)[kSums]) {
#pragma unroll
  for (int i = 0; i < kSums; ++i) asm volatile("" : "+f"(values[i])::"memory");
}

// wgmma's descriptor of a tile with the contraction inner: groups of eight lines follow each other.
template <typename F>
__device__ __forceinline__ uint64_t descriptor_of(uint32_t address) {
  return (static_cast<uint64_t>(address & 0x3ffff) >> 4) | uint64_t{1} << 16 |
         static_cast<uint64_t>(8 * F::kLine >> 4) << 32 | F::kSwizzle;
}

// 64 rows leave a warpgroup's registers: sum 4j + 2h + e of lane l of warp w is row 16w + l / 4 + 8h, column
// 8j + 2 (l % 4) + e. Four lanes write 32 bytes of a row, whole sectors of memory.
__device__ __forceinline__ void write_rows(const Arguments &p, const Unit &unit, const float (&sum)[kSums],
                                           int64_t row0) {
  const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
  const int64_t col0 = static_cast<int64_t>(unit.col) * kTileN + lane % 4 * 2;
  const int cols_left = static_cast<int>(min(p.cols - col0, int64_t{kTileN}));
  const Target &t = p.target;
  const bool pairs = t.col_stride == 1 && !t.atomic && t.row_stride % 2 == 0 && t.slice_stride % 2 == 0 &&
                     reinterpret_cast<uintptr_t>(t.data) % 8 == 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row = row0 + warp * 16 + half * 8 + lane / 4;
    if (row >= p.rows) continue;
    float *const out =
        reinterpret_cast<float *>(t.data) + unit.slice * t.slice_stride + row * t.row_stride + col0 * t.col_stride;
    if (pairs) {
      constexpr int kAhead = 4;  // groups of eight columns whose old values are read together
#pragma unroll
      for (int j0 = 0; j0 < kTileN / 8; j0 += kAhead) {
        float old[kAhead][2] = {};
        if (t.add) {
#pragma unroll
          for (int j = 0; j < kAhead; ++j) {
            const int col = (j0 + j) * 8;
            if (col + 1 < cols_left) {
              const float2 pair = *reinterpret_cast<const float2 *>(out + col);
              old[j][0] = pair.x, old[j][1] = pair.y;
            } else if (col < cols_left) {
              old[j][0] = out[col];
            }
          }
        }
#pragma unroll
        for (int j = 0; j < kAhead; ++j) {
          const int col = (j0 + j) * 8;
          const float *value = sum + (j0 + j) * 4 + half * 2;
          const float first = t.add ? old[j][0] + value[0] : value[0], second = t.add ? old[j][1] + value[1] : value[1];
          if (col + 1 < cols_left)
            *reinterpret_cast<float2 *>(out + col) = make_float2(first, second);
          else if (col < cols_left)
            out[col] = first;
        }
      }
    } else {
      float *to = out;
#pragma unroll
      for (int j = 0; j < kTileN / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e)
          if (j * 8 + e < cols_left) {
            float *const at = e == 0 ? to : to + t.col_stride;
            const float value = sum[4 * j + half * 2 + e];
            if (t.atomic)
              atomicAdd(at, value);
            else
              *at = t.add ? *at + value : value;
          }
        to += 8 * t.col_stride;
      }
    }
  }
}

template <typename F>
__global__ void __launch_bounds__(kThreads, 1) parts_kernel(const __grid_constant__ Arguments p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using L = Layout<F>;
  constexpr int kProducerRegisters = 40;  // 40 + 2 * 232 = 504 of 512 a thread slot
  constexpr int kConsumerRegisters = 232;
  extern __shared__ char shared_raw[];
  const uint32_t shared = (ptx::shared_address(shared_raw) + 1023) & ~1023u;
  const uint32_t full = shared + F::kStages * L::kStageBytes, empty = full + 8 * F::kStages;
  const int warpgroup = ptx::uniform(threadIdx.x / 128);

  if (threadIdx.x == 0) {
    for (int s = 0; s < F::kStages; ++s) {
      ptx::mbarrier_init(full + 8 * s, 1);
      ptx::mbarrier_init(empty + 8 * s, 2);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  if (warpgroup == 0) {
    ptx::give_registers<kProducerRegisters>();
    if (ptx::uniform(threadIdx.x / 32) == 0) {
      const bool issuer = ptx::elect_one();
      if (issuer) {
        ptx::prefetch_map(&p.a);
        ptx::prefetch_map(&p.b);
      }
      ptx::wait_for_kernel_before();
      int stage = 0;
      uint32_t parity = 1;  // the first round finds every stage free
      for (int32_t index = blockIdx.x; index < p.units; index += gridDim.x) {
        const Unit unit = unit_at(p, index);
        for (int32_t tile = 0; tile < unit.k_tiles; ++tile) {
          const uint32_t barrier = full + 8 * stage, to_a = shared + stage * L::kStageBytes,
                         to_b = to_a + F::kParts * L::kBytesA;
          ptx::mbarrier_wait(empty + 8 * stage, parity);
          if (++stage == F::kStages) stage = 0, parity ^= 1;
          if (!issuer) continue;
          ptx::mbarrier_arrive_expect_tx(barrier, L::kStageBytes);
#pragma unroll
          for (int part = 0; part < F::kParts; ++part) {
            const int z = part * p.slices + unit.slice;
            ptx::tma_load(to_a + part * L::kBytesA, &p.a, barrier, tile * kTileK, unit.row * kTileM, z);
            ptx::tma_load(to_b + part * L::kBytesB, &p.b, barrier, tile * kTileK, unit.col * kTileN, z);
          }
        }
      }
    }
    __syncwarp();
  } else {
    ptx::take_registers<kConsumerRegisters>();
    ptx::wait_for_kernel_before();
    const int consumer = warpgroup - 1, thread = threadIdx.x % 128;
    const auto release = [&](int which) {
      if (thread == 0) ptx::mbarrier_arrive(empty + 8 * which);
    };
    int stage = 0;
    uint32_t parity = 0;
    for (int32_t index = blockIdx.x; index < p.units; index += gridDim.x) {
      const Unit unit = unit_at(p, index);
      float sum[kSums];
      // One stage's products; `fresh`: they are the first that these sums hold.
      const auto multiply = [&](bool fresh) {
        ptx::mbarrier_wait(full + 8 * stage, parity);
        const uint32_t at = shared + stage * L::kStageBytes;
        const uint64_t a = descriptor_of<F>(at + consumer * 64 * F::kLine);
        const uint64_t b = descriptor_of<F>(at + F::kParts * L::kBytesA);
        pin(sum);
        ptx::wgmma_fence();
#pragma unroll
        for (int product = 0; product < F::kProducts; ++product) {
#pragma unroll
          for (int step = 0; step < F::kSteps; ++step)
            F::Multiply::run(sum, a + (F::part_a(product) * L::kBytesA >> 4) + step * 2,
                             b + (F::part_b(product) * L::kBytesB >> 4) + step * 2, !fresh || product > 0 || step > 0);
        }
        ptx::wgmma_commit();
        pin(sum);
      };
      const auto next_stage = [&] {
        const int done = stage;
        if (++stage == F::kStages) stage = 0, parity ^= 1;
        return done;
      };
      const int64_t row0 = static_cast<int64_t>(unit.row) * kTileM + consumer * 64;
      if constexpr (F::kFlush > 1) {
        float total[kSums];
#pragma unroll
        for (int i = 0; i < kSums; ++i) total[i] = 0.0f;
        for (int32_t tile = 0; tile < unit.k_tiles; tile += F::kFlush) {
          multiply(true);
          int before = next_stage();
#pragma unroll
          for (int more = 1; more < F::kFlush; ++more) {
            if (tile + more >= unit.k_tiles) break;
            multiply(false);
            // The products of the stage before are done once only one group is pending.
            ptx::wgmma_wait<1>();
            release(before);
            before = next_stage();
          }
          ptx::wgmma_wait<0>();
          pin(sum);
          release(before);
#pragma unroll
          for (int i = 0; i < kSums; ++i) total[i] += sum[i];
        }
        write_rows(p, unit, total, row0);
      } else {
        if (unit.k_tiles == 0) {
#pragma unroll
          for (int i = 0; i < kSums; ++i) sum[i] = 0.0f;
        }
        int before = 0;
        for (int32_t tile = 0; tile < unit.k_tiles; ++tile) {
          multiply(tile == 0);
          ptx::wgmma_wait<1>();
          if (tile > 0) release(before);
          before = next_stage();
        }
        ptx::wgmma_wait<0>();
        pin(sum);
        if (unit.k_tiles > 0) release(before);
        write_rows(p, unit, sum, row0);
      }
    }
  }
#endif
}

// ---- Host side ----

template <typename F>
cudaError_t part(const Matrix &lines_by_k, int64_t chunk, int32_t split, int64_t padded, char *to,
                 cudaStream_t stream) {
  const Matrix &o = lines_by_k;
  const auto magnitude = [](int64_t stride) { return stride < 0 ? -stride : stride; };
  Parting p = {reinterpret_cast<const float *>(o.data),
               to,
               o.rows,
               o.cols,
               chunk,
               o.row_stride,
               o.col_stride,
               padded,
               split,
               magnitude(o.col_stride) <= magnitude(o.row_stride)};
  const int64_t tiles = padded / kPartTile * ((o.rows + kPartTile - 1) / kPartTile) * split;
  void *pointers[] = {&p};
  return launch(reinterpret_cast<const void *>(parting_kernel<F>),
                dim3(static_cast<unsigned>(tiles < (1 << 30) ? tiles : 1 << 30)), dim3(kPartThreads), 0, stream,
                pointers);
}

template <typename F>
cudaError_t product(const gpu::ProductPlan &p, char *workspace, const Target &target, cudaStream_t stream) {
  const Product &w = p.work;
  char *const a = workspace + p.pack_a_at, *const b = workspace + p.pack_b_at;
  const int64_t padded = p.pack_a_pitch;
  cudaError_t error = part<F>(w.a, p.chunk, p.split, padded, a, stream);
  if (error == cudaSuccess) error = part<F>(w.b.transposed(), p.chunk, p.split, padded, b, stream);
  if (error != cudaSuccess) return error;
  Arguments arguments;
  arguments.target = target;
  if (w.c.rows == 1) arguments.target.row_stride = 0;
  arguments.rows = w.c.rows;
  arguments.cols = w.c.cols;
  arguments.contraction = w.contraction();
  arguments.chunk = p.chunk;
  arguments.tiles_m = static_cast<int32_t>(p.tiles_m);
  arguments.tiles_n = static_cast<int32_t>(p.tiles_n);
  arguments.slices = p.split;
  arguments.units = static_cast<int32_t>(p.tiles * p.split);
  const auto map = [&](CUtensorMap *to, const char *data, int64_t lines, int box_lines) {
    return hopper::encode(to, F::kType, data, padded, lines, F::kParts * p.split, padded, lines * padded, kTileK,
                          box_lines, F::kMapSwizzle);
  };
  if (!map(&arguments.a, a, w.a.rows, kTileM) || !map(&arguments.b, b, w.b.cols, kTileN)) return cudaErrorInvalidValue;
  static std::atomic<uint64_t> devices;
  const void *kernel = reinterpret_cast<const void *>(parts_kernel<F>);
  error = allow_shared(kernel, Layout<F>::kSharedBytes, &devices);
  if (error != cudaSuccess) return error;
  void *pointers[] = {&arguments};
  return launch(kernel, dim3(static_cast<unsigned>(p.blocks)), dim3(kThreads), Layout<F>::kSharedBytes, stream,
                pointers, true);
}

}  // namespace parts

cudaError_t product_parts(const gpu::ProductPlan &p, char *workspace, const Target &target, cudaStream_t stream) {
  return p.kernel == gpu::kTf32 ? parts::product<parts::Tf32>(p, workspace, target, stream)
                                : parts::product<parts::Bf16Parts>(p, workspace, target, stream);
}

}  // namespace cuda
}  // namespace dxdw
