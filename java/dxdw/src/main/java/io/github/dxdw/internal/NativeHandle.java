package io.github.dxdw.internal;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.ref.Cleaner;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.function.Consumer;

/**
 * A native object and the rule that it is destroyed once, while nobody uses it: when it is closed
 * or, where that is forgotten, by the collector.
 */
public abstract class NativeHandle {
  private final ReentrantReadWriteLock lock = new ReentrantReadWriteLock();
  private final String kind;
  private final MemorySegment segment;
  private final Cleaner.Cleanable destruction;
  private boolean open = true;

  /**
   * Takes over a native object.
   *
   * @param kind what it is called in messages
   * @param destroyer destroys the object; does not refer to this handle
   */
  NativeHandle(String kind, MemorySegment segment, Consumer<MemorySegment> destroyer) {
    this.kind = kind;
    this.segment = segment;
    destruction = Forgotten.CLEANER.register(this, () -> destroyer.accept(segment));
  }

  /** The address that {@code maker} writes to the place it is given. */
  static MemorySegment make(Consumer<MemorySegment> maker) {
    Library.require();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment place = arena.allocate(ValueLayout.ADDRESS);
      maker.accept(place);
      return place.get(ValueLayout.ADDRESS, 0);
    }
  }

  /** Keeps the object from being destroyed until {@link #release()}. */
  public void acquire() {
    lock.readLock().lock();
    if (!open) {
      lock.readLock().unlock();
      throw new IllegalStateException(kind + ": is closed");
    }
  }

  /** Ends what {@link #acquire()} began. */
  public void release() {
    lock.readLock().unlock();
  }

  /** Waits for the calls in progress, then destroys the object; once. */
  public void close() {
    lock.writeLock().lock();
    try {
      if (open) {
        checkClosable();
        open = false;
        destruction.clean();
      }
    } finally {
      lock.writeLock().unlock();
    }
  }

  /** Waits for the calls in progress, then runs {@code action} while nobody uses the object. */
  final void exclusively(Runnable action) {
    lock.writeLock().lock();
    try {
      if (!open) {
        throw new IllegalStateException(kind + ": is closed");
      }
      action.run();
    } finally {
      lock.writeLock().unlock();
    }
  }

  MemorySegment segment() {
    return segment;
  }

  /** Throws when this is no moment to close. */
  void checkClosable() {}
}
