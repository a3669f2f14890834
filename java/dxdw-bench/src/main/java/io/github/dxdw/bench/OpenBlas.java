package io.github.dxdw.bench;

import static org.bytedeco.openblas.global.openblas_nolapack.CblasNoTrans;
import static org.bytedeco.openblas.global.openblas_nolapack.CblasRowMajor;
import static org.bytedeco.openblas.global.openblas_nolapack.CblasTrans;
import static org.bytedeco.openblas.global.openblas_nolapack.blas_set_num_threads;
import static org.bytedeco.openblas.global.openblas_nolapack.cblas_sgemm;

import io.github.dxdw.DType;
import io.github.dxdw.Tensor;
import io.github.dxdw.cli.bench.Peer;
import io.github.dxdw.cli.bench.Product;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.Optional;
import org.bytedeco.javacpp.FloatPointer;
import org.bytedeco.javacpp.Loader;
import org.bytedeco.openblas.global.openblas_nolapack;

/** OpenBLAS by the JNI binding of Bytedeco: float32, operands where they lie. */
public final class OpenBlas implements Peer {

  @Override
  public String name() {
    return "OpenBLAS";
  }

  @Override
  public String description() {
    return ask("openblas_get_config")
        + ", kernels for "
        + ask("openblas_get_corename")
        + ", by bytedeco";
  }

  /** Calls a function without parameters that returns a string, which the binding leaves out. */
  private static String ask(String function) {
    Path binding = Path.of(Loader.load(openblas_nolapack.class));
    try {
      MethodHandle call =
          Linker.nativeLinker()
              .downcallHandle(
                  SymbolLookup.libraryLookup(
                          binding.resolveSibling("libopenblas_nolapack.so.0"), Arena.global())
                      .find(function)
                      .orElseThrow(),
                  FunctionDescriptor.of(
                      ValueLayout.ADDRESS.withTargetLayout(
                          MemoryLayout.sequenceLayout(1 << 10, ValueLayout.JAVA_BYTE))));
      return ((MemorySegment) call.invokeExact()).getString(0);
    } catch (Throwable e) {
      throw new IllegalStateException("OpenBLAS does not answer " + function, e);
    }
  }

  @Override
  public Optional<Runnable> prepare(Product product, int threads) {
    if (product.type() != DType.FLOAT32) {
      return Optional.empty();
    }
    blas_set_num_threads(threads);
    return Optional.of(run(product));
  }

  private static Runnable run(Product p) {
    FloatPointer a = pointer(p.a());
    FloatPointer b = pointer(p.b());
    FloatPointer c = pointer(p.out());
    int t = Math.toIntExact(p.t());
    int k = Math.toIntExact(p.k());
    int n = Math.toIntExact(p.n());
    int no = CblasNoTrans;
    int yes = CblasTrans;
    float beta = p.add() ? 1 : 0;
    return switch (p.function()) {
      case Y -> () -> cblas_sgemm(CblasRowMajor, no, no, t, n, k, 1, a, k, b, n, beta, c, n);
      case DX -> () -> cblas_sgemm(CblasRowMajor, no, yes, t, k, n, 1, a, n, b, n, beta, c, k);
      case DW -> () -> cblas_sgemm(CblasRowMajor, yes, no, k, n, t, 1, a, k, b, n, beta, c, n);
    };
  }

  /** The memory of a compact tensor. */
  private static FloatPointer pointer(Tensor tensor) {
    return new FloatPointer(
        tensor.segment().asByteBuffer().order(ByteOrder.nativeOrder()).asFloatBuffer());
  }
}
