package io.github.dxdw.internal;

import io.github.dxdw.DType;
import java.util.Arrays;

/** Values of a view for the eye, as nested rows. */
public final class Text {
  /** Longer dimensions are abbreviated. */
  private static final long MOST = 8;

  /** Entries shown at either end of an abbreviated dimension. */
  private static final long EDGE = 3;

  private Text() {}

  /** The nested rows, without the heading. */
  public static String values(View view) {
    return values(view, view.shape());
  }

  /** As {@link #values(View)} of a view of that shape, from the values of {@link #shownShape}. */
  public static String values(View shown, long[] shape) {
    StringBuilder text = new StringBuilder();
    append(shown, shape, 0, shown.offset(), text);
    return text.toString();
  }

  /** The sizes that are left when the entries that are not shown are cut out. */
  public static long[] shownShape(long[] shape) {
    return Arrays.stream(shape).map(size -> size > MOST ? 2 * EDGE : size).toArray();
  }

  private static void append(View view, long[] shape, int dim, long position, StringBuilder text) {
    if (dim == view.rank()) {
      if (view.type() == DType.INT32) {
        text.append(Elements.getInt(view, position));
      } else {
        text.append(Elements.get(view, position));
      }
      return;
    }
    long size = shape[dim];
    // Entries that the view lacks lie behind the first edge.
    long missing = size - view.size(dim);
    boolean innermost = dim == view.rank() - 1;
    String separator =
        innermost ? ", " : "," + "\n".repeat(view.rank() - 1 - dim) + " ".repeat(dim + 1);
    text.append('[');
    for (long i = 0; i < size; ++i) {
      if (i > 0) {
        text.append(separator);
      }
      if (size > MOST && i == EDGE) {
        text.append("...");
        i = size - EDGE - 1;
        continue;
      }
      long at = i < EDGE ? i : i - missing;
      append(view, shape, dim + 1, position + at * view.stride(dim), text);
    }
    text.append(']');
  }
}
