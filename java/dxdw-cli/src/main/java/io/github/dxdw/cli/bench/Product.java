package io.github.dxdw.cli.bench;

import io.github.dxdw.Accumulate;
import io.github.dxdw.DType;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Options;
import io.github.dxdw.Reduction;
import io.github.dxdw.Tensor;
import java.lang.foreign.Arena;

/**
 * A product of compact operands: Y = X·W, dX = dY·Wᵀ, or dW = Xᵀ·dY, which may add.
 *
 * @param function which one
 * @param t rows of X and dY
 * @param k columns of X, rows of W
 * @param n columns of dY and W
 * @param add whether the result is added to the output
 * @param a the first input: x, dy or x
 * @param b the second input: w, w or dy
 * @param out the output: y, dx or dw, the latter float32
 */
public record Product(
    Function function, long t, long k, long n, boolean add, Tensor a, Tensor b, Tensor out) {

  /** The functions. */
  public enum Function {
    /** X·W. */
    Y("Y"),
    /** dY·Wᵀ. */
    DX("dX"),
    /** Xᵀ·dY. */
    DW("dW");

    private final String label;

    Function(String label) {
      this.label = label;
    }

    /** As in the formula. */
    @Override
    public String toString() {
      return label;
    }
  }

  /** A product of operands with values between -1 and 1, in memory of {@code arena}. */
  public static Product allocate(
      Arena arena, Function function, long t, long k, long n, DType type, boolean add) {
    Tensor x = Values.random(arena, type, t, function == Function.DX ? n : k);
    return switch (function) {
      case Y ->
          new Product(
              function, t, k, n, add, x, w(arena, type, k, n), Tensor.allocate(arena, type, t, n));
      case DX ->
          new Product(
              function, t, k, n, add, x, w(arena, type, k, n), Tensor.allocate(arena, type, t, k));
      case DW ->
          new Product(
              function,
              t,
              k,
              n,
              add,
              x,
              Values.random(arena, type, t, n),
              Tensor.allocate(arena, DType.FLOAT32, k, n));
    };
  }

  private static Tensor w(Arena arena, DType type, long k, long n) {
    return Values.random(arena, type, k, n);
  }

  /** Type of the inputs. */
  public DType type() {
    return a.dtype();
  }

  /** Floating-point operations. */
  double operations() {
    return 2.0 * t * k * n;
  }

  /** The product by the library's own kernels. */
  public Runnable kernel() {
    boolean byDefault = add == (function == Function.DW);
    Options options =
        byDefault
            ? Options.defaults()
            : Options.defaults().withAccumulate(add ? Accumulate.ADD : Accumulate.ASSIGN);
    return switch (function) {
      case Y -> () -> Dxdw.y(a, b, out, options);
      case DX -> () -> Dxdw.dx(a, b, out, options);
      case DW -> () -> Dxdw.dw(a, b, out, 0, Reduction.DETERMINISTIC, options);
    };
  }
}
