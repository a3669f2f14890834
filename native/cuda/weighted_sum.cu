// y[i] = or += sum over d of x[i,d] . w[d], and its backward:
// gx[i,d] = or += g[i] . w[d],  gw[d] = or += sum over i of x[i,d] . g[i].
//
// All of it is bound by memory: x is read once, gx written once, 16 bytes a thread and several loads in flight.
// Results do not depend on timing: a row of y is summed by one warp (or one block) in an order that D alone sets, gw by
// blocks of rows that the shape alone sets, each summed in rising order, and the blocks added in rising order.
#include "kernels.hpp"
#include "ptx.cuh"
#include "vectors.cuh"

namespace dxdw {
namespace cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
// Found by sweeping rows at a time, unrolling and block sizes: one row a warp with eight loads ahead reads fastest,
// small blocks leave the shortest tail.
constexpr int kForwardThreads = 128;
constexpr int kForwardUnroll = 8;
constexpr int64_t kMostBlocks = 1 << 20;

// ---- Forward ----

// Any strides: a warp a row.
__global__ void __launch_bounds__(kThreads) forward_any(const WeightedSum p) {
  const int lane = threadIdx.x % 32;
  for (int64_t row = blockIdx.x * int64_t{kWarps} + threadIdx.x / 32; row < p.rows.count;
       row += gridDim.x * int64_t{kWarps}) {
    const int64_t x = row_offset(p.rows, p.x.row_strides, row);
    float sum = 0.0f;
    for (int64_t d = lane; d < p.features; d += 32)
      sum = fmaf(load_any(p.x.data, p.x.type, x + d * p.x.feature_stride),
                 load_any(p.w.data, p.w.type, d * p.w.feature_stride), sum);
    sum = sum_over_warp(sum);
    if (lane == 0) put(p.y.data, p.y.type, row_offset(p.rows, p.y.row_strides, row), sum, p.add, false);
  }
}

struct ForwardArguments {
  const char *x, *w;
  char *y;
  DType y_type;
  bool add;
  int64_t rows, features;  // features: a multiple of the vector
  int64_t x_stride, y_stride;
};

// Dense features: kLanes threads (a warp or the block) hold kRows rows at a time, so that w is loaded once for all.
template <typename T, int kRows, int kLanes>
__global__ void __launch_bounds__(kForwardThreads) forward_dense(const ForwardArguments p) {
  constexpr int kVector = Vector<T>::kSize;
  __shared__ float shared[kForwardThreads / 32][kRows];
  const int lane = threadIdx.x % kLanes;
  const int64_t first = (blockIdx.x * int64_t{kForwardThreads / kLanes} + threadIdx.x / kLanes) * kRows;
  if (first >= p.rows) return;  // whole warps; with kLanes = kForwardThreads, whole blocks
  const T *x[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r)
    x[r] = reinterpret_cast<const T *>(p.x) + min(first + r, p.rows - 1) * p.x_stride + lane * kVector;
  const T *w = reinterpret_cast<const T *>(p.w) + lane * kVector;
  float sum[kRows] = {};
#pragma unroll(kForwardUnroll)
  for (int64_t d = lane * kVector; d < p.features; d += kLanes * kVector) {
    uint4 words[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      words[r] = __ldcs(reinterpret_cast<const uint4 *>(x[r]));
      x[r] += kLanes * kVector;
    }
    float weights[kVector];
    unpack<T>(__ldg(reinterpret_cast<const uint4 *>(w)), weights);
    w += kLanes * kVector;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float values[kVector];
      unpack<T>(words[r], values);
#pragma unroll
      for (int e = 0; e < kVector; ++e) sum[r] = fmaf(values[e], weights[e], sum[r]);
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) sum[r] = sum_over_warp(sum[r]);
  float mine = 0.0f;
  if (kLanes == 32) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) mine = lane == r ? sum[r] : mine;
  } else {
    if (threadIdx.x % 32 == 0) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) shared[threadIdx.x / 32][r] = sum[r];
    }
    __syncthreads();
    if (lane < kRows)
      for (int i = 0; i < kForwardThreads / 32; ++i) mine += shared[i][lane];
  }
  if (lane < kRows && first + lane < p.rows) put(p.y, p.y_type, (first + lane) * p.y_stride, mine, p.add, false);
}

// ---- Backward ----

struct BackwardShape {
  int64_t rows_per_block, blocks;
  float *partials;  // [blocks][features]; NULL: the only block writes gw itself
};

__device__ __forceinline__ void put_sum(const WeightedSumBackward &p, const BackwardShape &s, int64_t block, int64_t d,
                                        float sum) {
  if (s.partials != nullptr)
    s.partials[block * p.features + d] = sum;
  else
    put(p.gw.data, p.gw.type, d * p.gw.feature_stride, sum, p.add_gw, false);
}

// Any strides: a thread owns a column of a block of rows.
__global__ void __launch_bounds__(kThreads) backward_any(const WeightedSumBackward p, const BackwardShape s) {
  const int64_t count = s.blocks * p.features;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += gridDim.x * int64_t{kThreads}) {
    const int64_t block = i / p.features, d = i % p.features;
    const int64_t end = min((block + 1) * s.rows_per_block, p.rows.count);
    const float weight = p.gx.data == nullptr ? 0.0f : load_any(p.w.data, p.w.type, d * p.w.feature_stride);
    float sum = 0.0f;
    for (int64_t row = block * s.rows_per_block; row < end; ++row) {
      const float g =
          p.g.data == nullptr ? 1.0f : load_any(p.g.data, p.g.type, row_offset(p.rows, p.g.row_strides, row));
      if (p.gx.data != nullptr)
        put(p.gx.data, p.gx.type, row_offset(p.rows, p.gx.row_strides, row) + d * p.gx.feature_stride, g * weight,
            p.add_gx, false);
      if (p.gw.data != nullptr)
        sum = fmaf(load_any(p.x.data, p.x.type, row_offset(p.rows, p.x.row_strides, row) + d * p.x.feature_stride), g,
                   sum);
    }
    if (p.gw.data != nullptr) put_sum(p, s, block, d, sum);
  }
}

// Dense features, one row stride, gx of x's type and assigned: a thread owns one vector of columns; `columns` threads
// side by side cover a slab of a row. The groups of such threads, of all blocks together, take runs of kAhead rows in
// turn, so that at any time the whole chip reads and writes one moving window of memory. A block adds up its own groups
// in order.
template <typename T, bool kGx, bool kGw, int kAhead>
__global__ void __launch_bounds__(kThreads, (kGx && kGw) || kAhead > 4 ? 2 : 4)
    backward_dense(const WeightedSumBackward p, const BackwardShape s, const int columns, const int64_t slabs) {
  constexpr int kVector = Vector<T>::kSize;
  __shared__ float shared[kGw ? kThreads * kVector : 1];
  // Alone, gx is written behind the kernel for gw, whose end is waited for here: what comes behind finds gw's partial sums.
  if (!kGw) ptx::wait_for_kernel_before();
  ptx::let_next_kernel_start();
  const int64_t slab = blockIdx.x % slabs, block = blockIdx.x / slabs;
  const int groups = kThreads / columns, group = threadIdx.x / columns;
  const int64_t d = (slab * columns + threadIdx.x % columns) * kVector;
  const bool inside = d < p.features;
  float sum[kVector] = {};
  if (inside) {
    const int64_t hop = s.blocks * groups * kAhead;  // rows
    const int64_t x_stride = p.x.row_strides[0], gx_stride = p.gx.row_strides[0], g_stride = p.g.row_strides[0];
    int64_t row = (block * groups + group) * kAhead;
    const T *x = reinterpret_cast<const T *>(p.x.data) + row * x_stride + d;
    T *gx = reinterpret_cast<T *>(p.gx.data) + row * gx_stride + d;
    const T *g = reinterpret_cast<const T *>(p.g.data) + row * g_stride;
    float weights[kVector];
    if (kGx) unpack<T>(__ldg(reinterpret_cast<const uint4 *>(reinterpret_cast<const T *>(p.w.data) + d)), weights);
    const bool ones = p.g.data == nullptr;

    const auto one_row = [&](const uint4 &word, float scale, T *to) {
      if (kGx) {
        float products[kVector];
#pragma unroll
        for (int e = 0; e < kVector; ++e) products[e] = scale * weights[e];
        __stcs(reinterpret_cast<uint4 *>(to), repack<T>(products));
      }
      if (kGw) {
        float values[kVector];
        unpack<T>(word, values);
#pragma unroll
        for (int e = 0; e < kVector; ++e) sum[e] = fmaf(values[e], scale, sum[e]);
      }
    };
    const auto load = [&](uint4(&words)[kAhead], float(&scales)[kAhead]) {
#pragma unroll
      for (int r = 0; r < kAhead; ++r) {
        if (kGw) words[r] = __ldcs(reinterpret_cast<const uint4 *>(x + r * x_stride));
        scales[r] = ones ? 1.0f : to_float(__ldg(g + r * g_stride));
      }
    };
    uint4 words[kAhead];
    float scales[kAhead];
    bool whole = row + kAhead <= p.rows.count;
    if (whole) load(words, scales);
    while (whole) {
      // The next run's loads go out before this run's stores.
      const bool more = row + hop + kAhead <= p.rows.count;
      uint4 now[kAhead];
      float scale[kAhead];
#pragma unroll
      for (int r = 0; r < kAhead; ++r) now[r] = words[r], scale[r] = scales[r];
      x += hop * x_stride;
      g += hop * g_stride;
      if (more) load(words, scales);
#pragma unroll
      for (int r = 0; r < kAhead; ++r) one_row(now[r], scale[r], gx + r * gx_stride);
      gx += hop * gx_stride;
      row += hop;
      whole = more;
    }
    for (int r = 0; r < kAhead && row + r < p.rows.count; ++r) {
      one_row(kGw ? __ldcs(reinterpret_cast<const uint4 *>(x)) : uint4{}, ones ? 1.0f : to_float(*g), gx);
      x += x_stride;
      gx += gx_stride;
      g += g_stride;
    }
  }
  if (!kGw) return;
  // In shared memory, one group of columns behind the other; threads that had no columns hold zeros.
  const int width = columns * kVector;
#pragma unroll
  for (int e = 0; e < kVector; ++e) shared[group * width + threadIdx.x % columns * kVector + e] = sum[e];
  __syncthreads();
  for (int i = threadIdx.x; i < width; i += kThreads) {
    const int64_t feature = slab * width + i;
    if (feature >= p.features) break;
    float total = shared[i];
    for (int other = 1; other < groups; ++other) total = __fadd_rn(total, shared[other * width + i]);
    put_sum(p, s, block, feature, total);
  }
}

// gx alone, of rows that a warp covers at once: 32 rows a warp, whose g it fetches by one load. `columns` lanes take a row.
template <typename T>
__global__ void __launch_bounds__(kThreads) write_short_rows(const WeightedSumBackward p, const int columns) {
  constexpr int kVector = Vector<T>::kSize;
  ptx::wait_for_kernel_before();  // the kernel for gw
  ptx::let_next_kernel_start();
  const int lane = threadIdx.x % 32, d = lane % columns * kVector, rows_at_once = 32 / columns;
  const int64_t first = (blockIdx.x * int64_t{kWarps} + threadIdx.x / 32) * 32;
  if (first >= p.rows.count) return;
  const T *g = reinterpret_cast<const T *>(p.g.data);
  const int64_t mine = min(first + lane, p.rows.count - 1);
  const float scale = g == nullptr ? 1.0f : to_float(__ldg(g + mine * p.g.row_strides[0]));
  const bool inside = d < p.features;
  float weights[kVector] = {};
  if (inside) unpack<T>(__ldg(reinterpret_cast<const uint4 *>(reinterpret_cast<const T *>(p.w.data) + d)), weights);
  T *gx = reinterpret_cast<T *>(p.gx.data) + d;
#pragma unroll 8
  for (int i = 0; i < columns; ++i) {
    const int r = i * rows_at_once + lane / columns;
    const float its = __shfl_sync(~0u, scale, r);
    float products[kVector];
#pragma unroll
    for (int e = 0; e < kVector; ++e) products[e] = its * weights[e];
    if (inside && first + r < p.rows.count)
      __stcs(reinterpret_cast<uint4 *>(gx + (first + r) * p.gx.row_strides[0]), repack<T>(products));
  }
}

// gw from the partial sums, block after block: 32 columns a thread block, partial sums staged through shared memory so
// that many loads are in flight while one warp adds in order. Beside the kernel that writes gx, which starts this one once
// the partial sums are there, only the end waits for it, so that all is done when this is.
constexpr int kLoaders = 16;  // warps
constexpr int kFinishThreads = (kLoaders + 1) * 32;
constexpr int kStaged = 256;  // blocks of rows
constexpr int kFinishShared = 2 * kStaged * 32 * 4;

__global__ void __launch_bounds__(kFinishThreads)
    finish_columns(const WeightedSumBackward p, const BackwardShape s, const bool beside_gx) {
  extern __shared__ float staged[];  // [2][kStaged][32]
  if (!beside_gx) ptx::wait_for_kernel_before();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int64_t first = blockIdx.x * int64_t{32}; first < p.features; first += gridDim.x * int64_t{32}) {
    const int64_t d = first + lane;
    const bool inside = d < p.features;
    const auto stage = [&](int64_t block, int64_t turn) {
      constexpr int kEach = kStaged / kLoaders;
      float values[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int64_t b = block + warp + i * kLoaders;
        values[i] = inside && b < s.blocks ? __ldcs(s.partials + b * p.features + d) : 0.0f;
      }
      float *to = staged + turn % 2 * (kStaged * 32) + lane;
#pragma unroll
      for (int i = 0; i < kEach; ++i) to[(warp + i * kLoaders) * 32] = values[i];
    };
    float sum = 0.0f;
    if (warp < kLoaders) stage(0, 0);
    __syncthreads();
    for (int64_t block = 0, turn = 0; block < s.blocks; block += kStaged, ++turn) {
      if (warp < kLoaders) {
        if (block + kStaged < s.blocks) stage(block + kStaged, turn + 1);
      } else {
        const float *from = staged + turn % 2 * (kStaged * 32) + lane;
        const int count = static_cast<int>(min(int64_t{kStaged}, s.blocks - block));
        int i = 0;
        for (; i + 16 <= count; i += 16) {
          float values[16];
#pragma unroll
          for (int j = 0; j < 16; ++j) values[j] = from[(i + j) * 32];
#pragma unroll
          for (int j = 0; j < 16; ++j) sum = __fadd_rn(sum, values[j]);
        }
        for (; i < count; ++i) sum = __fadd_rn(sum, from[i * 32]);
      }
      __syncthreads();
    }
    if (warp == kLoaders && inside) put(p.gw.data, p.gw.type, d * p.gw.feature_stride, sum, p.add_gw, false);
  }
  if (beside_gx) ptx::wait_for_kernel_before();
}

// ---- Which kernel ----

bool dense(const RowsView &view, const Rows &rows, int64_t vector) {
  return reinterpret_cast<uintptr_t>(view.data) % 16 == 0 && view.feature_stride == 1 &&
         (rows.count <= 1 || view.row_strides[0] % vector == 0);
}

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

dim3 grid(int64_t blocks) { return dim3(static_cast<unsigned>(blocks)); }

template <typename T>
cudaError_t forward_typed(const WeightedSum &p, cudaStream_t stream) {
  constexpr int64_t kVector = Vector<T>::kSize;
  ForwardArguments arguments = {p.x.data,     p.w.data,   p.y.data,           p.y.type,          p.add,
                                p.rows.count, p.features, p.x.row_strides[0], p.y.row_strides[0]};
  void *pointers[] = {&arguments};
  const auto go = [&](auto kernel, int64_t rows_per_block) {
    return launch(reinterpret_cast<const void *>(kernel), grid((p.rows.count + rows_per_block - 1) / rows_per_block),
                  dim3(kForwardThreads), 0, stream, pointers);
  };
  constexpr int64_t kGroups = kForwardThreads / 32;
  if (p.features > 16384) return go(forward_dense<T, 1, kForwardThreads>, 1);
  if (p.features > 64 * kVector) return go(forward_dense<T, 1, 32>, kGroups);
  return go(forward_dense<T, 8, 32>, 8 * kGroups);
}

// Threads that cover a row, or a slab of it: a power of two.
template <typename T>
int columns_of(const WeightedSumBackward &p) {
  int columns = 1;
  while (columns < kThreads && columns * int64_t{Vector<T>::kSize} < p.features) columns *= 2;
  return columns;
}

template <typename T, int kAhead>
const void *backward_kernel(const WeightedSumBackward &p) {
  return p.gx.data == nullptr   ? reinterpret_cast<const void *>(backward_dense<T, false, true, kAhead>)
         : p.gw.data == nullptr ? reinterpret_cast<const void *>(backward_dense<T, true, false, kAhead>)
                                : reinterpret_cast<const void *>(backward_dense<T, true, true, kAhead>);
}

template <typename T>
cudaError_t backward_typed(const WeightedSumBackward &p, const BackwardShape &s, bool overlap, cudaStream_t stream) {
  int columns = columns_of<T>(p);
  const int64_t width = columns * int64_t{Vector<T>::kSize};
  int64_t slabs = (p.features + width - 1) / width;
  const int64_t blocks = s.blocks * slabs;
  WeightedSumBackward argument = p;
  BackwardShape shape = s;
  void *pointers[] = {&argument, &shape, &columns, &slabs};
  // Short rows want more of them in flight. The shape alone decides, for gw's bits follow from it.
  const void *kernel = columns <= 32 ? backward_kernel<T, 8>(p) : backward_kernel<T, 4>(p);
  return launch(kernel, grid(blocks), dim3(kThreads), 0, stream, pointers, overlap);
}

// overlap: the kernel for gw stands before it on the stream.
template <typename T>
cudaError_t write_gx(const WeightedSumBackward &p, const BackwardShape &s, bool overlap, cudaStream_t stream) {
  WeightedSumBackward only_gx = p;
  only_gx.gw.data = nullptr;
  int columns = columns_of<T>(p);
  if (columns <= 32) {
    constexpr int64_t kRows = 32 * kWarps;
    void *pointers[] = {&only_gx, &columns};
    return launch(reinterpret_cast<const void *>(write_short_rows<T>), grid((p.rows.count + kRows - 1) / kRows),
                  dim3(kThreads), 0, stream, pointers, overlap);
  }
  BackwardShape shape = s;
  shape.blocks = 4 * s.blocks;  // writes alone want more of them
  return backward_typed<T>(only_gx, shape, overlap, stream);
}

// Apart, x is read first and gx written behind it: memory need not turn between reads and writes, g is read from the L2
// cache the second time, and the last writes wait there for nobody.
template <typename T>
cudaError_t backward_fast(const WeightedSumBackward &p, const BackwardShape &s, bool overlap, cudaStream_t stream) {
  if (!gpu::writes_apart(p)) return backward_typed<T>(p, s, false, stream);
  WeightedSumBackward only_gw = p;
  only_gw.gx.data = nullptr;
  const cudaError_t error = backward_typed<T>(only_gw, s, false, stream);
  return error != cudaSuccess ? error : write_gx<T>(p, s, overlap, stream);
}

}  // namespace

cudaError_t weighted_sum(const WeightedSum &p, cudaStream_t stream) {
  const int64_t vector = 16 / size_of(p.x.type);
  const bool fast = p.rows.ndim == 1 && p.features > 0 && p.features % vector == 0 && dense(p.x, p.rows, vector) &&
                    p.w.feature_stride == 1 && reinterpret_cast<uintptr_t>(p.w.data) % 16 == 0 &&
                    p.rows.count < (int64_t{1} << 31);
  if (fast) {
    switch (p.x.type) {
      case DType::f32: return forward_typed<float>(p, stream);
      case DType::f16: return forward_typed<__half>(p, stream);
      default: return forward_typed<__nv_bfloat16>(p, stream);
    }
  }
  WeightedSum argument = p;
  void *pointers[] = {&argument};
  return launch(reinterpret_cast<const void *>(forward_any),
                grid(least((p.rows.count + kWarps - 1) / kWarps, kMostBlocks)), dim3(kThreads), 0, stream, pointers);
}

cudaError_t weighted_sum_backward(const WeightedSumBackward &p, float *partials, bool overlap, cudaStream_t stream) {
  const int64_t vector = 16 / size_of(p.x.type);
  const gpu::RowBlocks plan = gpu::plan_rows(p);
  BackwardShape shape = {plan.rows_per_block, plan.blocks,
                         p.gw.data != nullptr && plan.blocks > 1 ? partials : nullptr};
  const bool fast = p.rows.ndim == 1 && p.rows.count > 0 && p.features % vector == 0 && dense(p.x, p.rows, vector) &&
                    p.w.feature_stride == 1 && reinterpret_cast<uintptr_t>(p.w.data) % 16 == 0 &&
                    (p.gx.data == nullptr || (dense(p.gx, p.rows, vector) && p.gx.type == p.x.type && !p.add_gx));
  cudaError_t error;
  if (fast) {
    switch (p.x.type) {
      case DType::f32: error = backward_fast<float>(p, shape, overlap, stream); break;
      case DType::f16: error = backward_fast<__half>(p, shape, overlap, stream); break;
      default: error = backward_fast<__nv_bfloat16>(p, shape, overlap, stream); break;
    }
  } else {
    WeightedSumBackward argument = p;
    void *pointers[] = {&argument, &shape};
    const int64_t blocks = (plan.blocks * p.features + kThreads - 1) / kThreads;
    error = launch(reinterpret_cast<const void *>(backward_any), grid(least(blocks, kMostBlocks)), dim3(kThreads), 0,
                   stream, pointers);
  }
  if (error != cudaSuccess || shape.partials == nullptr) return error;
  WeightedSumBackward argument = p;
  bool beside_gx = fast && overlap && gpu::writes_apart(p);
  void *pointers[] = {&argument, &shape, &beside_gx};
  const void *finish = reinterpret_cast<const void *>(finish_columns);
  static std::atomic<uint64_t> devices;
  error = allow_shared(finish, kFinishShared, &devices);
  if (error != cudaSuccess) return error;
  return launch(finish, grid(least((p.features + 31) / 32, kMostBlocks)), dim3(kFinishThreads), kFinishShared, stream,
                pointers, overlap);
}

}  // namespace cuda
}  // namespace dxdw
