package io.github.dxdw.internal;

/**
 * A run in which the calls of one thread are checked and planned, not made: it tells what the calls
 * would need. Their operands may be views of memory that is not there.
 */
public final class Rehearsal {
  private long calls;
  private long workspaceBytes;

  /** Calls so far; copies don't count. */
  public long calls() {
    return calls;
  }

  /** The largest workspace of a call so far, in bytes. */
  public long workspaceBytes() {
    return workspaceBytes;
  }

  /** Whether the calling thread is in a rehearsal. */
  public static boolean isOn() {
    Library.require();
    return Frame.current().isRehearsing();
  }

  /** Runs {@code work} on this thread in rehearsal. */
  public void run(Runnable work) {
    run(this, work);
  }

  /** Runs {@code work} on this thread as ever, whether or not there is a rehearsal. */
  public static void outside(Runnable work) {
    run(null, work);
  }

  private static void run(Rehearsal rehearsal, Runnable work) {
    Library.require();
    Frame frame = Frame.current();
    Rehearsal outer = frame.rehearse(rehearsal);
    try {
      work.run();
    } finally {
      frame.rehearse(outer);
    }
  }

  void add(long workspace) {
    ++calls;
    workspaceBytes = Math.max(workspaceBytes, workspace);
  }
}
