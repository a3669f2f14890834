package io.github.dxdw.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.lang.foreign.MemorySegment;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Streams, events and graphs are destroyed once, whoever does it. */
class NativeHandleTest {
  private static final int MANY = 50;

  private final AtomicInteger destroyed = new AtomicInteger();

  private static final class Handle extends NativeHandle {
    Handle(AtomicInteger destroyed) {
      super("thing", MemorySegment.NULL, ignored -> destroyed.incrementAndGet());
    }
  }

  @Test
  @DisplayName("J5: a stream, event or graph that nobody closes leaks")
  void forgotten() throws InterruptedException {
    for (int i = 0; i < MANY; ++i) {
      new Handle(destroyed).acquire();
    }
    collectUntil(destroyed);
  }

  @Test
  @DisplayName("J3: a handle is destroyed twice: by two closes, or by a close and the collector")
  void closed() throws InterruptedException {
    AtomicInteger others = new AtomicInteger();
    for (int i = 0; i < MANY; ++i) {
      Handle handle = new Handle(destroyed);
      handle.close();
      handle.close();
      assertThrows(IllegalStateException.class, handle::acquire);
      new Handle(others);
    }
    collectUntil(others);
    assertEquals(MANY, destroyed.get());
  }

  private static void collectUntil(AtomicInteger allDestroyed) throws InterruptedException {
    for (int i = 0; i < 500 && allDestroyed.get() < MANY; ++i) {
      System.gc();
      Thread.sleep(10);
    }
    assertEquals(MANY, allDestroyed.get());
  }
}
