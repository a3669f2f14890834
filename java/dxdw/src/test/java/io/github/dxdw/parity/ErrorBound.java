package io.github.dxdw.parity;

import io.github.dxdw.DType;
import io.github.dxdw.Precision;

/**
 * How far a result may lie from the exact sum, from the types and the length of the contraction
 * alone.
 *
 * <p>With u = 2<sup>-24</sup>, the unit roundoff of float32, and gamma(n) = n u / (1 - n u), a sum
 * s = old + sum over c of a<sub>c</sub> b<sub>c</sub> whose terms each pass through at most n
 * float32 roundings is off by at most
 *
 * <pre>
 *   e = gamma(n) . (|old| + sum |a_c| |b_c|)  +  n . 2^-150
 *   n = length + split + 2
 * </pre>
 *
 * in whatever order it is taken: at most length - 1 additions within a slice (split of them), split
 * additions of slices, one of the old value, and one rounding of each product where the chip has no
 * fused multiply-add. The last term is half a float32 subnormal for each rounding.
 *
 * <p>bfloat16 operands in the default precision may go through a dot-product unit that takes
 * subnormal operands and results as zero. That adds
 *
 * <pre>
 *   n . 2^-126  +  sum of |a_c| |b_c| over the terms with a subnormal operand
 * </pre>
 *
 * <p>The matrix units of a GPU, which 16-bit operands go through there in the default precision,
 * cut sums off where others round them: u is twice as large for them.
 *
 * <p>Kernels that take float32 operands through a matrix unit by name round the operands first:
 * TF32 keeps 11 bits of each, fewer of subnormals, so that a product is off by at most 1.004 .
 * 2<sup>-10</sup> of itself, or lost with a subnormal operand; of three bfloat16 parts, products
 * below 2<sup>-22</sup> of the whole are left out.
 *
 * <p>Atomic additions of a GPU take subnormal float32 values, and give subnormal sums, as zero:
 * each slice and each sum of slices adds at most 2^-126.
 *
 * <p>Where all terms are multiples of some q = 2^k and |old| + sum |a_c| |b_c| &lt;= 2^24 q, every
 * partial sum in every order is a float32 (q is at least the smallest float32, or the smallest
 * normal one in the mode above): then e = 0. TF32 wants 2^11 q, so that no operand is rounded. Data
 * of small integers therefore shows a lost product at any length, where gamma(n) alone would hide
 * it.
 *
 * <p>The output type rounds once, to nearest even: the result lies between round(s - e) and round(s
 * + e). That is at most half an ulp of the output type more than e, and is exact about ties,
 * overflow to infinity and subnormals. A float32 output is the sum itself and lies between s - e
 * and s + e. s is NaN or infinite exactly where the result must be.
 *
 * <p>The distance of two results that both obey it, say one from the CPU and one from a GPU, is at
 * most the distance of its two ends.
 */
final class ErrorBound {

  private static final double UNIT = 0x1p-24;

  private final DType output;
  private final boolean flushes;
  private final double unit;
  private final double products;
  private final double lossless;
  private final boolean losesSubnormals;
  private final boolean parts;
  private final long flushedSums;
  private final long roundings;

  private ErrorBound(
      DType output,
      boolean flushes,
      double unit,
      double products,
      double lossless,
      boolean losesSubnormals,
      boolean parts,
      long roundings,
      long flushedSums) {
    this.output = output;
    this.flushes = flushes;
    this.unit = unit;
    this.products = products;
    this.lossless = lossless;
    this.losesSubnormals = losesSubnormals;
    this.parts = parts;
    this.roundings = roundings;
    this.flushedSums = flushedSums;
  }

  /**
   * The bound for sums of {@code length} products of {@code input} elements in {@code split}
   * slices, stored as {@code output}.
   */
  static ErrorBound of(DType input, DType output, Precision precision, long length, int split) {
    return of(input, output, precision, length, split, false, "", Float.MAX_VALUE);
  }

  /**
   * As above; {@code atomic}: slices are added to the output atomically; {@code kernel}: as the
   * plan names it.
   */
  static ErrorBound of(
      DType input,
      DType output,
      Precision precision,
      long length,
      int split,
      boolean atomic,
      String kernel,
      float smallest) {
    boolean flushes = input == DType.BFLOAT16 && precision != Precision.EXACT;
    boolean tf32 = kernel.contains("tf32");
    boolean parts = kernel.contains("bf16x3");
    boolean matrixUnit = !Kernels.onCpu() && input != DType.FLOAT32 && precision != Precision.EXACT;
    return new ErrorBound(
        output,
        flushes,
        matrixUnit || tf32 || parts ? 2 * UNIT : UNIT,
        tf32 ? 0x1.01p-10 : parts ? lostByParts(smallest) : 0,
        tf32 ? 0x1p11 : 0x1p24,
        flushes || tf32 || parts,
        parts,
        length + split + 2,
        atomic && !Kernels.onCpu() ? 2L * split + 2 : 0);
  }

  private static double lostByParts(float smallest) {
    return smallest < 0x1p-117f ? 0x1p-7 : smallest < 0x1p-109f ? 0x1p-15 : 0x1p-22;
  }

  /** gamma(n). */
  double gamma() {
    return roundings * unit / (1 - roundings * unit);
  }

  /**
   * e of the formula above.
   *
   * @param magnitude |old| + sum of |a||b|
   * @param flushed sum of |a||b| over terms with a subnormal operand
   * @param quantum a power of two of which all terms are multiples; 0 when none is known
   */
  double error(double magnitude, double flushed, double quantum) {
    boolean exact =
        quantum >= (flushes || flushedSums > 0 ? Float.MIN_NORMAL : Float.MIN_VALUE)
            && magnitude <= lossless * quantum
            && magnitude <= Float.MAX_VALUE
            && !(losesSubnormals && flushed > 0);
    if (exact) {
      return 0;
    }
    double error = (gamma() + products) * magnitude + roundings * 0x1p-150;
    error += flushedSums * 0x1p-126;
    if (flushes) {
      error += roundings * 0x1p-126;
    }
    if (losesSubnormals) {
      error += flushed;
    }
    return error + magnitude * roundings * 0x1p-53;
  }

  /** Whether {@code got} is a result that the bound allows for the exact sum {@code exact}. */
  boolean admits(float got, double exact, double magnitude, double error) {
    if (Double.isNaN(exact)) {
      return Float.isNaN(got);
    }
    if (Double.isInfinite(exact)) {
      return got == exact || (parts && Float.isNaN(got));
    }
    if (magnitude + error > Float.MAX_VALUE && !Float.isFinite(got)) {
      return true;
    }
    if (output == DType.FLOAT32 && Float.isFinite(got)) {
      return Math.abs(got - exact) <= error;
    }
    return got >= Bits.roundOnce(output, exact - error)
        && got <= Bits.roundOnce(output, exact + error);
  }

  /** The largest power of two of which all finite values are multiples; 1 when all are zero. */
  static double quantum(float... values) {
    int lowest = Integer.MAX_VALUE;
    for (float value : values) {
      if (value != 0 && Float.isFinite(value)) {
        int bits = Float.floatToRawIntBits(value);
        int mantissa = (bits & 0x7FFFFF) | (Math.abs(value) < Float.MIN_NORMAL ? 0 : 0x800000);
        int exponent = Math.max(Math.getExponent(value), Float.MIN_EXPONENT) - 23;
        lowest = Math.min(lowest, exponent + Integer.numberOfTrailingZeros(mantissa));
      }
    }
    return lowest == Integer.MAX_VALUE ? 1 : Math.scalb(1.0, lowest);
  }

  /** The least magnitude that is not zero. */
  static float smallest(float... values) {
    float least = Float.MAX_VALUE;
    for (float value : values) {
      if (value != 0) {
        least = Math.min(least, Math.abs(value));
      }
    }
    return least;
  }

  @Override
  public String toString() {
    return "%d roundings, products off by %s, stored as %s%s"
        .formatted(roundings, products, output, flushes ? ", subnormals may be flushed" : "");
  }
}
