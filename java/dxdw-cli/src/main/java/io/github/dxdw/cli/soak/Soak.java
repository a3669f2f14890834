package io.github.dxdw.cli.soak;

import io.github.dxdw.Device;
import io.github.dxdw.Dxdw;
import io.github.dxdw.MemoryUse;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;

/**
 * Mixed calls from many threads, for as long as is wanted. Each result is compared with a lone
 * caller's; some threads leave arenas to the collector, and some change the number of threads of a
 * call. A thread that makes no progress is a failure, and so is memory that grows in a run of two
 * minutes or more.
 */
public final class Soak {

  /** A thread that finishes no call for so long is taken to hang. */
  private static final Duration LONGEST_CALL = Duration.ofMinutes(2);

  private static final int WORKS = 96;

  /** Of so many calls, one leaves its arena to the collector. */
  private static final int FORGET = 64;

  /** Of so many calls, one changes the number of threads that calls may use. */
  private static final int RESIZE = 500;

  /** What memory may grow by between the first fifth and the end. */
  private static final long GROWTH = 64L << 20;

  /**
   * In a shorter run the Java heap and the compiler's output still grow, so none is judged by it.
   */
  private static final Duration SETTLED = Duration.ofMinutes(2);

  /** How a run ended. */
  public record Outcome(long calls, long firstResident, long lastResident, List<String> faults) {
    /** Did nothing go wrong? */
    public boolean passed() {
      return faults.isEmpty();
    }
  }

  private final Device device;
  private final int threads;
  private final Duration duration;
  private final long seed;
  private final Consumer<String> out;
  private final AtomicLong calls = new AtomicLong();
  private final AtomicInteger alive = new AtomicInteger();
  private final AtomicReference<Throwable> failure = new AtomicReference<>();
  private volatile boolean stop;

  /** A run that prints its lines to {@code out}. */
  public Soak(Device device, int threads, Duration duration, long seed, Consumer<String> out) {
    this.device = device;
    this.threads = threads;
    this.duration = duration;
    this.seed = seed;
    this.out = out;
  }

  /** Runs; returns what was seen. */
  public Outcome run() throws InterruptedException {
    int before = Dxdw.threads();
    try (Arena arena = Arena.ofShared()) {
      return run(arena);
    } finally {
      Dxdw.setThreads(before);
    }
  }

  private Outcome run(Arena arena) throws InterruptedException {
    SplittableRandom random = new SplittableRandom(seed);
    List<Work> works = new ArrayList<>();
    for (int i = 0; i < WORKS; ++i) {
      Work work = new Work(arena, device, random.split());
      work.computeAlone();
      works.add(work);
    }
    List<Caller> callers = new ArrayList<>();
    for (int i = 0; i < threads; ++i) {
      callers.add(new Caller(works, random.split(), "soak-" + i));
    }
    alive.set(threads);
    callers.forEach(caller -> caller.thread.start());
    List<String> faults = watch(callers);
    stop = true;
    for (Caller caller : callers) {
      caller.thread.join(LONGEST_CALL);
      if (caller.thread.isAlive()) {
        throw new IllegalStateException(
            caller.thread.getName() + " does not end: the process hangs");
      }
    }
    if (failure.get() != null) {
      faults.add(failure.get().toString());
    }
    return new Outcome(calls.get(), firstResident, lastResident, faults);
  }

  private long firstResident;
  private long lastResident;

  /** Prints figures at twenty moments, and looks after the callers in between. */
  private List<String> watch(List<Caller> callers) throws InterruptedException {
    List<String> faults = new ArrayList<>();
    long start = System.nanoTime();
    long end = start + duration.toNanos();
    int lines = 20;
    out.accept(
        "  elapsed       calls  resident MB  arenas MB  open  forgotten  scratch MB  device MB");
    for (int line = 1; line <= lines && faults.isEmpty(); ++line) {
      long next = start + duration.toNanos() / lines * line;
      while (System.nanoTime() < Math.min(next, end)
          && faults.isEmpty()
          && alive.get() == threads) {
        Thread.sleep(20);
        for (Caller caller : callers) {
          if (System.nanoTime() - caller.lastProgress > LONGEST_CALL.toNanos()) {
            faults.add(hang(caller));
          }
        }
      }
      report(System.nanoTime() - start);
      if (alive.get() < threads) {
        break;
      }
      if (line == lines / 5) {
        firstResident = resident();
      }
    }
    lastResident = resident();
    boolean grew = lastResident > firstResident + GROWTH;
    if (faults.isEmpty() && grew && duration.compareTo(SETTLED) >= 0 && alive.get() == threads) {
      faults.add("resident memory grew from " + firstResident + " to " + lastResident + " bytes");
    }
    return faults;
  }

  private static String hang(Caller caller) {
    StringBuilder text = new StringBuilder(caller.thread.getName());
    text.append(" made no call for ").append(LONGEST_CALL.toSeconds()).append(" s:");
    for (StackTraceElement frame : caller.thread.getStackTrace()) {
      text.append("\n  ").append(frame);
    }
    return text.toString();
  }

  private void report(long nanos) {
    MemoryUse use = Dxdw.memoryUse();
    out.accept(
        String.format(
            Locale.ROOT,
            "%8.1f s %11d %12.1f %10.1f %5d %10d %11.1f %10.1f",
            nanos / 1e9,
            calls.get(),
            resident() / 1e6,
            use.arenaBytes() / 1e6,
            use.openArenas(),
            use.forgottenArenas(),
            use.scratchBytes() / 1e6,
            use.deviceBytes() / 1e6));
  }

  /** Bytes of this process in memory; 0 where the system does not say. */
  private static long resident() {
    try {
      for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
        if (line.startsWith("VmRSS:")) {
          return Long.parseLong(line.replaceAll("\\D", "")) * 1024;
        }
      }
    } catch (IOException e) {
      return 0;
    }
    return 0;
  }

  private final class Caller implements Runnable {
    private final List<Work> works;
    private final SplittableRandom random;
    private final Thread thread;
    private volatile long lastProgress = System.nanoTime();

    Caller(List<Work> works, SplittableRandom random, String name) {
      this.works = works;
      this.random = random;
      this.thread = new Thread(this, name);
      thread.setDaemon(true);
    }

    @Override
    public void run() {
      try {
        while (!stop) {
          call(works.get(random.nextInt(works.size())));
          lastProgress = System.nanoTime();
          calls.incrementAndGet();
        }
      } catch (Throwable thrown) {
        failure.compareAndSet(null, thrown);
      } finally {
        alive.decrementAndGet();
      }
    }

    private void call(Work work) {
      if (random.nextInt(RESIZE) == 0) {
        Dxdw.setThreads(random.nextInt(5));
      }
      if (random.nextInt(FORGET) == 0) {
        work.check(Dxdw.arena());
        return;
      }
      try (Arena arena = random.nextInt(4) == 0 ? Dxdw.arena() : Arena.ofConfined()) {
        work.check(arena);
      }
    }
  }
}
