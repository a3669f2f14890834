package io.github.dxdw.cli.train;

import java.util.concurrent.ForkJoinTask;
import java.util.concurrent.RecursiveAction;

/**
 * Shares a pass over many values between as many threads as the kernels use. Short passes stay with
 * the caller. Results don't depend on the number of threads as long as the parts of a pass don't
 * depend on each other.
 */
final class Team {

  /** Fewer values than this are sooner done alone. */
  private static final long LEAST_VALUES = 1 << 15;

  private final Part[] parts;

  /** Part {@code member} of a pass: items {@code from} to {@code to - 1}. */
  interface Pass {
    void run(int member, int from, int to);
  }

  Team(int members) {
    parts = new Part[members];
    for (int i = 0; i < members; i++) {
      parts[i] = new Part(i);
    }
  }

  /** How many parts a pass has at most: each may use buffers of its own. */
  int members() {
    return parts.length;
  }

  /** Runs a pass over {@code count} items, which are {@code values} values in all. */
  void run(int count, long values, Pass pass) {
    int used = values < LEAST_VALUES ? 1 : Math.min(parts.length, count);
    for (int i = 1; i < used; i++) {
      parts[i].begin(pass, part(count, i, used), part(count, i + 1, used));
    }
    ForkJoinTask<?> failed = null;
    try {
      pass.run(0, 0, part(count, 1, Math.max(used, 1)));
    } finally {
      for (int i = 1; i < used; i++) {
        parts[i].quietlyJoin();
        failed = parts[i].isCompletedAbnormally() ? parts[i] : failed;
      }
    }
    if (failed != null) {
      failed.join();
    }
  }

  private static int part(int count, int index, int of) {
    return (int) ((long) count * index / of);
  }

  /** Used again for each pass, so that a step makes next to no garbage. */
  private static final class Part extends RecursiveAction {
    private static final long serialVersionUID = 1L;

    private final int member;
    private transient Pass pass;
    private int from;
    private int to;

    Part(int member) {
      this.member = member;
    }

    void begin(Pass pass, int from, int to) {
      this.pass = pass;
      this.from = from;
      this.to = to;
      reinitialize();
      fork();
    }

    @Override
    protected void compute() {
      pass.run(member, from, to);
    }
  }
}
