package io.github.dxdw.cli.bench;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * Measures contenders that take turns, so that a change of the machine's load meets all of them.
 * With one thread the time is that of the processor, with more it is the wall's.
 */
final class Turns {

  private static final ThreadMXBean CLOCK = ManagementFactory.getThreadMXBean();

  private final int repeats;
  private final long sampleNanos;
  private final long settleNanos;
  private final long warmUpNanos;

  /**
   * Nanoseconds of one call.
   *
   * @param name of the contender
   * @param median of the samples
   * @param low 10th percentile
   * @param high 90th percentile
   * @param best shortest sample
   */
  record Times(String name, double median, double low, double high, double best) {

    static Times of(String name, double[] samples) {
      double[] sorted = samples.clone();
      Arrays.sort(sorted);
      return new Times(
          name, quantile(sorted, 0.5), quantile(sorted, 0.1), quantile(sorted, 0.9), sorted[0]);
    }

    private static double quantile(double[] sorted, double q) {
      double at = q * (sorted.length - 1);
      int below = (int) at;
      double rest = at - below;
      return below + 1 < sorted.length
          ? sorted[below] * (1 - rest) + sorted[below + 1] * rest
          : sorted[below];
    }
  }

  /**
   * What is measured.
   *
   * @param name who
   * @param run one call
   */
  record Contender(String name, Runnable run) {}

  Turns(int repeats, boolean quick) {
    this.repeats = repeats;
    this.sampleNanos = TimeUnit.MILLISECONDS.toNanos(quick ? 1 : 3);
    this.settleNanos = TimeUnit.MILLISECONDS.toNanos(quick ? 5 : 30);
    this.warmUpNanos = TimeUnit.MILLISECONDS.toNanos(quick ? 50 : 300);
  }

  /** All contenders in turn, again and again; an untimed call comes before each sample. */
  List<Times> measure(List<Contender> contenders, int threads) {
    int count = contenders.size();
    long[] calls = new long[count];
    for (int i = 0; i < count; i++) {
      calls[i] = warmUp(contenders.get(i).run(), threads);
    }
    double[][] samples = new double[count][repeats];
    for (int repeat = 0; repeat < repeats; repeat++) {
      for (int turn = 0; turn < count; turn++) {
        int i = (turn + repeat) % count;
        settle(threads);
        contenders.get(i).run().run();
        samples[i][repeat] = sample(contenders.get(i).run(), calls[i], threads);
      }
    }
    List<Times> times = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      times.add(Times.of(contenders.get(i).name(), samples[i]));
    }
    return times;
  }

  /** Runs for a while, so that it gets compiled; returns the calls of a sample. */
  private long warmUp(Runnable run, int threads) {
    settle(threads);
    long calls = 1;
    long end = now(threads) + warmUpNanos;
    double once;
    do {
      once = sample(run, calls, threads);
      calls = (long) Math.clamp(Math.ceil(sampleNanos / Math.max(once, 1)), 1, 2.0 * calls);
    } while (now(threads) < end || calls * once < sampleNanos / 2.0);
    return calls;
  }

  private static double sample(Runnable run, long calls, int threads) {
    long start = now(threads);
    for (long call = 0; call < calls; call++) {
      run.run();
    }
    return (double) (now(threads) - start) / calls;
  }

  private static long now(int threads) {
    return threads == 1 ? CLOCK.getCurrentThreadCpuTime() : System.nanoTime();
  }

  /** Lets another contender's idle threads stop spinning. */
  private void settle(int threads) {
    if (threads > 1) {
      LockSupport.parkNanos(settleNanos);
    }
  }
}
