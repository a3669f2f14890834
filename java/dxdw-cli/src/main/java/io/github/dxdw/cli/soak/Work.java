package io.github.dxdw.cli.soak;

import io.github.dxdw.Accumulate;
import io.github.dxdw.DType;
import io.github.dxdw.Device;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Options;
import io.github.dxdw.Reduction;
import io.github.dxdw.Tensor;
import io.github.dxdw.autograd.Functions;
import io.github.dxdw.autograd.Parameter;
import io.github.dxdw.autograd.Tape;
import io.github.dxdw.autograd.Variable;
import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.SplittableRandom;

/** A few calls on inputs of their own, whose results a lone caller got before. */
final class Work {

  private enum Kind {
    Y,
    DX,
    DW,
    DW_WITH_BIAS,
    DW_REDUCE,
    WEIGHTED_SUM,
    WEIGHTED_SUM_BACKWARD,
    ELEMENTWISE,
    LOSSES,
    OPTIMIZERS,
    TAPE
  }

  private static final DType[] TYPES = {DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16};

  /** Largest size of a dimension, and that of the few large calls. */
  private static final int USUAL = 100;

  private static final int LARGE = 600;

  private final Kind kind;
  private final Device device;
  private final DType type;
  private final long t;
  private final long k;
  private final long n;
  private final int split;
  private final Options options;
  private final Tensor x;
  private final Tensor w;
  private final Tensor dy;
  private final Tensor partials;
  private final Tensor labels;
  private int expected;

  /** Draws calls; their inputs live in {@code arena}. */
  Work(Arena arena, Device device, SplittableRandom random) {
    this.device = device;
    kind = Kind.values()[random.nextInt(Kind.values().length)];
    type = TYPES[random.nextInt(TYPES.length)];
    int most = random.nextInt(8) == 0 ? LARGE : USUAL;
    t = 1 + random.nextInt(most);
    k = 1 + random.nextInt(most);
    n = 1 + random.nextInt(most);
    split = random.nextInt((int) Math.min(t, 6) + 1);
    options =
        Options.defaults()
            .withAccumulate(random.nextBoolean() ? Accumulate.ADD : Accumulate.ASSIGN)
            .withInterruptible(device.equals(Device.cpu()) && random.nextInt(4) == 0);
    x = values(arena, random, type, t, k);
    w = values(arena, random, type, k, n);
    dy = values(arena, random, type, t, n);
    partials = values(arena, random, DType.FLOAT32, 4, k, n);
    labels = labels(arena, random);
  }

  private Tensor values(Arena arena, SplittableRandom random, DType dtype, long... shape) {
    long count = Arrays.stream(shape).reduce(1, (a, b) -> a * b);
    float[] values = new float[(int) count];
    for (int i = 0; i < values.length; ++i) {
      values[i] = (float) random.nextDouble(-1, 1);
    }
    try (Arena own = Arena.ofConfined()) {
      return onDevice(arena, Tensor.of(own, values, shape), dtype);
    }
  }

  /** A class for each row of dY. */
  private Tensor labels(Arena arena, SplittableRandom random) {
    int[] values = new int[(int) t];
    for (int i = 0; i < values.length; ++i) {
      values[i] = random.nextInt((int) n);
    }
    try (Arena own = Arena.ofConfined()) {
      return onDevice(arena, Tensor.of(own, values, t), DType.INT32);
    }
  }

  private Tensor onDevice(Arena arena, Tensor values, DType dtype) {
    Tensor copy = out(arena, dtype, values.shape());
    copy.copyFrom(values);
    return copy;
  }

  /** Notes what the results are when nobody else calls. */
  void computeAlone() {
    try (Arena arena = Arena.ofConfined()) {
      expected = compute(arena);
    }
  }

  /** Fails when a result, whose memory {@code arena} owns, is another than a lone caller's. */
  void check(Arena arena) {
    int got = compute(arena);
    if (got != expected) {
      throw new IllegalStateException(
          this
              + ": a result differs from a lone caller's (hash "
              + got
              + ", not "
              + expected
              + ")");
    }
  }

  private int compute(Arena arena) {
    return switch (kind) {
      case Y -> {
        Tensor y = out(arena, type, t, n);
        Dxdw.y(x, w, y, options);
        yield hash(y);
      }
      case DX -> {
        Tensor dx = out(arena, type, t, k);
        Dxdw.dx(dy, w, dx, options);
        yield hash(dx);
      }
      case DW -> {
        Tensor dw = out(arena, DType.FLOAT32, k, n);
        Dxdw.dw(x, dy, dw, split, Reduction.DETERMINISTIC, options);
        yield hash(dw);
      }
      case DW_WITH_BIAS -> {
        Tensor dw = out(arena, DType.FLOAT32, k, n);
        Tensor db = out(arena, DType.FLOAT32, n);
        Dxdw.dw(x, dy, dw, db);
        yield hash(dw, db);
      }
      case DW_REDUCE -> {
        Tensor dw = out(arena, DType.FLOAT32, k, n);
        Dxdw.dwReduce(partials, dw, options);
        yield hash(dw);
      }
      case WEIGHTED_SUM -> {
        Tensor y = out(arena, type, t);
        Dxdw.weightedSum(x, w.select(1, 0), y, options);
        yield hash(y);
      }
      case WEIGHTED_SUM_BACKWARD -> {
        Tensor gx = out(arena, type, t, k);
        Tensor gw = out(arena, DType.FLOAT32, k);
        Dxdw.weightedSumBackward(x, w.select(1, 0), dy.select(1, 0), gx, gw, options);
        yield hash(gx, gw);
      }
      case ELEMENTWISE -> elementwise(arena);
      case LOSSES -> losses(arena);
      case OPTIMIZERS -> optimizers(arena);
      case TAPE -> tape(arena);
    };
  }

  private int elementwise(Arena arena) {
    Tensor sum = out(arena, type, t, k);
    Tensor y = out(arena, type, t, k);
    Tensor gx = out(arena, type, t, k);
    Tensor gb = out(arena, DType.FLOAT32, k);
    Dxdw.add(x, w.select(1, 0).expand(t, k), sum);
    Dxdw.gelu(sum, y);
    Dxdw.geluBackward(sum, y, gx);
    Dxdw.relu(gx, sum);
    Dxdw.reluBackward(sum, y, gx);
    Dxdw.sumRows(gx, gb);
    return hash(sum, y, gx, gb);
  }

  private int losses(Arena arena) {
    Tensor loss = out(arena, DType.FLOAT32, t);
    Tensor gx = out(arena, type, t, n);
    Tensor distance = out(arena, DType.FLOAT32, t);
    Tensor away = out(arena, type, t, n);
    Dxdw.softmaxCrossEntropy(dy, labels, loss);
    Dxdw.softmaxCrossEntropyBackward(dy, labels, loss, gx);
    Dxdw.squaredError(dy, gx, distance);
    Dxdw.squaredErrorBackward(dy, gx, distance, away);
    return hash(loss, gx, distance, away);
  }

  private int optimizers(Arena arena) {
    Tensor p = out(arena, DType.FLOAT32, k, n);
    Tensor m = out(arena, DType.FLOAT32, k, n);
    Tensor v = out(arena, DType.FLOAT32, k, n);
    Tensor velocity = out(arena, DType.FLOAT32, k, n);
    Tensor copy = out(arena, DType.BFLOAT16, k, n);
    Tensor scale = out(arena, DType.FLOAT32);
    Tensor gradient = partials.select(0, 1);
    p.copyFrom(partials.select(0, 0));
    Dxdw.squaredNorm(gradient, scale);
    Dxdw.clipFactor(scale, scale, 1);
    Dxdw.adamw(p, gradient, m, v, copy, scale, 1e-2, 0.9, 0.999, 1e-8, 1e-2, 1);
    Dxdw.sgd(p, gradient, velocity, copy, scale, 1e-2, 0.9, 1e-4, true);
    return hash(p, m, v, velocity, copy, scale);
  }

  /** A step of a layer; one tape in two is left to the collector. */
  private int tape(Arena arena) {
    Parameter weight = Parameter.of(arena, "w", w);
    Tape tape = new Tape(device);
    Variable y = tape.apply(Functions.LINEAR, Variable.constant(x), weight);
    Variable loss =
        tape.apply(
            Functions.SOFTMAX_CROSS_ENTROPY,
            tape.apply(Functions.GELU, y),
            Variable.constant(labels));
    tape.backward(tape.apply(Functions.MEAN, loss));
    if (split % 2 == 0) {
      tape.close();
    }
    return hash(weight.gradient());
  }

  private Tensor out(Arena arena, DType dtype, long... shape) {
    return Tensor.allocate(arena, device, dtype, shape);
  }

  private static int hash(Tensor... results) {
    int hash = 0;
    for (Tensor result : results) {
      hash = 31 * hash + Arrays.hashCode(result.toFloatArray());
    }
    return hash;
  }

  @Override
  public String toString() {
    return kind + " of " + type + ", T " + t + ", K " + k + ", N " + n + ", split " + split;
  }
}
