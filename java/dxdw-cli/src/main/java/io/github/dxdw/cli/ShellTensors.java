package io.github.dxdw.cli;

import io.github.dxdw.DType;
import io.github.dxdw.Tensor;
import java.lang.foreign.Arena;
import java.util.Random;
import java.util.stream.LongStream;

/**
 * Short ways to float32 tensors, imported by the shell. The garbage collector frees their memory.
 */
public final class ShellTensors {

  private ShellTensors() {}

  /** A tensor of these rows. */
  public static Tensor tensor(float[]... rows) {
    return Tensor.of(Arena.ofAuto(), rows);
  }

  /** A tensor of zeros. */
  public static Tensor zeros(long... shape) {
    return Tensor.allocate(Arena.ofAuto(), DType.FLOAT32, shape);
  }

  /** A tensor of values between -1 and 1, the same ones for each call with this shape. */
  public static Tensor random(long... shape) {
    long count = LongStream.of(shape).reduce(1, Math::multiplyExact);
    Random source = new Random(1);
    float[] values = new float[Math.toIntExact(count)];
    for (int i = 0; i < values.length; i++) {
      values[i] = 2 * source.nextFloat() - 1;
    }
    return Tensor.of(Arena.ofAuto(), values, shape);
  }
}
