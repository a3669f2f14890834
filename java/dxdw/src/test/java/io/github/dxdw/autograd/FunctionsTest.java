package io.github.dxdw.autograd;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.dxdw.DType;
import io.github.dxdw.Reduction;
import io.github.dxdw.Tensor;
import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.List;
import java.util.function.DoubleUnaryOperator;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * The functions of the library against central differences, in each type and with gradients of all
 * layouts coming in.
 */
class FunctionsTest {
  private final Arena arena = Arena.ofAuto();

  @BeforeEach
  void requireDevice() {
    On.requireDevice();
  }

  private Parameter random(String name, DType type, long... shape) {
    return On.random(arena, name, type, shape);
  }

  private static void assertPasses(
      Function function, GradCheck.Reference reference, Variable... inputs) {
    GradCheck.Report report = GradCheck.run(function, reference, inputs);
    assertTrue(report.passed(), function.name() + ": " + report);
  }

  /** y[t, n] = sum over k of x[t, k] w[k, n] + b[n], with b left out where there is none. */
  private static GradCheck.Reference linear(int inputs, int outputs) {
    return in -> {
      double[] y = new double[in[0].length / inputs * outputs];
      for (int i = 0; i < y.length; ++i) {
        y[i] = in.length > 2 ? in[2][i % outputs] : 0;
        for (int k = 0; k < inputs; ++k) {
          y[i] += in[0][i / outputs * inputs + k] * in[1][k * outputs + i % outputs];
        }
      }
      return y;
    };
  }

  @ParameterizedTest
  @EnumSource(names = {"FLOAT32", "FLOAT16", "BFLOAT16"})
  void linear(DType type) {
    Parameter x = random("x", type, 5, 4);
    Parameter w = random("w", type, 4, 3);
    Parameter b = random("b", type, 3);
    Parameter wide = Parameter.of(arena, "wide", b.master().copy(arena));
    GradCheck.Reference reference = linear(4, 3);
    assertPasses(Functions.LINEAR, reference, x, w);
    assertPasses(Functions.LINEAR, reference, x, w, b);
    assertPasses(Functions.LINEAR, reference, x, w, wide);
    assertPasses(Functions.LINEAR, reference, x, Variable.constant(w.tensor()), b);
    assertPasses(Functions.LINEAR, reference, Variable.constant(x.tensor()), w, b);
    assertPasses(Functions.LINEAR, reference, x, w, Variable.constant(b.tensor()));
    for (int split : new int[] {1, 3, 100}) {
      assertPasses(Functions.linear(split, Reduction.DETERMINISTIC, null), reference, x, w, b);
      assertPasses(Functions.linear(split, Reduction.ATOMIC, null), reference, x, w, b);
    }
    assertPasses(Functions.LINEAR, linear(4, 3), random("none", type, 0, 4), w, b);
  }

  @ParameterizedTest
  @EnumSource(names = {"FLOAT32", "FLOAT16", "BFLOAT16"})
  @DisplayName("guards against leading dimensions that a linear layer refuses, or mixes up")
  void linearOfAnyRank(DType type) {
    Parameter w = random("w", type, 4, 3);
    Parameter b = random("b", type, 3);
    GradCheck.Reference reference = linear(4, 3);
    for (long[] shape : new long[][] {{4}, {1, 4}, {2, 5, 4}, {2, 1, 3, 4}, {2, 0, 4}}) {
      Parameter x = random("x", type, shape);
      assertPasses(Functions.LINEAR, reference, x, w);
      assertPasses(Functions.LINEAR, reference, x, w, b);
      assertPasses(Functions.LINEAR, reference, x, Variable.constant(w.tensor()), b);
      assertPasses(Functions.linear(2, Reduction.ATOMIC, null), reference, x, w, b);
    }
  }

  @Test
  @DisplayName("guards against rows that no one stride leads through, forwards and backwards")
  void linearOfTransposedBatches() {
    Parameter x = random("x", DType.FLOAT32, 2, 4, 5);
    Parameter w = random("w", DType.FLOAT32, 4, 3);
    Parameter copy = Parameter.of(arena, "copy", x.tensor().transpose().copy(arena));
    Tensor g = random("g", DType.FLOAT32, 5, 2, 3).tensor().permute(1, 0, 2);
    for (int round = 0; round < 2; ++round) {
      try (Tape tape = new Tape(On.DEVICE)) {
        Tape.Needs needs =
            tape.plan(() -> tape.backward(tape.apply(Functions.LINEAR, x.transpose(), w), g));
        assertEquals(3 + round, needs.calls());
        // The second round adds to what the first one left.
        Variable y = tape.apply(Functions.LINEAR, x.transpose(), w);
        assertArrayEquals(new long[] {2, 5, 3}, y.tensor().shape());
        float[] values = y.tensor().toFloatArray();
        tape.backward(y, g);
        tape.reset();
        Variable same = tape.apply(Functions.LINEAR, copy, Variable.constant(w.tensor()));
        assertArrayEquals(same.tensor().toFloatArray(), values);
        tape.backward(same, g.copy(arena));
      }
      assertArrayEquals(copy.gradient().toFloatArray(), x.gradient().transpose().toFloatArray());
    }
  }

  @Test
  @DisplayName("guards against a gradient of float32 outputs that meets operands of 16 bits")
  void linearWithAFloat32Output() {
    Parameter w = Parameter.of(arena, "w", of(new float[][] {{1, 2}}).to(DType.BFLOAT16, arena));
    Parameter b = Parameter.of(arena, "b", of(new float[][] {{0.001f, 0}}).select(0, 0));
    Variable x = Variable.constant(of(new float[][] {{3}}).to(DType.BFLOAT16, arena));
    try (Tape tape = new Tape(On.DEVICE)) {
      Variable y = tape.apply(Functions.linear(0, Reduction.DETERMINISTIC, DType.FLOAT32), x, w, b);
      assertEquals(DType.FLOAT32, y.tensor().dtype());
      assertArrayEquals(new float[] {3.001f, 6}, y.tensor().toFloatArray());
      tape.backward(y, of(new float[][] {{1, 2}}));
      assertArrayEquals(new float[] {3, 6}, w.gradient().toFloatArray());
      assertArrayEquals(new float[] {1, 2}, b.gradient().toFloatArray());
    }
  }

  private Tensor of(float[][] rows) {
    return Tensor.of(arena, rows).to(On.DEVICE, arena);
  }

  private static GradCheck.Reference each(DoubleUnaryOperator operator) {
    return in -> Arrays.stream(in[0]).map(operator).toArray();
  }

  @ParameterizedTest
  @EnumSource(names = {"FLOAT32", "FLOAT16", "BFLOAT16"})
  void activations(DType type) {
    for (long[] shape : new long[][] {{7}, {3, 4}, {2, 3, 2}}) {
      Parameter x = random("x", type, shape);
      assertPasses(Functions.RELU, each(v -> Math.max(v, 0)), x);
      assertPasses(Functions.GELU, each(v -> v * (1 + erf(v / Math.sqrt(2))) / 2), x);
    }
  }

  /** The error function by its power series, which is good to 1e-15 for |x| up to 1. */
  private static double erf(double x) {
    double term = x;
    double sum = x;
    for (int n = 1; n < 40; ++n) {
      term *= -x * x / n;
      sum += term / (2 * n + 1);
    }
    return 2 / Math.sqrt(Math.PI) * sum;
  }

  @ParameterizedTest
  @EnumSource(names = {"FLOAT32", "FLOAT16", "BFLOAT16"})
  void sums(DType type) {
    Parameter a = random("a", type, 3, 4);
    GradCheck.Reference sum =
        in -> {
          double[] y = in[0].clone();
          for (int i = 0; i < y.length; ++i) {
            y[i] += in[1][i % in[1].length];
          }
          return y;
        };
    assertPasses(Functions.ADD, sum, a, random("b", type, 3, 4));
    assertPasses(Functions.ADD, sum, a, random("b", type, 4));
    assertPasses(Functions.ADD, sum, random("a3", type, 2, 3, 4), random("b", type, 4));
    assertPasses(Functions.ADD, sum, a, Variable.constant(random("b", type, 4).tensor()));
    assertPasses(
        Functions.MEAN,
        in -> new double[] {Arrays.stream(in[0]).average().orElseThrow()},
        random("x", type, 8));
  }

  @ParameterizedTest
  @EnumSource(names = {"FLOAT32", "FLOAT16", "BFLOAT16"})
  void losses(DType type) {
    Parameter logits = random("logits", type, 4, 5);
    Variable labels =
        Variable.constant(Tensor.of(arena, new int[] {0, 4, 2, 2}, 4).to(On.DEVICE, arena));
    assertPasses(
        Functions.SOFTMAX_CROSS_ENTROPY,
        in -> {
          double[] loss = new double[4];
          for (int t = 0; t < 4; ++t) {
            double sum = 0;
            for (int c = 0; c < 5; ++c) {
              sum += Math.exp(in[0][t * 5 + c]);
            }
            loss[t] = Math.log(sum) - in[0][t * 5 + (int) in[1][t]];
          }
          return loss;
        },
        logits,
        labels);
    GradCheck.Reference squaredError =
        in -> {
          int columns = 5;
          double[] loss = new double[in[0].length / columns];
          for (int i = 0; i < in[0].length; ++i) {
            double difference = in[0][i] - in[1][i];
            loss[i / columns] += difference * difference;
          }
          return loss;
        };
    Parameter target = random("target", type, 4, 5);
    assertPasses(Functions.SQUARED_ERROR, squaredError, logits, target);
    assertPasses(Functions.SQUARED_ERROR, squaredError, logits, Variable.constant(target.tensor()));
    assertPasses(
        Functions.SQUARED_ERROR,
        squaredError,
        random("x", type, 2, 3, 5),
        random("t", type, 2, 3, 5));
  }

  @Test
  void shapesThatDoNotFitAreNamed() {
    Parameter x = random("x", DType.FLOAT32, 2, 3);
    Parameter vector = random("v", DType.FLOAT32, 3);
    try (Tape tape = new Tape(On.DEVICE)) {
      assertMessage(
          "x: a scalar has no rows",
          () -> tape.apply(Functions.LINEAR, random("s", DType.FLOAT32), x));
      assertMessage("w: [3] has not rank 2", () -> tape.apply(Functions.LINEAR, x, vector));
      assertMessage(
          "b: [2, 3] has not rank 1", () -> tape.apply(Functions.LINEAR, x, x.transpose(), x));
      assertMessage("x: [2, 3] has not rank 1", () -> tape.apply(Functions.MEAN, x));
      Parameter scalar = random("s", DType.FLOAT32);
      assertMessage(
          "x: a scalar has no rows", () -> tape.apply(Functions.WEIGHTED_SUM, scalar, vector));
    }
  }

  @Test
  @DisplayName("guards against inputs that are left out or ignored without a word")
  void numbersOfInputs() {
    Parameter m = random("m", DType.FLOAT32, 2, 2);
    try (Tape tape = new Tape(On.DEVICE)) {
      for (Function one : List.of(Functions.RELU, Functions.GELU, Functions.MEAN)) {
        assertMessage("inputs: given are 2, expected x", () -> tape.apply(one, m, m));
        assertMessage("inputs: given are 0, expected x", () -> tape.apply(one));
      }
      for (Function two :
          List.of(
              Functions.ADD,
              Functions.WEIGHTED_SUM,
              Functions.SOFTMAX_CROSS_ENTROPY,
              Functions.SQUARED_ERROR)) {
        assertMessage("inputs: given are 1, expected ", () -> tape.apply(two, m));
        assertMessage("inputs: given are 3, expected ", () -> tape.apply(two, m, m, m));
      }
      assertMessage(
          "inputs: given are 1, expected x, w, [b]", () -> tape.apply(Functions.LINEAR, m));
      assertMessage(
          "inputs: given are 4, expected x, w, [b]",
          () -> tape.apply(Functions.LINEAR, m, m, m, m));
    }
  }

  @Test
  @DisplayName("guards against gradients that are all 0: the mean of so many float16 numbers")
  void meanOfManyFloat16() {
    Tensor one = random("x", DType.FLOAT16).tensor();
    try (Tape tape = new Tape(On.DEVICE)) {
      tape.apply(Functions.MEAN, Variable.constant(one.expand((1 << 25) - 1)));
      Variable more = Variable.constant(one.expand(1 << 25));
      assertMessage("x: 1 / 33554432 is 0 in float16", () -> tape.apply(Functions.MEAN, more));
    }
  }

  private static void assertMessage(String expected, Runnable call) {
    String message = assertThrows(IllegalArgumentException.class, call::run).getMessage();
    assertTrue(message.startsWith(expected), message);
  }
}
