package io.github.dxdw.internal;

/** Values of a view for the eye, as nested rows. */
public final class Text {
  /** Longer dimensions are abbreviated. */
  private static final long MOST = 8;

  /** Entries shown at either end of an abbreviated dimension. */
  private static final long EDGE = 3;

  private Text() {}

  /** The nested rows, without the heading. */
  public static String values(View view) {
    StringBuilder text = new StringBuilder();
    append(view, 0, view.offset(), text);
    return text.toString();
  }

  private static void append(View view, int dim, long position, StringBuilder text) {
    if (dim == view.rank()) {
      text.append(Elements.get(view, position));
      return;
    }
    long size = view.size(dim);
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
      append(view, dim + 1, position + i * view.stride(dim), text);
    }
    text.append(']');
  }
}
