// Stands in for the CUDA backend in builds without it.
#include "backend.hpp"
#include "counters.hpp"

namespace dxdw {
namespace cuda {

namespace {

constexpr char kWhy[] = "this library was built without CUDA";

Status absent() {
  // What follows a lost device can be tried out in every build.
  if (fault_strikes(DXDW_FAULT_STICKY)) return fail(DXDW_DEVICE_LOST, "cuda was lost: injected fault");
  return fail(DXDW_DEVICE_UNAVAILABLE, "cuda: %s", kWhy);
}

}  // namespace

Status plan(const Call &, Plan *) { return absent(); }
void explain(const Call &, const Plan &, dxdw_plan *) {}
Status run(const Call &, const Plan &) { return absent(); }
Status copy(const Copy &, const Context &) { return absent(); }

const char *architectures() { return "no CUDA"; }
int32_t device_count() { return 0; }
const char *unavailable(int32_t) { return kWhy; }
Status device_info(int32_t, dxdw_device_info *) { return absent(); }
int64_t bytes_allocated() { return 0; }

Status memory_allocate(int32_t, uint64_t, dxdw_stream *, void **) { return absent(); }
Status memory_free(int32_t, void *, dxdw_stream *) { return absent(); }
Status memory_set(int32_t, void *, int32_t, uint64_t, dxdw_stream *) { return absent(); }
Status pinned_allocate(uint64_t, void **) { return absent(); }
Status pinned_free(void *) { return absent(); }

Status stream_create(int32_t, dxdw_stream **) { return absent(); }
Status stream_synchronize(dxdw_stream *) { return absent(); }
Status stream_destroy(dxdw_stream *) { return absent(); }
Status event_create(int32_t, dxdw_event **) { return absent(); }
Status event_record(dxdw_event *, dxdw_stream *) { return absent(); }
Status event_synchronize(dxdw_event *) { return absent(); }
Status event_wait(dxdw_event *, dxdw_stream *) { return absent(); }
Status event_elapsed(dxdw_event *, dxdw_event *, double *) { return absent(); }
Status event_destroy(dxdw_event *) { return absent(); }
Status graph_begin(dxdw_stream *) { return absent(); }
Status graph_end(dxdw_stream *, dxdw_graph **) { return absent(); }
Status graph_launch(dxdw_graph *, dxdw_stream *) { return absent(); }
Status graph_destroy(dxdw_graph *) { return absent(); }
Status nop(dxdw_stream *) { return absent(); }

}  // namespace cuda
}  // namespace dxdw
