import io.github.dxdw.*;
import java.lang.foreign.*;

/** Owns what the helpers below allocate; the garbage collector frees it. */
Arena arena = Arena.ofAuto();

/** A float32 tensor of these rows. */
Tensor tensor(float[]... rows) {
  return Tensor.of(arena, rows);
}

/** A float32 tensor of zeros. */
Tensor zeros(long... shape) {
  return Tensor.allocate(arena, DType.FLOAT32, shape);
}

/** A float32 tensor of values between -1 and 1, the same ones each time. */
Tensor random(long... shape) {
  long count = 1;
  for (long size : shape) {
    count *= size;
  }
  var source = new java.util.Random(1);
  float[] values = new float[Math.toIntExact(count)];
  for (int i = 0; i < values.length; i++) {
    values[i] = 2 * source.nextFloat() - 1;
  }
  return Tensor.of(arena, values, shape);
}
