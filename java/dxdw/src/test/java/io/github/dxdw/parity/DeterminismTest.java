package io.github.dxdw.parity;

import static io.github.dxdw.parity.Tensors.ASSIGN;
import static io.github.dxdw.parity.Tensors.assertSameBits;
import static io.github.dxdw.parity.Tensors.nan;
import static io.github.dxdw.parity.Tensors.random;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.dxdw.Accumulate;
import io.github.dxdw.DType;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Options;
import io.github.dxdw.Precision;
import io.github.dxdw.Reduction;
import io.github.dxdw.Tensor;
import io.github.dxdw.parity.Case.Data;
import io.github.dxdw.parity.Case.Function;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Faults of repeatability that users of other libraries reported: over runs, load, threads,
 * processes and batch sizes.
 */
class DeterminismTest {

  @BeforeAll
  static void lookForDevice() {
    Kernels.requireDevice();
  }

  private final Arena arena = Arena.ofShared();

  @AfterEach
  void close() {
    arena.close();
  }

  @Test
  @DisplayName(
      "D1: tuning on the user's buffer: the first call of a JVM adds once, and equals the second"
          + " and the tenth")
  void firstCall() throws Exception {
    assertEquals("51.0\n".repeat(10), FreshJvm.run("first-call"));
  }

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "INT32")
  @DisplayName("D4: split sums in an order that varies: 100 runs under load give one bit pattern")
  void hundredRunsUnderLoad(DType type) throws Exception {
    Tensor x = random(arena, 1, type, 700, 60);
    Tensor dy = random(arena, 2, type, 700, 45);
    Tensor old = random(arena, 3, DType.FLOAT32, 60, 45);
    Tensor first = old.copy(arena);
    Kernels.dw(x, dy, first, 8, Reduction.DETERMINISTIC, Options.defaults());
    AtomicBoolean stop = new AtomicBoolean();
    List<Thread> load = new ArrayList<>();
    for (int i = 0; i < 3; i++) {
      int seed = i;
      load.add(
          Thread.ofPlatform()
              .daemon()
              .start(
                  () -> {
                    try (Arena own = Arena.ofConfined()) {
                      Tensor a = random(own, seed, DType.FLOAT32, 200, 200);
                      Tensor b = Tensor.allocate(own, DType.FLOAT32, 200, 200);
                      while (!stop.get()) {
                        Kernels.dw(a, a, b, 4, Reduction.ATOMIC, ASSIGN);
                      }
                    }
                  }));
    }
    int threads = Dxdw.threads();
    try {
      for (int run = 0; run < 100; run++) {
        Dxdw.setThreads(1 + run % 9);
        Tensor dw = old.copy(arena);
        Kernels.dw(x, dy, dw, 8, Reduction.DETERMINISTIC, Options.defaults());
        assertSameBits(first, dw, "run " + run);
      }
    } finally {
      Dxdw.setThreads(threads);
      stop.set(true);
      for (Thread thread : load) {
        thread.join();
      }
    }
  }

  @Test
  @DisplayName(
      "D4, D5: determinism through the process environment: other processes with an empty one give"
          + " the same bits")
  void acrossProcesses() throws Exception {
    String here = FreshJvm.hash(arena) + "\n";
    assertEquals(here, FreshJvm.run("hash"));
    assertEquals(here, FreshJvm.run("hash", "-XX:ActiveProcessorCount=1"));
  }

  @Test
  @DisplayName(
      "D5: asking for determinism after other calls have run gives the same bits as asking first")
  void afterOtherCalls() {
    int first = FreshJvm.hash(arena);
    Tensor x = random(arena, 1, DType.FLOAT32, 300, 50);
    for (int split : new int[] {0, 1, 5, 300}) {
      Kernels.dw(
          x,
          x,
          Tensor.allocate(arena, DType.FLOAT32, 50, 50),
          split,
          Reduction.ATOMIC,
          Options.defaults());
    }
    assertEquals(first, FreshJvm.hash(arena));
  }

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "INT32")
  @DisplayName("D4: atomic adds may vary, but stay inside the bound, run after run")
  void atomicStaysInBound(DType type) {
    for (int run = 0; run < 20; run++) {
      for (DType output : new DType[] {DType.FLOAT32, type}) {
        Layout[] layouts = {Layout.dense(2), Layout.dense(2), Layout.dense(2)};
        Case c =
            new Case(
                Function.DW,
                type,
                output,
                new int[] {700, 30, 25},
                8,
                Reduction.ATOMIC,
                Accumulate.ADD,
                Precision.DEFAULT,
                layouts,
                run % 2 == 0 ? Data.UNIFORM : Data.SMALL_INTEGERS,
                new int[] {4},
                3,
                run);
        assertNull(CaseRunner.failure(c), c::toString);
      }
    }
  }

  @Test
  @DisplayName(
      "S12: a library that prints: odd strides of size-1 dimensions leave both standard streams"
          + " empty")
  void silent() throws Exception {
    assertEquals("", FreshJvm.run("odd-strides"));
  }

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "INT32")
  @DisplayName(
      "D7: kernel chosen from the batch size: a row of dX, Y and y has the same bits in batches of"
          + " 1, 2, 16 and 300")
  void batchInvariance(DType type) {
    int rows = 300;
    int inputs = 61;
    int outputs = 1100;
    Tensor dy = random(arena, 1, type, rows, outputs);
    Tensor w = random(arena, 2, type, inputs, outputs);
    Tensor v = random(arena, 3, type, outputs);
    for (Precision precision : Precision.values()) {
      // Without the option only the CPU promises it.
      for (boolean invariant :
          Kernels.onCpu() ? new boolean[] {true, false} : new boolean[] {true}) {
        for (DType output : new DType[] {DType.FLOAT32, type}) {
          Options options =
              Options.defaults().withPrecision(precision).withBatchInvariant(invariant);
          Tensor dx = nan(arena, output, rows, inputs);
          Tensor y = nan(arena, output, rows, inputs);
          Tensor sums = nan(arena, output, rows);
          Kernels.dx(dy, w, dx, options);
          Kernels.y(dy, w.transpose(), y, options);
          Kernels.weightedSum(dy, v, sums, options);
          for (int batch : new int[] {1, 2, 3, 16, 33}) {
            for (int from : new int[] {0, 7, rows - batch}) {
              Tensor part = dy.slice(0, from, from + batch);
              Tensor got = nan(arena, output, batch, inputs);
              Kernels.dx(part, w, got, options);
              assertSameBits(
                  dx.slice(0, from, from + batch),
                  got,
                  "dx, rows from " + from + ", batch " + batch);
              Kernels.y(part, w.transpose(), got, options);
              assertSameBits(
                  y.slice(0, from, from + batch), got, "y, rows from " + from + ", batch " + batch);
              Tensor some = nan(arena, output, batch);
              Kernels.weightedSum(part, v, some, options);
              assertSameBits(
                  sums.slice(0, from, from + batch),
                  some,
                  "sums, rows from " + from + ", batch " + batch);
            }
          }
        }
      }
    }
  }

  @Test
  @DisplayName(
      "D11: a race under over-subscription: 32 Java threads of products 65x33x129 give the serial"
          + " bits")
  void manyThreads() throws Exception {
    int threads = 32;
    int different = 8;
    Tensor[] xs = new Tensor[different];
    Tensor[] dys = new Tensor[different];
    Tensor[] ws = new Tensor[different];
    Tensor[][] serial = new Tensor[different][];
    for (int i = 0; i < different; i++) {
      DType type = Bits.FLOATS[i % 3];
      xs[i] = random(arena, i, type, 65, 33);
      dys[i] = random(arena, 100 + i, type, 65, 129);
      ws[i] = random(arena, 200 + i, type, 33, 129);
      serial[i] = products(arena, xs[i], dys[i], ws[i]);
    }
    try (ExecutorService pool = Executors.newFixedThreadPool(threads)) {
      List<Future<Integer>> running = new ArrayList<>();
      for (int t = 0; t < threads; t++) {
        int thread = t;
        running.add(
            pool.submit(
                () -> {
                  for (int round = 0; round < 1000 / 4; round++) {
                    int i = (thread + round) % different;
                    try (Arena own = Arena.ofConfined()) {
                      Tensor[] got = products(own, xs[i], dys[i], ws[i]);
                      for (int p = 0; p < got.length; p++) {
                        assertSameBits(
                            serial[i][p],
                            got[p],
                            "thread " + thread + ", round " + round + ", product " + p);
                      }
                    }
                  }
                  return thread;
                }));
      }
      int sum = 0;
      for (Future<Integer> future : running) {
        sum += future.get();
      }
      assertEquals(threads * (threads - 1) / 2, sum);
    }
  }

  /** The four products of one thread's round: y, dx, dW whole and dW in slices. */
  private static Tensor[] products(Arena arena, Tensor x, Tensor dy, Tensor w) {
    Tensor sliced = nan(arena, DType.FLOAT32, x.size(1), dy.size(1));
    Kernels.dw(x, dy, sliced, 4, Reduction.DETERMINISTIC, ASSIGN);
    return new Tensor[] {
      Tensors.y(arena, x, w, DType.FLOAT32),
      Tensors.dx(arena, dy, w, DType.FLOAT32),
      Tensors.dw(arena, x, dy, DType.FLOAT32),
      sliced
    };
  }

  @Test
  @DisplayName(
      "a product wide enough for the pool, called from many Java threads at once, gives the serial"
          + " bits")
  void sharedPool() throws Exception {
    Tensor x = random(arena, 1, DType.FLOAT32, 400, 150);
    Tensor dy = random(arena, 2, DType.FLOAT32, 400, 170);
    Tensor serial = Tensors.dw(arena, x, dy, DType.FLOAT32);
    try (ExecutorService pool = Executors.newFixedThreadPool(8)) {
      List<Future<?>> running = new ArrayList<>();
      for (int t = 0; t < 8; t++) {
        running.add(
            pool.submit(
                () -> {
                  for (int round = 0; round < 20; round++) {
                    try (Arena own = Arena.ofConfined()) {
                      assertSameBits(serial, Tensors.dw(own, x, dy, DType.FLOAT32), "shared pool");
                    }
                  }
                }));
      }
      for (Future<?> future : running) {
        future.get();
      }
    }
    assertTrue(Dxdw.threads() >= 1);
  }
}
