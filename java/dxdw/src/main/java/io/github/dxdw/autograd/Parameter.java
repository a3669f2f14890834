package io.github.dxdw.autograd;

import io.github.dxdw.DType;
import io.github.dxdw.GradientBuffer;
import io.github.dxdw.Tensor;
import io.github.dxdw.internal.Arguments;
import java.lang.foreign.Arena;

/**
 * A leaf that an {@link Optimizer} moves: float32 values, the tensor that functions read, and the
 * float32 buffer in which its gradient adds up over the micro-batches of a step.
 *
 * <p>What functions read is of the type that the parameter was made of. Where that is float32 it is
 * the values themselves, else a copy that the optimizer rounds anew at each step.
 *
 * <p>Used by one thread at a time.
 */
public final class Parameter extends Variable {
  private final String name;
  private final Tensor master;
  private final GradientBuffer buffer;

  private Parameter(String name, Tensor tensor, Tensor master, GradientBuffer buffer) {
    super(tensor, null, null);
    this.name = name;
    this.master = master;
    this.buffer = buffer;
  }

  /**
   * Makes a parameter of a tensor.
   *
   * @param arena owner of the memory that is allocated: the gradient, and float32 values where the
   *     tensor is of another type
   * @param name what messages call it
   * @param tensor the tensor that functions read, holding the first values; it is written by {@link
   *     #set} and by optimizers
   * @return the parameter
   * @throws IllegalArgumentException if an argument is null
   * @throws io.github.dxdw.NativeMemoryException if there is not enough memory
   */
  public static Parameter of(Arena arena, String name, Tensor tensor) {
    Arguments.present(arena, "arena");
    Arguments.present(name, "name");
    Arguments.present(tensor, "tensor");
    GradientBuffer buffer = GradientBuffer.allocate(arena, tensor.device(), tensor.shape());
    Tensor master = tensor.dtype() == DType.FLOAT32 ? tensor : tensor.to(DType.FLOAT32, arena);
    return new Parameter(name, tensor, master, buffer);
  }

  /**
   * The name.
   *
   * @return what messages call this
   */
  public String name() {
    return name;
  }

  /**
   * The float32 values that optimizers move.
   *
   * @return the values: {@link #tensor()} itself where that is float32
   */
  public Tensor master() {
    return master;
  }

  /**
   * The buffer in which the gradient adds up.
   *
   * @return the buffer
   */
  public GradientBuffer buffer() {
    return buffer;
  }

  /**
   * Sets the values.
   *
   * @param values a tensor of the same shape, any type and strides
   * @throws IllegalArgumentException if it is null or of another shape
   * @throws IllegalStateException if memory is closed
   */
  public void set(Tensor values) {
    master.copyFrom(values);
    if (tensor() != master) {
      tensor().copyFrom(master);
    }
  }

  @Override
  public boolean wantsGradient() {
    return true;
  }

  @Override
  public Tensor gradient() {
    return buffer.tensor();
  }

  @Override
  String describe() {
    return "parameter " + name;
  }
}
