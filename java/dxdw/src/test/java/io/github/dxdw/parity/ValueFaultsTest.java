package io.github.dxdw.parity;

import static io.github.dxdw.parity.Tensors.ADD;
import static io.github.dxdw.parity.Tensors.ASSIGN;
import static io.github.dxdw.parity.Tensors.assertAll;
import static io.github.dxdw.parity.Tensors.assertSameBits;
import static io.github.dxdw.parity.Tensors.assertValues;
import static io.github.dxdw.parity.Tensors.constant;
import static io.github.dxdw.parity.Tensors.nan;
import static io.github.dxdw.parity.Tensors.random;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.dxdw.Accumulate;
import io.github.dxdw.DType;
import io.github.dxdw.Options;
import io.github.dxdw.Plan;
import io.github.dxdw.Precision;
import io.github.dxdw.Reduction;
import io.github.dxdw.Tensor;
import io.github.dxdw.bindings.dxdw_h;
import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Faults of numbers that users of other libraries reported, with their own values. */
class ValueFaultsTest {

  @BeforeAll
  static void lookForDevice() {
    Kernels.requireDevice();
  }

  private final Arena arena = Arena.ofConfined();

  @AfterEach
  void close() {
    arena.close();
  }

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "INT32")
  @DisplayName(
      "V1: partial sums kept in 16 bits: 257 products of +1 in one half, 256 of -1 in the other,"
          + " give exactly 1")
  void cancellingPartials(DType type) {
    float[] xs = new float[1024];
    float[] dys = new float[1024];
    Arrays.fill(dys, 1);
    for (int t = 0; t < 257; t++) {
      xs[t] = 1;
    }
    for (int t = 512; t < 768; t++) {
      xs[t] = 1;
      dys[t] = -1;
    }
    Tensor x = Tensors.of(arena, type, xs, 1024, 1);
    Tensor dy = Tensors.of(arena, type, dys, 1024, 1);
    for (int split : new int[] {0, 1, 2, 3, 8, 1024}) {
      for (Reduction reduction : Reduction.values()) {
        for (DType output : new DType[] {DType.FLOAT32, type}) {
          for (Precision precision : Precision.values()) {
            Tensor dw = nan(arena, output, 1, 1);
            Kernels.dw(x, dy, dw, split, reduction, ASSIGN.withPrecision(precision));
            assertAll(1, dw, "split " + split + " " + reduction + " " + precision);
            Kernels.dw(x, dy, dw, split, reduction, Options.defaults());
            assertAll(2, dw, "added, split " + split + " " + reduction);
          }
        }
      }
    }
  }

  @Test
  @DisplayName(
      "V3: a 16-bit accumulation buffer: 256 + 1 is 257, and 4096 times 2^-10 is 4, in float32")
  void accumulationBuffer() {
    Tensor one = constant(arena, DType.BFLOAT16, 1, 1, 1);
    Tensor dw = constant(arena, DType.FLOAT32, 256, 1, 1);
    Kernels.dw(one, one, dw);
    assertValues(dw, 257);
    Tensor small = constant(arena, DType.BFLOAT16, 0x1p-10f, 1, 1);
    Tensor sum = constant(arena, DType.FLOAT32, 0, 1, 1);
    for (int i = 0; i < 4096; i++) {
      Kernels.dw(one, small, sum);
    }
    assertValues(sum, 4);
  }

  @ParameterizedTest
  @EnumSource(names = {"BFLOAT16", "FLOAT16"})
  @DisplayName(
      "V4: a hidden round trip through 16 bits: 1 + 2^-12 survives in a float32 dW, assigned and"
          + " added")
  void hiddenRounding(DType type) {
    Tensor x = Tensors.of(arena, type, new float[] {1, 0x1p-12f}, 2, 1);
    Tensor dy = constant(arena, type, 1, 2, 1);
    for (int split : new int[] {1, 2}) {
      for (Reduction reduction : Reduction.values()) {
        Tensor dw = nan(arena, DType.FLOAT32, 1, 1);
        Kernels.dw(x, dy, dw, split, reduction, ASSIGN);
        assertValues(dw, 1.000244140625f);
        dw.fill(0);
        Kernels.dw(x, dy, dw, split, reduction, ADD);
        assertValues(dw, 1.000244140625f);
      }
    }
  }

  @Test
  @DisplayName("V6: a float16 accumulator stops at 2048: 4096 ones give 4096 in every mode")
  void halfAccumulator() {
    Tensor ones = constant(arena, DType.FLOAT16, 1, 4096, 1);
    for (int split : new int[] {0, 1, 2, 7, 4096}) {
      for (Reduction reduction : Reduction.values()) {
        for (Precision precision : Precision.values()) {
          for (DType output : new DType[] {DType.FLOAT16, DType.FLOAT32}) {
            Tensor dw = nan(arena, output, 1, 1);
            Kernels.dw(ones, ones, dw, split, reduction, ASSIGN.withPrecision(precision));
            assertValues(dw, 4096);
          }
        }
      }
    }
    assertValues(Tensors.y(arena, ones.transpose(), ones, DType.FLOAT16), 4096);
    assertValues(Tensors.dx(arena, ones.transpose(), ones.transpose(), DType.FLOAT16), 4096);
    Tensor vector = constant(arena, DType.FLOAT16, 1, 4096);
    assertValues(Tensors.weightedSum(arena, vector, vector, DType.FLOAT16), 4096);
  }

  @Test
  @DisplayName(
      "V8: float16 beyond its range: 70000 becomes infinite, float32 keeps it, 65519 still rounds"
          + " to 65504")
  void halfOverflow() {
    Tensor x = constant(arena, DType.FLOAT16, 280, 1, 1);
    Tensor dy = constant(arena, DType.FLOAT16, 250, 1, 1);
    assertValues(Tensors.dw(arena, x, dy, DType.FLOAT16), Float.POSITIVE_INFINITY);
    assertValues(Tensors.dw(arena, x, dy, DType.FLOAT32), 70000);
    assertValues(Tensors.y(arena, x, dy, DType.FLOAT16), Float.POSITIVE_INFINITY);
    assertValues(Tensors.dx(arena, x, dy, DType.FLOAT32), 70000);
    Tensor largest = Tensors.of(arena, DType.FLOAT16, new float[] {65504, 1}, 2, 1);
    assertValues(
        Tensors.dw(
            arena,
            largest,
            Tensors.of(arena, DType.FLOAT16, new float[] {1, 15}, 2, 1),
            DType.FLOAT16),
        65504);
    assertValues(
        Tensors.dw(
            arena,
            largest,
            Tensors.of(arena, DType.FLOAT16, new float[] {1, 16}, 2, 1),
            DType.FLOAT16),
        Float.POSITIVE_INFINITY);
    assertValues(
        Tensors.dw(
            arena,
            largest,
            Tensors.of(arena, DType.FLOAT16, new float[] {-1, -16}, 2, 1),
            DType.FLOAT16),
        Float.NEGATIVE_INFINITY);
  }

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "INT32")
  @DisplayName(
      "V9, V11: old contents multiplied by 0: assigning over NaN and Inf is right, adding to NaN"
          + " stays NaN")
  void assignOverGarbage(DType type) {
    Tensor x = random(arena, 1, type, 70, 33);
    Tensor dy = random(arena, 2, type, 70, 40);
    Tensor w = random(arena, 3, type, 33, 40);
    Tensor v = random(arena, 4, type, 33);
    Tensor g = random(arena, 5, type, 70);
    for (DType output : new DType[] {DType.FLOAT32, type}) {
      for (float garbage :
          new float[] {Float.NaN, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY}) {
        for (int split : new int[] {1, 2, 5}) {
          for (Reduction reduction : Reduction.values()) {
            Tensor dw = constant(arena, output, garbage, 33, 40);
            Tensor clean = constant(arena, output, 0, 33, 40);
            Kernels.dw(x, dy, dw, split, reduction, ASSIGN);
            Kernels.dw(x, dy, clean, split, Reduction.DETERMINISTIC, ASSIGN);
            if (reduction == Reduction.DETERMINISTIC) {
              assertSameBits(clean, dw, "dw over " + garbage);
            }
            assertFinite(dw);
          }
        }
        Tensor dx = constant(arena, output, garbage, 70, 33);
        Kernels.dx(dy, w, dx);
        assertFinite(dx);
        Tensor y = constant(arena, output, garbage, 70, 40);
        Kernels.y(x, w, y);
        assertFinite(y);
        Tensor sum = constant(arena, output, garbage, 70);
        Kernels.weightedSum(x, v, sum);
        assertFinite(sum);
        Tensor gx = constant(arena, output, garbage, 70, 33);
        Tensor gw = constant(arena, output, garbage, 33);
        Kernels.weightedSumBackward(x, v, g, gx, gw, ASSIGN);
        assertFinite(gx);
        assertFinite(gw);
        Tensor reduced = constant(arena, DType.FLOAT32, garbage, 33, 40);
        Kernels.dwReduce(random(arena, 6, DType.FLOAT32, 3, 33, 40), reduced, ASSIGN);
        assertFinite(reduced);
      }
      for (int split : new int[] {1, 3}) {
        for (Reduction reduction : Reduction.values()) {
          Tensor dw = nan(arena, output, 33, 40);
          Kernels.dw(x, dy, dw, split, reduction, Options.defaults());
          assertAll(Float.NaN, dw, "added to NaN");
        }
      }
      Tensor y = nan(arena, output, 70, 40);
      Kernels.y(x, w, y, ADD);
      assertAll(Float.NaN, y, "added to NaN");
    }
  }

  private static void assertFinite(Tensor tensor) {
    for (float value : Reference.load(tensor)) {
      assertTrue(Float.isFinite(value), tensor::toString);
    }
  }

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "INT32")
  @DisplayName(
      "V12: a contraction of length 0 returns uninitialised memory: it assigns +0.0 and adds"
          + " nothing")
  void emptyContraction(DType type) {
    Tensor x = Tensor.allocate(arena, type, 0, 3);
    Tensor dy = Tensor.allocate(arena, type, 0, 5);
    for (int split : new int[] {0, 1}) {
      for (Reduction reduction : Reduction.values()) {
        Tensor dw = nan(arena, type, 3, 5);
        Kernels.dw(x, dy, dw, split, reduction, ASSIGN);
        assertAll(0, dw, "dw of no tokens");
        Tensor kept = constant(arena, type, -7, 3, 5);
        Kernels.dw(x, dy, kept, split, reduction, Options.defaults());
        assertAll(-7, kept, "dw of no tokens, added");
        Tensor negativeZero = constant(arena, type, -0f, 3, 5);
        Kernels.dw(x, dy, negativeZero, split, reduction, Options.defaults());
        assertAll(-0f, negativeZero, "the buffer is left as it is");
      }
    }
    Tensor dx = nan(arena, type, 4, 3);
    Kernels.dx(Tensor.allocate(arena, type, 4, 0), Tensor.allocate(arena, type, 3, 0), dx);
    assertAll(0, dx, "dx with no outputs");
    Tensor y = nan(arena, type, 4, 5);
    Kernels.y(Tensor.allocate(arena, type, 4, 0), Tensor.allocate(arena, type, 0, 5), y);
    assertAll(0, y, "y with no inputs");
    Tensor sums = nan(arena, type, 2, 3);
    Kernels.weightedSum(
        Tensor.allocate(arena, type, 2, 3, 0), Tensor.allocate(arena, type, 0), sums);
    assertAll(0, sums, "weighted sum over no features");
    Tensor gw = nan(arena, type, 6);
    Kernels.weightedSumBackward(
        Tensor.allocate(arena, type, 2, 0, 6),
        random(arena, 1, type, 6),
        Tensor.allocate(arena, type, 2, 0),
        Tensor.allocate(arena, type, 2, 0, 6),
        gw,
        ASSIGN);
    assertAll(0, gw, "gw of no rows");
    Tensor reduced = nan(arena, DType.FLOAT32, 2, 2);
    Kernels.dwReduce(Tensor.allocate(arena, DType.FLOAT32, 0, 2, 2), reduced, ASSIGN);
    assertAll(0, reduced, "no partials");
  }

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "INT32")
  @DisplayName("V12: an empty output writes nothing, not even next to it")
  void emptyOutput(DType type) {
    Tensor guard = constant(arena, type, 42, 8);
    Tensor dw =
        Tensor.of(guard.segment(), type, new long[] {0, 4}, new long[] {4, 1}, guard.offset());
    Kernels.dw(Tensor.allocate(arena, type, 6, 0), random(arena, 1, type, 6, 4), dw);
    Tensor dx =
        Tensor.of(guard.segment(), type, new long[] {2, 0}, new long[] {0, 1}, guard.offset());
    Kernels.dx(random(arena, 1, type, 2, 4), Tensor.allocate(arena, type, 0, 4), dx);
    assertAll(42, guard, "memory of an empty output");
  }

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "INT32")
  @DisplayName(
      "V13: the planner divides by zero on empty sizes: split 0 runs, and launches no kernel")
  void plannerOnEmptySizes(DType type) {
    for (int[] s : new int[][] {{0, 3, 4}, {5, 0, 4}, {5, 3, 0}, {0, 0, 0}, {0, 3, 0}}) {
      Tensor x = Tensor.allocate(arena, type, s[0], s[1]);
      Tensor dy = Tensor.allocate(arena, type, s[0], s[2]);
      Tensor dw = Tensor.allocate(arena, type, s[1], s[2]);
      long before = dxdw_h.dxdw_counter(dxdw_h.DXDW_COUNTER_LAUNCHES());
      for (Reduction reduction : Reduction.values()) {
        Kernels.dw(x, dy, dw, 0, reduction, Options.defaults());
        Plan plan = Kernels.explainDw(x, dy, dw, 0, reduction, Options.defaults());
        assertEquals(1, plan.split(), plan::toString);
        assertEquals(0, plan.workspaceBytes(), plan::toString);
      }
      assertEquals(before, dxdw_h.dxdw_counter(dxdw_h.DXDW_COUNTER_LAUNCHES()), Arrays.toString(s));
    }
  }

  @Test
  @DisplayName(
      "V14: a shortcut for empty sizes skips the checks: wrong shapes and types are refused all the"
          + " same")
  void emptyStillChecked() {
    Tensor x = Tensor.allocate(arena, DType.FLOAT32, 0, 5);
    Tensor dy = Tensor.allocate(arena, DType.FLOAT32, 0, 3);
    Tensor w = Tensor.allocate(arena, DType.FLOAT32, 4, 3);
    assertNames(() -> Kernels.dx(dy, w, x), "dx", "4", "5");
    assertNames(() -> Kernels.dw(x, dy, w), "dw", "4", "5");
    assertNames(() -> Kernels.y(x, w, dy), "w", "4", "5");
    Tensor half = Tensor.allocate(arena, DType.FLOAT16, 5, 3);
    assertNames(() -> Kernels.y(x, half, dy), "w", "float16", "float32");
    assertNames(() -> Kernels.dw(x, dy, half), "dw", "float16", "float32");
    assertNames(
        () ->
            Kernels.weightedSum(
                x,
                Tensor.allocate(arena, DType.FLOAT32, 4),
                Tensor.allocate(arena, DType.FLOAT32, 0)),
        "w",
        "4",
        "5");
    Tensor right = Tensor.allocate(arena, DType.FLOAT32, 5, 3);
    Tensor dw = nan(arena, DType.FLOAT32, 5, 3);
    Kernels.dx(dy, right, x);
    Kernels.dw(x, dy, dw, 0, Reduction.DETERMINISTIC, ASSIGN);
    assertAll(0, dw, "the gradient of a legal empty batch");
  }

  private static void assertNames(org.junit.jupiter.api.function.Executable call, String... parts) {
    String message = assertThrows(IllegalArgumentException.class, call).getMessage();
    for (String part : parts) {
      assertTrue(message.contains(part), () -> "'" + part + "' in: " + message);
    }
  }

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "INT32")
  @DisplayName(
      "V16: zeros that are skipped hide NaN: 0 times NaN or Inf is NaN, in one element and in whole"
          + " tiles")
  void zeroTimesNan(DType type) {
    for (float bad : new float[] {Float.NaN, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY}) {
      Tensor zero = constant(arena, type, 0, 1, 1);
      Tensor opposite = constant(arena, type, bad, 1, 1);
      assertValues(Tensors.dw(arena, zero, opposite, type), Float.NaN);
      assertValues(Tensors.dx(arena, zero, opposite, type), Float.NaN);
      assertValues(Tensors.y(arena, opposite, zero, type), Float.NaN);
      for (int tokens : new int[] {3, 64, 130, 600}) {
        Tensor x = constant(arena, type, 0, tokens, 48);
        Tensor dy = constant(arena, type, bad, tokens, 70);
        for (int split : new int[] {1, 3}) {
          Tensor dw = nan(arena, type, 48, 70);
          dw.fill(1);
          Kernels.dw(x, dy, dw, split, Reduction.DETERMINISTIC, ADD);
          assertAll(Float.NaN, dw, "a zero tile");
        }
        assertAll(
            Float.NaN,
            Tensors.dx(arena, dy, constant(arena, type, 0, 33, 70), type),
            "zero weights");
        assertAll(
            Float.NaN, Tensors.y(arena, x, constant(arena, type, bad, 48, 9), type), "zero inputs");
        assertAll(
            Float.NaN,
            Tensors.weightedSum(arena, dy, constant(arena, type, 0, 70), type),
            "zero weights");
        Tensor gx = constant(arena, type, 0, tokens, 70);
        Tensor gw = constant(arena, type, 0, 70);
        Kernels.weightedSumBackward(
            dy, constant(arena, type, bad, 70), constant(arena, type, 0, tokens), gx, gw);
        assertAll(Float.NaN, gx, "gx");
        assertAll(Float.NaN, gw, "gw");
      }
      // One bad element among numbers shows in its row or column, and nowhere else.
      Tensor x = random(arena, 1, type, 40, 30);
      Tensor dy = random(arena, 2, type, 40, 50);
      for (int k = 0; k < 30; k++) {
        x.set(0, 17, k);
      }
      dy.set(bad, 17, 23);
      Tensor dw = Tensors.dw(arena, x, dy, type);
      for (int k = 0; k < 30; k++) {
        for (int n = 0; n < 50; n++) {
          assertEquals(n == 23, Float.isNaN(dw.get(k, n)), "dw[" + k + ", " + n + "]");
        }
      }
    }
  }

  @Test
  @DisplayName(
      "V18: a native library that flushes subnormals for the whole thread: Java still computes with"
          + " them")
  void subnormalsSurvive() throws Exception {
    Tensor x = random(arena, 1, DType.BFLOAT16, 300, 200);
    Tensor dy = random(arena, 2, DType.BFLOAT16, 300, 200);
    Tensor shared = Tensor.allocate(Arena.ofAuto(), DType.FLOAT32, 8, 8);
    assertTrue(half(Float.MIN_NORMAL) != 0);
    for (DType type : Bits.FLOATS) {
      Tensors.dw(arena, x.to(type, arena), dy.to(type, arena), DType.FLOAT32);
      assertTrue(half(Float.MIN_NORMAL) != 0, "after a call on " + type);
      assertTrue(halfDouble(Double.MIN_NORMAL) != 0, "after a call on " + type);
    }
    try (ExecutorService fresh =
        Executors.newThreadPerTaskExecutor(Thread.ofPlatform().factory())) {
      for (int i = 0; i < 8; i++) {
        assertTrue(fresh.submit(() -> half(Float.MIN_NORMAL)).get() != 0, "on a fresh thread");
        assertTrue(
            fresh
                    .submit(
                        () -> {
                          Kernels.y(
                              shared, shared, Tensor.allocate(Arena.ofAuto(), DType.FLOAT32, 8, 8));
                          return half(Float.MIN_NORMAL);
                        })
                    .get()
                != 0,
            "on a fresh thread after a call");
      }
    }
  }

  private static volatile float two = 2;

  private static float half(float value) {
    return value / two;
  }

  private static double halfDouble(double value) {
    return value / two;
  }

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "INT32")
  @DisplayName("V18: subnormal float32 and float16 products are kept, bfloat16 ones with EXACT")
  void subnormalProducts(DType type) {
    // 2^-24 is float16's smallest number; the others have smaller ones.
    float tiny = type == DType.FLOAT16 ? 0x1p-24f : 0x1p-133f;
    Tensor x = constant(arena, type, tiny, 3, 5);
    Tensor dy = constant(arena, type, 1, 3, 7);
    Tensor dw = nan(arena, DType.FLOAT32, 5, 7);
    Kernels.dw(x, dy, dw, 1, Reduction.DETERMINISTIC, Tensors.EXACT);
    assertAll(3 * tiny, dw, "dw");
    Tensor same = nan(arena, type, 5, 7);
    Kernels.dw(x, dy, same, 1, Reduction.DETERMINISTIC, Tensors.EXACT);
    assertAll(3 * tiny, same, "dw in the operands' type");
  }

  @Test
  @DisplayName("V22: a hidden reduced-precision mode: 1024.5 times 1 in float32 is 1024.5")
  void float32StaysFloat32() {
    Tensor dy = Tensor.of(arena, new float[] {1024.5f}, 1, 1);
    Tensor w = Tensor.of(arena, new float[] {1}, 1, 1);
    assertValues(Tensors.dx(arena, dy, w, DType.FLOAT32), 1024.5f);
    assertValues(Tensors.y(arena, dy, w, DType.FLOAT32), 1024.5f);
    assertValues(Tensors.dw(arena, dy, w, DType.FLOAT32), 1024.5f);
    for (Precision precision : Precision.values()) {
      Tensor dx = nan(arena, DType.FLOAT32, 1, 1);
      Kernels.dx(dy, w, dx, Options.defaults().withPrecision(precision));
      assertValues(dx, 1024.5f);
    }
  }

  @Test
  @DisplayName(
      "V24: documents and code disagree about defaults: the default options are the documented"
          + " ones")
  void defaults() {
    Options options = Options.defaults();
    assertEquals(Accumulate.DEFAULT, options.accumulate());
    assertEquals(Precision.DEFAULT, options.precision());
    assertTrue(
        !options.batchInvariant() && options.stream().isEmpty() && options.workspace().isEmpty());
    Tensor two = constant(arena, DType.FLOAT32, 2, 1, 1);
    Tensor three = constant(arena, DType.FLOAT32, 3, 1, 1);
    Tensor out = constant(arena, DType.FLOAT32, 10, 1, 1);
    Kernels.dw(two, three, out);
    assertValues(out, 16);
    Kernels.y(two, three, out);
    assertValues(out, 6);
    Kernels.dx(two, two, out);
    assertValues(out, 4);
    Kernels.dwReduce(constant(arena, DType.FLOAT32, 1, 3, 1, 1), out);
    assertValues(out, 7);
    Tensor sum = constant(arena, DType.FLOAT32, 100, 1);
    Kernels.weightedSum(two, constant(arena, DType.FLOAT32, 3, 1), sum);
    assertValues(sum, 6);
    Tensor gx = constant(arena, DType.FLOAT32, 100, 1, 1);
    Tensor gw = constant(arena, DType.FLOAT32, 100, 1);
    Kernels.weightedSumBackward(
        two, constant(arena, DType.FLOAT32, 3, 1), constant(arena, DType.FLOAT32, 5, 1), gx, gw);
    assertValues(gx, 15);
    assertValues(gw, 110);
  }

  @Test
  @DisplayName(
      "V27: a hidden K x N temporary: adding without split needs no workspace, and scratch stays"
          + " far below one")
  void noHiddenTemporary() throws Exception {
    int wide = 3000;
    Tensor x = Tensor.allocate(arena, DType.FLOAT32, 8, wide);
    Tensor dw = Tensor.allocate(arena, DType.FLOAT32, wide, wide);
    for (Reduction reduction : Reduction.values()) {
      assertEquals(
          0, Kernels.explainDw(x, x, dw, 1, reduction, Options.defaults()).workspaceBytes());
    }
    Plan split = Kernels.explainDw(x, x, dw, 4, Reduction.DETERMINISTIC, Options.defaults());
    assertEquals(4L * 4 * wide * wide, split.workspaceBytes(), split::toString);
    long scratch = Long.parseLong(FreshJvm.run("scratch", "-XX:ActiveProcessorCount=2").trim());
    assertTrue(scratch < 4L * wide * wide / 4, () -> scratch + " bytes of scratch");
  }

  @Test
  @DisplayName(
      "a caller's own workspace: the bits are the same, and a smaller one is refused before any"
          + " write")
  void ownWorkspace() {
    Tensor x = random(arena, 1, DType.BFLOAT16, 64, 20);
    Tensor dy = random(arena, 2, DType.BFLOAT16, 64, 30);
    Tensor expected = nan(arena, DType.FLOAT32, 20, 30);
    Kernels.dw(x, dy, expected, 4, Reduction.DETERMINISTIC, ASSIGN);
    Tensor dw = constant(arena, DType.FLOAT32, 42, 20, 30);
    long bytes = Kernels.explainDw(x, dy, dw, 4, Reduction.DETERMINISTIC, ASSIGN).workspaceBytes();
    Tensor workspace = nan(arena, DType.FLOAT32, bytes / 4);
    Tensor short1 = workspace.slice(0, 0, bytes / 4 - 1);
    String message =
        assertThrows(
                IllegalArgumentException.class,
                () ->
                    Kernels.dw(x, dy, dw, 4, Reduction.DETERMINISTIC, ASSIGN.withWorkspace(short1)))
            .getMessage();
    assertTrue(
        message.contains("workspace")
            && message.contains(Long.toString(bytes))
            && message.contains(Long.toString(bytes - 4)),
        message);
    assertAll(42, dw, "refused");
    Kernels.dw(x, dy, dw, 4, Reduction.DETERMINISTIC, ASSIGN.withWorkspace(workspace));
    assertSameBits(expected, dw, "own workspace");
  }

  @Test
  @DisplayName("dw_reduce adds in slice order: partials that cancel tell every other order")
  void reduceOrder() {
    float[] partials = {0x1p24f, 1, -0x1p24f, 1};
    Tensor p = Tensors.of(arena, DType.FLOAT32, partials, 4, 1, 1);
    Tensor dw = nan(arena, DType.FLOAT32, 1, 1);
    Kernels.dwReduce(p, dw, ASSIGN);
    assertValues(dw, 1);
    dw.fill(0.5f);
    Kernels.dwReduce(p, dw);
    assertValues(dw, 1.5f);
    Kernels.dwReduce(p.reverse(0), dw, ASSIGN);
    float sum = 0;
    for (int s = 3; s >= 0; s--) {
      sum += partials[s];
    }
    assertValues(dw, sum);
  }
}
