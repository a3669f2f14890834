package io.github.dxdw.internal;

import io.github.dxdw.GradientBuffer;
import io.github.dxdw.Tensor;

/** What other packages of this module need of the public types, and users don't. */
public abstract class Access {
  private static volatile Access instance;

  /** Called once, when {@link Tensor} is initialised. */
  public static void set(Access access) {
    instance = access;
  }

  /** For callers that have a tensor or a gradient buffer in hand, or had one. */
  public static Access get() {
    return instance;
  }

  /** What a tensor is made of. */
  public abstract View view(Tensor tensor);

  /** Whether {@link Tensor#reshape} gives a shape of as many elements. */
  public abstract boolean hasView(Tensor tensor, long... shape);

  /** The tensor made of a view. */
  public abstract Tensor tensor(View view);

  /** The memory of a buffer as it is, zeroed or not. */
  public abstract Tensor memory(GradientBuffer buffer);

  /** Whether a buffer was zeroed and not written since. */
  public abstract boolean isZeroed(GradientBuffer buffer);

  /** Tells a buffer that its memory was written. */
  public abstract void written(GradientBuffer buffer);
}
