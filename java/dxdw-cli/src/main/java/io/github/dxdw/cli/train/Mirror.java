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

  /** The views of the first rows that were asked for last: most batches have as many. */
  private Tensor hostRows;

  private Tensor operandRows;

  private Mirror(Tensor host, Tensor operand) {
    this.host = host;
    this.operand = operand;
    this.hostRows = host;
    this.operandRows = operand;
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
    if (operandRows.size(0) != rows) {
      operandRows = operand.slice(0, 0, rows);
    }
    return operandRows;
  }

  private Tensor host(int rows) {
    if (hostRows.size(0) != rows) {
      hostRows = host.slice(0, 0, rows);
    }
    return hostRows;
  }

  /** The host values: compact float32, row by row. */
  MemorySegment values() {
    return host.segment();
  }

  /** Copies row {@code row} of the host values into {@code line}. */
  void readRow(int row, float[] line) {
    long bytes = (long) line.length * Float.BYTES;
    MemorySegment.copy(values(), ValueLayout.JAVA_FLOAT, row * bytes, line, 0, line.length);
  }

  /** Copies {@code line} into row {@code row} of the host values. */
  void writeRow(int row, float[] line) {
    long bytes = (long) line.length * Float.BYTES;
    MemorySegment.copy(line, 0, values(), ValueLayout.JAVA_FLOAT, row * bytes, line.length);
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
      operand(rows).copyFrom(host(rows));
    }
  }

  /** Brings all host values to the operand, rounded to its type. */
  void push() {
    push((int) host.size(0));
  }

  /** Brings the first {@code rows} rows of the operand back to the host values. */
  void pull(int rows) {
    if (operand != host) {
      host(rows).copyFrom(operand(rows));
    }
  }
}
