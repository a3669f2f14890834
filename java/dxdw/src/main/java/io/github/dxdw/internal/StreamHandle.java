package io.github.dxdw.internal;

import java.lang.foreign.MemorySegment;

/** A native stream, and the recording of a graph that it may be in. */
public final class StreamHandle extends NativeHandle {
  /** Set and unset by the thread that records; others only look whether it is theirs. */
  private volatile Recording recording;

  private StreamHandle(MemorySegment segment) {
    super("stream", segment, Native::streamDestroy);
  }

  /** Makes a stream on a CUDA device. */
  public static StreamHandle create(int deviceIndex) {
    return new StreamHandle(make(place -> Native.streamCreate(deviceIndex, place)));
  }

  /**
   * Keeps the stream from being destroyed until {@link #release()}. While a graph is recorded, only
   * the recording thread may use the stream: others would add to the graph.
   */
  @Override
  public void acquire() {
    super.acquire();
    Recording current = recording;
    if (current != null && !current.isOfThisThread()) {
      release();
      throw new IllegalStateException("stream: another thread records a graph on it");
    }
  }

  /** As {@link #acquire()}, for what can't be part of a graph. */
  public void acquireOutsideRecording() {
    super.acquire();
    if (recording != null) {
      release();
      throw new IllegalStateException(
          "stream: a graph is recorded on it, in which only calls with tensors can take part");
    }
  }

  /** What is recorded on this stream at the moment; null when nothing is. */
  Recording recording() {
    return recording;
  }

  /** Begins to record the calls on this stream instead of running them. */
  public void beginRecording() {
    exclusively(
        () -> {
          checkClosable();
          Native.graphBegin(segment());
          recording = new Recording();
        });
  }

  /** Ends what {@link #beginRecording()} began; the graph is the caller's to destroy. */
  public GraphHandle endRecording() {
    acquire();
    try {
      Recording ended = recording;
      recording = null;
      return GraphHandle.of(make(place -> Native.graphEnd(segment(), place)), ended);
    } finally {
      release();
    }
  }

  /** Waits for all work on the stream. */
  public void synchronize() {
    acquireOutsideRecording();
    try {
      Native.streamSynchronize(segment());
    } finally {
      release();
    }
  }

  /** Lets work that comes later on this stream wait for an event. */
  public void await(EventHandle event) {
    acquireOutsideRecording();
    try {
      event.acquire();
      try {
        Native.eventWait(event.segment(), segment());
      } finally {
        event.release();
      }
    } finally {
      release();
    }
  }

  /** Not while a graph is recorded. */
  @Override
  void checkClosable() {
    if (recording != null) {
      throw new IllegalStateException("stream: a graph is recorded on it");
    }
  }
}
