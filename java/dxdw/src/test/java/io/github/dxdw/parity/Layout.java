package io.github.dxdw.parity;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.random.RandomGenerator;

/**
 * How an operand of some rank lies in memory, whatever its sizes.
 *
 * @param order dimensions from the slowest to the fastest
 * @param step 1 = next to each other, 2 = every second element, per dimension
 * @param pad elements left free after each run of a dimension
 * @param reversed dimensions walked from the end, with a negative stride
 * @param expanded dimensions of stride 0 (inputs only)
 * @param offset elements left free in front
 * @param unitStride stride given to dimensions of size 1, where it means nothing; null = what the
 *     layout would have
 */
record Layout(
    int[] order,
    int[] step,
    int[] pad,
    boolean[] reversed,
    boolean[] expanded,
    int offset,
    Long unitStride) {

  private static final long[] UNIT_STRIDES = {
    0, 1, -7, 12345, 999999, Long.MAX_VALUE, Long.MIN_VALUE
  };

  static Layout dense(int rank) {
    int[] order = new int[rank];
    Arrays.setAll(order, d -> d);
    int[] ones = new int[rank];
    Arrays.fill(ones, 1);
    return new Layout(order, ones, new int[rank], new boolean[rank], new boolean[rank], 0, null);
  }

  static Layout draw(RandomGenerator random, int rank, boolean output) {
    Layout layout = dense(rank);
    if (rank == 0 || random.nextInt(4) == 0) {
      return random.nextBoolean() ? layout : layout.withOffset(random.nextInt(1, 4));
    }
    if (random.nextInt(2) == 0) {
      for (int d = rank - 1; d > 0; d--) {
        int other = random.nextInt(d + 1);
        int swap = layout.order[d];
        layout.order[d] = layout.order[other];
        layout.order[other] = swap;
      }
    }
    for (int d = 0; d < rank; d++) {
      layout.step[d] = random.nextInt(5) == 0 ? 2 : 1;
      layout.pad[d] = random.nextInt(3) == 0 ? random.nextInt(1, 9) : 0;
      layout.reversed[d] = random.nextInt(6) == 0;
      layout.expanded[d] = !output && random.nextInt(8) == 0;
    }
    Long unit =
        random.nextInt(3) == 0
            ? Long.valueOf(UNIT_STRIDES[random.nextInt(UNIT_STRIDES.length)])
            : null;
    return new Layout(
        layout.order,
        layout.step,
        layout.pad,
        layout.reversed,
        layout.expanded,
        random.nextInt(3) == 0 ? random.nextInt(1, 4) : 0,
        unit);
  }

  Layout withOffset(int elements) {
    return new Layout(order, step, pad, reversed, expanded, elements, unitStride);
  }

  /** The same with dimensions in another order, slowest first. */
  Layout ordered(int... order) {
    return new Layout(order, step, pad, reversed, expanded, offset, unitStride);
  }

  /** The same with so many elements left free after each run of the fastest dimension. */
  Layout padded(int elements) {
    int[] pads = with(pad, order[order.length - 1], elements);
    return new Layout(order, step, pads, reversed, expanded, offset, unitStride);
  }

  /**
   * A layout for given sizes: strides and the place of element 0 in elements, and how many elements
   * the memory needs.
   */
  record Placed(long[] shape, long[] strides, long offset, long elements) {}

  Placed place(long[] shape) {
    long[] strides = new long[shape.length];
    long run = 1;
    long origin = 0;
    long last = 0;
    boolean empty = false;
    for (int position = shape.length - 1; position >= 0; position--) {
      int d = order[position];
      empty |= shape[d] == 0;
      long stride = expanded[d] ? 0 : run * step[d];
      long size = Math.max(shape[d], 1);
      if (!expanded[d]) {
        run = stride * size + pad[d];
      }
      long reach = stride * (size - 1);
      last += reach;
      strides[d] = reversed[d] ? -stride : stride;
      origin += reversed[d] ? reach : 0;
      if (shape[d] == 1 && unitStride != null) {
        strides[d] = unitStride;
      }
    }
    return empty
        ? new Placed(shape, strides, 0, 0)
        : new Placed(shape, strides, offset + origin, offset + last + 1);
  }

  /** Layouts one trait simpler than this one. */
  List<Layout> simpler() {
    List<Layout> found = new ArrayList<>();
    int rank = order.length;
    Layout plain = dense(rank);
    if (offset > 1) {
      found.add(withOffset(1));
    }
    if (offset > 0) {
      found.add(withOffset(0));
    }
    if (unitStride != null) {
      found.add(new Layout(order, step, pad, reversed, expanded, offset, null));
    }
    if (!Arrays.equals(order, plain.order)) {
      found.add(new Layout(plain.order, step, pad, reversed, expanded, offset, unitStride));
    }
    for (int d = 0; d < rank; d++) {
      if (step[d] != 1) {
        found.add(new Layout(order, with(step, d, 1), pad, reversed, expanded, offset, unitStride));
      }
      if (pad[d] > 1) {
        found.add(new Layout(order, step, with(pad, d, 1), reversed, expanded, offset, unitStride));
      }
      if (pad[d] > 0) {
        found.add(new Layout(order, step, with(pad, d, 0), reversed, expanded, offset, unitStride));
      }
      if (reversed[d]) {
        found.add(new Layout(order, step, pad, without(reversed, d), expanded, offset, unitStride));
      }
      if (expanded[d]) {
        found.add(new Layout(order, step, pad, reversed, without(expanded, d), offset, unitStride));
      }
    }
    return found;
  }

  private static int[] with(int[] values, int at, int value) {
    int[] copy = values.clone();
    copy[at] = value;
    return copy;
  }

  private static boolean[] without(boolean[] values, int at) {
    boolean[] copy = values.clone();
    copy[at] = false;
    return copy;
  }
}
