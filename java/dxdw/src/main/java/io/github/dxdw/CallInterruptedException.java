package io.github.dxdw;

/**
 * A call with {@link Options#withInterruptible} gave up because its thread was interrupted. The
 * thread's interrupt status is still set. Of the outputs, the leading {@link #done()} of {@link
 * #parts()} rows (columns for the weighted sum's backward) are as after the whole call, the others
 * as before it.
 */
public class CallInterruptedException extends DxdwException {
  private static final long serialVersionUID = 1L;

  /** Rows that are written. */
  private final long done;

  /** Rows that were to be written. */
  private final long parts;

  /**
   * Makes an exception.
   *
   * @param function name of the method that gave up
   * @param done rows that are written
   * @param parts rows that were to be written
   */
  public CallInterruptedException(String function, long done, long parts) {
    super(0, function + ": interrupted, " + done + " of " + parts + " rows are written");
    this.done = done;
    this.parts = parts;
  }

  /**
   * Tells how far the call came.
   *
   * @return leading rows that are written
   */
  public long done() {
    return done;
  }

  /**
   * Tells how far the call was to come.
   *
   * @return all rows of the output
   */
  public long parts() {
    return parts;
  }
}
