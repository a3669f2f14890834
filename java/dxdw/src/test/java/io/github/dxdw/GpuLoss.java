package io.github.dxdw;

import io.github.dxdw.bindings.dxdw_h;
import io.github.dxdw.bindings.dxdw_tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * Loses a GPU for good, in a JVM of its own: a product of operands at an address where nothing is.
 * Then says what later calls say, and that the CPU goes on.
 */
final class GpuLoss {
  private GpuLoss() {}

  private static void describe(MemorySegment tensor, Arena arena, long address) {
    dxdw_tensor.data(tensor, MemorySegment.ofAddress(address));
    dxdw_tensor.device_type(tensor, 2);
    dxdw_tensor.ndim(tensor, 2);
    dxdw_tensor.dtype_code(tensor, (byte) 2);
    dxdw_tensor.dtype_bits(tensor, (byte) 32);
    dxdw_tensor.dtype_lanes(tensor, (short) 1);
    dxdw_tensor.shape(tensor, arena.allocateFrom(ValueLayout.JAVA_LONG, 64, 64));
  }

  public static void main(String[] arguments) {
    Device gpu = Device.cuda(0);
    try (Arena arena = Arena.ofConfined()) {
      Tensor good = Tensor.allocate(arena, gpu, DType.FLOAT32, 64, 64);
      Stream stream = Stream.create(gpu);
      MemorySegment[] operands = new MemorySegment[3];
      for (int i = 0; i < 3; ++i) {
        operands[i] = arena.allocate(dxdw_tensor.layout());
        describe(operands[i], arena, 0x7000_0000_0000L + (i << 20));
      }
      int status = dxdw_h.y_launch(operands[0], operands[1], operands[2], MemorySegment.NULL);
      System.out.println("fault " + status + " " + dxdw_h.dxdw_last_error().getString(0));
      say("product", () -> Dxdw.dx(good, good, good.copy(arena)));
      say("copy", () -> good.get(0, 0));
      say("synchronize", stream::synchronize);
      say("allocate", () -> Tensor.allocate(arena, gpu, DType.FLOAT32, 2));
      say("close", stream::close);
      System.out.println("available " + gpu.isAvailable() + " " + gpu.unavailabilityCause());
      System.out.println("text " + good.toString().replace('\n', ' '));
      Tensor x = Tensor.of(arena, new float[][] {{1, 2}, {3, 4}});
      Tensor y = Tensor.allocate(arena, DType.FLOAT32, 2, 2);
      Dxdw.y(x, x, y);
      System.out.println("cpu " + y.get(1, 1));
    }
    System.out.println("closed");
  }

  private static void say(String what, Runnable call) {
    try {
      call.run();
      System.out.println(what + " succeeded");
    } catch (RuntimeException failure) {
      System.out.println(
          what + " " + failure.getClass().getSimpleName() + " " + failure.getMessage());
    }
  }
}
