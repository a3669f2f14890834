package io.github.dxdw.cli.bench;

import io.github.dxdw.DType;
import io.github.dxdw.Tensor;
import java.lang.foreign.Arena;
import java.util.Random;

/** Operands to measure with. */
final class Values {

  private static final int BLOCK = 4096;

  private Values() {}

  /** A compact tensor of values between -1 and 1, which come again after some thousands. */
  static Tensor random(Arena arena, DType type, long... shape) {
    Random random = new Random(1);
    Tensor block = Tensor.allocate(arena, DType.FLOAT32, BLOCK);
    for (int i = 0; i < BLOCK; i++) {
      block.set(2 * random.nextFloat() - 1, i);
    }
    Tensor tensor = Tensor.allocate(arena, type, shape);
    Tensor flat = tensor.reshape(tensor.elementCount());
    for (long from = 0; from < tensor.elementCount(); from += BLOCK) {
      long to = Math.min(from + BLOCK, tensor.elementCount());
      flat.slice(0, from, to).copyFrom(block.slice(0, 0, to - from));
    }
    return tensor;
  }
}
