// The CPU backend as the dispatch sees it.
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>

#include <algorithm>

#include "arithmetic.hpp"
#include "cpu.hpp"
#include "kernels.hpp"
#include "product.hpp"
#include "threads.hpp"
#include "training.hpp"
#include "weighted_sum.hpp"

namespace dxdw {
namespace cpu {

namespace {

constexpr int64_t kItemsPerTask = 1 << 16;

Plan plan_reduction(const Reduction &r) {
  const int64_t items = r.dw.rows * r.dw.cols;
  return {1, static_cast<int32_t>(std::max<int64_t>(1, std::min<int64_t>(threads(), items / kItemsPerTask))), 0, 1, 0};
}

struct CopyRun {
  Copy copy;
  int32_t inner;  // dimension that is walked in one go
  int64_t lines, lines_per_task;
};

void copy_task(void *context, int64_t index, int32_t) {
  const CopyRun &run = *static_cast<const CopyRun *>(context);
  const Copy &c = run.copy;
  const int64_t end = std::min(run.lines, (index + 1) * run.lines_per_task);
  for (int64_t line = index * run.lines_per_task; line < end; ++line) {
    int64_t rest = line, from = 0, to = 0;
    for (int32_t d = c.ndim - 1; d >= 0; --d) {
      if (d == run.inner) continue;
      const int64_t at = rest % c.shape[d];
      rest /= c.shape[d];
      from += at * c.source_strides[d];
      to += at * c.destination_strides[d];
    }
    convert(c.source + from * size_of(c.source_type), c.source_type, c.source_strides[run.inner],
            c.destination + to * size_of(c.destination_type), c.destination_type, c.destination_strides[run.inner],
            c.shape[run.inner]);
  }
}

}  // namespace

const char *simd_level() { return kernels().name; }

Plan plan(const Call &call) {
  switch (call.family) {
    case Family::reduction: return plan_reduction(call.reduction);
    case Family::forward: return plan_forward(call.forward);
    case Family::backward: return plan_backward(call.backward);
    case Family::product_bias: return plan_product_bias(call.product_bias);
    case Family::elementwise: return plan_elementwise(call.elementwise);
    case Family::row_loss: return plan_row_loss(call.row_loss);
    case Family::squared_norm: return plan_squared_norm(call.squared_norm);
    case Family::clip_factor: return {1, 1, 0, 1, 0};
    case Family::step: return plan_step(call.step);
    case Family::product: break;
  }
  return plan_product(call.product);
}

void explain(const Call &call, const Plan &plan, dxdw_plan *out) {
  snprintf(out->level, sizeof out->level, "%s", simd_level());
  switch (call.family) {
    case Family::reduction:
      snprintf(out->kernel, sizeof out->kernel, "ordered reduction");
      snprintf(out->why, sizeof out->why, "%lld partials added in order", (long long)call.reduction.split);
      break;
    case Family::forward:
      snprintf(out->kernel, sizeof out->kernel, "row dot products");
      snprintf(out->why, sizeof out->why, "%lld rows of %lld features", (long long)call.forward.rows.count,
               (long long)call.forward.features);
      break;
    case Family::backward:
      snprintf(out->kernel, sizeof out->kernel,
               call.function == DXDW_SUM_ROWS ? "column sums" : "row scale, column sums");
      snprintf(out->why, sizeof out->why, "%lld rows of %lld features in %lld blocks, added in order",
               (long long)call.backward.rows.count, (long long)call.backward.features, (long long)plan.tiles);
      break;
    case Family::product_bias: explain_product_bias(call.product_bias, plan, out); break;
    case Family::elementwise:
      snprintf(out->kernel, sizeof out->kernel, "elementwise");
      snprintf(out->why, sizeof out->why, "%lld elements", (long long)call.elementwise.grid.count);
      break;
    case Family::row_loss:
      snprintf(out->kernel, sizeof out->kernel, "row losses");
      snprintf(out->why, sizeof out->why, "%lld rows of %lld features", (long long)call.row_loss.rows.count,
               (long long)call.row_loss.features);
      break;
    case Family::squared_norm:
      snprintf(out->kernel, sizeof out->kernel, "ordered sum of squares");
      snprintf(out->why, sizeof out->why, "%lld elements in %lld blocks, added in order",
               (long long)call.squared_norm.grid.count, (long long)plan.tiles);
      break;
    case Family::clip_factor:
      snprintf(out->kernel, sizeof out->kernel, "clip factor");
      snprintf(out->why, sizeof out->why, "one number");
      break;
    case Family::step:
      snprintf(out->kernel, sizeof out->kernel, "optimizer step");
      snprintf(out->why, sizeof out->why, "%lld elements in one pass", (long long)call.step.grid.count);
      break;
    case Family::product: explain_product(call.product, plan, out); break;
  }
}

Status run(const Call &call, const Plan &plan) {
  switch (call.family) {
    case Family::reduction: run_reduction(call.reduction, plan.threads); return DXDW_OK;
    case Family::forward: return run_forward(call.forward, plan);
    case Family::backward: return run_backward(call.backward, plan, call.context);
    case Family::product_bias: return run_product_bias(call.product_bias, plan, call.context);
    case Family::elementwise: return run_elementwise(call.elementwise, call.function, plan);
    case Family::row_loss: return run_row_loss(call.row_loss, call.function, plan);
    case Family::squared_norm: return run_squared_norm(call.squared_norm, plan);
    case Family::clip_factor: return run_clip_factor(call.clip_factor);
    case Family::step: return run_step(call.step, call.function, plan);
    case Family::product: break;
  }
  return run_product(call.product, plan, call.context);
}

Status copy(const Copy &c) {
  CopyRun run;
  run.copy = c;
  // Walk the dimension that stands side by side in the destination, else the longest.
  run.inner = 0;
  for (int32_t d = 1; d < c.ndim; ++d) {
    const bool near = c.destination_strides[d] == 1, was_near = c.destination_strides[run.inner] == 1;
    if (near != was_near ? near : c.shape[d] > c.shape[run.inner]) run.inner = d;
  }
  run.lines = c.count / c.shape[run.inner];
  run.lines_per_task = std::max<int64_t>(1, kItemsPerTask / c.shape[run.inner]);
  const int64_t tasks = ceil_div(run.lines, run.lines_per_task);
  parallel_for(tasks, std::min<int32_t>(threads(), static_cast<int32_t>(std::min<int64_t>(tasks, kMostThreads))),
               copy_task, &run);
  return DXDW_OK;
}

void convert(const char *source, DType from, int64_t source_stride, char *destination, DType to,
             int64_t destination_stride, int64_t count) {
  kernels().convert(source, from, 0, source_stride, destination, to, 0, destination_stride, 1, count);
}

Status device_info(dxdw_device_info *info) {
  info->multiprocessors = machine_threads();
  info->capability_major = info->capability_minor = 0;
  struct sysinfo memory;
  info->total_bytes = info->free_bytes = 0;
  if (sysinfo(&memory) == 0) {
    info->total_bytes = static_cast<uint64_t>(memory.totalram) * memory.mem_unit;
    info->free_bytes = static_cast<uint64_t>(memory.freeram) * memory.mem_unit;
  }
  snprintf(info->name, sizeof info->name, "CPU (%s)", simd_level());
  FILE *file = fopen("/proc/cpuinfo", "re");
  if (file == nullptr) return DXDW_OK;
  char line[256];
  while (fgets(line, sizeof line, file) != nullptr) {
    if (strncmp(line, "model name", 10) != 0) continue;
    // Not by sscanf: built where the C library is 2.38 or later, the library would need that.
    const char *value = strstr(line, ": ");
    if (value != nullptr) snprintf(info->name, sizeof info->name, "%.*s", (int)strcspn(value + 2, "\n"), value + 2);
    break;
  }
  fclose(file);
  return DXDW_OK;
}

}  // namespace cpu
}  // namespace dxdw
