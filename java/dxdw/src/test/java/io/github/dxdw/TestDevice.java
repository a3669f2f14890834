package io.github.dxdw;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

/** The device that {@code -Ddxdw.device} names, as in {@code cuda:0}; the CPU where it does not. */
public final class TestDevice {
  public static final String NAME = System.getProperty("dxdw.device", "cpu");

  private TestDevice() {}

  /** The device; skips the test where it is not there. */
  public static Device get() {
    Device device = named(NAME);
    assumeTrue(device.isAvailable(), device::unavailabilityCause);
    return device;
  }

  /** "cpu" or "cuda:N". */
  public static Device named(String name) {
    return name.equals("cpu")
        ? Device.cpu()
        : Device.cuda(Integer.parseInt(name.substring("cuda:".length())));
  }
}
