package io.github.dxdw.bench;

import io.github.dxdw.DType;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Tensor;
import io.github.dxdw.bindings.dxdw_h;
import io.github.dxdw.cli.bench.Peer;
import io.github.dxdw.cli.bench.Product;
import java.lang.foreign.Arena;
import java.lang.invoke.MethodHandle;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

/** Time and allocation of calls with little to compute, all on one thread. */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@State(Scope.Thread)
public class Calls {

  private static final MethodHandle NOP = nop();

  /** Y = X·W of small square matrices. */
  @State(Scope.Thread)
  public static class Small {

    /** Rows and columns of all matrices. */
    @Param({"4", "8", "16", "32"})
    public int size;

    Tensor x;
    Tensor w;
    Tensor y;
    private Arena arena;
    private Product product;

    /** Allocates the matrices. */
    @Setup
    public void allocate() {
      Dxdw.setThreads(1);
      arena = Arena.ofConfined();
      product = Product.allocate(arena, Product.Function.Y, size, size, size, DType.FLOAT32, false);
      x = product.a();
      w = product.b();
      y = product.out();
    }

    /** Frees the matrices. */
    @TearDown
    public void free() {
      arena.close();
    }

    Runnable by(Peer peer) {
      return peer.prepare(product, 1).orElseThrow();
    }
  }

  /** The same by OpenBLAS. */
  @State(Scope.Thread)
  public static class SmallOpenBlas {
    Runnable run;

    /** Prepares the call. */
    @Setup
    public void prepare(Small small) {
      run = small.by(new OpenBlas());
    }
  }

  /** The same by PyTorch. */
  @State(Scope.Thread)
  public static class SmallTorch {
    Runnable run;

    /** Prepares the call. */
    @Setup
    public void prepare(Small small) {
      run = small.by(new Torch());
    }
  }

  /** A weighted sum of 16 rows of 64 features. */
  @State(Scope.Thread)
  public static class Sum {
    Tensor x;
    Tensor w;
    Tensor y;
    private Arena arena;

    /** Allocates the operands. */
    @Setup
    public void allocate() {
      Dxdw.setThreads(1);
      arena = Arena.ofConfined();
      x = Tensor.allocate(arena, DType.FLOAT32, 16, 64);
      w = Tensor.allocate(arena, DType.FLOAT32, 64);
      y = Tensor.allocate(arena, DType.FLOAT32, 16);
    }

    /** Frees the operands. */
    @TearDown
    public void free() {
      arena.close();
    }
  }

  /** The generated handle; the library must have been loaded before. */
  private static MethodHandle nop() {
    Dxdw.threads();
    return dxdw_h.dxdw_nop$handle();
  }

  /** The least that a call of native code costs. */
  @Benchmark
  public int emptyCall() throws Throwable {
    return (int) NOP.invokeExact();
  }

  /** By the library. */
  @Benchmark
  public void product(Small s) {
    Dxdw.y(s.x, s.w, s.y);
  }

  /** By OpenBLAS. */
  @Benchmark
  public void productOpenBlas(SmallOpenBlas s) {
    s.run.run();
  }

  /** By PyTorch. */
  @Benchmark
  public void productTorch(SmallTorch s) {
    s.run.run();
  }

  /** By the library. */
  @Benchmark
  public void weightedSum(Sum s) {
    Dxdw.weightedSum(s.x, s.w, s.y);
  }
}
