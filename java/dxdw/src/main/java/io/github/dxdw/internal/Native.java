package io.github.dxdw.internal;

import io.github.dxdw.bindings.dxdw_h;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/**
 * The functions of the native library that this module calls, as constant handles. Initialising
 * this class needs the library: {@link Library#require()} comes before.
 */
final class Native {
  private static final MethodHandle CALL = dxdw_h.dxdw_call$handle();
  private static final MethodHandle EXPLAIN = dxdw_h.dxdw_explain$handle();
  private static final MethodHandle PLAN_FOR_CHIP = dxdw_h.dxdw_plan_for_chip$handle();
  private static final MethodHandle LAST_ERROR = dxdw_h.dxdw_last_error$handle();
  private static final MethodHandle DESCRIPTION = dxdw_h.dxdw_build_description$handle();
  private static final MethodHandle SIMD_LEVEL = dxdw_h.dxdw_simd_level$handle();
  private static final MethodHandle SET_THREADS = dxdw_h.dxdw_set_threads$handle();
  private static final MethodHandle THREADS = dxdw_h.dxdw_threads$handle();
  private static final MethodHandle COUNTER = dxdw_h.dxdw_counter$handle();
  private static final MethodHandle DEVICE_COUNT = dxdw_h.dxdw_device_count$handle();
  private static final MethodHandle DEVICE_UNAVAILABLE = dxdw_h.dxdw_device_unavailable$handle();
  private static final MethodHandle DEVICE_INFO = dxdw_h.dxdw_device_info_get$handle();
  private static final MethodHandle MEMORY_ALLOCATE = dxdw_h.dxdw_memory_allocate$handle();
  private static final MethodHandle MEMORY_FREE = dxdw_h.dxdw_memory_free$handle();
  private static final MethodHandle MEMORY_SET = dxdw_h.dxdw_memory_set$handle();
  private static final MethodHandle STREAM_CREATE = dxdw_h.dxdw_stream_create$handle();
  private static final MethodHandle STREAM_SYNCHRONIZE = dxdw_h.dxdw_stream_synchronize$handle();
  private static final MethodHandle STREAM_DESTROY = dxdw_h.dxdw_stream_destroy$handle();
  private static final MethodHandle EVENT_CREATE = dxdw_h.dxdw_event_create$handle();
  private static final MethodHandle EVENT_RECORD = dxdw_h.dxdw_event_record$handle();
  private static final MethodHandle EVENT_SYNCHRONIZE = dxdw_h.dxdw_event_synchronize$handle();
  private static final MethodHandle EVENT_WAIT = dxdw_h.dxdw_event_wait$handle();
  private static final MethodHandle EVENT_ELAPSED = dxdw_h.dxdw_event_elapsed$handle();
  private static final MethodHandle EVENT_DESTROY = dxdw_h.dxdw_event_destroy$handle();
  private static final MethodHandle GRAPH_BEGIN = dxdw_h.dxdw_graph_begin$handle();
  private static final MethodHandle GRAPH_END = dxdw_h.dxdw_graph_end$handle();
  private static final MethodHandle GRAPH_LAUNCH = dxdw_h.dxdw_graph_launch$handle();
  private static final MethodHandle GRAPH_DESTROY = dxdw_h.dxdw_graph_destroy$handle();
  private static final MethodHandle PINNED_ALLOCATE = dxdw_h.dxdw_pinned_allocate$handle();
  private static final MethodHandle PINNED_FREE = dxdw_h.dxdw_pinned_free$handle();

  private Native() {}

  /** What a handle throws: unchecked exceptions of the JDK, on closed or foreign memory. */
  static RuntimeException rethrow(Throwable thrown) {
    if (thrown instanceof Error error) {
      throw error;
    }
    if (thrown instanceof RuntimeException exception) {
      return exception;
    }
    return new IllegalStateException(thrown);
  }

  /** Throws what a status other than 0 stands for; the message is that of the calling thread. */
  private static void check(int status) {
    if (status != 0) {
      throw Failures.of(status, lastError());
    }
  }

  private static String lastError() {
    try {
      return ((MemorySegment) LAST_ERROR.invokeExact()).getString(0);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
  }

  static void call(
      int function,
      MemorySegment operands,
      int split,
      int deterministic,
      MemorySegment options,
      MemorySegment hold0,
      MemorySegment hold1,
      MemorySegment hold2,
      MemorySegment hold3,
      MemorySegment hold4,
      MemorySegment hold5) {
    int status;
    try {
      status =
          (int)
              CALL.invokeExact(
                  function,
                  operands,
                  split,
                  deterministic,
                  options,
                  hold0,
                  hold1,
                  hold2,
                  hold3,
                  hold4,
                  hold5);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
    check(status);
  }

  static void explain(
      int function,
      MemorySegment operands,
      int split,
      int deterministic,
      MemorySegment options,
      MemorySegment plan) {
    int status;
    try {
      status = (int) EXPLAIN.invokeExact(function, operands, split, deterministic, options, plan);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
    check(status);
  }

  static void planForChip(
      int function,
      MemorySegment operands,
      int split,
      int deterministic,
      MemorySegment options,
      int capability,
      int multiprocessors,
      MemorySegment plan) {
    int status;
    try {
      status =
          (int)
              PLAN_FOR_CHIP.invokeExact(
                  function,
                  operands,
                  split,
                  deterministic,
                  options,
                  capability,
                  multiprocessors,
                  plan);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
    check(status);
  }

  static String description() {
    try {
      return ((MemorySegment) DESCRIPTION.invokeExact()).getString(0);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
  }

  static String simdLevel() {
    try {
      return ((MemorySegment) SIMD_LEVEL.invokeExact()).getString(0);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
  }

  static void setThreads(int threads) {
    int status;
    try {
      status = (int) SET_THREADS.invokeExact(threads);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
    check(status);
  }

  static int threads() {
    try {
      return (int) THREADS.invokeExact();
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
  }

  static long counter(int kind) {
    try {
      return (long) COUNTER.invokeExact(kind);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
  }

  static int deviceCount(int deviceType) {
    try {
      return (int) DEVICE_COUNT.invokeExact(deviceType);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
  }

  static String deviceUnavailable(int deviceType, int index) {
    try {
      return ((MemorySegment) DEVICE_UNAVAILABLE.invokeExact(deviceType, index)).getString(0);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
  }

  static void deviceInfo(int deviceType, int index, MemorySegment info) {
    int status;
    try {
      status = (int) DEVICE_INFO.invokeExact(deviceType, index, info);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
    check(status);
  }

  static void memoryAllocate(int index, long bytes, MemorySegment stream, MemorySegment address) {
    int status;
    try {
      status = (int) MEMORY_ALLOCATE.invokeExact(index, bytes, stream, address);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
    check(status);
  }

  static void memoryFree(int index, MemorySegment address, MemorySegment stream) {
    int status;
    try {
      status = (int) MEMORY_FREE.invokeExact(index, address, stream);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
    check(status);
  }

  static void memorySet(
      int index, MemorySegment address, int value, long bytes, MemorySegment stream) {
    int status;
    try {
      status = (int) MEMORY_SET.invokeExact(index, address, value, bytes, stream);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
    check(status);
  }

  static void streamCreate(int index, MemorySegment handle) {
    int status;
    try {
      status = (int) STREAM_CREATE.invokeExact(index, handle);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
    check(status);
  }

  static void streamSynchronize(MemorySegment stream) {
    int status;
    try {
      status = (int) STREAM_SYNCHRONIZE.invokeExact(stream);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
    check(status);
  }

  static void streamDestroy(MemorySegment stream) {
    int status;
    try {
      status = (int) STREAM_DESTROY.invokeExact(stream);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
    check(status);
  }

  static void eventCreate(int index, MemorySegment event) {
    int status;
    try {
      status = (int) EVENT_CREATE.invokeExact(index, event);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
    check(status);
  }

  static void eventRecord(MemorySegment event, MemorySegment stream) {
    int status;
    try {
      status = (int) EVENT_RECORD.invokeExact(event, stream);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
    check(status);
  }

  static void eventSynchronize(MemorySegment event) {
    int status;
    try {
      status = (int) EVENT_SYNCHRONIZE.invokeExact(event);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
    check(status);
  }

  static void eventWait(MemorySegment event, MemorySegment stream) {
    int status;
    try {
      status = (int) EVENT_WAIT.invokeExact(event, stream);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
    check(status);
  }

  static void eventElapsed(MemorySegment start, MemorySegment end, MemorySegment milliseconds) {
    int status;
    try {
      status = (int) EVENT_ELAPSED.invokeExact(start, end, milliseconds);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
    check(status);
  }

  static void eventDestroy(MemorySegment event) {
    int status;
    try {
      status = (int) EVENT_DESTROY.invokeExact(event);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
    check(status);
  }

  static void graphBegin(MemorySegment stream) {
    int status;
    try {
      status = (int) GRAPH_BEGIN.invokeExact(stream);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
    check(status);
  }

  static void graphEnd(MemorySegment stream, MemorySegment graph) {
    int status;
    try {
      status = (int) GRAPH_END.invokeExact(stream, graph);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
    check(status);
  }

  static void graphLaunch(MemorySegment graph, MemorySegment stream) {
    int status;
    try {
      status = (int) GRAPH_LAUNCH.invokeExact(graph, stream);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
    check(status);
  }

  static void graphDestroy(MemorySegment graph) {
    int status;
    try {
      status = (int) GRAPH_DESTROY.invokeExact(graph);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
    check(status);
  }

  static void pinnedAllocate(long bytes, MemorySegment address) {
    int status;
    try {
      status = (int) PINNED_ALLOCATE.invokeExact(bytes, address);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
    check(status);
  }

  static void pinnedFree(MemorySegment address) {
    int status;
    try {
      status = (int) PINNED_FREE.invokeExact(address);
    } catch (Throwable thrown) {
      throw rethrow(thrown);
    }
    check(status);
  }
}
