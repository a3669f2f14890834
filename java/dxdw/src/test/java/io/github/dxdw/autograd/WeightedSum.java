package io.github.dxdw.autograd;

import io.github.dxdw.Dxdw;
import io.github.dxdw.Tensor;

/** y[i] = sum over d of x[i, d] * w[d], as a user writes it. The README shows this file. */
final class WeightedSum implements Function {
  @Override
  public Tensor forward(Context context) {
    Tensor x = context.input(0);
    Tensor w = context.input(1);
    Tensor y = context.output(x.dtype(), x.size(0));
    Dxdw.weightedSum(x, w, y, context.options());
    context.save(x, w);
    return y;
  }

  @Override
  public void backward(Context context, Tensor gradient) {
    Tensor x = context.saved(0);
    Tensor w = context.saved(1);
    Tensor gx = context.gradient(0); // null where it is not wanted
    Tensor gw = context.gradient(1);
    Dxdw.weightedSumBackward(x, w, gradient, gx, gw, context.options());
  }
}
