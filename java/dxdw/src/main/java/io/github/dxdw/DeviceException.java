package io.github.dxdw;

/**
 * A device is not there or failed a call. The message has the driver's name for the error. Nothing
 * is known of the contents of the outputs of a call that failed so.
 */
public class DeviceException extends DxdwException {
  private static final long serialVersionUID = 1L;

  /**
   * Makes an exception.
   *
   * @param status {@code dxdw_status} of the native library
   * @param message what the device failed to do, and why
   */
  public DeviceException(int status, String message) {
    super(status, message);
  }
}
