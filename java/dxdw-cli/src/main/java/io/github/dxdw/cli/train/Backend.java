package io.github.dxdw.cli.train;

import io.github.dxdw.DType;
import io.github.dxdw.Device;

/**
 * Where the kernels of a network run and on what.
 *
 * @param device the device that holds the kernels' operands
 * @param type the type of weights, activations and their gradients; sums, gradients of weights and
 *     the weights that the optimizer moves are float32 in any case
 * @param split slices of the rows in each weight gradient; 0 lets the library choose
 */
public record Backend(Device device, DType type, int split) {

  /** Whether the operands lie in host memory. */
  boolean onHost() {
    return device.equals(Device.cpu());
  }
}
