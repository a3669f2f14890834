package io.github.dxdw;

/** Whether a result is added to what the output holds or takes its place. */
public enum Accumulate {
  /** Gradients of weights and biases, and norms, are added; everything else is assigned. */
  DEFAULT,
  /** The result is added to what the output holds, with one rounding. Adding to NaN leaves NaN. */
  ADD,
  /** The result takes the place of what the output holds, which is never read. */
  ASSIGN
}
