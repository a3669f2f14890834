package io.github.dxdw;

/**
 * Element type of a {@link Tensor}. Whatever the type of the operands, products and sums are
 * accumulated in float32 and rounded once, at the end, to nearest even. {@link #INT32} is for
 * labels; functions that compute with floats refuse it.
 */
public enum DType {
  /** IEEE 754 binary32. */
  FLOAT32(4),
  /** IEEE 754 binary16: 10 bits of fraction, largest finite value 65504. */
  FLOAT16(2),
  /** The upper half of a binary32: 7 bits of fraction, the range of float32. */
  BFLOAT16(2),
  /** 32-bit integers, for labels. */
  INT32(4);

  private final int byteSize;

  DType(int byteSize) {
    this.byteSize = byteSize;
  }

  /**
   * Tells how much memory one element takes.
   *
   * @return bytes of one element
   */
  public int byteSize() {
    return byteSize;
  }

  /** Returns the name in lower case, such as {@code "float32"}. */
  @Override
  public String toString() {
    return switch (this) {
      case FLOAT32 -> "float32";
      case FLOAT16 -> "float16";
      case BFLOAT16 -> "bfloat16";
      case INT32 -> "int32";
    };
  }
}
