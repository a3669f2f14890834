package io.github.dxdw;

import io.github.dxdw.internal.Arguments;

/**
 * How far a computed sum of products may lie from the exact one, by rounding alone: what is farther
 * off is a mistake. The bound follows from the types and the number of terms, holds for any order
 * of the sum, any split and any device, and covers the difference between devices, too.
 *
 * <p>With n = 2 &middot; contraction + 4 roundings (as many additions as terms, as many slices at
 * most, the old value, the product), u = 2<sup>-24</sup> for float32 operands and 2<sup>-23</sup>
 * for 16-bit ones, whose sums the matrix units of GPUs cut off instead of rounding, and gamma = n u
 * / (1 - n u), the sum s of terms a<sub>i</sub> b<sub>i</sub> is off by at most
 *
 * <pre>
 *   e = gamma &middot; sum |a_i| |b_i| + n &middot; 2^-126
 * </pre>
 *
 * (Higham, "Accuracy and Stability of Numerical Algorithms", section 3.1), and after the one
 * rounding to the result's type, of unit v, by e + v (|s| + e). Where n u reaches 1, from about
 * 2<sup>23</sup> float32 terms and 2<sup>22</sup> 16-bit ones on, that is infinite. Operands that
 * are subnormal as bfloat16 count as zero in some units and are outside of this. Immutable.
 *
 * @param operands type of the factors
 * @param result type of the stored sum
 * @param contraction number of terms
 */
public record ErrorBound(DType operands, DType result, long contraction) {
  private static final double SMALLEST = 0x1p-126;

  /**
   * Checks the values.
   *
   * @throws IllegalArgumentException if a type is null or int32, or the number of terms negative
   */
  public ErrorBound {
    checkType(operands, "operands");
    checkType(result, "result");
    if (contraction < 0) {
      throw new IllegalArgumentException("contraction: " + contraction + " is negative");
    }
  }

  private static void checkType(DType type, String name) {
    if (Arguments.present(type, name) == DType.INT32) {
      throw new IllegalArgumentException(
          name + ": type is int32, expected float32, float16 or bfloat16");
    }
  }

  /**
   * The bound of sums of that many products.
   *
   * @param type type of the factors and of the stored sum
   * @param contraction number of terms
   * @return the bound
   * @throws IllegalArgumentException if the type is null or int32, or the number of terms negative
   */
  public static ErrorBound of(DType type, long contraction) {
    return new ErrorBound(type, type, contraction);
  }

  /**
   * The bound of one result.
   *
   * @param value the exact sum, or about that
   * @param magnitude sum of |a||b| over all terms, the old value included where it was added to
   * @return how far the result may lie from the exact sum
   */
  public double of(double value, double magnitude) {
    double roundings = 2.0 * contraction + 4;
    double unit = operands == DType.FLOAT32 ? 0x1p-24 : 0x1p-23;
    double error = roundings * SMALLEST;
    if (magnitude != 0) {
      error += roundings * unit / Math.max(1 - roundings * unit, 0) * magnitude;
    }
    double last = unit(result);
    double rounding = last == 0 ? 0 : last * (Math.abs(value) + error);
    return error + rounding + smallest(result);
  }

  /** Largest relative error of one rounding to a type. */
  private static double unit(DType type) {
    return switch (type) {
      case FLOAT16 -> 0x1p-11;
      case BFLOAT16 -> 0x1p-8;
      // The sum is one already.
      default -> 0;
    };
  }

  private static double smallest(DType type) {
    return type == DType.FLOAT16 ? 0x1p-25 : SMALLEST;
  }
}
