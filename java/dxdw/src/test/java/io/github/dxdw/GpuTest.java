package io.github.dxdw;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.github.dxdw.bindings.dxdw_h;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** A CUDA device from Java: memory, copies, streams, events, graphs, lifetimes and failures. */
class GpuTest {
  private static final Device GPU =
      TestDevice.NAME.equals("cpu") ? Device.cuda(0) : TestDevice.named(TestDevice.NAME);

  @BeforeAll
  static void lookForGpu() {
    assumeTrue(GPU.isAvailable(), GPU::unavailabilityCause);
  }

  @AfterEach
  void disarm() {
    for (int fault = 0; fault <= dxdw_h.DXDW_FAULT_STICKY(); ++fault) {
      assertEquals(0, dxdw_h.dxdw_inject_fault(fault, -1));
    }
  }

  /** Values between -0.5 and 0.5 in host memory. */
  static Tensor random(Arena arena, long seed, DType dtype, long... shape) {
    Random random = new Random(seed);
    Tensor tensor = Tensor.allocate(arena, DType.FLOAT32, shape);
    float[] values = new float[(int) tensor.elementCount()];
    for (int i = 0; i < values.length; ++i) {
      values[i] = random.nextFloat() - 0.5f;
    }
    return Tensor.of(arena, values, shape).to(dtype, arena);
  }

  private static Tensor onGpu(Arena arena, long seed, DType dtype, long... shape) {
    return random(arena, seed, dtype, shape).to(GPU, arena);
  }

  private static long deviceBytes() {
    return dxdw_h.dxdw_counter(dxdw_h.DXDW_COUNTER_DEVICE_BYTES());
  }

  // ---- Devices and memory ----

  @Test
  @DisplayName("the device tells its name, memory, capability and multiprocessors")
  void properties() {
    assertFalse(GPU.name().isEmpty());
    assertTrue(GPU.capability().matches("\\d+\\.\\d"), GPU.capability());
    assertTrue(GPU.multiprocessors() > 0);
    assertTrue(GPU.totalBytes() > 1L << 30);
    assertTrue(GPU.freeBytes() > 0 && GPU.freeBytes() <= GPU.totalBytes());
    assertTrue(Device.all().contains(GPU));
  }

  @Test
  @DisplayName("guards against device memory that leaks, and against bytes that are counted twice")
  void memoryIsGivenBack() {
    long before = deviceBytes();
    for (int i = 0; i < 20; ++i) {
      try (Arena arena = Arena.ofShared()) {
        Tensor a = Tensor.allocate(arena, GPU, DType.FLOAT32, 1000, 1000);
        Tensor none = Tensor.allocate(arena, GPU, DType.FLOAT32, 0, 5);
        assertEquals(0, a.segment().byteSize());
        assertEquals(0, none.toFloatArray().length);
        assertEquals(before + 4_000_000, deviceBytes());
      }
      assertEquals(before, deviceBytes());
    }
  }

  @Test
  @DisplayName("guards against memory of a forgotten automatic arena that is never freed")
  void automaticArena() throws Exception {
    long before = deviceBytes();
    for (int i = 0; i < 8; ++i) {
      Tensor.allocate(Arena.ofAuto(), GPU, DType.FLOAT32, 1 << 20);
    }
    awaitDeviceBytes(before);
  }

  private static void awaitDeviceBytes(long bytes) throws InterruptedException {
    for (int i = 0; i < 100 && deviceBytes() > bytes; ++i) {
      System.gc();
      Thread.sleep(20);
    }
    assertEquals(bytes, deviceBytes());
  }

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "INT32")
  @DisplayName(
      "guards against copies that mistake strides, offsets or types, to, from and on a GPU")
  void copies(DType from) {
    try (Arena arena = Arena.ofConfined()) {
      Tensor host = random(arena, 1, from, 7, 5, 9);
      for (DType to : List.of(DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)) {
        List<Tensor> sources = new ArrayList<>();
        List<Tensor> expected = new ArrayList<>();
        Tensor device = host.to(GPU, arena);
        sources.add(device);
        expected.add(host);
        for (Tensor[] pair :
            new Tensor[][] {
              {device.transpose(), host.transpose()},
              {device.permute(2, 0, 1), host.permute(2, 0, 1)},
              {device.slice(0, 1, 6, 2).slice(2, 3, 8), host.slice(0, 1, 6, 2).slice(2, 3, 8)},
              {device.reverse(1).select(0, 3), host.reverse(1).select(0, 3)},
              {device.select(1, 2).expand(4, 7, 9), host.select(1, 2).expand(4, 7, 9)},
              {device.slice(0, 2, 2), host.slice(0, 2, 2)}
            }) {
          sources.add(pair[0]);
          expected.add(pair[1]);
        }
        for (int i = 0; i < sources.size(); ++i) {
          float[] values = expected.get(i).to(to, arena).toFloatArray();
          Tensor source = sources.get(i);
          String what = "view " + i + " to " + to;
          assertArrayEquals(values, source.to(to, arena).toFloatArray(), what + ", on the GPU");
          // From the device into a reversed, padded host tensor, and back from there.
          long[] shape = source.shape();
          long[] padded = shape.clone();
          padded[padded.length - 1] += 3;
          Tensor home =
              Tensor.allocate(arena, to, padded)
                  .slice(shape.length - 1, 1, 1 + shape[shape.length - 1])
                  .reverse(0);
          home.copyFrom(source);
          assertArrayEquals(values, home.toFloatArray(), what + ", to the host");
          Tensor there =
              Tensor.allocate(arena, GPU, to, padded)
                  .slice(shape.length - 1, 2, 2 + shape[shape.length - 1])
                  .reverse(shape.length - 1);
          there.copyFrom(expected.get(i));
          assertArrayEquals(values, there.toFloatArray(), what + ", from the host");
          home.fill(0);
          home.copyFrom(there);
          assertArrayEquals(values, home.toFloatArray(), what + ", there and back");
        }
      }
    }
  }

  @Test
  @DisplayName("elements of a GPU tensor can be read, written, filled and shown")
  void elements() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor host = Tensor.of(arena, new float[][] {{1, 2, 3}, {4, 5, 6}});
      Tensor device = host.to(GPU, arena);
      assertEquals(6, device.transpose().get(2, 1));
      device.set(-7.5f, 0, 1);
      assertEquals(
          "float32[2, 3] " + GPU + "\n[[1.0, -7.5, 3.0],\n [4.0, 5.0, 6.0]]", device.toString());
      device.slice(1, 1, 3).fill(0.1f);
      assertArrayEquals(new float[] {1, 0.1f, 0.1f, 4, 0.1f, 0.1f}, device.toFloatArray());
      assertThrows(IndexOutOfBoundsException.class, () -> device.get(0, 3));
      assertThrows(
          IndexOutOfBoundsException.class,
          () -> device.view(new long[] {2, 4}, new long[] {3, 1}, 0));
      Tensor large = Tensor.allocate(arena, DType.FLOAT32, 30, 2, 40);
      for (int i = 0; i < 30; ++i) {
        for (int j = 0; j < 40; ++j) {
          large.set(100 * i + j, i, 1, j);
        }
      }
      String shown = large.toString();
      assertEquals(shown.replace("cpu", GPU.toString()), large.to(GPU, arena).toString());
      Tensor half = Tensor.allocate(arena, GPU, DType.BFLOAT16, 3);
      half.fill(1.00390625f);
      assertArrayEquals(new float[] {1, 1, 1}, half.toFloatArray());
    }
  }

  @Test
  @DisplayName("guards against operands on two devices, and a workspace on another")
  void mixedDevices() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor host = random(arena, 1, DType.FLOAT32, 4, 4);
      Tensor device = host.to(GPU, arena);
      Tensor out = Tensor.allocate(arena, GPU, DType.FLOAT32, 4, 4);
      String message =
          assertThrows(IllegalArgumentException.class, () -> Dxdw.y(device, host, out))
              .getMessage();
      assertTrue(message.contains("w"), message);
      assertThrows(IllegalArgumentException.class, () -> Dxdw.y(host, host, out));
      try (Stream stream = Stream.create(GPU)) {
        Tensor hostOut = Tensor.allocate(arena, DType.FLOAT32, 4, 4);
        assertThrows(
            IllegalArgumentException.class,
            () -> Dxdw.y(host, host, hostOut, Options.defaults().withStream(stream)));
      }
      workspaceOnAnotherDevice(arena, device, host);
      workspaceOnAnotherDevice(arena, host, device);
    }
  }

  private static void workspaceOnAnotherDevice(Arena arena, Tensor x, Tensor other) {
    Tensor dw = Tensor.allocate(arena, x.device(), DType.FLOAT32, 4, 4);
    Tensor there = Tensor.allocate(arena, other.device(), DType.FLOAT32, 1 << 16);
    Options options = Options.defaults().withWorkspace(there);
    String message =
        assertThrows(
                IllegalArgumentException.class,
                () -> Dxdw.dw(x, x, dw, 2, Reduction.DETERMINISTIC, options))
            .getMessage();
    assertEquals(
        "workspace: float32[65536] strides [1] is on "
            + other.device()
            + ", the operands are on "
            + x.device(),
        message);
    Dxdw.dw(x, x, dw, 2, Reduction.DETERMINISTIC, Options.defaults());
  }

  @Test
  @DisplayName(
      "guards against 32-bit offsets: a tensor of more than 2^31 elements, its far end right")
  void largeTensor() {
    long rows = 2_200_000;
    int columns = 1000;
    assumeTrue(GPU.freeBytes() > 12L << 30, "less than 12 GiB of GPU memory free");
    try (Arena arena = Arena.ofConfined()) {
      Tensor x = Tensor.allocate(arena, GPU, DType.BFLOAT16, rows, columns);
      x.slice(0, rows - 2, rows).fill(2);
      x.select(1, columns - 1).fill(3);
      Tensor ones = Tensor.allocate(arena, GPU, DType.BFLOAT16, columns);
      ones.fill(1);
      Tensor y = Tensor.allocate(arena, GPU, DType.FLOAT32, rows);
      Dxdw.weightedSum(x, ones, y);
      assertEquals(3, y.get(0));
      assertEquals(3, y.get(rows - 3));
      assertEquals(2 * (columns - 1) + 3, y.get(rows - 1));
      Tensor w = Tensor.allocate(arena, GPU, DType.BFLOAT16, columns, 16);
      w.fill(1);
      Tensor product = Tensor.allocate(arena, GPU, DType.FLOAT32, rows, 16);
      Dxdw.y(x, w, product);
      assertEquals(3, product.get(rows - 3, 15));
      assertEquals(2 * (columns - 1) + 3, product.get(rows - 1, 15));
      Tensor dw = Tensor.allocate(arena, GPU, DType.FLOAT32, columns, 16);
      Tensor dy = Tensor.allocate(arena, GPU, DType.BFLOAT16, rows, 16);
      dy.slice(0, rows - 4, rows).fill(1);
      Dxdw.dw(x, dy, dw);
      assertEquals(4, dw.get(0, 0));
      assertEquals(12, dw.get(columns - 1, 15));
      assertEquals(12, dw.get(columns - 1, 0));
    }
  }

  // ---- Streams, events, lifetimes ----

  @Test
  @DisplayName("copies and calls on a stream run in order, from pinned memory and back")
  void streamOrder() {
    try (Arena arena = Arena.ofShared();
        Stream stream = Stream.create(GPU);
        Event start = Event.create(GPU);
        Event end = Event.create(GPU)) {
      int n = 512;
      Tensor x = random(arena, 1, DType.FLOAT32, n, n);
      MemorySegment memory = Device.allocatePinned(arena, 4L * n * n);
      Tensor pinned = Tensor.of(memory, DType.FLOAT32, n, n);
      pinned.copyFrom(x);
      Tensor back = Tensor.of(Device.allocatePinned(arena, 4L * n * n), DType.FLOAT32, n, n);
      Options options = Options.defaults().withStream(stream);
      Tensor expected = Tensor.allocate(arena, GPU, DType.FLOAT32, n, n);
      Dxdw.y(x.to(GPU, arena), x.to(GPU, arena), expected);
      start.record(stream);
      for (int i = 0; i < 20; ++i) {
        Tensor a = Tensor.allocate(arena, stream, DType.FLOAT32, n, n);
        a.copyFrom(pinned, stream);
        Tensor y = Tensor.allocate(arena, stream, DType.FLOAT32, n, n);
        Dxdw.y(a, a, y, options);
        back.copyFrom(y, stream);
      }
      end.record(stream);
      stream.synchronize();
      assertArrayEquals(expected.toFloatArray(), back.toFloatArray());
      assertTrue(end.millisecondsSince(start) > 0);
      end.synchronize();
    }
  }

  @Test
  @DisplayName("guards against memory freed under a running launch: arenas closed at once")
  void closedWhileRunning() {
    int n = 1024;
    try (Arena arena = Arena.ofShared();
        Stream stream = Stream.create(GPU);
        Stream other = Stream.create(GPU)) {
      Tensor expected = Tensor.allocate(arena, GPU, DType.FLOAT32, n, n);
      Tensor host = random(arena, 1, DType.FLOAT32, n, n);
      Dxdw.y(host.to(GPU, arena), host.to(GPU, arena), expected);
      float[] wanted = expected.toFloatArray();
      for (int round = 0; round < 30; ++round) {
        Tensor result = Tensor.allocate(arena, GPU, DType.FLOAT32, n, n);
        try (Arena own = round % 2 == 0 ? Arena.ofConfined() : Arena.ofShared()) {
          Tensor x = host.to(GPU, own);
          Tensor busy = Tensor.allocate(own, GPU, DType.FLOAT32, n, n);
          Options options = Options.defaults().withStream(stream);
          for (int i = 0; i < 5; ++i) {
            Dxdw.y(x, x, busy, options);
          }
          result.copyFrom(busy, stream);
        }
        // What was freed too early would be handed out here and filled with other values.
        try (Arena own = Arena.ofConfined()) {
          for (int i = 0; i < 3; ++i) {
            Tensor spoiler = Tensor.allocate(own, other, DType.FLOAT32, n, n);
            Dxdw.y(expected, expected, spoiler, Options.defaults().withStream(other));
          }
        }
        stream.synchronize();
        assertArrayEquals(wanted, result.toFloatArray(), "round " + round);
      }
    }
  }

  @Test
  @DisplayName("guards against pinned memory freed under a running copy")
  void pinnedClosedWhileRunning() {
    freePinnedUnderCopies(GPU);
  }

  /** Copies to a device from pinned memory that is closed at once. */
  static void freePinnedUnderCopies(Device gpu) {
    int n = 8 << 20;
    try (Arena arena = Arena.ofShared();
        Stream stream = Stream.create(gpu)) {
      Tensor device = Tensor.allocate(arena, gpu, DType.FLOAT32, n);
      for (int round = 1; round <= 5; ++round) {
        try (Arena own = Arena.ofConfined()) {
          Tensor pinned = Tensor.of(Device.allocatePinned(own, 4L * n), DType.FLOAT32, n);
          pinned.segment().fill((byte) round);
          device.copyFrom(pinned, stream);
        }
        stream.synchronize();
        float value = Float.intBitsToFloat(0x01010101 * round);
        assertEquals(value, device.get(0));
        assertEquals(value, device.get(n - 1));
      }
    }
  }

  @Test
  @DisplayName("guards against streams and events used after they are closed, or closed twice")
  void closedHandles() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor x = onGpu(arena, 1, DType.FLOAT32, 4, 4);
      Tensor y = Tensor.allocate(arena, GPU, DType.FLOAT32, 4, 4);
      Stream stream = Stream.create(GPU);
      Event event = Event.create(GPU);
      assertEquals(GPU, stream.device());
      assertThrows(IllegalStateException.class, () -> event.millisecondsSince(event));
      stream.close();
      stream.close();
      Options options = Options.defaults().withStream(stream);
      assertThrows(IllegalStateException.class, stream::synchronize);
      assertThrows(IllegalStateException.class, () -> Dxdw.y(x, x, y, options));
      assertThrows(IllegalStateException.class, () -> y.copyFrom(x, stream));
      assertThrows(IllegalStateException.class, () -> event.record(stream));
      assertThrows(IllegalStateException.class, () -> stream.await(event));
      assertThrows(IllegalStateException.class, () -> Graph.capture(stream, () -> {}));
      assertThrows(
          IllegalStateException.class, () -> Tensor.allocate(arena, stream, DType.FLOAT32, 2));
      event.close();
      event.close();
      assertThrows(IllegalStateException.class, event::synchronize);
      Dxdw.y(x, x, y);
    }
  }

  @Test
  @DisplayName("a stream waits for an event of another one")
  void eventsOrderStreams() {
    int n = 1500;
    try (Arena arena = Arena.ofShared();
        Stream first = Stream.create(GPU);
        Stream second = Stream.create(GPU);
        Event event = Event.create(GPU)) {
      Tensor x = Tensor.allocate(arena, GPU, DType.FLOAT32, n, n);
      x.fill(1);
      Tensor y = Tensor.allocate(arena, GPU, DType.FLOAT32, n, n);
      Tensor copy = Tensor.allocate(arena, GPU, DType.FLOAT32, n, n);
      for (int i = 0; i < 10; ++i) {
        y.fill(0);
        Dxdw.y(x, x, y, Options.defaults().withStream(first));
        event.record(first);
        second.await(event);
        copy.copyFrom(y, second);
        second.synchronize();
        assertEquals(n, copy.get(n - 1, n - 1));
      }
    }
  }

  @Test
  @DisplayName("any thread may call, virtual ones too, with and without streams of their own")
  void threads() throws Exception {
    try (Arena arena = Arena.ofShared();
        Stream shared = Stream.create(GPU);
        ExecutorService pool = Executors.newVirtualThreadPerTaskExecutor()) {
      Tensor x = onGpu(arena, 1, DType.FLOAT32, 65, 33);
      Tensor dy = onGpu(arena, 2, DType.FLOAT32, 65, 47);
      Tensor expected = Tensor.allocate(arena, GPU, DType.FLOAT32, 33, 47);
      Dxdw.dw(x, dy, expected, 4, Reduction.DETERMINISTIC, Options.defaults());
      float[] wanted = expected.toFloatArray();
      List<Future<float[]>> results = new ArrayList<>();
      for (int i = 0; i < 200; ++i) {
        int kind = i % 3;
        results.add(
            pool.submit(
                () -> {
                  try (Arena own = Arena.ofConfined();
                      Stream stream = Stream.create(GPU)) {
                    Tensor dw = Tensor.allocate(own, GPU, DType.FLOAT32, 33, 47);
                    Options options = Options.defaults();
                    if (kind > 0) {
                      options = options.withStream(kind == 1 ? shared : stream);
                    }
                    Dxdw.dw(x, dy, dw, 4, Reduction.DETERMINISTIC, options);
                    Thread.yield();
                    shared.synchronize();
                    stream.synchronize();
                    return dw.toFloatArray();
                  }
                }));
      }
      for (Future<float[]> result : results) {
        assertArrayEquals(wanted, result.get());
      }
    }
  }

  @Test
  @DisplayName("a gradient buffer on a GPU adds over micro-batches, and its zeros cost nothing")
  void gradientBuffer() {
    try (Arena arena = Arena.ofConfined();
        Stream stream = Stream.create(GPU)) {
      Tensor x = Tensor.of(arena, new float[][] {{1, 2}, {3, 4}}).to(GPU, arena);
      GradientBuffer buffer = GradientBuffer.allocate(arena, GPU, 2, 2);
      assertEquals(GPU, buffer.tensor().device());
      Options options = Options.defaults().withStream(stream);
      for (int step = 0; step < 3; ++step) {
        buffer.zero();
        buffer.accumulateDw(x, x, 1, Reduction.DETERMINISTIC, options);
        buffer.accumulateDw(x, x, 1, Reduction.DETERMINISTIC, options);
        stream.synchronize();
        assertArrayEquals(new float[] {20, 28, 28, 40}, buffer.tensor().toFloatArray());
      }
      buffer.zero();
      assertArrayEquals(new float[4], buffer.tensor().toFloatArray());
    }
  }

  // ---- Determinism ----

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "INT32")
  @DisplayName(
      "guards against sums whose order varies: 100 runs beside two busy streams, one result")
  void oneBitPattern(DType dtype) {
    try (Arena arena = Arena.ofShared();
        Stream busy = Stream.create(GPU);
        Stream busier = Stream.create(GPU);
        Stream stream = Stream.create(GPU)) {
      Tensor x = onGpu(arena, 1, dtype, 3000, 300);
      Tensor dy = onGpu(arena, 2, dtype, 3000, 200);
      Tensor g = onGpu(arena, 3, dtype, 3000);
      Tensor w = onGpu(arena, 4, dtype, 300);
      Tensor load = onGpu(arena, 5, dtype, 1000, 1000);
      Tensor loadOut = Tensor.allocate(arena, GPU, DType.FLOAT32, 1000, 1000);
      Tensor loadOut2 = Tensor.allocate(arena, GPU, DType.FLOAT32, 1000, 1000);
      Tensor dw = Tensor.allocate(arena, GPU, DType.FLOAT32, 300, 200);
      Tensor gw = Tensor.allocate(arena, GPU, DType.FLOAT32, 300);
      Options options = Options.defaults().withStream(stream).withAccumulate(Accumulate.ASSIGN);
      float[][] first = null;
      for (int run = 0; run < 100; ++run) {
        Dxdw.dw(load, load, loadOut, 3, Reduction.ATOMIC, Options.defaults().withStream(busy));
        Dxdw.y(load, load, loadOut2, Options.defaults().withStream(busier));
        Dxdw.dw(x, dy, dw, 8, Reduction.DETERMINISTIC, options);
        Dxdw.weightedSumBackward(x, w, g, null, gw, options);
        stream.synchronize();
        float[][] now = {dw.toFloatArray(), gw.toFloatArray()};
        first = first == null ? now : first;
        assertArrayEquals(first[0], now[0], "dW, run " + run);
        assertArrayEquals(first[1], now[1], "gw, run " + run);
      }
    }
  }

  @Test
  @DisplayName("dw_reduce has the same bits on the CPU and on a GPU")
  void reductionAsOnTheCpu() {
    try (Arena arena = Arena.ofConfined()) {
      for (int split : new int[] {1, 2, 7, 16, 33}) {
        Tensor partials = random(arena, split, DType.FLOAT32, split, 67, 129);
        Tensor host = random(arena, 99, DType.FLOAT32, 67, 129);
        Tensor device = host.to(GPU, arena);
        Dxdw.dwReduce(partials, host);
        Dxdw.dwReduce(partials.to(GPU, arena), device);
        assertArrayEquals(host.toFloatArray(), device.toFloatArray(), "split " + split);
      }
    }
  }

  // ---- Graphs ----

  @Test
  @DisplayName("a graph of a hundred launches runs all of them, each time that it is replayed")
  void graph() {
    try (Arena arena = Arena.ofShared();
        Stream stream = Stream.create(GPU);
        Stream other = Stream.create(GPU)) {
      Tensor x = Tensor.of(arena, new float[][] {{1, 2}, {3, 4}}).to(GPU, arena);
      Tensor dw = Tensor.allocate(arena, GPU, DType.FLOAT32, 2, 2);
      Options options = Options.defaults().withStream(stream);
      Graph graph =
          Graph.capture(
              stream,
              () -> {
                for (int i = 0; i < 100; ++i) {
                  Dxdw.dw(x, x, dw, 1, Reduction.DETERMINISTIC, options);
                }
              });
      assertArrayEquals(new float[4], dw.toFloatArray());
      graph.replay(stream);
      stream.synchronize();
      assertArrayEquals(new float[] {1000, 1400, 1400, 2000}, dw.toFloatArray());
      graph.replay(other);
      graph.replay(other);
      other.synchronize();
      assertArrayEquals(new float[] {3000, 4200, 4200, 6000}, dw.toFloatArray());
      graph.close();
      graph.close();
      assertThrows(IllegalStateException.class, () -> graph.replay(stream));
    }
  }

  @Test
  @DisplayName("guards against a graph that runs on memory that is gone")
  void graphOfClosedMemory() {
    try (Stream stream = Stream.create(GPU)) {
      Options options = Options.defaults().withStream(stream);
      Arena arena = Arena.ofConfined();
      Tensor x = onGpu(arena, 1, DType.FLOAT32, 600, 600);
      Tensor y = Tensor.allocate(arena, GPU, DType.FLOAT32, 600, 600);
      try (Graph graph = Graph.capture(stream, () -> Dxdw.y(x, x, y, options))) {
        graph.replay(stream);
        arena.close();
        String message =
            assertThrows(IllegalStateException.class, () -> graph.replay(stream)).getMessage();
        assertTrue(message.contains("graph") && message.contains("closed"), message);
      }
    }
  }

  @Test
  @DisplayName("guards against an automatic arena collected while only a graph uses its memory")
  void graphKeepsAutomaticMemory() throws Exception {
    long before = deviceBytes();
    try (Stream stream = Stream.create(GPU);
        Arena arena = Arena.ofShared()) {
      Options options = Options.defaults().withStream(stream);
      Tensor y = Tensor.allocate(arena, GPU, DType.FLOAT32, 2, 2);
      Graph graph;
      {
        Tensor x = Tensor.allocate(Arena.ofAuto(), GPU, DType.FLOAT32, 2, 2);
        x.fill(3);
        graph = Graph.capture(stream, () -> Dxdw.y(x, x, y, options));
      }
      for (int i = 0; i < 5; ++i) {
        System.gc();
        Thread.sleep(20);
      }
      graph.replay(stream);
      stream.synchronize();
      assertEquals(18, y.get(0, 0));
      graph.close();
    }
    awaitDeviceBytes(before);
  }

  @Test
  @DisplayName("what can't be part of a graph is refused, and the stream works on")
  void refusedInGraph() throws Exception {
    try (Arena arena = Arena.ofShared();
        Stream stream = Stream.create(GPU);
        Event event = Event.create(GPU)) {
      Options options = Options.defaults().withStream(stream);
      Tensor x = onGpu(arena, 1, DType.FLOAT32, 40, 40);
      Tensor y = Tensor.allocate(arena, GPU, DType.FLOAT32, 40, 40);
      Tensor host = Tensor.allocate(arena, DType.FLOAT32, 40, 40);
      AtomicReference<Throwable> elsewhere = new AtomicReference<>();
      Graph graph =
          Graph.capture(
              stream,
              () -> {
                assertThrows(IllegalStateException.class, stream::synchronize);
                assertThrows(IllegalStateException.class, stream::close);
                assertThrows(IllegalStateException.class, () -> event.record(stream));
                assertThrows(IllegalStateException.class, () -> stream.await(event));
                assertThrows(IllegalStateException.class, () -> Graph.capture(stream, () -> {}));
                assertThrows(
                    IllegalStateException.class,
                    () -> Tensor.allocate(arena, stream, DType.FLOAT32, 2));
                DxdwException copy =
                    assertThrows(DxdwException.class, () -> host.copyFrom(x, stream));
                assertEquals(3, copy.status());
                DxdwException workspace =
                    assertThrows(
                        DxdwException.class,
                        () -> Dxdw.dw(x, x, y, 4, Reduction.DETERMINISTIC, options));
                assertTrue(workspace.getMessage().contains("workspace"), workspace.getMessage());
                Thread thread =
                    Thread.ofVirtual()
                        .start(
                            () -> {
                              try {
                                Dxdw.y(x, x, y, options);
                              } catch (IllegalStateException refused) {
                                elsewhere.set(refused);
                              }
                            });
                try {
                  thread.join();
                } catch (InterruptedException e) {
                  throw new IllegalStateException(e);
                }
                Tensor own =
                    Tensor.allocate(
                        arena,
                        GPU,
                        DType.FLOAT32,
                        Dxdw.explainDw(x, x, y, 4, Reduction.DETERMINISTIC, options)
                                .workspaceBytes()
                            / 4);
                Dxdw.dw(x, x, y, 4, Reduction.DETERMINISTIC, options.withWorkspace(own));
              });
      assertNotEquals(null, elsewhere.get());
      graph.replay(stream);
      stream.synchronize();
      Tensor expected = Tensor.allocate(arena, GPU, DType.FLOAT32, 40, 40);
      Dxdw.dw(x, x, expected, 4, Reduction.DETERMINISTIC, Options.defaults());
      assertArrayEquals(expected.toFloatArray(), y.toFloatArray());
      graph.close();
      assertThrows(
          ArithmeticException.class,
          () ->
              Graph.capture(
                  stream,
                  () -> {
                    throw new ArithmeticException("work failed");
                  }));
      Dxdw.y(x, x, y, options);
      stream.synchronize();
    }
  }

  // ---- Failures ----

  @Test
  @DisplayName(
      "guards against out of memory without bytes asked, free and ours; all works on after")
  void outOfMemory() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor before = onGpu(arena, 1, DType.FLOAT32, 100, 100);
      long asked = 4L << 50;
      String message =
          assertThrows(
                  NativeMemoryException.class,
                  () -> Tensor.allocate(arena, GPU, DType.FLOAT32, 1L << 50))
              .getMessage();
      assertTrue(message.contains(Long.toString(asked)), message);
      assertTrue(message.contains("free") && message.contains("held"), message);
      assertThrows(NativeMemoryException.class, () -> Device.allocatePinned(arena, 1L << 50));
      Tensor y = Tensor.allocate(arena, GPU, DType.FLOAT32, 100, 100);
      Dxdw.y(before, before, y);
    }
  }

  @Test
  @DisplayName("each failure becomes an exception with the driver's name, the call and the shapes")
  void injectedFailures() {
    try (Arena arena = Arena.ofConfined();
        Stream stream = Stream.create(GPU)) {
      Tensor x = onGpu(arena, 1, DType.FLOAT32, 50, 60);
      Tensor w = onGpu(arena, 2, DType.FLOAT32, 60, 70);
      Tensor y = Tensor.allocate(arena, GPU, DType.FLOAT32, 50, 70);
      Tensor host = Tensor.allocate(arena, DType.FLOAT32, 50, 70);
      Dxdw.y(x, w, y);
      float[] expected = y.toFloatArray();

      inject(dxdw_h.DXDW_FAULT_LAUNCH());
      String message = assertThrows(DeviceException.class, () -> Dxdw.y(x, w, y)).getMessage();
      assertTrue(message.matches(GPU + ": cudaError\\w+ .*50, 60.*60, 70.*"), message);

      inject(dxdw_h.DXDW_FAULT_COPY());
      message = assertThrows(DeviceException.class, () -> host.copyFrom(y)).getMessage();
      assertTrue(message.contains("cudaError") && message.contains("opy"), message);

      inject(dxdw_h.DXDW_FAULT_SYNCHRONIZE());
      message = assertThrows(DeviceException.class, stream::synchronize).getMessage();
      assertTrue(message.contains("cudaError") && message.contains("ynchronize"), message);

      inject(dxdw_h.DXDW_FAULT_ALLOCATE());
      message =
          assertThrows(
                  NativeMemoryException.class,
                  () -> Tensor.allocate(arena, GPU, DType.FLOAT32, 1234))
              .getMessage();
      assertTrue(message.contains("4936"), message);

      inject(dxdw_h.DXDW_FAULT_ALLOCATE());
      Tensor big = y.view(new long[] {50, 70}, new long[] {70, 1}, 0);
      assertThrows(
          NativeMemoryException.class,
          () -> Dxdw.dw(x.transpose(), w, big, 4, Reduction.DETERMINISTIC, Options.defaults()));

      Dxdw.y(x, w, y);
      assertArrayEquals(expected, y.toFloatArray());
    }
  }

  private static void inject(int fault) {
    assertEquals(0, dxdw_h.dxdw_inject_fault(fault, 0));
  }

  @Test
  @DisplayName("guards against a close that waits for nothing, or for ever: streams closed in use")
  void streamClosedByAnotherThread() throws Exception {
    for (int round = 0; round < 10; ++round) {
      try (Arena arena = Arena.ofShared();
          ExecutorService pool = Executors.newFixedThreadPool(4)) {
        Stream stream = Stream.create(GPU);
        Tensor x = onGpu(arena, 1, DType.FLOAT32, 64, 64);
        AtomicBoolean failed = new AtomicBoolean();
        List<Future<?>> callers = new ArrayList<>();
        for (int t = 0; t < 4; ++t) {
          callers.add(
              pool.submit(
                  () -> {
                    Tensor y = Tensor.allocate(arena, GPU, DType.FLOAT32, 64, 64);
                    try {
                      while (true) {
                        Dxdw.y(x, x, y, Options.defaults().withStream(stream));
                      }
                    } catch (IllegalStateException closed) {
                      // What closing brings about.
                    } catch (RuntimeException other) {
                      failed.set(true);
                    }
                  }));
        }
        Thread.sleep(20);
        stream.close();
        for (Future<?> caller : callers) {
          caller.get();
        }
        assertFalse(failed.get());
      }
    }
  }
}
