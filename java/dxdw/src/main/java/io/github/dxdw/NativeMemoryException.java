package io.github.dxdw;

/** Memory was refused, on the host or on a device. The message tells the bytes asked for. */
public class NativeMemoryException extends DxdwException {
  private static final long serialVersionUID = 1L;

  /**
   * Makes an exception with the status for lack of memory.
   *
   * @param message bytes asked for and, where known, free
   */
  public NativeMemoryException(String message) {
    super(2, message);
  }
}
