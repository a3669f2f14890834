package io.github.dxdw.internal;

/** Checks of single arguments. */
public final class Arguments {
  private Arguments() {}

  /** Refuses null, in the words of the native checks. */
  public static <T> T present(T argument, String name) {
    if (argument == null) {
      throw new IllegalArgumentException(name + ": is null");
    }
    return argument;
  }

  /** Refuses an index outside 0 to count - 1. */
  public static int dimension(int dim, int rank, String name) {
    if (dim < 0 || dim >= rank) {
      throw new IndexOutOfBoundsException(
          name + ": " + dim + " is outside 0 to " + (rank - 1) + ", the rank is " + rank);
    }
    return dim;
  }
}
