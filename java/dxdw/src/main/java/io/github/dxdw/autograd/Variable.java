package io.github.dxdw.autograd;

import io.github.dxdw.Tensor;
import io.github.dxdw.internal.Arguments;

/**
 * A tensor that takes part in a calculation: a constant, a {@link Parameter}, or the result of a
 * {@link Function}. Results belong to the tape that recorded them: they are good until its {@link
 * Tape#reset()}, and {@link Tape#backward} takes their memory back as it passes them, unless {@link
 * #keep()} was called. The next step uses the objects of results again for its own, so a variable
 * is not to be held beyond its step. Used by one thread at a time, that of its tape.
 */
public class Variable {
  private Tensor tensor;

  /** What computed this; null for constants and parameters. */
  private final Context producer;

  /** The variable whose transpose this is; null for what is none. */
  private final Variable source;

  private Variable transpose;
  private boolean released;
  private boolean kept;

  // The gradient of a result, as far as backward has got.
  private Pool.Block gradientBlock;
  private Tensor gradient;
  private boolean written;

  // Views that are asked for again and again, and what they were made of.
  private Tensor viewed;
  private Tensor view;
  private Tensor viewedGradient;
  private Tensor gradientView;

  Variable(Tensor tensor, Context producer, Variable source) {
    this.tensor = tensor;
    this.producer = producer;
    this.source = source;
  }

  /**
   * A variable that wants no gradient: data, labels, frozen weights.
   *
   * @param tensor its value
   * @return the constant, good for any number of steps and tapes
   * @throws IllegalArgumentException if the tensor is null
   */
  public static Variable constant(Tensor tensor) {
    return new Variable(Arguments.present(tensor, "tensor"), null, null);
  }

  /**
   * The value. That of a result is in memory of the tape, which later steps use again.
   *
   * @return the tensor
   * @throws IllegalStateException if this is a result whose tape was reset or closed, or whose
   *     memory {@link Tape#backward} took back
   */
  public Tensor tensor() {
    if (source != null) {
      Tensor value = source.tensor();
      if (value != viewed) {
        view = value.transpose();
        viewed = value;
      }
      return view;
    }
    if (tensor == null || released) {
      throw new IllegalStateException(
          "the value of "
              + describe()
              + (released
                  ? " was given back by backward: keep() it before"
                  : " is gone, its tape was reset or closed"));
    }
    return tensor;
  }

  /**
   * Does {@link Tape#backward} compute the gradient of this?
   *
   * @return true for parameters and for results that depend on one
   */
  public boolean wantsGradient() {
    return source != null ? source.wantsGradient() : producer != null && producer.isRecorded();
  }

  /**
   * This with the last two dimensions swapped, without a copy. Its gradient is that of this
   * variable, seen in the same way: so a matrix and its transpose may take part in one calculation
   * and their gradients add up.
   *
   * @return the same object for each call
   * @throws IllegalArgumentException if the rank is below 2
   */
  public Variable transpose() {
    if (transpose == null) {
      if (source != null) {
        return source;
      }
      tensor().transpose();
      transpose = new Variable(null, null, this);
    }
    return transpose;
  }

  /**
   * Lets this result's value and gradient stay after {@link Tape#backward}, until the tape is
   * reset. Does nothing for constants and parameters.
   *
   * @return this
   * @throws IllegalStateException if this is a result and its value is gone
   */
  public Variable keep() {
    tensor();
    base().kept = true;
    return this;
  }

  /**
   * The gradient of a result that was kept, or of a parameter as far as it has added up.
   *
   * @return the gradient; of a result, a tensor of the value's shape and type
   * @throws IllegalStateException if there is none
   */
  public Tensor gradient() {
    if (source != null) {
      return source.gradient().transpose();
    }
    if (!written) {
      throw new IllegalStateException(
          describe()
              + (producer == null
                  ? " has no gradient"
                  : " has no gradient: keep() it before backward reaches it"));
    }
    return gradient;
  }

  /** What messages call this. */
  String describe() {
    if (source != null) {
      return "the transpose of " + source.describe();
    }
    return producer == null ? "a constant" : producer.describe();
  }

  /** Shows the value as {@link Tensor#toString()} does, where there is one. */
  @Override
  public String toString() {
    boolean gone = base().tensor == null || base().released;
    return gone ? describe() + " (gone)" : describe() + ": " + tensor();
  }

  // ---- For the tape ----

  /** This, or what this is the transpose of. */
  final Variable base() {
    return source == null ? this : source;
  }

  final boolean isTransposed() {
    return source != null;
  }

  final Context producer() {
    return base().producer;
  }

  /** Begins the life of a result. */
  final void begin(Tensor value) {
    tensor = value;
    released = false;
    kept = false;
  }

  /** Ends it. */
  final void end() {
    tensor = null;
    releaseGradient();
  }

  final void release() {
    released = true;
  }

  final boolean isKept() {
    return kept;
  }

  /** Memory for the gradient, which is not written yet. */
  final void gradientIn(Pool.Block block, Tensor memory) {
    gradientBlock = block;
    gradient = memory;
  }

  final Tensor gradientMemory() {
    return gradient;
  }

  final boolean hasGradient() {
    return written;
  }

  void gradientWritten() {
    written = true;
  }

  final void releaseGradient() {
    if (gradientBlock != null) {
      gradientBlock.release();
      gradientBlock = null;
    }
    gradient = null;
    written = false;
  }

  /** What is written of the gradient of the variable below, as this looks at it. */
  final Tensor seen(Tensor baseGradient) {
    if (source == null) {
      return baseGradient;
    }
    if (baseGradient != viewedGradient) {
      gradientView = baseGradient.transpose();
      viewedGradient = baseGradient;
    }
    return gradientView;
  }
}
