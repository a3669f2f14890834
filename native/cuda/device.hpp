// The CUDA runtime as the library uses it: which devices can be used, the current device of the caller kept as it is,
// errors turned into a status with a message, memory ordered on streams. Host code only.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>

#include "backend.hpp"

struct dxdw_stream {
  cudaStream_t handle;
  int32_t device_id;
  std::atomic<bool> capturing;
  dxdw_stream *next;  // in the list of all streams
};

struct dxdw_event {
  cudaEvent_t handle;
  int32_t device_id;
};

struct dxdw_graph {
  cudaGraphExec_t handle;
  int32_t device_id;
};

namespace dxdw {
namespace cuda {

struct DeviceFacts {
  int32_t capability;  // major * 10 + minor
  int32_t multiprocessors;
};

// Makes a device current for a scope and puts the caller's own back at its end. open() fails where the device cannot be
// used or was lost.
class Session {
 public:
  Session() = default;
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  Status open(int32_t device_id);
  int32_t device_id() const { return device_id_; }
  const DeviceFacts &facts() const;

 private:
  int32_t device_id_ = -1;
  int32_t previous_ = -1;
};

// What was being done, for a message: words, or a call whose shapes are put into words only when something failed.
class Detail {
 public:
  Detail(const char *words = nullptr) : words_(words) {}
  explicit Detail(const Call &call) : call_(&call) {}

  struct Text {
    char text[200];
  };
  Text text() const;

 private:
  const char *words_ = nullptr;
  const Call *call_ = nullptr;
};

// DXDW_OK for cudaSuccess; else a status and a message with the driver's name for the error, the call and `detail`. A
// fault that broke the context marks the device as lost.
Status check(cudaError_t error, int32_t device_id, const char *call, Detail detail = nullptr);

// The stream that a call runs on, and whether it must be complete on return.
struct Queue {
  cudaStream_t handle;
  bool wait;
  bool capturing;
  int32_t device_id;
};
Status open_queue(dxdw_stream *stream, int32_t device_id, Queue *queue);

// Waits for the queue when its call must be complete on return.
Status finish(const Queue &queue, Detail detail);

// Memory for the time of a call, ordered on the queue.
class Scratch {
 public:
  explicit Scratch(const Queue &queue) : queue_(queue) {}
  ~Scratch();
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;

  Status take(uint64_t bytes, Detail detail);
  char *data() const { return static_cast<char *>(data_); }

 private:
  Queue queue_;
  void *data_ = nullptr;
};

// cudaMemcpyAsync with the fault hook.
cudaError_t copy_bytes(void *destination, const void *source, uint64_t bytes, cudaStream_t stream);

// Lets a kernel have that much dynamic shared memory; asks the driver once a device, of which `devices` keeps track.
cudaError_t allow_shared(const void *kernel, int32_t bytes, std::atomic<uint64_t> *devices);

// Launches `kernel`, counts it, and lets an injected fault strike: then the launch asks for more threads than any
// device has, so that the driver itself refuses it.
// `overlap`: the kernel may start while the one before it on the stream ends; it must wait for that one's results
// itself. `cluster`: so many blocks that follow each other are a cluster.
cudaError_t launch(const void *kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                   void **arguments, bool overlap = false, unsigned cluster = 1);

// cuTensorMapEncodeTiled, found at run time; NULL where the driver has none.
void *tensor_map_encoder();

}  // namespace cuda
}  // namespace dxdw
