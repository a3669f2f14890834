package io.github.dxdw.parity;

import static io.github.dxdw.parity.Kernels.DEVICE;
import static io.github.dxdw.parity.Tensors.ASSIGN;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.github.dxdw.DType;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Options;
import io.github.dxdw.Reduction;
import io.github.dxdw.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.SplittableRandom;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Sizes and distances beyond 32 bits, in memory of the device that -Ddxdw.device names. */
class LargeSizesTest {
  private static final int SIDE = 46_341;

  @BeforeAll
  static void requireDevice() {
    Kernels.requireDevice();
  }

  @Test
  @DisplayName(
      "L3: int product of two ints: dW of 46341 x 46341 bfloat16 from one token, all corners right")
  void moreElementsThanAnInt() throws IOException {
    long free = availableBytes();
    assumeTrue(
        !Kernels.onCpu() || free >= 8L << 30,
        "needs 8 GiB of free memory for an output of 4.3 GB; free: " + free + " bytes");
    try (Arena arena = Arena.ofShared()) {
      float[] x = new float[SIDE];
      float[] dy = new float[SIDE];
      for (int i = 0; i < SIDE; i++) {
        x[i] = 1 + i % 13;
        dy[i] = 1 + i % 11;
      }
      Tensor dw = vast(arena, DType.BFLOAT16, SIDE, SIDE);
      Dxdw.dw(
          values(arena, DType.BFLOAT16, x, 1, SIDE),
          values(arena, DType.BFLOAT16, dy, 1, SIDE),
          dw,
          1,
          Reduction.DETERMINISTIC,
          ASSIGN);
      assertEquals(2_147_488_281L, dw.elementCount());
      float[] lastRow = dw.select(0, SIDE - 1).toFloatArray();
      float[] lastColumn = dw.select(1, SIDE - 1).toFloatArray();
      for (int i = 0; i < SIDE; i++) {
        assertEquals(x[SIDE - 1] * dy[i], lastRow[i], "dw[last, " + i + "]");
        assertEquals(x[i] * dy[SIDE - 1], lastColumn[i], "dw[" + i + ", last]");
      }
      SplittableRandom random = new SplittableRandom(1);
      for (int i = 0; i < 10_000; i++) {
        int k = random.nextInt(SIDE);
        int n = random.nextInt(SIDE);
        assertEquals(x[k] * dy[n], dw.get(k, n), "dw[" + k + ", " + n + "]");
      }
    }
  }

  private static long availableBytes() throws IOException {
    for (String line : Files.readAllLines(Path.of("/proc/meminfo"))) {
      if (line.startsWith("MemAvailable:")) {
        return Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024;
      }
    }
    return 0;
  }

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "INT32")
  @DisplayName("32-bit offsets: rows three thousand million elements apart, forwards and backwards")
  void distantRows(DType type) {
    try (Arena arena = Arena.ofShared()) {
      Tensor all = vast(arena, type, 3, 3_000_000_019L);
      for (boolean backwards : new boolean[] {false, true}) {
        Tensor rows = backwards ? all.reverse(0) : all;
        Tensor far = rows.slice(1, 0, 2);
        Tensor farOut = rows.slice(1, 8, 10);
        float[] sixth = {1, 2, 3, 4, 5, 6};
        far.copyFrom(values(arena, type, sixth, 3, 2));
        Tensor identity = values(arena, type, new float[] {1, 0, 0, 1}, 2, 2);
        Tensor weights = values(arena, type, new float[] {1, 10}, 2);
        Dxdw.y(far, identity, farOut, ASSIGN);
        assertValues(farOut, sixth);
        Dxdw.dx(far, identity, farOut, Options.defaults());
        assertValues(farOut, sixth);
        Tensor square = unset(arena, type, 2, 2);
        Dxdw.dw(far, farOut, square, 1, Reduction.DETERMINISTIC, ASSIGN);
        assertValues(square, 35, 44, 44, 56);
        Dxdw.dw(far.transpose(), identity, farOut, 2, Reduction.DETERMINISTIC, ASSIGN);
        assertValues(farOut, sixth);
        Tensor sums = unset(arena, type, 3);
        Dxdw.weightedSum(far, weights, sums, ASSIGN);
        assertValues(sums, 21, 43, 65);
        Tensor gw = unset(arena, type, 2);
        Tensor ones = values(arena, type, new float[] {1, 1, 1}, 3);
        Dxdw.weightedSumBackward(far, weights, ones, farOut, gw, ASSIGN);
        assertValues(farOut, 1, 10, 1, 10, 1, 10);
        assertValues(gw, 9, 12);
        // Columns that far apart.
        Tensor wide = unset(arena, type, 2, 3);
        Dxdw.y(identity, far.transpose(), wide, ASSIGN);
        assertValues(wide, 1, 3, 5, 2, 4, 6);
      }
    }
  }

  /** Zeros, of which host memory holds only those that are touched. */
  private static Tensor vast(Arena arena, DType type, long rows, long columns) {
    if (!Kernels.onCpu()) {
      return Tensor.allocate(arena, DEVICE, type, rows, columns);
    }
    return Tensor.of(PageMemory.map(arena, rows * columns * type.byteSize()), type, rows, columns);
  }

  private static Tensor values(Arena arena, DType type, float[] values, long... shape) {
    Tensor tensor = Tensor.allocate(arena, DEVICE, type, shape);
    tensor.copyFrom(Tensor.of(arena, values, shape));
    return tensor;
  }

  /** What a kernel has to overwrite. */
  private static Tensor unset(Arena arena, DType type, long... shape) {
    float[] values = new float[Tensors.count(shape)];
    Arrays.fill(values, Float.NaN);
    return values(arena, type, values, shape);
  }

  private static void assertValues(Tensor got, float... expected) {
    assertArrayEquals(expected, got.toFloatArray());
  }
}
