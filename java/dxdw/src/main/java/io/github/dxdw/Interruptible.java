package io.github.dxdw;

/**
 * Calls on the CPU that look, between parts, whether their thread was interrupted. Parts are rows
 * of the output, each of which has the same bits whichever rows are computed with it; a slice of
 * the contraction would not do.
 */
final class Interruptible {
  /** Multiplications of a part, for each thread: some ten milliseconds. */
  private static final long WORK = 1L << 29;

  /** Elements that a part of a weighted sum or a reduction reads, for each thread. */
  private static final long ELEMENTS = 1L << 25;

  /** Parts of fewer rows would spend their time on packing the weights again and again. */
  private static final long LEAST_ROWS = 128;

  private Interruptible() {}

  /** Should a call with these options be cut? */
  static boolean wanted(Options options) {
    return options != null && options.interruptible();
  }

  /** A part of a call. */
  private interface Part {
    void run(long from, long to);
  }

  private static void each(
      String function, long rows, double each, long work, boolean empty, Part part) {
    double budget = (double) work * Dxdw.threads();
    long step = Math.max(LEAST_ROWS, (long) (budget / Math.max(each, 1)) / 64 * 64);
    if (empty) {
      // Any number of rows without elements is no work.
      step = rows;
    }
    long from = 0;
    do {
      if (Thread.currentThread().isInterrupted()) {
        throw new CallInterruptedException(function, from, rows);
      }
      long to = rows - from <= step ? rows : from + step;
      part.run(from, to);
      from = to;
    } while (from < rows);
  }

  private static boolean isEmpty(Tensor tensor) {
    return tensor.elementCount() == 0;
  }

  static void y(Tensor x, Tensor w, Tensor y, Options options) {
    Options plain = options.withInterruptible(false);
    Dxdw.explainY(x, w, y, plain);
    if (!y.device().isCpu()) {
      Dxdw.y(x, w, y, plain);
      return;
    }
    each(
        "y",
        y.size(0),
        (double) w.elementCount(),
        WORK,
        isEmpty(y),
        (from, to) -> Dxdw.y(x.slice(0, from, to), w, y.slice(0, from, to), plain));
  }

  static void dx(Tensor dy, Tensor w, Tensor dx, Options options) {
    Options plain = options.withInterruptible(false);
    Dxdw.explainDx(dy, w, dx, plain);
    if (!dx.device().isCpu()) {
      Dxdw.dx(dy, w, dx, plain);
      return;
    }
    each(
        "dx",
        dx.size(0),
        (double) w.elementCount(),
        WORK,
        isEmpty(dx),
        (from, to) -> Dxdw.dx(dy.slice(0, from, to), w, dx.slice(0, from, to), plain));
  }

  static void dw(Tensor x, Tensor dy, Tensor dw, int split, Reduction reduction, Options options) {
    Options plain = options.withInterruptible(false);
    // What the library chooses for the whole counts for all parts: the order of sums hangs on it.
    int slices = Dxdw.explainDw(x, dy, dw, split, reduction, plain).split();
    if (!dw.device().isCpu()) {
      Dxdw.dw(x, dy, dw, split, reduction, plain);
      return;
    }
    each(
        "dw",
        dw.size(0),
        (double) dy.elementCount(),
        WORK,
        isEmpty(dw),
        (from, to) ->
            Dxdw.dw(x.slice(1, from, to), dy, dw.slice(0, from, to), slices, reduction, plain));
  }

  static void dwReduce(Tensor partials, Tensor dw, Options options) {
    Options plain = options.withInterruptible(false);
    Dxdw.explainDwReduce(partials, dw, plain);
    if (!dw.device().isCpu()) {
      Dxdw.dwReduce(partials, dw, plain);
      return;
    }
    each(
        "dwReduce",
        dw.size(0),
        (double) partials.size(0) * dw.size(1),
        ELEMENTS,
        isEmpty(dw),
        (from, to) -> Dxdw.dwReduce(partials.slice(1, from, to), dw.slice(0, from, to), plain));
  }

  static void weightedSum(Tensor x, Tensor w, Tensor y, Options options) {
    Options plain = options.withInterruptible(false);
    Dxdw.explainWeightedSum(x, w, y, plain);
    if (!y.device().isCpu() || y.rank() == 0) {
      Dxdw.weightedSum(x, w, y, plain);
      return;
    }
    each(
        "weightedSum",
        y.size(0),
        (double) x.elementCount() / Math.max(1, y.size(0)),
        ELEMENTS,
        isEmpty(y),
        (from, to) -> Dxdw.weightedSum(x.slice(0, from, to), w, y.slice(0, from, to), plain));
  }

  static void weightedSumBackward(
      Tensor x, Tensor w, Tensor g, Tensor gx, Tensor gw, Options options) {
    Options plain = options.withInterruptible(false);
    Dxdw.explainWeightedSumBackward(x, w, g, gx, gw, plain);
    if (!x.device().isCpu()) {
      Dxdw.weightedSumBackward(x, w, g, gx, gw, plain);
      return;
    }
    int last = x.rank() - 1;
    each(
        "weightedSumBackward",
        w.size(0),
        (double) g.elementCount(),
        ELEMENTS,
        (gx == null || isEmpty(gx)) && (gw == null || isEmpty(gw)),
        (from, to) ->
            Dxdw.weightedSumBackward(
                x.slice(last, from, to),
                w.slice(0, from, to),
                g,
                gx == null ? null : gx.slice(last, from, to),
                gw == null ? null : gw.slice(0, from, to),
                plain));
  }
}
