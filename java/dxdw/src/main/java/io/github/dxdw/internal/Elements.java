package io.github.dxdw.internal;

import io.github.dxdw.DType;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/** Single elements and runs of elements of a view in host memory, read and written by Java. */
public final class Elements {
  private static final ValueLayout.OfFloat FLOAT = ValueLayout.JAVA_FLOAT_UNALIGNED;
  private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT_UNALIGNED;
  private static final ValueLayout.OfShort SHORT = ValueLayout.JAVA_SHORT_UNALIGNED;

  private Elements() {}

  /** The element that lies {@code position} elements behind the start of the segment. */
  public static float get(View view, long position) {
    if (view.isImagined()) {
      return 0;
    }
    return switch (view.type) {
      case FLOAT32 -> view.segment.get(FLOAT, position * 4);
      case FLOAT16 -> Float.float16ToFloat(view.segment.get(SHORT, position * 2));
      case BFLOAT16 -> Float.intBitsToFloat(view.segment.get(SHORT, position * 2) << 16);
      case INT32 -> throw mismatch(view, "integers", "getInt");
    };
  }

  /** The integer that lies {@code position} elements behind the start of the segment. */
  public static int getInt(View view, long position) {
    if (view.type != DType.INT32) {
      throw mismatch(view, "floats", "get");
    }
    return view.segment.get(INT, position * 4);
  }

  /** Writes that integer. */
  public static void setInt(View view, long position, int value) {
    if (view.type != DType.INT32) {
      throw mismatch(view, "floats", "set");
    }
    view.segment.set(INT, position * 4, value);
  }

  private static IllegalArgumentException mismatch(View view, String held, String use) {
    return new IllegalArgumentException(
        "tensor: " + view.describe() + " holds " + held + ": use " + use);
  }

  /** Writes that element, rounded to nearest even. */
  public static void set(View view, long position, float value) {
    if (view.isImagined()) {
      return;
    }
    switch (view.type) {
      case FLOAT32 -> view.segment.set(FLOAT, position * 4, value);
      case FLOAT16 -> view.segment.set(SHORT, position * 2, Float.floatToFloat16(value));
      case BFLOAT16 -> view.segment.set(SHORT, position * 2, toBfloat16(value));
      case INT32 -> throw mismatch(view, "integers", "setInt");
    }
  }

  /** Rounds to nearest even; NaN stays NaN, beyond the range comes infinity. */
  static short toBfloat16(float value) {
    int bits = Float.floatToRawIntBits(value);
    if (value != value) {
      return (short) (bits >>> 16 | 0x40);
    }
    return (short) (bits + 0x7fff + (bits >>> 16 & 1) >>> 16);
  }

  /** All values in row-major order of the indices. */
  public static void read(View view, float[] values) {
    if (view.count() == 0 || view.isImagined()) {
      return;
    }
    if (view.isCompact() && view.type == DType.FLOAT32) {
      MemorySegment.copy(view.segment, FLOAT, view.offset() * 4, values, 0, values.length);
      return;
    }
    read(view, 0, view.offset(), values, 0);
  }

  private static int read(View view, int dim, long position, float[] values, int at) {
    if (dim == view.rank()) {
      values[at] = get(view, position);
      return at + 1;
    }
    long size = view.size(dim);
    long stride = view.stride(dim);
    if (dim == view.rank() - 1) {
      for (long i = 0; i < size; ++i) {
        values[at++] = get(view, position + i * stride);
      }
      return at;
    }
    for (long i = 0; i < size; ++i) {
      at = read(view, dim + 1, position + i * stride, values, at);
    }
    return at;
  }

  /** Writes one value to all elements. */
  public static void fill(View view, float value) {
    if (view.count() > 0) {
      fill(view, 0, view.offset(), value);
    }
  }

  private static void fill(View view, int dim, long position, float value) {
    if (dim == view.rank()) {
      set(view, position, value);
      return;
    }
    long size = view.size(dim);
    long stride = view.stride(dim);
    if (dim == view.rank() - 1) {
      for (long i = 0; i < size; ++i) {
        set(view, position + i * stride, value);
      }
      return;
    }
    for (long i = 0; i < size; ++i) {
      fill(view, dim + 1, position + i * stride, value);
    }
  }
}
