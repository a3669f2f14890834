package sample;

import io.github.dxdw.DType;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Options;
import io.github.dxdw.Reduction;
import io.github.dxdw.Tensor;
import java.lang.foreign.Arena;

/** The gradient of a weight from four tokens: summed in two slices, which are added in order. */
public final class WeightGradient {
  private WeightGradient() {}

  public static void main(String[] arguments) {
    try (Arena arena = Arena.ofConfined()) {
      Tensor x = Tensor.of(arena, new float[][] {{1, 2}, {3, 4}, {5, 6}, {7, 8}});
      Tensor dY = Tensor.of(arena, new float[][] {{1, 0}, {0, 1}, {1, 1}, {2, 0}});
      Tensor dW = Tensor.allocate(arena, DType.FLOAT32, 2, 2);
      Dxdw.dw(x, dY, dW, 2, Reduction.DETERMINISTIC, Options.defaults());
      System.out.println(dW);
    }
  }
}
