package io.github.dxdw.internal;

import java.lang.foreign.MemorySegment;

/** A native graph and the memory that its calls use. */
public final class GraphHandle extends NativeHandle {
  /** Let go when the graph is destroyed, for it may keep memory of automatic arenas. */
  private Recording recording;

  private GraphHandle(MemorySegment segment, Recording recording) {
    super("graph", segment, Native::graphDestroy);
    this.recording = recording;
  }

  static GraphHandle of(MemorySegment segment, Recording recording) {
    return new GraphHandle(segment, recording);
  }

  /** Puts all calls of the graph on a stream. */
  public void replay(StreamHandle stream) {
    stream.acquireOutsideRecording();
    try {
      acquire();
      try {
        recording.holding(() -> Native.graphLaunch(segment(), stream.segment()));
        recording.countWrites();
      } finally {
        release();
      }
    } finally {
      stream.release();
    }
  }

  @Override
  public void close() {
    super.close();
    recording = null;
  }
}
