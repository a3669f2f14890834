package io.github.dxdw;

import io.github.dxdw.internal.Arguments;
import io.github.dxdw.internal.StreamHandle;

/**
 * A queue of work on a CUDA device. Calls that name a stream are carried out in order and may
 * return before their work is done; {@link #synchronize()} waits for it. Memory of a device may be
 * given back at any time: it is freed when the work so far is done. May be used by any number of
 * threads at once; {@link #close()} waits for the calls that they are in.
 */
public final class Stream implements AutoCloseable {
  private final Device device;
  private final StreamHandle handle;

  private Stream(Device device, StreamHandle handle) {
    this.device = device;
    this.handle = handle;
  }

  /**
   * Makes a stream.
   *
   * @param device a CUDA device
   * @return the stream, to be closed by the caller
   * @throws IllegalArgumentException if the device is null or the CPU
   * @throws DeviceException if the device is not available
   * @throws LibraryLoadException if the native library can't be loaded
   */
  public static Stream create(Device device) {
    Arguments.present(device, "device");
    if (device.isCpu()) {
      throw new IllegalArgumentException("device: the CPU has no streams");
    }
    return new Stream(device, StreamHandle.create(device.index()));
  }

  StreamHandle handle() {
    return handle;
  }

  /**
   * The device that this stream belongs to.
   *
   * @return the device
   */
  public Device device() {
    return device;
  }

  /**
   * Waits until all work on this stream is done.
   *
   * @throws IllegalStateException if this stream is closed, or a graph is recorded on it
   * @throws DeviceException if the work failed
   */
  public void synchronize() {
    handle.synchronize();
  }

  /**
   * Lets work that this stream is given later wait for an event. The caller does not wait.
   *
   * @param event an event on any stream of the device
   * @throws IllegalArgumentException if the event is null
   * @throws IllegalStateException if this stream or the event is closed, or a graph is recorded on
   *     this stream
   * @throws DeviceException if the device fails
   */
  public void await(Event event) {
    handle.await(Arguments.present(event, "event").handle());
  }

  /**
   * Waits until all work on this stream is done and gives it back. Closing twice is fine.
   *
   * @throws IllegalStateException if a graph is recorded on this stream
   * @throws DeviceException if the work failed
   */
  @Override
  public void close() {
    handle.close();
  }

  /** Returns, for example, {@code "stream on cuda:0"}. */
  @Override
  public String toString() {
    return "stream on " + device;
  }
}
