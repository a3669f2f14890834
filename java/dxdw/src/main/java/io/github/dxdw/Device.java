package io.github.dxdw;

import io.github.dxdw.internal.Devices;
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
    return Devices.name(type, index);
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
    return isCpu() ? "cpu" : "cuda:" + index;
  }
}
