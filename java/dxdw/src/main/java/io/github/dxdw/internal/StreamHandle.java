package io.github.dxdw.internal;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/** A native stream and the rule that it is destroyed once, while nobody uses it. */
public final class StreamHandle {
  private final ReentrantReadWriteLock lock = new ReentrantReadWriteLock();
  private final MemorySegment segment;
  private boolean open = true;

  private StreamHandle(MemorySegment segment) {
    this.segment = segment;
  }

  /** Makes a stream on a CUDA device. */
  public static StreamHandle create(int deviceIndex) {
    Library.require();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment handle = arena.allocate(ValueLayout.ADDRESS);
      Native.streamCreate(deviceIndex, handle);
      return new StreamHandle(handle.get(ValueLayout.ADDRESS, 0));
    }
  }

  /** Keeps the stream from being destroyed until {@link #release()}. */
  public void acquire() {
    lock.readLock().lock();
    if (!open) {
      lock.readLock().unlock();
      throw new IllegalStateException("stream: is closed");
    }
  }

  /** Ends what {@link #acquire()} began. */
  public void release() {
    lock.readLock().unlock();
  }

  MemorySegment segment() {
    return segment;
  }

  /** Waits for all work on the stream. */
  public void synchronize() {
    acquire();
    try {
      Native.streamSynchronize(segment);
    } finally {
      release();
    }
  }

  /** Waits for the calls in progress and the stream's work, then destroys it; once. */
  public void close() {
    lock.writeLock().lock();
    try {
      if (open) {
        open = false;
        Native.streamDestroy(segment);
      }
    } finally {
      lock.writeLock().unlock();
    }
  }
}
