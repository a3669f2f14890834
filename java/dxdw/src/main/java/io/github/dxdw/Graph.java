package io.github.dxdw;

import io.github.dxdw.internal.Arguments;
import io.github.dxdw.internal.GraphHandle;

/**
 * Calls on a CUDA device that were recorded once and can be put on a stream again and again, all of
 * them for the price of about one. The calls use the same memory each time.
 *
 * <p>A graph doesn't own that memory: once the arena of an operand or workspace is closed, {@link
 * #replay} throws {@link IllegalStateException}. A replay that is under way is finished first. May
 * be used by any number of threads at once; {@link #close()} waits for the calls that they are in.
 */
public final class Graph implements AutoCloseable {
  private final Device device;
  private final GraphHandle handle;

  private Graph(Device device, GraphHandle handle) {
    this.device = device;
    this.handle = handle;
  }

  /**
   * Records the calls that name a stream, instead of running them. While it lasts, the stream is
   * the calling thread's alone. Calls with tensors on the device can be recorded; they bring their
   * own workspace where they need one ({@link Plan#workspaceBytes()}). Calls that name no stream or
   * another one run as ever.
   *
   * @param stream the stream whose calls are recorded
   * @param work makes the calls
   * @return the graph, to be closed by the caller
   * @throws IllegalArgumentException if an argument is null
   * @throws IllegalStateException if the stream is closed, or a graph is recorded on it already
   * @throws DeviceException if the device fails
   */
  public static Graph capture(Stream stream, Runnable work) {
    Arguments.present(stream, "stream");
    Arguments.present(work, "work");
    stream.handle().beginRecording();
    try {
      work.run();
    } catch (Throwable failure) {
      try {
        stream.handle().endRecording().close();
      } catch (RuntimeException second) {
        failure.addSuppressed(second);
      }
      throw failure;
    }
    return new Graph(stream.device(), stream.handle().endRecording());
  }

  /**
   * The device that the calls run on.
   *
   * @return the device
   */
  public Device device() {
    return device;
  }

  /**
   * Puts all recorded calls on a stream. Returns before they are done.
   *
   * @param stream a stream on the graph's device
   * @throws IllegalArgumentException if the stream is null or on another device
   * @throws IllegalStateException if the graph, the stream or memory that the calls use is closed,
   *     or a graph is recorded on the stream
   * @throws DeviceException if the device fails
   */
  public void replay(Stream stream) {
    handle.replay(Arguments.present(stream, "stream").handle());
  }

  /** Gives the graph back; replays under way are finished. Closing twice is fine. */
  @Override
  public void close() {
    handle.close();
  }

  /** Returns, for example, {@code "graph on cuda:0"}. */
  @Override
  public String toString() {
    return "graph on " + device;
  }
}
