package io.github.dxdw;

import io.github.dxdw.internal.Arguments;
import io.github.dxdw.internal.Rehearsal;
import java.lang.foreign.Arena;

/**
 * A float32 buffer in which the gradient of one weight adds up over the micro-batches of a step.
 * {@link #zero()} at the step boundary only marks the buffer: the next {@code accumulate} assigns
 * instead of adding, so the zeros are neither written nor read.
 *
 * <p>The memory belongs to the arena of the caller. Used by one thread at a time: calls on one
 * buffer must be ordered by the caller.
 */
public final class GradientBuffer {
  private static final Options ASSIGN = Options.defaults().withAccumulate(Accumulate.ASSIGN);

  private final Tensor tensor;
  private boolean zeroed;

  private GradientBuffer(Tensor tensor, boolean zeroed) {
    this.tensor = tensor;
    this.zeroed = zeroed;
  }

  /**
   * Allocates a buffer of zeros in host memory.
   *
   * @param arena owner of the memory
   * @param shape shape of the weight, [K, N] or [D]
   * @return the buffer
   * @throws IllegalArgumentException if an argument is null or a size negative
   * @throws NativeMemoryException if there is not enough memory
   */
  public static GradientBuffer allocate(Arena arena, long... shape) {
    return new GradientBuffer(Tensor.allocate(arena, DType.FLOAT32, shape), true);
  }

  /**
   * Allocates a buffer of zeros on a device.
   *
   * @param arena owner of the memory
   * @param device where the memory lies
   * @param shape shape of the weight, [K, N] or [D]
   * @return the buffer
   * @throws IllegalArgumentException if an argument is null or a size negative
   * @throws NativeMemoryException if there is not enough memory
   * @throws DeviceException if the device can't be used
   */
  public static GradientBuffer allocate(Arena arena, Device device, long... shape) {
    return new GradientBuffer(Tensor.allocate(arena, device, DType.FLOAT32, shape), true);
  }

  /**
   * Adds up in memory that is there already, starting from what it holds.
   *
   * @param tensor float32 tensor of the weight's shape; any strides, any device
   * @return the buffer
   * @throws IllegalArgumentException if the tensor is null or not float32
   */
  public static GradientBuffer of(Tensor tensor) {
    Arguments.present(tensor, "tensor");
    if (tensor.dtype() != DType.FLOAT32) {
      throw new IllegalArgumentException("tensor: " + tensor.view().describe() + " is not float32");
    }
    return new GradientBuffer(tensor, false);
  }

  /**
   * The gradient so far. After {@link #zero()}, zeros are written first. Where calls on a stream
   * added to it, synchronize the stream before reading.
   *
   * @return the tensor that is added to
   * @throws IllegalStateException if zeros are to be written and the memory is closed
   */
  public Tensor tensor() {
    if (zeroed) {
      tensor.fill(0);
      zeroed = false;
    }
    return tensor;
  }

  Tensor memory() {
    return tensor;
  }

  boolean isZeroed() {
    return zeroed;
  }

  void written() {
    zeroed = false;
  }

  /** Starts anew from zero, at no cost: see above. */
  public void zero() {
    zeroed = true;
  }

  /**
   * Adds X<sup>T</sup> &middot; dY, deterministically, as {@link Dxdw#dw(Tensor, Tensor, Tensor)}
   * does.
   *
   * @param x inputs X [T, K]
   * @param dy gradient dY [T, N]
   * @throws IllegalArgumentException as {@link Dxdw#dw(Tensor, Tensor, Tensor)} says
   * @throws IllegalStateException if memory is closed
   * @throws DxdwException if the call fails behind the checks
   */
  public void accumulateDw(Tensor x, Tensor dy) {
    accumulateDw(x, dy, 0, Reduction.DETERMINISTIC, Options.defaults());
  }

  /**
   * Adds X<sup>T</sup> &middot; dY.
   *
   * @param x inputs X [T, K]
   * @param dy gradient dY [T, N]
   * @param split slices of T, from 0 to max(T, 1); 0 lets the library choose
   * @param reduction how slices are added up
   * @param options how to do it; with {@link Accumulate#ASSIGN} the result takes the place of what
   *     was added so far
   * @throws IllegalArgumentException as {@link Dxdw#dw(Tensor, Tensor, Tensor, int, Reduction,
   *     Options)} says
   * @throws IllegalStateException if memory is closed
   * @throws DxdwException if the call fails behind the checks
   */
  public void accumulateDw(Tensor x, Tensor dy, int split, Reduction reduction, Options options) {
    Dxdw.dw(x, dy, tensor, split, reduction, assigning(options));
    called();
  }

  /**
   * Adds the sum of partial gradients, as {@link Dxdw#dwReduce(Tensor, Tensor, Options)} does.
   *
   * @param partials partial sums [split, K, N], float32
   * @param options how to do it
   * @throws IllegalArgumentException as {@link Dxdw#dwReduce(Tensor, Tensor, Options)} says
   * @throws IllegalStateException if memory is closed
   * @throws DxdwException if the call fails behind the checks
   */
  public void accumulatePartials(Tensor partials, Options options) {
    Dxdw.dwReduce(partials, tensor, assigning(options));
    called();
  }

  /**
   * Adds the weight gradient of a weighted sum, and writes the gradient of its features if wanted,
   * as {@link Dxdw#weightedSumBackward(Tensor, Tensor, Tensor, Tensor, Tensor)} does.
   *
   * @param x features x [..., D]
   * @param w weights w [D]
   * @param g gradient of the sums [...]
   * @param gx gradient of the features, assigned; null = not wanted
   * @throws IllegalArgumentException as {@link Dxdw#weightedSumBackward(Tensor, Tensor, Tensor,
   *     Tensor, Tensor)} says
   * @throws IllegalStateException if memory is closed
   * @throws DxdwException if the call fails behind the checks
   */
  public void accumulateWeightedSum(Tensor x, Tensor w, Tensor g, Tensor gx) {
    Dxdw.weightedSumBackward(x, w, g, gx, tensor, assigning(Options.defaults()));
    called();
  }

  /** A call has written the memory, unless it was but planned. */
  private void called() {
    if (zeroed && !Rehearsal.isOn()) {
      zeroed = false;
    }
  }

  private Options assigning(Options options) {
    Arguments.present(options, "options");
    if (!zeroed) {
      return options;
    }
    return options == Options.defaults() ? ASSIGN : options.withAccumulate(Accumulate.ASSIGN);
  }

  /** Shows the gradient so far as {@link Tensor#toString()} does. */
  @Override
  public String toString() {
    return tensor().toString();
  }
}
