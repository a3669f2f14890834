package io.github.dxdw.cli.train;

import io.github.dxdw.DType;
import io.github.dxdw.GradientBuffer;
import io.github.dxdw.Tensor;
import java.lang.foreign.Arena;

/**
 * What training changes: float32 values, which the optimiser updates, the operand that the kernels
 * read, and the float32 buffer that adds up the gradient over the micro-batches of a step.
 */
final class Parameter {

  private final String name;
  private final Mirror values;
  private final GradientBuffer gradient;

  /** A copy of the gradient in host memory; null where it lies there already. */
  private final Tensor hostGradient;

  /** A parameter of zeros; its memory lives as long as {@code arena}. */
  Parameter(String name, Arena arena, Backend backend, DType type, long... shape) {
    this.name = name;
    this.values = Mirror.allocate(arena, backend, type, shape);
    this.gradient = backend.allocateGradient(arena, shape);
    this.hostGradient = backend.onHost() ? null : Tensor.allocate(arena, DType.FLOAT32, shape);
  }

  String name() {
    return name;
  }

  Mirror values() {
    return values;
  }

  GradientBuffer gradient() {
    return gradient;
  }

  /**
   * The gradient added up so far, in host memory: compact float32, overwritten by the next call or
   * accumulation.
   */
  Tensor readGradient() {
    if (hostGradient == null) {
      return gradient.tensor();
    }
    hostGradient.copyFrom(gradient.tensor());
    return hostGradient;
  }
}
