package io.github.dxdw;

/**
 * A call failed behind the checks of its arguments. {@link #status()} is the {@code dxdw_status} of
 * the native library. Subclasses tell the kinds that a caller may want to handle.
 */
public class DxdwException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** The status of this failure. */
  private final int status;

  /**
   * Makes an exception without a cause.
   *
   * @param status {@code dxdw_status} of the native library; 0 when the failure lies outside of it
   * @param message what failed, and why
   */
  public DxdwException(int status, String message) {
    super(message);
    this.status = status;
  }

  /**
   * Makes an exception with a cause.
   *
   * @param status {@code dxdw_status} of the native library; 0 when the failure lies outside of it
   * @param message what failed, and why
   * @param cause what led to it, or null
   */
  public DxdwException(int status, String message, Throwable cause) {
    super(message, cause);
    this.status = status;
  }

  /**
   * Tells the status of the native library.
   *
   * @return a {@code dxdw_status}: 2 = out of memory, 3 = unsupported, 4 = device unavailable, 5 =
   *     device error, 6 = device lost; 0 when the failure lies outside of the native library
   */
  public int status() {
    return status;
  }
}
