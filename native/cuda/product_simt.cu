// C[m,n] = or += sum over k of A[m,k] . B[k,n], in float32 multiply-add, for every type and every stride.
//
// Each element is one chain of fused multiply-adds in rising k that starts at +0.0, whatever the tile: a row of C has
// the same bits for any number of rows, and a slice the same bits as the product over that slice alone.
//
// A block owns a tile of C and walks k in steps of 16, which stand in shared memory as float32, k-major. float32
// operands are copied there two steps ahead, past the registers, 16 bytes at a time where lines lie side by side and
// start on 16 bytes, else element by element along whichever direction is contiguous. 16-bit operands pass through
// registers one step ahead, to be widened. Each thread forms 8 x 16, 8 x 8 or 4 x 4 elements, in groups of four rows
// and columns, and reads four floats at a time: the more elements, the fewer reads for each multiply-add. For
// 8 x 16 elements, what a k needs is read from shared memory while the k before it is multiplied.
//
// Small products, whose time is that of the way to memory and back, take tiles of 16 x 16: all of 64 k is asked for at
// once, old values of C too, and the launch overlaps the end of the kernel before it.
#include "tiled.cuh"

namespace dxdw {
namespace cuda {

namespace {

constexpr int kStep = 16;
constexpr int kThreads = 256;
// k's that are unrolled together where reads of shared memory run ahead: of more, the compiler moves them behind again.
constexpr int kTurn = 4;

// A thread forms M x N elements.
template <typename T, int M, int N>
struct Shape {
  static constexpr int kTileM = 16 * M, kTileN = 16 * N;
  // Four more floats than lines: keeps 16 bytes of neighbours together and k's apart.
  static constexpr int kPitchA = kTileM + 4, kPitchB = kTileN + 4;
  static constexpr int kStages = sizeof(T) == 4 ? 3 : 2;
  static constexpr int kFloatsA = kStep * kPitchA, kFloatsB = kStep * kPitchB;
  static constexpr int kSharedBytes = kStages * (kFloatsA + kFloatsB) * 4;
  // Blocks on a multiprocessor, as registers allow.
  static constexpr int kBlocks = N == 16 || (sizeof(T) == 2 && M == 8) ? 1 : 2;
};

// The part of a float32 operand's tile that one thread copies.
template <int R>
struct Copier {
  static constexpr int kTile = 16 * R, kPitch = kTile + 4;
  // From one of a thread's copies to its next, in lines or k.
  static constexpr int kVectorHop = kThreads / (kTile / 4);  // k, four lines at once
  static constexpr int kInnerHop = kThreads / kStep;         // lines
  static constexpr int kOuterHop = kThreads / kTile;         // k

  const float *at;       // this thread's first element of the step to come
  const float *any;      // an address that may be named where nothing is read
  int64_t hop, advance;  // elements from copy to copy, from step to step
  uint32_t to;           // bytes of the first copy in a stage
  int k;
  int lines_inside;  // from its first line on, within the matrix
  bool k_inner, vectors;
  bool lines_whole;  // no copy meets the matrix's edge

  __device__ void start(const StridedOperand &operand, int64_t first_line, int64_t first_k) {
    const int thread = threadIdx.x;
    k_inner = operand.k_inner;
    vectors = operand.aligned && !k_inner;
    int line;
    if (vectors) {
      line = thread % (kTile / 4) * 4;
      k = thread / (kTile / 4);
    } else if (k_inner) {
      // Eight k of four lines a warp: whole sectors of memory, and each another bank of shared memory.
      k = thread % 8 + thread / 32 % 2 * 8;
      line = thread / 8 % 4 + thread / 64 * 4;
    } else {
      line = thread % kTile;
      k = thread / kTile;
    }
    any = reinterpret_cast<const float *>(operand.data);
    at = any + (first_line + line) * operand.line_stride + (first_k + k) * operand.k_stride;
    hop = vectors   ? kVectorHop * operand.k_stride
          : k_inner ? kInnerHop * operand.line_stride
                    : kOuterHop * operand.k_stride;
    advance = kStep * operand.k_stride;
    to = (k * kPitch + line) * 4;
    lines_inside = static_cast<int>(max(int64_t{0}, min(int64_t{kTile}, operand.lines - first_line - line)));
    lines_whole = lines_inside >= (vectors ? 4 : k_inner ? (R - 1) * kInnerHop + 1 : 1);
  }

  // Elements outside the matrix or the slice become 0.
  __device__ __forceinline__ void copy(int64_t k_left, uint32_t stage) {
    if (lines_whole && k_left >= kStep)
      copy_some<true>(0, stage + to);
    else
      copy_some<false>(static_cast<int>(min(int64_t{kStep}, k_left)) - k, stage + to);
    at += advance;
  }

 private:
  template <bool kWhole>
  __device__ __forceinline__ void copy_some(int k_inside, uint32_t first) const {
    const float *from = at;
    if (vectors) {
#pragma unroll
      for (int i = 0; i < R / 4; ++i) {
        const uint32_t four = first + i * (kVectorHop * kPitch * 4);
        if (kWhole || (i * kVectorHop < k_inside && lines_inside >= 4)) {
          copy_async_16(four, from);
        } else {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const bool inside = i * kVectorHop < k_inside && e < lines_inside;
            copy_async_4(four + e * 4, inside ? from + e : any, inside);
          }
        }
        from += hop;
      }
    } else if (k_inner) {
#pragma unroll
      for (int i = 0; i < R; ++i) {
        const bool inside = kWhole || (i * kInnerHop < lines_inside && k_inside > 0);
        copy_async_4(first + i * (kInnerHop * 4), inside ? from : any, inside);
        from += hop;
      }
    } else {
#pragma unroll
      for (int i = 0; i < R; ++i) {
        const bool inside = kWhole || (lines_inside > 0 && i * kOuterHop < k_inside);
        copy_async_4(first + i * (kOuterHop * kPitch * 4), inside ? from : any, inside);
        from += hop;
      }
    }
  }
};

// The part of a 16-bit operand's tile that one thread carries through its registers: R elements, `hop` apart.
template <typename T, int R>
struct Carrier {
  static constexpr int kTile = 16 * R, kPitch = kTile + 4;
  const T *at;
  int64_t hop, advance;
  int line, line_hop;
  int k, k_hop;
  int lines_left;  // of the tile

  __device__ void start(const StridedOperand &operand, int64_t first_line, int64_t first_k) {
    const int thread = threadIdx.x;
    if (operand.k_inner) {
      k = thread % kStep, k_hop = 0;
      line = thread / kStep, line_hop = kThreads / kStep;
    } else {
      line = thread % kTile, line_hop = 0;
      k = thread / kTile, k_hop = kThreads / kTile;
    }
    at = reinterpret_cast<const T *>(operand.data) + (first_line + line) * operand.line_stride +
         (first_k + k) * operand.k_stride;
    hop = line_hop * operand.line_stride + k_hop * operand.k_stride;
    advance = kStep * operand.k_stride;
    lines_left = static_cast<int>(min(int64_t{kTile}, operand.lines - first_line));
  }

  // Elements outside the matrix or the slice read as 0.
  __device__ void load(int64_t k_left, float (&values)[R]) {
    const int k_inside = static_cast<int>(min(int64_t{kStep}, k_left));
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const bool inside = line + i * line_hop < lines_left && k + i * k_hop < k_inside;
      values[i] = inside ? to_float(at[i * hop]) : 0.0f;
    }
    at += advance;
  }

  __device__ void store(const float (&values)[R], float *stage) const {
#pragma unroll
    for (int i = 0; i < R; ++i) stage[(k + i * k_hop) * kPitch + line + i * line_hop] = values[i];
  }
};

template <typename T, int M, int N>
__global__ void __launch_bounds__(kThreads, Shape<T, M, N>::kBlocks) simt_kernel(const TiledArguments p) {
  using S = Shape<T, M, N>;
  constexpr int kGroupsM = M / 4, kGroupsN = N / 4;  // of four rows, and of four columns
  constexpr int kStageFloats = S::kFloatsA + S::kFloatsB;
  extern __shared__ __align__(16) float shared[];
  // A warp forms 32 rows by 16 columns of every group. The order of its lanes lets each read of 16 bytes take the
  // fewest passes through shared memory.
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row_in_tile = warp / 4 * (32 * kGroupsM) + lane / 2 % 8 * 4;
  const int col_in_tile = warp % 4 * (16 * kGroupsN) + (lane % 2 + lane / 16 * 2) * 4;

  for (int64_t unit = blockIdx.x; unit < p.units; unit += gridDim.x) {
    const TileUnit u = tile_unit<S::kTileM, S::kTileN>(p, unit);
    const int64_t steps = (u.length + kStep - 1) / kStep;
    float sum[M][N] = {};
    // A thread's rows and columns of one k.
    const auto read = [&](const float *stage, int k, float(&a)[M], float(&b)[N]) {
#pragma unroll
      for (int g = 0; g < kGroupsM; ++g) {
        const float4 four = *reinterpret_cast<const float4 *>(stage + k * S::kPitchA + row_in_tile + g * 32);
        a[4 * g] = four.x, a[4 * g + 1] = four.y, a[4 * g + 2] = four.z, a[4 * g + 3] = four.w;
      }
#pragma unroll
      for (int g = 0; g < kGroupsN; ++g) {
        const float4 four =
            *reinterpret_cast<const float4 *>(stage + S::kFloatsA + k * S::kPitchB + col_in_tile + g * 16);
        b[4 * g] = four.x, b[4 * g + 1] = four.y, b[4 * g + 2] = four.z, b[4 * g + 3] = four.w;
      }
    };
    const auto multiply = [&](const float(&a)[M], const float(&b)[N]) {
#pragma unroll
      for (int j = 0; j < N; ++j)
#pragma unroll
        for (int turn = 0; turn < M; ++turn) {
          // There and back: of the three registers that each reads, one is then mostly that of the one before.
          const int i = j % 2 == 0 ? turn : M - 1 - turn;
          sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
        }
    };
    const auto multiply_one = [&](const float *stage, int k) {
      float a[M], b[N];
      read(stage, k, a, b);
      multiply(a, b);
    };
    const auto multiply_few = [&](const float *stage, int depth) {
#pragma unroll 1
      for (int k = 0; k < depth; ++k) multiply_one(stage, k);
    };
    const auto multiply_step = [&](int64_t step, const float *stage) {
      const int depth = static_cast<int>(min(static_cast<int64_t>(kStep), u.length - step * kStep));
      if (depth == kStep) {
#pragma unroll
        for (int k = 0; k < kStep; ++k) multiply_one(stage, k);
      } else {
        multiply_few(stage, depth);
      }
    };

    if constexpr (sizeof(T) == 4) {
      Copier<M> copy_a;
      Copier<N> copy_b;
      copy_a.start(p.a, u.row0, u.first_k);
      copy_b.start(p.b, u.col0, u.first_k);
      const uint32_t base = ptx::shared_address(shared);
      int filling = 0;
      const auto fill = [&](int64_t step) {
        if (step < steps) {
          const uint32_t stage = base + filling * (kStageFloats * 4);
          copy_a.copy(u.length - step * kStep, stage);
          copy_b.copy(u.length - step * kStep, stage + S::kFloatsA * 4);
          filling = filling + 1 == S::kStages ? 0 : filling + 1;
        }
        copy_async_commit();
      };
#pragma unroll
      for (int step = 0; step < S::kStages - 1; ++step) fill(step);
      int reading = 0;
      const auto next_stage = [&] {
        const float *const stage = shared + reading * kStageFloats;
        reading = reading + 1 == S::kStages ? 0 : reading + 1;
        return stage;
      };
      const auto wait_for_stage = [] {
        copy_async_wait<S::kStages - 2>();
        __syncthreads();
      };
      if constexpr (N == 16) {
        // Two warps on each quarter of a multiprocessor do not hide how long reads of shared memory take: these run one
        // k ahead, across stages too. What is read behind the last of all is not used.
        float a[2][M], b[2][N];
        const int64_t whole = u.length / kStep;
        wait_for_stage();
        const float *stage = next_stage();
        read(stage, 0, a[0], b[0]);
        for (int64_t step = 0; step < whole; ++step) {
          fill(step + S::kStages - 1);  // into the stage that the step before has left
          const auto read_and_multiply = [&](int k) {
            read(stage, k + 1, a[(k + 1) % 2], b[(k + 1) % 2]);
            multiply(a[k % 2], b[k % 2]);
          };
#pragma unroll kTurn
          for (int k = 0; k < kStep - kTurn; ++k) read_and_multiply(k);
#pragma unroll
          for (int k = kStep - kTurn; k < kStep - 1; ++k) read_and_multiply(k);
          wait_for_stage();
          stage = next_stage();
          read(stage, 0, a[0], b[0]);
          multiply(a[1], b[1]);
        }
        multiply_few(stage, static_cast<int>(u.length - whole * kStep));
      } else {
        for (int64_t step = 0; step < steps; ++step) {
          wait_for_stage();
          fill(step + S::kStages - 1);  // into the stage that the step before has left
          multiply_step(step, next_stage());
        }
      }
      // The next unit's first copies go to stages that other warps may still read.
      copy_async_wait<0>();
      __syncthreads();
    } else {
      Carrier<T, M> carry_a;
      Carrier<T, N> carry_b;
      carry_a.start(p.a, u.row0, u.first_k);
      carry_b.start(p.b, u.col0, u.first_k);
      float next_a[M], next_b[N];
      const auto stage_of = [&](int64_t step) { return shared + step % 2 * kStageFloats; };
      const auto load = [&](int64_t step) {
        carry_a.load(u.length - step * kStep, next_a);
        carry_b.load(u.length - step * kStep, next_b);
      };
      const auto store = [&](int64_t step) {
        carry_a.store(next_a, stage_of(step));
        carry_b.store(next_b, stage_of(step) + S::kFloatsA);
      };
      if (steps > 0) {
        load(0);
        store(0);
      }
      __syncthreads();
      for (int64_t step = 0; step < steps; ++step) {
        const bool more = step + 1 < steps;
        if (more) load(step + 1);
        multiply_step(step, stage_of(step));
        if (more) store(step + 1);
        __syncthreads();
      }
    }

    const bool vectors = p.c.type == DType::f32 && p.c.col_stride == 1 && !p.c.atomic && p.c.row_stride % 4 == 0 &&
                         p.c.slice_stride % 4 == 0 && reinterpret_cast<uintptr_t>(p.c.data) % 16 == 0;
    const int64_t cols_left = p.b.lines - u.col0;
#pragma unroll
    for (int i = 0; i < M; ++i) {
      const int64_t row = u.row0 + row_in_tile + i / 4 * 32 + i % 4;
      if (row >= p.a.lines) continue;
#pragma unroll
      for (int g = 0; g < kGroupsN; ++g) {
        const int col = col_in_tile + g * 16;
        const int64_t first = u.slice * p.c.slice_stride + row * p.c.row_stride + (u.col0 + col) * p.c.col_stride;
        put_four(p.c, p.c.type, first, col, cols_left, vectors, &sum[i][4 * g]);
      }
    }
  }
}

// ---- Small products ----

constexpr int kSmallTile = 16;
constexpr int kSmallStep = 64;
constexpr int kSmallThreads = 128;  // each forms one row by two columns, eight apart
constexpr int kSmallEach = kSmallTile * kSmallStep / kSmallThreads;
constexpr int kSmallPitch = kSmallStep + 4;

// The part of an operand's tile that one thread carries: elements `hop` apart.
template <typename T>
struct SmallCarrier {
  static constexpr int kLineHop = kSmallThreads / kSmallStep, kKHop = kSmallThreads / kSmallTile;
  const T *at;
  int64_t hop, advance;
  int line, k;
  int lines_left;  // of the tile
  bool k_inner;

  __device__ SmallCarrier(const StridedOperand &o, int64_t first_line, int64_t first_k) {
    const int thread = threadIdx.x;
    k_inner = o.k_inner;
    line = k_inner ? thread / kSmallStep : thread % kSmallTile;
    k = k_inner ? thread % kSmallStep : thread / kSmallTile;
    at = reinterpret_cast<const T *>(o.data) + (first_line + line) * o.line_stride + (first_k + k) * o.k_stride;
    hop = k_inner ? kLineHop * o.line_stride : kKHop * o.k_stride;
    advance = kSmallStep * o.k_stride;
    lines_left = static_cast<int>(min(int64_t{kSmallTile}, o.lines - first_line));
  }

  // Not 0, and known only when all is that a load starts from.
  __device__ __forceinline__ int64_t ready() const {
    return reinterpret_cast<int64_t>(at) | hop | advance | lines_left | line | k;
  }

  __device__ void load(int k_left, float (&values)[kSmallEach]) {
#pragma unroll
    for (int i = 0; i < kSmallEach; ++i) {
      const bool inside = line + (k_inner ? i * kLineHop : 0) < lines_left && k + (k_inner ? 0 : i * kKHop) < k_left;
      values[i] = inside ? to_float(at[i * hop]) : 0.0f;
    }
    at += advance;
  }

  __device__ void store(const float (&values)[kSmallEach], float (&tile)[kSmallTile][kSmallPitch]) const {
#pragma unroll
    for (int i = 0; i < kSmallEach; ++i)
      tile[line + (k_inner ? i * kLineHop : 0)][k + (k_inner ? 0 : i * kKHop)] = values[i];
  }
};

template <typename T>
__global__ void __launch_bounds__(kSmallThreads) simt_small_kernel(const TiledArguments p) {
  __shared__ __align__(16) float tile_a[kSmallTile][kSmallPitch], tile_b[kSmallTile][kSmallPitch];
  const int thread = threadIdx.x, row_in_tile = thread / 8, col_in_tile = thread % 8;
  const TileUnit u = tile_of_block<kSmallTile>(p);
  const int length = static_cast<int>(u.length);
  SmallCarrier<T> carry_a(p.a, u.row0, u.first_k), carry_b(p.b, u.col0, u.first_k);
  const int64_t row = u.row0 + row_in_tile;
  int64_t elements[2];
  bool inside[2];
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const int64_t col = u.col0 + col_in_tile + 8 * j;
    elements[j] = u.slice * p.c.slice_stride + row * p.c.row_stride + col * p.c.col_stride;
    inside[j] = row < p.a.lines && col < p.b.lines;
  }
  ptx::wait_for_kernel_before(carry_a.ready() | carry_b.ready() | elements[0] | elements[1]);
  ptx::let_next_kernel_start();

  float next_a[kSmallEach], next_b[kSmallEach], old[2], sum[2] = {};
  carry_a.load(length, next_a);
  carry_b.load(length, next_b);
#pragma unroll
  for (int j = 0; j < 2; ++j)
    old[j] = inside[j] && p.c.add && !p.c.atomic ? load_any(p.c.data, p.c.type, elements[j]) : 0.0f;
  for (int step = 0; step < length; step += kSmallStep) {
    carry_a.store(next_a, tile_a);
    carry_b.store(next_b, tile_b);
    __syncthreads();
    if (step + kSmallStep < length) {
      carry_a.load(length - step - kSmallStep, next_a);
      carry_b.load(length - step - kSmallStep, next_b);
    }
    const int depth = min(kSmallStep, length - step);
    if (depth == kSmallStep) {
#pragma unroll
      for (int k = 0; k < kSmallStep; k += 4) {
        const float4 a = *reinterpret_cast<const float4 *>(&tile_a[row_in_tile][k]);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const float4 b = *reinterpret_cast<const float4 *>(&tile_b[col_in_tile + 8 * j][k]);
          sum[j] = fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum[j]))));
        }
      }
    } else {
      for (int k = 0; k < depth; ++k)
#pragma unroll
        for (int j = 0; j < 2; ++j) sum[j] = fmaf(tile_a[row_in_tile][k], tile_b[col_in_tile + 8 * j][k], sum[j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    if (!inside[j]) continue;
    if (p.c.atomic)
      put(p.c.data, p.c.type, elements[j], sum[j], p.c.add, true);
    else
      store_any(p.c.data, p.c.type, elements[j], p.c.add ? old[j] + sum[j] : sum[j]);
  }
}

template <typename T, int M, int N>
cudaError_t launch_tiles(TiledArguments *arguments, int32_t blocks, cudaStream_t stream) {
  constexpr int kBytes = Shape<T, M, N>::kSharedBytes;
  static std::atomic<uint64_t> devices;
  const void *kernel = reinterpret_cast<const void *>(simt_kernel<T, M, N>);
  const cudaError_t error = allow_shared(kernel, kBytes, &devices);
  if (error != cudaSuccess) return error;
  void *pointers[] = {arguments};
  return launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), kBytes, stream, pointers);
}

template <typename T>
cudaError_t launch_typed(const gpu::ProductPlan &p, TiledArguments *arguments, cudaStream_t stream) {
  if constexpr (sizeof(T) == 4)
    if (p.tile_n == 256) return launch_tiles<T, 8, 16>(arguments, p.blocks, stream);
  if (p.tile_m == 128) return launch_tiles<T, 8, 8>(arguments, p.blocks, stream);
  if (p.tile_m == 64) return launch_tiles<T, 4, 4>(arguments, p.blocks, stream);
  void *pointers[] = {arguments};
  return launch(reinterpret_cast<const void *>(simt_small_kernel<T>), grid_of_tiles(p), dim3(kSmallThreads), 0, stream,
                pointers, p.overlap);
}

}  // namespace

cudaError_t product_simt(const gpu::ProductPlan &p, const Target &target, cudaStream_t stream) {
  TiledArguments arguments = tiled_arguments(p, target);
  switch (p.work.a.type) {
    case DType::f32: return launch_typed<float>(p, &arguments, stream);
    case DType::f16: return launch_typed<__half>(p, &arguments, stream);
    default: return launch_typed<__nv_bfloat16>(p, &arguments, stream);
  }
}

}  // namespace cuda
}  // namespace dxdw
