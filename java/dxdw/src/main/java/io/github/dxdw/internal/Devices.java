package io.github.dxdw.internal;

import io.github.dxdw.DxdwException;
import io.github.dxdw.bindings.dxdw_device_info;
import java.lang.System.Logger.Level;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** What the native library knows of devices. */
public final class Devices {
  public static final int CPU = 1;
  public static final int CUDA = 2;

  private Devices() {}

  /** Properties of a device; the capability is 0.0 for the CPU. */
  public record Info(
      String name,
      int multiprocessors,
      int capabilityMajor,
      int capabilityMinor,
      long totalBytes,
      long freeBytes) {}

  /** {@code "cpu"} or, for example, {@code "cuda:0"}. */
  public static String name(int deviceType, int index) {
    return deviceType == CPU ? "cpu" : "cuda:" + index;
  }

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

  /** Properties of a device, those that change as they are now. */
  public static Info info(int deviceType, int index) {
    Library.require();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment info = arena.allocate(dxdw_device_info.layout());
      dxdw_device_info.size(info, (int) dxdw_device_info.sizeof());
      Native.deviceInfo(deviceType, index, info);
      return new Info(
          dxdw_device_info.name(info).getString(0),
          dxdw_device_info.multiprocessors(info),
          dxdw_device_info.capability_major(info),
          dxdw_device_info.capability_minor(info),
          dxdw_device_info.total_bytes(info),
          dxdw_device_info.free_bytes(info));
    }
  }

  /** Zeroed host memory that CUDA devices reach directly, freed when the arena is closed. */
  public static MemorySegment allocatePinned(Arena arena, long bytes) {
    if (bytes > 0 && arena instanceof OwnedArena owner) {
      return owner.adopt(bytes, bytes, () -> pinned(bytes), Devices::freePinned).fill((byte) 0);
    }
    long address = pinned(bytes);
    if (bytes == 0) {
      return MemorySegment.ofAddress(address).reinterpret(0, arena, null);
    }
    boolean owned = false;
    try {
      MemorySegment segment =
          MemorySegment.ofAddress(address)
              .reinterpret(bytes, arena, self -> freePinned(self.address()));
      owned = true;
      return segment.fill((byte) 0);
    } finally {
      if (!owned) {
        freePinned(address);
      }
    }
  }

  private static long pinned(long bytes) {
    return NativeHandle.make(place -> Native.pinnedAllocate(bytes, place)).address();
  }

  /** The cleanup of the arena: what it throws would keep other memory from being freed. */
  private static void freePinned(long address) {
    try {
      Native.pinnedFree(MemorySegment.ofAddress(address));
    } catch (DxdwException failure) {
      // A lost device: the driver gives the memory back at the end of the process.
      System.getLogger(Devices.class.getName()).log(Level.DEBUG, "freeing pinned memory", failure);
    }
  }
}
