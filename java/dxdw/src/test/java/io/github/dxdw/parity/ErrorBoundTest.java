package io.github.dxdw.parity;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.dxdw.Accumulate;
import io.github.dxdw.DType;
import io.github.dxdw.Precision;
import io.github.dxdw.Reduction;
import io.github.dxdw.parity.Case.Data;
import io.github.dxdw.parity.Case.Function;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Tests of the bound itself: right results of any order lie inside, results with one small fault
 * outside, at short and long contractions alike. The faults are seeded into fixed-point data up to
 * 1, as fine as leaves all sums of that many products exact, so that the bound leaves no room.
 */
class ErrorBoundTest {

  /** Products and what the bound needs to know of them. */
  private record Dot(float[] a, float[] b) {

    static Dot fixedPoint(SplittableRandom random, int length, boolean cancelling) {
      int steps = length <= 16 ? 1024 : length <= 1024 ? 128 : 16;
      float[] a = new float[length];
      float[] b = new float[length];
      for (int i = 0; i < length; i++) {
        a[i] = random.nextInt(1, steps + 1) / (float) steps;
        b[i] =
            random.nextInt(1, steps + 1)
                / (float) (cancelling && random.nextBoolean() ? -steps : steps);
      }
      return new Dot(a, b);
    }

    static Dot real(SplittableRandom random, int length) {
      float[] a = new float[length];
      float[] b = new float[length];
      for (int i = 0; i < length; i++) {
        a[i] = random.nextFloat(-1, 1);
        b[i] = random.nextFloat(-1, 1);
      }
      return new Dot(a, b);
    }

    double sum(int from, int to) {
      double sum = 0;
      for (int i = from; i < to; i++) {
        sum += (double) a[i] * b[i];
      }
      return sum;
    }

    double sum() {
      return sum(0, a.length);
    }

    double magnitude() {
      double sum = 0;
      for (int i = 0; i < a.length; i++) {
        sum += Math.abs((double) a[i] * b[i]);
      }
      return sum;
    }

    boolean admits(DType output, float got) {
      ErrorBound bound = ErrorBound.of(DType.FLOAT32, output, Precision.DEFAULT, a.length, 1);
      double error = bound.error(magnitude(), 0, ErrorBound.quantum(a) * ErrorBound.quantum(b));
      return bound.admits(got, sum(), magnitude(), error);
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {8, 1000, 100_000})
  @DisplayName(
      "tolerance too wide: one lost product, or one float32 ulp a block, is outside the bound")
  void lostProductAndUlps(int length) {
    SplittableRandom random = new SplittableRandom(length);
    for (int i = 0; i < 20; i++) {
      Dot dot = Dot.fixedPoint(random, length, i % 2 == 0);
      float right = (float) dot.sum();
      assertTrue(dot.admits(DType.FLOAT32, right));
      int lost = random.nextInt(length);
      assertFalse(
          dot.admits(DType.FLOAT32, (float) (dot.sum() - (double) dot.a[lost] * dot.b[lost])));
      int blocks = (length + Reference.BLOCK - 1) / Reference.BLOCK;
      assertFalse(dot.admits(DType.FLOAT32, right + blocks * Math.ulp(right)));
      assertFalse(dot.admits(DType.FLOAT32, Math.nextDown(right)));
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {8, 1000, 100_000})
  @DisplayName(
      "tolerance too wide: a 16-bit result that was cut off instead of rounded is outside the"
          + " bound")
  void truncatedOutput(int length) {
    SplittableRandom random = new SplittableRandom(length);
    for (DType type : new DType[] {DType.BFLOAT16, DType.FLOAT16}) {
      int seen = 0;
      for (int i = 0; i < 100; i++) {
        Dot dot = Dot.fixedPoint(random, length, true);
        float exact = (float) dot.sum();
        float rounded = Bits.round(type, exact);
        float truncated =
            Math.abs(rounded) > Math.abs(exact) ? towardsZero(type, rounded) : rounded;
        assertTrue(dot.admits(type, rounded));
        if (truncated != rounded) {
          seen++;
          assertFalse(dot.admits(type, truncated), () -> exact + " cut off to " + truncated);
        }
      }
      assertTrue(seen > 10, type + ": data must tell rounding from cutting off, did " + seen);
    }
  }

  private static float towardsZero(DType type, float value) {
    return type == DType.BFLOAT16
        ? Bits.bfloat16ToFloat((short) (Bits.floatToBfloat16(value) - 1))
        : Bits.float16ToFloat((short) (Bits.floatToFloat16(value) - 1));
  }

  @ParameterizedTest
  @ValueSource(ints = {8, 1000, 100_000})
  @DisplayName("tolerance too wide: partial sums rounded to bfloat16 are outside the bound")
  void roundedPartials(int length) {
    SplittableRandom random = new SplittableRandom(length);
    int seen = 0;
    for (int i = 0; i < 50; i++) {
      Dot dot = Dot.fixedPoint(random, length, true);
      int split = 2 + i % 7;
      int chunk = (length + split - 1) / split;
      float sum = 0;
      for (int from = 0; from < length; from += chunk) {
        sum += Bits.round(DType.BFLOAT16, (float) dot.sum(from, Math.min(from + chunk, length)));
      }
      float got = sum;
      if (got != (float) dot.sum()) {
        seen++;
        assertFalse(dot.admits(DType.FLOAT32, got));
      }
    }
    assertTrue(seen > 10, "data must tell rounded partials, did " + seen);
  }

  @ParameterizedTest
  @ValueSource(ints = {8, 1000})
  @DisplayName("tolerance too wide: on real data the largest product cannot go missing")
  void lostLargestProduct(int length) {
    SplittableRandom random = new SplittableRandom(length);
    for (int i = 0; i < 50; i++) {
      Dot dot = Dot.real(random, length);
      double largest = 0;
      for (int j = 0; j < length; j++) {
        double product = (double) dot.a[j] * dot.b[j];
        largest = Math.abs(product) > Math.abs(largest) ? product : largest;
      }
      assertFalse(dot.admits(DType.FLOAT32, (float) (dot.sum() - largest)));
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 8, 1000, 100_000})
  @DisplayName(
      "tolerance too narrow: rising, falling, pairwise, fused and unfused float32 sums all lie"
          + " inside")
  void everyOrderIsInside(int length) {
    SplittableRandom random = new SplittableRandom(length);
    for (int i = 0; i < 10; i++) {
      Dot dot = i % 2 == 0 ? Dot.real(random, length) : Dot.fixedPoint(random, length, true);
      float rising = 0;
      float fused = 0;
      float falling = 0;
      for (int j = 0; j < length; j++) {
        rising += dot.a[j] * dot.b[j];
        fused = Math.fma(dot.a[j], dot.b[j], fused);
        falling += dot.a[length - 1 - j] * dot.b[length - 1 - j];
      }
      for (float sum : new float[] {rising, fused, falling, pairwise(dot, 0, length)}) {
        for (DType type : Bits.FLOATS) {
          assertTrue(
              dot.admits(type, Bits.round(type, sum)),
              () -> type + " " + sum + " for " + dot.sum());
        }
      }
    }
  }

  private static float pairwise(Dot dot, int from, int to) {
    return to - from == 1
        ? dot.a[from] * dot.b[from]
        : pairwise(dot, from, (from + to) / 2) + pairwise(dot, (from + to) / 2, to);
  }

  private static ErrorBound named(String kernel, float smallest) {
    return ErrorBound.of(
        DType.FLOAT32, DType.FLOAT32, Precision.TF32, 1, 1, false, kernel, smallest);
  }

  @Test
  @DisplayName(
      "the bound: gamma of the length, no room on exact sums, overflow only where the sum"
          + " overflows")
  void formula() {
    ErrorBound bound = ErrorBound.of(DType.FLOAT32, DType.FLOAT32, Precision.DEFAULT, 1000, 3);
    double unit = 0x1p-24;
    assertEquals(1005 * unit / (1 - 1005 * unit), bound.gamma());
    assertEquals(0, bound.error(0x1p24, 0, 1));
    assertTrue(bound.error(0x1p24 + 2, 0, 1) > bound.gamma() * 0x1p24);
    ErrorBound tf32 = named("hopper_tf32_128x192x32", 1);
    assertEquals(0, tf32.error(0x1p11, 0, 1));
    assertTrue(tf32.error(0x1p11 + 1, 0, 1) > 0x1p-10 * 0x1p11);
    assertTrue(tf32.error(0x1p11, 0x1p-130, 1) > 0);
    assertTrue(tf32.error(1, 0, 0x1p-30) < 0x1.02p-10);
    ErrorBound parts = named("hopper_bf16x3_128x192x32", 0x1p-109f);
    assertEquals(0, parts.error(0x1p24, 0, 1));
    assertTrue(parts.admits(Float.NaN, Double.POSITIVE_INFINITY, 1, 1));
    assertFalse(tf32.admits(Float.NaN, Double.POSITIVE_INFINITY, 1, 1));
    assertTrue(named("hopper_bf16x3_128x192x32", 0x1p-110f).error(1, 0, 0x1p-30) > 0x1p-15);
    assertTrue(parts.error(1, 0, 0x1p-30) < 0x1p-20);
    ErrorBound half = ErrorBound.of(DType.FLOAT16, DType.FLOAT16, Precision.DEFAULT, 2, 1);
    assertTrue(half.admits(Float.POSITIVE_INFINITY, 70000, 70000, 0));
    assertFalse(half.admits(65504, 70000, 70000, 0));
    assertTrue(half.admits(65504, 65519, 65519, 0));
    assertFalse(half.admits(Float.POSITIVE_INFINITY, 65519, 65519, 0));
    assertFalse(half.admits(Float.NaN, 1, 1, 1));
    assertTrue(half.admits(Float.NaN, Double.NaN, 1, 1));
    assertFalse(half.admits(1, Double.NaN, 1, 1));
    assertEquals(0.25, ErrorBound.quantum(0.5f, 0, 0.75f, 12, Float.NaN));
    assertEquals(Float.MIN_VALUE, ErrorBound.quantum(3 * Float.MIN_VALUE));
  }

  @Test
  @DisplayName("rounding a float64 sum to 16 bits goes through no second rounding")
  void roundsOnce() {
    // 1 + 2^-8 is a tie of bfloat16; the least bit above it must decide, though float32 cannot hold
    // it.
    assertEquals(1 + 0x1p-7f, Bits.roundOnce(DType.BFLOAT16, 1 + 0x1p-8 + 0x1p-40));
    assertEquals(1f, Bits.roundOnce(DType.BFLOAT16, 1 + 0x1p-8 - 0x1p-40));
    assertEquals(1f, Bits.roundOnce(DType.BFLOAT16, 1 + 0x1p-8));
    assertEquals(-1 - 0x1p-10f, Bits.roundOnce(DType.FLOAT16, -1 - 0x1p-11 - 0x1p-50));
    assertEquals(Float.POSITIVE_INFINITY, Bits.roundOnce(DType.FLOAT16, 65520));
    assertEquals(65504, Bits.roundOnce(DType.FLOAT16, 65520 - 0x1p-30));
  }

  static Stream<Arguments> lengths() {
    return Stream.of(
            Function.Y,
            Function.DX,
            Function.DW,
            Function.WEIGHTED_SUM,
            Function.WEIGHTED_SUM_BACKWARD)
        .flatMap(f -> Stream.of(Bits.FLOATS).map(type -> Arguments.of(f, type)));
  }

  @ParameterizedTest
  @MethodSource("lengths")
  @DisplayName(
      "the library stays inside the bound at contractions of 8, 1000 and 100000, on exact and on"
          + " real data")
  void libraryAtLengths(Function function, DType type) {
    for (int length : new int[] {8, 1000, 100_000}) {
      for (Data data : new Data[] {Data.SMALL_INTEGERS, Data.UNIFORM, Data.POSITIVE}) {
        int[] sizes =
            switch (function) {
              case Y -> new int[] {3, length, 5};
              case DX -> new int[] {3, 5, length};
              case DW -> new int[] {length, 3, 5};
              case WEIGHTED_SUM -> new int[] {3, length};
              default -> new int[] {length, 3};
            };
        Layout[] layouts = new Layout[function.operands.size()];
        for (int split : function == Function.DW ? new int[] {1, 0, 7} : new int[] {1}) {
          Case c =
              new Case(
                  function,
                  type,
                  type,
                  sizes,
                  split,
                  Reduction.DETERMINISTIC,
                  Accumulate.ASSIGN,
                  Precision.DEFAULT,
                  layouts,
                  data,
                  new int[] {2},
                  3,
                  length);
          for (int i = 0; i < layouts.length; i++) {
            layouts[i] = Layout.dense(c.shape(i).length);
          }
          assertNull(CaseRunner.failure(c), c::toString);
        }
      }
    }
  }
}
