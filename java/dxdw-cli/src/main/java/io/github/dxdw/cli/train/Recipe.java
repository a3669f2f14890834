package io.github.dxdw.cli.train;

import java.util.List;

/**
 * The settings of a training that do not depend on the machine.
 *
 * @param epochs times that all examples are seen
 * @param microBatchRows rows of a micro-batch
 * @param microBatches micro-batches whose gradients are added up for one step
 * @param rule how a step moves the weights
 * @param learningRate in the first epoch; falls to zero along half a cosine
 * @param decay share of each weight, times the learning rate, that a step takes away
 */
public record Recipe(
    int epochs, int microBatchRows, int microBatches, Rule rule, float learningRate, float decay) {

  /** How a step moves the weights. */
  public enum Rule {
    /** See {@link Adam}. */
    ADAM,
    /** See {@link Momentum}. */
    MOMENTUM
  }

  /** Refuses settings that could not train. */
  public Recipe {
    if (epochs < 1) {
      throw new IllegalArgumentException("epochs: " + epochs + ", expected 1 or more");
    }
    if (microBatchRows < 1) {
      throw new IllegalArgumentException(
          "microBatchRows: " + microBatchRows + ", expected 1 or more");
    }
    if (microBatches < 1) {
      throw new IllegalArgumentException("microBatches: " + microBatches + ", expected 1 or more");
    }
  }

  /** Rows of a step. */
  public int stepRows() {
    return microBatchRows * microBatches;
  }

  /** What moves {@code parameters} as this recipe says. */
  Optimiser optimiser(List<Parameter> parameters, Team team) {
    return switch (rule) {
      case ADAM -> new Adam(parameters, decay);
      case MOMENTUM -> new Momentum(parameters, decay, team);
    };
  }

  /** Learning rate in an epoch, counted from 0. */
  float rate(int epoch) {
    return (float) (learningRate * 0.5 * (1 + StrictMath.cos(Math.PI * epoch / epochs)));
  }
}
