package io.github.dxdw.autograd;

import io.github.dxdw.Tensor;

/**
 * A differentiable operation: what it computes from its inputs, and how the gradient of its output
 * becomes the gradients of those inputs that want one.
 *
 * <p>A function is used for many calls, so what one call's backward needs is kept in its {@link
 * Context}. A function without fields, or with final ones alone, may be shared by all tapes and
 * threads.
 */
public interface Function {
  /**
   * Computes the output. {@link Context#input} gives the inputs, {@link Context#output} memory for
   * the result; what the backward needs is handed to {@link Context#save}. Calls of kernels take
   * {@link Context#options()}, which name the tape's stream where it has one.
   *
   * @param context of this call
   * @return the output: a tensor from {@link Context#output}, a view of one, or a view of an input
   */
  Tensor forward(Context context);

  /**
   * Writes the gradient of each input that wants one, {@link Context#gradient}, under the options
   * that {@link Context#options()} gives for it: they say whether it is assigned, or added to what
   * is there.
   *
   * @param context of the call whose {@link #forward} went before
   * @param gradient of the output, of the output's shape and type. Its strides may be anything, 0
   *     included; it is not to be written
   */
  void backward(Context context, Tensor gradient);

  /**
   * The name that messages use.
   *
   * @return the simple name of the class, unless overridden
   */
  default String name() {
    return getClass().getSimpleName();
  }
}
