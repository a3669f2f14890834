package io.github.dxdw.cli.train;

import io.github.dxdw.DType;
import io.github.dxdw.Tensor;
import java.util.Arrays;

/**
 * A matrix of fp64 values, each with a bound on how far a computation in smaller types may lie from
 * it. The bounds are carried through each operation, so that the last one covers all roundings
 * before it.
 *
 * <p>A sum of n products in float32, in any order, errs by at most γ·Σ|aᵢbᵢ| with γ = n·u / (1 -
 * n·u) and u = 2⁻²⁴ (Higham, "Accuracy and Stability of Numerical Algorithms", section 3.1).
 * Rounding to a type errs by at most its u times the value, or by half its smallest positive
 * number.
 */
final class Bounded {

  private static final double FLOAT32_UNIT = 0x1p-24;
  private static final double FLOAT32_TINY = 0x1p-126;

  /** Roundings of a share besides those of the sum: exponential functions are good to a few. */
  private static final int SOFTMAX_ROUNDINGS = 16;

  final int rows;
  final int columns;
  final double[] value;
  final double[] error;

  Bounded(int rows, int columns) {
    this.rows = rows;
    this.columns = columns;
    this.value = new double[rows * columns];
    this.error = new double[rows * columns];
  }

  /** What a tensor holds, exactly: a matrix, or a vector as one row. */
  static Bounded of(Tensor tensor) {
    int columns = (int) tensor.size(tensor.rank() - 1);
    Bounded result = new Bounded((int) tensor.elementCount() / columns, columns);
    float[] values = tensor.toFloatArray();
    Arrays.setAll(result.value, i -> values[i]);
    return result;
  }

  Bounded transpose() {
    Bounded result = new Bounded(columns, rows);
    for (int i = 0; i < rows; i++) {
      for (int j = 0; j < columns; j++) {
        result.value[j * rows + i] = value[i * columns + j];
        result.error[j * rows + i] = error[i * columns + j];
      }
    }
    return result;
  }

  /**
   * this += a·b, as a float32 sum to which this is added.
   *
   * @param additions roundings that a product may meet on its way into the sum
   */
  void addProduct(Bounded a, Bounded b, int additions) {
    double gamma = additions * FLOAT32_UNIT / (1 - additions * FLOAT32_UNIT);
    for (int i = 0; i < rows; i++) {
      for (int j = 0; j < columns; j++) {
        int at = i * columns + j;
        double sum = value[at];
        double inherited = error[at];
        double magnitude = Math.abs(sum) + inherited;
        for (int k = 0; k < a.columns; k++) {
          double x = a.value[i * a.columns + k];
          double y = b.value[k * b.columns + j];
          double xError = a.error[i * a.columns + k];
          double yError = b.error[k * b.columns + j];
          sum += x * y;
          inherited += Math.abs(x) * yError + xError * Math.abs(y) + xError * yError;
          magnitude += (Math.abs(x) + xError) * (Math.abs(y) + yError);
        }
        value[at] = sum;
        error[at] = inherited + gamma * magnitude + additions * FLOAT32_TINY;
      }
    }
  }

  /** Adds the one row of {@code row} to every row, exactly. */
  void addRow(Bounded row) {
    for (int i = 0; i < value.length; i++) {
      value[i] += row.value[i % columns];
      error[i] += row.error[i % columns];
    }
  }

  /** max(0, this). */
  Bounded relu() {
    Bounded result = new Bounded(rows, columns);
    for (int i = 0; i < value.length; i++) {
      result.value[i] = Math.max(0, value[i]);
      result.error[i] = error[i];
    }
    return result;
  }

  /**
   * This, where {@code output} is positive, else 0. Where its sign is in doubt, the bound covers
   * both.
   */
  Bounded reluGradient(Bounded output) {
    Bounded result = new Bounded(rows, columns);
    for (int i = 0; i < value.length; i++) {
      boolean positive = output.value[i] > 0;
      boolean certain = Math.abs(output.value[i]) > output.error[i];
      result.value[i] = positive ? value[i] : 0;
      result.error[i] = certain ? (positive ? error[i] : 0) : Math.abs(value[i]) + error[i];
    }
    return result;
  }

  /**
   * softmax(row) - onehot(label) of each row, computed in float32. An error of at most d in all
   * logits multiplies a share by exp(±2d); exponentials, their sum and the quotient add some more.
   */
  Bounded softmaxGradient(int[] labels) {
    Bounded result = new Bounded(rows, columns);
    for (int i = 0; i < rows; i++) {
      double[] row = new double[columns];
      double worst = 0;
      for (int j = 0; j < columns; j++) {
        row[j] = value[i * columns + j];
        worst = Math.max(worst, error[i * columns + j]);
      }
      softmaxLoss(row, labels[i]);
      for (int j = 0; j < columns; j++) {
        double share = row[j] + (j == labels[i] ? 1 : 0);
        result.value[i * columns + j] = row[j];
        result.error[i * columns + j] =
            share * (Math.expm1(2 * worst) + (columns + SOFTMAX_ROUNDINGS) * FLOAT32_UNIT);
      }
    }
    return result.roundTo(DType.FLOAT32);
  }

  /** This, rounded to a type. */
  Bounded roundTo(DType type) {
    double unit =
        switch (type) {
          case FLOAT32 -> FLOAT32_UNIT;
          case FLOAT16 -> 0x1p-11;
          case BFLOAT16 -> 0x1p-8;
          case INT32 -> throw new IllegalArgumentException("no float type");
        };
    double tiny = type == DType.FLOAT16 ? 0x1p-25 : FLOAT32_TINY;
    for (int i = 0; i < value.length; i++) {
      error[i] += unit * (Math.abs(value[i]) + error[i]) + tiny;
    }
    return this;
  }

  /**
   * Returns -log softmax(logits)[label] and replaces the logits by the loss's gradient:
   * softmax(logits) - onehot(label).
   */
  static double softmaxLoss(double[] logits, int label) {
    double max = Arrays.stream(logits).max().orElseThrow();
    double sum = 0;
    double labelLogit = logits[label];
    for (int c = 0; c < logits.length; c++) {
      logits[c] = StrictMath.exp(logits[c] - max);
      sum += logits[c];
    }
    for (int c = 0; c < logits.length; c++) {
      logits[c] = logits[c] / sum - (c == label ? 1 : 0);
    }
    return StrictMath.log(sum) + max - labelLogit;
  }
}
