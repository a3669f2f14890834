package io.github.dxdw.cli.train;

import io.github.dxdw.DType;
import io.github.dxdw.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * A matrix that plain Java and the kernels share: compact float32 values in host memory, and the
 * operand that the kernels see, in their type and on their device. Where both are the same, there
 * is one tensor and {@link #push} and {@link #pull} do nothing.
 */
final class Mirror {

  private final Tensor host;
  private final Tensor operand;

  private Mirror(Tensor host, Tensor operand) {
    this.host = host;
    this.operand = operand;
  }

  /**
   * A mirror of zeros whose operand has the given type; the memory lives as long as {@code arena}.
   */
  static Mirror allocate(Arena arena, Backend backend, DType type, long... shape) {
    Tensor host = Tensor.allocate(arena, DType.FLOAT32, shape);
    boolean shared = type == DType.FLOAT32 && backend.onHost();
    return new Mirror(host, shared ? host : backend.allocate(arena, type, shape));
  }

  /** The operand for the kernels. */
  Tensor operand() {
    return operand;
  }

  /** The first {@code rows} rows of the operand: a view. */
  Tensor operand(int rows) {
    return operand.slice(0, 0, rows);
  }

  /** The host values: compact float32, row by row. */
  MemorySegment values() {
    return host.segment();
  }

  float get(long index) {
    return host.segment().getAtIndex(ValueLayout.JAVA_FLOAT, index);
  }

  void set(long index, float value) {
    host.segment().setAtIndex(ValueLayout.JAVA_FLOAT, index, value);
  }

  long elementCount() {
    return host.elementCount();
  }

  /** What the kernels see of the first {@code rows} rows: a float32 copy in host memory. */
  Tensor readOperand(Arena arena, int rows) {
    Tensor copy = Tensor.allocate(arena, DType.FLOAT32, rows, operand.size(1));
    copy.copyFrom(operand(rows));
    return copy;
  }

  /** Brings the first {@code rows} rows of the host values to the operand, rounded to its type. */
  void push(int rows) {
    if (operand != host) {
      operand(rows).copyFrom(host.slice(0, 0, rows));
    }
  }

  /** Brings all host values to the operand, rounded to its type. */
  void push() {
    push((int) host.size(0));
  }

  /** Brings the first {@code rows} rows of the operand back to the host values. */
  void pull(int rows) {
    if (operand != host) {
      host.slice(0, 0, rows).copyFrom(operand(rows));
    }
  }
}
