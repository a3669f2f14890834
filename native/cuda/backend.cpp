// The CUDA backend's dispatch: plan, workspace, launches in order on the call's stream, and what to say when one of
// them fails.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counters.hpp"
#include "device.hpp"
#include "gpu_plan.hpp"
#include "kernels.hpp"

namespace dxdw {
namespace cuda {

Detail::Text Detail::text() const {
  Text out;
  if (call_ == nullptr) {
    snprintf(out.text, sizeof out.text, "%s", words_ == nullptr ? "" : words_);
    return out;
  }
  const auto type = [](DType t) { return t == DType::f32 ? "float32" : t == DType::f16 ? "float16" : "bfloat16"; };
  const auto number = [](int64_t value) { return static_cast<long long>(value); };
  switch (call_->family) {
    case Family::product: {
      const Product &p = call_->product;
      snprintf(out.text, sizeof out.text, "%s of %s [%lld, %lld] times [%lld, %lld]",
               call_->function == DXDW_Y    ? "Y"
               : call_->function == DXDW_DX ? "dX"
                                            : "dW",
               type(p.a.type), number(p.a.rows), number(p.a.cols), number(p.b.rows), number(p.b.cols));
      break;
    }
    case Family::reduction:
      snprintf(out.text, sizeof out.text, "dw_reduce of partials [%lld, %lld, %lld]", number(call_->reduction.split),
               number(call_->reduction.dw.rows), number(call_->reduction.dw.cols));
      break;
    case Family::forward:
      snprintf(out.text, sizeof out.text, "weighted sum of %s, %lld rows of %lld", type(call_->forward.x.type),
               number(call_->forward.rows.count), number(call_->forward.features));
      break;
    case Family::product_bias: {
      const Product &p = call_->product_bias.product;
      snprintf(out.text, sizeof out.text, "dW and db of %s [%lld, %lld] times [%lld, %lld]", type(p.a.type),
               number(p.a.rows), number(p.a.cols), number(p.b.rows), number(p.b.cols));
      break;
    }
    case Family::row_loss:
      snprintf(out.text, sizeof out.text, "losses of %lld rows of %lld", number(call_->row_loss.rows.count),
               number(call_->row_loss.features));
      break;
    case Family::squared_norm:
      snprintf(out.text, sizeof out.text, "norm of %lld elements", number(call_->squared_norm.grid.count));
      break;
    case Family::clip_factor: snprintf(out.text, sizeof out.text, "clip factor"); break;
    case Family::step:
      snprintf(out.text, sizeof out.text, "optimizer step of %lld elements", number(call_->step.grid.count));
      break;
    case Family::elementwise:
      snprintf(out.text, sizeof out.text, "elementwise function %d of %lld elements", call_->function,
               number(call_->elementwise.grid.count));
      break;
    case Family::backward:
      snprintf(out.text, sizeof out.text, "%s of %s, %lld rows of %lld",
               call_->function == DXDW_SUM_ROWS ? "sum of rows" : "weighted sum backward", type(call_->backward.x.type),
               number(call_->backward.rows.count), number(call_->backward.features));
      break;
  }
  return out;
}

namespace {

Status chip_of(int32_t device_id, gpu::Chip *chip) {
  Session session;
  DXDW_TRY(session.open(device_id));
  *chip = {session.facts().capability, session.facts().multiprocessors};
  return DXDW_OK;
}

cudaError_t pack_operand(const char *data, const gpu::Walk &walk, int64_t lines, int64_t contraction, int64_t chunk,
                         int64_t split, int64_t line_stride, int64_t contraction_stride, char *to, int64_t pitch,
                         TiledOperand *packed, cudaStream_t stream) {
  Pack p;
  p.source = data;
  p.destination = to;
  if (walk.contraction_inner) {
    // Every slice starts at a multiple of 64 elements of the packed lines.
    p.slices = (contraction + chunk - 1) / chunk;
    p.inner = chunk;
    p.inner_total = contraction;
    p.outer = lines;
    p.source_inner = contraction_stride;
    p.source_outer = line_stride;
    p.destination_slice = pitch / split;
  } else {
    p.slices = 1;
    p.inner = p.inner_total = lines;
    p.outer = contraction;
    p.source_inner = line_stride;
    p.source_outer = contraction_stride;
    p.destination_slice = 0;
  }
  p.destination_outer = pitch;
  *packed = {to, walk.contraction_inner, pitch, walk.contraction_inner ? p.destination_slice : chunk * pitch};
  return pack(p, stream);
}

Status run_product(const gpu::ProductPlan &p, const Queue &queue, char *workspace, Detail detail) {
  const Product &w = p.work;
  const int32_t id = queue.device_id;
  const bool partial = p.combine == gpu::kWorkspace, atomic = p.combine == gpu::kAtomic;
  Target target;
  if (partial)
    target = {workspace + p.partials_at,  DType::f32, p.partial_pitch, 1,
              w.c.rows * p.partial_pitch, false,      false,           true};
  else
    target = {w.c.data, w.c.type, w.c.row_stride, w.c.col_stride, 0, w.add, atomic, false};
  if (atomic && !w.add) DXDW_TRY(check(fill_zero(w.c, queue.handle), id, "launch of fill_zero", detail));

  if (p.kernel == gpu::kHopper) {
    const int64_t contraction = w.contraction();
    TiledOperand a = {w.a.data, p.a.contraction_inner, p.a.pitch, p.chunk * (p.a.contraction_inner ? 1 : p.a.pitch)};
    TiledOperand b = {w.b.data, p.b.contraction_inner, p.b.pitch, p.chunk * (p.b.contraction_inner ? 1 : p.b.pitch)};
    if (p.pack_a)
      DXDW_TRY(check(pack_operand(w.a.data, p.a, w.a.rows, contraction, p.chunk, p.split, w.a.row_stride,
                                  w.a.col_stride, workspace + p.pack_a_at, p.pack_a_pitch, &a, queue.handle),
                     id, "launch of pack", detail));
    if (p.pack_b)
      DXDW_TRY(check(pack_operand(w.b.data, p.b, w.b.cols, contraction, p.chunk, p.split, w.b.col_stride,
                                  w.b.row_stride, workspace + p.pack_b_at, p.pack_b_pitch, &b, queue.handle),
                     id, "launch of pack", detail));
    const cudaError_t error = p.clustered              ? product_clustered(p, a, b, target, queue.handle)
                              : p.thin                 ? product_thin(p, a, b, target, queue.handle)
                              : w.a.type == DType::f16 ? product_hopper_f16(p, a, b, target, queue.handle)
                                                       : product_hopper_bf16(p, a, b, target, queue.handle);
    DXDW_TRY(check(error, id, "launch of product_hopper", detail));
  } else if (p.kernel == gpu::kTf32 || p.kernel == gpu::kBf16x3) {
    DXDW_TRY(check(product_parts(p, workspace, target, queue.handle), id, "launch of product_parts", detail));
  } else if (p.kernel == gpu::kMma) {
    DXDW_TRY(check(product_mma(p, target, queue.handle), id, "launch of product_mma", detail));
  } else if (p.fed) {
    DXDW_TRY(check(product_fed(p, target, queue.handle), id, "launch of product_fed", detail));
  } else {
    DXDW_TRY(check(product_simt(p, target, queue.handle), id, "launch of product_simt", detail));
  }
  if (!partial) return DXDW_OK;
  Reduction reduction;
  reduction.partials = {target.data, DType::f32, w.c.rows, w.c.cols, p.partial_pitch, 1};
  reduction.split = p.split;
  reduction.split_stride = target.slice_stride;
  reduction.dw = w.c;
  reduction.add = w.add;
  return check(reduce(reduction, p.overlap, queue.handle), id, "launch of reduce", detail);
}

// Partial sums of db lie in front of what the product needs, which wants 256 bytes.
uint64_t sums_workspace(const ProductBias &p) {
  return p.sums_idle ? 0 : (gpu::backward_workspace(p.sums) + 255) / 256 * 256;
}

Status run_sums(const WeightedSumBackward &sums, const gpu::Chip &chip, const Queue &queue, char *workspace,
                Detail detail) {
  return check(weighted_sum_backward(sums, reinterpret_cast<float *>(workspace), chip.capability >= 90, queue.handle),
               queue.device_id, "launch of weighted_sum_backward", detail);
}

Status run_on(const Call &call, const gpu::Chip &chip, const Queue &queue, char *workspace, Detail detail) {
  const int32_t id = queue.device_id;
  switch (call.family) {
    case Family::product:
      return run_product(gpu::planned_product(call.product, call.function, chip), queue, workspace, detail);
    case Family::reduction: return check(reduce(call.reduction, false, queue.handle), id, "launch of reduce", detail);
    case Family::forward: return check(weighted_sum(call.forward, queue.handle), id, "launch of weighted_sum", detail);
    case Family::backward: return run_sums(call.backward, chip, queue, workspace, detail);
    case Family::product_bias: {
      const ProductBias &p = call.product_bias;
      if (!p.sums_idle) DXDW_TRY(run_sums(p.sums, chip, queue, workspace, detail));
      if (p.product_idle) return DXDW_OK;
      return run_product(gpu::planned_product(p.product, DXDW_DW, chip), queue, workspace + sums_workspace(p), detail);
    }
    case Family::row_loss:
      return check(row_loss(call.row_loss, call.function, queue.handle), id, "launch of row_loss", detail);
    case Family::squared_norm:
      return check(squared_norm(call.squared_norm, reinterpret_cast<float *>(workspace), queue.handle), id,
                   "launch of squared_norm", detail);
    case Family::clip_factor:
      return check(clip_factor(call.clip_factor, queue.handle), id, "launch of clip_factor", detail);
    case Family::step:
      return check(optimizer_step(call.step, call.function, queue.handle), id, "launch of optimizer_step", detail);
    case Family::elementwise: break;
  }
  return check(elementwise(call.elementwise, call.function, queue.handle), id, "launch of elementwise", detail);
}

}  // namespace

#ifndef DXDW_CUDA_ARCHITECTURES
#define DXDW_CUDA_ARCHITECTURES "unknown"
#endif

const char *architectures() { return DXDW_CUDA_ARCHITECTURES; }

Status plan(const Call &call, Plan *out) {
  gpu::Chip chip;
  DXDW_TRY(chip_of(call.context.device_id, &chip));
  *out = {1, 0, 0, 0, 0};
  switch (call.family) {
    case Family::product: {
      const gpu::ProductPlan &p = gpu::planned_product(call.product, call.function, chip);
      *out = {p.split, p.blocks, p.kernel, p.tiles, p.workspace_bytes};
      break;
    }
    case Family::product_bias: {
      const ProductBias &both = call.product_bias;
      if (!both.product_idle) {
        const gpu::ProductPlan &p = gpu::planned_product(both.product, DXDW_DW, chip);
        *out = {p.split, p.blocks, p.kernel, p.tiles, p.workspace_bytes};
      }
      out->workspace_bytes += sums_workspace(both);
      break;
    }
    case Family::backward: {
      const gpu::RowBlocks blocks = gpu::plan_rows(call.backward);
      *out = {1, static_cast<int32_t>(blocks.blocks), 0, blocks.blocks, gpu::backward_workspace(call.backward)};
      break;
    }
    case Family::squared_norm: {
      const int64_t blocks = norm_blocks_of(call.squared_norm.grid.count);
      *out = {1, static_cast<int32_t>(blocks), 0, blocks, static_cast<uint64_t>(blocks) * 4};
      break;
    }
    default: break;
  }
  return DXDW_OK;
}

void explain(const Call &call, const Plan &plan, dxdw_plan *out) {
  gpu::Chip chip;
  if (chip_of(call.context.device_id, &chip) != DXDW_OK) return;
  snprintf(out->level, sizeof out->level, "sm_%d", chip.capability);
  const auto say = [out](const char *kernel, const char *why) {
    snprintf(out->kernel, sizeof out->kernel, "%s", kernel);
    snprintf(out->why, sizeof out->why, "%s", why);
  };
  switch (call.family) {
    case Family::product: gpu::describe(gpu::plan_product(call.product, call.function, chip), chip, out); break;
    case Family::reduction: say("reduce", "each element is summed by one thread, slice after slice"); break;
    case Family::forward: say("weighted_sum", "each row is summed in an order that the features alone set"); break;
    case Family::backward: {
      const gpu::RowBlocks blocks = gpu::plan_rows(call.backward);
      snprintf(out->kernel, sizeof out->kernel, "weighted_sum_backward");
      snprintf(out->why, sizeof out->why, "%lld blocks of %lld rows, summed in order and added in order",
               static_cast<long long>(blocks.blocks), static_cast<long long>(blocks.rows_per_block));
      break;
    }
    case Family::product_bias:
      say("weighted_sum_backward", "");
      if (!call.product_bias.product_idle)
        gpu::describe(gpu::plan_product(call.product_bias.product, DXDW_DW, chip), chip, out);
      out->workspace_bytes = plan.workspace_bytes;
      snprintf(out->why, sizeof out->why,
               "the rows of dY are summed by kernels of their own, then the product follows");
      break;
    case Family::squared_norm: say("squared_norm", "blocks of elements, added in order"); break;
    case Family::elementwise: say("elementwise", "one pass, any number of thread blocks"); break;
    case Family::row_loss: say("row_loss", "each row is held or walked by one group of threads"); break;
    case Family::clip_factor: say("clip_factor", "one number"); break;
    case Family::step: say("optimizer_step", "one pass, any number of thread blocks"); break;
  }
}

Status run(const Call &call, const Plan &plan) {
  const int32_t id = call.context.device_id;
  Session session;
  DXDW_TRY(session.open(id));
  Queue queue = {};
  DXDW_TRY(open_queue(call.context.stream, id, &queue));
  const Detail detail(call);
  const gpu::Chip chip = {session.facts().capability, session.facts().multiprocessors};
  {
    Scratch scratch(queue);
    char *workspace = static_cast<char *>(call.context.workspace);
    if (workspace == nullptr) {
      DXDW_TRY(scratch.take(plan.workspace_bytes, detail));
      workspace = scratch.data();
    }
    DXDW_TRY(run_on(call, chip, queue, workspace, detail));
  }
  return finish(queue, detail);
}

// ---- Copies ----

namespace {

bool is_compact(const int64_t *strides, const Copy &c) { return c.ndim == 1 && (strides[0] == 1 || c.shape[0] == 1); }

void make_compact(const Copy &c, int64_t *strides) {
  int64_t stride = 1;
  for (int32_t d = c.ndim - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= c.shape[d];
  }
}

struct HostBuffer {
  char *data = nullptr;
  ~HostBuffer() { free(data); }
};

Status host_buffer(uint64_t bytes, HostBuffer *buffer) {
  buffer->data = static_cast<char *>(malloc(bytes));
  return buffer->data != nullptr ? DXDW_OK
                                 : fail(DXDW_OUT_OF_MEMORY, "%llu bytes of host memory for a copy were refused",
                                        static_cast<unsigned long long>(bytes));
}

constexpr char kCopy[] = "dxdw_copy";

// On one device.
Status device_to_device(const Copy &c, const Queue &queue) {
  const int32_t id = queue.device_id;
  const bool compact = is_compact(c.source_strides, c) && is_compact(c.destination_strides, c);
  const uint64_t bytes = static_cast<uint64_t>(c.count * size_of(c.source_type));
  if (compact && c.source_type == c.destination_type)
    return check(copy_bytes(c.destination, c.source, bytes, queue.handle), id, "cudaMemcpyAsync", kCopy);
  if (fault_strikes(DXDW_FAULT_COPY)) return check(cudaErrorUnknown, id, "launch of copy", "injected fault");
  return check(copy_elements(c, queue.handle), id, "launch of copy", kCopy);
}

// Host to device: the host's side is made compact by the CPU's copy, in the source's type.
Status host_to_device(const Copy &c, const Queue &queue) {
  const int32_t id = queue.device_id;
  const uint64_t bytes = static_cast<uint64_t>(c.count * size_of(c.source_type));
  HostBuffer buffer;
  const char *source = c.source;
  if (!is_compact(c.source_strides, c)) {
    DXDW_TRY(host_buffer(bytes, &buffer));
    Copy gather = c;
    gather.destination = buffer.data;
    gather.destination_type = c.source_type;
    gather.destination_device_type = DXDW_CPU;
    gather.destination_device_id = 0;
    make_compact(c, gather.destination_strides);
    DXDW_TRY(cpu::copy(gather));
    source = buffer.data;
  }
  if (is_compact(c.destination_strides, c) && c.source_type == c.destination_type)
    return check(copy_bytes(c.destination, source, bytes, queue.handle), id, "cudaMemcpyAsync", kCopy);
  Scratch landing(queue);
  DXDW_TRY(landing.take(bytes, kCopy));
  DXDW_TRY(check(copy_bytes(landing.data(), source, bytes, queue.handle), id, "cudaMemcpyAsync", kCopy));
  Copy scatter = c;
  scatter.source = landing.data();
  make_compact(c, scatter.source_strides);
  return check(copy_elements(scatter, queue.handle), id, "launch of copy", kCopy);
}

// Device to host: the device makes its side compact, in the destination's type. A strided host side is complete on
// return even on a stream, because the CPU writes it.
Status device_to_host(const Copy &c, const Queue &queue) {
  const int32_t id = queue.device_id;
  const uint64_t bytes = static_cast<uint64_t>(c.count * size_of(c.destination_type));
  Scratch packed(queue);
  const char *source = c.source;
  if (!is_compact(c.source_strides, c) || c.source_type != c.destination_type) {
    DXDW_TRY(packed.take(bytes, kCopy));
    Copy gather = c;
    gather.destination = packed.data();
    make_compact(c, gather.destination_strides);
    DXDW_TRY(check(copy_elements(gather, queue.handle), id, "launch of copy", kCopy));
    source = packed.data();
  }
  if (is_compact(c.destination_strides, c))
    return check(copy_bytes(c.destination, source, bytes, queue.handle), id, "cudaMemcpyAsync", kCopy);
  HostBuffer buffer;
  DXDW_TRY(host_buffer(bytes, &buffer));
  DXDW_TRY(check(copy_bytes(buffer.data, source, bytes, queue.handle), id, "cudaMemcpyAsync", kCopy));
  DXDW_TRY(check(cudaStreamSynchronize(queue.handle), id, "cudaStreamSynchronize", kCopy));
  Copy scatter = c;
  scatter.source = buffer.data;
  scatter.source_type = c.destination_type;
  scatter.source_device_type = DXDW_CPU;
  scatter.source_device_id = 0;
  make_compact(c, scatter.source_strides);
  return cpu::copy(scatter);
}

// Between devices: through host memory, compact and in the source's type, for one device's pool is closed to others. The
// source is read by a call that is complete on return.
Status across_devices(const Copy &c, const Queue &queue) {
  HostBuffer buffer;
  DXDW_TRY(host_buffer(static_cast<uint64_t>(c.count * size_of(c.source_type)), &buffer));
  Copy first = c, second = c;
  first.destination = buffer.data;
  first.destination_type = c.source_type;
  first.destination_device_type = DXDW_CPU;
  first.destination_device_id = 0;
  make_compact(c, first.destination_strides);
  second.source = buffer.data;
  second.source_device_type = DXDW_CPU;
  second.source_device_id = 0;
  make_compact(c, second.source_strides);
  DXDW_TRY(copy(first, {DXDW_CUDA, c.source_device_id, nullptr, nullptr, 0}));
  return host_to_device(second, queue);
}

}  // namespace

Status copy(const Copy &c, const Context &context) {
  Session session;
  DXDW_TRY(session.open(context.device_id));
  Queue queue = {};
  DXDW_TRY(open_queue(context.stream, context.device_id, &queue));
  const bool host = c.source_device_type == DXDW_CPU || c.destination_device_type == DXDW_CPU;
  const bool across = !host && c.source_device_id != c.destination_device_id;
  if (queue.capturing && (host || across))
    return fail(DXDW_UNSUPPORTED,
                "a copy between devices, or from or to host memory, can't be recorded into a graph: its buffers would "
                "not live as long");
  const Status status = c.source_device_type == DXDW_CPU        ? host_to_device(c, queue)
                        : c.destination_device_type == DXDW_CPU ? device_to_host(c, queue)
                        : across                                ? across_devices(c, queue)
                                                                : device_to_device(c, queue);
  DXDW_TRY(status);
  return finish(queue, kCopy);
}

}  // namespace cuda
}  // namespace dxdw
