package io.github.dxdw.cli.train;

import io.github.dxdw.autograd.Optimizer;
import java.util.Random;

/**
 * Trains a network: each step adds up the gradients of a few micro-batches, moves the weights once
 * and zeroes the gradients. Everything is drawn from the seed, so that two runs end in the same
 * bits.
 */
public final class Trainer {

  private final Network network;
  private final Dataset data;
  private final Recipe recipe;
  private final Optimizer optimizer;
  private final Random random;
  private int epochs;

  /** A trainer of {@code network} on {@code data}; {@code seed} fixes the order of the examples. */
  public Trainer(Network network, Dataset data, Recipe recipe, long seed) {
    this.network = network;
    this.data = data;
    this.recipe = recipe;
    this.optimizer = network.optimizer(recipe);
    this.random = new Random(seed);
  }

  /** Steps of an epoch. */
  public int steps() {
    return Math.ceilDiv(data.size(), recipe.stepRows());
  }

  /**
   * Goes once through all examples in random order.
   *
   * @param onStep runs after each step
   * @return the score of each example at the time when it was seen
   */
  public Score epoch(Runnable onStep) {
    int[] order = Dataset.shuffled(data.size(), random);
    float rate = recipe.rate(epochs++);
    Score score = Score.NONE;
    for (int from = 0; from < order.length; from += recipe.stepRows()) {
      int to = Math.min(from + recipe.stepRows(), order.length);
      score = score.plus(accumulate(order, from, to));
      optimizer.step(rate, 1f / (to - from));
      onStep.run();
    }
    return score;
  }

  /**
   * Adds up the gradients of the examples {@code order[from]} to {@code order[to - 1]}, a
   * micro-batch at a time.
   */
  private Score accumulate(int[] order, int from, int to) {
    Score score = Score.NONE;
    for (int start = from; start < to; start += recipe.microBatchRows()) {
      network.load(data, order, start, Math.min(start + recipe.microBatchRows(), to));
      network.forward();
      score = score.plus(network.score());
      network.backward();
    }
    return score;
  }

  /** Scores a network on examples without training. */
  public static Score evaluate(Network network, Dataset data) {
    int[] order = Dataset.inOrder(data.size());
    Score score = Score.NONE;
    for (int from = 0; from < order.length; from += network.maxRows()) {
      network.load(data, order, from, Math.min(from + network.maxRows(), order.length));
      network.forward();
      score = score.plus(network.score());
    }
    return score;
  }
}
