package io.github.dxdw;

/**
 * An earlier fault broke the device for the rest of the process. The message tells the first cause.
 * Other devices and the CPU go on working.
 */
public class DeviceLostException extends DeviceException {
  private static final long serialVersionUID = 1L;

  /**
   * Makes an exception with the status for a lost device.
   *
   * @param message the first cause
   */
  public DeviceLostException(String message) {
    super(6, message);
  }
}
