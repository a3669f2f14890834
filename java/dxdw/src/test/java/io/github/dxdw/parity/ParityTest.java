package io.github.dxdw.parity;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import io.github.dxdw.Accumulate;
import io.github.dxdw.DType;
import io.github.dxdw.Precision;
import io.github.dxdw.Reduction;
import io.github.dxdw.parity.Case.Data;
import io.github.dxdw.parity.Case.Function;
import java.util.Arrays;
import java.util.SplittableRandom;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Every function against the plain-Java reference, on cases drawn from a seed and on every small
 * size.
 *
 * <p>{@code -Ddxdw.seed=N} draws other cases, {@code -Ddxdw.cases=N} more or fewer, {@code
 * -Ddxdw.case=I} runs case I of the seed alone. A failure prints the seed, the number of the case,
 * and the smallest case that still fails.
 */
class ParityTest {

  @BeforeAll
  static void lookForDevice() {
    Kernels.requireDevice();
  }

  private static final long SEED = Long.getLong("dxdw.seed", 20_240_917L);
  private static final int CASES = Integer.getInteger("dxdw.cases", 20_000);
  private static final int ONLY = Integer.getInteger("dxdw.case", -1);

  @Test
  @DisplayName(
      "drawn cases: any function, sizes, strides, types, split and threads agree with the"
          + " reference")
  void drawnCases() {
    if (ONLY >= 0) {
      check(Case.draw(random(ONLY)), "case " + ONLY);
      return;
    }
    for (int i = 0; i < CASES; i++) {
      check(
          Case.draw(random(i)),
          "case " + i + " (rerun with -Ddxdw.seed=" + SEED + " -Ddxdw.case=" + i + ")");
    }
  }

  @ParameterizedTest
  @EnumSource(names = {"Y", "DX", "DW"})
  @DisplayName("every size 1 to 40 of each dimension, the others at edges of tiles")
  void everySizeOfEachDimension(Function function) {
    int[] others = {1, 2, 7, 8, 16, 17, 31, 33, 40, 65};
    SplittableRandom random = new SplittableRandom(SEED ^ function.ordinal());
    for (int dimension = 0; dimension < 3; dimension++) {
      for (int size = 1; size <= 40; size++) {
        for (int other : others) {
          int[] sizes = {other, other, other};
          sizes[dimension] = size;
          sizes[(dimension + 1) % 3] = others[random.nextInt(others.length)];
          check(Case.draw(random, function, sizes), "sizes " + Arrays.toString(sizes));
        }
      }
    }
  }

  @ParameterizedTest
  @EnumSource(names = {"Y", "DX", "DW"})
  @DisplayName("every triple of sizes 0 to 17, with drawn strides and types")
  void everySmallTriple(Function function) {
    SplittableRandom random = new SplittableRandom(SEED + function.ordinal());
    for (int t = 0; t < 18; t++) {
      for (int k = 0; k < 18; k++) {
        for (int n = 0; n < 18; n++) {
          check(Case.draw(random, function, t, k, n), "sizes " + Arrays.asList(t, k, n));
        }
      }
    }
  }

  @ParameterizedTest
  @EnumSource(names = {"WEIGHTED_SUM", "WEIGHTED_SUM_BACKWARD", "DW_REDUCE"})
  @DisplayName("weighted sums and reductions: every size 0 to 40 of each dimension, and long ones")
  void everySizeOfTheOthers(Function function) {
    SplittableRandom random = new SplittableRandom(SEED - function.ordinal());
    for (int size = 0; size <= 40; size++) {
      for (int other : new int[] {1, 3, 16, 17, 64, 257}) {
        int[][] shapes =
            function == Function.DW_REDUCE
                ? new int[][] {{size, other, 5}, {5, size, other}, {3, other, size}}
                : new int[][] {
                  {size, other}, {other, size}, {size, 2, other}, {2, size, 3, other}, {size}
                };
        for (int[] sizes : shapes) {
          check(Case.draw(random, function, sizes), "sizes " + Arrays.toString(sizes));
        }
      }
    }
    for (int length : new int[] {1000, 4095, 4097, 50_000}) {
      check(
          Case.draw(
              random,
              function,
              function == Function.DW_REDUCE ? new int[] {7, 3, length} : new int[] {3, length}),
          "length " + length);
      check(
          Case.draw(
              random,
              function,
              function == Function.DW_REDUCE ? new int[] {length, 2, 3} : new int[] {length, 3}),
          "length " + length);
    }
  }

  @ParameterizedTest
  @EnumSource(names = {"Y", "DX", "DW"})
  @DisplayName("products large enough for threads have the same bits with 1, 2, 7 and 16 threads")
  void threadCounts(Function function) {
    SplittableRandom random = new SplittableRandom(SEED * 31 + function.ordinal());
    for (DType type : Bits.FLOATS) {
      for (int[] sizes :
          new int[][] {{257, 130, 190}, {2100, 33, 47}, {64, 515, 129}, {5, 1030, 301}}) {
        int split = function == Function.DW ? random.nextInt(0, 6) : 1;
        Layout[] layouts = new Layout[3];
        for (int i = 0; i < 3; i++) {
          layouts[i] = random.nextBoolean() ? Layout.dense(2) : Layout.draw(random, 2, i == 2);
        }
        check(
            new Case(
                function,
                type,
                DType.FLOAT32,
                sizes,
                split,
                Reduction.DETERMINISTIC,
                Accumulate.DEFAULT,
                Precision.DEFAULT,
                layouts,
                Data.UNIFORM,
                new int[] {1, 2, 7, 16},
                3,
                random.nextLong()),
            "threads");
      }
    }
  }

  @ParameterizedTest
  @EnumSource(names = {"Y", "DX", "DW"})
  @DisplayName("operands too large to be packed at once: the steps between give the promised bits")
  void manySteps(Function function) {
    int[] sizes =
        switch (function) {
          case Y -> new int[] {17, 2100, 1100};
          case DX -> new int[] {17, 1100, 2100};
          default -> new int[] {2100, 17, 1100};
        };
    int[] turned = {1, 0};
    for (DType type : Bits.FLOATS) {
      for (DType output :
          type == DType.FLOAT32 ? new DType[] {type} : new DType[] {type, DType.FLOAT32}) {
        Layout[] layouts = {Layout.dense(2), Layout.dense(2), Layout.dense(2)};
        if (function != Function.DX) {
          layouts[1] = layouts[1].ordered(turned);
        }
        for (boolean columns : new boolean[] {false, true}) {
          layouts[2] = columns ? Layout.dense(2).ordered(turned) : Layout.dense(2);
          Accumulate accumulate = columns ? Accumulate.ADD : Accumulate.ASSIGN;
          check(product(function, type, output, sizes, accumulate, layouts), "many steps");
        }
      }
    }
  }

  @ParameterizedTest
  @EnumSource(names = {"Y", "DX", "DW"})
  @DisplayName(
      "float32 by TF32 or three bfloat16 parts is as far off as these say, where a GPU has them,"
          + " and as float32 elsewhere")
  void precisionsByName(Function function) {
    SplittableRandom random = new SplittableRandom(SEED * 17 + function.ordinal());
    for (Precision precision : new Precision[] {Precision.TF32, Precision.BF16X3}) {
      for (int[] sizes : new int[][] {{1, 103, 80}, {130, 193, 127}, {300, 64, 257}}) {
        for (Data data : Data.values()) {
          Layout[] layouts = new Layout[3];
          for (int i = 0; i < 3; i++) {
            layouts[i] = random.nextBoolean() ? Layout.dense(2) : Layout.draw(random, 2, i == 2);
          }
          int split = function == Function.DW ? random.nextInt(1, 4) : 1;
          Reduction reduction = random.nextBoolean() ? Reduction.ATOMIC : Reduction.DETERMINISTIC;
          check(
              new Case(
                  function,
                  DType.FLOAT32,
                  DType.FLOAT32,
                  sizes,
                  Math.min(split, sizes[0]),
                  reduction,
                  Accumulate.DEFAULT,
                  precision,
                  layouts,
                  data,
                  new int[] {1, 2},
                  3,
                  random.nextLong()),
              precision.name());
        }
      }
    }
  }

  private static Case product(
      Function function,
      DType type,
      DType output,
      int[] sizes,
      Accumulate accumulate,
      Layout[] layouts) {
    return new Case(
        function,
        type,
        output,
        sizes,
        1,
        Reduction.DETERMINISTIC,
        accumulate,
        Precision.DEFAULT,
        layouts.clone(),
        Data.UNIFORM,
        new int[] {1, 2, 7, 16},
        3,
        SEED);
  }

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "INT32")
  @DisplayName(
      "a gx too large for the caches, off any alignment and padded, is as exact as a small one")
  void largeWeightedSumBackward(DType type) {
    for (int offset : new int[] {0, 3}) {
      Layout[] layouts = {
        Layout.dense(2),
        Layout.dense(1),
        Layout.dense(1),
        Layout.dense(2).padded(offset).withOffset(offset),
        Layout.dense(1)
      };
      check(
          new Case(
              Function.WEIGHTED_SUM_BACKWARD,
              type,
              type,
              new int[] {1030, 2051},
              1,
              Reduction.DETERMINISTIC,
              Accumulate.DEFAULT,
              Precision.DEFAULT,
              layouts,
              Data.UNIFORM,
              new int[] {2, 1},
              3,
              SEED),
          "large gx");
    }
  }

  @Test
  @DisplayName(
      "partials whose rows can be taken together, dense and turned, are added in slice order")
  void reductionShapes() {
    for (int[] sizes :
        new int[][] {
          {5, 64, 16},
          {3, 128, 8},
          {4, 1024, 1},
          {2, 2048, 3},
          {9, 1, 5000},
          {3, 500, 400},
          {300, 16, 16}
        }) {
      for (int turn = 0; turn < 4; turn++) {
        Layout partials = turn % 2 == 0 ? Layout.dense(3) : Layout.dense(3).ordered(0, 2, 1);
        Layout dw = turn < 2 ? Layout.dense(2) : Layout.dense(2).ordered(1, 0);
        check(
            new Case(
                Function.DW_REDUCE,
                DType.FLOAT32,
                DType.FLOAT32,
                sizes,
                1,
                Reduction.DETERMINISTIC,
                Accumulate.DEFAULT,
                Precision.DEFAULT,
                new Layout[] {partials, dw},
                Data.UNIFORM,
                new int[] {1, 2, 7, 16},
                3,
                SEED),
            "reduction");
      }
    }
  }

  // ---- Tests of the test ----

  @Test
  @DisplayName(
      "the comparison sees one changed element, one changed canary and one unwritten element")
  void comparisonSeesDamage() {
    SplittableRandom random = new SplittableRandom(SEED);
    int damaged = 0;
    while (damaged < 200) {
      Case c = Case.draw(random);
      int out = c.function().operands.size() - 1;
      if (c.absent(out)
          || c.shape(out).length == 0
          || Arrays.stream(c.shape(out)).anyMatch(s -> s == 0)
          || c.data() != Data.SMALL_INTEGERS) {
        continue;
      }
      damaged++;
      assertNull(CaseRunner.failure(c), c::toString);
      int element =
          random.nextInt(Math.toIntExact(Arrays.stream(c.shape(out)).reduce(1, (a, b) -> a * b)));
      assertNotNull(
          CaseRunner.failure(c, o -> o[out].set(element, nudged(o[out].load()[element]))),
          c::toString);
      assertNotNull(CaseRunner.failure(c, o -> o[out].set(element, Float.NaN)), c::toString);
      assertNotNull(CaseRunner.failure(c, o -> o[out].damageCanary()), c::toString);
      assertNotNull(CaseRunner.failure(c, o -> o[0].damageCanary()), c::toString);
    }
  }

  private static float nudged(float value) {
    return value == 0 ? 1 : value * 1.5f;
  }

  @Test
  @DisplayName("shrinking finds the smallest size and drops all that does not matter")
  void shrinking() {
    SplittableRandom random = new SplittableRandom(SEED);
    for (int i = 0; i < 20; i++) {
      Case c = Case.draw(random, Function.DW, 65, 40, 33);
      c.layouts()[2].pad()[0] = 5;
      Case smallest = Case.shrink(c, s -> s.sizes()[2] >= 17 && s.layouts()[2].pad()[0] > 0);
      assertEquals(17, smallest.sizes()[2]);
      assertEquals(1, smallest.layouts()[2].pad()[0]);
      assertTrue(smallest.sizes()[0] <= 1 && smallest.sizes()[1] <= 1, smallest::toString);
      assertEquals(Data.SMALL_INTEGERS, smallest.data());
      assertEquals(DType.FLOAT32, smallest.input());
    }
  }

  private static SplittableRandom random(int index) {
    return new SplittableRandom(SEED + index * 0x9E3779B97F4A7C15L);
  }

  private static void check(Case c, String which) {
    String wrong = CaseRunner.failure(c);
    if (wrong != null) {
      Case smallest = Case.shrink(c, s -> CaseRunner.failure(s) != null);
      fail(
          "seed %d, %s:%n%s%n%s%n%nsmallest case that fails:%n%s%n%s"
              .formatted(SEED, which, c, wrong, smallest, CaseRunner.failure(smallest)));
    }
  }
}
