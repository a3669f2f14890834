package io.github.dxdw.parity;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.fail;

import io.github.dxdw.Accumulate;
import io.github.dxdw.DType;
import io.github.dxdw.Options;
import io.github.dxdw.Precision;
import io.github.dxdw.Reduction;
import io.github.dxdw.Tensor;
import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.SplittableRandom;
import java.util.random.RandomGenerator;

/** Short ways to make operands and to compare results. */
final class Tensors {

  static final Options ASSIGN = Options.defaults().withAccumulate(Accumulate.ASSIGN);
  static final Options ADD = Options.defaults().withAccumulate(Accumulate.ADD);
  static final Options EXACT = ASSIGN.withPrecision(Precision.EXACT);

  private Tensors() {}

  /** Values in a type, compact. */
  static Tensor of(Arena arena, DType type, float[] values, long... shape) {
    Tensor tensor = Tensor.allocate(arena, type, shape);
    for (int i = 0; i < values.length; i++) {
      Bits.write(tensor.segment(), type, tensor.offset() + i, values[i]);
    }
    return tensor;
  }

  static Tensor constant(Arena arena, DType type, float value, long... shape) {
    float[] values = new float[count(shape)];
    Arrays.fill(values, value);
    return of(arena, type, values, shape);
  }

  /** Uniform from -1 to 1. */
  static Tensor random(Arena arena, long seed, DType type, long... shape) {
    RandomGenerator random = new SplittableRandom(seed);
    float[] values = new float[count(shape)];
    for (int i = 0; i < values.length; i++) {
      values[i] = random.nextFloat(-1, 1);
    }
    return of(arena, type, values, shape);
  }

  static Tensor nan(Arena arena, DType type, long... shape) {
    return constant(arena, type, Float.NaN, shape);
  }

  static int count(long... shape) {
    long count = 1;
    for (long size : shape) {
      count *= size;
    }
    return Math.toIntExact(count);
  }

  static void assertSameBits(Tensor expected, Tensor got, String what) {
    assertArrayEquals(expected.shape(), got.shape(), what);
    assertSameBits(Reference.load(expected), got, what);
  }

  /** Bit for bit; names the first coordinate that differs. */
  static void assertSameBits(float[] expected, Tensor got, String what) {
    float[] values = Reference.load(got);
    for (int i = 0; i < expected.length; i++) {
      if (!Bits.same(expected[i], values[i])) {
        fail(
            "%s: %s is %s, expected %s"
                .formatted(
                    what,
                    coordinates(got.shape(), i),
                    Bits.show(values[i]),
                    Bits.show(expected[i])));
      }
    }
  }

  static void assertValues(Tensor got, float... expected) {
    assertSameBits(expected, got, got.dtype().toString());
  }

  static void assertAll(float expected, Tensor got, String what) {
    float[] values = new float[count(got.shape())];
    Arrays.fill(values, expected);
    assertSameBits(values, got, what);
  }

  private static String coordinates(long[] shape, int index) {
    long[] at = new long[shape.length];
    int rest = index;
    for (int d = shape.length - 1; d >= 0; d--) {
      at[d] = rest % shape[d];
      rest /= (int) shape[d];
    }
    return Arrays.toString(at);
  }

  /** X^T . dY into a fresh buffer full of NaN. */
  static Tensor dw(Arena arena, Tensor x, Tensor dy, DType output) {
    Tensor dw = nan(arena, output, x.size(1), dy.size(1));
    Kernels.dw(x, dy, dw, 1, Reduction.DETERMINISTIC, ASSIGN);
    return dw;
  }

  /** dY . W^T into a fresh buffer full of NaN. */
  static Tensor dx(Arena arena, Tensor dy, Tensor w, DType output) {
    Tensor dx = nan(arena, output, dy.size(0), w.size(0));
    Kernels.dx(dy, w, dx);
    return dx;
  }

  /** X . W into a fresh buffer full of NaN. */
  static Tensor y(Arena arena, Tensor x, Tensor w, DType output) {
    Tensor y = nan(arena, output, x.size(0), w.size(1));
    Kernels.y(x, w, y);
    return y;
  }

  static Tensor weightedSum(Arena arena, Tensor x, Tensor w, DType output) {
    Tensor y = nan(arena, output, Arrays.copyOf(x.shape(), x.rank() - 1));
    Kernels.weightedSum(x, w, y);
    return y;
  }
}
