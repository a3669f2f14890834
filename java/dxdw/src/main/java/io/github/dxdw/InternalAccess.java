package io.github.dxdw;

import io.github.dxdw.internal.Access;
import io.github.dxdw.internal.View;

/** Hands what is not public to the other packages of this module. */
final class InternalAccess extends Access {
  @Override
  public View view(Tensor tensor) {
    return tensor.view();
  }

  @Override
  public boolean hasView(Tensor tensor, long... shape) {
    return tensor.hasView(shape);
  }

  @Override
  public Tensor tensor(View view) {
    return Tensor.of(view);
  }

  @Override
  public Tensor memory(GradientBuffer buffer) {
    return buffer.memory();
  }

  @Override
  public boolean isZeroed(GradientBuffer buffer) {
    return buffer.isZeroed();
  }

  @Override
  public void written(GradientBuffer buffer) {
    buffer.written();
  }
}
