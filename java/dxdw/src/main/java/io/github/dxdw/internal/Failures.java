package io.github.dxdw.internal;

import io.github.dxdw.DeviceException;
import io.github.dxdw.DeviceLostException;
import io.github.dxdw.DxdwException;
import io.github.dxdw.NativeMemoryException;
import io.github.dxdw.bindings.dxdw_h;

/** The one place where a status of the native library becomes an exception. */
final class Failures {
  private Failures() {}

  static RuntimeException of(int status, String message) {
    if (status == dxdw_h.DXDW_INVALID_ARGUMENT()) {
      return new IllegalArgumentException(message);
    }
    if (status == dxdw_h.DXDW_OUT_OF_MEMORY()) {
      return new NativeMemoryException(message);
    }
    if (status == dxdw_h.DXDW_DEVICE_LOST()) {
      return new DeviceLostException(message);
    }
    if (status == dxdw_h.DXDW_DEVICE_UNAVAILABLE() || status == dxdw_h.DXDW_DEVICE_ERROR()) {
      return new DeviceException(status, message);
    }
    return new DxdwException(status, message);
  }
}
