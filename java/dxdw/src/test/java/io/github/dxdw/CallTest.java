package io.github.dxdw;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.lang.foreign.Arena;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.LongStream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Calls from Java: values by hand, threads, lifetime during a call, and what a call costs. */
class CallTest {
  private static final Tensor X = Tensor.of(Arena.ofAuto(), new float[][] {{1, 2}, {3, 4}});

  private static Tensor random(Arena arena, Random random, long... shape) {
    Tensor tensor = Tensor.allocate(arena, DType.FLOAT32, shape);
    float[] values = new float[(int) tensor.elementCount()];
    for (int i = 0; i < values.length; ++i) {
      values[i] = random.nextFloat() - 0.5f;
    }
    return Tensor.of(arena, values, shape);
  }

  @Test
  @DisplayName("guards against a stride-0 gradient taken for dense memory")
  void expandedGradient() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor dy = Tensor.scalar(arena, 1).expand(2, 2);
      Tensor dw = Tensor.allocate(arena, DType.FLOAT32, 2, 2);
      Dxdw.dw(X, dy, dw);
      assertArrayEquals(new float[] {4, 4, 6, 6}, dw.toFloatArray());
      Tensor dx = Tensor.allocate(arena, DType.FLOAT32, 2, 2);
      Dxdw.dx(dy, X, dx);
      assertArrayEquals(new float[] {3, 7, 3, 7}, dx.toFloatArray());
    }
  }

  @Test
  @DisplayName("guards against leading dimensions that are not flattened: ranks 1, 3, 5 and 32")
  void weightedSumOfAnyRank() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor w = Tensor.of(arena, new float[] {1, 2, 3, 4});
      Tensor one = Tensor.scalar(arena, 1);
      Tensor scalar = Tensor.allocate(arena, DType.FLOAT32);
      Dxdw.weightedSum(one.expand(4), w, scalar);
      assertEquals(10, scalar.get());
      long[] many = LongStream.generate(() -> 1).limit(32).toArray();
      many[0] = 3;
      many[31] = 4;
      for (long[] shape : new long[][] {{2, 3, 4}, {2, 1, 3, 2, 4}, many}) {
        Tensor y = Tensor.allocate(arena, DType.FLOAT32, Arrays.copyOf(shape, shape.length - 1));
        Dxdw.weightedSum(one.expand(shape), w, y);
        for (float value : y.toFloatArray()) {
          assertEquals(10, value);
        }
      }
      Tensor permuted = random(arena, new Random(1), 4, 3, 2).permute(2, 1, 0);
      Tensor y = Tensor.allocate(arena, DType.FLOAT32, 2, 3);
      Tensor z = Tensor.allocate(arena, DType.FLOAT32, 2, 3);
      Dxdw.weightedSum(permuted, w, y);
      Dxdw.weightedSum(permuted.copy(arena), w, z);
      assertArrayEquals(z.toFloatArray(), y.toFloatArray(), 1e-6f);
    }
  }

  @Test
  @DisplayName("guards against work for gradients that nobody wants")
  void unwantedGradients() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor w = Tensor.of(arena, new float[] {1, 1});
      Tensor g = Tensor.of(arena, new float[] {1, 10});
      Tensor gx = Tensor.allocate(arena, DType.FLOAT32, 2, 2);
      Tensor gw = Tensor.allocate(arena, DType.FLOAT32, 2);
      Dxdw.weightedSumBackward(X, w, g, gx, null);
      assertArrayEquals(new float[] {1, 1, 10, 10}, gx.toFloatArray());
      Dxdw.weightedSumBackward(X, w, g, null, gw);
      assertArrayEquals(new float[] {31, 42}, gw.toFloatArray());
      Dxdw.weightedSumBackward(X, w, g, null, null);
      assertEquals(0, Dxdw.explainWeightedSumBackward(X, w, g, null, null).tiles());
    }
  }

  @Test
  void emptySizes() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor none = Tensor.allocate(arena, DType.FLOAT32, 0, 2);
      Tensor dw = Tensor.of(arena, new float[][] {{1, 2}, {3, 4}});
      Dxdw.dw(none, none, dw);
      assertArrayEquals(new float[] {1, 2, 3, 4}, dw.toFloatArray());
      Options assign = Options.defaults().withAccumulate(Accumulate.ASSIGN);
      Dxdw.dw(none, none, dw, 0, Reduction.ATOMIC, assign);
      assertArrayEquals(new float[4], dw.toFloatArray());
      assertEquals("none", Dxdw.explainY(none, dw, none.copy(arena)).kernel());
    }
  }

  @Test
  @DisplayName(
      "guards against calls that allocate: 0 bytes on the Java heap, whatever the operands")
  void callsAllocateNothing() {
    ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    try (Arena arena = Arena.ofConfined()) {
      Tensor w = Tensor.of(arena, new float[][] {{1, 2}, {3, 4}});
      Tensor out = Tensor.allocate(arena, DType.FLOAT32, 2, 2);
      Tensor features = Tensor.of(arena, new float[] {1, 2});
      Tensor sums = Tensor.allocate(arena, DType.FLOAT32, 2);
      Options options =
          Options.defaults().withAccumulate(Accumulate.ADD).withWorkspace(arena.allocate(1024, 64));
      Runnable calls =
          () -> {
            for (int i = 0; i < 1000; ++i) {
              Dxdw.y(X, w, out);
              Dxdw.dx(X, w, out, options);
              Dxdw.dw(X, w, out, 2, Reduction.DETERMINISTIC, options);
              Dxdw.weightedSum(X, features, sums);
            }
          };
      for (int i = 0; i < 30; ++i) {
        calls.run();
      }
      // Compilation may still replace code while this runs; what a call allocated would come every
      // time.
      long least = Long.MAX_VALUE;
      for (int round = 0; round < 20 && least > 0; ++round) {
        long before = threads.getCurrentThreadAllocatedBytes();
        calls.run();
        least = Math.min(least, threads.getCurrentThreadAllocatedBytes() - before);
      }
      assertEquals(0, least, "bytes in 4000 calls");
    }
  }

  @Test
  @DisplayName(
      "guards against races between callers: 32 threads, each result equal to the serial one")
  void manyThreads() throws Exception {
    try (ExecutorService pool = Executors.newFixedThreadPool(32)) {
      many(pool, 32, 50);
    }
  }

  @Test
  @DisplayName("guards against virtual threads that get another's frame or message")
  void virtualThreads() throws Exception {
    try (ExecutorService pool = Executors.newVirtualThreadPerTaskExecutor()) {
      many(pool, 1000, 2);
    }
  }

  private static void many(ExecutorService pool, int tasks, int rounds) throws Exception {
    try (Arena arena = Arena.ofShared()) {
      CountDownLatch start = new CountDownLatch(1);
      List<Future<Void>> futures = new ArrayList<>();
      for (int task = 0; task < tasks; ++task) {
        Random random = new Random(task);
        long size = 5 + task % 40;
        Tensor x = random(arena, random, size, 33);
        Tensor w = random(arena, random, 33, 29);
        Tensor serial = Tensor.allocate(arena, DType.FLOAT32, size, 29);
        Dxdw.y(x, w, serial);
        Tensor y = Tensor.allocate(arena, DType.FLOAT32, size, 29);
        futures.add(
            pool.submit(
                () -> {
                  start.await();
                  for (int round = 0; round < rounds; ++round) {
                    y.fill(Float.NaN);
                    Dxdw.y(x, w, y);
                    assertArrayEquals(serial.toFloatArray(), y.toFloatArray());
                    String message = null;
                    try {
                      Dxdw.dw(x, x, y, (int) size + 1, Reduction.ATOMIC, Options.defaults());
                    } catch (IllegalArgumentException e) {
                      message = e.getMessage();
                    }
                    assertTrue(message.contains("[" + size + ", 33]"), message);
                  }
                  return null;
                }));
      }
      start.countDown();
      for (Future<Void> future : futures) {
        future.get();
      }
    }
  }

  @Test
  void threadCount() {
    int before = Dxdw.threads();
    assertEquals(Runtime.getRuntime().availableProcessors(), before);
    try {
      Dxdw.setThreads(3);
      assertEquals(3, Dxdw.threads());
      Dxdw.setThreads(0);
      assertEquals(before, Dxdw.threads());
    } finally {
      Dxdw.setThreads(before);
    }
  }

  @Test
  void describesItself() {
    assertTrue(Dxdw.describe().contains(Dxdw.simdLevel()), Dxdw.describe());
    assertTrue(Dxdw.version().matches("\\d+\\.\\d+\\.\\d+.*"), Dxdw.version());
    assertTrue(Dxdw.libraryFile().isAbsolute());
  }
}
