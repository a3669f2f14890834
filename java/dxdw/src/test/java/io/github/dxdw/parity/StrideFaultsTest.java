package io.github.dxdw.parity;

import static io.github.dxdw.parity.Tensors.ASSIGN;
import static io.github.dxdw.parity.Tensors.assertAll;
import static io.github.dxdw.parity.Tensors.assertSameBits;
import static io.github.dxdw.parity.Tensors.assertValues;
import static io.github.dxdw.parity.Tensors.constant;
import static io.github.dxdw.parity.Tensors.nan;
import static io.github.dxdw.parity.Tensors.random;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.dxdw.DType;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Plan;
import io.github.dxdw.Reduction;
import io.github.dxdw.Tensor;
import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Faults of layout that users of other libraries reported, with their own numbers. */
class StrideFaultsTest {

  @BeforeAll
  static void lookForDevice() {
    Kernels.requireDevice();
  }

  private final Arena arena = Arena.ofConfined();

  @AfterEach
  void close() {
    arena.close();
  }

  private Tensor matrix(DType type, float... four) {
    return Tensors.of(arena, type, four, 2, 2);
  }

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "INT32")
  @DisplayName(
      "S1: a stride of 0 handed to a kernel: the gradient of a sum, one element expanded to 2x2")
  void gradientOfSum(DType type) {
    Tensor x = matrix(type, 1, 2, 3, 4);
    Tensor one = Tensors.of(arena, type, new float[] {1}, 1, 1);
    Tensor dy = one.expand(2, 2);
    assertArrayEquals(new long[] {0, 0}, dy.strides());
    assertValues(Tensors.dw(arena, x, dy, DType.FLOAT32), 4, 4, 6, 6);
    assertValues(Tensors.dx(arena, dy, x, DType.FLOAT32), 3, 7, 3, 7);
    Tensor dense = dy.copy(arena);
    assertSameBits(Tensors.dw(arena, x, dense, type), Tensors.dw(arena, x, dy, type), "dw");
    assertSameBits(Tensors.dx(arena, dense, x, type), Tensors.dx(arena, dy, x, type), "dx");
  }

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "INT32")
  @DisplayName("S1: an expanded gradient of any size gives the bits of its copy")
  void expandedGradients(DType type) {
    for (int t : new int[] {1, 2, 5, 33, 100}) {
      Tensor x = random(arena, t, type, t, 37);
      Tensor w = random(arena, t + 1, type, 37, 41);
      for (Tensor dy :
          new Tensor[] {
            random(arena, 3, type, 1, 1).expand(t, 41),
            random(arena, 4, type, 1, 41).expand(t, 41),
            random(arena, 5, type, t, 1).expand(t, 41)
          }) {
        Tensor copy = dy.copy(arena);
        assertSameBits(
            Tensors.dw(arena, x, copy, type),
            Tensors.dw(arena, x, dy, type),
            "dw of " + t + " tokens");
        assertSameBits(
            Tensors.dx(arena, copy, w, type),
            Tensors.dx(arena, dy, w, type),
            "dx of " + t + " tokens");
      }
    }
  }

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "INT32")
  @DisplayName("S3: a batch of stride 0: ones [1,32,32] broadcast to [32,32,32] give 32 everywhere")
  void broadcastBatch(DType type) {
    Tensor batch = constant(arena, type, 1, 1, 32, 32).expand(32, 32, 32);
    Tensor w = constant(arena, type, 1, 32, 32);
    Tensor y = nan(arena, type, 32, 32, 32);
    for (int b = 0; b < 32; b++) {
      Kernels.y(batch.select(0, b), w, y.select(0, b));
    }
    assertAll(32, y, "y");
    assertAll(
        32, Tensors.weightedSum(arena, batch, constant(arena, type, 1, 32), type), "weighted sum");
    Tensor dw = nan(arena, DType.FLOAT32, 32, 32);
    Kernels.dw(batch.select(0, 31), batch.select(0, 5), dw, 1, Reduction.DETERMINISTIC, ASSIGN);
    assertAll(32, dw, "dw");
  }

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "INT32")
  @DisplayName(
      "S4: a narrowed gradient, the left half of a buffer whose right half is NaN, gives the bits"
          + " of its copy")
  void narrowedGradient(DType type) {
    int tokens = 29;
    int inputs = 18;
    int outputs = 21;
    Tensor buffer = nan(arena, type, tokens, 2 * outputs);
    Tensor dy = buffer.slice(1, 0, outputs);
    Tensor dense = random(arena, 1, type, tokens, outputs);
    dy.copyFrom(dense);
    Tensor x = random(arena, 2, type, tokens, inputs);
    Tensor w = random(arena, 3, type, inputs, outputs);
    assertSameBits(Tensors.dx(arena, dense, w, type), Tensors.dx(arena, dy, w, type), "dx");
    for (int split : new int[] {1, 4}) {
      Tensor expected = nan(arena, type, inputs, outputs);
      Tensor got = nan(arena, type, inputs, outputs);
      Kernels.dw(x, dense, expected, split, Reduction.DETERMINISTIC, ASSIGN);
      Kernels.dw(x, dy, got, split, Reduction.DETERMINISTIC, ASSIGN);
      assertSameBits(expected, got, "dw in " + split + " slices");
      assertTrue(finite(got));
    }
    Tensor weights = random(arena, 4, type, outputs);
    Tensor rowGradients = nan(arena, type, tokens, 2).slice(1, 0, 1);
    rowGradients.copyFrom(random(arena, 5, type, tokens, 1));
    Tensor g = rowGradients.select(1, 0);
    Tensor[] expected = {nan(arena, type, tokens, outputs), nan(arena, type, outputs)};
    Tensor[] got = {
      nan(arena, type, tokens, 2 * outputs).slice(1, 0, outputs), nan(arena, type, outputs)
    };
    Kernels.weightedSumBackward(dense, weights, g.copy(arena), expected[0], expected[1], ASSIGN);
    Kernels.weightedSumBackward(dy, weights, g, got[0], got[1], ASSIGN);
    assertSameBits(expected[0], got[0], "gx");
    assertSameBits(expected[1], got[1], "gw");
    assertTrue(finite(got[0]) && finite(got[1]));
  }

  private static boolean finite(Tensor tensor) {
    for (float value : Reference.load(tensor)) {
      if (!Float.isFinite(value)) {
        return false;
      }
    }
    return true;
  }

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "INT32")
  @DisplayName("S6: an expanded input: the row [1,2] as a 2x2, with dY the identity")
  void expandedInput(DType type) {
    Tensor x = Tensors.of(arena, type, new float[] {1, 2}, 1, 2).expand(2, 2);
    assertValues(Tensors.dw(arena, x, matrix(type, 1, 0, 0, 1), DType.FLOAT32), 1, 1, 2, 2);
  }

  /**
   * The same bits on the CPU. A GPU sums rows whose features are neighbours in another order than
   * others, so two sums of four features, of magnitude 10 at most, lie within twice gamma(6) . 10
   * of each other, and a step of their type.
   */
  private static void assertSameSums(Tensor expected, Tensor got, String what) {
    assertSameSums(expected, got, 2 * 6 * 0x1p-24 * 10, what);
  }

  /** As above, for sums that lie within {@code apart} of each other. */
  private static void assertSameSums(Tensor expected, Tensor got, double apart, String what) {
    if (Kernels.onCpu()) {
      assertSameBits(expected, got, what);
      return;
    }
    double step =
        switch (got.dtype()) {
          case FLOAT32, INT32 -> 0;
          case FLOAT16 -> 0x1p-10;
          case BFLOAT16 -> 0x1p-7;
        };
    float[] a = expected.toFloatArray();
    float[] b = got.toFloatArray();
    for (int i = 0; i < a.length; i++) {
      assertEquals(a[i], b[i], apart + step * Math.abs(a[i]), what + ", sum " + i);
    }
  }

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "INT32")
  @DisplayName(
      "S7: leading dimensions not flattened: weighted sums of rank 1 to 5 and of permuted inputs")
  void weightedSumRanks(DType type) {
    Tensor w = Tensors.of(arena, type, new float[] {1, 2, 3, 4}, 4);
    Tensor x = constant(arena, type, 1, 2, 3, 4);
    Tensor y = Tensors.weightedSum(arena, x, w, type);
    assertArrayEquals(new long[] {2, 3}, y.shape());
    assertAll(10, y, "rank 3");
    Tensor scalar = Tensors.weightedSum(arena, constant(arena, type, 1, 4), w, DType.FLOAT32);
    assertEquals(0, scalar.rank());
    assertAll(10, scalar, "rank 1");
    assertAll(
        10, Tensors.weightedSum(arena, constant(arena, type, 1, 2, 1, 3, 2, 4), w, type), "rank 5");

    Tensor values = random(arena, 9, type, 2, 3, 4);
    for (int[] order : new int[][] {{1, 0, 2}, {0, 1, 2}}) {
      Tensor permuted = values.permute(order);
      assertSameSums(
          Tensors.weightedSum(arena, permuted.copy(arena), w, type),
          Tensors.weightedSum(arena, permuted, w, type),
          "permuted " + Arrays.toString(order));
    }
    // The feature dimension itself strided: [4, 3, 2] seen as [2, 3, 4].
    Tensor turned = random(arena, 10, type, 4, 3, 2).permute(2, 1, 0);
    assertSameSums(
        Tensors.weightedSum(arena, turned.copy(arena), w, type),
        Tensors.weightedSum(arena, turned, w, type),
        "features strided");
    Tensor wide = random(arena, 11, type, 3, 2, 2, 3, 8).permute(3, 1, 0, 2, 4).slice(4, 0, 8, 2);
    assertArrayEquals(new long[] {3, 2, 3, 2, 4}, wide.shape());
    assertSameSums(
        Tensors.weightedSum(arena, wide.copy(arena), w, type),
        Tensors.weightedSum(arena, wide, w, type),
        "rank 5 permuted");
    Tensor y4 = nan(arena, type, 2, 3, 2, 3).permute(3, 2, 1, 0);
    Kernels.weightedSum(wide, w, y4);
    assertSameSums(Tensors.weightedSum(arena, wide, w, type), y4, "permuted output");

    Tensor g = random(arena, 12, type, 2, 3, 2, 3).permute(3, 2, 1, 0);
    Tensor[] dense = {nan(arena, type, 3, 2, 3, 2, 4), nan(arena, type, 4)};
    Tensor[] strided = {
      nan(arena, type, 4, 2, 3, 2, 3).permute(4, 3, 2, 1, 0), nan(arena, type, 4)
    };
    Kernels.weightedSumBackward(wide.copy(arena), w, g.copy(arena), dense[0], dense[1], ASSIGN);
    Kernels.weightedSumBackward(wide, w, g, strided[0], strided[1], ASSIGN);
    assertSameBits(dense[0], strided[0], "gx");
    // Sums over 36 rows, of magnitude 36 at most.
    assertSameSums(dense[1], strided[1], 2 * 38 * 0x1p-24 * 36, "gw");
  }

  @Test
  @DisplayName(
      "S8: reading a view back as raw storage: an expanded or reversed view gives its logical"
          + " values")
  void readBack() {
    Tensor row = Tensor.of(arena, new float[] {1, 2, 3}, 1, 3).expand(2, 3);
    assertArrayEquals(new float[] {1, 2, 3, 1, 2, 3}, row.toFloatArray());
    assertArrayEquals(new float[] {3, 2, 1, 3, 2, 1}, row.reverse(1).toFloatArray());
    Tensor copy = Tensor.allocate(arena, DType.FLOAT32, 3, 2);
    copy.copyFrom(row.transpose());
    assertArrayEquals(new float[] {1, 1, 2, 2, 3, 3}, copy.toFloatArray());
    Tensor narrow = Tensor.of(arena, new float[] {1, 2, 3, 4, 5, 6}, 2, 3).slice(1, 1, 2);
    assertArrayEquals(new float[] {2, 5}, narrow.toFloatArray());
  }

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "INT32")
  @DisplayName(
      "S10: an internal layout leaking out: row-major, column-major and interleaved outputs hold"
          + " the same bits")
  void outputLayouts(DType type) {
    Tensor x = random(arena, 1, type, 34, 19);
    Tensor dy = random(arena, 2, type, 34, 50);
    Tensor w = random(arena, 3, type, 19, 50);
    Tensor dw = nan(arena, type, 50, 19).transpose();
    Tensor dx = nan(arena, type, 19, 34).transpose();
    Tensor y = nan(arena, type, 50, 34).transpose();
    Kernels.dw(x, dy, dw, 1, Reduction.DETERMINISTIC, ASSIGN);
    Kernels.dx(dy, w, dx);
    Kernels.y(x, w, y);
    assertSameBits(Tensors.dw(arena, x, dy, type), dw, "dw");
    assertSameBits(Tensors.dx(arena, dy, w, type), dx, "dx");
    assertSameBits(Tensors.y(arena, x, w, type), y, "y");
    Tensor reversed = nan(arena, type, 19, 50).reverse(0).reverse(1);
    Kernels.dw(x, dy, reversed, 3, Reduction.DETERMINISTIC, ASSIGN);
    Tensor plain = nan(arena, type, 19, 50);
    Kernels.dw(x, dy, plain, 3, Reduction.DETERMINISTIC, ASSIGN);
    assertSameBits(plain, reversed, "dw reversed");
    // [2, 3] with strides (3, 2): rows cross each other in memory, no two elements meet.
    Tensor crossing =
        Tensor.of(
            arena.allocate(8L * type.byteSize(), 64),
            type,
            new long[] {2, 3},
            new long[] {3, 2},
            0);
    Kernels.y(x.slice(0, 0, 2), w.slice(1, 0, 3), crossing);
    assertSameBits(
        Tensors.y(arena, x.slice(0, 0, 2), w.slice(1, 0, 3), type), crossing, "crossing rows");
  }

  @Test
  @DisplayName(
      "S11: a slow path chosen silently by the order of the output: same kernel, and within twice"
          + " the time")
  void sameKernelForBothOrders() {
    Tensor x = random(arena, 1, DType.FLOAT32, 1024, 256);
    Tensor dy = random(arena, 2, DType.FLOAT32, 1024, 256);
    Tensor row = nan(arena, DType.FLOAT32, 256, 256);
    Tensor column = nan(arena, DType.FLOAT32, 256, 256).transpose();
    Plan forRows = Dxdw.explainDw(x, dy, row, 1, Reduction.DETERMINISTIC, ASSIGN);
    Plan forColumns = Dxdw.explainDw(x, dy, column, 1, Reduction.DETERMINISTIC, ASSIGN);
    assertEquals(forRows.level(), forColumns.level());
    assertEquals(Dxdw.simdLevel(), forRows.level());
    assertEquals(forRows.kernel().split(",")[0], forColumns.kernel().split(",")[0]);
    long best = Long.MAX_VALUE;
    long bestColumns = Long.MAX_VALUE;
    // On a busy machine it takes more turns until both have run undisturbed.
    for (int i = 0;
        i < 15 || i < 1000 && (bestColumns >= 2 * best || best >= 2 * bestColumns);
        i++) {
      best = Math.min(best, time(x, dy, row));
      bestColumns = Math.min(bestColumns, time(x, dy, column));
    }
    assertTrue(
        bestColumns < 2 * best && best < 2 * bestColumns, best + " ns and " + bestColumns + " ns");
  }

  private static long time(Tensor x, Tensor dy, Tensor dw) {
    long start = System.nanoTime();
    Dxdw.dw(x, dy, dw, 1, Reduction.DETERMINISTIC, ASSIGN);
    return System.nanoTime() - start;
  }

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "INT32")
  @DisplayName(
      "S12: the stride of a dimension of size 1 means nothing: 0, 1, -7, 999999 and 12345 give the"
          + " dense bits")
  void strideOfSizeOne(DType type) {
    int inputs = 23;
    Tensor x = random(arena, 1, type, 1, inputs);
    Tensor dy = random(arena, 2, type, 1, 1);
    Tensor w = random(arena, 3, type, inputs, 1);
    Tensor dw = Tensors.dw(arena, x, dy, type);
    Tensor dx = Tensors.dx(arena, dy, w, type);
    Tensor y = Tensors.y(arena, x, w, type);
    for (long row : new long[] {0, 1, -7, 999_999, Long.MAX_VALUE, Long.MIN_VALUE}) {
      for (long column : new long[] {0, 12_345, -1}) {
        String what = "strides " + row + " and " + column;
        Tensor oddX =
            Tensor.of(x.segment(), type, new long[] {1, inputs}, new long[] {row, 1}, x.offset());
        Tensor oddDy =
            Tensor.of(dy.segment(), type, new long[] {1, 1}, new long[] {row, column}, dy.offset());
        Tensor oddW =
            Tensor.of(
                w.segment(), type, new long[] {inputs, 1}, new long[] {1, column}, w.offset());
        assertSameBits(dw, Tensors.dw(arena, oddX, oddDy, type), what);
        assertSameBits(dx, Tensors.dx(arena, oddDy, oddW, type), what);
        assertSameBits(y, Tensors.y(arena, oddX, oddW, type), what);
        Tensor buffer = nan(arena, type, inputs);
        Tensor oddOut =
            Tensor.of(
                buffer.segment(),
                type,
                new long[] {inputs, 1},
                new long[] {1, column},
                buffer.offset());
        Kernels.dw(oddX, oddDy, oddOut, 1, Reduction.DETERMINISTIC, ASSIGN);
        assertSameBits(dw, oddOut, what);
      }
    }
    Tensor manyTokens = random(arena, 4, type, 77, inputs);
    Tensor column = random(arena, 5, type, 77, 1);
    Tensor expected = Tensors.dw(arena, manyTokens, column, type);
    for (long stride : new long[] {0, 12_345, -3}) {
      Tensor odd =
          Tensor.of(
              column.segment(), type, new long[] {77, 1}, new long[] {1, stride}, column.offset());
      assertSameBits(expected, Tensors.dw(arena, manyTokens, odd, type), "column stride " + stride);
    }
  }

  static Stream<Arguments> selfOverlaps() {
    return Stream.of(
        Arguments.of(new long[] {4, 5}, new long[] {0, 1}, 5),
        Arguments.of(new long[] {4, 5}, new long[] {1, 0}, 4),
        Arguments.of(new long[] {4, 5}, new long[] {0, 0}, 1),
        Arguments.of(new long[] {4, 5}, new long[] {1, 1}, 8),
        Arguments.of(new long[] {4, 5}, new long[] {4, 1}, 17),
        Arguments.of(new long[] {4, 5}, new long[] {1, -1}, 8));
  }

  @ParameterizedTest
  @MethodSource("selfOverlaps")
  @DisplayName(
      "S14: an output that overlaps itself is refused by name and stride, and nothing is written")
  void outputOverlapsItself(long[] shape, long[] strides, int elements) {
    Tensor x = random(arena, 1, DType.FLOAT32, 6, 4);
    Tensor dy = random(arena, 2, DType.FLOAT32, 6, 5);
    Tensor buffer = constant(arena, DType.FLOAT32, 42, elements);
    long offset = strides[1] < 0 ? 4 : 0;
    Tensor dw =
        Tensor.of(buffer.segment(), DType.FLOAT32, shape, strides, buffer.offset() + offset);
    IllegalArgumentException refused =
        assertThrows(IllegalArgumentException.class, () -> Kernels.dw(x, dy, dw));
    assertTrue(refused.getMessage().contains("dw"), refused::getMessage);
    assertTrue(
        refused.getMessage().contains("[" + strides[0] + ", " + strides[1] + "]"),
        refused::getMessage);
    assertAll(42, buffer, "the buffer");
  }

  @Test
  @DisplayName("S15: an output that shares memory with an input is refused before any write")
  void outputOverlapsInput() {
    Tensor w = random(arena, 1, DType.FLOAT32, 5, 5);
    Tensor buffer = random(arena, 2, DType.FLOAT32, 12, 5);
    float[] before = buffer.toFloatArray();
    Tensor dy = buffer.slice(0, 0, 6);
    for (Tensor dx : new Tensor[] {dy, buffer.slice(0, 3, 9), buffer.slice(0, 5, 11)}) {
      IllegalArgumentException refused =
          assertThrows(IllegalArgumentException.class, () -> Kernels.dx(dy, w, dx));
      assertTrue(
          refused.getMessage().contains("dx") && refused.getMessage().contains("dy"),
          refused::getMessage);
    }
    assertSameBits(before, buffer, "the buffer");
    Tensor apart = buffer.slice(0, 6, 12);
    Kernels.dx(dy, w, apart);
    assertSameBits(
        Tensors.dx(arena, dy, w, DType.FLOAT32), apart, "rows next to each other are apart");
    // Even and odd columns of one buffer interleave without sharing an element.
    Tensor both = random(arena, 3, DType.FLOAT32, 6, 10);
    Tensor even = both.slice(1, 0, 10, 2);
    Tensor odd = both.slice(1, 1, 10, 2);
    Tensor expected = Tensors.dx(arena, even, w, DType.FLOAT32);
    Kernels.dx(even, w, odd);
    assertSameBits(expected, odd, "interleaved columns");
  }

  @ParameterizedTest
  @CsvSource({"BFLOAT16", "FLOAT16", "FLOAT32"})
  @DisplayName(
      "S17: operands that start one element off any wider alignment give the bits of aligned"
          + " copies")
  void unalignedStart(DType type) {
    int tokens = 19;
    for (int inputs : new int[] {1, 3, 7, 129}) {
      for (int outputs : new int[] {1, 3, 7, 129}) {
        Tensor x = shifted(random(arena, 1, type, tokens, inputs));
        Tensor dy = shifted(random(arena, 2, type, tokens, outputs));
        Tensor w = shifted(random(arena, 3, type, inputs, outputs));
        assertEquals(type.byteSize(), (x.segment().address() + x.offset() * type.byteSize()) % 64);
        String what = inputs + " x " + outputs;
        assertSameBits(
            Tensors.dw(arena, x.copy(arena), dy.copy(arena), type),
            Tensors.dw(arena, x, dy, type),
            what);
        assertSameBits(
            Tensors.dx(arena, dy.copy(arena), w.copy(arena), type),
            Tensors.dx(arena, dy, w, type),
            what);
        assertSameBits(
            Tensors.y(arena, x.copy(arena), w.copy(arena), type),
            Tensors.y(arena, x, w, type),
            what);
        Tensor shiftedOut = shifted(nan(arena, type, inputs, outputs));
        Kernels.dw(x, dy, shiftedOut, 2, Reduction.DETERMINISTIC, ASSIGN);
        Tensor plainOut = nan(arena, type, inputs, outputs);
        Kernels.dw(x.copy(arena), dy.copy(arena), plainOut, 2, Reduction.DETERMINISTIC, ASSIGN);
        assertSameBits(plainOut, shiftedOut, what);
      }
    }
  }

  /** The same values one element behind a 64-byte boundary. */
  private Tensor shifted(Tensor values) {
    long count = values.elementCount();
    Tensor moved =
        Tensor.allocate(arena, values.dtype(), count + 1)
            .slice(0, 1, count + 1)
            .reshape(values.shape());
    moved.copyFrom(values);
    return moved;
  }
}
