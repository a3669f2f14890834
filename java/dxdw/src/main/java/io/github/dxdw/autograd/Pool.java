package io.github.dxdw.autograd;

import io.github.dxdw.DType;
import io.github.dxdw.Device;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Stream;
import io.github.dxdw.Tensor;
import io.github.dxdw.internal.Access;
import io.github.dxdw.internal.View;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;

/**
 * The memory of a tape: blocks that are taken and released over and over. Equal sequences of
 * requests get equal blocks, so after the first step of a kind nothing is allocated any more. There
 * is at most about twice as much of it as was ever in use at once. The collector frees what is
 * forgotten.
 *
 * <p>An imagined pool does the same without memory.
 */
final class Pool {
  private static final long ALIGNMENT = 64;

  /** A block is not taken for a request of less than a quarter of it, unless it is this small. */
  private static final long SMALL = 4096;

  private static final int CACHED_VIEWS = 4;

  private final Device device;

  /** Null: memory is zeroed before the allocation returns. */
  private final Stream stream;

  /** Where not null, memory is only imagined, on the device of this view, while the arena lives. */
  private final View model;

  private final Arena rehearsed;

  private final List<Block> blocks = new ArrayList<>();

  /** Blocks that are not taken, by rising size and, where that is equal, by falling number. */
  private final List<Block> free = new ArrayList<>();

  private long blocksMade;
  private long bytes;
  private long used;
  private long peak;
  private long clock;
  private long imaginedBytes;

  Pool(Device device, Stream stream) {
    this(device, stream, null, null);
  }

  private Pool(Device device, Stream stream, View model, Arena rehearsed) {
    this.device = device;
    this.stream = stream;
    this.model = model;
    this.rehearsed = rehearsed;
  }

  /**
   * An empty pool on the same device, as {@code any} is, with memory that is not there: tensors of
   * it can't be used any more once {@code arena}, a confined one, is closed.
   */
  Pool imagined(View any, Arena arena) {
    return new Pool(device, stream, any, arena);
  }

  /** Memory, and the views of it that were asked for. */
  final class Block {
    private final Arena arena;
    private final View memory;
    private final long size;
    private final Tensor[] views = new Tensor[CACHED_VIEWS];
    private final long number = blocksMade++;
    private int nextView;
    private long lastTaken;

    private Block(long size) {
      this.size = size;
      long[] shape = {size / DType.FLOAT16.byteSize()};
      if (model != null) {
        arena = null;
        memory = View.imagined(model, DType.FLOAT16, shape, imaginedBytes, rehearsed);
        imaginedBytes += size;
        return;
      }
      arena = Dxdw.arena();
      boolean done = false;
      try {
        Tensor tensor =
            stream == null
                ? Tensor.allocate(arena, device, DType.FLOAT16, shape)
                : Tensor.allocate(arena, stream, DType.FLOAT16, shape);
        memory = Access.get().view(tensor);
        done = true;
      } finally {
        if (!done) {
          arena.close();
        }
      }
    }

    /** The block as a compact tensor. The shape is copied. */
    Tensor tensor(DType type, long[] shape) {
      for (Tensor view : views) {
        if (view != null && view.dtype() == type && Access.get().view(view).hasShape(shape)) {
          return view;
        }
      }
      return cache(Access.get().tensor(memory.as(type, shape)));
    }

    /** The block as a compact tensor of the shape of another. */
    Tensor tensor(DType type, View like) {
      for (Tensor view : views) {
        if (view != null && view.dtype() == type && Access.get().view(view).hasShapeOf(like)) {
          return view;
        }
      }
      return cache(Access.get().tensor(memory.as(type, like.shape())));
    }

    private Tensor cache(Tensor view) {
      views[nextView] = view;
      nextView = (nextView + 1) % CACHED_VIEWS;
      return view;
    }

    /** Is that a view of this block? */
    boolean holds(Tensor tensor) {
      return Access.get().view(tensor).storage() == memory.storage();
    }

    void release() {
      free.add(place(size, number), this);
      used -= size;
    }
  }

  /** Takes a block of at least that many bytes. */
  Block take(long least) {
    long size = Math.max(least + ALIGNMENT - 1 & -ALIGNMENT, ALIGNMENT);
    long most = Math.max(4 * size, SMALL);
    // The first of the smallest blocks that are large enough.
    int at = place(size, Long.MAX_VALUE);
    Block best;
    if (at < free.size() && free.get(at).size <= most) {
      best = free.remove(place(free.get(at).size + 1, Long.MAX_VALUE) - 1);
    } else {
      trim(size);
      best = add(size);
    }
    best.lastTaken = ++clock;
    used += best.size;
    peak = Math.max(peak, used);
    return best;
  }

  /** Where among the free blocks one of that size and number belongs. */
  private int place(long size, long number) {
    int low = 0;
    int high = free.size();
    while (low < high) {
      int middle = (low + high) >>> 1;
      Block block = free.get(middle);
      if (block.size < size || block.size == size && block.number > number) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  private Block add(long size) {
    Block block = new Block(size);
    blocks.add(block);
    bytes += size;
    return block;
  }

  /** Frees blocks, those first that were not taken for longest, where there is too much memory. */
  private void trim(long more) {
    while (bytes + more > 2 * Math.max(peak, used + more)) {
      Block oldest = null;
      for (Block block : free) {
        if (oldest == null || block.lastTaken < oldest.lastTaken) {
          oldest = block;
        }
      }
      if (oldest == null) {
        return;
      }
      free.remove(oldest);
      blocks.remove(oldest);
      bytes -= oldest.size;
      if (oldest.arena != null) {
        oldest.arena.close();
      }
    }
  }

  /** Bytes of all blocks. */
  long bytes() {
    return bytes;
  }

  void close() {
    for (Block block : blocks) {
      if (block.arena != null) {
        block.arena.close();
      }
    }
    blocks.clear();
    free.clear();
    bytes = 0;
    used = 0;
  }
}
