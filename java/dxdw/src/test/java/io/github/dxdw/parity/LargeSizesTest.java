package io.github.dxdw.parity;

import static io.github.dxdw.parity.Tensors.ASSIGN;
import static io.github.dxdw.parity.Tensors.assertValues;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.github.dxdw.DType;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Options;
import io.github.dxdw.Reduction;
import io.github.dxdw.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Sizes and distances beyond 32 bits. */
class LargeSizesTest {

  @Test
  @DisplayName(
      "L3: int product of two ints: dW of 46341 x 46341 bfloat16 from one token, all corners right")
  void moreElementsThanAnInt() throws IOException {
    int side = 46_341;
    long bytes = 2L * side * side;
    long free = availableBytes();
    assumeTrue(
        free >= 8L << 30,
        "needs 8 GiB of free memory for an output of 4.3 GB; free: " + free + " bytes");
    try (Arena arena = Arena.ofShared()) {
      Tensor x = Tensor.allocate(arena, DType.BFLOAT16, 1, side);
      Tensor dy = Tensor.allocate(arena, DType.BFLOAT16, 1, side);
      for (int i = 0; i < side; i++) {
        x.set(1 + i % 13, 0, i);
        dy.set(1 + i % 11, 0, i);
      }
      MemorySegment memory = PageMemory.map(arena, bytes);
      Tensor dw = Tensor.of(memory, DType.BFLOAT16, side, side);
      Dxdw.dw(x, dy, dw, 1, Reduction.DETERMINISTIC, ASSIGN);
      SplittableRandom random = new SplittableRandom(1);
      for (int i = 0; i < 100_000; i++) {
        long k = i < 4 ? (i & 1) * (side - 1L) : random.nextLong(side);
        long n = i < 4 ? (i >> 1) * (side - 1L) : random.nextLong(side);
        float expected = (1 + k % 13) * (1 + n % 11);
        assertEquals(
            expected, Bits.read(memory, DType.BFLOAT16, k * side + n), "dw[" + k + ", " + n + "]");
      }
      assertEquals(2_147_488_281L, dw.elementCount());
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
    long apart = 3_000_000_019L;
    try (Arena arena = Arena.ofShared()) {
      MemorySegment memory = PageMemory.map(arena, (2 * apart + 64) * type.byteSize());
      for (int sign : new int[] {1, -1}) {
        long origin = sign > 0 ? 0 : 2 * apart;
        Tensor far = view(memory, type, 3, 2, sign * apart, origin);
        Tensor farOut = view(memory, type, 3, 2, sign * apart, origin + 8);
        float[] values = {1, 2, 3, 4, 5, 6};
        for (int i = 0; i < 6; i++) {
          Bits.write(memory, type, origin + i / 2 * sign * apart + i % 2, values[i]);
        }
        Tensor identity = Tensors.of(arena, type, new float[] {1, 0, 0, 1}, 2, 2);
        Dxdw.y(far, identity, farOut, ASSIGN);
        assertValues(farOut, values);
        Dxdw.dx(far, identity, farOut, Options.defaults());
        assertValues(farOut, values);
        Tensor dw = Tensors.dw(arena, far, farOut, type);
        assertValues(dw, 35, 44, 44, 56);
        Tensor wide = Tensors.dw(arena, far.transpose(), identity, type);
        assertValues(wide, 1, 2, 3, 4, 5, 6);
        Dxdw.dw(far.transpose(), identity, farOut, 2, Reduction.DETERMINISTIC, ASSIGN);
        assertValues(farOut, values);
        assertValues(
            Tensors.weightedSum(arena, far, Tensors.of(arena, type, new float[] {1, 10}, 2), type),
            21,
            43,
            65);
        Tensor gw = Tensors.nan(arena, type, 2);
        Dxdw.weightedSumBackward(
            far,
            Tensors.of(arena, type, new float[] {1, 10}, 2),
            Tensors.of(arena, type, new float[] {1, 1, 1}, 3),
            farOut,
            gw,
            ASSIGN);
        assertValues(farOut, 1, 10, 1, 10, 1, 10);
        assertValues(gw, 9, 12);
        // Columns that far apart.
        assertValues(Tensors.y(arena, identity, far.transpose(), type), 1, 3, 5, 2, 4, 6);
      }
    }
  }

  private static Tensor view(
      MemorySegment memory, DType type, long rows, long columns, long stride, long offset) {
    return Tensor.of(memory, type, new long[] {rows, columns}, new long[] {stride, 1}, offset);
  }
}
