package io.github.dxdw.internal;

import java.lang.foreign.MemorySegment;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.Set;

/**
 * The device memory that the calls of a graph use, found while they are recorded by one thread.
 * Holding the segments keeps the memory of automatic arenas from being collected; memory of other
 * arenas may be closed, and then the graph can't run any more.
 */
public final class Recording {
  private final Thread thread = Thread.currentThread();
  private final Map<DeviceBlock, MemorySegment> blocks = new IdentityHashMap<>();
  private final Set<Storage> written = Collections.newSetFromMap(new IdentityHashMap<>());

  boolean isOfThisThread() {
    return thread == Thread.currentThread();
  }

  /** Adds the memory of an operand. */
  void add(MemorySegment operand) {
    DeviceBlock block = DeviceBlock.at(operand.address());
    if (block != null) {
      blocks.put(block, operand);
    }
  }

  /** Adds what a call writes, null for nothing. */
  void addWritten(Storage storage) {
    if (storage != null) {
      written.add(storage);
    }
  }

  /** Counts the writes of a replay. */
  void countWrites() {
    written.forEach(Storage::written);
  }

  /** Keeps all memory from being freed while {@code action} runs; throws when some is freed. */
  void holding(Runnable action) {
    int held = 0;
    try {
      for (DeviceBlock block : blocks.keySet()) {
        block.acquire();
        ++held;
      }
      action.run();
    } finally {
      for (DeviceBlock block : blocks.keySet()) {
        if (held-- <= 0) {
          break;
        }
        block.release();
      }
    }
  }
}
