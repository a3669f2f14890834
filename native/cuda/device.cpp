#include "device.hpp"

#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counters.hpp"
#include "kernels.hpp"

namespace dxdw {
namespace cuda {

namespace {

constexpr int32_t kMostDevices = 64;
constexpr int32_t kLeastCapability = 80;  // the oldest chip that machine code is built for; PTX serves the newer ones
constexpr uint64_t kKeptBytes = uint64_t{1} << 30;  // freed memory that a device's pool keeps for the next call

struct Device {
  std::atomic<bool> opened{false};
  char unusable[256] = "";  // why, or ""
  DeviceFacts facts = {};
  cudaMemPool_t pool = nullptr;
  cudaStream_t reaper = nullptr;  // frees memory once all streams are done with it
  std::atomic<bool> lost{false};
  char cause[512] = "";  // written once, under the lock, before `lost` is set
};

Device devices[kMostDevices];

// Plain C objects, never destroyed: other threads may still compute while the process exits.
pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;  // of the streams, the blocks and Device::cause
pthread_mutex_t opening_lock = PTHREAD_MUTEX_INITIALIZER;   // held while the driver or a device is looked for
dxdw_stream *streams = nullptr;

struct Locked {
  explicit Locked(pthread_mutex_t *mutex) : mutex_(mutex) { pthread_mutex_lock(mutex_); }
  ~Locked() { pthread_mutex_unlock(mutex_); }
  pthread_mutex_t *mutex_;
};

// Memory handed out, found by its address.
struct Block {
  void *address;
  uint64_t bytes;
  int32_t device_id;  // -1: pinned host memory
  Block *next;
};

constexpr int kBuckets = 1 << 12;
Block *blocks[kBuckets];

Block **bucket_of(void *address) { return &blocks[reinterpret_cast<uintptr_t>(address) / 256 % kBuckets]; }

bool remember(void *address, uint64_t bytes, int32_t device_id) {
  Block *block = static_cast<Block *>(malloc(sizeof(Block)));
  if (block == nullptr) return false;
  const Locked locked(&registry_lock);
  Block **bucket = bucket_of(address);
  *block = {address, bytes, device_id, *bucket};
  *bucket = block;
  return true;
}

// Bytes of the block, or 0 where no such block is known.
uint64_t forget(void *address, int32_t device_id) {
  const Locked locked(&registry_lock);
  for (Block **link = bucket_of(address); *link != nullptr; link = &(*link)->next) {
    Block *block = *link;
    if (block->address != address || block->device_id != device_id) continue;
    const uint64_t bytes = block->bytes;
    *link = block->next;
    free(block);
    return bytes;
  }
  return 0;
}

template <typename T>
T *make(Status *status) {
  T *made = static_cast<T *>(calloc(1, sizeof(T)));
  *status = made != nullptr ? DXDW_OK : fail(DXDW_OUT_OF_MEMORY, "%zu bytes of host memory were refused", sizeof(T));
  return made;
}

std::atomic<int64_t> allocated_bytes{0};

std::atomic<bool> driver_sought{false};
int32_t found_devices = 0;
char no_driver[256] = "";

void version_text(char *out, size_t size, int version) {
  snprintf(out, size, "%d.%d", version / 1000, version % 1000 / 10);
}

void seek_driver() {
  int driver = 0;
  char needed[16], present[16];
  version_text(needed, sizeof needed, CUDART_VERSION);
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    cudaGetLastError();
    snprintf(no_driver, sizeof no_driver, "no NVIDIA driver: libcuda.so.1 was not found");
    return;
  }
  version_text(present, sizeof present, driver);
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (error == cudaErrorInsufficientDriver) {
    snprintf(no_driver, sizeof no_driver, "the NVIDIA driver is too old: it supports CUDA %s, this library needs %s",
             present, needed);
  } else if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) {
    snprintf(no_driver, sizeof no_driver, "the NVIDIA driver (CUDA %s) sees no device", present);
  } else if (error != cudaSuccess) {
    snprintf(no_driver, sizeof no_driver, "%s (%s) while counting devices; driver CUDA %s", cudaGetErrorName(error),
             cudaGetErrorString(error), present);
  } else {
    found_devices = count < kMostDevices ? count : kMostDevices;
  }
}

void find_driver() {
  if (driver_sought.load(std::memory_order_acquire)) return;
  const Locked locked(&opening_lock);
  if (driver_sought.load()) return;
  seek_driver();
  driver_sought.store(true, std::memory_order_release);
}

// Restores the current device of the calling thread, whatever happens in between.
struct CurrentDevice {
  int previous = 0;
  CurrentDevice() { cudaGetDevice(&previous); }
  ~CurrentDevice() { cudaSetDevice(previous); }
};

cudaError_t open_device(int32_t id, Device *device) {
  int major = 0, minor = 0, multiprocessors = 0, pools = 0;
  cudaError_t error = cudaSetDevice(id);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, id);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, id);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, id);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, id);
  if (error != cudaSuccess) return error;
  device->facts = {major * 10 + minor, multiprocessors};
  if (device->facts.capability < kLeastCapability) {
    snprintf(device->unusable, sizeof device->unusable,
             "compute capability %d.%d has no code in this library, which holds: %s", major, minor, architectures());
    return cudaSuccess;
  }
  if (pools == 0) {
    snprintf(device->unusable, sizeof device->unusable, "the device has no stream-ordered memory");
    return cudaSuccess;
  }
  cudaMemPoolProps properties;
  memset(&properties, 0, sizeof properties);
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = id;
  uint64_t kept = kKeptBytes;
  error = cudaMemPoolCreate(&device->pool, &properties);
  if (error == cudaSuccess) error = cudaMemPoolSetAttribute(device->pool, cudaMemPoolAttrReleaseThreshold, &kept);
  if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&device->reaper, cudaStreamNonBlocking);
  return error;
}

Device *device_at(int32_t id) {
  find_driver();
  if (id < 0 || id >= found_devices) return nullptr;
  Device *device = &devices[id];
  if (device->opened.load(std::memory_order_acquire)) return device;
  const Locked locked(&opening_lock);
  if (device->opened.load()) return device;
  {
    const CurrentDevice keep;
    const cudaError_t error = open_device(id, device);
    if (error != cudaSuccess)
      snprintf(device->unusable, sizeof device->unusable, "%s (%s) while opening the device", cudaGetErrorName(error),
               cudaGetErrorString(error));
    cudaGetLastError();
  }
  device->opened.store(true, std::memory_order_release);
  return device;
}

// Errors after which every further call on the context fails.
bool breaks_context(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorContextIsDestroyed:
    case cudaErrorExternalDevice: return true;
    default: return false;
  }
}

Status lost(const Device &device, int32_t id) {
  return fail(DXDW_DEVICE_LOST, "cuda:%d was lost: %s; the CPU and a fresh process still work", id, device.cause);
}

Status out_of_memory(int32_t device_id, uint64_t bytes, const char *call) {
  size_t free_bytes = 0, total_bytes = 0;
  cudaMemGetInfo(&free_bytes, &total_bytes);
  cudaGetLastError();
  return fail(DXDW_OUT_OF_MEMORY,
              "cuda:%d: %s of %llu bytes failed: %llu of %llu bytes free, %lld held through this library", device_id,
              call, static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(free_bytes),
              static_cast<unsigned long long>(total_bytes), static_cast<long long>(allocated_bytes.load()));
}

cudaError_t allocate_from_pool(void **address, uint64_t bytes, int32_t device_id, cudaStream_t stream) {
  *address = nullptr;
  if (fault_strikes(DXDW_FAULT_ALLOCATE)) return cudaErrorMemoryAllocation;
  const cudaMemPool_t pool = devices[device_id].pool;
  cudaError_t error = cudaMallocFromPoolAsync(address, bytes, pool, stream);
  if (error == cudaErrorMemoryAllocation) {
    // What the pool keeps may be in pieces too small: give it back and ask once more.
    cudaGetLastError();
    cudaStreamSynchronize(stream);
    cudaMemPoolTrimTo(pool, 0);
    error = cudaMallocFromPoolAsync(address, bytes, pool, stream);
  }
  if (error != cudaSuccess) *address = nullptr;
  return error;
}

cudaError_t synchronize(cudaStream_t stream) {
  if (fault_strikes(DXDW_FAULT_SYNCHRONIZE)) return cudaErrorUnknown;
  return cudaStreamSynchronize(stream);
}

}  // namespace

// ---- Devices ----

int32_t device_count() {
  find_driver();
  return found_devices;
}

const char *unavailable(int32_t device_id) {
  static thread_local char text[512];
  const Device *device = device_at(device_id);
  if (device == nullptr) {
    if (no_driver[0] != 0) return no_driver;
    snprintf(text, sizeof text, "there is no device %d: the driver sees %d", device_id, found_devices);
    return text;
  }
  if (device->lost.load(std::memory_order_acquire)) return device->cause;
  return device->unusable;
}

Status device_info(int32_t device_id, dxdw_device_info *info) {
  Session session;
  DXDW_TRY(session.open(device_id));
  size_t free_bytes = 0, total_bytes = 0;
  DXDW_TRY(check(cudaMemGetInfo(&free_bytes, &total_bytes), device_id, "cudaMemGetInfo"));
  cudaDeviceProp properties;
  DXDW_TRY(check(cudaGetDeviceProperties(&properties, device_id), device_id, "cudaGetDeviceProperties"));
  info->multiprocessors = session.facts().multiprocessors;
  info->capability_major = session.facts().capability / 10;
  info->capability_minor = session.facts().capability % 10;
  info->total_bytes = total_bytes;
  info->free_bytes = free_bytes;
  snprintf(info->name, sizeof info->name, "%.*s", static_cast<int>(sizeof info->name - 1), properties.name);
  return DXDW_OK;
}

int64_t bytes_allocated() { return allocated_bytes.load(); }

Status Session::open(int32_t device_id) {
  // An injected loss lasts while it is armed, also on a machine without a GPU.
  if (fault_strikes(DXDW_FAULT_STICKY))
    return fail(DXDW_DEVICE_LOST,
                "cuda:%d was lost: cudaErrorIllegalAddress (injected fault); the CPU and a fresh "
                "process still work",
                device_id);
  Device *device = device_at(device_id);
  if (device == nullptr || device->unusable[0] != 0)
    return fail(DXDW_DEVICE_UNAVAILABLE, "cuda:%d: %s", device_id, unavailable(device_id));
  if (device->lost.load(std::memory_order_acquire)) return lost(*device, device_id);
  int current = -1;
  DXDW_TRY(check(cudaGetDevice(&current), device_id, "cudaGetDevice"));
  if (current != device_id) {
    DXDW_TRY(check(cudaSetDevice(device_id), device_id, "cudaSetDevice"));
    previous_ = current;
  }
  device_id_ = device_id;
  return DXDW_OK;
}

Session::~Session() {
  if (previous_ >= 0) cudaSetDevice(previous_);
}

const DeviceFacts &Session::facts() const { return devices[device_id_].facts; }

Status check(cudaError_t error, int32_t device_id, const char *call, Detail detail) {
  if (error == cudaSuccess) return DXDW_OK;
  cudaGetLastError();  // so that no later call finds this error again
  const Detail::Text words = detail.text();
  char text[400];
  snprintf(text, sizeof text, "%s (%s) in %s%s%s", cudaGetErrorName(error), cudaGetErrorString(error), call,
           words.text[0] == 0 ? "" : ": ", words.text);
  if (breaks_context(error) && device_id >= 0 && device_id < kMostDevices) {
    Device &device = devices[device_id];
    const Locked locked(&registry_lock);
    if (!device.lost.load()) {
      snprintf(device.cause, sizeof device.cause, "%s", text);
      device.lost.store(true, std::memory_order_release);
    }
    return lost(device, device_id);
  }
  const Status status = error == cudaErrorMemoryAllocation ? DXDW_OUT_OF_MEMORY
                        : error == cudaErrorNoKernelImageForDevice || error == cudaErrorNotSupported
                            ? DXDW_UNSUPPORTED
                            : DXDW_DEVICE_ERROR;
  return fail(status, "cuda:%d: %s", device_id, text);
}

// ---- Streams ----

Status open_queue(dxdw_stream *stream, int32_t device_id, Queue *queue) {
  if (stream == nullptr) {
    *queue = {cudaStreamPerThread, true, false, device_id};
    return DXDW_OK;
  }
  if (stream->device_id != device_id)
    return fail(DXDW_INVALID_ARGUMENT, "stream: is on cuda:%d, the operands are on cuda:%d", stream->device_id,
                device_id);
  *queue = {stream->handle, false, stream->capturing.load(std::memory_order_relaxed), device_id};
  return DXDW_OK;
}

Status finish(const Queue &queue, Detail detail) {
  if (!queue.wait) return DXDW_OK;
  return check(synchronize(queue.handle), queue.device_id, "cudaStreamSynchronize", detail);
}

Status stream_create(int32_t device_id, dxdw_stream **stream) {
  Session session;
  DXDW_TRY(session.open(device_id));
  cudaStream_t handle;
  DXDW_TRY(check(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), device_id, "cudaStreamCreateWithFlags"));
  Status status;
  dxdw_stream *made = make<dxdw_stream>(&status);
  if (made == nullptr) {
    cudaStreamDestroy(handle);
    return status;
  }
  made->handle = handle;
  made->device_id = device_id;
  const Locked locked(&registry_lock);
  made->next = streams;
  streams = made;
  *stream = made;
  return DXDW_OK;
}

Status stream_synchronize(dxdw_stream *stream) {
  Session session;
  DXDW_TRY(session.open(stream->device_id));
  return check(synchronize(stream->handle), stream->device_id, "cudaStreamSynchronize");
}

Status stream_destroy(dxdw_stream *stream) {
  const int32_t device_id = stream->device_id;
  {
    const Locked locked(&registry_lock);
    for (dxdw_stream **link = &streams; *link != nullptr; link = &(*link)->next)
      if (*link == stream) {
        *link = stream->next;
        break;
      }
  }
  Session session;
  Status status = session.open(device_id);
  if (status == DXDW_OK) status = check(synchronize(stream->handle), device_id, "cudaStreamSynchronize");
  if (status == DXDW_OK) status = check(cudaStreamDestroy(stream->handle), device_id, "cudaStreamDestroy");
  free(stream);
  return status;
}

// ---- Memory ----

Status memory_allocate(int32_t device_id, uint64_t bytes, dxdw_stream *stream, void **address) {
  *address = nullptr;
  Session session;
  DXDW_TRY(session.open(device_id));
  if (bytes == 0) return DXDW_OK;
  Queue queue = {};
  DXDW_TRY(open_queue(stream, device_id, &queue));
  if (queue.capturing)
    return fail(DXDW_UNSUPPORTED, "cuda:%d: %llu bytes asked while the stream is recorded into a graph", device_id,
                static_cast<unsigned long long>(bytes));
  void *made;
  const cudaError_t error = allocate_from_pool(&made, bytes, device_id, queue.handle);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return out_of_memory(device_id, bytes, "an allocation");
  }
  DXDW_TRY(check(error, device_id, "cudaMallocFromPoolAsync"));
  if (!remember(made, bytes, device_id)) {
    cudaFreeAsync(made, queue.handle);
    return fail(DXDW_OUT_OF_MEMORY, "%zu bytes of host memory were refused", sizeof(Block));
  }
  allocated_bytes.fetch_add(static_cast<int64_t>(bytes));
  const Status status = finish(queue, "allocation");
  if (status != DXDW_OK) {
    memory_free(device_id, made, stream);
    return status;
  }
  *address = made;
  return DXDW_OK;
}

// Makes `reaper` wait for everything that was put on any of the library's streams so far, and on the calling thread's.
static cudaError_t join_streams(int32_t device_id, cudaStream_t reaper) {
  cudaEvent_t event;
  cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  if (error != cudaSuccess) return error;
  {
    const Locked locked(&registry_lock);
    for (const dxdw_stream *stream = streams; stream != nullptr; stream = stream->next) {
      // A stream that is recorded into a graph runs nothing now.
      if (stream->device_id != device_id || stream->capturing.load() || error != cudaSuccess) continue;
      error = cudaEventRecord(event, stream->handle);
      if (error == cudaSuccess) error = cudaStreamWaitEvent(reaper, event, 0);
    }
  }
  cudaEventDestroy(event);
  return error;
}

Status memory_free(int32_t device_id, void *address, dxdw_stream *stream) {
  const uint64_t bytes = forget(address, device_id);
  if (bytes == 0)
    return fail(DXDW_INVALID_ARGUMENT, "address: %p was not allocated on device %d, or was freed before", address,
                device_id);
  allocated_bytes.fetch_sub(static_cast<int64_t>(bytes));
  Session session;
  DXDW_TRY(session.open(device_id));
  cudaStream_t handle;
  if (stream == nullptr) {
    handle = devices[device_id].reaper;
    DXDW_TRY(check(join_streams(device_id, handle), device_id, "cudaStreamWaitEvent", "free"));
  } else {
    Queue queue = {};
    DXDW_TRY(open_queue(stream, device_id, &queue));
    handle = queue.capturing ? devices[device_id].reaper : queue.handle;
  }
  return check(cudaFreeAsync(address, handle), device_id, "cudaFreeAsync");
}

Status memory_set(int32_t device_id, void *address, int32_t value, uint64_t bytes, dxdw_stream *stream) {
  Session session;
  DXDW_TRY(session.open(device_id));
  Queue queue = {};
  DXDW_TRY(open_queue(stream, device_id, &queue));
  DXDW_TRY(check(cudaMemsetAsync(address, value, bytes, queue.handle), device_id, "cudaMemsetAsync"));
  return finish(queue, "fill");
}

Status pinned_allocate(uint64_t bytes, void **address) {
  *address = nullptr;
  find_driver();
  Session session;
  DXDW_TRY(session.open(0));
  if (bytes == 0) return DXDW_OK;
  void *made = nullptr;
  const cudaError_t error = fault_strikes(DXDW_FAULT_ALLOCATE) ? cudaErrorMemoryAllocation
                                                               : cudaHostAlloc(&made, bytes, cudaHostAllocPortable);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return fail(DXDW_OUT_OF_MEMORY, "%llu bytes of pinned host memory were refused",
                static_cast<unsigned long long>(bytes));
  }
  DXDW_TRY(check(error, 0, "cudaHostAlloc"));
  if (!remember(made, bytes, -1)) {
    cudaFreeHost(made);
    return fail(DXDW_OUT_OF_MEMORY, "%zu bytes of host memory were refused", sizeof(Block));
  }
  *address = made;
  return DXDW_OK;
}

// Waits for everything that was put on the library's streams of a device so far.
static Status wait_for_streams(int32_t device_id) {
  Session session;
  DXDW_TRY(session.open(device_id));
  const cudaStream_t reaper = devices[device_id].reaper;
  DXDW_TRY(check(join_streams(device_id, reaper), device_id, "cudaStreamWaitEvent", "free of pinned memory"));
  return check(cudaStreamSynchronize(reaper), device_id, "cudaStreamSynchronize", "free of pinned memory");
}

Status pinned_free(void *address) {
  if (forget(address, -1) == 0)
    return fail(DXDW_INVALID_ARGUMENT, "address: %p is no pinned memory of this library, or was freed before", address);
  // cudaFreeHost waits for the copies of the current device alone, which is the first here. A lost one is done with all.
  for (int32_t id = 1; id < found_devices; ++id) {
    if (!devices[id].opened.load(std::memory_order_acquire) || devices[id].unusable[0] != 0) continue;
    const Status status = wait_for_streams(id);
    if (status != DXDW_OK && status != DXDW_DEVICE_LOST) return status;
  }
  Session session;
  DXDW_TRY(session.open(0));
  return check(cudaFreeHost(address), 0, "cudaFreeHost");
}

Scratch::~Scratch() {
  if (data_ != nullptr && cudaFreeAsync(data_, queue_.handle) != cudaSuccess) cudaGetLastError();
}

Status Scratch::take(uint64_t bytes, Detail detail) {
  if (bytes == 0) return DXDW_OK;
  if (queue_.capturing)
    return fail(
        DXDW_UNSUPPORTED,
        "workspace: none given, %llu bytes needed: a call that is recorded into a graph must bring its own (%s)",
        static_cast<unsigned long long>(bytes), detail.text().text);
  const cudaError_t error = allocate_from_pool(&data_, bytes, queue_.device_id, queue_.handle);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return out_of_memory(queue_.device_id, bytes, "a call's workspace");
  }
  return check(error, queue_.device_id, "cudaMallocFromPoolAsync", detail);
}

cudaError_t copy_bytes(void *destination, const void *source, uint64_t bytes, cudaStream_t stream) {
  if (fault_strikes(DXDW_FAULT_COPY)) return cudaErrorUnknown;
  return cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, stream);
}

// ---- Launches ----

cudaError_t allow_shared(const void *kernel, int32_t bytes, std::atomic<uint64_t> *devices) {
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  const uint64_t bit = uint64_t{1} << device;
  if ((devices->load(std::memory_order_relaxed) & bit) != 0) return cudaSuccess;
  error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error == cudaSuccess) devices->fetch_or(bit, std::memory_order_relaxed);
  return error;
}

cudaError_t launch(const void *kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                   void **arguments, bool overlap, unsigned cluster) {
  if (fault_strikes(DXDW_FAULT_LAUNCH)) block = dim3(1 << 16);
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute attributes[2];
  config.attrs = attributes;
  if (overlap) {
    cudaLaunchAttribute &attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  if (cluster > 1) {
    cudaLaunchAttribute &attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {cluster, 1, 1};
  }
  const cudaError_t error = cudaLaunchKernelExC(&config, kernel, arguments);
  if (error == cudaSuccess) count_launch();
  return error;
}

namespace {

// A function of the driver, or NULL. Threads that come first together find the same.
void *driver_function(const char *name, unsigned version, std::atomic<void *> *found) {
  void *function = found->load(std::memory_order_acquire);
  if (function != nullptr) return function;
  cudaDriverEntryPointQueryResult result;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &result);
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  found->store(function, std::memory_order_release);
  return function;
}

}  // namespace

void *tensor_map_encoder() {
  static std::atomic<void *> encoder{nullptr}, current{nullptr};
  // The encoder wants a context, which a thread that has not used the device yet lacks: the runtime makes it current.
  const auto current_context =
      reinterpret_cast<decltype(&cuCtxGetCurrent)>(driver_function("cuCtxGetCurrent", 4000, &current));
  CUcontext context = nullptr;
  if (current_context == nullptr || current_context(&context) != CUDA_SUCCESS) return nullptr;
  int device;
  if (context == nullptr && (cudaGetDevice(&device) != cudaSuccess || cudaSetDevice(device) != cudaSuccess))
    return nullptr;
  return driver_function("cuTensorMapEncodeTiled", 12000, &encoder);
}

// ---- Events ----

Status event_create(int32_t device_id, dxdw_event **event) {
  Session session;
  DXDW_TRY(session.open(device_id));
  cudaEvent_t handle;
  DXDW_TRY(check(cudaEventCreate(&handle), device_id, "cudaEventCreate"));
  Status status;
  *event = make<dxdw_event>(&status);
  if (*event == nullptr)
    cudaEventDestroy(handle);
  else
    **event = {handle, device_id};
  return status;
}

static Status check_event_device(const dxdw_event *event, const dxdw_stream *stream) {
  if (event->device_id == stream->device_id) return DXDW_OK;
  return fail(DXDW_INVALID_ARGUMENT, "event: is on cuda:%d, the stream is on cuda:%d", event->device_id,
              stream->device_id);
}

Status event_record(dxdw_event *event, dxdw_stream *stream) {
  Session session;
  DXDW_TRY(session.open(stream->device_id));
  DXDW_TRY(check_event_device(event, stream));
  return check(cudaEventRecord(event->handle, stream->handle), stream->device_id, "cudaEventRecord");
}

Status event_synchronize(dxdw_event *event) {
  Session session;
  DXDW_TRY(session.open(event->device_id));
  const cudaError_t error =
      fault_strikes(DXDW_FAULT_SYNCHRONIZE) ? cudaErrorUnknown : cudaEventSynchronize(event->handle);
  return check(error, event->device_id, "cudaEventSynchronize");
}

Status event_wait(dxdw_event *event, dxdw_stream *stream) {
  Session session;
  DXDW_TRY(session.open(stream->device_id));
  return check(cudaStreamWaitEvent(stream->handle, event->handle, 0), stream->device_id, "cudaStreamWaitEvent");
}

Status event_elapsed(dxdw_event *start, dxdw_event *end, double *milliseconds) {
  Session session;
  DXDW_TRY(session.open(start->device_id));
  float elapsed = 0;
  DXDW_TRY(check(cudaEventElapsedTime(&elapsed, start->handle, end->handle), start->device_id, "cudaEventElapsedTime"));
  *milliseconds = elapsed;
  return DXDW_OK;
}

Status event_destroy(dxdw_event *event) {
  Session session;
  const Status status = session.open(event->device_id);
  const Status destroyed =
      status == DXDW_OK ? check(cudaEventDestroy(event->handle), event->device_id, "cudaEventDestroy") : status;
  free(event);
  return destroyed;
}

// ---- Graphs ----

// Recording is relaxed: the thread that ends it need not be the one that began it (a virtual thread may have moved),
// and other threads may allocate meanwhile.
Status graph_begin(dxdw_stream *stream) {
  Session session;
  DXDW_TRY(session.open(stream->device_id));
  DXDW_TRY(check(cudaStreamBeginCapture(stream->handle, cudaStreamCaptureModeRelaxed), stream->device_id,
                 "cudaStreamBeginCapture"));
  stream->capturing.store(true);
  return DXDW_OK;
}

Status graph_end(dxdw_stream *stream, dxdw_graph **graph) {
  *graph = nullptr;
  Session session;
  DXDW_TRY(session.open(stream->device_id));
  cudaGraph_t recorded = nullptr;
  const cudaError_t error = cudaStreamEndCapture(stream->handle, &recorded);
  stream->capturing.store(false);
  DXDW_TRY(check(error, stream->device_id, "cudaStreamEndCapture"));
  cudaGraphExec_t handle = nullptr;
  const cudaError_t made = cudaGraphInstantiate(&handle, recorded, 0);
  cudaGraphDestroy(recorded);
  DXDW_TRY(check(made, stream->device_id, "cudaGraphInstantiate"));
  Status status;
  *graph = make<dxdw_graph>(&status);
  if (*graph == nullptr)
    cudaGraphExecDestroy(handle);
  else
    **graph = {handle, stream->device_id};
  return status;
}

Status graph_launch(dxdw_graph *graph, dxdw_stream *stream) {
  Session session;
  DXDW_TRY(session.open(stream->device_id));
  if (graph->device_id != stream->device_id)
    return fail(DXDW_INVALID_ARGUMENT, "graph: was recorded on cuda:%d, the stream is on cuda:%d", graph->device_id,
                stream->device_id);
  if (fault_strikes(DXDW_FAULT_LAUNCH))
    return check(cudaErrorLaunchOutOfResources, stream->device_id, "cudaGraphLaunch", "injected fault");
  return check(cudaGraphLaunch(graph->handle, stream->handle), stream->device_id, "cudaGraphLaunch");
}

Status graph_destroy(dxdw_graph *graph) {
  Session session;
  const Status status = session.open(graph->device_id);
  const Status destroyed =
      status == DXDW_OK ? check(cudaGraphExecDestroy(graph->handle), graph->device_id, "cudaGraphExecDestroy") : status;
  free(graph);
  return destroyed;
}

Status nop(dxdw_stream *stream) { return check(launch_nop(stream->handle), stream->device_id, "launch of nop"); }

}  // namespace cuda
}  // namespace dxdw
