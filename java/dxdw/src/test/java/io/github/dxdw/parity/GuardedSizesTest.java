package io.github.dxdw.parity;

import static org.junit.jupiter.api.Assertions.fail;

import io.github.dxdw.Accumulate;
import io.github.dxdw.DType;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Options;
import io.github.dxdw.Reduction;
import io.github.dxdw.Tensor;
import io.github.dxdw.parity.Case.Function;
import io.github.dxdw.parity.Reference.Matrix;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Every product of T, K, N from 1 to 70, rows three elements further apart than wide, NaN between
 * rows, the last element of every operand on the last bytes before an unreadable page. Data are
 * small integers, so every order of sums gives the same bits, and one table of running sums over
 * the contraction holds the results for all sizes.
 */
class GuardedSizesTest {

  private static final int MOST = 70;
  private static final int PAD = 3;

  static Stream<Arguments> functionsAndTypes() {
    return Stream.of(Function.Y, Function.DX, Function.DW)
        .flatMap(function -> Stream.of(Bits.FLOATS).map(type -> Arguments.of(function, type)));
  }

  @ParameterizedTest
  @MethodSource("functionsAndTypes")
  @DisplayName(
      "V29: tails of tiles: nothing outside the operands is read or written at any size up to 70")
  void everySizeAtTheEndOfMemory(Function function, DType type) {
    try (Arena arena = Arena.ofConfined()) {
      new Sweep(arena, function, type).run();
    }
  }

  private static final class Sweep {

    private final Function function;
    private final DType type;
    private final int size;
    private final MemorySegment[] memory = new MemorySegment[3];
    private final MemorySegment[] values = new MemorySegment[2];
    private final MemorySegment nan;
    private final MemorySegment[] expected = new MemorySegment[MOST + 1];
    private final Options options = Options.defaults().withAccumulate(Accumulate.ASSIGN);

    Sweep(Arena arena, Function function, DType type) {
      this.function = function;
      this.type = type;
      size = type.byteSize();
      long rowBytes = (long) (MOST + PAD) * size;
      nan = arena.allocate(rowBytes);
      for (int i = 0; i < MOST + PAD; i++) {
        Bits.write(nan, type, i, Float.NaN);
      }
      for (int i = 0; i < 3; i++) {
        memory[i] = PageMemory.guarded(arena, MOST * rowBytes);
      }
      SplittableRandom random = new SplittableRandom(function.ordinal());
      float[][] drawn = new float[2][MOST * MOST];
      for (int i = 0; i < 2; i++) {
        values[i] = arena.allocate((long) MOST * MOST * size);
        for (int e = 0; e < MOST * MOST; e++) {
          drawn[i][e] = random.nextInt(-2, 3);
          Bits.write(values[i], type, e, drawn[i][e]);
        }
      }
      Matrix a = Matrix.of(drawn[0], MOST, MOST);
      Matrix b = Matrix.of(drawn[1], MOST, MOST);
      if (function == Function.DX) {
        b = b.transposed();
      } else if (function == Function.DW) {
        a = a.transposed();
      }
      float[] running = new float[MOST * MOST];
      for (int c = 0; c < MOST; c++) {
        expected[c + 1] = arena.allocate((long) MOST * MOST * size);
        for (int i = 0; i < MOST; i++) {
          for (int j = 0; j < MOST; j++) {
            running[i * MOST + j] += a.at(i, c) * b.at(c, j);
            Bits.write(expected[c + 1], type, i * MOST + j, running[i * MOST + j]);
          }
        }
      }
    }

    void run() {
      for (int t = 1; t <= MOST; t++) {
        for (int k = 1; k <= MOST; k++) {
          for (int n = 1; n <= MOST; n++) {
            one(t, k, n);
          }
        }
      }
    }

    private void one(int t, int k, int n) {
      switch (function) {
        case Y -> {
          Dxdw.y(input(0, t, k), input(1, k, n), output(t, n), options);
          check(t, n, k, t, k, n);
        }
        case DX -> {
          Dxdw.dx(input(0, t, n), input(1, k, n), output(t, k), options);
          check(t, k, n, t, k, n);
        }
        default -> {
          Dxdw.dw(
              input(0, t, k), input(1, t, n), output(k, n), 1, Reduction.DETERMINISTIC, options);
          check(k, n, t, t, k, n);
        }
      }
    }

    private MemorySegment place(int operand, int rows, int columns) {
      long bytes = ((long) (rows - 1) * (columns + PAD) + columns) * size;
      return memory[operand].asSlice(memory[operand].byteSize() - bytes);
    }

    private Tensor view(MemorySegment segment, int rows, int columns) {
      return Tensor.of(segment, type, new long[] {rows, columns}, new long[] {columns + PAD, 1}, 0);
    }

    private Tensor input(int operand, int rows, int columns) {
      MemorySegment segment = place(operand, rows, columns);
      long row = (long) columns * size;
      long stride = (long) (columns + PAD) * size;
      for (int r = 0; r < rows; r++) {
        MemorySegment.copy(values[operand], (long) r * MOST * size, segment, r * stride, row);
        if (r + 1 < rows) {
          MemorySegment.copy(nan, 0, segment, r * stride + row, (long) PAD * size);
        }
      }
      return view(segment, rows, columns);
    }

    private Tensor output(int rows, int columns) {
      MemorySegment segment = place(2, rows, columns);
      long stride = (long) (columns + PAD) * size;
      for (int r = 0; r < rows; r++) {
        MemorySegment.copy(
            nan, 0, segment, r * stride, r + 1 < rows ? stride : (long) columns * size);
      }
      return view(segment, rows, columns);
    }

    private void check(int rows, int columns, int contraction, int t, int k, int n) {
      MemorySegment segment = place(2, rows, columns);
      long row = (long) columns * size;
      long stride = (long) (columns + PAD) * size;
      for (int r = 0; r < rows; r++) {
        long from = (long) r * MOST * size;
        long wrong =
            MemorySegment.mismatch(
                segment, r * stride, r * stride + row, expected[contraction], from, from + row);
        if (wrong >= 0) {
          long at = wrong / size;
          fail(
              "%s %s T=%d K=%d N=%d: [%d, %d] is %s, not %s"
                  .formatted(
                      function,
                      type,
                      t,
                      k,
                      n,
                      r,
                      at,
                      Bits.read(segment, type, (long) r * (columns + PAD) + at),
                      Bits.read(expected[contraction], type, (long) r * MOST + at)));
        }
        if (r + 1 < rows
            && MemorySegment.mismatch(
                    segment, r * stride + row, (r + 1) * stride, nan, 0, (long) PAD * size)
                >= 0) {
          fail(
              "%s %s T=%d K=%d N=%d: the padding after row %d was written"
                  .formatted(function, type, t, k, n, r));
        }
      }
    }
  }
}
