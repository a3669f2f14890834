package io.github.dxdw.cli.train;

/** Moves the parameters of a network by their gradients. */
interface Optimiser {

  /** Moves all parameters by their gradients, each multiplied by {@code scale} first. */
  void step(float rate, float scale);
}
