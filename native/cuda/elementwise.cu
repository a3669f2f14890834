// out = f(a, b), or out += that, element by element; steps of optimizers.
//
// All of it is bound by memory: 16 bytes a thread and operand where the innermost dimension stands side by side on 16
// bytes in every operand, be others expanded or not; else element by element over any strides.
#include "kernels.hpp"
#include "normal.cuh"
#include "vectors.cuh"

namespace dxdw {
namespace cuda {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1 << 20;  // each thread walks on, so any count is served

dim3 blocks_for(int64_t count) {
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  return dim3(static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks));
}

struct Add {
  static constexpr bool kTwo = true;
  static __device__ float apply(float a, float b) { return __fadd_rn(a, b); }
};
struct Relu {
  static constexpr bool kTwo = false;
  static __device__ float apply(float x, float) { return x > 0.0f ? x : x < 0.0f ? 0.0f : x + 0.0f; }
};
struct ReluBackward {
  static constexpr bool kTwo = true;
  static __device__ float apply(float x, float g) { return x > 0.0f ? g : 0.0f; }
};
struct Gelu {
  static constexpr bool kTwo = false;
  static __device__ float apply(float x, float) { return __fmul_rn(x, normal_of(x).below); }
};
struct GeluBackward {
  static constexpr bool kTwo = true;
  static __device__ float apply(float x, float g) {
    const Normal normal = normal_of(x);
    return __fmul_rn(g, fmaf(x, normal.density, normal.below));
  }
};

// Where vectors of the innermost dimension lie: vector i starts at element `col` of line `line`.
struct Place {
  int64_t line, col;
};

template <int kVector>
__device__ __forceinline__ Place place_of(const Rows &grid, int64_t per_line, int64_t i) {
  if (grid.ndim == 1) return {0, i * kVector};
  const int64_t line = i / per_line;
  return {line, (i - line * per_line) * kVector};
}

// Offset of a line of the dimensions but the innermost.
__device__ __forceinline__ int64_t line_offset(const Rows &grid, const int64_t *strides, int64_t line) {
  int64_t offset = 0;
  for (int32_t d = grid.ndim - 2; d > 0; --d) {
    offset += line % grid.shape[d] * strides[d];
    line /= grid.shape[d];
  }
  return grid.ndim == 1 ? 0 : offset + line * strides[0];
}

template <typename T>
__device__ __forceinline__ void load_vector(const T *from, float (&values)[Vector<T>::kSize]) {
  unpack<T>(*reinterpret_cast<const uint4 *>(from), values);
}

template <int kCount>
__device__ __forceinline__ void load_out(const float *from, float (&values)[kCount]) {
#pragma unroll
  for (int e = 0; e < kCount; e += 4) {
    const float4 word = *reinterpret_cast<const float4 *>(from + e);
    values[e] = word.x, values[e + 1] = word.y, values[e + 2] = word.z, values[e + 3] = word.w;
  }
}
__device__ __forceinline__ void load_out(const __half *from, float (&values)[8]) { load_vector(from, values); }
__device__ __forceinline__ void load_out(const __nv_bfloat16 *from, float (&values)[8]) { load_vector(from, values); }

template <int kCount>
__device__ __forceinline__ void store_out(float *to, const float (&values)[kCount]) {
#pragma unroll
  for (int e = 0; e < kCount; e += 4)
    *reinterpret_cast<float4 *>(to + e) = make_float4(values[e], values[e + 1], values[e + 2], values[e + 3]);
}
__device__ __forceinline__ void store_out(__half *to, const float (&values)[8]) {
  *reinterpret_cast<uint4 *>(to) = repack<__half>(values);
}
__device__ __forceinline__ void store_out(__nv_bfloat16 *to, const float (&values)[8]) {
  *reinterpret_cast<uint4 *>(to) = repack<__nv_bfloat16>(values);
}

template <typename Op, typename T, typename Out>
__global__ void __launch_bounds__(kThreads) dense(const Elementwise e, const int64_t per_line) {
  constexpr int kVector = Vector<T>::kSize;
  const int64_t inner = e.grid.shape[e.grid.ndim - 1], count = e.grid.count / inner * per_line;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += gridDim.x * int64_t{kThreads}) {
    const Place at = place_of<kVector>(e.grid, per_line, i);
    const T *a = reinterpret_cast<const T *>(e.in[0].data) + line_offset(e.grid, e.in[0].row_strides, at.line) + at.col;
    const T *b = nullptr;
    if (Op::kTwo)
      b = reinterpret_cast<const T *>(e.in[1].data) + line_offset(e.grid, e.in[1].row_strides, at.line) + at.col;
    Out *out = reinterpret_cast<Out *>(e.out.data) + line_offset(e.grid, e.out.row_strides, at.line) + at.col;
    if (at.col + kVector <= inner) {
      float x[kVector], y[kVector] = {}, result[kVector];
      load_vector(a, x);
      if (Op::kTwo) load_vector(b, y);
#pragma unroll
      for (int k = 0; k < kVector; ++k) result[k] = Op::apply(x[k], y[k]);
      if (e.add) {
        float old[kVector];
        load_out(out, old);
#pragma unroll
        for (int k = 0; k < kVector; ++k) result[k] = __fadd_rn(old[k], result[k]);
      }
      store_out(out, result);
      continue;
    }
    for (int64_t k = 0; k < inner - at.col; ++k) {
      const float result = Op::apply(to_float(a[k]), Op::kTwo ? to_float(b[k]) : 0.0f);
      out[k] = from_float<Out>(e.add ? __fadd_rn(to_float(out[k]), result) : result);
    }
  }
}

template <typename Op>
__global__ void __launch_bounds__(kThreads) any(const Elementwise e) {
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < e.grid.count; i += gridDim.x * int64_t{kThreads}) {
    const float a = load_any(e.in[0].data, e.in[0].type, row_offset(e.grid, e.in[0].row_strides, i));
    const float b = Op::kTwo ? load_any(e.in[1].data, e.in[1].type, row_offset(e.grid, e.in[1].row_strides, i)) : 0.0f;
    put(e.out.data, e.out.type, row_offset(e.grid, e.out.row_strides, i), Op::apply(a, b), e.add, false);
  }
}

// Can vectors of so many elements be taken of the operand, all along the innermost dimension?
bool takes_vectors(const RowsView &view, const Rows &grid, int64_t vector) {
  const int32_t last = grid.ndim - 1;
  if (view.data == nullptr) return true;
  if (grid.shape[last] > 1 && view.row_strides[last] != 1) return false;
  for (int32_t d = 0; d < last; ++d)
    if (view.row_strides[d] % vector != 0) return false;
  return reinterpret_cast<uintptr_t>(view.data) % 16 == 0;
}

template <typename Op, typename T>
const void *dense_to(DType out) {
  return out == DType::f32 ? reinterpret_cast<const void *>(dense<Op, T, float>)
                           : reinterpret_cast<const void *>(dense<Op, T, T>);
}

template <typename Op>
cudaError_t run(const Elementwise &e, cudaStream_t stream) {
  const int64_t vector = 16 / size_of(e.in[0].type), inner = e.grid.shape[e.grid.ndim - 1];
  Elementwise argument = e;
  if (takes_vectors(e.in[0], e.grid, vector) && takes_vectors(e.in[1], e.grid, vector) &&
      takes_vectors(e.out, e.grid, vector)) {
    int64_t per_line = (inner + vector - 1) / vector;
    void *pointers[] = {&argument, &per_line};
    const void *kernel = e.in[0].type == DType::f32   ? dense_to<Op, float>(e.out.type)
                         : e.in[0].type == DType::f16 ? dense_to<Op, __half>(e.out.type)
                                                      : dense_to<Op, __nv_bfloat16>(e.out.type);
    return launch(kernel, blocks_for(e.grid.count / inner * per_line), dim3(kThreads), 0, stream, pointers);
  }
  void *pointers[] = {&argument};
  return launch(reinterpret_cast<const void *>(any<Op>), blocks_for(e.grid.count), dim3(kThreads), 0, stream, pointers);
}

// ---- Optimizer steps ----

// One element; state[1] is not there for SGD.
template <bool kAdamW>
__device__ __forceinline__ float step_element(const OptimizerStep &s, float scale, float p, float g, float &state0,
                                              float &state1) {
  if (kAdamW) {
    const AdamWNumbers &n = s.adamw;
    const float d = __fmul_rn(scale, g);
    state0 = fmaf(n.rest1, d, __fmul_rn(n.beta1, state0));
    state1 = fmaf(__fmul_rn(n.rest2, d), d, __fmul_rn(n.beta2, state1));
    const float divisor = fmaf(__fsqrt_rn(state1), n.inverse_root, n.eps);
    return fmaf(-n.step, __fdiv_rn(state0, divisor), __fmul_rn(n.keep, p));
  }
  const SgdNumbers &n = s.sgd;
  const float d = fmaf(n.decay, p, __fmul_rn(scale, g));
  float move = d;
  if (s.state[0].data != nullptr) {
    state0 = fmaf(n.momentum, state0, d);
    move = n.nesterov ? fmaf(n.momentum, state0, d) : state0;
  }
  return fmaf(-n.lr, move, p);
}

__device__ __forceinline__ float *float_at(const RowsView &view, int64_t offset) {
  return reinterpret_cast<float *>(view.data) + offset;
}

template <bool kAdamW>
__device__ void step_any(const OptimizerStep &s, float scale, int64_t i) {
  float *p = float_at(s.p, row_offset(s.grid, s.p.row_strides, i));
  const float g = *float_at(s.g, row_offset(s.grid, s.g.row_strides, i));
  float state[2] = {};
  float *places[2] = {};
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    if (s.state[k].data == nullptr) continue;
    places[k] = float_at(s.state[k], row_offset(s.grid, s.state[k].row_strides, i));
    state[k] = *places[k];
  }
  const float result = step_element<kAdamW>(s, scale, *p, g, state[0], state[1]);
  *p = result;
#pragma unroll
  for (int k = 0; k < 2; ++k)
    if (places[k] != nullptr) *places[k] = state[k];
  if (s.copy.data != nullptr) store_any(s.copy.data, s.copy.type, row_offset(s.grid, s.copy.row_strides, i), result);
}

template <bool kAdamW>
__global__ void __launch_bounds__(kThreads) step_strided(const OptimizerStep s) {
  const float scale = s.scale == nullptr ? 1.0f : *reinterpret_cast<const float *>(s.scale);
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < s.grid.count; i += gridDim.x * int64_t{kThreads})
    step_any<kAdamW>(s, scale, i);
}

// All operands side by side from one end to the other: four elements a thread.
template <bool kAdamW>
__global__ void __launch_bounds__(kThreads) step_dense(const OptimizerStep s) {
  const float scale = s.scale == nullptr ? 1.0f : *reinterpret_cast<const float *>(s.scale);
  const int64_t count = s.grid.count / 4;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += gridDim.x * int64_t{kThreads}) {
    float p[4], g[4], state[2][4] = {};
    load_out(float_at(s.p, i * 4), p);
    load_out(float_at(s.g, i * 4), g);
#pragma unroll
    for (int k = 0; k < 2; ++k)
      if (s.state[k].data != nullptr) load_out(float_at(s.state[k], i * 4), state[k]);
#pragma unroll
    for (int e = 0; e < 4; ++e) p[e] = step_element<kAdamW>(s, scale, p[e], g[e], state[0][e], state[1][e]);
    store_out(float_at(s.p, i * 4), p);
#pragma unroll
    for (int k = 0; k < 2; ++k)
      if (s.state[k].data != nullptr) store_out(float_at(s.state[k], i * 4), state[k]);
    if (s.copy.data != nullptr) {
      const float both[8] = {p[0], p[1], p[2], p[3]};
      const uint4 word = s.copy.type == DType::f16 ? repack<__half>(both) : repack<__nv_bfloat16>(both);
      reinterpret_cast<uint2 *>(s.copy.data)[i] = make_uint2(word.x, word.y);
    }
  }
  const int64_t rest = count * 4 + blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (rest < s.grid.count) step_any<kAdamW>(s, scale, rest);
}

template <bool kAdamW>
cudaError_t run_step(const OptimizerStep &s, cudaStream_t stream) {
  bool side_by_side = s.grid.ndim == 1;
  for (const RowsView *view : {&s.p, &s.g, &s.state[0], &s.state[1], &s.copy})
    side_by_side = side_by_side && takes_vectors(*view, s.grid, 4);
  OptimizerStep argument = s;
  void *pointers[] = {&argument};
  const void *kernel = side_by_side ? reinterpret_cast<const void *>(step_dense<kAdamW>)
                                    : reinterpret_cast<const void *>(step_strided<kAdamW>);
  return launch(kernel, blocks_for(side_by_side ? (s.grid.count + 3) / 4 : s.grid.count), dim3(kThreads), 0, stream,
                pointers);
}

}  // namespace

cudaError_t elementwise(const Elementwise &e, int32_t function, cudaStream_t stream) {
  switch (function) {
    case DXDW_ADD_FWD: return run<Add>(e, stream);
    case DXDW_RELU_FWD: return run<Relu>(e, stream);
    case DXDW_RELU_BWD: return run<ReluBackward>(e, stream);
    case DXDW_GELU_FWD: return run<Gelu>(e, stream);
    default: return run<GeluBackward>(e, stream);
  }
}

cudaError_t optimizer_step(const OptimizerStep &step, int32_t function, cudaStream_t stream) {
  return function == DXDW_SGD ? run_step<false>(step, stream) : run_step<true>(step, stream);
}

}  // namespace cuda
}  // namespace dxdw
