package io.github.dxdw.parity;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.dxdw.Accumulate;
import io.github.dxdw.DType;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Options;
import io.github.dxdw.Reduction;
import io.github.dxdw.Tensor;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.BiConsumer;
import java.util.function.IntFunction;
import java.util.random.RandomGenerator;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/**
 * The functions around products against float64, element by element: drawn shapes, types and
 * layouts (strides of 0, negative ones, dimensions in any order, offsets, NaN between the
 * elements), add and assign, one thread and several.
 *
 * <p>Errors are bounded from the formulas: each float32 operation adds u = 2^-24 of its result, a
 * sum of n terms (n + 2) u of the sum of their magnitudes, whatever its order. exp and the normal
 * distribution are within 4 units in the last place (8 u), as the C header states.
 */
class TrainingParityTest {
  private static final int TRIALS = 300;
  private static final double U = 0x1p-24;

  @BeforeAll
  static void device() {
    Kernels.requireDevice();
  }

  /** A value, and how far a result may lie from it before its own rounding. */
  private record Bounded(double value, double error) {
    static Bounded exact(double value) {
      return new Bounded(value, 0);
    }
  }

  /** Operands of one call. Inputs come first, then what is written. */
  private static final class Trial implements AutoCloseable {
    final RandomGenerator random;
    final DType input;
    final DType output;
    final Accumulate accumulate;
    private final Arena arena = Arena.ofConfined();
    private final List<Operand> operands = new ArrayList<>();
    private final List<float[]> before = new ArrayList<>();
    private int inputs = -1;

    Trial(long seed) {
      random = new SplittableRandom(seed);
      input = Bits.FLOATS[random.nextInt(3)];
      output = random.nextBoolean() ? input : DType.FLOAT32;
      accumulate = Accumulate.values()[random.nextInt(3)];
    }

    long[] shape() {
      long[] shape = new long[random.nextInt(0, 6)];
      for (int d = 0; d < shape.length; ++d) {
        shape[d] = random.nextInt(20) == 0 ? 0 : random.nextInt(1, random.nextInt(4) == 0 ? 30 : 5);
      }
      return random.nextInt(10) == 0 ? new long[] {random.nextInt(1, 4000)} : shape;
    }

    long[] number() {
      return random.nextBoolean() ? new long[0] : new long[] {1};
    }

    private Operand operand(String name, DType type, long[] shape, boolean written, Fill fill) {
      Layout layout = Layout.draw(random, shape.length, written);
      Operand operand = new Operand(arena, name, type, shape, layout);
      for (int i = 0; i < operand.count(); ++i) {
        operand.set(i, Bits.round(type == DType.INT32 ? DType.FLOAT32 : type, fill.next()));
      }
      operand.snapshot();
      operands.add(operand);
      before.add(operand.load());
      return operand;
    }

    Operand in(String name, DType type, long... shape) {
      float reach = random.nextInt(3) == 0 ? 8 : 1;
      return operand(name, type, shape, false, () -> random.nextFloat(-reach, reach));
    }

    Operand labels(int classes, long... shape) {
      return operand("labels", DType.INT32, shape, false, () -> random.nextInt(classes));
    }

    /** Assigned outputs hold NaN, for nobody may read them. */
    Operand out(String name, DType type, boolean adds, long... shape) {
      inputs = inputs < 0 ? operands.size() : inputs;
      return operand(name, type, shape, true, () -> adds ? random.nextFloat(-1, 1) : Float.NaN);
    }

    Operand state(String name, DType type, long... shape) {
      inputs = inputs < 0 ? operands.size() : inputs;
      return operand(name, type, shape, true, random::nextFloat);
    }

    boolean adds(boolean byDefault) {
      return accumulate == Accumulate.ADD || accumulate == Accumulate.DEFAULT && byDefault;
    }

    void run(Options options, BiConsumer<Tensor[], Options> call) {
      Tensor[] tensors = operands.stream().map(o -> o.tensor).toArray(Tensor[]::new);
      byte[][] first = null;
      int threads = Dxdw.threads();
      try {
        for (int count : new int[] {1, 4}) {
          Dxdw.setThreads(count);
          operands.forEach(Operand::restore);
          Kernels.call(options, inputs, call, tensors);
          byte[][] bytes = operands.stream().map(Operand::bytes).toArray(byte[][]::new);
          assertTrue(first == null || Arrays.deepEquals(first, bytes), "bits vary: " + operands);
          first = bytes;
        }
      } finally {
        Dxdw.setThreads(threads);
      }
      for (int i = 0; i < operands.size(); ++i) {
        assertNull(operands.get(i).touched(i >= inputs));
      }
    }

    void run(BiConsumer<Tensor[], Options> call) {
      run(Options.defaults().withAccumulate(accumulate), call);
    }

    double value(Operand operand, int i) {
      return before.get(operands.indexOf(operand))[i];
    }

    void check(Operand out, boolean adds, IntFunction<Bounded> expected) {
      float[] got = out.load();
      for (int i = 0; i < got.length; ++i) {
        Bounded b = expected.apply(i);
        double value = b.value;
        double error = b.error + U * Math.abs(value) + 0x1p-149;
        if (adds) {
          value += value(out, i);
          error += U * Math.abs(value);
        }
        boolean inside =
            out.type == DType.FLOAT32
                ? Math.abs(got[i] - value) <= error
                : got[i] >= Bits.roundOnce(out.type, value - error)
                    && got[i] <= Bits.roundOnce(out.type, value + error);
        if (!inside) {
          throw new AssertionError(
              "%s is %s, float64 says %s, allowed error %s; operands %s"
                  .formatted(out.coordinates(i), got[i], value, error, operands));
        }
      }
    }

    @Override
    public void close() {
      arena.close();
    }
  }

  private interface Fill {
    float next();
  }

  private interface Experiment {
    void on(Trial trial);
  }

  private static void trials(long seed, Experiment test) {
    for (int i = 0; i < TRIALS; ++i) {
      try (Trial trial = new Trial(seed * 1000 + i)) {
        test.on(trial);
      }
    }
  }

  private static double sumBound(long length) {
    return (length + 2) * U / (1 - (length + 2) * U);
  }

  // ---- The normal distribution in float64 ----

  /** erfc(x) for x >= 0: the series of erf below 2, a continued fraction above. */
  private static double erfcOfPositive(double x) {
    double gauss = Math.exp(-x * x) / Math.sqrt(Math.PI);
    if (x < 2) {
      double term = x;
      double sum = x;
      for (int n = 1; n < 100; ++n) {
        term *= 2 * x * x / (2 * n + 1);
        sum += term;
      }
      return 1 - 2 * gauss * sum;
    }
    double fraction = x;
    for (int n = 200; n > 0; --n) {
      fraction = x + n / 2.0 / fraction;
    }
    return gauss / fraction;
  }

  private static double below(double x) {
    double tail = erfcOfPositive(Math.abs(x) / Math.sqrt(2)) / 2;
    return x > 0 ? 1 - tail : tail;
  }

  private static double density(double x) {
    return Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI);
  }

  private static double normalError(double value) {
    return 8 * U * value + 0x1p-148;
  }

  // ---- The functions ----

  @Test
  @DisplayName("guards against additions that mistake strides, broadcasts, types or tails")
  void add() {
    trials(
        1,
        t -> {
          long[] shape = t.shape();
          Operand a = t.in("a", t.input, shape);
          Operand b = t.in("b", t.input, shape);
          Operand y = t.out("y", t.output, t.adds(false), shape);
          t.run((x, o) -> Dxdw.add(x[0], x[1], x[2], o));
          t.check(y, t.adds(false), i -> Bounded.exact(t.value(a, i) + t.value(b, i)));
        });
  }

  @Test
  @DisplayName("guards against rectifiers that pass what they must stop, forwards and backwards")
  void relu() {
    trials(
        2,
        t -> {
          long[] shape = t.shape();
          Operand x = t.in("x", t.input, shape);
          Operand y = t.out("y", t.output, t.adds(false), shape);
          t.run((v, o) -> Dxdw.relu(v[0], v[1], o));
          t.check(y, t.adds(false), i -> Bounded.exact(Math.max(t.value(x, i), 0)));
        });
    trials(
        3,
        t -> {
          long[] shape = t.shape();
          Operand x = t.in("x", t.input, shape);
          Operand g = t.in("g", t.input, shape);
          Operand gx = t.out("gx", t.output, t.adds(false), shape);
          t.run((v, o) -> Dxdw.reluBackward(v[0], v[1], v[2], o));
          t.check(gx, t.adds(false), i -> Bounded.exact(t.value(x, i) > 0 ? t.value(g, i) : 0));
        });
  }

  @Test
  @DisplayName("guards against an inexact erf or a wrong slope")
  void gelu() {
    trials(
        4,
        t -> {
          long[] shape = t.shape();
          Operand x = t.in("x", t.input, shape);
          Operand y = t.out("y", t.output, t.adds(false), shape);
          t.run((v, o) -> Dxdw.gelu(v[0], v[1], o));
          t.check(
              y,
              t.adds(false),
              i -> {
                double a = t.value(x, i);
                return new Bounded(a * below(a), Math.abs(a) * normalError(below(a)));
              });
        });
    trials(
        5,
        t -> {
          long[] shape = t.shape();
          Operand x = t.in("x", t.input, shape);
          Operand g = t.in("g", t.input, shape);
          Operand gx = t.out("gx", t.output, t.adds(false), shape);
          t.run((v, o) -> Dxdw.geluBackward(v[0], v[1], v[2], o));
          t.check(
              gx,
              t.adds(false),
              i -> {
                double a = t.value(x, i);
                double slope = below(a) + a * density(a);
                double error =
                    normalError(below(a))
                        + Math.abs(a) * normalError(density(a))
                        + 2 * U * Math.abs(slope);
                return new Bounded(t.value(g, i) * slope, Math.abs(t.value(g, i)) * error);
              });
        });
  }

  private static long[] rows(Trial t, int least) {
    long[] shape = t.shape();
    long[] rows = Arrays.copyOf(shape, Math.min(shape.length, 3) + 1);
    rows[rows.length - 1] =
        t.random.nextInt(12) == 0 && least == 0
            ? 0
            : t.random.nextInt(1, t.random.nextInt(5) == 0 ? 2500 : 40);
    while (Arrays.stream(rows).reduce(1, (a, b) -> a * b) > 40000) {
      rows = Arrays.copyOfRange(rows, 1, rows.length);
    }
    return rows;
  }

  private static long[] leading(long[] shape) {
    return Arrays.copyOf(shape, shape.length - 1);
  }

  @Test
  @DisplayName("guards against bias gradients that lose, repeat or misplace rows")
  void sumRows() {
    trials(
        6,
        t -> {
          long[] shape = rows(t, 0);
          int n = (int) shape[shape.length - 1];
          Operand g = t.in("g", t.input, shape);
          Operand gb = t.out("gb", DType.FLOAT32, t.adds(true), n);
          t.run((v, o) -> Dxdw.sumRows(v[0], v[1], o));
          t.check(gb, t.adds(true), c -> columnSum(t, g, n, c));
        });
  }

  private static Bounded columnSum(Trial t, Operand g, int n, int column) {
    double sum = 0;
    double magnitude = 0;
    int rows = g.count() / n;
    for (int r = 0; r < rows; ++r) {
      sum += t.value(g, r * n + column);
      magnitude += Math.abs(t.value(g, r * n + column));
    }
    return new Bounded(sum, magnitude * sumBound(rows));
  }

  @Test
  @DisplayName("guards against a weight gradient that its bias gradient changes, or the other way")
  void dwWithBias() {
    trials(
        7,
        t -> {
          int tokens = t.random.nextInt(0, t.random.nextInt(6) == 0 ? 1200 : 60);
          int k = t.random.nextInt(1, 20);
          int n = t.random.nextInt(1, 40);
          int split = t.random.nextInt(0, Math.min(Math.max(tokens, 1), 4) + 1);
          Operand x = t.in("x", t.input, tokens, k);
          Operand dy = t.in("dy", t.input, tokens, n);
          Operand dw = t.out("dw", t.output, t.adds(true), k, n);
          Operand alone = t.out("alone", t.output, t.adds(true), k, n);
          Operand db = t.out("db", DType.FLOAT32, t.adds(true), n);
          for (int i = 0; i < dw.count(); ++i) {
            alone.set(i, (float) t.value(dw, i));
          }
          alone.snapshot();
          t.run(
              (v, o) -> {
                Dxdw.dw(v[0], v[1], v[2], v[4], split, Reduction.DETERMINISTIC, o);
                Dxdw.dw(v[0], v[1], v[3], split, Reduction.DETERMINISTIC, o);
              });
          float[] with = dw.load();
          float[] without = alone.load();
          for (int i = 0; i < with.length; ++i) {
            assertTrue(
                Bits.same(with[i], without[i]), dw.coordinates(i) + " differs from dw alone");
          }
          t.check(db, t.adds(true), c -> columnSum(t, dy, n, c));
        });
  }

  @Test
  @DisplayName(
      "guards against losses and gradients of a softmax that mix up rows, classes or labels")
  void softmaxCrossEntropy() {
    for (boolean backward : new boolean[] {false, true}) {
      trials(
          backward ? 9 : 8,
          t -> {
            long[] shape = rows(t, 1);
            int classes = (int) shape[shape.length - 1];
            Operand l = t.in("logits", t.input, shape);
            Operand labels = t.labels(classes, leading(shape));
            Softmax[] softmax = new Softmax[labels.count()];
            Arrays.setAll(softmax, r -> new Softmax(t, l, classes, r));
            if (!backward) {
              Operand loss = t.out("loss", DType.FLOAT32, t.adds(false), leading(shape));
              t.run((v, o) -> Dxdw.softmaxCrossEntropy(v[0], v[1], v[2], o));
              t.check(
                  loss,
                  t.adds(false),
                  r -> {
                    Softmax s = softmax[r];
                    double apart = s.most - t.value(l, r * classes + (int) t.value(labels, r));
                    return new Bounded(
                        Math.log(s.sum) + apart,
                        1.01 * s.error + U * (apart + Math.log(s.sum)) * 2);
                  });
              return;
            }
            DType type = t.random.nextBoolean() ? t.input : DType.FLOAT32;
            Operand g = t.in("g", type, leading(shape));
            Operand gx = t.out("gx", t.output, t.adds(false), shape);
            t.run((v, o) -> Dxdw.softmaxCrossEntropyBackward(v[0], v[1], v[2], v[3], o));
            t.check(
                gx,
                t.adds(false),
                i -> {
                  int r = i / classes;
                  Softmax s = softmax[r];
                  double p = Math.exp(t.value(l, i) - s.most) / s.sum;
                  double value = p - (i % classes == (int) t.value(labels, r) ? 1 : 0);
                  double error = p * (1.01 * s.error + s.ofExp + 2 * U) + 2 * U * Math.abs(value);
                  return new Bounded(
                      t.value(g, r) * value, Math.abs(t.value(g, r)) * (error + 0x1p-148));
                });
          });
    }
  }

  /** Largest logit of a row, sum of exponentials, and the relative error of that sum in float32. */
  private static final class Softmax {
    double most = Double.NEGATIVE_INFINITY;
    double sum;
    final double ofExp;
    final double error;

    Softmax(Trial t, Operand logits, int classes, int row) {
      double least = Double.POSITIVE_INFINITY;
      for (int c = 0; c < classes; ++c) {
        most = Math.max(most, t.value(logits, row * classes + c));
        least = Math.min(least, t.value(logits, row * classes + c));
      }
      for (int c = 0; c < classes; ++c) {
        sum += Math.exp(t.value(logits, row * classes + c) - most);
      }
      // exp is off by 2 u, and its argument by u of itself.
      ofExp = U * (most - least + 3);
      error = ofExp + sumBound(classes);
    }
  }

  @Test
  @DisplayName("guards against squared errors and gradients that mix up rows or factors")
  void squaredError() {
    for (boolean backward : new boolean[] {false, true}) {
      trials(
          backward ? 11 : 10,
          t -> {
            long[] shape = rows(t, 0);
            int features = (int) shape[shape.length - 1];
            Operand x = t.in("x", t.input, shape);
            Operand target = t.in("target", t.input, shape);
            if (!backward) {
              Operand loss = t.out("loss", DType.FLOAT32, t.adds(false), leading(shape));
              t.run((v, o) -> Dxdw.squaredError(v[0], v[1], v[2], o));
              t.check(
                  loss,
                  t.adds(false),
                  r -> {
                    double sum = 0;
                    for (int i = r * features; i < (r + 1) * features; ++i) {
                      sum += Math.pow(t.value(x, i) - t.value(target, i), 2);
                    }
                    return new Bounded(sum, sum * sumBound(features + 4));
                  });
              return;
            }
            DType type = t.random.nextBoolean() ? t.input : DType.FLOAT32;
            Operand g = t.in("g", type, leading(shape));
            Operand gx = t.out("gx", t.output, t.adds(false), shape);
            t.run((v, o) -> Dxdw.squaredErrorBackward(v[0], v[1], v[2], v[3], o));
            t.check(
                gx,
                t.adds(false),
                i -> {
                  double value =
                      2 * t.value(g, i / features) * (t.value(x, i) - t.value(target, i));
                  return new Bounded(value, 2 * U * Math.abs(value));
                });
          });
    }
  }

  @Test
  @DisplayName(
      "guards against norms that lose elements, and factors that clip too much or too little")
  void norms() {
    trials(
        12,
        t -> {
          Operand x = t.in("x", t.input, t.shape());
          Operand norm = t.out("norm", DType.FLOAT32, t.adds(true), t.number());
          t.run((v, o) -> Dxdw.squaredNorm(v[0], v[1], o));
          double sum = 0;
          for (int i = 0; i < x.count(); ++i) {
            sum += t.value(x, i) * t.value(x, i);
          }
          double total = sum;
          t.check(norm, t.adds(true), i -> new Bounded(total, total * sumBound(x.count() + 2)));
        });
    trials(
        13,
        t -> {
          Operand norm = t.in("norm", DType.FLOAT32, t.number());
          Operand scale = t.out("scale", DType.FLOAT32, false, t.number());
          norm.set(0, Math.abs((float) t.value(norm, 0)));
          norm.snapshot();
          double most = t.random.nextDouble(2);
          t.run(Options.defaults(), (v, o) -> Dxdw.clipFactor(v[0], v[1], most, o));
          double factor = (float) most / Math.sqrt(Math.abs(t.value(norm, 0)));
          t.check(scale, false, i -> new Bounded(Math.min(1, factor), 2 * U * Math.min(1, factor)));
        });
  }

  @Test
  @DisplayName(
      "guards against SGD steps that leave PyTorch's definition or another operand's layout")
  void sgd() {
    trials(
        14,
        t -> {
          long[] shape = t.shape();
          boolean clipped = t.random.nextBoolean();
          boolean nesterov = t.random.nextBoolean();
          boolean moving = nesterov || t.random.nextBoolean();
          double lr = t.random.nextDouble();
          double momentum = moving ? t.random.nextDouble(0.1, 1) : 0;
          double decay = t.random.nextBoolean() ? 0 : t.random.nextDouble();
          Operand g = t.in("g", DType.FLOAT32, shape);
          Operand scale = t.in("scale", DType.FLOAT32, t.number());
          Operand p = t.state("p", DType.FLOAT32, shape);
          DType half = t.random.nextBoolean() ? DType.FLOAT16 : DType.BFLOAT16;
          Operand copy = t.out("copy", half, false, shape);
          Operand velocity = t.state("velocity", DType.FLOAT32, shape);
          t.run(
              Options.defaults(),
              (v, o) ->
                  Dxdw.sgd(
                      v[2],
                      v[0],
                      moving ? v[4] : null,
                      v[3],
                      clipped ? v[1] : null,
                      lr,
                      momentum,
                      decay,
                      nesterov,
                      o));
          IntFunction<Bounded> gradient =
              i -> {
                double scaled = (clipped ? t.value(scale, 0) : 1) * t.value(g, i);
                double decayed = decay * t.value(p, i);
                double error = 3 * U * (Math.abs(scaled) + Math.abs(decayed));
                return new Bounded(scaled + decayed, error);
              };
          IntFunction<Bounded> next =
              i -> {
                Bounded d = gradient.apply(i);
                double kept = momentum * t.value(velocity, i);
                return new Bounded(
                    kept + d.value, d.error + 3 * U * (Math.abs(kept) + Math.abs(d.value)));
              };
          if (moving) {
            t.check(velocity, false, next);
          }
          t.check(
              p,
              false,
              i -> {
                Bounded d = gradient.apply(i);
                Bounded v = moving ? next.apply(i) : d;
                double move = nesterov ? d.value + momentum * v.value : v.value;
                double error =
                    (nesterov ? d.error : 0)
                        + v.error
                        + 4 * U * (Math.abs(d.value) + Math.abs(v.value));
                return new Bounded(
                    t.value(p, i) - lr * move,
                    lr * error + U * (Math.abs(t.value(p, i)) + 2 * lr * Math.abs(move)));
              });
          checkCopy(p, copy);
        });
  }

  private static void checkCopy(Operand p, Operand copy) {
    float[] full = p.load();
    float[] rounded = copy.load();
    for (int i = 0; i < full.length; ++i) {
      assertEquals(Bits.round(copy.type, full[i]), rounded[i], copy.coordinates(i));
    }
  }

  @Test
  @DisplayName(
      "guards against AdamW steps that leave PyTorch's definition or another operand's layout")
  void adamw() {
    trials(
        15,
        t -> {
          long[] shape = t.shape();
          boolean clipped = t.random.nextBoolean();
          double lr = t.random.nextDouble(0.1);
          double beta1 = t.random.nextDouble(0.5, 0.95);
          double beta2 = t.random.nextDouble(0.9, 0.999);
          double eps = 1e-6;
          double decay = t.random.nextBoolean() ? 0 : t.random.nextDouble();
          long step = t.random.nextBoolean() ? t.random.nextInt(1, 5) : t.random.nextInt(1, 100000);
          Operand g = t.in("g", DType.FLOAT32, shape);
          Operand scale = t.in("scale", DType.FLOAT32, t.number());
          Operand p = t.state("p", DType.FLOAT32, shape);
          Operand m = t.state("m", DType.FLOAT32, shape);
          Operand v = t.state("v", DType.FLOAT32, shape);
          DType half = t.random.nextBoolean() ? DType.FLOAT16 : DType.BFLOAT16;
          Operand copy = t.out("copy", half, false, shape);
          t.run(
              Options.defaults(),
              (a, o) ->
                  Dxdw.adamw(
                      a[2],
                      a[0],
                      a[3],
                      a[4],
                      a[5],
                      clipped ? a[1] : null,
                      lr,
                      beta1,
                      beta2,
                      eps,
                      decay,
                      step,
                      o));
          IntFunction<Bounded> mean =
              i -> {
                double kept = beta1 * t.value(m, i);
                double fresh = (1 - beta1) * (clipped ? t.value(scale, 0) : 1) * t.value(g, i);
                return new Bounded(kept + fresh, 4 * U * (Math.abs(kept) + Math.abs(fresh)));
              };
          IntFunction<Bounded> square =
              i -> {
                double d = (clipped ? t.value(scale, 0) : 1) * t.value(g, i);
                double value = beta2 * t.value(v, i) + (1 - beta2) * d * d;
                return new Bounded(value, 6 * U * value);
              };
          t.check(m, false, mean);
          t.check(v, false, square);
          t.check(
              p,
              false,
              i -> {
                double divisor =
                    Math.sqrt(square.apply(i).value / (1 - Math.pow(beta2, step))) + eps;
                double rate = lr / (1 - Math.pow(beta1, step));
                double move = rate * mean.apply(i).value / divisor;
                return new Bounded(
                    t.value(p, i) * (1 - lr * decay) - move,
                    rate * mean.apply(i).error / divisor
                        + 12 * U * Math.abs(move)
                        + 3 * U * Math.abs(t.value(p, i)));
              });
          checkCopy(p, copy);
        });
  }
}
