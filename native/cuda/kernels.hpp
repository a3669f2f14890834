// The kernels that the dispatch of backend.cpp launches. Each function assumes checked arguments and a plan, and
// returns what the launch returned.
#pragma once

#include "device.hpp"
#include "gpu_plan.hpp"

namespace dxdw {
namespace cuda {

// Where and how a product's result goes: the output, or partial sums.
struct Target {
  char *data;
  DType type;
  int64_t row_stride, col_stride, slice_stride;  // elements
  bool add;
  bool atomic;  // float32 only: slices meet in one output
  bool padded;  // what stands between a row's end and the next row may be written
};

// ---- Products: p.work.a . p.work.b, slice by slice, to `target` ----

cudaError_t product_simt(const gpu::ProductPlan &p, const Target &target, cudaStream_t stream);
// gpu::kSimt where the plan says that tiles are loaded by TMA.
cudaError_t product_fed(const gpu::ProductPlan &p, const Target &target, cudaStream_t stream);
cudaError_t product_mma(const gpu::ProductPlan &p, const Target &target, cudaStream_t stream);

// gpu::kTf32 and gpu::kBf16x3; the operands' parts go to the workspace first, where the plan says.
cudaError_t product_parts(const gpu::ProductPlan &p, char *workspace, const Target &target, cudaStream_t stream);

// An operand as the Hopper kernel reads it: slices of lines, aligned for TMA.
struct TiledOperand {
  const char *data;
  bool contraction_inner;
  int64_t pitch;         // elements between lines
  int64_t slice_stride;  // elements between slices
};
cudaError_t product_hopper_bf16(const gpu::ProductPlan &p, const TiledOperand &a, const TiledOperand &b,
                                const Target &target, cudaStream_t stream);
cudaError_t product_hopper_f16(const gpu::ProductPlan &p, const TiledOperand &a, const TiledOperand &b,
                               const Target &target, cudaStream_t stream);
// gpu::kHopper where the plan says that the product is thin.
cudaError_t product_thin(const gpu::ProductPlan &p, const TiledOperand &a, const TiledOperand &b, const Target &target,
                         cudaStream_t stream);

// gpu::kHopper where the plan says that the slices are blocks of a cluster.
cudaError_t product_clustered(const gpu::ProductPlan &p, const TiledOperand &a, const TiledOperand &b,
                              const Target &target, cudaStream_t stream);

// ---- Reductions ----

// dw = sum of partials in slice order, or dw += that. overlap: the kernel before it on the stream wrote the partials,
// and the device can start one kernel while another ends.
cudaError_t reduce(const Reduction &reduction, bool overlap, cudaStream_t stream);

// ---- Weighted sums ----

cudaError_t weighted_sum(const WeightedSum &forward, cudaStream_t stream);
// partials: gpu::backward_workspace bytes. overlap: the device can start one kernel while another ends.
cudaError_t weighted_sum_backward(const WeightedSumBackward &backward, float *partials, bool overlap,
                                  cudaStream_t stream);

// ---- What stands around products ----

cudaError_t elementwise(const Elementwise &elementwise, int32_t function, cudaStream_t stream);
cudaError_t optimizer_step(const OptimizerStep &step, int32_t function, cudaStream_t stream);
// Labels that are no class give NaN.
cudaError_t row_loss(const RowLoss &loss, int32_t function, cudaStream_t stream);
// sums: a float for each block of elements.
int64_t norm_blocks_of(int64_t count);
cudaError_t squared_norm(const SquaredNorm &norm, float *sums, cudaStream_t stream);
cudaError_t clip_factor(const ClipFactor &factor, cudaStream_t stream);

// ---- Copies ----

// Both ends on the stream's device.
cudaError_t copy_elements(const Copy &copy, cudaStream_t stream);

// Every element of a float32 matrix becomes +0.0.
cudaError_t fill_zero(const Matrix &matrix, cudaStream_t stream);

// Nothing, on the current device.
cudaError_t launch_nop(cudaStream_t stream);

// 16-bit elements: destination[slice][outer][inner] = source, for slice * inner + i < inner_total; see gpu_plan.hpp for
// why an operand is packed.
struct Pack {
  const char *source;
  char *destination;
  int64_t outer, inner, slices, inner_total;
  int64_t source_outer, source_inner;            // strides, elements; slices follow each other along inner
  int64_t destination_outer, destination_slice;  // strides, elements; inner stride is 1
};
cudaError_t pack(const Pack &pack, cudaStream_t stream);

}  // namespace cuda
}  // namespace dxdw
