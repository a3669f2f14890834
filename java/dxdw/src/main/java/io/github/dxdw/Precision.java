package io.github.dxdw;

/** How products are formed. float32 operands are multiplied as float32 unless asked otherwise. */
public enum Precision {
  /**
   * float32 operands: float32 multiply-add. 16-bit operands: exact products, float32 sums, through
   * the chip's 16-bit matrix or dot-product unit where it has one. On x86 CPUs with AVX512-BF16
   * that unit takes bfloat16 operands, and takes subnormal ones as zero.
   */
  DEFAULT,
  /** As {@link #DEFAULT}, but 16-bit operands are widened and go through float32 multiply-add. */
  EXACT,
  /**
   * float32 operands are rounded to TF32 (10 bits behind the point) and multiplied by the matrix
   * unit of GPUs of compute capability 9.0, in products large enough for it; elsewhere as {@link
   * #DEFAULT}. The error is some 250 times that of float32 multiply-add.
   */
  TF32,
  /**
   * float32 operands are split into three bfloat16 parts each, whose products the matrix unit of
   * GPUs of compute capability 9.0 forms, in products large enough for it; elsewhere as {@link
   * #DEFAULT}. As exact as float32 multiply-add, and faster; infinite operands give NaN.
   */
  BF16X3
}
