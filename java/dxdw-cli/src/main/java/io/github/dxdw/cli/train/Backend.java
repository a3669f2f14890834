package io.github.dxdw.cli.train;

import io.github.dxdw.DType;
import io.github.dxdw.Device;
import io.github.dxdw.GradientBuffer;
import io.github.dxdw.Tensor;
import java.lang.foreign.Arena;

/**
 * Where the kernels of a network run and on what.
 *
 * @param device the device that holds the kernels' operands
 * @param type the type of weights, activations and their gradients as the kernels read them; sums,
 *     gradients of weights and the weights that the optimiser updates are float32 in any case
 * @param split slices of the rows in each weight gradient; 0 lets the library choose
 */
public record Backend(Device device, DType type, int split) {

  /** Whether the operands lie in host memory. */
  boolean onHost() {
    return device.equals(Device.cpu());
  }

  /** A compact tensor of zeros on the device; its memory lives as long as {@code arena}. */
  Tensor allocate(Arena arena, DType type, long... shape) {
    return Tensor.allocate(arena, device, type, shape);
  }

  /** A gradient buffer on the device; its memory lives as long as {@code arena}. */
  GradientBuffer allocateGradient(Arena arena, long... shape) {
    return GradientBuffer.of(allocate(arena, DType.FLOAT32, shape));
  }
}
