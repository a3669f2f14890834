package io.github.dxdw.cli.train;

/**
 * How well a network did on some examples.
 *
 * @param examples how many
 * @param lossSum the sum of their cross-entropies
 * @param correct how many were classified right
 */
public record Score(int examples, double lossSum, int correct) {

  /** Of no examples. */
  public static final Score NONE = new Score(0, 0, 0);

  /** Of both sets of examples together. */
  public Score plus(Score other) {
    return new Score(examples + other.examples, lossSum + other.lossSum, correct + other.correct);
  }

  /** Mean loss of an example. */
  public double loss() {
    return lossSum / examples;
  }

  /** Share of the examples that were classified right. */
  public double accuracy() {
    return (double) correct / examples;
  }
}
