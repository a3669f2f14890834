package io.github.dxdw.parity;

import io.github.dxdw.Accumulate;
import io.github.dxdw.DType;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Options;
import io.github.dxdw.Plan;
import io.github.dxdw.Precision;
import io.github.dxdw.Reduction;
import io.github.dxdw.Tensor;
import io.github.dxdw.parity.Reference.Matrix;
import io.github.dxdw.parity.Reference.Sums;
import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.SplittableRandom;
import java.util.function.Consumer;
import java.util.random.RandomGenerator;
import org.opentest4j.TestAbortedException;

/**
 * Runs a {@link Case} through the library and compares all that it promises with {@link Reference}.
 */
final class CaseRunner {

  /**
   * Whether the kernels keep the order of sums that is promised for CPUs with fused multiply-add.
   */
  static final boolean FUSED = Kernels.onCpu() && !Dxdw.simdLevel().equals("baseline");

  private CaseRunner() {}

  /** What is wrong with the result, or null. */
  static String failure(Case c) {
    return failure(c, operands -> {});
  }

  /**
   * As {@link #failure(Case)}; {@code damage} sees the operands after the call and may spoil them,
   * to test this class.
   */
  static String failure(Case c, Consumer<Operand[]> damage) {
    try (Arena arena = Arena.ofConfined()) {
      return new Run(c, arena).failure(damage);
    } catch (TestAbortedException skipped) {
      throw skipped;
    } catch (RuntimeException | AssertionError refused) {
      return "refused or failed: " + refused;
    }
  }

  private static void call(Case c, Tensor[] t, Options options) {
    switch (c.function()) {
      case Y -> Kernels.y(t[0], t[1], t[2], options);
      case DX -> Kernels.dx(t[0], t[1], t[2], options);
      case DW -> Kernels.dw(t[0], t[1], t[2], c.split(), c.reduction(), options);
      case DW_REDUCE -> Kernels.dwReduce(t[0], t[1], options);
      case WEIGHTED_SUM -> Kernels.weightedSum(t[0], t[1], t[2], options);
      case WEIGHTED_SUM_BACKWARD ->
          Kernels.weightedSumBackward(t[0], t[1], t[2], t[3], t[4], options);
    }
  }

  private static final class Run {

    private final Case c;
    private final Arena arena;
    private final Operand[] operands;
    private final Tensor[] tensors;
    private final float[][] values;

    /** The caller's own, full of NaN and not a byte too large; null: the library's. */
    private Operand workspace;

    /** What the call runs; null: nothing tells. */
    private Plan plan;

    Run(Case c, Arena arena) {
      this.c = c;
      this.arena = arena;
      int count = c.function().operands.size();
      operands = new Operand[count];
      tensors = new Tensor[count];
      values = new float[count][];
      RandomGenerator random = new SplittableRandom(c.seed());
      for (int i = 0; i < count; i++) {
        if (c.absent(i)) {
          continue;
        }
        Operand operand =
            new Operand(arena, c.function().operands.get(i), c.type(i), c.shape(i), c.layouts()[i]);
        boolean assigned = c.function().output(i) && !c.adds(i);
        int elements = operand.count();
        for (int e = 0; e < elements; e++) {
          float garbage = e % 3 == 2 ? Float.POSITIVE_INFINITY : Float.NaN;
          operand.set(e, assigned ? garbage : c.data().draw(random, c.type(i)));
        }
        operand.snapshot();
        operands[i] = operand;
        tensors[i] = operand.tensor;
        values[i] = operand.load();
      }
    }

    String failure(Consumer<Operand[]> damage) {
      int split = c.split();
      Options options =
          Options.defaults().withAccumulate(c.accumulate()).withPrecision(c.precision());
      plan = plan(options);
      if (c.function() == Case.Function.DW && split == 0) {
        split = plan.split();
        int most = Math.max(c.sizes()[0], 1);
        if (split < 1 || split > most) {
          return "planner: split %d is outside 1 to %d".formatted(split, most);
        }
      }
      if (plan != null && plan.workspaceBytes() > 0 && c.seed() % 2 == 0) {
        long[] shape = {(plan.workspaceBytes() + 3) / 4};
        workspace = new Operand(arena, "workspace", DType.FLOAT32, shape, Layout.dense(1));
        workspace.snapshot();
        options = options.withWorkspace(workspace.tensor);
      }
      boolean free =
          c.function() == Case.Function.DW && c.reduction() == Reduction.ATOMIC && split > 1;
      byte[][] first = null;
      int before = Dxdw.threads();
      try {
        for (int threads : c.threads()) {
          Dxdw.setThreads(threads);
          forOutputs(Operand::restore);
          call(c, tensors, options);
          damage.accept(operands);
          byte[][] bytes = outputBytes();
          if (first != null && !free && !Arrays.deepEquals(first, bytes)) {
            return "bits with %d threads differ from those with %d"
                .formatted(threads, c.threads()[0]);
          }
          boolean known = first != null && !free;
          String wrong = known ? touched() : check(split, free);
          if (wrong != null) {
            return "with %d threads: %s".formatted(threads, wrong);
          }
          first = bytes;
        }
      } finally {
        Dxdw.setThreads(before);
      }
      return null;
    }

    /** What a product or a function that may need a workspace would run; null for the others. */
    private Plan plan(Options options) {
      Tensor[] t = tensors;
      return switch (c.function()) {
        case Y -> Kernels.explainY(t[0], t[1], t[2], options);
        case DX -> Kernels.explainDx(t[0], t[1], t[2], options);
        case DW -> Kernels.explainDw(t[0], t[1], t[2], c.split(), c.reduction(), options);
        case WEIGHTED_SUM_BACKWARD ->
            Kernels.explainWeightedSumBackward(t[0], t[1], t[2], t[3], t[4], options);
        default -> null;
      };
    }

    private void forOutputs(Consumer<Operand> action) {
      for (int i = 0; i < operands.length; i++) {
        if (operands[i] != null && c.function().output(i)) {
          action.accept(operands[i]);
        }
      }
    }

    private byte[][] outputBytes() {
      byte[][] bytes = new byte[operands.length][];
      for (int i = 0; i < operands.length; i++) {
        bytes[i] = operands[i] != null && c.function().output(i) ? operands[i].bytes() : null;
      }
      return bytes;
    }

    /** A byte outside the outputs' elements that changed, or null. */
    private String touched() {
      for (int i = 0; i < operands.length; i++) {
        String touched = operands[i] == null ? null : operands[i].touched(c.function().output(i));
        if (touched != null) {
          return touched;
        }
      }
      return workspace == null ? null : workspace.touched(true);
    }

    private String check(int split, boolean free) {
      String touched = touched();
      if (touched != null) {
        return touched;
      }
      return switch (c.function()) {
        case Y -> product(2, matrix(0), matrix(1), 1, true);
        case DX -> product(2, matrix(0), matrix(1).transposed(), 1, true);
        case DW -> product(2, matrix(0).transposed(), matrix(1), split, !free);
        case DW_REDUCE -> reduction();
        case WEIGHTED_SUM -> bounded(2, rowSums(), 1, quantum(0) * quantum(1));
        case WEIGHTED_SUM_BACKWARD -> backward();
      };
    }

    private Matrix matrix(int operand) {
      int[] s = Arrays.stream(c.shape(operand)).mapToInt(Math::toIntExact).toArray();
      return Matrix.of(values[operand], s[0], s[1]);
    }

    private double quantum(int operand) {
      return ErrorBound.quantum(values[operand]);
    }

    private float[] old(int operand) {
      return c.adds(operand) ? values[operand] : null;
    }

    private String product(int out, Matrix a, Matrix b, int split, boolean ordered) {
      boolean atomic = !ordered && c.output() == DType.FLOAT32;
      String wrong = bounded(out, Reference.product(a, b), split, quantum(0) * quantum(1), atomic);
      if (wrong != null || !ordered) {
        return wrong;
      }
      if (FUSED && (c.input() != DType.BFLOAT16 || c.precision() == Precision.EXACT)) {
        return exact(
            out,
            c.function() == Case.Function.DW
                ? Reference.orderedDw(a.transposed(), b, split, old(out))
                : Reference.orderedProduct(a, b, old(out)));
      }
      return c.function() == Case.Function.DW && split > 1
          ? slices(out, a.transposed(), split)
          : null;
    }

    /**
     * Deterministic dW must equal dw_reduce over the partials that split = 1 assigns for each slice
     * of T alone.
     */
    private String slices(int out, Matrix x, int split) {
      long tokens = x.rows();
      long[] shape = c.shape(out);
      Tensor partials = Tensor.allocate(arena, DType.FLOAT32, split, shape[0], shape[1]);
      long chunk = (tokens + split - 1) / split;
      for (int s = 0; s < split; s++) {
        long from = Math.min(s * chunk, tokens);
        long to = Math.min((s + 1) * chunk, tokens);
        Kernels.dw(
            tensors[0].slice(0, from, to),
            tensors[1].slice(0, from, to),
            partials.select(0, s),
            1,
            Reduction.DETERMINISTIC,
            Options.defaults().withAccumulate(Accumulate.ASSIGN).withPrecision(c.precision()));
      }
      int count = operands[out].count();
      return exact(out, Reference.orderedReduce(Reference.load(partials), split, count, old(out)));
    }

    private String reduction() {
      int split = c.sizes()[0];
      int count = operands[1].count();
      String wrong = bounded(1, Reference.reduce(values[0], split, count), 1, quantum(0));
      return wrong != null
          ? wrong
          : exact(1, Reference.orderedReduce(values[0], split, count, old(1)));
    }

    private Sums rowSums() {
      int features = c.sizes()[c.sizes().length - 1];
      return Reference.product(
          Matrix.of(values[0], c.rows(), features), Matrix.of(values[1], features, 1));
    }

    private String backward() {
      String wrong = null;
      int rows = c.rows();
      int features = c.sizes()[c.sizes().length - 1];
      if (!c.absent(3)) {
        wrong = bounded(3, Reference.outer(values[2], values[1]), 1, quantum(1) * quantum(2));
        if (wrong == null && !c.adds(3)) {
          wrong = exact(3, Reference.orderedOuter(values[2], values[1]));
        }
      }
      if (wrong == null && !c.absent(4)) {
        Sums sums =
            Reference.product(
                Matrix.of(values[0], rows, features).transposed(), Matrix.of(values[2], rows, 1));
        wrong = bounded(4, sums, 1, quantum(0) * quantum(2));
      }
      return wrong;
    }

    private String bounded(int out, Sums sums, int split, double quantum) {
      return bounded(out, sums, split, quantum, false);
    }

    private String bounded(int out, Sums sums, int split, double quantum, boolean atomic) {
      float[] got = operands[out].load();
      float[] old = old(out);
      if (old != null) {
        sums.plus(old);
        quantum = Math.min(quantum, ErrorBound.quantum(old));
      }
      boolean product = plan != null && c.function() != Case.Function.WEIGHTED_SUM_BACKWARD;
      ErrorBound bound =
          ErrorBound.of(
              c.input(),
              c.output(),
              c.precision(),
              sums.length(),
              split,
              atomic,
              product ? plan.kernel() : "",
              product
                  ? Math.min(ErrorBound.smallest(values[0]), ErrorBound.smallest(values[1]))
                  : Float.MAX_VALUE);
      for (int i = 0; i < got.length; i++) {
        double error = bound.error(sums.magnitude()[i], sums.flushed()[i], quantum);
        if (!bound.admits(got[i], sums.value()[i], sums.magnitude()[i], error)) {
          return "%s is %s, float64 reference %s (sum of magnitudes %s), allowed error %s: %s"
              .formatted(
                  operands[out].coordinates(i),
                  Bits.show(got[i]),
                  sums.value()[i],
                  sums.magnitude()[i],
                  error,
                  bound);
        }
      }
      return null;
    }

    private String exact(int out, float[] expected) {
      float[] got = operands[out].load();
      for (int i = 0; i < got.length; i++) {
        float rounded = Bits.round(c.output(), expected[i]);
        if (!Bits.same(got[i], rounded)) {
          return "%s is %s, in the promised order %s"
              .formatted(operands[out].coordinates(i), Bits.show(got[i]), Bits.show(rounded));
        }
      }
      return null;
    }
  }
}
