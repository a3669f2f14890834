package io.github.dxdw.parity;

import io.github.dxdw.DType;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * The 16-bit types in plain Java: what a stored pattern is worth, and which pattern a value
 * becomes.
 */
final class Bits {
  /** The types that kernels compute with. */
  static final DType[] FLOATS = {DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16};

  private Bits() {}

  static float bfloat16ToFloat(short bits) {
    return Float.intBitsToFloat(bits << 16);
  }

  /**
   * To nearest, ties to even; a NaN stays a NaN (made quiet); beyond the largest bfloat16 comes
   * infinity.
   */
  static short floatToBfloat16(float value) {
    int bits = Float.floatToRawIntBits(value);
    if (Float.isNaN(value)) {
      return (short) (bits >>> 16 | 0x0040);
    }
    int even = bits >>> 16 & 1;
    return (short) (bits + 0x7FFF + even >>> 16);
  }

  static float float16ToFloat(short bits) {
    return Float.float16ToFloat(bits);
  }

  static short floatToFloat16(float value) {
    return Float.floatToFloat16(value);
  }

  /** The float32 value rounded to {@code type}. */
  static float round(DType type, float value) {
    return switch (type) {
      case FLOAT32 -> value;
      case FLOAT16 -> float16ToFloat(floatToFloat16(value));
      case BFLOAT16 -> bfloat16ToFloat(floatToBfloat16(value));
      case INT32 -> throw new IllegalArgumentException("no float type");
    };
  }

  /**
   * The real number {@code value} rounded once to {@code type}, to nearest even. Going through
   * float32 first would round twice, so for 16 bits the float32 step is made odd: a last bit that
   * is set whenever anything was cut off.
   */
  static float roundOnce(DType type, double value) {
    float near = (float) value;
    if (type == DType.FLOAT32 || near == value || Double.isNaN(value) || Double.isInfinite(value)) {
      return round(type, near);
    }
    float towardsZero =
        Math.abs((double) near) > Math.abs(value)
            ? Float.intBitsToFloat(Float.floatToRawIntBits(near) - 1)
            : near;
    return round(type, Float.intBitsToFloat(Float.floatToRawIntBits(towardsZero) | 1));
  }

  static float read(MemorySegment segment, DType type, long element) {
    return switch (type) {
      case FLOAT32 -> segment.get(ValueLayout.JAVA_FLOAT_UNALIGNED, element * 4);
      case FLOAT16 -> float16ToFloat(segment.get(ValueLayout.JAVA_SHORT_UNALIGNED, element * 2));
      case BFLOAT16 -> bfloat16ToFloat(segment.get(ValueLayout.JAVA_SHORT_UNALIGNED, element * 2));
      case INT32 -> segment.get(ValueLayout.JAVA_INT_UNALIGNED, element * 4);
    };
  }

  static void write(MemorySegment segment, DType type, long element, float value) {
    switch (type) {
      case FLOAT32 -> segment.set(ValueLayout.JAVA_FLOAT_UNALIGNED, element * 4, value);
      case FLOAT16 ->
          segment.set(ValueLayout.JAVA_SHORT_UNALIGNED, element * 2, floatToFloat16(value));
      case BFLOAT16 ->
          segment.set(ValueLayout.JAVA_SHORT_UNALIGNED, element * 2, floatToBfloat16(value));
      case INT32 -> segment.set(ValueLayout.JAVA_INT_UNALIGNED, element * 4, (int) value);
    }
  }

  /** Same bits, or both NaN of whatever payload. */
  static boolean same(float a, float b) {
    return Float.floatToRawIntBits(a) == Float.floatToRawIntBits(b)
        || Float.isNaN(a) && Float.isNaN(b);
  }

  static String show(float value) {
    return "%s (0x%08X)".formatted(value, Float.floatToRawIntBits(value));
  }
}
