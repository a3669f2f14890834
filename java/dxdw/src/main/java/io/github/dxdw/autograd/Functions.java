package io.github.dxdw.autograd;

import io.github.dxdw.DType;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Options;
import io.github.dxdw.Reduction;
import io.github.dxdw.Tensor;
import io.github.dxdw.internal.Arguments;
import java.util.Arrays;

/**
 * The functions that come with the library. All may be shared by any number of tapes and threads,
 * run on the CPU and on GPUs, and take inputs and incoming gradients of any strides. Outputs are of
 * the type of the first input, losses float32.
 *
 * <table>
 * <caption>Functions; an input in brackets may be left out</caption>
 * <tr><th>function</th><th>inputs</th><th>output</th><th>backward, g = gradient of the output</th>
 * </tr>
 * <tr><td>{@link #LINEAR}</td><td>x [..., K], w [K, N], [b [N]]</td><td>y = x &middot; w + b [...,
 * N]</td><td>gx = g &middot; w<sup>T</sup>; gw += x<sup>T</sup> &middot; g, gb += sum over t of g[t]
 * in one pass</td></tr>
 * <tr><td>{@link #WEIGHTED_SUM}</td><td>x [..., D], w [D]</td><td>y[i] = sum over d of x[i, d]
 * &middot; w[d]</td><td>gx[i, d] = g[i] &middot; w[d]; gw[d] += sum over i of x[i, d] &middot; g[i]
 * </td></tr>
 * <tr><td>{@link #RELU}</td><td>x</td><td>y = max(x, 0)</td><td>gx = g where x &gt; 0, else 0</td>
 * </tr>
 * <tr><td>{@link #GELU}</td><td>x</td><td>y = x &middot; &Phi;(x)</td><td>gx = g &middot;
 * (&Phi;(x) + x &middot; &phi;(x))</td></tr>
 * <tr><td>{@link #ADD}</td><td>a, b of a's shape or [N] of its rows</td><td>y = a + b</td><td>ga =
 * g; gb = g, or += sum over rows of g</td></tr>
 * <tr><td>{@link #MEAN}</td><td>x [n]</td><td>y = sum of x / n, a scalar</td><td>gx[i] = g / n</td>
 * </tr>
 * <tr><td>{@link #SOFTMAX_CROSS_ENTROPY}</td><td>logits [T, C], labels [T] int32</td><td>loss[t] =
 * -log softmax(logits[t])[labels[t]], float32</td><td>gx[t] = g[t] &middot; (softmax(logits[t]) -
 * onehot(labels[t]))</td></tr>
 * <tr><td>{@link #SQUARED_ERROR}</td><td>x [..., D], target [..., D]</td><td>loss[i] = sum over d of
 * (x[i, d] - target[i, d])<sup>2</sup>, float32</td><td>gx = 2 &middot; g[i] &middot; (x - target),
 * and its negative for the target</td></tr>
 * </table>
 *
 * <p>Losses come row by row. Their mean is differentiated by {@link #MEAN}, or by an incoming
 * gradient of 1 / T for each row, one number {@linkplain Tensor#expand expanded}: mean-squared
 * error is {@link #SQUARED_ERROR} with 1 / (T &middot; D). Numbers of inputs, types and shapes that
 * do not fit are {@link IllegalArgumentException}s that name the argument.
 */
public final class Functions {
  /**
   * y = x &middot; w, or x &middot; w + b with a third input, for x of any rank from 1 on: its
   * leading dimensions are tokens. b may be float32 where x and w are not; it is rounded to y's
   * type before it is added.
   */
  public static final Function LINEAR = linear(0, Reduction.DETERMINISTIC, null);

  /** y[i] = sum over d of x[i, d] &middot; w[d], for x of any rank from 1 on. */
  public static final Function WEIGHTED_SUM = new WeightedSum();

  /** y = max(x, 0). */
  public static final Function RELU = new Relu();

  /** y = x &middot; &Phi;(x), the exact form. */
  public static final Function GELU = new Gelu();

  /** y = a + b, where b may be a vector that is added to each row of a. */
  public static final Function ADD = new Add();

  /**
   * The mean of a vector; of an empty one 0. 1 / n is rounded to the vector's type: for losses,
   * which are float32. A float16 vector must have fewer than 2<sup>25</sup> elements.
   */
  public static final Function MEAN = new Mean();

  /** The cross-entropy of each row of logits with its label. */
  public static final Function SOFTMAX_CROSS_ENTROPY = new SoftmaxCrossEntropy();

  /** The squared distance of each row from its target. */
  public static final Function SQUARED_ERROR = new SquaredError();

  private Functions() {}

  /**
   * As {@link #LINEAR}, with a say in how the gradient of w is formed and what type y has.
   *
   * @param split slices of T in the gradient of w, at most T of them; 0 lets the library choose
   * @param reduction how slices are added up
   * @param output type of y: that of x, or float32; null = that of x
   * @return the function
   * @throws IllegalArgumentException if split is negative or reduction null
   */
  public static Function linear(int split, Reduction reduction, DType output) {
    Arguments.present(reduction, "reduction");
    if (split < 0) {
      throw new IllegalArgumentException("split: " + split + " is negative");
    }
    return new Linear(split, reduction, output);
  }

  /** Refuses another number of inputs than a function has. */
  private static void takes(Context context, String inputs, int least, int most) {
    int given = context.inputCount();
    if (given < least || given > most) {
      throw new IllegalArgumentException("inputs: given are " + given + ", expected " + inputs);
    }
  }

  private static Tensor ranked(Tensor tensor, int rank, String name) {
    if (tensor.rank() != rank) {
      throw new IllegalArgumentException(
          name + ": " + Arrays.toString(tensor.shape()) + " has not rank " + rank);
    }
    return tensor;
  }

  /** The output for one number of each row. */
  private static Tensor rowsOutput(Context context, Tensor x, DType type) {
    return switch (x.rank()) {
      case 0 -> throw new IllegalArgumentException("x: a scalar has no rows");
      case 1 -> context.output(type);
      case 2 -> context.output(type, x.size(0));
      default -> context.output(type, Arrays.copyOf(x.shape(), x.rank() - 1));
    };
  }

  private record Linear(int split, Reduction reduction, DType output) implements Function {
    @Override
    public Tensor forward(Context context) {
      takes(context, "x, w, [b]", 2, 3);
      Tensor x = context.input(0);
      Tensor w = ranked(context.input(1), 2, "w");
      Tensor y = output(context, x, w.size(1));
      Options options = context.options();
      if (context.inputCount() == 3) {
        Tensor b = ranked(context.input(2), 1, "b");
        context.copy(context.expanded(b, y, y.rank() - 1), y);
        options = context.addingOptions();
      }
      Dxdw.y(context.rows(x), w, context.rows(y), options);
      context.save(context.wants(1) ? x : null, context.wants(0) ? w : null);
      return y;
    }

    private Tensor output(Context context, Tensor x, long columns) {
      DType type = output == null ? x.dtype() : output;
      if (x.rank() == 2) {
        return context.output(type, x.size(0), columns);
      }
      if (x.rank() == 0) {
        throw new IllegalArgumentException("x: a scalar has no rows");
      }
      long[] shape = x.shape();
      shape[shape.length - 1] = columns;
      return context.output(type, shape);
    }

    @Override
    public void backward(Context context, Tensor gradient) {
      Tensor x = context.saved(0);
      Tensor w = context.saved(1);
      DType operands = x != null ? x.dtype() : w != null ? w.dtype() : gradient.dtype();
      Tensor dy = context.rows(context.as(operands, gradient));
      if (w != null) {
        inputGradient(context, dy, w);
      }
      boolean bias = context.inputCount() == 3 && context.wants(2);
      if (x != null) {
        Tensor rows = context.rows(x);
        int slices = (int) Math.min(split, Math.max(rows.size(0), 1));
        Tensor dw = context.gradient(1);
        if (bias
            && context.adds(1) == context.adds(2)
            && context.gradient(2).dtype() == DType.FLOAT32) {
          Dxdw.dw(rows, dy, dw, context.gradient(2), slices, reduction, context.options(1));
          return;
        }
        Dxdw.dw(rows, dy, dw, slices, reduction, context.options(1));
      }
      if (bias) {
        context.sumRows(dy, 2);
      }
    }

    private static void inputGradient(Context context, Tensor dy, Tensor w) {
      Tensor dx = context.gradient(0);
      if (Context.hasRows(dx)) {
        Dxdw.dx(dy, w, context.rows(dx), context.options(0));
        return;
      }
      Tensor apart = context.temporary(dx.dtype(), dy.size(0), w.size(0));
      Dxdw.dx(dy, w, apart, context.assigningOptions());
      context.contribute(apart.reshape(dx.shape()), 0);
    }

    @Override
    public String name() {
      return "linear";
    }
  }

  private static final class WeightedSum implements Function {
    @Override
    public Tensor forward(Context context) {
      takes(context, "x, w", 2, 2);
      Tensor x = context.input(0);
      Tensor w = context.input(1);
      Tensor y = rowsOutput(context, x, x.dtype());
      Dxdw.weightedSum(x, w, y, context.options());
      context.save(w, context.wants(1) ? x : null);
      return y;
    }

    @Override
    public void backward(Context context, Tensor gradient) {
      Tensor w = context.saved(0);
      // Where the gradient of w is not wanted, x is looked at for its shape alone.
      Tensor x =
          context.wants(1) ? context.saved(1) : context.expanded(w, gradient, gradient.rank());
      if (context.wants(0) && context.wants(1) && context.adds(0) != context.adds(1)) {
        Dxdw.weightedSumBackward(x, w, gradient, context.gradient(0), null, context.options(0));
        Dxdw.weightedSumBackward(x, w, gradient, null, context.gradient(1), context.options(1));
        return;
      }
      Dxdw.weightedSumBackward(
          x, w, gradient, context.gradient(0), context.gradient(1), context.options());
    }

    @Override
    public String name() {
      return "weighted sum";
    }
  }

  private static final class Relu implements Function {
    @Override
    public Tensor forward(Context context) {
      takes(context, "x", 1, 1);
      Tensor y = context.outputLike(context.input(0));
      Dxdw.relu(context.input(0), y, context.options());
      context.save(y);
      return y;
    }

    @Override
    public void backward(Context context, Tensor gradient) {
      Dxdw.reluBackward(context.saved(0), gradient, context.gradient(0), context.options());
    }

    @Override
    public String name() {
      return "relu";
    }
  }

  private static final class Gelu implements Function {
    @Override
    public Tensor forward(Context context) {
      takes(context, "x", 1, 1);
      Tensor x = context.input(0);
      Tensor y = context.outputLike(x);
      Dxdw.gelu(x, y, context.options());
      context.save(x);
      return y;
    }

    @Override
    public void backward(Context context, Tensor gradient) {
      Dxdw.geluBackward(context.saved(0), gradient, context.gradient(0), context.options());
    }

    @Override
    public String name() {
      return "gelu";
    }
  }

  private static final class Add implements Function {
    @Override
    public Tensor forward(Context context) {
      takes(context, "a, b", 2, 2);
      Tensor a = context.input(0);
      Tensor b = context.input(1);
      Tensor y = context.outputLike(a);
      boolean rows = b.rank() == 1 && a.rank() > 1;
      Dxdw.add(a, rows ? context.expanded(b, a, a.rank() - 1) : b, y, context.options());
      return y;
    }

    @Override
    public void backward(Context context, Tensor gradient) {
      for (int i = 0; i < 2; ++i) {
        Tensor destination = context.gradient(i);
        if (destination == null) {
          continue;
        }
        if (destination.rank() < gradient.rank()) {
          context.sumRows(gradient, i);
        } else {
          context.contribute(gradient, i);
        }
      }
    }

    @Override
    public String name() {
      return "add";
    }
  }

  private static final class Mean implements Function {
    /** From so many elements on, 1 / n is nearer to 0 than to any other float16. */
    private static final long FLOAT16_LIMIT = 1 << 25;

    @Override
    public Tensor forward(Context context) {
      takes(context, "x", 1, 1);
      Tensor x = ranked(context.input(0), 1, "x");
      if (x.dtype() == DType.FLOAT16 && x.size(0) >= FLOAT16_LIMIT) {
        throw new IllegalArgumentException(
            "x: 1 / " + x.size(0) + " is 0 in float16, expected fewer than " + FLOAT16_LIMIT);
      }
      Tensor y = context.output(x.dtype());
      Tensor shares = context.repeated(x.dtype(), 1f / x.size(0), x.size(0));
      Dxdw.weightedSum(x, shares, y, context.options());
      context.save(shares);
      return y;
    }

    @Override
    public void backward(Context context, Tensor gradient) {
      Tensor shares = context.saved(0);
      Dxdw.weightedSumBackward(
          shares, shares, gradient, context.gradient(0), null, context.options());
    }

    @Override
    public String name() {
      return "mean";
    }
  }

  private static final class SoftmaxCrossEntropy implements Function {
    @Override
    public Tensor forward(Context context) {
      takes(context, "logits, labels", 2, 2);
      Tensor logits = context.input(0);
      Tensor labels = context.input(1);
      Tensor loss = rowsOutput(context, logits, DType.FLOAT32);
      Dxdw.softmaxCrossEntropy(logits, labels, loss, context.options());
      context.save(logits, labels);
      return loss;
    }

    @Override
    public void backward(Context context, Tensor gradient) {
      Dxdw.softmaxCrossEntropyBackward(
          context.saved(0), context.saved(1), gradient, context.gradient(0), context.options(0));
    }

    @Override
    public String name() {
      return "softmax cross-entropy";
    }
  }

  private static final class SquaredError implements Function {
    @Override
    public Tensor forward(Context context) {
      takes(context, "x, target", 2, 2);
      Tensor x = context.input(0);
      Tensor target = context.input(1);
      Tensor loss = rowsOutput(context, x, DType.FLOAT32);
      Dxdw.squaredError(x, target, loss, context.options());
      context.save(x, target);
      return loss;
    }

    @Override
    public void backward(Context context, Tensor gradient) {
      // The two play the same part.
      for (int i = 0; i < 2; ++i) {
        if (context.wants(i)) {
          Dxdw.squaredErrorBackward(
              context.saved(i),
              context.saved(1 - i),
              gradient,
              context.gradient(i),
              context.options(i));
        }
      }
    }

    @Override
    public String name() {
      return "squared error";
    }
  }
}
