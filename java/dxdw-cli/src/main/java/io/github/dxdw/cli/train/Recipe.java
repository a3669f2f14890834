package io.github.dxdw.cli.train;

/**
 * The settings of a training that do not depend on the machine.
 *
 * @param epochs times that all examples are seen
 * @param microBatchRows rows of a micro-batch; a step adds up {@value Trainer#MICRO_BATCHES} of
 *     them
 * @param learningRate in the first epoch; falls to zero along half a cosine
 * @param decay share of each weight, times the learning rate, that a step takes away
 */
public record Recipe(int epochs, int microBatchRows, float learningRate, float decay) {

  /** Refuses settings that could not train. */
  public Recipe {
    if (epochs < 1) {
      throw new IllegalArgumentException("epochs: " + epochs + ", expected 1 or more");
    }
    if (microBatchRows < 1) {
      throw new IllegalArgumentException(
          "microBatchRows: " + microBatchRows + ", expected 1 or more");
    }
  }

  /** Rows of a step. */
  public int stepRows() {
    return microBatchRows * Trainer.MICRO_BATCHES;
  }

  /** Learning rate in an epoch, counted from 0. */
  float rate(int epoch) {
    return (float) (learningRate * 0.5 * (1 + StrictMath.cos(Math.PI * epoch / epochs)));
  }
}
