package io.github.dxdw;

import io.github.dxdw.internal.Arguments;
import io.github.dxdw.internal.EventHandle;

/**
 * A point in the work of a CUDA stream: others wait for it, or time is measured between two. May be
 * used by any number of threads at once; {@link #close()} waits for the calls that they are in.
 */
public final class Event implements AutoCloseable {
  private final Device device;
  private final EventHandle handle;

  private Event(Device device, EventHandle handle) {
    this.device = device;
    this.handle = handle;
  }

  /**
   * Makes an event. Until it is recorded, nobody waits for it.
   *
   * @param device a CUDA device
   * @return the event, to be closed by the caller
   * @throws IllegalArgumentException if the device is null or the CPU
   * @throws DeviceException if the device is not available
   * @throws LibraryLoadException if the native library can't be loaded
   */
  public static Event create(Device device) {
    Arguments.present(device, "device");
    if (device.isCpu()) {
      throw new IllegalArgumentException("device: the CPU has no events");
    }
    return new Event(device, EventHandle.create(device.index()));
  }

  EventHandle handle() {
    return handle;
  }

  /**
   * The device that this event belongs to.
   *
   * @return the device
   */
  public Device device() {
    return device;
  }

  /**
   * Moves this event to the end of the work that a stream has been given so far.
   *
   * @param stream a stream on the event's device
   * @throws IllegalArgumentException if the stream is null or on another device
   * @throws IllegalStateException if the event or the stream is closed, or a graph is recorded on
   *     the stream
   * @throws DeviceException if the device fails
   */
  public void record(Stream stream) {
    handle.record(Arguments.present(stream, "stream").handle());
  }

  /**
   * Waits until the work before this event is done.
   *
   * @throws IllegalStateException if the event is closed
   * @throws DeviceException if the work failed
   */
  public void synchronize() {
    handle.synchronize();
  }

  /**
   * The time between two events on one device. Waits for both.
   *
   * @param earlier the other event
   * @return milliseconds from there to here
   * @throws IllegalArgumentException if the other event is null
   * @throws IllegalStateException if an event is closed or was never recorded
   * @throws DeviceException if the work failed
   */
  public double millisecondsSince(Event earlier) {
    return handle.millisecondsSince(Arguments.present(earlier, "earlier").handle());
  }

  /** Gives the event back. Closing twice is fine. */
  @Override
  public void close() {
    handle.close();
  }

  /** Returns, for example, {@code "event on cuda:0"}. */
  @Override
  public String toString() {
    return "event on " + device;
  }
}
