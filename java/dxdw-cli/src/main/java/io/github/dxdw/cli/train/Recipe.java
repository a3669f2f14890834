package io.github.dxdw.cli.train;

import io.github.dxdw.autograd.Optimizer;
import io.github.dxdw.autograd.Parameter;
import java.lang.foreign.Arena;
import java.util.List;

/**
 * The settings of a training that do not depend on the machine.
 *
 * @param epochs times that all examples are seen
 * @param microBatchRows rows of a micro-batch
 * @param microBatches micro-batches whose gradients are added up for one step
 * @param rule how a step moves the weights
 * @param learningRate in the first epoch; falls to zero along half a cosine
 * @param decay weight decay, as the rule has it
 */
public record Recipe(
    int epochs, int microBatchRows, int microBatches, Rule rule, float learningRate, float decay) {

  /** How a step moves the weights. */
  public enum Rule {
    /** {@link Optimizer#adamW} with its usual numbers. */
    ADAM,
    /** {@link Optimizer#sgd} with a momentum of 0.9. */
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

  /** What moves {@code parameters} as this recipe says; its memory lives as long as the arena. */
  Optimizer optimizer(Arena arena, List<Parameter> parameters) {
    return switch (rule) {
      case ADAM -> Optimizer.adamW(arena, parameters, 0.9, 0.999, 1e-8, decay);
      case MOMENTUM -> Optimizer.sgd(arena, parameters, 0.9, decay, false);
    };
  }

  /** Learning rate in an epoch, counted from 0. */
  float rate(int epoch) {
    return (float) (learningRate * 0.5 * (1 + StrictMath.cos(Math.PI * epoch / epochs)));
  }
}
