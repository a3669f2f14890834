package io.github.dxdw;

/**
 * The native library could not be loaded. The message lists every attempt with its cause, and the
 * way out.
 */
public class LibraryLoadException extends DxdwException {
  private static final long serialVersionUID = 1L;

  /**
   * Makes an exception.
   *
   * @param message every attempt with its cause, and the way out
   * @param cause what the last attempt threw, or null
   */
  public LibraryLoadException(String message, Throwable cause) {
    super(0, message, cause);
  }
}
