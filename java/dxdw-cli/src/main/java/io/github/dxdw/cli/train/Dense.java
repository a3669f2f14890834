package io.github.dxdw.cli.train;

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
 * [inputs, outputs], b [1, outputs], Y [rows, outputs]. Whoever reads the output adds b.
 */
final class Dense {

  final int inputs;
  final int outputs;
  final Parameter weights;
  final Parameter bias;

  /** X, and dX = dY·Wᵀ. */
  final Mirror input;

  final Mirror inputGradient;

  /** X·W, float32 as the kernel's sums are, and dY. */
  final Mirror output;

  final Mirror outputGradient;

  private final Backend backend;

  /** A column of ones, [rows, 1]: one element seen through a row stride of 0. */
  private final Tensor ones;

  /** As many ones as the last batch had rows. */
  private Tensor rowsOfOnes;

  /** Rows, for passes over the values in plain Java: loops over arrays are vectorised. */
  private final float[] biasLine;

  /** Of each member of the team. */
  private final float[][] lines;

  private final float[][] gradientLines;
  private final Team team;

  Dense(String name, Arena arena, Backend backend, Team team, int rows, int inputs, int outputs) {
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
    rowsOfOnes = ones;
    this.team = team;
    biasLine = new float[outputs];
    lines = new float[team.members()][outputs];
    gradientLines = new float[team.members()][outputs];
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

  /** X·W for the first {@code rows} rows. */
  void forward(int rows) {
    Dxdw.y(input.operand(rows), weights.values().operand(), output.operand(rows));
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
    bias.gradient().accumulateDw(onesFor(rows), dy, split, Reduction.DETERMINISTIC, options);
  }

  Tensor onesFor(int rows) {
    if (rowsOfOnes.size(0) != rows) {
      rowsOfOnes = ones.slice(0, 0, rows);
    }
    return rowsOfOnes;
  }

  /** dX = dY·Wᵀ. The transpose is a matter of strides; W is not copied. */
  void backward(int rows) {
    Dxdw.dx(outputGradient.operand(rows), weights.values().operand(), inputGradient.operand(rows));
    inputGradient.pull(rows);
  }

  /** The input of the layer {@code above} = max(0, Y), where Y = X·W + b. */
  void activate(int rows, Dense above) {
    bias.values().readRow(0, biasLine);
    team.run(
        rows,
        (long) rows * outputs,
        (member, from, to) -> {
          float[] line = lines[member];
          for (int row = from; row < to; row++) {
            output.readRow(row, line);
            addAndRectify(line, biasLine);
            above.input.writeRow(row, line);
          }
        });
    above.input.push(rows);
  }

  private static void addAndRectify(float[] y, float[] b) {
    for (int i = 0; i < y.length; i++) {
      y[i] = Math.max(0f, y[i] + b[i]);
    }
  }

  /** dY = the input gradient of the layer {@code above} where its input is above 0, else 0. */
  void activateBackward(int rows, Dense above) {
    team.run(
        rows,
        (long) rows * outputs,
        (member, from, to) -> {
          float[] line = lines[member];
          float[] gradientLine = gradientLines[member];
          for (int row = from; row < to; row++) {
            above.input.readRow(row, line);
            above.inputGradient.readRow(row, gradientLine);
            keepWherePositive(gradientLine, line);
            outputGradient.writeRow(row, gradientLine);
          }
        });
    outputGradient.push(rows);
  }

  /** g = 0 where x is 0; x is never below. */
  private static void keepWherePositive(float[] g, float[] x) {
    for (int i = 0; i < g.length; i++) {
      g[i] *= Math.signum(x[i]);
    }
  }

  /** Row {@code row} of Y = X·W + b, into {@code values}. */
  void readOutput(int row, double[] values) {
    float[] line = lines[0];
    output.readRow(row, line);
    bias.values().readRow(0, biasLine);
    for (int i = 0; i < values.length; i++) {
      values[i] = line[i] + biasLine[i];
    }
  }

  List<Parameter> parameters() {
    return List.of(weights, bias);
  }
}
