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
  /** float32 operands may be rounded to 10 bits of fraction where the device has a TF32 unit. */
  TF32,
  /** float32 operands may be split into three bfloat16 parts for the matrix unit of a GPU. */
  BF16X3
}
