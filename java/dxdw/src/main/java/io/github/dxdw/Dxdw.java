package io.github.dxdw;

import io.github.dxdw.internal.Arguments;
import io.github.dxdw.internal.Frame;
import io.github.dxdw.internal.Library;
import io.github.dxdw.internal.OwnedArena;
import io.github.dxdw.internal.View;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.Optional;

/**
 * The kernels. T = tokens, K = inputs, N = outputs, D = features.
 *
 * <table>
 * <caption>Functions</caption>
 * <tr><th>method</th><th>formula</th><th>shapes</th></tr>
 * <tr><td>{@link #y y}</td><td>Y = X &middot; W</td><td>X [T, K], W [K, N], Y [T, N]</td></tr>
 * <tr><td>{@link #dx dx}</td><td>dX = dY &middot; W<sup>T</sup></td>
 * <td>dY [T, N], W [K, N], dX [T, K]</td></tr>
 * <tr><td>{@link #dw dw}</td><td>dW += X<sup>T</sup> &middot; dY</td>
 * <td>X [T, K], dY [T, N], dW [K, N]</td></tr>
 * <tr><td>{@link #dwReduce dwReduce}</td><td>dW += sum over s of partials[s]</td>
 * <td>partials [split, K, N], dW [K, N]</td></tr>
 * <tr><td>{@link #weightedSum weightedSum}</td><td>y[i] = sum over d of x[i, d] &middot; w[d]</td>
 * <td>x [..., D], w [D], y [...]</td></tr>
 * <tr><td>{@link #weightedSumBackward weightedSumBackward}</td>
 * <td>gx[i, d] = g[i] &middot; w[d]; gw[d] += sum over i of x[i, d] &middot; g[i]</td>
 * <td>x, gx [..., D], w, gw [D], g [...]</td></tr>
 * </table>
 *
 * <p>And what stands around a product when a network is trained: {@link #add add}, {@link #relu
 * relu}, {@link #gelu gelu} and their backwards, {@link #sumRows sumRows}, {@link #dw(Tensor,
 * Tensor, Tensor, Tensor) dw with a bias}, {@link #softmaxCrossEntropy softmaxCrossEntropy} and
 * {@link #squaredError squaredError} with their backwards, {@link #squaredNorm squaredNorm}, {@link
 * #clipFactor clipFactor}, {@link #sgd sgd} and {@link #adamw adamw}.
 *
 * <p>Inputs of a call have one type; the output has that type or float32. Inputs take any strides,
 * 0 and negative ones included; outputs take any under which no two elements share memory. An
 * output must not share an element with another operand or the workspace. All operands lie on one
 * device. Gradients of weights and biases, and norms, are added to what the output holds,
 * everything else is assigned; {@link Options#withAccumulate} changes that, except for optimizer
 * steps and clip factors. Empty sizes are legal: a contraction of length 0 assigns zeros or adds
 * nothing.
 *
 * <p>All checks come before the first write: after an {@link IllegalArgumentException}, {@link
 * IllegalStateException} or {@link WrongThreadException} the outputs are as they were. Any number
 * of threads may call at once; calls that write the same output must be ordered by the caller. A
 * call on the CPU is complete on return, and so is one on a GPU unless its options name a stream.
 *
 * <p>Every method that computes throws {@link LibraryLoadException} if the native library can't be
 * loaded; {@link #isAvailable()} tells beforehand.
 */
public final class Dxdw {
  private Dxdw() {}

  // ---- y ----

  /**
   * Y = X &middot; W: {@code y[t, n] = sum over k of x[t, k] * w[k, n]}.
   *
   * @param x inputs X [T, K]
   * @param w weights W [K, N]
   * @param y outputs Y [T, N], written
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void y(Tensor x, Tensor w, Tensor y) {
    y(x, w, y, Options.defaults());
  }

  /**
   * Y = X &middot; W: {@code y[t, n] = sum over k of x[t, k] * w[k, n]}.
   *
   * @param x inputs X [T, K]
   * @param w weights W [K, N]
   * @param y outputs Y [T, N], written
   * @param options how to do it
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void y(Tensor x, Tensor w, Tensor y, Options options) {
    if (Interruptible.wanted(options)) {
      Interruptible.y(x, w, y, options);
      return;
    }
    frameY(x, w, y, options).run(Frame.Y, 1, 1);
  }

  /**
   * Says what {@link #y} with the same arguments would run, after the same checks, without running
   * it. Contents of memory play no part.
   *
   * @param x inputs X [T, K]
   * @param w weights W [K, N]
   * @param y outputs Y [T, N], written
   * @return what would run
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if planning fails behind these checks
   */
  public static Plan explainY(Tensor x, Tensor w, Tensor y) {
    return explainY(x, w, y, Options.defaults());
  }

  /**
   * Says what {@link #y} with the same arguments would run, after the same checks, without running
   * it. Contents of memory play no part.
   *
   * @param x inputs X [T, K]
   * @param w weights W [K, N]
   * @param y outputs Y [T, N], written
   * @param options how to do it
   * @return what would run
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if planning fails behind these checks
   */
  public static Plan explainY(Tensor x, Tensor w, Tensor y, Options options) {
    return frameY(x, w, y, options).explain(Frame.Y, 1, 1);
  }

  // ---- dx ----

  /**
   * dX = dY &middot; W<sup>T</sup>: {@code dx[t, k] = sum over n of dy[t, n] * w[k, n]}.
   *
   * @param dy gradient dY [T, N]
   * @param w weights W [K, N]
   * @param dx gradient dX [T, K], written
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void dx(Tensor dy, Tensor w, Tensor dx) {
    dx(dy, w, dx, Options.defaults());
  }

  /**
   * dX = dY &middot; W<sup>T</sup>: {@code dx[t, k] = sum over n of dy[t, n] * w[k, n]}.
   *
   * @param dy gradient dY [T, N]
   * @param w weights W [K, N]
   * @param dx gradient dX [T, K], written
   * @param options how to do it
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void dx(Tensor dy, Tensor w, Tensor dx, Options options) {
    if (Interruptible.wanted(options)) {
      Interruptible.dx(dy, w, dx, options);
      return;
    }
    frameDx(dy, w, dx, options).run(Frame.DX, 1, 1);
  }

  /**
   * Says what {@link #dx} with the same arguments would run, after the same checks, without running
   * it. Contents of memory play no part.
   *
   * @param dy gradient dY [T, N]
   * @param w weights W [K, N]
   * @param dx gradient dX [T, K], written
   * @return what would run
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if planning fails behind these checks
   */
  public static Plan explainDx(Tensor dy, Tensor w, Tensor dx) {
    return explainDx(dy, w, dx, Options.defaults());
  }

  /**
   * Says what {@link #dx} with the same arguments would run, after the same checks, without running
   * it. Contents of memory play no part.
   *
   * @param dy gradient dY [T, N]
   * @param w weights W [K, N]
   * @param dx gradient dX [T, K], written
   * @param options how to do it
   * @return what would run
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if planning fails behind these checks
   */
  public static Plan explainDx(Tensor dy, Tensor w, Tensor dx, Options options) {
    return frameDx(dy, w, dx, options).explain(Frame.DX, 1, 1);
  }

  // ---- dw ----

  /**
   * dW += X<sup>T</sup> &middot; dY: {@code dw[k, n] += sum over t of x[t, k] * dy[t, n]}. The
   * library chooses the slices, and adds them up deterministically.
   *
   * @param x inputs X [T, K]
   * @param dy gradient dY [T, N]
   * @param dw gradient dW [K, N], added to
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void dw(Tensor x, Tensor dy, Tensor dw) {
    dw(x, dy, dw, 0, Reduction.DETERMINISTIC, Options.defaults());
  }

  /**
   * dW += X<sup>T</sup> &middot; dY: {@code dw[k, n] += sum over t of x[t, k] * dy[t, n]}.
   *
   * <p>With {@link Reduction#DETERMINISTIC} the result equals, to the bit, {@link #dwReduce} over
   * the partials that split = 1 assigns for each slice alone.
   *
   * @param x inputs X [T, K]
   * @param dy gradient dY [T, N]
   * @param dw gradient dW [K, N], added to
   * @param split slices of T: 0 to max(T, 1). Slice s covers the tokens from s * ceil(T / split)
   *     on; 0 lets the library choose, from shapes, types and device alone
   * @param reduction how slices are added up
   * @param options how to do it
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void dw(
      Tensor x, Tensor dy, Tensor dw, int split, Reduction reduction, Options options) {
    if (Interruptible.wanted(options)) {
      Interruptible.dw(x, dy, dw, split, reduction, options);
      return;
    }
    Arguments.present(reduction, "reduction");
    frameDw(x, dy, dw, options).run(Frame.DW, split, deterministic(reduction));
  }

  /**
   * Says what {@link #dw} with the same arguments would run, after the same checks, without running
   * it. Contents of memory play no part.
   *
   * @param x inputs X [T, K]
   * @param dy gradient dY [T, N]
   * @param dw gradient dW [K, N], added to
   * @return what would run
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if planning fails behind these checks
   */
  public static Plan explainDw(Tensor x, Tensor dy, Tensor dw) {
    return explainDw(x, dy, dw, 0, Reduction.DETERMINISTIC, Options.defaults());
  }

  /**
   * Says what {@link #dw} with the same arguments would run, after the same checks, without running
   * it. Contents of memory play no part.
   *
   * @param x inputs X [T, K]
   * @param dy gradient dY [T, N]
   * @param dw gradient dW [K, N], added to
   * @param split slices of T: 0 to max(T, 1). Slice s covers the tokens from s * ceil(T / split)
   *     on; 0 lets the library choose, from shapes, types and device alone
   * @param reduction how slices are added up
   * @param options how to do it
   * @return what would run
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if planning fails behind these checks
   */
  public static Plan explainDw(
      Tensor x, Tensor dy, Tensor dw, int split, Reduction reduction, Options options) {
    Arguments.present(reduction, "reduction");
    return frameDw(x, dy, dw, options).explain(Frame.DW, split, deterministic(reduction));
  }

  // ---- dwReduce ----

  /**
   * dW += sum over s of partials[s], in the order s = 0, 1, 2, ..., in float32.
   *
   * @param partials partial sums [split, K, N], float32
   * @param dw gradient dW [K, N], float32, added to
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void dwReduce(Tensor partials, Tensor dw) {
    dwReduce(partials, dw, Options.defaults());
  }

  /**
   * dW += sum over s of partials[s], in the order s = 0, 1, 2, ..., in float32.
   *
   * @param partials partial sums [split, K, N], float32
   * @param dw gradient dW [K, N], float32, added to
   * @param options how to do it
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void dwReduce(Tensor partials, Tensor dw, Options options) {
    if (Interruptible.wanted(options)) {
      Interruptible.dwReduce(partials, dw, options);
      return;
    }
    frameDwReduce(partials, dw, options).run(Frame.DW_REDUCE, 1, 1);
  }

  /**
   * Says what {@link #dwReduce} with the same arguments would run, after the same checks, without
   * running it. Contents of memory play no part.
   *
   * @param partials partial sums [split, K, N], float32
   * @param dw gradient dW [K, N], float32, added to
   * @return what would run
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if planning fails behind these checks
   */
  public static Plan explainDwReduce(Tensor partials, Tensor dw) {
    return explainDwReduce(partials, dw, Options.defaults());
  }

  /**
   * Says what {@link #dwReduce} with the same arguments would run, after the same checks, without
   * running it. Contents of memory play no part.
   *
   * @param partials partial sums [split, K, N], float32
   * @param dw gradient dW [K, N], float32, added to
   * @param options how to do it
   * @return what would run
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if planning fails behind these checks
   */
  public static Plan explainDwReduce(Tensor partials, Tensor dw, Options options) {
    return frameDwReduce(partials, dw, options).explain(Frame.DW_REDUCE, 1, 1);
  }

  // ---- weightedSum ----

  /**
   * y[i] = sum over d of x[i, d] &middot; w[d].
   *
   * @param x features x [..., D] of rank 1 to 32
   * @param w weights w [D]
   * @param y sums y [...], of the leading dimensions of x, written
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void weightedSum(Tensor x, Tensor w, Tensor y) {
    weightedSum(x, w, y, Options.defaults());
  }

  /**
   * y[i] = sum over d of x[i, d] &middot; w[d].
   *
   * @param x features x [..., D] of rank 1 to 32
   * @param w weights w [D]
   * @param y sums y [...], of the leading dimensions of x, written
   * @param options how to do it
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void weightedSum(Tensor x, Tensor w, Tensor y, Options options) {
    if (Interruptible.wanted(options)) {
      Interruptible.weightedSum(x, w, y, options);
      return;
    }
    frameWeightedSum(x, w, y, options).run(Frame.WEIGHTED_SUM, 1, 1);
  }

  /**
   * Says what {@link #weightedSum} with the same arguments would run, after the same checks,
   * without running it. Contents of memory play no part.
   *
   * @param x features x [..., D] of rank 1 to 32
   * @param w weights w [D]
   * @param y sums y [...], of the leading dimensions of x, written
   * @return what would run
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if planning fails behind these checks
   */
  public static Plan explainWeightedSum(Tensor x, Tensor w, Tensor y) {
    return explainWeightedSum(x, w, y, Options.defaults());
  }

  /**
   * Says what {@link #weightedSum} with the same arguments would run, after the same checks,
   * without running it. Contents of memory play no part.
   *
   * @param x features x [..., D] of rank 1 to 32
   * @param w weights w [D]
   * @param y sums y [...], of the leading dimensions of x, written
   * @param options how to do it
   * @return what would run
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if planning fails behind these checks
   */
  public static Plan explainWeightedSum(Tensor x, Tensor w, Tensor y, Options options) {
    return frameWeightedSum(x, w, y, options).explain(Frame.WEIGHTED_SUM, 1, 1);
  }

  // ---- weightedSumBackward ----

  /**
   * gx[i, d] = g[i] &middot; w[d] and gw[d] += sum over i of x[i, d] &middot; g[i].
   *
   * @param x features x [..., D] of rank 1 to 32
   * @param w weights w [D]
   * @param g gradient of y, of the leading dimensions of x
   * @param gx gradient of x, written; null = not wanted, costs nothing
   * @param gw gradient of w [D], added to; null = not wanted, costs nothing
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void weightedSumBackward(Tensor x, Tensor w, Tensor g, Tensor gx, Tensor gw) {
    weightedSumBackward(x, w, g, gx, gw, Options.defaults());
  }

  /**
   * gx[i, d] = g[i] &middot; w[d] and gw[d] += sum over i of x[i, d] &middot; g[i].
   *
   * @param x features x [..., D] of rank 1 to 32
   * @param w weights w [D]
   * @param g gradient of y, of the leading dimensions of x
   * @param gx gradient of x, written; null = not wanted, costs nothing
   * @param gw gradient of w [D], added to; null = not wanted, costs nothing
   * @param options how to do it
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void weightedSumBackward(
      Tensor x, Tensor w, Tensor g, Tensor gx, Tensor gw, Options options) {
    if (Interruptible.wanted(options)) {
      Interruptible.weightedSumBackward(x, w, g, gx, gw, options);
      return;
    }
    frameWeightedSumBackward(x, w, g, gx, gw, options).run(Frame.WEIGHTED_SUM_BACKWARD, 1, 1);
  }

  /**
   * Says what {@link #weightedSumBackward} with the same arguments would run, after the same
   * checks, without running it. Contents of memory play no part.
   *
   * @param x features x [..., D] of rank 1 to 32
   * @param w weights w [D]
   * @param g gradient of y, of the leading dimensions of x
   * @param gx gradient of x, written; null = not wanted, costs nothing
   * @param gw gradient of w [D], added to; null = not wanted, costs nothing
   * @return what would run
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if planning fails behind these checks
   */
  public static Plan explainWeightedSumBackward(
      Tensor x, Tensor w, Tensor g, Tensor gx, Tensor gw) {
    return explainWeightedSumBackward(x, w, g, gx, gw, Options.defaults());
  }

  /**
   * Says what {@link #weightedSumBackward} with the same arguments would run, after the same
   * checks, without running it. Contents of memory play no part.
   *
   * @param x features x [..., D] of rank 1 to 32
   * @param w weights w [D]
   * @param g gradient of y, of the leading dimensions of x
   * @param gx gradient of x, written; null = not wanted, costs nothing
   * @param gw gradient of w [D], added to; null = not wanted, costs nothing
   * @param options how to do it
   * @return what would run
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if planning fails behind these checks
   */
  public static Plan explainWeightedSumBackward(
      Tensor x, Tensor w, Tensor g, Tensor gx, Tensor gw, Options options) {
    return frameWeightedSumBackward(x, w, g, gx, gw, options)
        .explain(Frame.WEIGHTED_SUM_BACKWARD, 1, 1);
  }

  // ---- add ----

  /**
   * y = a + b, element by element. A bias [N] is added to rows [T, N] as {@code bias.expand(T, N)}.
   *
   * @param a first summand
   * @param b second summand, of a's shape and type
   * @param y sum, of a's shape, written; may be a or b
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void add(Tensor a, Tensor b, Tensor y) {
    add(a, b, y, Options.defaults());
  }

  /**
   * y = a + b, element by element. A bias [N] is added to rows [T, N] as {@code bias.expand(T, N)}.
   *
   * @param a first summand
   * @param b second summand, of a's shape and type
   * @param y sum, of a's shape, written; may be a or b
   * @param options how to do it
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void add(Tensor a, Tensor b, Tensor y, Options options) {
    frameAdd(a, b, y, options).run(Frame.ADD, 1, 1);
  }

  // ---- relu ----

  /**
   * y = max(x, 0), element by element; NaN stays NaN.
   *
   * @param x inputs
   * @param y outputs, of x's shape, written; may be x
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void relu(Tensor x, Tensor y) {
    relu(x, y, Options.defaults());
  }

  /**
   * y = max(x, 0), element by element; NaN stays NaN.
   *
   * @param x inputs
   * @param y outputs, of x's shape, written; may be x
   * @param options how to do it
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void relu(Tensor x, Tensor y, Options options) {
    frameRelu(x, y, options).run(Frame.RELU, 1, 1);
  }

  // ---- reluBackward ----

  /**
   * gx = g where x &gt; 0, else 0, element by element.
   *
   * @param x inputs of {@link #relu}; its outputs serve as well
   * @param g gradient of y, of x's shape and type
   * @param gx gradient of x, written; may be x or g
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void reluBackward(Tensor x, Tensor g, Tensor gx) {
    reluBackward(x, g, gx, Options.defaults());
  }

  /**
   * gx = g where x &gt; 0, else 0, element by element.
   *
   * @param x inputs of {@link #relu}; its outputs serve as well
   * @param g gradient of y, of x's shape and type
   * @param gx gradient of x, written; may be x or g
   * @param options how to do it
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void reluBackward(Tensor x, Tensor g, Tensor gx, Options options) {
    frameReluBackward(x, g, gx, options).run(Frame.RELU_BACKWARD, 1, 1);
  }

  // ---- gelu ----

  /**
   * y = x &middot; &Phi;(x) with &Phi;(x) = (1 + erf(x / &radic;2)) / 2, element by element: the
   * exact form.
   *
   * @param x inputs
   * @param y outputs, of x's shape, written; may be x
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void gelu(Tensor x, Tensor y) {
    gelu(x, y, Options.defaults());
  }

  /**
   * y = x &middot; &Phi;(x) with &Phi;(x) = (1 + erf(x / &radic;2)) / 2, element by element: the
   * exact form.
   *
   * @param x inputs
   * @param y outputs, of x's shape, written; may be x
   * @param options how to do it
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void gelu(Tensor x, Tensor y, Options options) {
    frameGelu(x, y, options).run(Frame.GELU, 1, 1);
  }

  // ---- geluBackward ----

  /**
   * gx = g &middot; (&Phi;(x) + x &middot; &phi;(x)) with &phi;(x) = exp(-x<sup>2</sup> / 2) /
   * &radic;(2&pi;), element by element.
   *
   * @param x inputs of {@link #gelu}
   * @param g gradient of y, of x's shape and type
   * @param gx gradient of x, written; may be x or g
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void geluBackward(Tensor x, Tensor g, Tensor gx) {
    geluBackward(x, g, gx, Options.defaults());
  }

  /**
   * gx = g &middot; (&Phi;(x) + x &middot; &phi;(x)) with &phi;(x) = exp(-x<sup>2</sup> / 2) /
   * &radic;(2&pi;), element by element.
   *
   * @param x inputs of {@link #gelu}
   * @param g gradient of y, of x's shape and type
   * @param gx gradient of x, written; may be x or g
   * @param options how to do it
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void geluBackward(Tensor x, Tensor g, Tensor gx, Options options) {
    frameGeluBackward(x, g, gx, options).run(Frame.GELU_BACKWARD, 1, 1);
  }

  // ---- sumRows ----

  /**
   * gb[n] += sum over i of g[i, n]: the gradient of a bias. Rows are added in an order that depends
   * on their number alone.
   *
   * @param g gradients [..., N]
   * @param gb sum of all rows [N], float32, added to
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void sumRows(Tensor g, Tensor gb) {
    sumRows(g, gb, Options.defaults());
  }

  /**
   * gb[n] += sum over i of g[i, n]: the gradient of a bias. Rows are added in an order that depends
   * on their number alone.
   *
   * @param g gradients [..., N]
   * @param gb sum of all rows [N], float32, added to
   * @param options how to do it
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void sumRows(Tensor g, Tensor gb, Options options) {
    frameSumRows(g, gb, options).run(Frame.SUM_ROWS, 1, 1);
  }

  /**
   * Says what {@link #sumRows} with the same arguments would run, after the same checks, without
   * running it. Contents of memory play no part.
   *
   * @param g gradients [..., N]
   * @param gb sum of all rows [N], float32, added to
   * @param options how to do it
   * @return what would run
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if planning fails behind these checks
   */
  public static Plan explainSumRows(Tensor g, Tensor gb, Options options) {
    return frameSumRows(g, gb, options).explain(Frame.SUM_ROWS, 1, 1);
  }

  // ---- dw ----

  /**
   * dW += X<sup>T</sup> &middot; dY as {@link #dw(Tensor, Tensor, Tensor, int, Reduction,
   * Options)}, and db += sum of the rows of dY as {@link #sumRows}, to the bit, in one call. Where
   * dW is float32 and T is not split, the CPU sums dY while the product has it in the caches.
   *
   * @param x inputs X [T, K]
   * @param dy gradient dY [T, N]
   * @param dw gradient dW [K, N], added to
   * @param db gradient of a bias [N], float32, added to
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void dw(Tensor x, Tensor dy, Tensor dw, Tensor db) {
    dw(x, dy, dw, db, 0, Reduction.DETERMINISTIC, Options.defaults());
  }

  /**
   * dW += X<sup>T</sup> &middot; dY as {@link #dw(Tensor, Tensor, Tensor, int, Reduction,
   * Options)}, and db += sum of the rows of dY as {@link #sumRows}, to the bit, in one call. Where
   * dW is float32 and T is not split, the CPU sums dY while the product has it in the caches.
   *
   * @param x inputs X [T, K]
   * @param dy gradient dY [T, N]
   * @param dw gradient dW [K, N], added to
   * @param db gradient of a bias [N], float32, added to
   * @param split slices of T: 0 to max(T, 1); 0 lets the library choose
   * @param reduction how slices are added up
   * @param options how to do it
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void dw(
      Tensor x, Tensor dy, Tensor dw, Tensor db, int split, Reduction reduction, Options options) {
    Arguments.present(reduction, "reduction");
    frameDwBias(x, dy, dw, db, options).run(Frame.DW_BIAS, split, deterministic(reduction));
  }

  /**
   * Says what {@link #dw(Tensor, Tensor, Tensor, Tensor, int, Reduction, Options)} with the same
   * arguments would run, after the same checks, without running it. Contents of memory play no
   * part.
   *
   * @param x inputs X [T, K]
   * @param dy gradient dY [T, N]
   * @param dw gradient dW [K, N], added to
   * @param db gradient of a bias [N], float32, added to
   * @param split slices of T: 0 to max(T, 1); 0 lets the library choose
   * @param reduction how slices are added up
   * @param options how to do it
   * @return what would run
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if planning fails behind these checks
   */
  public static Plan explainDw(
      Tensor x, Tensor dy, Tensor dw, Tensor db, int split, Reduction reduction, Options options) {
    Arguments.present(reduction, "reduction");
    return frameDwBias(x, dy, dw, db, options)
        .explain(Frame.DW_BIAS, split, deterministic(reduction));
  }

  // ---- softmaxCrossEntropy ----

  /**
   * loss[i] = log(sum over c of exp(l[i, c] - max)) + max - l[i, label[i]], max = the largest of
   * l[i, :].
   *
   * <p>A label outside of 0 to C - 1 is an IllegalArgumentException on the CPU, thrown before
   * anything is written. On a GPU, where labels are not looked at beforehand, its loss is NaN.
   *
   * @param logits logits l [..., C]
   * @param labels index of the right class [...], int32, from 0 to C - 1
   * @param loss losses [...], float32, written
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void softmaxCrossEntropy(Tensor logits, Tensor labels, Tensor loss) {
    softmaxCrossEntropy(logits, labels, loss, Options.defaults());
  }

  /**
   * loss[i] = log(sum over c of exp(l[i, c] - max)) + max - l[i, label[i]], max = the largest of
   * l[i, :].
   *
   * <p>A label outside of 0 to C - 1 is an IllegalArgumentException on the CPU, thrown before
   * anything is written. On a GPU, where labels are not looked at beforehand, its loss is NaN.
   *
   * @param logits logits l [..., C]
   * @param labels index of the right class [...], int32, from 0 to C - 1
   * @param loss losses [...], float32, written
   * @param options how to do it
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void softmaxCrossEntropy(
      Tensor logits, Tensor labels, Tensor loss, Options options) {
    frameSoftmaxCrossEntropy(logits, labels, loss, options).run(Frame.SOFTMAX_CROSS_ENTROPY, 1, 1);
  }

  // ---- softmaxCrossEntropyBackward ----

  /**
   * gx[i, c] = g[i] &middot; (softmax(l[i, :])[c] - (c == label[i] ? 1 : 0)).
   *
   * <p>A label outside of 0 to C - 1 is an IllegalArgumentException on the CPU, thrown before
   * anything is written. On a GPU its row of gx is NaN.
   *
   * @param logits logits l [..., C]
   * @param labels index of the right class [...], int32, from 0 to C - 1
   * @param g gradient of the losses [...], float32 or of the type of logits
   * @param gx gradient of the logits [..., C], written
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void softmaxCrossEntropyBackward(
      Tensor logits, Tensor labels, Tensor g, Tensor gx) {
    softmaxCrossEntropyBackward(logits, labels, g, gx, Options.defaults());
  }

  /**
   * gx[i, c] = g[i] &middot; (softmax(l[i, :])[c] - (c == label[i] ? 1 : 0)).
   *
   * <p>A label outside of 0 to C - 1 is an IllegalArgumentException on the CPU, thrown before
   * anything is written. On a GPU its row of gx is NaN.
   *
   * @param logits logits l [..., C]
   * @param labels index of the right class [...], int32, from 0 to C - 1
   * @param g gradient of the losses [...], float32 or of the type of logits
   * @param gx gradient of the logits [..., C], written
   * @param options how to do it
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void softmaxCrossEntropyBackward(
      Tensor logits, Tensor labels, Tensor g, Tensor gx, Options options) {
    frameSoftmaxCrossEntropyBackward(logits, labels, g, gx, options)
        .run(Frame.SOFTMAX_CROSS_ENTROPY_BACKWARD, 1, 1);
  }

  // ---- squaredError ----

  /**
   * loss[i] = sum over d of (x[i, d] - target[i, d])<sup>2</sup>.
   *
   * @param x values [..., D]
   * @param target what they should be, of x's shape and type
   * @param loss losses [...], float32, written
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void squaredError(Tensor x, Tensor target, Tensor loss) {
    squaredError(x, target, loss, Options.defaults());
  }

  /**
   * loss[i] = sum over d of (x[i, d] - target[i, d])<sup>2</sup>.
   *
   * @param x values [..., D]
   * @param target what they should be, of x's shape and type
   * @param loss losses [...], float32, written
   * @param options how to do it
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void squaredError(Tensor x, Tensor target, Tensor loss, Options options) {
    frameSquaredError(x, target, loss, options).run(Frame.SQUARED_ERROR, 1, 1);
  }

  // ---- squaredErrorBackward ----

  /**
   * gx[i, d] = 2 &middot; g[i] &middot; (x[i, d] - target[i, d]).
   *
   * @param x values [..., D]
   * @param target what they should be, of x's shape and type
   * @param g gradient of the losses [...], float32 or of x's type
   * @param gx gradient of x [..., D], written
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void squaredErrorBackward(Tensor x, Tensor target, Tensor g, Tensor gx) {
    squaredErrorBackward(x, target, g, gx, Options.defaults());
  }

  /**
   * gx[i, d] = 2 &middot; g[i] &middot; (x[i, d] - target[i, d]).
   *
   * @param x values [..., D]
   * @param target what they should be, of x's shape and type
   * @param g gradient of the losses [...], float32 or of x's type
   * @param gx gradient of x [..., D], written
   * @param options how to do it
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void squaredErrorBackward(
      Tensor x, Tensor target, Tensor g, Tensor gx, Options options) {
    frameSquaredErrorBackward(x, target, g, gx, options).run(Frame.SQUARED_ERROR_BACKWARD, 1, 1);
  }

  // ---- squaredNorm ----

  /**
   * norm += sum of x<sup>2</sup> over all elements, in an order that depends on their number alone.
   * Several gradients in turn give the square of their common norm.
   *
   * @param x values, any shape
   * @param norm sum of squares, float32 of shape [] or [1], added to
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void squaredNorm(Tensor x, Tensor norm) {
    squaredNorm(x, norm, Options.defaults());
  }

  /**
   * norm += sum of x<sup>2</sup> over all elements, in an order that depends on their number alone.
   * Several gradients in turn give the square of their common norm.
   *
   * @param x values, any shape
   * @param norm sum of squares, float32 of shape [] or [1], added to
   * @param options how to do it
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void squaredNorm(Tensor x, Tensor norm, Options options) {
    frameSquaredNorm(x, norm, options).run(Frame.SQUARED_NORM, 1, 1);
  }

  // ---- clipFactor ----

  /**
   * scale = min(1, maxNorm / &radic;norm): what gradients are multiplied by so that their norm is
   * at most maxNorm. 1 for a norm of 0, NaN for one that is NaN.
   *
   * @param norm square of a norm, as {@link #squaredNorm} gives it, float32 of shape [] or [1]
   * @param scale factor, float32 of shape [] or [1], written; may be norm
   * @param maxNorm largest norm that is left alone, 0 or more
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above, or a number is out of range
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void clipFactor(Tensor norm, Tensor scale, double maxNorm) {
    clipFactor(norm, scale, maxNorm, Options.defaults());
  }

  /**
   * scale = min(1, maxNorm / &radic;norm): what gradients are multiplied by so that their norm is
   * at most maxNorm. 1 for a norm of 0, NaN for one that is NaN.
   *
   * @param norm square of a norm, as {@link #squaredNorm} gives it, float32 of shape [] or [1]
   * @param scale factor, float32 of shape [] or [1], written; may be norm
   * @param maxNorm largest norm that is left alone, 0 or more
   * @param options how to do it
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above, or a number is out of range
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void clipFactor(Tensor norm, Tensor scale, double maxNorm, Options options) {
    frameClipFactor(norm, scale, options).scalar(0, maxNorm).run(Frame.CLIP_FACTOR, 1, 1);
  }

  // ---- sgd ----

  /**
   * One step of stochastic gradient descent, in one pass: d = scale &middot; g + weightDecay
   * &middot; p; velocity = momentum &middot; velocity + d; p -= lr &middot; velocity, or with
   * nesterov p -= lr &middot; (d + momentum &middot; velocity); without a velocity p -= lr &middot;
   * d. As PyTorch's SGD with dampening 0.
   *
   * @param p parameters, float32, updated
   * @param g their gradient, float32, of p's shape
   * @param velocity running sum of gradients, float32, of p's shape, updated; begins as zeros; null
   *     = none
   * @param copy parameters rounded to this tensor's float16 or bfloat16, written; null = none
   * @param scale what g is multiplied by, float32 of shape [] or [1]; null = 1
   * @param lr learning rate, 0 or more
   * @param momentum momentum, 0 or more; 0 without a velocity
   * @param weightDecay factor of p that is added to its gradient, 0 or more
   * @param nesterov whether the step looks ahead; needs a momentum
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above, or a number is out of range
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void sgd(
      Tensor p,
      Tensor g,
      Tensor velocity,
      Tensor copy,
      Tensor scale,
      double lr,
      double momentum,
      double weightDecay,
      boolean nesterov) {
    sgd(p, g, velocity, copy, scale, lr, momentum, weightDecay, nesterov, Options.defaults());
  }

  /**
   * One step of stochastic gradient descent, in one pass: d = scale &middot; g + weightDecay
   * &middot; p; velocity = momentum &middot; velocity + d; p -= lr &middot; velocity, or with
   * nesterov p -= lr &middot; (d + momentum &middot; velocity); without a velocity p -= lr &middot;
   * d. As PyTorch's SGD with dampening 0.
   *
   * @param p parameters, float32, updated
   * @param g their gradient, float32, of p's shape
   * @param velocity running sum of gradients, float32, of p's shape, updated; begins as zeros; null
   *     = none
   * @param copy parameters rounded to this tensor's float16 or bfloat16, written; null = none
   * @param scale what g is multiplied by, float32 of shape [] or [1]; null = 1
   * @param lr learning rate, 0 or more
   * @param momentum momentum, 0 or more; 0 without a velocity
   * @param weightDecay factor of p that is added to its gradient, 0 or more
   * @param nesterov whether the step looks ahead; needs a momentum
   * @param options how to do it
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above, or a number is out of range
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void sgd(
      Tensor p,
      Tensor g,
      Tensor velocity,
      Tensor copy,
      Tensor scale,
      double lr,
      double momentum,
      double weightDecay,
      boolean nesterov,
      Options options) {
    frameSgd(p, g, velocity, copy, scale, options)
        .scalar(0, lr)
        .scalar(1, momentum)
        .scalar(2, weightDecay)
        .scalar(3, nesterov ? 1 : 0)
        .run(Frame.SGD, 1, 1);
  }

  // ---- adamw ----

  /**
   * One step of AdamW, in one pass: d = scale &middot; g; p -= lr &middot; weightDecay &middot; p;
   * m = beta1 &middot; m + (1 - beta1) &middot; d; v = beta2 &middot; v + (1 - beta2) &middot;
   * d<sup>2</sup>; p -= lr &middot; (m / (1 - beta1<sup>step</sup>)) / (&radic;(v / (1 -
   * beta2<sup>step</sup>)) + eps). As PyTorch's AdamW.
   *
   * @param p parameters, float32, updated
   * @param g their gradient, float32, of p's shape
   * @param m running mean of gradients, float32, of p's shape, updated; begins as zeros
   * @param v running mean of squared gradients, float32, of p's shape, updated; begins as zeros
   * @param copy parameters rounded to this tensor's float16 or bfloat16, written; null = none
   * @param scale what g is multiplied by, float32 of shape [] or [1]; null = 1
   * @param lr learning rate, 0 or more
   * @param beta1 decay of m, from 0 to below 1
   * @param beta2 decay of v, from 0 to below 1
   * @param eps what keeps the divisor from 0, 0 or more
   * @param weightDecay decay of p, 0 or more
   * @param step number of this step, 1 for the first
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above, or a number is out of range
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void adamw(
      Tensor p,
      Tensor g,
      Tensor m,
      Tensor v,
      Tensor copy,
      Tensor scale,
      double lr,
      double beta1,
      double beta2,
      double eps,
      double weightDecay,
      long step) {
    adamw(p, g, m, v, copy, scale, lr, beta1, beta2, eps, weightDecay, step, Options.defaults());
  }

  /**
   * One step of AdamW, in one pass: d = scale &middot; g; p -= lr &middot; weightDecay &middot; p;
   * m = beta1 &middot; m + (1 - beta1) &middot; d; v = beta2 &middot; v + (1 - beta2) &middot;
   * d<sup>2</sup>; p -= lr &middot; (m / (1 - beta1<sup>step</sup>)) / (&radic;(v / (1 -
   * beta2<sup>step</sup>)) + eps). As PyTorch's AdamW.
   *
   * @param p parameters, float32, updated
   * @param g their gradient, float32, of p's shape
   * @param m running mean of gradients, float32, of p's shape, updated; begins as zeros
   * @param v running mean of squared gradients, float32, of p's shape, updated; begins as zeros
   * @param copy parameters rounded to this tensor's float16 or bfloat16, written; null = none
   * @param scale what g is multiplied by, float32 of shape [] or [1]; null = 1
   * @param lr learning rate, 0 or more
   * @param beta1 decay of m, from 0 to below 1
   * @param beta2 decay of v, from 0 to below 1
   * @param eps what keeps the divisor from 0, 0 or more
   * @param weightDecay decay of p, 0 or more
   * @param step number of this step, 1 for the first
   * @param options how to do it
   * @throws IllegalArgumentException if an argument is null, or shapes, strides, types, devices or
   *     shared memory are not as said above, or a number is out of range
   * @throws IllegalStateException if memory is closed
   * @throws WrongThreadException if memory belongs to another thread
   * @throws DxdwException if the call fails behind these checks
   */
  public static void adamw(
      Tensor p,
      Tensor g,
      Tensor m,
      Tensor v,
      Tensor copy,
      Tensor scale,
      double lr,
      double beta1,
      double beta2,
      double eps,
      double weightDecay,
      long step,
      Options options) {
    frameAdamw(p, g, m, v, copy, scale, options)
        .scalar(0, lr)
        .scalar(1, beta1)
        .scalar(2, beta2)
        .scalar(3, eps)
        .scalar(4, weightDecay)
        .scalar(5, step)
        .run(Frame.ADAMW, 1, 1);
  }

  // ---- Plans for GPUs that need not be there ----

  /**
   * Says what {@link #y} of compact operands would run on a GPU of that kind, which need not be
   * there.
   *
   * @param chip kind of GPU
   * @param dtype type of the inputs and of Y
   * @param t tokens T
   * @param k inputs K
   * @param n outputs N
   * @return what would run; {@link Plan#threads()} counts thread blocks
   * @throws IllegalArgumentException if an argument is null, a size is negative
   * @throws LibraryLoadException if the native library can't be loaded
   */
  public static Plan planY(Chip chip, DType dtype, long t, long k, long n) {
    return planOn(chip, Frame.Y, 1, 1, dtype, dtype, new long[][] {{t, k}, {k, n}, {t, n}});
  }

  /**
   * Says what {@link #dx} of compact operands would run on a GPU of that kind, which need not be
   * there.
   *
   * @param chip kind of GPU
   * @param dtype type of the inputs and of dX
   * @param t tokens T
   * @param k inputs K
   * @param n outputs N
   * @return what would run; {@link Plan#threads()} counts thread blocks
   * @throws IllegalArgumentException if an argument is null, a size is negative
   * @throws LibraryLoadException if the native library can't be loaded
   */
  public static Plan planDx(Chip chip, DType dtype, long t, long k, long n) {
    return planOn(chip, Frame.DX, 1, 1, dtype, dtype, new long[][] {{t, n}, {k, n}, {t, k}});
  }

  /**
   * Says what {@link #dw} of compact operands would run on a GPU of that kind, which need not be
   * there.
   *
   * @param chip kind of GPU
   * @param dtype type of the inputs; dW is float32
   * @param t tokens T
   * @param k inputs K
   * @param n outputs N
   * @param split slices of T, from 0 to max(T, 1); 0 lets the library choose
   * @param reduction how slices are added up
   * @return what would run; {@link Plan#threads()} counts thread blocks
   * @throws IllegalArgumentException if an argument is null, a size is negative, or split is out of
   *     range
   * @throws LibraryLoadException if the native library can't be loaded
   */
  public static Plan planDw(
      Chip chip, DType dtype, long t, long k, long n, int split, Reduction reduction) {
    Arguments.present(reduction, "reduction");
    return planOn(
        chip,
        Frame.DW,
        split,
        deterministic(reduction),
        dtype,
        DType.FLOAT32,
        new long[][] {{t, k}, {t, n}, {k, n}});
  }

  private static Plan planOn(
      Chip chip,
      int function,
      int split,
      int deterministic,
      DType inputs,
      DType output,
      long[][] shapes) {
    Arguments.present(chip, "chip");
    Arguments.present(inputs, "dtype");
    return Library.frame()
        .input(0, View.anywhereOnCuda(inputs, shapes[0], 0))
        .input(1, View.anywhereOnCuda(inputs, shapes[1], 1))
        .input(2, View.anywhereOnCuda(output, shapes[2], 2))
        .planOn(function, split, deterministic, chip.capability(), chip.multiprocessors());
  }

  // ---- Frames ----

  private static int deterministic(Reduction reduction) {
    return reduction == Reduction.DETERMINISTIC ? 1 : 0;
  }

  private static Frame frameY(Tensor x, Tensor w, Tensor y, Options options) {
    Arguments.present(x, "x");
    Arguments.present(w, "w");
    Arguments.present(y, "y");
    Arguments.present(options, "options");
    Frame frame = Library.frame().input(0, x.view()).input(1, w.view()).output(2, y.view(), "y");
    return withOptions(frame, options);
  }

  private static Frame frameDx(Tensor dy, Tensor w, Tensor dx, Options options) {
    Arguments.present(dy, "dy");
    Arguments.present(w, "w");
    Arguments.present(dx, "dx");
    Arguments.present(options, "options");
    Frame frame = Library.frame().input(0, dy.view()).input(1, w.view()).output(2, dx.view(), "dx");
    return withOptions(frame, options);
  }

  private static Frame frameDw(Tensor x, Tensor dy, Tensor dw, Options options) {
    Arguments.present(x, "x");
    Arguments.present(dy, "dy");
    Arguments.present(dw, "dw");
    Arguments.present(options, "options");
    Frame frame = Library.frame().input(0, x.view()).input(1, dy.view()).output(2, dw.view(), "dw");
    return withOptions(frame, options);
  }

  private static Frame frameDwReduce(Tensor partials, Tensor dw, Options options) {
    Arguments.present(partials, "partials");
    Arguments.present(dw, "dw");
    Arguments.present(options, "options");
    Frame frame = Library.frame().input(0, partials.view()).output(1, dw.view(), "dw");
    return withOptions(frame, options);
  }

  private static Frame frameWeightedSum(Tensor x, Tensor w, Tensor y, Options options) {
    Arguments.present(x, "x");
    Arguments.present(w, "w");
    Arguments.present(y, "y");
    Arguments.present(options, "options");
    Frame frame = Library.frame().input(0, x.view()).input(1, w.view()).output(2, y.view(), "y");
    return withOptions(frame, options);
  }

  private static Frame frameWeightedSumBackward(
      Tensor x, Tensor w, Tensor g, Tensor gx, Tensor gw, Options options) {
    Arguments.present(x, "x");
    Arguments.present(w, "w");
    Arguments.present(g, "g");
    Arguments.present(options, "options");
    Frame frame = Library.frame().input(0, x.view()).input(1, w.view()).input(2, g.view());
    outputOrNone(frame, 3, gx, "gx");
    outputOrNone(frame, 4, gw, "gw");
    return withOptions(frame, options);
  }

  private static Frame frameAdd(Tensor a, Tensor b, Tensor y, Options options) {
    Arguments.present(a, "a");
    Arguments.present(b, "b");
    Arguments.present(y, "y");
    Arguments.present(options, "options");
    Frame frame = Library.frame();
    frame.input(0, a.view());
    frame.input(1, b.view());
    frame.output(2, y.view(), "y");
    return withOptions(frame, options);
  }

  private static Frame frameRelu(Tensor x, Tensor y, Options options) {
    Arguments.present(x, "x");
    Arguments.present(y, "y");
    Arguments.present(options, "options");
    Frame frame = Library.frame();
    frame.input(0, x.view());
    frame.output(1, y.view(), "y");
    return withOptions(frame, options);
  }

  private static Frame frameReluBackward(Tensor x, Tensor g, Tensor gx, Options options) {
    Arguments.present(x, "x");
    Arguments.present(g, "g");
    Arguments.present(gx, "gx");
    Arguments.present(options, "options");
    Frame frame = Library.frame();
    frame.input(0, x.view());
    frame.input(1, g.view());
    frame.output(2, gx.view(), "gx");
    return withOptions(frame, options);
  }

  private static Frame frameGelu(Tensor x, Tensor y, Options options) {
    Arguments.present(x, "x");
    Arguments.present(y, "y");
    Arguments.present(options, "options");
    Frame frame = Library.frame();
    frame.input(0, x.view());
    frame.output(1, y.view(), "y");
    return withOptions(frame, options);
  }

  private static Frame frameGeluBackward(Tensor x, Tensor g, Tensor gx, Options options) {
    Arguments.present(x, "x");
    Arguments.present(g, "g");
    Arguments.present(gx, "gx");
    Arguments.present(options, "options");
    Frame frame = Library.frame();
    frame.input(0, x.view());
    frame.input(1, g.view());
    frame.output(2, gx.view(), "gx");
    return withOptions(frame, options);
  }

  private static Frame frameSumRows(Tensor g, Tensor gb, Options options) {
    Arguments.present(g, "g");
    Arguments.present(gb, "gb");
    Arguments.present(options, "options");
    Frame frame = Library.frame();
    frame.input(0, g.view());
    frame.output(1, gb.view(), "gb");
    return withOptions(frame, options);
  }

  private static Frame frameDwBias(Tensor x, Tensor dy, Tensor dw, Tensor db, Options options) {
    Arguments.present(x, "x");
    Arguments.present(dy, "dy");
    Arguments.present(dw, "dw");
    Arguments.present(db, "db");
    Arguments.present(options, "options");
    Frame frame = Library.frame();
    frame.input(0, x.view());
    frame.input(1, dy.view());
    frame.output(2, dw.view(), "dw");
    frame.output(3, db.view(), "db");
    return withOptions(frame, options);
  }

  private static Frame frameSoftmaxCrossEntropy(
      Tensor logits, Tensor labels, Tensor loss, Options options) {
    Arguments.present(logits, "logits");
    Arguments.present(labels, "labels");
    Arguments.present(loss, "loss");
    Arguments.present(options, "options");
    Frame frame = Library.frame();
    frame.input(0, logits.view());
    frame.input(1, labels.view());
    frame.output(2, loss.view(), "loss");
    return withOptions(frame, options);
  }

  private static Frame frameSoftmaxCrossEntropyBackward(
      Tensor logits, Tensor labels, Tensor g, Tensor gx, Options options) {
    Arguments.present(logits, "logits");
    Arguments.present(labels, "labels");
    Arguments.present(g, "g");
    Arguments.present(gx, "gx");
    Arguments.present(options, "options");
    Frame frame = Library.frame();
    frame.input(0, logits.view());
    frame.input(1, labels.view());
    frame.input(2, g.view());
    frame.output(3, gx.view(), "gx");
    return withOptions(frame, options);
  }

  private static Frame frameSquaredError(Tensor x, Tensor target, Tensor loss, Options options) {
    Arguments.present(x, "x");
    Arguments.present(target, "target");
    Arguments.present(loss, "loss");
    Arguments.present(options, "options");
    Frame frame = Library.frame();
    frame.input(0, x.view());
    frame.input(1, target.view());
    frame.output(2, loss.view(), "loss");
    return withOptions(frame, options);
  }

  private static Frame frameSquaredErrorBackward(
      Tensor x, Tensor target, Tensor g, Tensor gx, Options options) {
    Arguments.present(x, "x");
    Arguments.present(target, "target");
    Arguments.present(g, "g");
    Arguments.present(gx, "gx");
    Arguments.present(options, "options");
    Frame frame = Library.frame();
    frame.input(0, x.view());
    frame.input(1, target.view());
    frame.input(2, g.view());
    frame.output(3, gx.view(), "gx");
    return withOptions(frame, options);
  }

  private static Frame frameSquaredNorm(Tensor x, Tensor norm, Options options) {
    Arguments.present(x, "x");
    Arguments.present(norm, "norm");
    Arguments.present(options, "options");
    Frame frame = Library.frame();
    frame.input(0, x.view());
    frame.output(1, norm.view(), "norm");
    return withOptions(frame, options);
  }

  private static Frame frameClipFactor(Tensor norm, Tensor scale, Options options) {
    Arguments.present(norm, "norm");
    Arguments.present(scale, "scale");
    Arguments.present(options, "options");
    Frame frame = Library.frame();
    frame.input(0, norm.view());
    frame.output(1, scale.view(), "scale");
    return withOptions(frame, options);
  }

  private static Frame frameSgd(
      Tensor p, Tensor g, Tensor velocity, Tensor copy, Tensor scale, Options options) {
    Arguments.present(p, "p");
    Arguments.present(g, "g");
    Arguments.present(options, "options");
    Frame frame = Library.frame();
    frame.output(0, p.view(), "p");
    frame.input(1, g.view());
    outputOrNone(frame, 2, velocity, "velocity");
    outputOrNone(frame, 3, copy, "copy");
    if (scale == null) {
      frame.absent(4);
    } else {
      frame.input(4, scale.view());
    }
    return withOptions(frame, options);
  }

  private static Frame frameAdamw(
      Tensor p, Tensor g, Tensor m, Tensor v, Tensor copy, Tensor scale, Options options) {
    Arguments.present(p, "p");
    Arguments.present(g, "g");
    Arguments.present(m, "m");
    Arguments.present(v, "v");
    Arguments.present(options, "options");
    Frame frame = Library.frame();
    frame.output(0, p.view(), "p");
    frame.input(1, g.view());
    frame.output(2, m.view(), "m");
    frame.output(3, v.view(), "v");
    outputOrNone(frame, 4, copy, "copy");
    if (scale == null) {
      frame.absent(5);
    } else {
      frame.input(5, scale.view());
    }
    return withOptions(frame, options);
  }

  private static void outputOrNone(Frame frame, int slot, Tensor output, String name) {
    if (output == null) {
      frame.absent(slot);
    } else {
      frame.output(slot, output.view(), name);
    }
  }

  private static Frame withOptions(Frame frame, Options options) {
    if (options == Options.defaults()) {
      return frame;
    }
    Stream stream = options.stream().orElse(null);
    Tensor workspace = options.workspace().orElse(null);
    return frame.options(
        options.accumulate(),
        options.precision(),
        options.batchInvariant(),
        stream == null ? null : stream.handle(),
        workspace == null ? null : workspace.view());
  }

  /** destination = source, on a stream where that is not null. */
  static void copy(Tensor source, Tensor destination, Stream stream) {
    Frame frame =
        Library.frame().input(0, source.view()).output(1, destination.view(), "destination");
    if (stream != null) {
      frame.options(Accumulate.DEFAULT, Precision.DEFAULT, false, stream.handle(), null);
    }
    frame.run(Frame.COPY, 1, 1);
  }

  // ---- The library ----

  /**
   * Can the native library be used? Loads it when it is not loaded yet. Never throws.
   *
   * @return true if so
   */
  public static boolean isAvailable() {
    return Library.failure() == null;
  }

  /**
   * Why the native library can't be used. Never throws.
   *
   * @return a {@link LibraryLoadException} that lists every attempt with its cause; empty when the
   *     library is available
   */
  public static Optional<Throwable> unavailabilityCause() {
    return Optional.ofNullable(Library.failure());
  }

  /**
   * Makes an arena whose memory can't be lost: it is freed by {@link Arena#close()} or, where that
   * is forgotten, by the collector, once neither the arena nor any tensor in it can be reached. Use
   * it like {@link Arena#ofShared()}, for host memory, device memory and pinned memory alike:
   *
   * <pre>{@code
   * try (Arena arena = Dxdw.arena()) {
   *   Tensor x = Tensor.allocate(arena, DType.FLOAT32, 8192, 4096);
   * }
   * }</pre>
   *
   * <p>Closing is what a program should do; {@link #memoryUse()} counts the arenas for which it was
   * left to the collector, and the system property {@code dxdw.leaks} = true makes each of them
   * known by a warning with the place that made it. Closing twice is fine. Closing while a call
   * uses the memory throws {@link IllegalStateException} and frees nothing; using memory of a
   * closed arena throws it as well.
   *
   * <p>Host memory comes from the system: neither the size of the Java heap nor {@code
   * -XX:MaxDirectMemorySize} limits it. When much is allocated, or memory is refused, forgotten
   * arenas are collected first, by {@link System#gc()}; that costs a collection each time that the
   * bytes held have doubled, from 256 MB on. Memory of 4 MiB and more asks for huge pages. An arena
   * takes a little time to close, in which other threads may have to stop for a moment: make one
   * for a step or a model rather than for a call.
   *
   * @return an open arena for all threads; it throws {@link NativeMemoryException} where the system
   *     refuses memory
   * @throws LibraryLoadException if the native library can't be loaded
   */
  public static Arena arena() {
    return new OwnedArena();
  }

  /**
   * Tells what memory outside of the Java heap is in use, at the cost of some reads. Never throws.
   *
   * @return the figures of this moment
   */
  public static MemoryUse memoryUse() {
    return new MemoryUse(
        OwnedArena.bytesHeld(),
        OwnedArena.open(),
        OwnedArena.forgotten(),
        Library.scratchBytes(),
        Library.deviceBytes());
  }

  /**
   * Sets how many CPU threads a call may use, the caller's own included. Counts for all threads of
   * the process, from the next call on.
   *
   * @param threads 1 to 1024; 0 = as many processors as the JVM may use, which is the default
   * @throws IllegalArgumentException if it is outside of 0 to 1024
   * @throws LibraryLoadException if the native library can't be loaded
   */
  public static void setThreads(int threads) {
    Library.setThreads(threads);
  }

  /**
   * How many CPU threads a call may use.
   *
   * @return threads, the caller's own included
   * @throws LibraryLoadException if the native library can't be loaded
   */
  public static int threads() {
    return Library.threads();
  }

  /**
   * The version of this library.
   *
   * @return the version, such as {@code "1.2.3"}
   */
  public static String version() {
    return Library.version();
  }

  /**
   * One line for logs and reports: version, SIMD level in use, CUDA architectures; or why the
   * native library can't be used. Never throws.
   *
   * @return the description
   */
  public static String describe() {
    return Library.describe();
  }

  /**
   * The SIMD level of the CPU kernels in use, such as {@code "avx512"}.
   *
   * @return the level
   * @throws LibraryLoadException if the native library can't be loaded
   */
  public static String simdLevel() {
    return Library.simdLevel();
  }

  /**
   * The file that the native library was loaded from.
   *
   * @return an absolute path
   * @throws LibraryLoadException if the native library can't be loaded
   */
  public static Path libraryFile() {
    return Library.file();
  }
}
