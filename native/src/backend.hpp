// What a backend (CPU, CUDA) offers to the dispatch: all that follows takes arguments that checks.hpp has passed.
#pragma once

#include "problem.hpp"
#include "status.hpp"

namespace dxdw {

// How a call will run. A pure function of the call and the device's fixed properties, so that it can be asked for
// beforehand.
struct Plan {
  int32_t split;             // slices of T, at least 1
  int32_t threads;           // CPU threads or GPU thread blocks
  int32_t variant;           // the backend's own number for the kernel
  int64_t tiles;             // output tiles
  uint64_t workspace_bytes;  // what the call needs beside its operands
};

namespace cpu {

Plan plan(const Call &call);
void explain(const Call &call, const Plan &plan, dxdw_plan *out);
Status run(const Call &call, const Plan &plan);
// A product without workspace, planned on the way.
Status run(const Product &product);
Status copy(const Copy &copy);

}  // namespace cpu

// Without CUDA at build time every function that returns a Status fails with DXDW_DEVICE_UNAVAILABLE.
namespace cuda {

Status plan(const Call &call, Plan *out);
void explain(const Call &call, const Plan &plan, dxdw_plan *out);
Status run(const Call &call, const Plan &plan);
Status copy(const Copy &copy, const Context &context);

// "sm_80 sm_90a compute_90", or "no CUDA".
const char *architectures();
int32_t device_count();
// "" when the device can be used.
const char *unavailable(int32_t device_id);
Status device_info(int32_t device_id, dxdw_device_info *info);
int64_t bytes_allocated();

Status memory_allocate(int32_t device_id, uint64_t bytes, dxdw_stream *stream, void **address);
Status memory_free(int32_t device_id, void *address, dxdw_stream *stream);
Status memory_set(int32_t device_id, void *address, int32_t value, uint64_t bytes, dxdw_stream *stream);
Status pinned_allocate(uint64_t bytes, void **address);
Status pinned_free(void *address);

Status stream_create(int32_t device_id, dxdw_stream **stream);
Status stream_synchronize(dxdw_stream *stream);
Status stream_destroy(dxdw_stream *stream);
Status event_create(int32_t device_id, dxdw_event **event);
Status event_record(dxdw_event *event, dxdw_stream *stream);
Status event_synchronize(dxdw_event *event);
Status event_wait(dxdw_event *event, dxdw_stream *stream);
Status event_elapsed(dxdw_event *start, dxdw_event *end, double *milliseconds);
Status event_destroy(dxdw_event *event);
Status graph_begin(dxdw_stream *stream);
Status graph_end(dxdw_stream *stream, dxdw_graph **graph);
Status graph_launch(dxdw_graph *graph, dxdw_stream *stream);
Status graph_destroy(dxdw_graph *graph);
Status nop(dxdw_stream *stream);

}  // namespace cuda

}  // namespace dxdw
