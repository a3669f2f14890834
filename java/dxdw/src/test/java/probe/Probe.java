package probe;

import io.github.dxdw.DType;
import io.github.dxdw.Device;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Tensor;
import java.lang.foreign.Arena;

/** What the loader tests run in JVMs of their own; uses the public API alone. */
public final class Probe {
  private Probe() {}

  public static void main(String[] arguments) {
    switch (arguments[0]) {
      case "product" -> product();
      case "cause" -> cause();
      case "level" -> {
        System.out.println(Dxdw.simdLevel() + "\n" + Dxdw.describe());
        product();
      }
      default -> throw new IllegalArgumentException(arguments[0]);
    }
  }

  /** Prints the library's file and the lower right element of a product. */
  private static void product() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor x = Tensor.of(arena, new float[][] {{1, 2}, {3, 4}});
      Tensor y = Tensor.allocate(arena, DType.FLOAT32, 2, 2);
      Dxdw.y(x, x, y);
      System.out.println(Dxdw.libraryFile());
      System.out.println(y.get(1, 1));
    }
  }

  /** Prints why there is no library; every question about availability gets an answer. */
  private static void cause() {
    boolean consistent =
        !Dxdw.isAvailable()
            && !Device.cpu().isAvailable()
            && Device.all().size() == 1
            && Dxdw.describe().lines().count() == 1
            && Dxdw.describe().contains("without its native library")
            && Device.cuda(0)
                .unavailabilityCause()
                .equals(Dxdw.unavailabilityCause().orElseThrow().getMessage());
    if (!consistent) {
      System.out.println("inconsistent");
    }
    try (Arena arena = Arena.ofConfined()) {
      Tensor x = Tensor.of(arena, new float[][] {{1, 2}, {3, 4}});
      Dxdw.y(x, x, Tensor.allocate(arena, DType.FLOAT32, 2, 2));
    } catch (io.github.dxdw.LibraryLoadException e) {
      System.out.println(e.getMessage());
    }
  }
}
