package io.github.dxdw.autograd;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.dxdw.Accumulate;
import io.github.dxdw.DType;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Options;
import io.github.dxdw.Tensor;
import java.lang.foreign.Arena;
import java.util.List;
import java.util.function.BiConsumer;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The checker, on functions that are right and on functions with one fault each. */
class GradCheckTest {
  private final Arena arena = Arena.ofAuto();

  @BeforeEach
  void requireDevice() {
    On.requireDevice();
  }

  private Parameter random(String name, DType type, long... shape) {
    return On.random(arena, name, type, shape);
  }

  /** y[i] = sum over d of x[i, d] * w[d]. */
  private static double[] weightedSum(double[][] in) {
    double[] y = new double[in[0].length / in[1].length];
    for (int i = 0; i < in[0].length; ++i) {
      y[i / in[1].length] += in[0][i] * in[1][i % in[1].length];
    }
    return y;
  }

  private static void assertPasses(GradCheck.Report report) {
    assertTrue(report.passed(), report.toString());
  }

  @ParameterizedTest
  @EnumSource(names = {"FLOAT32", "FLOAT16", "BFLOAT16"})
  void weightedSumsPass(DType type) {
    Parameter w = random("w", type, 4);
    Parameter x = random("x", type, 3, 4);
    assertPasses(GradCheck.run(new WeightedSum(), GradCheckTest::weightedSum, x, w));
    assertPasses(
        GradCheck.run(
            new WeightedSum(), GradCheckTest::weightedSum, x, Variable.constant(w.tensor())));
    for (long[] shape : new long[][] {{4}, {3, 4}, {2, 3, 4}, {2, 1, 3, 4}, {0, 4}}) {
      Parameter any = random("any", type, shape);
      assertPasses(GradCheck.run(Functions.WEIGHTED_SUM, GradCheckTest::weightedSum, any, w));
      assertPasses(
          GradCheck.run(
              Functions.WEIGHTED_SUM,
              GradCheckTest::weightedSum,
              any,
              Variable.constant(w.tensor())));
    }
  }

  @Test
  void saysHowMuchWasCompared() {
    GradCheck.Report report =
        GradCheck.run(
            new WeightedSum(),
            GradCheckTest::weightedSum,
            random("x", DType.FLOAT32, 3, 4),
            random("w", DType.FLOAT32, 4));
    // The output; 7 gradient and 5 input layouts and 3 other ways for 2 inputs; each input alone.
    assertEquals(1 + 15 * 2 + 2, report.compared());
    assertEquals("33 comparisons, all inside their bounds", report.toString());
  }

  /** Runs the checker on a weighted sum with another backward. */
  private List<String> failuresOf(BiConsumer<Context, Tensor> backward) {
    Function faulty =
        new Function() {
          @Override
          public Tensor forward(Context context) {
            return new WeightedSum().forward(context);
          }

          @Override
          public void backward(Context context, Tensor gradient) {
            backward.accept(context, gradient);
          }
        };
    GradCheck.Report report =
        GradCheck.run(
            faulty,
            GradCheckTest::weightedSum,
            random("x", DType.FLOAT32, 3, 4),
            random("w", DType.FLOAT32, 4));
    assertFalse(report.passed());
    return report.failures();
  }

  @Test
  @DisplayName("guards against a checker that misses a gradient read as if it were dense")
  void findsStridesThatAreIgnored() {
    List<String> failures =
        failuresOf(
            (context, gradient) -> {
              Tensor dense = gradient.view(gradient.shape(), new long[] {1}, gradient.offset());
              new WeightedSum().backward(context, dense);
            });
    assertTrue(
        failures.stream().allMatch(line -> line.startsWith("gradient ")), failures.toString());
    assertTrue(
        failures.stream().anyMatch(line -> line.startsWith("gradient expanded")),
        failures.toString());
    assertTrue(
        failures.stream().anyMatch(line -> line.startsWith("gradient reversed")),
        failures.toString());
  }

  @Test
  @DisplayName("guards against a checker that misses a function that never adds")
  void findsGradientsThatReplaceOthers() {
    Options assign = Options.defaults().withAccumulate(Accumulate.ASSIGN);
    List<String> failures =
        failuresOf(
            (context, gradient) ->
                Dxdw.weightedSumBackward(
                    context.saved(0),
                    context.saved(1),
                    gradient,
                    context.gradient(0),
                    context.gradient(1),
                    assign));
    assertEquals(4, failures.size(), failures.toString());
    assertTrue(failures.stream().allMatch(line -> line.contains("added")), failures.toString());
  }

  @Test
  @DisplayName("guards against a checker that misses a factor next to 1 or names another input")
  void findsAWrongFactor() {
    List<String> failures =
        failuresOf(
            (context, gradient) -> {
              new WeightedSum().backward(context, gradient);
              if (context.wants(1)) {
                Tensor gw = context.gradient(1);
                gw.set(gw.get(2) * 1.0001f, 2);
              }
            });
    assertTrue(failures.size() >= 14, failures.toString());
    for (String line : failures) {
      assertTrue(line.contains("gradient of input 1: "), line);
      assertTrue(line.contains("worst at [2]"), line);
      assertTrue(line.contains("expected ") && line.contains("bound "), line);
    }
  }

  @Test
  @DisplayName("guards against a checker that stops at an exception, or hides it")
  void showsWhatWasThrown() {
    List<String> failures =
        failuresOf(
            (context, gradient) -> {
              if (!gradient.isCompact()) {
                throw new IllegalArgumentException("needs a dense gradient");
              }
              new WeightedSum().backward(context, gradient);
            });
    assertTrue(
        failures.contains(
            "gradient expanded: java.lang.IllegalArgumentException: needs a dense gradient"),
        failures.toString());
  }

  @Test
  @DisplayName("guards against a reference that gives nothing, or changes the shape of its result")
  void refusesOddReferences() {
    Parameter x = On.random(arena, "x", DType.FLOAT32, 3);
    assertRefused("reference: its result: is null", in -> null, x);
    assertRefused("reference: gave 1 values, relu has [3]", in -> new double[1], x);
    assertRefused(
        "inputs: there is no parameter among the 1", in -> in[0], Variable.constant(x.tensor()));
    int[] runs = {0};
    assertRefused(
        "reference: gave 3 values, for other inputs 2",
        in -> new double[runs[0]++ == 0 ? 3 : 2],
        x);
  }

  private static void assertRefused(
      String expected, GradCheck.Reference reference, Variable input) {
    String message =
        assertThrows(
                IllegalArgumentException.class,
                () -> GradCheck.run(Functions.RELU, reference, input))
            .getMessage();
    assertTrue(message.startsWith(expected), message);
  }

  @Test
  @DisplayName("guards against a wrong forward under a right backward")
  void findsAWrongOutput() {
    GradCheck.Report report =
        GradCheck.run(
            new WeightedSum(),
            in -> {
              double[] y = weightedSum(in);
              y[1] += 1e-4;
              return y;
            },
            random("x", DType.FLOAT32, 3, 4),
            random("w", DType.FLOAT32, 4));
    assertEquals("1 of 33 failed:", report.toString().lines().findFirst().orElseThrow());
    assertTrue(report.failures().getFirst().startsWith("output: 1 of 3 elements, worst at [1]"));
  }

  @Test
  void refusesWhatItCannotCheck() {
    Parameter x = random("x", DType.FLOAT32, 3, 4);
    assertThrows(
        IllegalArgumentException.class,
        () ->
            GradCheck.run(
                new WeightedSum(), in -> new double[7], x, random("w", DType.FLOAT32, 4)));
    assertThrows(
        IllegalArgumentException.class,
        () -> GradCheck.run(new WeightedSum(), GradCheckTest::weightedSum));
    assertThrows(
        IllegalArgumentException.class, () -> GradCheck.run(null, GradCheckTest::weightedSum, x));
  }
}
