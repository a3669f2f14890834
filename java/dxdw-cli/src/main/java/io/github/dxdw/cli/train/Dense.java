package io.github.dxdw.cli.train;

import io.github.dxdw.Accumulate;
import io.github.dxdw.DType;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Options;
import io.github.dxdw.Reduction;
import io.github.dxdw.Tensor;
import java.lang.foreign.Arena;
import java.util.List;
import java.util.Random;

/**
 * A fully connected layer, Y = X·W + b, with room for the rows of one batch. X is [rows, inputs], W
 * [inputs, outputs], b [1, outputs], Y [rows, outputs].
 */
final class Dense {

  private static final Options ADD = Options.defaults().withAccumulate(Accumulate.ADD);

  final int inputs;
  final int outputs;
  final Parameter weights;
  final Parameter bias;

  /** X, and dX = dY·Wᵀ. */
  final Mirror input;

  final Mirror inputGradient;

  /** Y, float32 as the kernel's sums are, and dY. */
  final Mirror output;

  final Mirror outputGradient;

  private final Backend backend;

  /** A column of ones, [rows, 1]: one element seen through a row stride of 0. */
  private final Tensor ones;

  Dense(String name, Arena arena, Backend backend, int rows, int inputs, int outputs) {
    this.inputs = inputs;
    this.outputs = outputs;
    this.backend = backend;
    DType type = backend.type();
    weights = new Parameter(name + " dW", arena, backend, type, inputs, outputs);
    bias = new Parameter(name + " db", arena, backend, DType.FLOAT32, 1, outputs);
    input = Mirror.allocate(arena, backend, type, rows, inputs);
    inputGradient = Mirror.allocate(arena, backend, DType.FLOAT32, rows, inputs);
    output = Mirror.allocate(arena, backend, DType.FLOAT32, rows, outputs);
    outputGradient = Mirror.allocate(arena, backend, type, rows, outputs);
    Mirror one = Mirror.allocate(arena, backend, type, 1, 1);
    one.set(0, 1f);
    one.push();
    ones = one.operand().expand(rows, 1);
  }

  /**
   * Draws the weights evenly from ±sqrt(6 / inputs), which keeps the size of activations through
   * ReLU layers.
   */
  void initialise(Random random) {
    double limit = Math.sqrt(6.0 / inputs);
    Mirror values = weights.values();
    for (long i = 0; i < values.elementCount(); i++) {
      values.set(i, (float) (limit * (2 * random.nextDouble() - 1)));
    }
    values.push();
  }

  /** Y = b, then Y += X·W, for the first {@code rows} rows. */
  void forward(int rows) {
    Tensor y = output.operand(rows);
    y.copyFrom(bias.values().operand().expand(rows, outputs));
    Dxdw.y(input.operand(rows), weights.values().operand(), y, ADD);
    output.pull(rows);
  }

  /** dW += Xᵀ·dY and db += 1ᵀ·dY, each contracted over the rows. */
  void accumulateGradients(int rows) {
    Tensor dy = outputGradient.operand(rows);
    int split = Math.min(backend.split(), rows);
    Options options = Options.defaults();
    weights
        .gradient()
        .accumulateDw(input.operand(rows), dy, split, Reduction.DETERMINISTIC, options);
    bias.gradient()
        .accumulateDw(ones.slice(0, 0, rows), dy, split, Reduction.DETERMINISTIC, options);
  }

  /** dX = dY·Wᵀ. The transpose is a matter of strides; W is not copied. */
  void backward(int rows) {
    Dxdw.dx(outputGradient.operand(rows), weights.values().operand(), inputGradient.operand(rows));
    inputGradient.pull(rows);
  }

  List<Parameter> parameters() {
    return List.of(weights, bias);
  }
}
