package io.github.dxdw.autograd;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.github.dxdw.DType;
import io.github.dxdw.Device;
import io.github.dxdw.Tensor;
import java.lang.foreign.Arena;
import java.util.Random;

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

  /** A parameter of values between -1 and 1, which its name alone decides. */
  static Parameter random(Arena arena, String name, DType type, long... shape) {
    Random random = new Random(name.hashCode());
    Tensor tensor = Tensor.allocate(arena, DEVICE, type, shape);
    float[] values = new float[(int) tensor.elementCount()];
    for (int i = 0; i < values.length; ++i) {
      values[i] = 2 * random.nextFloat() - 1;
    }
    tensor.copyFrom(Tensor.of(arena, values, values.length).reshape(shape));
    return Parameter.of(arena, name, tensor);
  }
}
