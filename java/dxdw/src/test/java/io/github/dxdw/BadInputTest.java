package io.github.dxdw;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.function.Executable;

/** Wrong arguments: the kind of exception, what its message names, and that nothing was written. */
class BadInputTest {
  private final Arena arena = Arena.ofAuto();
  private final Tensor x = filled(DType.FLOAT32, 4, 3);
  private final Tensor w = filled(DType.FLOAT32, 3, 2);
  private final Tensor dy = filled(DType.FLOAT32, 4, 2);
  private final Tensor y = filled(DType.FLOAT32, 4, 2);
  private final Tensor dx = filled(DType.FLOAT32, 4, 3);
  private final Tensor dw = filled(DType.FLOAT32, 3, 2);
  private final Tensor vector = filled(DType.FLOAT32, 3);
  private final Tensor rows = filled(DType.FLOAT32, 4);

  private Tensor filled(DType dtype, long... shape) {
    Tensor tensor = Tensor.allocate(arena, dtype, shape);
    tensor.fill(-7);
    return tensor;
  }

  private DynamicTest refused(String name, Executable call, String... words) {
    return refused(IllegalArgumentException.class, name, call, words);
  }

  private DynamicTest refused(
      Class<? extends Exception> kind, String name, Executable call, String... words) {
    return DynamicTest.dynamicTest(
        name,
        () -> {
          Exception thrown = assertThrows(kind, call);
          for (String word : words) {
            assertTrue(
                thrown.getMessage().contains(word), () -> "no \"" + word + "\" in: " + thrown);
          }
          for (Tensor output : new Tensor[] {y, dx, dw, vector, rows}) {
            for (float value : output.toFloatArray()) {
              assertEquals(-7, value, "written in spite of " + thrown);
            }
          }
        });
  }

  @TestFactory
  Stream<DynamicTest> nulls() {
    return Stream.of(
        refused("y: x", () -> Dxdw.y(null, w, y), "x: is null"),
        refused("y: w", () -> Dxdw.y(x, null, y), "w: is null"),
        refused("y: y", () -> Dxdw.y(x, w, null), "y: is null"),
        refused("y: options", () -> Dxdw.y(x, w, y, null), "options: is null"),
        refused("dx: dy", () -> Dxdw.dx(null, w, dx), "dy: is null"),
        refused("dx: dx", () -> Dxdw.dx(dy, w, null), "dx: is null"),
        refused("dw: dy", () -> Dxdw.dw(x, null, dw), "dy: is null"),
        refused("dw: dw", () -> Dxdw.dw(x, dy, null), "dw: is null"),
        refused(
            "dw: reduction",
            () -> Dxdw.dw(x, dy, dw, 1, null, Options.defaults()),
            "reduction: is null"),
        refused("dwReduce: partials", () -> Dxdw.dwReduce(null, dw), "partials: is null"),
        refused("weightedSum: w", () -> Dxdw.weightedSum(x, null, rows), "w: is null"),
        refused(
            "weightedSumBackward: g",
            () -> Dxdw.weightedSumBackward(x, vector, null, null, null),
            "g: is null"),
        refused("explain: x", () -> Dxdw.explainY(null, w, y), "x: is null"),
        refused("copyFrom", () -> y.copyFrom(null), "source: is null"),
        refused("segment", () -> Tensor.of((MemorySegment) null, DType.FLOAT32, 1), "segment"),
        refused("dtype", () -> Tensor.of(x.segment(), null, 1), "dtype: is null"),
        refused("arena", () -> Tensor.allocate(null, DType.FLOAT32, 1), "arena: is null"),
        refused("shape", () -> Tensor.of(x.segment(), DType.FLOAT32, (long[]) null), "shape"),
        refused("accumulate", () -> Options.defaults().withAccumulate(null), "accumulate"),
        refused("buffer", () -> GradientBuffer.of(null), "tensor: is null"));
  }

  @TestFactory
  Stream<DynamicTest> shapesAndTypes() {
    Tensor half = filled(DType.FLOAT16, 3, 2);
    Tensor brain = filled(DType.BFLOAT16, 4, 3);
    return Stream.of(
        refused("rank of x", () -> Dxdw.y(vector, w, y), "x float32[3]", "rank is 1", "expected 2"),
        refused("rank of y", () -> Dxdw.y(x, w, rows), "y float32[4]", "rank is 1"),
        refused("contraction", () -> Dxdw.y(x, dy, y), "w float32[4, 2]", "x float32[4, 3]"),
        refused("rows of y", () -> Dxdw.y(x, w, dw), "y float32[3, 2]", "x float32[4, 3]"),
        refused("columns of y", () -> Dxdw.y(x, w, dx), "y float32[4, 3]", "w float32[3, 2]"),
        refused("dx: w", () -> Dxdw.dx(dy, x, dx), "w float32[4, 3]", "dy float32[4, 2]"),
        refused("dx: rows", () -> Dxdw.dx(dy, w, dw), "dx float32[3, 2]", "dy float32[4, 2]"),
        refused("dw: tokens", () -> Dxdw.dw(x, w, dw), "dy float32[3, 2]", "x float32[4, 3]"),
        refused("dw: result", () -> Dxdw.dw(x, dy, dx), "dw float32[4, 3]", "x float32[4, 3]"),
        refused(
            "transposed", () -> Dxdw.y(x.transpose(), w, y), "w float32[3, 2]", "strides [1, 3]"),
        refused("mixed types", () -> Dxdw.y(x, half, y), "w float16[3, 2]", "x float32[4, 3]"),
        refused("two 16-bit types", () -> Dxdw.y(brain, half, y), "float16", "bfloat16"),
        refused(
            "output type",
            () -> Dxdw.y(brain, filled(DType.BFLOAT16, 3, 2), filled(DType.FLOAT16, 4, 2)),
            "y float16[4, 2]",
            "bfloat16"),
        refused(
            "dwReduce: rank", () -> Dxdw.dwReduce(dy, dw), "partials float32[4, 2]", "expected 3"),
        refused(
            "dwReduce: type",
            () -> Dxdw.dwReduce(filled(DType.FLOAT16, 2, 3, 2), dw),
            "partials float16[2, 3, 2]",
            "expected float32"),
        refused(
            "dwReduce: shape",
            () -> Dxdw.dwReduce(filled(DType.FLOAT32, 2, 2, 3), dw),
            "dw float32[3, 2]",
            "partials float32[2, 2, 3]"),
        refused(
            "weightedSum: features",
            () -> Dxdw.weightedSum(x, rows, rows),
            "w float32[4]",
            "x float32[4, 3]"),
        refused(
            "weightedSum: rank",
            () -> Dxdw.weightedSum(x, vector, y),
            "y float32[4, 2]",
            "expected 1"),
        refused(
            "weightedSumBackward: gx",
            () -> Dxdw.weightedSumBackward(x, filled(DType.FLOAT32, 3), rows.copy(arena), dy, null),
            "gx float32[4, 2]",
            "x float32[4, 3]"),
        refused(
            "empty operands are checked too",
            () ->
                Dxdw.dx(
                    Tensor.allocate(arena, DType.FLOAT32, 0, 3), w, filled(DType.FLOAT32, 0, 5)),
            "w float32[3, 2]",
            "dy float32[0, 3]"),
        refused("copyFrom: shape", () -> y.copyFrom(x), "float32[4, 2]", "float32[4, 3]"));
  }

  private void split(int split) {
    Dxdw.dw(x, dy, dw, split, Reduction.DETERMINISTIC, Options.defaults());
  }

  @TestFactory
  Stream<DynamicTest> numbers() {
    Options stingy = Options.defaults().withWorkspace(arena.allocate(47, 64));
    Options crooked = Options.defaults().withWorkspace(arena.allocate(128, 64).asSlice(4));
    Options overlapping = Options.defaults().withWorkspace(dw).withAccumulate(Accumulate.ASSIGN);
    return Stream.of(
        refused("split below 0", () -> split(-1), "split: -1", "0 to 4"),
        refused("split above T", () -> split(5), "split: 5", "0 to 4"),
        refused("split far above", () -> split(Integer.MAX_VALUE), "split: 2147483647"),
        refused(
            "workspace too small",
            () -> Dxdw.dw(x, dy, dw, 2, Reduction.DETERMINISTIC, stingy),
            "workspace: 46 bytes given, 48 needed"),
        refused(
            "workspace misaligned",
            () -> Dxdw.dw(x, dy, dw, 2, Reduction.DETERMINISTIC, crooked),
            "workspace",
            "124 bytes",
            "aligned to 64",
            "48 needed"),
        refused(
            "workspace in the output",
            () -> Dxdw.dw(x, dy, dw, 2, Reduction.DETERMINISTIC, overlapping),
            "workspace"),
        refused(
            "workspace with gaps",
            () -> Options.defaults().withWorkspace(x.transpose()),
            "workspace: float32[3, 4] strides [1, 3]"),
        refused("threads below 0", () -> Dxdw.setThreads(-1), "-1"),
        refused("threads above 1024", () -> Dxdw.setThreads(1025), "1025", "1024"),
        refused("device", () -> Device.cuda(-1), "index: -1"),
        refused("stream on the CPU", () -> io.github.dxdw.Stream.create(Device.cpu()), "device"));
  }

  @TestFactory
  Stream<DynamicTest> sharedMemory() {
    Tensor square = filled(DType.FLOAT32, 3, 3);
    Tensor band = filled(DType.FLOAT32, 16);
    Tensor first =
        Tensor.of(band.segment(), DType.FLOAT32, new long[] {3, 3}, new long[] {3, 1}, 0);
    Tensor second =
        Tensor.of(band.segment(), DType.FLOAT32, new long[] {3, 3}, new long[] {3, 1}, 7);
    return Stream.of(
        refused("output is an input", () -> Dxdw.y(square, square, square), "y float32[3, 3]"),
        refused(
            "output overlaps an input", () -> Dxdw.y(first, square, second), "shares memory with"),
        refused(
            "outputs overlap",
            () ->
                Dxdw.weightedSumBackward(
                    x, filled(DType.FLOAT32, 3), filled(DType.FLOAT32, 4), dx, dx.select(0, 1)),
            "shares memory with"),
        refused(
            "expanded output",
            () -> Dxdw.y(x, w, Tensor.scalar(arena, 1).expand(4, 2)),
            "y float32[4, 2] strides [0, 0]"));
  }

  @Test
  @DisplayName(
      "guards against refusing outputs that interleave with another operand but share nothing")
  void neighboursAreNoOverlap() {
    Tensor both = Tensor.allocate(arena, DType.FLOAT32, 3, 6);
    Tensor left = both.slice(1, 0, 3);
    Tensor right = both.slice(1, 3, 6);
    left.fill(1);
    Dxdw.y(left, left, right);
    assertArrayEquals(new float[] {1, 1, 1, 3, 3, 3}, both.select(0, 2).toFloatArray());
  }

  @TestFactory
  Stream<DynamicTest> memory() {
    MemorySegment segment = x.segment();
    MemorySegment short1 = segment.asSlice(0, 47);
    Class<IndexOutOfBoundsException> bounds = IndexOutOfBoundsException.class;
    return Stream.of(
        refused(
            bounds,
            "one byte short",
            () -> Tensor.of(short1, DType.FLOAT32, 4, 3),
            "float32[4, 3]",
            "needs 48 bytes",
            "given 47"),
        refused(
            bounds,
            "strides reach out",
            () -> Tensor.of(segment, DType.FLOAT32, new long[] {4, 3}, new long[] {4, 1}, 0),
            "strides [4, 1]",
            "needs 60 bytes",
            "given 48"),
        refused(
            bounds,
            "offset too large",
            () -> Tensor.of(segment, DType.FLOAT32, new long[] {4, 3}, new long[] {3, 1}, 1),
            "needs 52 bytes",
            "given 48"),
        refused(
            bounds,
            "negative offset",
            () -> Tensor.of(segment, DType.FLOAT32, new long[] {4, 3}, new long[] {3, 1}, -1),
            "offset: -1",
            "48 bytes"),
        refused(
            bounds,
            "negative stride",
            () -> Tensor.of(segment, DType.FLOAT32, new long[] {4, 3}, new long[] {-3, 1}, 8),
            "4 bytes before",
            "48 bytes"),
        refused(
            "overflow",
            () ->
                Tensor.of(
                    segment, DType.FLOAT32, new long[] {4, 3}, new long[] {Long.MAX_VALUE, 1}, 0),
            "64-bit"),
        refused(
            "too many elements",
            () -> Tensor.of(segment, DType.FLOAT32, 1L << 40, 1L << 40),
            "1099511627776"),
        refused(
            "negative size", () -> Tensor.of(segment, DType.FLOAT32, 4, -3), "-3", "dimension 1"),
        refused("rank 33", () -> Tensor.of(segment, DType.FLOAT32, new long[33]), "33", "32"),
        refused(
            "strides of another rank",
            () -> Tensor.of(segment, DType.FLOAT32, new long[] {4, 3}, new long[] {3}, 0),
            "strides",
            "[4, 3]",
            "[3]"),
        refused(
            "heap memory",
            () -> Tensor.of(MemorySegment.ofArray(new float[12]), DType.FLOAT32, 4, 3),
            "segment",
            "heap"),
        refused(
            "read-only output",
            () -> Dxdw.y(x, w, Tensor.of(y.segment().asReadOnly(), DType.FLOAT32, 4, 2)),
            "y: float32[4, 2]",
            "read-only"),
        refused(
            "misaligned",
            () -> Dxdw.y(Tensor.of(arena.allocate(64).asSlice(2), DType.FLOAT32, 4, 3), w, y),
            "x",
            "multiple of the 4 bytes"));
  }

  @Test
  @DisplayName("read-only inputs are fine")
  void readOnlyInputs() {
    Tensor readOnly = Tensor.of(x.segment().asReadOnly(), DType.FLOAT32, 4, 3);
    Dxdw.y(readOnly, w, y);
    assertEquals(147, y.get(3, 1));
  }

  @Test
  @DisplayName("guards against use after close, for each operand and the workspace")
  void closedMemory() {
    Arena brief = Arena.ofConfined();
    Tensor gone = Tensor.allocate(brief, DType.FLOAT32, 4, 4);
    Tensor square = filled(DType.FLOAT32, 4, 4);
    Options options = Options.defaults().withWorkspace(brief.allocate(256, 64));
    brief.close();
    Class<IllegalStateException> closed = IllegalStateException.class;
    assertThrows(closed, () -> Dxdw.y(gone, x, dx));
    assertThrows(closed, () -> Dxdw.y(filled(DType.FLOAT32, 4, 4), gone, square));
    assertThrows(closed, () -> Dxdw.y(filled(DType.FLOAT32, 4, 4), square, gone));
    assertThrows(closed, () -> Dxdw.explainY(gone, x, dx));
    assertThrows(closed, () -> Dxdw.dw(x, dy, dw, 2, Reduction.DETERMINISTIC, options));
    assertThrows(closed, () -> gone.get(0, 0));
    assertThrows(closed, () -> gone.set(1, 0, 0));
    assertThrows(closed, gone::toFloatArray);
    assertThrows(closed, () -> gone.fill(1));
    assertThrows(closed, () -> gone.copyFrom(square));
    assertThrows(closed, () -> square.copyFrom(gone));
    assertEquals(-7, dw.get(0, 0));
    assertEquals(-7, dx.get(0, 0));
    Dxdw.y(x, w, y);
    assertEquals(147, y.get(0, 0), "the frame is fit for use after failures");
  }

  @Test
  @DisplayName("guards against a confined arena used by another thread")
  void wrongThread() throws InterruptedException {
    try (Arena confined = Arena.ofConfined()) {
      Tensor mine = Tensor.allocate(confined, DType.FLOAT32, 4, 3);
      AtomicReference<Throwable> call = new AtomicReference<>();
      AtomicReference<Throwable> explain = new AtomicReference<>();
      Thread other =
          new Thread(
              () -> {
                call.set(assertThrows(Throwable.class, () -> Dxdw.y(mine, w, y)));
                explain.set(assertThrows(Throwable.class, () -> Dxdw.explainY(mine, w, y)));
              });
      other.start();
      other.join();
      assertSame(WrongThreadException.class, call.get().getClass());
      assertSame(WrongThreadException.class, explain.get().getClass());
      assertEquals(-7, y.get(0, 0));
    }
  }

  @Test
  @DisplayName("guards against a native failure that is lost on the way to Java")
  void injectedFailure() {
    // 512 rows and more: the packing of such a product needs scratch memory.
    Tensor a = Tensor.allocate(arena, DType.FLOAT32, 700, 700);
    Tensor out = Tensor.allocate(arena, DType.FLOAT32, 700, 700);
    assertEquals(0, io.github.dxdw.bindings.dxdw_h.dxdw_inject_fault(0, 0));
    try {
      NativeMemoryException thrown =
          assertThrows(NativeMemoryException.class, () -> Dxdw.y(a, a, out));
      assertEquals(2, thrown.status());
      assertTrue(thrown.getMessage().matches("(?s).*\\d+ bytes.*"), thrown.getMessage());
    } finally {
      io.github.dxdw.bindings.dxdw_h.dxdw_inject_fault(0, -1);
    }
    Dxdw.y(a, a, out);
  }

  @Test
  @DisplayName("guards against an allocation failure without the bytes asked for")
  void tenPetabytes() {
    Exception thrown =
        assertThrows(
            NativeMemoryException.class,
            () -> Tensor.allocate(arena, DType.FLOAT32, 2_500_000_000_000_000L));
    assertTrue(thrown.getMessage().startsWith("10000000000000000 bytes"), thrown.getMessage());
    assertTrue(thrown.getMessage().contains("float32[2500000000000000]"), thrown.getMessage());
  }

  @Test
  @DisplayName("guards against an unclear error for a device that is not there")
  void absentDevice() {
    Device device = Device.cuda(1000);
    assertTrue(!device.isAvailable() && !device.unavailabilityCause().isEmpty());
    DeviceException thrown =
        assertThrows(
            DeviceException.class, () -> Tensor.allocate(arena, device, DType.FLOAT32, 2, 2));
    assertEquals(4, thrown.status());
    assertThrows(DeviceException.class, () -> io.github.dxdw.Stream.create(device));
    assertEquals("cuda:1000", device.toString());
    assertEquals(Device.cpu(), Device.all().get(0));
    assertEquals("", Device.cpu().unavailabilityCause());
    assertEquals(device, Device.cuda(1000));
  }
}
