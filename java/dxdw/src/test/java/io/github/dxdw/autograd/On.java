package io.github.dxdw.autograd;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.github.dxdw.Device;

/** The device that -Ddxdw.device names, "cpu" or, for example, "cuda:0". */
final class On {
  static final Device DEVICE = parse(System.getProperty("dxdw.device", "cpu"));

  private On() {}

  private static Device parse(String text) {
    return text.startsWith("cuda:")
        ? Device.cuda(Integer.parseInt(text.substring("cuda:".length())))
        : Device.cpu();
  }

  /** Skips, with the reason, what asks for a device that is not there. */
  static void requireDevice() {
    assumeTrue(DEVICE.isAvailable(), DEVICE::unavailabilityCause);
  }

  static boolean cpu() {
    return DEVICE.equals(Device.cpu());
  }
}
