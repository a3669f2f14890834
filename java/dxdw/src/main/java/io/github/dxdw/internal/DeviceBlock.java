package io.github.dxdw.internal;

import io.github.dxdw.DxdwException;
import java.lang.System.Logger.Level;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/**
 * An allocation on a CUDA device. Its segment has size 0, for Java can't reach it; the number of
 * bytes stands here. It is freed when its arena is closed, and then after all work that streams of
 * the device have been given so far.
 *
 * <p>A block does not know its segment: the arena holds the block for its cleanup, and an automatic
 * arena that is reachable from its own cleanup would never be collected.
 */
public final class DeviceBlock {
  private static final Map<Long, DeviceBlock> BY_ADDRESS = new ConcurrentHashMap<>();

  private final ReentrantReadWriteLock lock = new ReentrantReadWriteLock();
  private final int deviceIndex;
  private final long bytes;
  private boolean freed;

  private DeviceBlock(int deviceIndex, long bytes) {
    this.deviceIndex = deviceIndex;
    this.bytes = bytes;
  }

  /** A block and the segment of size 0 that stands for it. */
  public record Allocation(DeviceBlock block, MemorySegment segment) {}

  /**
   * Allocates zeroed memory.
   *
   * @param stream where allocating and zeroing are ordered; null: done on return
   */
  public static Allocation allocate(Arena arena, int deviceIndex, long bytes, StreamHandle stream) {
    Library.require();
    if (stream == null) {
      return allocateOn(arena, deviceIndex, bytes, MemorySegment.NULL);
    }
    stream.acquireOutsideRecording();
    try {
      return allocateOn(arena, deviceIndex, bytes, stream.segment());
    } finally {
      stream.release();
    }
  }

  private static Allocation allocateOn(
      Arena arena, int deviceIndex, long bytes, MemorySegment stream) {
    DeviceBlock block = new DeviceBlock(deviceIndex, bytes);
    if (bytes > 0 && arena instanceof OwnedArena owner) {
      return new Allocation(block, owner.adopt(0, bytes, () -> block.make(stream), block::free));
    }
    long address = block.make(stream);
    boolean owned = false;
    try {
      MemorySegment segment =
          MemorySegment.ofAddress(address)
              .reinterpret(0, arena, bytes == 0 ? null : self -> block.free(self.address()));
      owned = true;
      return new Allocation(block, segment);
    } finally {
      if (!owned && bytes > 0) {
        block.free(address);
      }
    }
  }

  /** The address of zeroed memory for this block; 0 for one of 0 bytes. */
  private long make(MemorySegment stream) {
    MemorySegment address =
        NativeHandle.make(place -> Native.memoryAllocate(deviceIndex, bytes, stream, place));
    if (bytes == 0) {
      return address.address();
    }
    boolean zeroed = false;
    try {
      Native.memorySet(deviceIndex, address, 0, bytes, stream);
      zeroed = true;
    } finally {
      if (!zeroed) {
        Native.memoryFree(deviceIndex, address, MemorySegment.NULL);
      }
    }
    BY_ADDRESS.put(address.address(), this);
    return address.address();
  }

  /** The block that starts at an address; null when there is none. */
  static DeviceBlock at(long address) {
    return BY_ADDRESS.get(address);
  }

  /** Bytes of this allocation. */
  public long bytes() {
    return bytes;
  }

  /** Keeps the memory from being freed until {@link #release()}. */
  void acquire() {
    lock.readLock().lock();
    if (freed) {
      lock.readLock().unlock();
      throw new IllegalStateException(
          "memory that the graph uses on cuda:" + deviceIndex + " is closed");
    }
  }

  /** Ends what {@link #acquire()} began. */
  void release() {
    lock.readLock().unlock();
  }

  /** The cleanup of the arena: what it throws would keep other memory from being freed. */
  private void free(long address) {
    lock.writeLock().lock();
    try {
      freed = true;
      BY_ADDRESS.remove(address, this);
      Native.memoryFree(deviceIndex, MemorySegment.ofAddress(address), MemorySegment.NULL);
    } catch (DxdwException failure) {
      // The memory of a lost device went with it.
      System.getLogger(DeviceBlock.class.getName())
          .log(Level.DEBUG, "freeing memory of cuda:" + deviceIndex, failure);
    } finally {
      lock.writeLock().unlock();
    }
  }
}
