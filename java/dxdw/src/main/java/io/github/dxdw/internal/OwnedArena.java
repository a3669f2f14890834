package io.github.dxdw.internal;

import io.github.dxdw.NativeMemoryException;
import java.lang.System.Logger.Level;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;

/**
 * An arena for all threads whose memory is freed when it is closed or, where that is forgotten,
 * when neither it nor any of its segments can be reached any more.
 *
 * <p>What lets the collector see the latter: the segments refer to the JDK's session, the session
 * to this arena by the action that runs when it is closed, and the list of memory to neither.
 */
public final class OwnedArena implements Arena {
  /** Where the place that made a forgotten arena is wanted in its report. */
  private static final boolean TRACE = Boolean.getBoolean("dxdw.leaks");

  /** From so many bytes on, a collection is asked for before more are allocated. */
  private static final long LEAST_TRIGGER = 256L << 20;

  /** Longest wait for the cleaner after a collection, in milliseconds. */
  private static final int LONGEST_WAIT = 200;

  private static final AtomicLong HELD = new AtomicLong();
  private static final AtomicLong OPEN = new AtomicLong();
  private static final AtomicLong FORGOTTEN = new AtomicLong();
  private static final Object COLLECTING = new Object();
  private static volatile long trigger = LEAST_TRIGGER;

  private final Arena session = Arena.ofShared();
  private final Belongings belongings = new Belongings();
  private final Cleaner.Cleanable cleanable;

  /** Makes an arena; this is what needs the native library, whose functions free device memory. */
  public OwnedArena() {
    Library.require();
    MemorySegment.NULL.reinterpret(0, session, ignored -> Reference.reachabilityFence(this));
    OPEN.incrementAndGet();
    cleanable = Forgotten.CLEANER.register(this, belongings);
  }

  /** Bytes that arenas of this kind hold now, on the host and on devices. */
  public static long bytesHeld() {
    return HELD.get();
  }

  /** Arenas of this kind that are neither closed nor collected. */
  public static long open() {
    return OPEN.get();
  }

  /** Arenas of this kind that the collector closed. */
  public static long forgotten() {
    return FORGOTTEN.get();
  }

  @Override
  public MemorySegment allocate(long bytes, long alignment) {
    if (bytes < 0) {
      throw new IllegalArgumentException("bytes: " + bytes + " is negative");
    }
    if (alignment < 1 || Long.bitCount(alignment) != 1) {
      throw new IllegalArgumentException("alignment: " + alignment + " is no power of 2");
    }
    belongings.requireOpen();
    if (bytes == 0) {
      return MemorySegment.ofAddress(alignment).reinterpret(0, session, null);
    }
    long room = bytes + alignment - 1;
    long address = room < 0 ? 0 : take(bytes, () -> HostMemory.allocate(room));
    if (address == 0) {
      throw HostMemory.refused(bytes, "the system has no such block");
    }
    belongings.add(new Block(bytes, () -> HostMemory.free(address)));
    long aligned = (address + alignment - 1) & -alignment;
    return MemorySegment.ofAddress(aligned).reinterpret(bytes, session, null);
  }

  /**
   * Makes memory of another kind, which {@code maker} returns or refuses with a {@link
   * NativeMemoryException}, part of this arena.
   *
   * @param seen size of the segment
   * @param counted bytes that are counted
   */
  MemorySegment adopt(long seen, long counted, LongSupplier maker, Freeing freeing) {
    belongings.requireOpen();
    long address =
        take(
            counted,
            () -> {
              try {
                return maker.getAsLong();
              } catch (NativeMemoryException refused) {
                return 0;
              }
            });
    if (address == 0) {
      address = maker.getAsLong();
    }
    long made = address;
    belongings.add(new Block(counted, () -> freeing.free(made)));
    return MemorySegment.ofAddress(address).reinterpret(seen, session, null);
  }

  /** Gives memory of another kind back. */
  interface Freeing {
    void free(long address);
  }

  /** Asks {@code maker}, and again after a collection when it returns 0. */
  private static long take(long bytes, LongSupplier maker) {
    if (HELD.get() + bytes > trigger) {
      relieve(bytes);
    }
    long address = maker.getAsLong();
    if (address == 0 && collect()) {
      address = maker.getAsLong();
    }
    return address;
  }

  /** Back-pressure: nobody allocates on and on while forgotten memory waits for a collection. */
  private static void relieve(long bytes) {
    synchronized (COLLECTING) {
      if (HELD.get() + bytes > trigger) {
        collect();
        trigger = Math.max(LEAST_TRIGGER, 2 * (HELD.get() + bytes));
      }
    }
  }

  /** Collects garbage and waits while that frees memory. Returns whether it freed any. */
  private static boolean collect() {
    if (OPEN.get() == 0) {
      return false;
    }
    long before = HELD.get();
    CountDownLatch collected = new CountDownLatch(1);
    Forgotten.CLEANER.register(new Object(), collected::countDown);
    System.gc();
    try {
      // Once the cleaner has come to what was garbage from the start, the rest is not far.
      collected.await(LONGEST_WAIT, TimeUnit.MILLISECONDS);
      long last;
      do {
        last = HELD.get();
        Thread.sleep(2);
      } while (HELD.get() < last);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    return HELD.get() < before;
  }

  @Override
  public MemorySegment.Scope scope() {
    return session.scope();
  }

  /** Frees the memory; once. While a call uses it, the JDK's exception says so. */
  @Override
  public void close() {
    if (belongings.end(session)) {
      cleanable.clean();
    }
  }

  /** Memory and how to give it back. */
  private record Block(long bytes, Runnable release) {}

  /** What an arena owns. Refers neither to the arena nor to its segments. */
  private static final class Belongings implements Runnable {
    private final Throwable place = TRACE ? new Throwable("the arena was made here") : null;
    private final List<Block> blocks = new ArrayList<>();
    private long bytes;
    private boolean ended;

    synchronized void requireOpen() {
      if (ended) {
        throw new IllegalStateException("Already closed");
      }
    }

    synchronized void add(Block block) {
      if (ended) {
        block.release().run();
        throw new IllegalStateException("Already closed");
      }
      blocks.add(block);
      bytes += block.bytes();
      HELD.addAndGet(block.bytes());
    }

    /** Closes the session unless that was done before; returns whether it was not. */
    synchronized boolean end(Arena session) {
      if (ended) {
        return false;
      }
      session.close();
      ended = true;
      return true;
    }

    /** Runs once: on closing, or when the collector found that nobody can. */
    @Override
    public synchronized void run() {
      if (!ended) {
        ended = true;
        if (place != null) {
          System.getLogger(OwnedArena.class.getName())
              .log(Level.WARNING, "an arena with " + bytes + " bytes was never closed", place);
        }
        FORGOTTEN.incrementAndGet();
      }
      OPEN.decrementAndGet();
      for (Block block : blocks) {
        block.release().run();
      }
      HELD.addAndGet(-bytes);
      blocks.clear();
    }
  }
}
