package io.github.dxdw;

/** How the slices of a split weight gradient are added up. */
public enum Reduction {
  /** Slices may be added in any order: the last bits may differ from run to run. */
  ATOMIC,
  /**
   * Slices are added in rising order: one bit pattern for given inputs, split, types and kind of
   * device, whatever the number of threads or the load.
   */
  DETERMINISTIC
}
