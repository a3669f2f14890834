package io.github.dxdw.jvm;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import io.github.dxdw.Accumulate;
import io.github.dxdw.ChildJvm;
import io.github.dxdw.DType;
import io.github.dxdw.Device;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Options;
import io.github.dxdw.Reduction;
import io.github.dxdw.Stream;
import io.github.dxdw.Tensor;
import io.github.dxdw.TestDevice;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Callers of every kind of thread, and the end of the JVM while they call. */
class ThreadsTest {
  private final Device device = TestDevice.get();

  private Tensor numbered(Arena arena, long rows, long columns) {
    float[] values = new float[(int) (rows * columns)];
    for (int i = 0; i < values.length; ++i) {
      values[i] = i % 17 - 8;
    }
    return Tensor.of(arena, values, rows, columns).to(device, arena);
  }

  @Test
  @DisplayName("L13, J10: 32 pool threads and 1,000 virtual ones, none of which chose a device")
  void poolsAndVirtualThreads() throws Exception {
    try (Arena arena = Dxdw.arena();
        ExecutorService pool = Executors.newFixedThreadPool(32);
        ExecutorService virtual = Executors.newVirtualThreadPerTaskExecutor()) {
      Tensor x = numbered(arena, 65, 33);
      Tensor dy = numbered(arena, 65, 47);
      Tensor dw = Tensor.allocate(arena, device, DType.FLOAT32, 33, 47);
      Dxdw.dw(x, dy, dw, 3, Reduction.DETERMINISTIC, Options.defaults());
      float[] serial = dw.toFloatArray();
      List<Future<float[]>> results = new ArrayList<>();
      for (int i = 0; i < 1032; ++i) {
        results.add(
            (i < 32 ? pool : virtual)
                .submit(
                    () -> {
                      try (Arena own = Arena.ofConfined()) {
                        Tensor mine = Tensor.allocate(own, device, DType.FLOAT32, 33, 47);
                        Dxdw.dw(x, dy, mine, 3, Reduction.DETERMINISTIC, Options.defaults());
                        return mine.toFloatArray();
                      }
                    }));
      }
      for (Future<float[]> result : results) {
        assertArrayEquals(serial, result.get());
      }
    }
  }

  @Test
  @DisplayName(
      "D3: scratch of one shape shared by streams: 8 threads with 2 streams each, 500 rounds")
  void scratchOfOneShape() throws Exception {
    assumeFalse(device.equals(Device.cpu()), "the CPU has no streams");
    try (Arena arena = Dxdw.arena();
        ExecutorService pool = Executors.newFixedThreadPool(8)) {
      List<Future<Void>> callers = new ArrayList<>();
      for (int caller = 0; caller < 8; ++caller) {
        Tensor x = numbered(arena, 513, 70 + caller).slice(1, caller, 70 + caller);
        Tensor dy = numbered(arena, 513, 90);
        callers.add(pool.submit(() -> compareStreams(arena, x, dy)));
      }
      for (Future<Void> caller : callers) {
        caller.get();
      }
    }
  }

  /** The same product on two streams at once, again and again, each with its own result. */
  private Void compareStreams(Arena arena, Tensor x, Tensor dy) {
    try (Stream one = Stream.create(device);
        Stream two = Stream.create(device)) {
      Tensor[] dw = new Tensor[3];
      for (int i = 0; i < 3; ++i) {
        dw[i] = Tensor.allocate(arena, device, DType.FLOAT32, 70, 90);
      }
      Options assign = Options.defaults().withAccumulate(Accumulate.ASSIGN);
      Dxdw.dw(x, dy, dw[2], 8, Reduction.DETERMINISTIC, assign);
      float[] serial = dw[2].toFloatArray();
      for (int round = 0; round < 500; ++round) {
        Dxdw.dw(x, dy, dw[0], 8, Reduction.DETERMINISTIC, assign.withStream(one));
        Dxdw.dw(x, dy, dw[1], 8, Reduction.DETERMINISTIC, assign.withStream(two));
        if (round % 50 == 49) {
          one.synchronize();
          two.synchronize();
          assertArrayEquals(serial, dw[0].toFloatArray());
          assertArrayEquals(serial, dw[1].toFloatArray());
        }
      }
      return null;
    }
  }

  @Test
  @DisplayName("J12: a caller with a stack of 256 KB overflows it")
  void littleStack() throws Exception {
    try (Arena arena = Dxdw.arena()) {
      Tensor x = numbered(arena, 600, 300);
      Tensor w = numbered(arena, 300, 500);
      Tensor expected = Tensor.allocate(arena, device, DType.FLOAT32, 600, 500);
      Dxdw.y(x, w, expected);
      Tensor y = Tensor.allocate(arena, device, DType.FLOAT32, 600, 500);
      Tensor dw = Tensor.allocate(arena, device, DType.BFLOAT16, 300, 500);
      Tensor gw = Tensor.allocate(arena, device, DType.FLOAT32, 300);
      Throwable[] thrown = new Throwable[1];
      Thread thread =
          new Thread(
              null,
              () -> {
                Dxdw.y(x, w, y);
                Dxdw.dw(
                    x.to(DType.BFLOAT16, arena),
                    y.to(DType.BFLOAT16, arena),
                    dw,
                    7,
                    Reduction.DETERMINISTIC,
                    Options.defaults());
                Dxdw.weightedSumBackward(x, x.select(0, 0), x.select(1, 0), null, gw);
                y.transpose().toString();
              },
              "little stack",
              256 << 10);
      thread.setUncaughtExceptionHandler((who, what) -> thrown[0] = what);
      thread.start();
      thread.join();
      assertNull(thrown[0], () -> "" + thrown[0]);
      assertArrayEquals(expected.toFloatArray(), y.toFloatArray());
    }
  }

  @Test
  @DisplayName("J13: threads by the machine's processors instead of those that the JVM may use")
  void processorsOfTheJvm(@TempDir Path folder) throws Exception {
    assertEquals(
        List.of("3"), new Child(folder).with("-XX:ActiveProcessorCount=3").lines("threads"));
    ChildJvm one = new Child(folder).jvm().onClassPath().behind("taskset", "-c", firstProcessor());
    ChildJvm.Result result =
        one.with(Programs.class.getName(), "threads").finish("one", one.start("one"));
    assertEquals("1\n", result.out(), result.err());
  }

  /** A processor that this process may run on. */
  private static String firstProcessor() throws Exception {
    for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
      if (line.startsWith("Cpus_allowed_list:")) {
        return line.substring(line.indexOf(':') + 1).strip().split("[,-]")[0];
      }
    }
    throw new AssertionError("no list of processors");
  }

  @Test
  @DisplayName("J15: System.exit(7) while 8 threads compute: 100 JVMs, exit code kept, no word")
  void exitDuringCalls(@TempDir Path folder) throws Exception {
    try (ExecutorService pool =
        Executors.newFixedThreadPool(Math.min(4, Runtime.getRuntime().availableProcessors()))) {
      List<Future<ChildJvm.Result>> results = new ArrayList<>();
      int count = device.equals(Device.cpu()) ? 100 : 20;
      for (int i = 0; i < count; ++i) {
        int millis = i % 50;
        Path own = Files.createDirectory(folder.resolve("exit" + i));
        results.add(pool.submit(() -> new Child(own).run("exit", "" + millis)));
      }
      for (int i = 0; i < count; ++i) {
        ChildJvm.Result result = results.get(i).get();
        assertEquals("", result.err() + result.out(), "JVM " + i);
        assertEquals(7, result.exit(), "JVM " + i);
        Child.requireNoCrash(folder.resolve("exit" + i));
      }
    }
    assertTrue(Dxdw.isAvailable());
  }
}
