// dW += X^T . dY and db += sum of the rows of dY.
//
// Where dW is float32 and T is not split, T is cut into slices of whole blocks of DXDW_CPU_BLOCK tokens: the rows of dY
// of a slice are summed, which brings them into the cache, then the product takes them from there. Product after product
// adds to dW what one product over all of T adds block after block, so dW has the same bits as without db. Otherwise
// the rows are summed first, and the product follows.
#include <stdio.h>
#include <string.h>

#include "counters.hpp"
#include "product.hpp"
#include "scratch.hpp"
#include "tiles.hpp"
#include "training.hpp"
#include "weighted_sum.hpp"

namespace dxdw {
namespace cpu {

namespace {

// Bytes of dY in a slice: half of a second-level cache.
constexpr int64_t kSliceBytes = 1 << 19;
constexpr uint64_t kAlignment = 64;
// Features that a task sums: their partial sums stay in the first-level cache.
constexpr int64_t kFeatures = 2048;

uint64_t partial_bytes(const ProductBias &p) {
  if (p.sums_idle) return 0;
  const uint64_t bytes = static_cast<uint64_t>(plan_backward(p.sums).tiles * p.sums.features) * 4;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

bool sliced(const ProductBias &p, const Plan &plan) {
  return !p.product_idle && !p.sums_idle && plan.split == 1 && p.product.c.type == DType::f32;
}

int64_t tokens_per_slice(const ProductBias &p, const Plan &plan) {
  if (!sliced(p, plan)) return std::max<int64_t>(1, p.sums.rows.count);
  const int64_t row_bytes = p.sums.features * size_of(p.sums.x.type);
  return std::max<int64_t>(1, kSliceBytes / row_bytes / DXDW_CPU_BLOCK) * DXDW_CPU_BLOCK;
}

// Tokens [from, to) of dY, features in parts, added to the partial sums of their blocks of rows.
struct SumRun {
  const WeightedSumBackward *sums;
  float *partials;
  int64_t from, to, features_per_task;
};

void sum_task(void *context, int64_t index, int32_t) {
  const SumRun &run = *static_cast<const SumRun *>(context);
  const WeightedSumBackward &b = *run.sums;
  const int64_t at = index * run.features_per_task, features = std::min(run.features_per_task, b.features - at);
  const int64_t stride = b.x.row_strides[0] * size_of(b.x.type), block = rows_per_block(b);
  const char *const x = b.x.data + at * b.x.feature_stride * size_of(b.x.type);
  for (int64_t row = run.from; row < run.to; ++row) {
    float *const sums = run.partials + row / block * b.features + at;
    if (row % block == 0) std::fill(sums, sums + features, 0.0f);
    const char *const ahead = x + std::min(run.to - 1, row + 2) * stride;
    kernels().add_scaled(x + row * stride, b.x.type, b.x.feature_stride, 1.0f, sums, features, ahead);
  }
}

void sum_tokens(const WeightedSumBackward &sums, float *partials, int64_t from, int64_t to) {
  const int32_t threads = threads_for_elements((to - from) * sums.features);
  const int64_t per_task = std::min(kFeatures, std::max<int64_t>(64, ceil_div(sums.features, threads)));
  SumRun run = {&sums, partials, from, to, per_task};
  count_launch();
  parallel_for(ceil_div(sums.features, per_task), threads, sum_task, &run);
}

Product slice_of(const ProductBias &p, int64_t from, int64_t to) {
  Product slice = p.product;
  slice.a = p.product.a.block(0, from, p.product.a.rows, to - from);
  slice.b = p.product.b.block(from, 0, to - from, p.product.b.cols);
  slice.add = p.product.add || from > 0;
  slice.split = 1;
  return slice;
}

// Enough for any slice: the last may be shorter, and is then cut differently.
uint64_t slice_scratch_bytes(const ProductBias &p, int64_t tokens, int64_t step) {
  const Product first = slice_of(p, 0, std::min(tokens, step)), last = slice_of(p, (tokens - 1) / step * step, tokens);
  return std::max(product_scratch_bytes(first, plan_product(first)), product_scratch_bytes(last, plan_product(last)));
}

}  // namespace

Plan plan_product_bias(const ProductBias &p) {
  Plan plan = {1, 1, 0, 0, 0};
  if (!p.product_idle) plan = plan_product(p.product);
  plan.workspace_bytes += partial_bytes(p);
  return plan;
}

void explain_product_bias(const ProductBias &p, const Plan &plan, dxdw_plan *out) {
  if (!p.product_idle) explain_product(p.product, plan, out);
  if (p.sums_idle) return;
  snprintf(out->kernel + strlen(out->kernel), sizeof out->kernel - strlen(out->kernel), "%scolumn sums",
           out->kernel[0] == 0 ? "" : ", ");
  if (sliced(p, plan))
    snprintf(out->why, sizeof out->why, "rows of dY summed and multiplied in slices of %lld tokens",
             static_cast<long long>(tokens_per_slice(p, plan)));
  else
    snprintf(out->why, sizeof out->why, "rows of dY summed, then multiplied: T is split, or dW is 16-bit or empty");
}

Status run_product_bias(const ProductBias &p, const Plan &plan, const Context &context) {
  const uint64_t bytes = partial_bytes(p);
  Scratch own_workspace;
  Context rest = context;
  char *partials = static_cast<char *>(context.workspace);
  if (partials == nullptr) {
    if (!own_workspace.take(bytes)) return out_of_memory(bytes);
    partials = own_workspace.data();
  } else {
    rest.workspace = partials + bytes;
    rest.workspace_bytes -= bytes;
  }
  Plan product_plan = plan;
  product_plan.workspace_bytes -= bytes;
  const int64_t tokens = p.sums.rows.count, step = tokens_per_slice(p, plan);
  // Taken before anything is written: a slice that finds no memory would leave dW half added to.
  Scratch slice_scratch;
  if (sliced(p, plan)) {
    const uint64_t slice_bytes = slice_scratch_bytes(p, tokens, step);
    if (!slice_scratch.take(slice_bytes)) return out_of_memory(slice_bytes);
  }
  if (!p.sums_idle && tokens == 0) memset(partials, 0, bytes);
  int64_t from = 0;
  do {
    const int64_t to = std::min(tokens, from + step);
    if (!p.sums_idle && to > from) sum_tokens(p.sums, reinterpret_cast<float *>(partials), from, to);
    if (sliced(p, plan)) {
      const Product slice = slice_of(p, from, to);
      run_product_in(slice, plan_product(slice), slice_scratch.data());
    }
    from = to;
  } while (from < tokens);
  if (!p.product_idle && !sliced(p, plan)) DXDW_TRY(run_product(p.product, product_plan, rest));
  if (!p.sums_idle) finish_backward(p.sums, reinterpret_cast<float *>(partials), plan.threads);
  return DXDW_OK;
}

}  // namespace cpu
}  // namespace dxdw
