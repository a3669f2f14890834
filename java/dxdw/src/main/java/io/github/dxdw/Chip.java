package io.github.dxdw;

/**
 * What the planner needs to know of a GPU. The GPU itself need not be there: {@link Dxdw#planY},
 * {@link Dxdw#planDx} and {@link Dxdw#planDw} tell what would run on it. Immutable.
 *
 * @param capability compute capability, major times 10 plus minor: 90 for 9.0
 * @param multiprocessors number of its multiprocessors
 */
public record Chip(int capability, int multiprocessors) {
  /**
   * Checks the numbers.
   *
   * @throws IllegalArgumentException if the capability is below 10 or there are no multiprocessors
   */
  public Chip {
    if (capability < 10) {
      throw new IllegalArgumentException("capability: " + capability + " is below 10");
    }
    if (multiprocessors < 1) {
      throw new IllegalArgumentException("multiprocessors: " + multiprocessors + " is below 1");
    }
  }

  /**
   * The chip of a CUDA device.
   *
   * @param device a CUDA device that is there
   * @return its chip
   * @throws IllegalArgumentException if the device is null or the CPU
   * @throws DeviceException if the device is not available
   */
  public static Chip of(Device device) {
    if (device == null || device.isCpu()) {
      throw new IllegalArgumentException("device: " + device + " is no CUDA device");
    }
    return new Chip(
        Integer.parseInt(device.capability().replace(".", "")), device.multiprocessors());
  }
}
