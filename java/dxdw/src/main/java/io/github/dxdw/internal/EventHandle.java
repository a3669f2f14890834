package io.github.dxdw.internal;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/** A native event. */
public final class EventHandle extends NativeHandle {
  private volatile boolean recorded;

  private EventHandle(MemorySegment segment) {
    super("event", segment, Native::eventDestroy);
  }

  /** Makes an event on a CUDA device. */
  public static EventHandle create(int deviceIndex) {
    return new EventHandle(make(place -> Native.eventCreate(deviceIndex, place)));
  }

  /** Marks the end of the work so far on a stream. */
  public void record(StreamHandle stream) {
    stream.acquireOutsideRecording();
    try {
      acquire();
      try {
        Native.eventRecord(segment(), stream.segment());
        recorded = true;
      } finally {
        release();
      }
    } finally {
      stream.release();
    }
  }

  /** Waits for the work that the event marks the end of. */
  public void synchronize() {
    acquire();
    try {
      Native.eventSynchronize(segment());
    } finally {
      release();
    }
  }

  /** Milliseconds from an earlier event to this one; waits for both. */
  public double millisecondsSince(EventHandle earlier) {
    earlier.acquire();
    try {
      acquire();
      try (Arena arena = Arena.ofConfined()) {
        if (!earlier.recorded || !recorded) {
          throw new IllegalStateException("event: was never recorded");
        }
        Native.eventSynchronize(earlier.segment());
        Native.eventSynchronize(segment());
        MemorySegment milliseconds = arena.allocate(ValueLayout.JAVA_DOUBLE);
        Native.eventElapsed(earlier.segment(), segment(), milliseconds);
        return milliseconds.get(ValueLayout.JAVA_DOUBLE, 0);
      } finally {
        release();
      }
    } finally {
      earlier.release();
    }
  }
}
