package io.github.dxdw.cli.soak;

import io.github.dxdw.Accumulate;
import io.github.dxdw.DType;
import io.github.dxdw.Device;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Options;
import io.github.dxdw.Reduction;
import io.github.dxdw.Tensor;
import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.SplittableRandom;

/** One call on inputs of its own, whose result a lone caller got before. */
final class Work {

  private enum Function {
    Y,
    DX,
    DW,
    DW_REDUCE,
    WEIGHTED_SUM,
    WEIGHTED_SUM_BACKWARD
  }

  /** Largest size of a dimension, and that of the few large calls. */
  private static final int USUAL = 100;

  private static final int LARGE = 600;

  private final Function function;
  private final Device device;
  private final DType type;
  private final long t;
  private final long k;
  private final long n;
  private final int split;
  private final Options options;
  private final Tensor first;
  private final Tensor second;
  private final Tensor third;
  private int expected;

  /** Draws a call; its inputs live in {@code arena}. */
  Work(Arena arena, Device device, SplittableRandom random) {
    this.device = device;
    function = Function.values()[random.nextInt(Function.values().length)];
    type = DType.values()[random.nextInt(3)];
    int most = random.nextInt(8) == 0 ? LARGE : USUAL;
    t = 1 + random.nextInt(most);
    k = 1 + random.nextInt(most);
    n = 1 + random.nextInt(most);
    split = random.nextInt((int) Math.min(t, 6) + 1);
    options =
        Options.defaults()
            .withAccumulate(random.nextBoolean() ? Accumulate.ADD : Accumulate.ASSIGN)
            .withInterruptible(device.equals(Device.cpu()) && random.nextInt(4) == 0);
    first =
        switch (function) {
          case Y, DW, WEIGHTED_SUM, WEIGHTED_SUM_BACKWARD -> values(arena, random, type, t, k);
          case DX -> values(arena, random, type, t, n);
          case DW_REDUCE -> values(arena, random, DType.FLOAT32, 1 + t % 7, k, n);
        };
    second =
        switch (function) {
          case Y, DX -> values(arena, random, type, k, n);
          case DW -> values(arena, random, type, t, n);
          case DW_REDUCE -> null;
          case WEIGHTED_SUM, WEIGHTED_SUM_BACKWARD -> values(arena, random, type, k);
        };
    third = function == Function.WEIGHTED_SUM_BACKWARD ? values(arena, random, type, t) : null;
  }

  private Tensor values(Arena arena, SplittableRandom random, DType dtype, long... shape) {
    long count = Arrays.stream(shape).reduce(1, (a, b) -> a * b);
    float[] values = new float[(int) count];
    for (int i = 0; i < values.length; ++i) {
      values[i] = (float) random.nextDouble(-1, 1);
    }
    try (Arena own = Arena.ofConfined()) {
      Tensor copy = Tensor.allocate(arena, device, dtype, shape);
      copy.copyFrom(Tensor.of(own, values, shape));
      return copy;
    }
  }

  /** Notes what the result is when nobody else calls. */
  void computeAlone() {
    try (Arena arena = Arena.ofConfined()) {
      expected = compute(arena);
    }
  }

  /** Fails when the result, whose memory {@code arena} owns, is another than a lone caller's. */
  void check(Arena arena) {
    int got = compute(arena);
    if (got != expected) {
      throw new IllegalStateException(
          this
              + ": the result differs from a lone caller's (hash "
              + got
              + ", not "
              + expected
              + ")");
    }
  }

  private int compute(Arena arena) {
    Tensor out =
        switch (function) {
          case Y -> Tensor.allocate(arena, device, type, t, n);
          case DX -> Tensor.allocate(arena, device, type, t, k);
          case DW, DW_REDUCE -> Tensor.allocate(arena, device, DType.FLOAT32, k, n);
          case WEIGHTED_SUM -> Tensor.allocate(arena, device, type, t);
          case WEIGHTED_SUM_BACKWARD -> Tensor.allocate(arena, device, DType.FLOAT32, k);
        };
    int more = 0;
    switch (function) {
      case Y -> Dxdw.y(first, second, out, options);
      case DX -> Dxdw.dx(first, second, out, options);
      case DW -> Dxdw.dw(first, second, out, split, Reduction.DETERMINISTIC, options);
      case DW_REDUCE -> Dxdw.dwReduce(first, out, options);
      case WEIGHTED_SUM -> Dxdw.weightedSum(first, second, out, options);
      default -> {
        Tensor gx = Tensor.allocate(arena, device, type, t, k);
        Dxdw.weightedSumBackward(first, second, third, gx, out, options);
        more = Arrays.hashCode(gx.toFloatArray());
      }
    }
    return 31 * more + Arrays.hashCode(out.toFloatArray());
  }

  @Override
  public String toString() {
    return function + " of " + type + ", T " + t + ", K " + k + ", N " + n + ", split " + split;
  }
}
