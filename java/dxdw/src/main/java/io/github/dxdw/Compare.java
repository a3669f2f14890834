package io.github.dxdw;

import io.github.dxdw.internal.Arguments;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.function.IntToDoubleFunction;

/**
 * What a comparison of two tensors found: the element that is worst, and whether rounding explains
 * it. Immutable.
 *
 * @param index where that element is
 * @param a its value in the first tensor
 * @param b its value in the second
 * @param ulps how many units in the last place, of the coarser type, the two are apart; infinite
 *     where one of them alone is NaN or infinite
 * @param difference how far they are apart
 * @param allowed how far rounding may bring them apart
 * @param outside how many elements are farther apart than that
 * @param elements how many elements there are
 */
public record Compare(
    List<Long> index,
    float a,
    float b,
    double ulps,
    double difference,
    double allowed,
    long outside,
    long elements) {

  /**
   * Refuses an index that is null.
   *
   * @throws IllegalArgumentException if it is
   */
  public Compare {
    index = List.copyOf(Arguments.present(index, "index"));
  }

  /**
   * Compares two results that should be roundings of the same numbers: neighbours in the coarser of
   * the two types are allowed, no more.
   *
   * @param a a tensor on any device, with any strides
   * @param b another one of the same shape
   * @return the element that is most units in the last place apart
   * @throws IllegalArgumentException if an argument is null or shapes differ
   * @throws IllegalStateException if memory is closed, or there are more elements than an array
   *     holds
   */
  public static Compare report(Tensor a, Tensor b) {
    DType type = coarser(a, b);
    float[] left = a.toFloatArray();
    float[] right = b.toFloatArray();
    return worst(a, left, right, i -> ulp(left[i], right[i], type), type);
  }

  /**
   * Compares two results of the same sums of products, computed in whatever order, on whatever
   * devices: each may be off by its bound.
   *
   * @param a a tensor on any device, with any strides
   * @param b another one of the same shape
   * @param bound how far each may lie from the exact sums
   * @param magnitudes for each element the sum of |a||b| over its terms: such as the same product
   *     of absolute values. A tensor of the same shape; one number {@linkplain Tensor#expand
   *     expanded} to it is good enough if it is large enough
   * @return the element that is farthest apart, measured by what is allowed
   * @throws IllegalArgumentException if an argument is null or shapes differ
   * @throws IllegalStateException if memory is closed, or there are more elements than an array
   *     holds
   */
  public static Compare report(Tensor a, Tensor b, ErrorBound bound, Tensor magnitudes) {
    Arguments.present(bound, "bound");
    DType type = coarser(a, b);
    checkShape(a, magnitudes, "magnitudes");
    float[] left = a.toFloatArray();
    float[] right = b.toFloatArray();
    float[] magnitude = magnitudes.toFloatArray();
    return worst(
        a,
        left,
        right,
        i -> bound.of(left[i], magnitude[i]) + bound.of(right[i], magnitude[i]),
        type);
  }

  /**
   * Does rounding explain all differences?
   *
   * @return true if so
   */
  public boolean inside() {
    return outside == 0;
  }

  private static DType coarser(Tensor a, Tensor b) {
    Arguments.present(a, "a");
    checkShape(a, b, "b");
    if (a.dtype() == DType.BFLOAT16 || b.dtype() == DType.BFLOAT16) {
      return DType.BFLOAT16;
    }
    return a.dtype() == DType.FLOAT16 ? a.dtype() : b.dtype();
  }

  private static void checkShape(Tensor a, Tensor other, String name) {
    Arguments.present(other, name);
    if (!Arrays.equals(a.shape(), other.shape())) {
      throw new IllegalArgumentException(
          name
              + ": shape "
              + Arrays.toString(other.shape())
              + " differs from "
              + Arrays.toString(a.shape())
              + " of a");
    }
  }

  private static Compare worst(
      Tensor shape, float[] a, float[] b, IntToDoubleFunction allowed, DType type) {
    int worst = 0;
    double most = -1;
    long outside = 0;
    for (int i = 0; i < a.length; ++i) {
      double difference = difference(a[i], b[i]);
      double room = allowed.applyAsDouble(i);
      boolean finite = difference < Double.POSITIVE_INFINITY;
      outside += difference == 0 || finite && difference <= room ? 0 : 1;
      double ratio =
          difference == 0 ? 0 : finite && room > 0 ? difference / room : Double.POSITIVE_INFINITY;
      if (ratio > most) {
        most = ratio;
        worst = i;
      }
    }
    if (a.length == 0) {
      return new Compare(List.of(), 0, 0, 0, 0, 0, 0, 0);
    }
    double difference = difference(a[worst], b[worst]);
    return new Compare(
        index(shape, worst),
        a[worst],
        b[worst],
        difference == 0 ? 0 : difference / ulp(a[worst], b[worst], type),
        difference,
        allowed.applyAsDouble(worst),
        outside,
        a.length);
  }

  /** 0 for equal values and for two NaN, infinite for a NaN or an infinity on one side. */
  private static double difference(float a, float b) {
    if (a == b || a != a && b != b) {
      return 0;
    }
    double difference = Math.abs((double) a - b);
    return difference == difference ? difference : Double.POSITIVE_INFINITY;
  }

  /** The unit in the last place of the larger one. */
  private static double ulp(float a, float b, DType type) {
    float larger = Math.max(Math.abs(a), Math.abs(b));
    if (!(larger < Float.POSITIVE_INFINITY)) {
      return 0x1p104;
    }
    int exponent = Math.getExponent(larger);
    return switch (type) {
      case BFLOAT16 -> Math.scalb(1.0, Math.max(exponent, Float.MIN_EXPONENT) - 7);
      case FLOAT16 -> Math.scalb(1.0, Math.max(exponent, -14) - 10);
      default -> Math.ulp(larger);
    };
  }

  private static List<Long> index(Tensor shape, long position) {
    List<Long> index = new ArrayList<>();
    for (int d = shape.rank() - 1; d >= 0; --d) {
      index.addFirst(position % shape.size(d));
      position /= shape.size(d);
    }
    return index;
  }

  /**
   * One line, such as {@code "worst of 6 at [1, 2]: 3.0 and 3.0000002, 1.0 ulp apart, 2.4e-07 where
   * rounding allows 3.1e-07"}.
   */
  @Override
  public String toString() {
    return String.format(
        Locale.ROOT,
        "worst of %d at %s: %s and %s, %.1f ulp apart, %.2e where rounding allows %.2e%s",
        elements,
        index,
        a,
        b,
        ulps,
        difference,
        allowed,
        outside == 0 ? "" : ", " + outside + " OUTSIDE");
  }
}
