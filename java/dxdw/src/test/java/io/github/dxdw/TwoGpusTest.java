package io.github.dxdw;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Two CUDA devices in one process: what belongs to one must not be used on the other. */
class TwoGpusTest {
  private static final Device FIRST = Device.cuda(0);
  private static final Device SECOND = Device.cuda(1);
  private static final int SIZE = 700;

  @BeforeAll
  static void lookForGpus() {
    assumeTrue(FIRST.isAvailable(), FIRST::unavailabilityCause);
    assumeTrue(SECOND.isAvailable(), SECOND::unavailabilityCause);
  }

  private static Tensor random(Arena arena, long seed, DType dtype) {
    return GpuTest.random(arena, seed, dtype, SIZE, SIZE);
  }

  private static Tensor product(Arena arena, Tensor x, Tensor w) {
    Tensor y = Tensor.allocate(arena, x.device(), DType.FLOAT32, SIZE, SIZE);
    Dxdw.y(x, w, y);
    return y;
  }

  @Test
  @DisplayName("guards against copies that leave a device by the wrong stride, type or device")
  void copiesBetweenDevices() {
    try (Arena arena = Arena.ofConfined()) {
      for (DType dtype : List.of(DType.FLOAT32, DType.BFLOAT16)) {
        Tensor host = random(arena, 1, dtype);
        Tensor here = host.to(FIRST, arena);
        assertArrayEquals(host.toFloatArray(), here.to(SECOND, arena).toFloatArray());
        assertArrayEquals(
            host.transpose().toFloatArray(), here.transpose().to(SECOND, arena).toFloatArray());
        Tensor there = Tensor.allocate(arena, SECOND, DType.FLOAT16, SIZE, SIZE);
        there.reverse(0).copyFrom(here.reverse(1));
        assertArrayEquals(
            host.to(DType.FLOAT16, arena).reverse(0).reverse(1).toFloatArray(),
            there.toFloatArray());
        assertArrayEquals(host.toFloatArray(), here.toFloatArray());
      }
    }
  }

  @Test
  @DisplayName("both devices give the same bits, called in turn by one thread")
  void sameBits() {
    try (Arena arena = Arena.ofConfined()) {
      for (DType dtype : List.of(DType.FLOAT32, DType.BFLOAT16)) {
        Tensor x = random(arena, 2, dtype);
        Tensor w = random(arena, 3, dtype);
        float[] expected = null;
        for (Device device : List.of(FIRST, SECOND, FIRST, SECOND)) {
          float[] got = product(arena, x.to(device, arena), w.to(device, arena)).toFloatArray();
          expected = expected == null ? got : expected;
          assertArrayEquals(expected, got, device + ", " + dtype);
        }
      }
    }
  }

  @Test
  @DisplayName("operands, streams, events and workspaces of two devices are refused, with both")
  void mixedDevices() {
    try (Arena arena = Arena.ofConfined();
        Stream first = Stream.create(FIRST);
        Stream second = Stream.create(SECOND);
        Event event = Event.create(SECOND)) {
      Tensor host = random(arena, 4, DType.FLOAT32);
      Tensor x = host.to(FIRST, arena);
      Tensor w = host.to(SECOND, arena);
      Tensor y = Tensor.allocate(arena, FIRST, DType.FLOAT32, SIZE, SIZE);
      String message =
          assertThrows(IllegalArgumentException.class, () -> Dxdw.y(x, w, y)).getMessage();
      assertTrue(message.contains("cuda:0") && message.contains("cuda:1"), message);
      Options otherStream = Options.defaults().withStream(second);
      message =
          assertThrows(IllegalArgumentException.class, () -> Dxdw.y(x, x, y, otherStream))
              .getMessage();
      assertTrue(message.contains("cuda:0") && message.contains("cuda:1"), message);
      assertThrows(IllegalArgumentException.class, () -> event.record(first));
      Options elsewhere = Options.defaults().withWorkspace(w);
      message =
          assertThrows(
                  IllegalArgumentException.class,
                  () -> Dxdw.dw(x, x, y, 2, Reduction.DETERMINISTIC, elsewhere))
              .getMessage();
      assertTrue(message.contains("cuda:0") && message.contains("cuda:1"), message);
      try (Graph graph =
          Graph.capture(first, () -> Dxdw.y(x, x, y, Options.defaults().withStream(first)))) {
        assertThrows(IllegalArgumentException.class, () -> graph.replay(second));
        graph.replay(first);
        first.synchronize();
      }
      assertArrayEquals(product(arena, x, x).toFloatArray(), y.toFloatArray());
    }
  }

  @Test
  @DisplayName("guards against memory of one device that is freed or counted on the other")
  void memoryOfBoth() {
    long before = Dxdw.memoryUse().deviceBytes();
    try (Arena arena = Dxdw.arena()) {
      Tensor first = Tensor.allocate(arena, FIRST, DType.FLOAT32, 1 << 20);
      Tensor second = Tensor.allocate(arena, SECOND, DType.FLOAT32, 1 << 20);
      assertEquals(before + (8L << 20), Dxdw.memoryUse().deviceBytes());
      second.fill(2);
      assertEquals(0, first.get(1 << 19));
      assertEquals(2, second.get(1 << 19));
    }
    assertEquals(before, Dxdw.memoryUse().deviceBytes());
  }

  @Test
  @DisplayName("guards against pinned memory freed under a running copy of the second device")
  void pinnedClosedWhileRunning() {
    GpuTest.freePinnedUnderCopies(SECOND);
  }

  @Test
  @DisplayName("eight threads on two devices, each with a stream of its own, do not mix")
  void threadsOnBoth() throws InterruptedException, ExecutionException {
    try (Arena arena = Arena.ofShared();
        ExecutorService pool = Executors.newFixedThreadPool(8)) {
      Tensor x = random(arena, 5, DType.BFLOAT16);
      Tensor w = random(arena, 6, DType.BFLOAT16);
      float[] expected = product(arena, x.to(FIRST, arena), w.to(FIRST, arena)).toFloatArray();
      List<Future<?>> runs = new ArrayList<>();
      for (int i = 0; i < 8; ++i) {
        Device device = i % 2 == 0 ? FIRST : SECOND;
        runs.add(pool.submit(() -> runOnStream(device, x, w, expected)));
      }
      for (Future<?> run : runs) {
        run.get();
      }
    }
  }

  private static void runOnStream(Device device, Tensor x, Tensor w, float[] expected) {
    try (Arena own = Arena.ofConfined();
        Stream stream = Stream.create(device)) {
      Options onStream = Options.defaults().withStream(stream);
      Tensor here = x.to(device, own);
      Tensor weight = w.to(device, own);
      for (int round = 0; round < 20; ++round) {
        Tensor y = Tensor.allocate(own, device, DType.FLOAT32, SIZE, SIZE);
        Dxdw.y(here, weight, y, onStream);
        stream.synchronize();
        assertArrayEquals(expected, y.toFloatArray());
      }
    }
  }
}
