package io.github.dxdw.parity;

import io.github.dxdw.DType;
import io.github.dxdw.Tensor;
import java.lang.foreign.MemorySegment;

/**
 * The six functions in plain Java, by naive loops over single elements.
 *
 * <p>Everything exists twice: in float64, as the measure of all results ({@link Sums} also holds
 * the sum of magnitudes that {@link ErrorBound} needs), and in float32 in exactly the order that
 * the library promises, as the measure of bits. Operands are read from a tensor's memory by index
 * arithmetic of this class, not by the accessors under test.
 */
final class Reference {

  /** Contraction block of the promised order. */
  static final int BLOCK = 512;

  private Reference() {}

  /** A matrix inside an array; {@code transposed} swaps strides as the library does. */
  record Matrix(float[] values, int rows, int columns, int rowStride, int columnStride) {

    static Matrix of(float[] values, int rows, int columns) {
      return new Matrix(values, rows, columns, columns, 1);
    }

    Matrix transposed() {
      return new Matrix(values, columns, rows, columnStride, rowStride);
    }

    Matrix rows(int from, int to) {
      float[] part = new float[(to - from) * columns];
      for (int r = from; r < to; r++) {
        for (int c = 0; c < columns; c++) {
          part[(r - from) * columns + c] = at(r, c);
        }
      }
      return of(part, to - from, columns);
    }

    /** The values row by row. */
    float[] compact() {
      return rows(0, rows).values;
    }

    float at(int row, int column) {
      return values[row * rowStride + column * columnStride];
    }
  }

  /**
   * Per output element: {@code value} = the sum in float64, {@code magnitude} = the sum of |terms|,
   * {@code flushed} = the sum of |a·b| where a or b is subnormal as a bfloat16. {@code length}
   * counts the terms of one sum.
   */
  record Sums(double[] value, double[] magnitude, double[] flushed, long length) {

    static Sums zeros(int count, long length) {
      return new Sums(new double[count], new double[count], new double[count], length);
    }

    /** Adds what the buffer held. */
    Sums plus(float[] old) {
      for (int i = 0; i < old.length; i++) {
        value[i] += old[i];
        magnitude[i] += Math.abs(old[i]);
      }
      return this;
    }

    private void add(int i, float a, float b) {
      double product = (double) a * b;
      value[i] += product;
      magnitude[i] += Math.abs(product);
      if (subnormal(a) || subnormal(b)) {
        flushed[i] += Math.abs(product);
      }
    }
  }

  static boolean subnormal(float value) {
    return value != 0 && Math.abs(value) < Float.MIN_NORMAL;
  }

  /** Logical values of a tensor in row-major order. */
  static float[] load(Tensor tensor) {
    return load(
        tensor.segment(), tensor.dtype(), tensor.shape(), tensor.strides(), tensor.offset());
  }

  static float[] load(
      MemorySegment segment, DType type, long[] shape, long[] strides, long offset) {
    int count = 1;
    for (long size : shape) {
      count = Math.multiplyExact(count, Math.toIntExact(size));
    }
    float[] values = new float[count];
    for (int i = 0; i < count; i++) {
      values[i] = Bits.read(segment, type, element(shape, strides, offset, i));
    }
    return values;
  }

  /**
   * Where the element stands that comes {@code index}-th in row-major order; strides of size-1
   * dimensions mean nothing.
   */
  static long element(long[] shape, long[] strides, long offset, int index) {
    long at = offset;
    int rest = index;
    for (int d = shape.length - 1; d >= 0; d--) {
      long coordinate = rest % shape[d];
      rest /= (int) shape[d];
      if (shape[d] > 1) {
        at += coordinate * strides[d];
      }
    }
    return at;
  }

  // ---- float64 ----

  /** C[i,j] = sum over c of a[i,c] . b[c,j]. */
  static Sums product(Matrix a, Matrix b) {
    Sums sums = Sums.zeros(a.rows * b.columns, a.columns);
    float[] left = a.compact();
    float[] right = b.transposed().compact();
    for (int i = 0; i < a.rows; i++) {
      for (int j = 0; j < b.columns; j++) {
        for (int c = 0; c < a.columns; c++) {
          sums.add(i * b.columns + j, left[i * a.columns + c], right[j * a.columns + c]);
        }
      }
    }
    return sums;
  }

  /** dW = sum over s of partials[s]. */
  static Sums reduce(float[] partials, int split, int count) {
    Sums sums = Sums.zeros(count, split);
    for (int s = 0; s < split; s++) {
      for (int i = 0; i < count; i++) {
        sums.add(i, partials[s * count + i], 1);
      }
    }
    return sums;
  }

  /** gx[i,d] = g[i] . w[d]. */
  static Sums outer(float[] g, float[] w) {
    Sums sums = Sums.zeros(g.length * w.length, 1);
    for (int i = 0; i < g.length; i++) {
      for (int d = 0; d < w.length; d++) {
        sums.add(i * w.length + d, g[i], w[d]);
      }
    }
    return sums;
  }

  // ---- float32, in the promised order ----

  /**
   * One product in the promised order: blocks of {@link #BLOCK} along the contraction, each a chain
   * of fused multiply-adds from +0.0; the first block's sum is assigned ({@code old} null) or added
   * to the old value, each later one is added to the result so far. A contraction of length 0 gives
   * +0.0 or the old value.
   */
  static float[] orderedProduct(Matrix a, Matrix b, float[] old) {
    float[] result = new float[a.rows * b.columns];
    float[] left = a.compact();
    float[] right = b.transposed().compact();
    for (int i = 0; i < a.rows; i++) {
      for (int j = 0; j < b.columns; j++) {
        int at = i * b.columns + j;
        float total = old == null ? 0 : old[at];
        for (int from = 0; from < a.columns; from += BLOCK) {
          int to = Math.min(from + BLOCK, a.columns);
          float block = 0;
          for (int c = from; c < to; c++) {
            block = Math.fma(left[i * a.columns + c], right[j * a.columns + c], block);
          }
          total = from == 0 && old == null ? block : total + block;
        }
        result[at] = total;
      }
    }
    return result;
  }

  /**
   * dW over {@code split} slices of T: one product where split is 1, else {@link #orderedReduce}
   * over their partials.
   */
  static float[] orderedDw(Matrix x, Matrix dy, int split, float[] old) {
    if (split == 1) {
      return orderedProduct(x.transposed(), dy, old);
    }
    int count = x.columns * dy.columns;
    float[] partials = new float[Math.multiplyExact(split, count)];
    int chunk = (x.rows + split - 1) / split;
    for (int s = 0; s < split; s++) {
      int from = (int) Math.min((long) s * chunk, x.rows);
      int to = (int) Math.min((s + 1L) * chunk, x.rows);
      float[] partial = orderedProduct(x.rows(from, to).transposed(), dy.rows(from, to), null);
      System.arraycopy(partial, 0, partials, s * count, count);
    }
    return orderedReduce(partials, split, count, old);
  }

  /**
   * sum = +0.0; sum += partials[s] in rising s; then sum, or old + sum. No partials leave the old
   * value as it is.
   */
  static float[] orderedReduce(float[] partials, int split, int count, float[] old) {
    float[] result = new float[count];
    for (int i = 0; i < count; i++) {
      float sum = 0;
      for (int s = 0; s < split; s++) {
        sum += partials[s * count + i];
      }
      result[i] = old == null ? sum : split == 0 ? old[i] : old[i] + sum;
    }
    return result;
  }

  /** gx[i,d] = g[i] . w[d], one rounding to float32. */
  static float[] orderedOuter(float[] g, float[] w) {
    float[] result = new float[g.length * w.length];
    for (int i = 0; i < g.length; i++) {
      for (int d = 0; d < w.length; d++) {
        result[i * w.length + d] = g[i] * w[d];
      }
    }
    return result;
  }
}
