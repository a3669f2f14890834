package io.github.dxdw;

import io.github.dxdw.internal.Arguments;
import io.github.dxdw.internal.Devices;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/**
 * Where memory lies and work is done: the CPU, or an NVIDIA GPU. All operands of a call lie on one
 * device, and that is where it runs; there is no current device. Immutable.
 */
public final class Device {
  private static final Device HOST = new Device(Devices.CPU, 0);

  private final int type;
  private final int index;

  private Device(int type, int index) {
    this.type = type;
    this.index = index;
  }

  /**
   * The CPU.
   *
   * @return the CPU
   */
  public static Device cpu() {
    return HOST;
  }

  /**
   * A CUDA device, whether it is there or not.
   *
   * @param index its number, from 0
   * @return the device
   * @throws IllegalArgumentException if the number is negative
   */
  public static Device cuda(int index) {
    if (index < 0) {
      throw new IllegalArgumentException("index: " + index + " is negative");
    }
    return new Device(Devices.CUDA, index);
  }

  /**
   * The CPU and all CUDA devices that the library sees. Never throws.
   *
   * @return the devices, the CPU first
   */
  public static List<Device> all() {
    List<Device> devices = new ArrayList<>();
    devices.add(HOST);
    int gpus = Dxdw.isAvailable() ? Devices.count(Devices.CUDA) : 0;
    for (int i = 0; i < gpus; ++i) {
      devices.add(cuda(i));
    }
    return List.copyOf(devices);
  }

  /**
   * Can work be done on this device? Never throws.
   *
   * @return true if so
   */
  public boolean isAvailable() {
    return unavailabilityCause().isEmpty();
  }

  /**
   * Why this device can't be used. Never throws.
   *
   * @return the reason; {@code ""} when the device is available
   */
  public String unavailabilityCause() {
    return Devices.unavailabilityCause(type, index);
  }

  /**
   * The name of the device's model.
   *
   * @return the name
   * @throws DeviceException if the device is not available
   * @throws LibraryLoadException if the native library can't be loaded
   */
  public String name() {
    return info().name();
  }

  /**
   * The memory of the device.
   *
   * @return bytes in all
   * @throws DeviceException if the device is not available
   * @throws LibraryLoadException if the native library can't be loaded
   */
  public long totalBytes() {
    return info().totalBytes();
  }

  /**
   * The memory of the device that nobody uses at the moment.
   *
   * @return bytes
   * @throws DeviceException if the device is not available
   * @throws LibraryLoadException if the native library can't be loaded
   */
  public long freeBytes() {
    return info().freeBytes();
  }

  /**
   * The processors that share the work.
   *
   * @return multiprocessors of a GPU; hardware threads of the CPU that this process may use
   * @throws DeviceException if the device is not available
   * @throws LibraryLoadException if the native library can't be loaded
   */
  public int multiprocessors() {
    return info().multiprocessors();
  }

  /**
   * What a CUDA device can do.
   *
   * @return the compute capability, such as {@code "9.0"}; {@code ""} for the CPU
   * @throws DeviceException if the device is not available
   * @throws LibraryLoadException if the native library can't be loaded
   */
  public String capability() {
    Devices.Info info = info();
    return isCpu() ? "" : info.capabilityMajor() + "." + info.capabilityMinor();
  }

  private Devices.Info info() {
    return Devices.info(type, index);
  }

  /**
   * Allocates zeroed host memory that CUDA devices reach directly: a copy between it and a device
   * goes at full speed, and on a stream it goes on after the call has returned. Wrap it with {@link
   * Tensor#of(MemorySegment, DType, long...)}. The system can't move it out of the way, so there
   * should be little of it.
   *
   * @param arena owner of the memory; closing it waits for the copies that use the memory
   * @param bytes size
   * @return the memory, aligned to pages
   * @throws IllegalArgumentException if the arena is null or the size negative
   * @throws NativeMemoryException if there is not enough memory
   * @throws DeviceException if no CUDA device is available
   * @throws LibraryLoadException if the native library can't be loaded
   */
  public static MemorySegment allocatePinned(Arena arena, long bytes) {
    Arguments.present(arena, "arena");
    if (bytes < 0) {
      throw new IllegalArgumentException("bytes: " + bytes + " is negative");
    }
    return Devices.allocatePinned(arena, bytes);
  }

  boolean isCpu() {
    return type == Devices.CPU;
  }

  int index() {
    return index;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Device device && device.type == type && device.index == index;
  }

  @Override
  public int hashCode() {
    return 31 * type + index;
  }

  /** Returns {@code "cpu"} or, for example, {@code "cuda:0"}. */
  @Override
  public String toString() {
    return Devices.name(type, index);
  }
}
