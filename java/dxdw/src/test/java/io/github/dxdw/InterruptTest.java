package io.github.dxdw;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Long calls that can be given up, and come to the same when they are not. */
class InterruptTest {
  private static final Options CUT = Options.defaults().withInterruptible(true);
  private static final Options WHOLE = Options.defaults();

  private int threads;

  /** Parts grow with the number of threads; with one they are small. */
  @BeforeEach
  void oneThread() {
    threads = Dxdw.threads();
    Dxdw.setThreads(1);
  }

  @AfterEach
  void asBefore() {
    Thread.interrupted();
    Dxdw.setThreads(threads);
  }

  private static Tensor random(Arena arena, long seed, DType type, long... shape) {
    SplittableRandom random = new SplittableRandom(seed);
    Tensor tensor = Tensor.allocate(arena, DType.FLOAT32, shape);
    float[] values = new float[(int) tensor.elementCount()];
    for (int i = 0; i < values.length; ++i) {
      values[i] = (float) random.nextDouble(-1, 1);
    }
    return Tensor.of(arena, values, shape).to(type, arena);
  }

  private static void assertSame(Tensor whole, Tensor parts) {
    assertArrayEquals(whole.toFloatArray(), parts.toFloatArray());
  }

  @ParameterizedTest
  @EnumSource(names = {"FLOAT32", "FLOAT16", "BFLOAT16"})
  @DisplayName("guards against parts that change a bit of a product, in every type")
  void sameBits(DType type) {
    try (Arena arena = Dxdw.arena()) {
      // Some multiplications more than parts have: 2 to 3 parts in each call.
      Tensor x = random(arena, 1, type, 300, 2050);
      Tensor w = random(arena, 2, type, 2050, 2050);
      Tensor[] y = pair(arena, DType.FLOAT32, 300, 2050);
      Dxdw.y(x, w, y[0], WHOLE);
      Dxdw.y(x, w, y[1], CUT);
      assertSame(y[0], y[1]);
      Dxdw.dx(x, w.transpose(), y[0], WHOLE.withAccumulate(Accumulate.ADD));
      Dxdw.dx(x, w.transpose(), y[1], CUT.withAccumulate(Accumulate.ADD));
      assertSame(y[0], y[1]);
      Tensor gx = x.transpose();
      for (int split : new int[] {0, 1, 3}) {
        for (DType out : type == DType.FLOAT32 ? List.of(type) : List.of(type, DType.FLOAT32)) {
          Tensor[] dw = pair(arena, out, 300, 2050);
          Dxdw.dw(gx, w, dw[0], split, Reduction.DETERMINISTIC, WHOLE);
          Dxdw.dw(gx, w, dw[1], split, Reduction.DETERMINISTIC, CUT);
          assertSame(dw[0], dw[1]);
        }
      }
    }
  }

  private static Tensor[] pair(Arena arena, DType type, long... shape) {
    return new Tensor[] {random(arena, 9, type, shape), random(arena, 9, type, shape)};
  }

  @Test
  @DisplayName("guards against parts that change a bit of a weighted sum or a reduction")
  void sameBitsOfSums() {
    try (Arena arena = Dxdw.arena()) {
      Tensor row = random(arena, 1, DType.FLOAT32, 300_000);
      Tensor x = row.expand(400, 300_000);
      Tensor[] y = pair(arena, DType.FLOAT32, 400);
      Dxdw.weightedSum(x, row, y[0], WHOLE);
      Dxdw.weightedSum(x, row, y[1], CUT);
      assertSame(y[0], y[1]);
      Tensor features = random(arena, 2, DType.BFLOAT16, 400);
      Tensor g = random(arena, 3, DType.BFLOAT16, 500, 600);
      Tensor[] gw = pair(arena, DType.FLOAT32, 400);
      Tensor many = features.expand(500, 600, 400);
      Dxdw.weightedSumBackward(many, features, g, null, gw[0], WHOLE);
      Dxdw.weightedSumBackward(many, features, g, null, gw[1], CUT);
      assertSame(gw[0], gw[1]);
      Tensor[] gx = pair(arena, DType.BFLOAT16, 5, 6, 400);
      Tensor few = g.slice(0, 0, 5).slice(1, 0, 6);
      Dxdw.weightedSumBackward(features.expand(5, 6, 400), features, few, gx[0], gw[0], WHOLE);
      Dxdw.weightedSumBackward(features.expand(5, 6, 400), features, few, gx[1], gw[1], CUT);
      assertSame(gx[0], gx[1]);
      assertSame(gw[0], gw[1]);
      Tensor partials = random(arena, 4, DType.FLOAT32, 1, 300, 400).expand(800, 300, 400);
      Tensor[] dw = pair(arena, DType.FLOAT32, 300, 400);
      Dxdw.dwReduce(partials, dw[0], WHOLE);
      Dxdw.dwReduce(partials, dw[1], CUT);
      assertSame(dw[0], dw[1]);
      Tensor[] scalar = {Tensor.scalar(arena, 1), Tensor.scalar(arena, 2)};
      Dxdw.weightedSum(row, row, scalar[0], WHOLE);
      Dxdw.weightedSum(row, row, scalar[1], CUT);
      assertSame(scalar[0], scalar[1]);
      Tensor none = Tensor.allocate(arena, DType.FLOAT32, 0, 4);
      Dxdw.y(none, random(arena, 1, DType.FLOAT32, 4, 2), none.slice(1, 0, 2), CUT);
    }
  }

  @Test
  @DisplayName(
      "a long call gives up within a part, keeps the status, and tells which rows it wrote")
  void givesUp() throws Exception {
    try (Arena arena = Dxdw.arena()) {
      int rows = 6000;
      Tensor x = random(arena, 1, DType.FLOAT32, 1, 2048).expand(rows, 2048);
      Tensor w = random(arena, 2, DType.FLOAT32, 2048, 2048);
      Tensor y = Tensor.allocate(arena, DType.FLOAT32, rows, 2048);
      Tensor row = Tensor.allocate(arena, DType.FLOAT32, 1, 2048);
      Dxdw.y(x.slice(0, 0, 1), w, row);
      y.fill(Float.NaN);
      CallInterruptedException[] caught = new CallInterruptedException[1];
      boolean[] status = new boolean[1];
      Thread caller =
          new Thread(
              () -> {
                try {
                  Dxdw.y(x, w, y, CUT);
                } catch (CallInterruptedException e) {
                  caught[0] = e;
                  status[0] = Thread.currentThread().isInterrupted();
                }
              });
      caller.start();
      while (Float.isNaN(y.get(0, 0))) {
        Thread.onSpinWait();
      }
      caller.interrupt();
      caller.join();
      assertTrue(caught[0] != null, "the call went on to its end");
      assertTrue(status[0]);
      assertEquals(0, caught[0].status());
      assertEquals(rows, caught[0].parts());
      long done = caught[0].done();
      assertTrue(done > 0 && done < rows, "rows: " + done);
      assertTrue(caught[0].getMessage().contains(done + " of " + rows), caught[0].getMessage());
      float[] expected = row.toFloatArray();
      assertArrayEquals(expected, y.select(0, 0).toFloatArray());
      assertArrayEquals(expected, y.select(0, done - 1).toFloatArray());
      for (float value : y.slice(0, done, rows).toFloatArray()) {
        assertTrue(Float.isNaN(value));
      }
    }
  }

  @Test
  @DisplayName("an interrupted thread writes nothing, but where the option is off")
  void interruptedBefore() {
    try (Arena arena = Dxdw.arena()) {
      Tensor x = Tensor.of(arena, new float[][] {{1, 2}, {3, 4}});
      Tensor y = Tensor.allocate(arena, DType.FLOAT32, 2, 2);
      Tensor v = Tensor.allocate(arena, DType.FLOAT32, 2);
      GradientBuffer buffer = GradientBuffer.of(y);
      Thread.currentThread().interrupt();
      for (Executable call :
          List.<Executable>of(
              () -> Dxdw.y(x, x, y, CUT),
              () -> Dxdw.dx(x, x, y, CUT),
              () -> Dxdw.dw(x, x, y, 0, Reduction.ATOMIC, CUT),
              () -> Dxdw.dwReduce(x.expand(3, 2, 2), y, CUT),
              () -> Dxdw.weightedSum(x, x.select(0, 0), v, CUT),
              () -> Dxdw.weightedSumBackward(x, x.select(0, 0), x.select(1, 0), y, v, CUT),
              () -> buffer.accumulateDw(x, x, 0, Reduction.DETERMINISTIC, CUT))) {
        assertEquals(0, assertThrows(CallInterruptedException.class, call).done());
      }
      assertArrayEquals(new float[4], y.toFloatArray());
      assertArrayEquals(new float[2], v.toFloatArray());
      Dxdw.y(x, x, y);
      assertEquals(22, y.get(1, 1));
      assertTrue(Thread.interrupted());
      Dxdw.y(x, x, y, CUT);
      assertThrows(IllegalArgumentException.class, () -> Dxdw.y(x, v, y, CUT));
      assertThrows(IllegalArgumentException.class, () -> Dxdw.y(x, x, x, CUT));
      assertFalse(Thread.interrupted());
    }
  }

  @Test
  @Timeout(60)
  @DisplayName("guards against parts without number where there is nothing to compute")
  void hugeButEmpty() {
    try (Arena arena = Dxdw.arena()) {
      long huge = 1L << 62;
      Tensor rows = Tensor.allocate(arena, DType.FLOAT32, huge, 0);
      Tensor columns = Tensor.allocate(arena, DType.FLOAT32, 0, huge);
      Tensor none = Tensor.allocate(arena, DType.FLOAT32, 0, 0);
      Tensor w = Tensor.scalar(arena, 1).expand(huge);
      Tensor row = Tensor.allocate(arena, DType.FLOAT32, 0);
      Dxdw.y(rows, none, rows.copy(arena), CUT);
      Dxdw.dx(rows, none, rows.copy(arena), CUT);
      Dxdw.dw(columns, none, rows, 0, Reduction.DETERMINISTIC, CUT);
      Dxdw.weightedSum(columns, w, row, CUT);
      Dxdw.weightedSumBackward(columns, w, row, columns.copy(arena), null, CUT);
      Dxdw.weightedSumBackward(columns, w, row, null, null, CUT);
    }
  }

  @Test
  @DisplayName("on a GPU the option changes nothing")
  void onAGpu() {
    Device gpu = Device.cuda(0);
    org.junit.jupiter.api.Assumptions.assumeTrue(gpu.isAvailable(), gpu::unavailabilityCause);
    try (Arena arena = Dxdw.arena()) {
      Tensor x = Tensor.of(arena, new float[][] {{1, 2}, {3, 4}}).to(gpu, arena);
      Tensor y = Tensor.allocate(arena, gpu, DType.FLOAT32, 2, 2);
      Thread.currentThread().interrupt();
      Dxdw.y(x, x, y, CUT);
      assertTrue(Thread.interrupted());
      assertEquals(22, y.get(1, 1));
    }
  }
}
