// The C interface: each function checks, leaves early when there is nothing to do, plans, runs.
#include <stdio.h>
#include <string.h>

#include "backend.hpp"
#include "checks.hpp"
#include "counters.hpp"
#include "cpu.hpp"
#include "gpu_plan.hpp"

using namespace dxdw;

namespace {

constexpr char kVersion[] = "0.1.0";

bool on_cpu(const Call &call) { return call.context.device_type == DXDW_CPU; }

Status make_plan(const Call &call, Plan *plan) {
  if (call.empty) {
    *plan = {1, 0, 0, 0, 0};
    return DXDW_OK;
  }
  if (!on_cpu(call)) return cuda::plan(call, plan);
  *plan = cpu::plan(call);
  return DXDW_OK;
}

Status launch_checked(int32_t function, const dxdw_tensor *const *operands, int32_t split, int32_t deterministic,
                      const dxdw_options *options) {
  Call call;
  DXDW_TRY(check_call(function, operands, split, deterministic, options, &call));
  if (call.empty) return DXDW_OK;
  Plan plan;
  DXDW_TRY(make_plan(call, &plan));
  if (call.context.workspace != nullptr) DXDW_TRY(check_workspace(call, operands, plan.workspace_bytes));
  return on_cpu(call) ? cpu::run(call, plan) : cuda::run(call, plan);
}

bool may_be_plain(int32_t function, const dxdw_options *options) {
  static_assert(DXDW_Y == 0 && DXDW_DX == 1 && DXDW_DW == 2, "products come first");
  return options == nullptr && static_cast<uint32_t>(function) <= DXDW_DW;
}

Status launch(int32_t function, const dxdw_tensor *const *operands, int32_t split, int32_t deterministic,
              const dxdw_options *options) {
  Product product;
  if (may_be_plain(function, options) &&
      plain_product(function, operands[0], operands[1], operands[2], split, deterministic, &product))
    return cpu::run(product);
  return launch_checked(function, operands, split, deterministic, options);
}

void explain_empty(dxdw_plan *out) {
  snprintf(out->kernel, sizeof out->kernel, "none");
  snprintf(out->why, sizeof out->why, "nothing to compute: an operand or the contraction is empty");
}

Status explain(int32_t function, const dxdw_tensor *const *operands, int32_t split, int32_t deterministic,
               const dxdw_options *options, dxdw_plan *out) {
  Call call;
  DXDW_TRY(check_call(function, operands, split, deterministic, options, &call));
  Plan plan;
  DXDW_TRY(make_plan(call, &plan));
  out->split = plan.split;
  out->threads = plan.threads;
  out->reserved = 0;
  out->tiles = plan.tiles;
  out->workspace_bytes = plan.workspace_bytes;
  out->kernel[0] = out->level[0] = out->why[0] = 0;
  if (call.empty) {
    explain_empty(out);
    return DXDW_OK;
  }
  on_cpu(call) ? cpu::explain(call, plan, out) : cuda::explain(call, plan, out);
  return DXDW_OK;
}

Status plan_for_chip(int32_t function, const dxdw_tensor *const *operands, int32_t split, int32_t deterministic,
                     const dxdw_options *options, const gpu::Chip &chip, dxdw_plan *out) {
  if (function != DXDW_Y && function != DXDW_DX && function != DXDW_DW)
    return fail(DXDW_INVALID_ARGUMENT, "function: %d is none of Y (%d), DX (%d), DW (%d)", function, DXDW_Y, DXDW_DX,
                DXDW_DW);
  if (chip.capability < 10) return fail(DXDW_INVALID_ARGUMENT, "capability: %d is below 10", chip.capability);
  if (chip.multiprocessors < 1)
    return fail(DXDW_INVALID_ARGUMENT, "multiprocessors: %d is below 1", chip.multiprocessors);
  Call call;
  DXDW_TRY(check_call(function, operands, split, deterministic, options, &call));
  if (on_cpu(call)) return fail(DXDW_INVALID_ARGUMENT, "operands: lie on the CPU, expected a CUDA device");
  if (call.empty) {
    *out = {out->size, 1, 0, 0, 0, 0, "", "", ""};
    explain_empty(out);
    return DXDW_OK;
  }
  gpu::describe(gpu::plan_product(call.product, function, chip), chip, out);
  return DXDW_OK;
}

Status workspace(int32_t function, const dxdw_tensor *const *operands, int32_t split, int32_t deterministic,
                 const dxdw_options *options, uint64_t *bytes) {
  if (bytes == nullptr) return fail(DXDW_INVALID_ARGUMENT, "bytes: is NULL");
  Call call;
  DXDW_TRY(check_call(function, operands, split, deterministic, options, &call));
  Plan plan;
  DXDW_TRY(make_plan(call, &plan));
  *bytes = plan.workspace_bytes;
  return DXDW_OK;
}

// Pointers to the operands that stand one behind the other.
Status spread(int32_t function, const dxdw_tensor *operands, const dxdw_tensor **pointers) {
  const int count = operand_count(function);
  if (count == 0) return fail(DXDW_INVALID_ARGUMENT, "function: %d is unknown", function);
  if (operands == nullptr) return fail(DXDW_INVALID_ARGUMENT, "operands: is NULL");
  for (int i = 0; i < count; ++i) pointers[i] = operands + i;
  return DXDW_OK;
}

Status check_device_type(int32_t device_type) {
  if (device_type == DXDW_CPU || device_type == DXDW_CUDA) return DXDW_OK;
  return fail(DXDW_INVALID_ARGUMENT, "device_type: %d is neither CPU (%d) nor CUDA (%d)", device_type, DXDW_CPU,
              DXDW_CUDA);
}

template <typename T>
Status check_pointer(const T *pointer, const char *name) {
  return pointer != nullptr ? DXDW_OK : fail(DXDW_INVALID_ARGUMENT, "%s: is NULL", name);
}

Status check_plan(const dxdw_plan *plan) {
  DXDW_TRY(check_pointer(plan, "plan"));
  if (plan->size == sizeof(dxdw_plan)) return DXDW_OK;
  return fail(DXDW_INVALID_ARGUMENT, "plan: size is %u, expected %zu", plan->size, sizeof(dxdw_plan));
}

template <typename From, typename To>
Status convert(const From *source, DType from, To *destination, DType to, int64_t count) {
  if (count < 0) return fail(DXDW_INVALID_ARGUMENT, "count: %lld is negative", static_cast<long long>(count));
  if (count == 0) return DXDW_OK;
  DXDW_TRY(check_pointer(source, "source"));
  DXDW_TRY(check_pointer(destination, "destination"));
  cpu::convert(reinterpret_cast<const char *>(source), from, 1, reinterpret_cast<char *>(destination), to, 1, count);
  return DXDW_OK;
}

}  // namespace

extern "C" {

int32_t y_launch(const dxdw_tensor *x, const dxdw_tensor *w, const dxdw_tensor *y, const dxdw_options *options) {
  const dxdw_tensor *operands[] = {x, w, y};
  return launch(DXDW_Y, operands, 1, 1, options);
}

int32_t dx_launch(const dxdw_tensor *dy, const dxdw_tensor *w, const dxdw_tensor *dx, const dxdw_options *options) {
  const dxdw_tensor *operands[] = {dy, w, dx};
  return launch(DXDW_DX, operands, 1, 1, options);
}

int32_t dw_launch(const dxdw_tensor *x, const dxdw_tensor *dy, const dxdw_tensor *dw, int32_t split,
                  int32_t deterministic, const dxdw_options *options) {
  const dxdw_tensor *operands[] = {x, dy, dw};
  return launch(DXDW_DW, operands, split, deterministic, options);
}

int32_t dw_reduce(const dxdw_tensor *partials, const dxdw_tensor *dw, const dxdw_options *options) {
  const dxdw_tensor *operands[] = {partials, dw};
  return launch(DXDW_DW_REDUCE, operands, 1, 1, options);
}

int32_t weighted_sum_fwd(const dxdw_tensor *x, const dxdw_tensor *w, const dxdw_tensor *y,
                         const dxdw_options *options) {
  const dxdw_tensor *operands[] = {x, w, y};
  return launch(DXDW_WEIGHTED_SUM_FWD, operands, 1, 1, options);
}

int32_t weighted_sum_bwd(const dxdw_tensor *x, const dxdw_tensor *w, const dxdw_tensor *g, const dxdw_tensor *gx,
                         const dxdw_tensor *gw, const dxdw_options *options) {
  const dxdw_tensor *operands[] = {x, w, g, gx, gw};
  return launch(DXDW_WEIGHTED_SUM_BWD, operands, 1, 1, options);
}

int32_t dxdw_call(int32_t function, const dxdw_tensor *operands, int32_t split, int32_t deterministic,
                  const dxdw_options *options, const void *, const void *, const void *, const void *, const void *,
                  const void *) {
  Product product;
  if (may_be_plain(function, options) && operands != nullptr &&
      plain_product(function, operands, operands + 1, operands + 2, split, deterministic, &product))
    return cpu::run(product);
  if (function == DXDW_COPY) {
    DXDW_TRY(check_pointer(operands, "operands"));
    return dxdw_copy(operands, operands + 1, options);
  }
  const dxdw_tensor *pointers[8];
  DXDW_TRY(spread(function, operands, pointers));
  return launch_checked(function, pointers, split, deterministic, options);
}

int32_t dxdw_explain(int32_t function, const dxdw_tensor *operands, int32_t split, int32_t deterministic,
                     const dxdw_options *options, dxdw_plan *plan) {
  const dxdw_tensor *pointers[8];
  DXDW_TRY(spread(function, operands, pointers));
  DXDW_TRY(check_plan(plan));
  return explain(function, pointers, split, deterministic, options, plan);
}

int32_t dxdw_plan_for_chip(int32_t function, const dxdw_tensor *operands, int32_t split, int32_t deterministic,
                           const dxdw_options *options, int32_t capability, int32_t multiprocessors, dxdw_plan *plan) {
  const dxdw_tensor *pointers[8];
  DXDW_TRY(spread(function, operands, pointers));
  DXDW_TRY(check_plan(plan));
  return plan_for_chip(function, pointers, split, deterministic, options, {capability, multiprocessors}, plan);
}

int32_t dxdw_workspace(int32_t function, const dxdw_tensor *operands, int32_t split, int32_t deterministic,
                       const dxdw_options *options, uint64_t *bytes) {
  const dxdw_tensor *pointers[8];
  DXDW_TRY(spread(function, operands, pointers));
  return workspace(function, pointers, split, deterministic, options, bytes);
}

int32_t dxdw_y_workspace(const dxdw_tensor *x, const dxdw_tensor *w, const dxdw_tensor *y, const dxdw_options *options,
                         uint64_t *bytes) {
  const dxdw_tensor *operands[] = {x, w, y};
  return workspace(DXDW_Y, operands, 1, 1, options, bytes);
}

int32_t dxdw_dx_workspace(const dxdw_tensor *dy, const dxdw_tensor *w, const dxdw_tensor *dx,
                          const dxdw_options *options, uint64_t *bytes) {
  const dxdw_tensor *operands[] = {dy, w, dx};
  return workspace(DXDW_DX, operands, 1, 1, options, bytes);
}

int32_t dxdw_dw_workspace(const dxdw_tensor *x, const dxdw_tensor *dy, const dxdw_tensor *dw, int32_t split,
                          int32_t deterministic, const dxdw_options *options, uint64_t *bytes) {
  const dxdw_tensor *operands[] = {x, dy, dw};
  return workspace(DXDW_DW, operands, split, deterministic, options, bytes);
}

int32_t dxdw_weighted_sum_bwd_workspace(const dxdw_tensor *x, const dxdw_tensor *w, const dxdw_tensor *g,
                                        const dxdw_tensor *gx, const dxdw_tensor *gw, const dxdw_options *options,
                                        uint64_t *bytes) {
  const dxdw_tensor *operands[] = {x, w, g, gx, gw};
  return workspace(DXDW_WEIGHTED_SUM_BWD, operands, 1, 1, options, bytes);
}

int32_t dxdw_copy(const dxdw_tensor *source, const dxdw_tensor *destination, const dxdw_options *options) {
  Copy copy;
  Context context;
  DXDW_TRY(check_copy(source, destination, options, &copy, &context));
  if (copy.count == 0) return DXDW_OK;
  const bool host = copy.source_device_type == DXDW_CPU && copy.destination_device_type == DXDW_CPU;
  return host ? cpu::copy(copy) : cuda::copy(copy, context);
}

int32_t dxdw_float_to_bfloat16(const float *source, uint16_t *destination, int64_t count) {
  return convert(source, DType::f32, destination, DType::bf16, count);
}

int32_t dxdw_float_to_float16(const float *source, uint16_t *destination, int64_t count) {
  return convert(source, DType::f32, destination, DType::f16, count);
}

int32_t dxdw_bfloat16_to_float(const uint16_t *source, float *destination, int64_t count) {
  return convert(source, DType::bf16, destination, DType::f32, count);
}

int32_t dxdw_float16_to_float(const uint16_t *source, float *destination, int64_t count) {
  return convert(source, DType::f16, destination, DType::f32, count);
}

int32_t dxdw_abi_version(void) { return DXDW_ABI_VERSION; }

const char *dxdw_build_description(void) {
  static thread_local char text[200];
  snprintf(text, sizeof text, "dxdw %s, SIMD %s, CUDA: %s", kVersion, cpu::simd_level(), cuda::architectures());
  return text;
}

const char *dxdw_simd_level(void) { return cpu::simd_level(); }

const char *dxdw_last_error(void) { return last_error(); }

int32_t dxdw_set_threads(int32_t threads) { return cpu::set_threads(threads); }

int32_t dxdw_threads(void) { return cpu::threads(); }

int64_t dxdw_counter(int32_t kind) {
  switch (kind) {
    case DXDW_COUNTER_LAUNCHES: return launches();
    case DXDW_COUNTER_POOL_JOBS: return counters.pool_jobs.load();
    case DXDW_COUNTER_SCRATCH_BYTES: return counters.scratch_bytes.load();
    case DXDW_COUNTER_DEVICE_BYTES: return cuda::bytes_allocated();
    default: return -1;
  }
}

int32_t dxdw_echo(const dxdw_tensor *tensor, int64_t *out, int64_t count) {
  DXDW_TRY(check_pointer(tensor, "tensor"));
  DXDW_TRY(check_pointer(out, "out"));
  if (tensor->ndim < 0 || tensor->ndim > DXDW_MAX_NDIM)
    return fail(DXDW_INVALID_ARGUMENT, "tensor: rank %d is outside 0 to %d", tensor->ndim, DXDW_MAX_NDIM);
  const int64_t needed = 7 + 2 * static_cast<int64_t>(tensor->ndim);
  if (count < needed)
    return fail(DXDW_INVALID_ARGUMENT, "count: %lld given, %lld needed", static_cast<long long>(count),
                static_cast<long long>(needed));
  if (tensor->ndim > 0) DXDW_TRY(check_pointer(tensor->shape, "tensor: shape"));
  *out++ = tensor->device_type;
  *out++ = tensor->device_id;
  *out++ = tensor->ndim;
  *out++ = tensor->dtype_code;
  *out++ = tensor->dtype_bits;
  *out++ = tensor->dtype_lanes;
  *out++ = static_cast<int64_t>(tensor->byte_offset);
  for (int32_t d = 0; d < tensor->ndim; ++d) *out++ = tensor->shape[d];
  for (int32_t d = 0; d < tensor->ndim; ++d) *out++ = tensor->strides == nullptr ? 0 : tensor->strides[d];
  return DXDW_OK;
}

int32_t dxdw_nop(void) { return DXDW_OK; }

int32_t dxdw_cuda_nop(dxdw_stream *stream) {
  DXDW_TRY(check_pointer(stream, "stream"));
  return cuda::nop(stream);
}

int32_t dxdw_inject_fault(int32_t fault, int64_t skip) { return inject_fault(fault, skip); }

int32_t dxdw_device_count(int32_t device_type) {
  return device_type == DXDW_CPU ? 1 : device_type == DXDW_CUDA ? cuda::device_count() : 0;
}

const char *dxdw_device_unavailable(int32_t device_type, int32_t device_id) {
  if (device_type == DXDW_CUDA) return cuda::unavailable(device_id);
  if (device_type != DXDW_CPU) return "no such device type";
  return device_id == 0 ? "" : "the CPU has index 0 only";
}

int32_t dxdw_device_info_get(int32_t device_type, int32_t device_id, dxdw_device_info *info) {
  DXDW_TRY(check_device_type(device_type));
  DXDW_TRY(check_pointer(info, "info"));
  if (info->size != sizeof(dxdw_device_info))
    return fail(DXDW_INVALID_ARGUMENT, "info: size is %u, expected %zu", info->size, sizeof(dxdw_device_info));
  if (device_type == DXDW_CUDA) return cuda::device_info(device_id, info);
  if (device_id != 0) return fail(DXDW_DEVICE_UNAVAILABLE, "device_id: the CPU has index 0 only, not %d", device_id);
  return cpu::device_info(info);
}

int32_t dxdw_memory_allocate(int32_t device_id, uint64_t bytes, dxdw_stream *stream, void **address) {
  DXDW_TRY(check_pointer(address, "address"));
  return cuda::memory_allocate(device_id, bytes, stream, address);
}

int32_t dxdw_memory_free(int32_t device_id, void *address, dxdw_stream *stream) {
  return address == nullptr ? DXDW_OK : cuda::memory_free(device_id, address, stream);
}

int32_t dxdw_pinned_allocate(uint64_t bytes, void **address) {
  DXDW_TRY(check_pointer(address, "address"));
  return cuda::pinned_allocate(bytes, address);
}

int32_t dxdw_pinned_free(void *address) { return address == nullptr ? DXDW_OK : cuda::pinned_free(address); }

int32_t dxdw_memory_set(int32_t device_id, void *address, int32_t value, uint64_t bytes, dxdw_stream *stream) {
  if (bytes == 0) return DXDW_OK;
  DXDW_TRY(check_pointer(address, "address"));
  return cuda::memory_set(device_id, address, value, bytes, stream);
}

int32_t dxdw_stream_create(int32_t device_id, dxdw_stream **stream) {
  DXDW_TRY(check_pointer(stream, "stream"));
  return cuda::stream_create(device_id, stream);
}

int32_t dxdw_stream_synchronize(dxdw_stream *stream) {
  DXDW_TRY(check_pointer(stream, "stream"));
  return cuda::stream_synchronize(stream);
}

int32_t dxdw_stream_destroy(dxdw_stream *stream) { return stream == nullptr ? DXDW_OK : cuda::stream_destroy(stream); }

int32_t dxdw_event_create(int32_t device_id, dxdw_event **event) {
  DXDW_TRY(check_pointer(event, "event"));
  return cuda::event_create(device_id, event);
}

int32_t dxdw_event_record(dxdw_event *event, dxdw_stream *stream) {
  DXDW_TRY(check_pointer(event, "event"));
  DXDW_TRY(check_pointer(stream, "stream"));
  return cuda::event_record(event, stream);
}

int32_t dxdw_event_synchronize(dxdw_event *event) {
  DXDW_TRY(check_pointer(event, "event"));
  return cuda::event_synchronize(event);
}

int32_t dxdw_event_wait(dxdw_event *event, dxdw_stream *stream) {
  DXDW_TRY(check_pointer(event, "event"));
  DXDW_TRY(check_pointer(stream, "stream"));
  return cuda::event_wait(event, stream);
}

int32_t dxdw_event_elapsed(dxdw_event *start, dxdw_event *end, double *milliseconds) {
  DXDW_TRY(check_pointer(start, "start"));
  DXDW_TRY(check_pointer(end, "end"));
  DXDW_TRY(check_pointer(milliseconds, "milliseconds"));
  return cuda::event_elapsed(start, end, milliseconds);
}

int32_t dxdw_event_destroy(dxdw_event *event) { return event == nullptr ? DXDW_OK : cuda::event_destroy(event); }

int32_t dxdw_graph_begin(dxdw_stream *stream) {
  DXDW_TRY(check_pointer(stream, "stream"));
  return cuda::graph_begin(stream);
}

int32_t dxdw_graph_end(dxdw_stream *stream, dxdw_graph **graph) {
  DXDW_TRY(check_pointer(stream, "stream"));
  DXDW_TRY(check_pointer(graph, "graph"));
  return cuda::graph_end(stream, graph);
}

int32_t dxdw_graph_launch(dxdw_graph *graph, dxdw_stream *stream) {
  DXDW_TRY(check_pointer(graph, "graph"));
  DXDW_TRY(check_pointer(stream, "stream"));
  return cuda::graph_launch(graph, stream);
}

int32_t dxdw_graph_destroy(dxdw_graph *graph) { return graph == nullptr ? DXDW_OK : cuda::graph_destroy(graph); }

}  // extern "C"
