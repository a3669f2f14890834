package io.github.dxdw;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.foreign.Arena;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/** Rounding, or a mistake? */
class CompareTest {
  private final Arena arena = Arena.ofAuto();

  @Test
  void namesTheWorstElement() {
    Tensor a = Tensor.of(arena, new float[][] {{1, 2, 3}, {4, 5, 6}});
    Tensor b = a.copy(arena);
    assertEquals(0, Compare.report(a, b).difference());
    assertTrue(Compare.report(a, b).inside());
    b.set(Math.nextUp(3f), 0, 2);
    Compare near = Compare.report(a, b.transpose().copy(arena).transpose());
    assertEquals(List.of(0L, 2L), near.index());
    assertEquals(1, near.ulps());
    assertTrue(near.inside(), near.toString());
    b.set(5.5f, 1, 1);
    Compare far = Compare.report(a, b);
    assertEquals(
        "worst of 6 at [1, 1]: 5.0 and 5.5, 1048576.0 ulp apart, 5.00e-01 where rounding allows"
            + " 4.77e-07, 1 OUTSIDE",
        far.toString());
    assertFalse(far.inside());
    assertTrue(
        Compare.report(Tensor.of(arena, new float[0][0]), Tensor.of(arena, new float[0][0]))
            .inside());
  }

  @Test
  @DisplayName("guards against a message that blames another argument, and bounds of no type")
  void namesTheArgument() {
    Tensor a = Tensor.of(arena, new float[] {1, 2});
    Tensor longer = Tensor.of(arena, new float[] {1, 2, 3});
    ErrorBound bound = ErrorBound.of(DType.FLOAT32, 1);
    assertMessage("b: shape [3] differs from [2] of a", () -> Compare.report(a, longer));
    assertMessage("magnitudes: shape [3]", () -> Compare.report(a, a, bound, longer));
    assertMessage("magnitudes: is null", () -> Compare.report(a, a, bound, null));
    assertMessage("operands: type is int32", () -> ErrorBound.of(DType.INT32, 1));
    assertMessage("result: type is int32", () -> new ErrorBound(DType.FLOAT32, DType.INT32, 1));
  }

  private static void assertMessage(String expected, Runnable call) {
    String message = assertThrows(IllegalArgumentException.class, call::run).getMessage();
    assertTrue(message.startsWith(expected), message);
  }

  @Test
  @DisplayName("guards against a bound that is no number where the terms are many, all of them 0")
  void manyZeros() {
    for (long terms : new long[] {1, 1 << 22, 1 << 24, Long.MAX_VALUE}) {
      double bound = ErrorBound.of(DType.FLOAT32, terms).of(0, 0);
      assertTrue(bound > 0 && bound < 1e-15, terms + " terms: " + bound);
    }
    assertEquals(Double.POSITIVE_INFINITY, ErrorBound.of(DType.FLOAT32, 1 << 24).of(1, 1));
  }

  @ParameterizedTest
  @CsvSource({
    "NaN, 1, false",
    "Infinity, 1, false",
    "1, NaN, false",
    "NaN, NaN, true",
    "Infinity, Infinity, true",
    "Infinity, -Infinity, false",
    "0, -0.0, true"
  })
  @DisplayName("guards against NaN and infinity that compare as inside")
  void notANumber(float a, float b, boolean inside) {
    Compare compare =
        Compare.report(Tensor.of(arena, new float[] {2, a}), Tensor.of(arena, new float[] {2, b}));
    assertEquals(inside, compare.inside(), compare.toString());
    ErrorBound bound = ErrorBound.of(DType.FLOAT32, 1000);
    Tensor magnitudes = Tensor.scalar(arena, 1e30f).expand(2);
    assertEquals(
        inside,
        Compare.report(
                Tensor.of(arena, new float[] {2, a}),
                Tensor.of(arena, new float[] {2, b}),
                bound,
                magnitudes)
            .inside());
  }

  @ParameterizedTest
  @EnumSource(
      value = DType.class,
      names = {"FLOAT16", "BFLOAT16"})
  @DisplayName("guards against a bound that grows without limit beside an infinite result")
  void infiniteResultsOf16BitTypes(DType type) {
    Tensor right = Tensor.of(arena, new float[] {2, 65504});
    Tensor overflown = Tensor.of(arena, new float[] {2, Float.POSITIVE_INFINITY});
    Compare compare =
        Compare.report(
            overflown.to(type, arena),
            right.to(type, arena),
            ErrorBound.of(type, 8),
            Tensor.scalar(arena, 1e5f).expand(2));
    assertFalse(compare.inside(), compare.toString());
    assertEquals(List.of(1L), compare.index());
  }

  @Test
  void countsUnitsOfTheCoarserType() {
    Tensor a = Tensor.of(arena, new float[] {1, 3});
    Tensor b = Tensor.of(arena, new float[] {1, 3.03f}).to(DType.BFLOAT16, arena);
    assertEquals(2, Compare.report(a, b).ulps());
    assertEquals(2, Compare.report(b, a).ulps());
    assertEquals(
        0x1p-23 / 0x1p-24,
        Compare.report(
                Tensor.of(arena, new float[] {0x1p-24f}).to(DType.FLOAT16, arena),
                Tensor.of(arena, new float[] {0x1.8p-23f}).to(DType.FLOAT16, arena))
            .ulps());
    assertThrows(IllegalArgumentException.class, () -> Compare.report(a, b.expand(3, 2)));
    assertThrows(IllegalArgumentException.class, () -> Compare.report(a, null));
  }

  @ParameterizedTest
  @CsvSource({
    "FLOAT32, 8",
    "FLOAT32, 1000",
    "FLOAT32, 20000",
    "BFLOAT16, 8",
    "BFLOAT16, 1000",
    "FLOAT16, 1000"
  })
  @DisplayName("guards against a bound that right results break, or that a lost product satisfies")
  void coversOrdersAndTypesButNotMistakes(DType type, int length) {
    Random random = new Random(length);
    float[] left = new float[length];
    float[] right = new float[length];
    for (int i = 0; i < length; ++i) {
      left[i] = 2 * random.nextFloat() - 1;
      right[i] = 2 * random.nextFloat() - 1;
    }
    // Enough to be seen, whatever the rest.
    left[length / 2] = 1;
    right[length / 2] = 1;
    Tensor x = Tensor.of(arena, left, length, 1).to(type, arena);
    Tensor dy = Tensor.of(arena, right, length, 1).to(type, arena);
    Tensor magnitude = Tensor.allocate(arena, DType.FLOAT32, 1, 1);
    Dxdw.dw(absolute(x), absolute(dy), magnitude);
    Tensor once = Tensor.allocate(arena, DType.FLOAT32, 1, 1);
    Tensor split = Tensor.allocate(arena, DType.FLOAT32, 1, 1);
    Dxdw.dw(x, dy, once, 1, Reduction.DETERMINISTIC, Options.defaults());
    Dxdw.dw(x.reverse(0), dy.reverse(0), split, 7, Reduction.ATOMIC, Options.defaults());
    ErrorBound bound = new ErrorBound(type, DType.FLOAT32, length);
    Compare right1 = Compare.report(once, split, bound, magnitude);
    assertTrue(right1.inside(), right1.toString());
    Tensor rounded = Tensor.allocate(arena, type, 1, 1);
    Dxdw.dw(
        x,
        dy,
        rounded,
        1,
        Reduction.DETERMINISTIC,
        Options.defaults().withAccumulate(Accumulate.ASSIGN));
    Compare stored = Compare.report(rounded, once, ErrorBound.of(type, length), magnitude);
    assertTrue(stored.inside(), stored.toString());
    x.set(0, length / 2, 0);
    split.fill(0);
    Dxdw.dw(x, dy, split, 1, Reduction.DETERMINISTIC, Options.defaults());
    Compare wrong = Compare.report(once, split, bound, magnitude);
    assertEquals(length <= 1000, !wrong.inside(), wrong.toString());
  }

  @Test
  @DisplayName(
      "guards against a bound that two devices, or two orders of summation, break: 1000 cases")
  void coversTheDifferenceBetweenDevices() {
    String name = System.getProperty("dxdw.device", "cpu");
    Device device =
        name.equals("cpu") ? Device.cpu() : Device.cuda(Integer.parseInt(name.substring(5)));
    assumeTrue(device.isAvailable(), device::unavailabilityCause);
    Random random = new Random(11);
    DType[] types = {DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16};
    for (int round = 0; round < 1000; ++round) {
      DType type = types[round % 3];
      int tokens = 1 + random.nextInt(round % 50 == 0 ? 20000 : 300);
      int inputs = 1 + random.nextInt(6);
      int outputs = 1 + random.nextInt(6);
      try (Arena scratch = Arena.ofConfined()) {
        Tensor x = uniform(scratch, random, tokens, inputs).to(type, scratch);
        Tensor dy = uniform(scratch, random, tokens, outputs).to(type, scratch);
        Tensor here = Tensor.allocate(scratch, DType.FLOAT32, inputs, outputs);
        Tensor there = Tensor.allocate(scratch, device, DType.FLOAT32, inputs, outputs);
        Dxdw.dw(x, dy, here, 1, Reduction.DETERMINISTIC, Options.defaults());
        Dxdw.dw(
            x.to(device, scratch),
            dy.to(device, scratch),
            there,
            1 + random.nextInt(tokens),
            Reduction.ATOMIC,
            Options.defaults());
        Compare compare =
            Compare.report(
                here,
                there,
                new ErrorBound(type, DType.FLOAT32, tokens),
                magnitudes(scratch, x, dy));
        assertTrue(compare.inside(), type + " " + tokens + ": " + compare);
      }
    }
  }

  private static Tensor uniform(Arena arena, Random random, int rows, int columns) {
    float[] values = new float[rows * columns];
    for (int i = 0; i < values.length; ++i) {
      values[i] = 2 * random.nextFloat() - 1;
    }
    return Tensor.of(arena, values, rows, columns);
  }

  private static Tensor magnitudes(Arena arena, Tensor x, Tensor dy) {
    int inputs = (int) x.size(1);
    int outputs = (int) dy.size(1);
    float[] left = x.toFloatArray();
    float[] right = dy.toFloatArray();
    double[] sums = new double[inputs * outputs];
    for (int t = 0; t < x.size(0); ++t) {
      for (int i = 0; i < sums.length; ++i) {
        sums[i] +=
            Math.abs((double) left[t * inputs + i / outputs] * right[t * outputs + i % outputs]);
      }
    }
    float[] rounded = new float[sums.length];
    for (int i = 0; i < sums.length; ++i) {
      rounded[i] = Math.nextUp((float) sums[i]);
    }
    return Tensor.of(arena, rounded, inputs, outputs);
  }

  private Tensor absolute(Tensor tensor) {
    float[] values = tensor.toFloatArray();
    for (int i = 0; i < values.length; ++i) {
      values[i] = Math.abs(values[i]);
    }
    return Tensor.of(arena, values, tensor.shape()).to(tensor.dtype(), arena);
  }
}
