package io.github.dxdw.internal;

/**
 * What all views of one piece of memory share: a count of the writes through this library, by which
 * a change in place is noticed. Writes by several threads at once may be counted as one.
 */
public final class Storage {
  private long version;

  /** How often the memory was written. */
  public long version() {
    return version;
  }

  /** Counts a write. */
  public void written() {
    ++version;
  }
}
