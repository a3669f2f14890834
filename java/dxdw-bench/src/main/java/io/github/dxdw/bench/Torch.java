package io.github.dxdw.bench;

import ai.djl.engine.Engine;
import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDManager;
import ai.djl.ndarray.types.Shape;
import ai.djl.pytorch.jni.JniUtils;
import io.github.dxdw.DType;
import io.github.dxdw.Tensor;
import io.github.dxdw.cli.bench.Peer;
import io.github.dxdw.cli.bench.Product;
import java.nio.FloatBuffer;
import java.util.Optional;

/**
 * PyTorch by DJL, in float32: DJL's native part ends the process when it is asked for bfloat16. Its
 * products make a tensor for each result, which is closed at once.
 */
public final class Torch implements Peer {

  static {
    // Nothing is downloaded or reported: all native files are on the class path.
    System.setProperty("ai.djl.offline", "true");
    System.setProperty("OPT_OUT_TRACKING", "true");
  }

  @Override
  public String name() {
    return "PyTorch";
  }

  @Override
  public String description() {
    return "PyTorch " + engine().getVersion() + ", by DJL " + Engine.getDjlVersion();
  }

  /** The engine; what is needed for it is set before. */
  static Engine engine() {
    return Engine.getEngine("PyTorch");
  }

  static void setThreads(int threads) {
    engine();
    JniUtils.setNumThreads(threads);
  }

  @Override
  public Optional<Runnable> prepare(Product product, int threads) {
    if (product.type() != DType.FLOAT32) {
      return Optional.empty();
    }
    setThreads(threads);
    return Optional.of(run(product));
  }

  /** The operands stay until the process ends: there are not many. */
  private static Runnable run(Product p) {
    NDManager manager = engine().newBaseManager();
    NDArray a = copy(manager, p.a());
    NDArray b = copy(manager, p.b());
    NDArray left = p.function() == Product.Function.DW ? a.transpose() : a;
    NDArray right = p.function() == Product.Function.DX ? b.transpose() : b;
    if (!p.add()) {
      return () -> left.matMul(right).close();
    }
    NDArray sum = copy(manager, p.out());
    return () -> {
      try (NDArray product = left.matMul(right)) {
        sum.addi(product);
      }
    };
  }

  private static NDArray copy(NDManager manager, Tensor tensor) {
    return manager.create(FloatBuffer.wrap(tensor.toFloatArray()), new Shape(tensor.shape()));
  }
}
