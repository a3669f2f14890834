package io.github.dxdw.internal;

import io.github.dxdw.bindings.dxdw_device_info;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/** What the native library knows of devices, and their memory. */
public final class Devices {
  public static final int CPU = 1;
  public static final int CUDA = 2;

  private Devices() {}

  /** Number of devices of a type. */
  public static int count(int deviceType) {
    Library.require();
    return Native.deviceCount(deviceType);
  }

  /** Why a device can't be used; empty when it can. Never throws. */
  public static String unavailabilityCause(int deviceType, int index) {
    if (Library.failure() != null) {
      return Library.failure().getMessage();
    }
    return Native.deviceUnavailable(deviceType, index);
  }

  /** The name of a device's model. */
  public static String name(int deviceType, int index) {
    Library.require();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment info = arena.allocate(dxdw_device_info.layout());
      dxdw_device_info.size(info, (int) dxdw_device_info.sizeof());
      Native.deviceInfo(deviceType, index, info);
      return dxdw_device_info.name(info).getString(0);
    }
  }

  /** Zeroed memory of a CUDA device as a segment of size 0, freed when the arena is closed. */
  static MemorySegment allocateZeroed(Arena arena, int index, long bytes) {
    MemorySegment address;
    try (Arena local = Arena.ofConfined()) {
      MemorySegment result = local.allocate(ValueLayout.ADDRESS);
      Native.memoryAllocate(index, bytes, MemorySegment.NULL, result);
      address = result.get(ValueLayout.ADDRESS, 0);
    }
    boolean owned = false;
    try {
      if (bytes > 0) {
        Native.memorySet(index, address, 0, bytes, MemorySegment.NULL);
      }
      MemorySegment segment =
          address.reinterpret(
              0, arena, freed -> Native.memoryFree(index, freed, MemorySegment.NULL));
      owned = true;
      return segment;
    } finally {
      if (!owned) {
        Native.memoryFree(index, address, MemorySegment.NULL);
      }
    }
  }

  /** As {@link #allocateZeroed}, once the library is there. */
  public static MemorySegment allocate(Arena arena, int index, long bytes) {
    Library.require();
    return allocateZeroed(arena, index, bytes);
  }
}
