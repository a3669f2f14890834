/**
 * The gradient kernels of a matrix product for the JVM: {@link io.github.dxdw.Dxdw} is the entry
 * point, {@link io.github.dxdw.Tensor} the operand.
 */
module io.github.dxdw {
  requires static jdk.jfr;

  exports io.github.dxdw;
  exports io.github.dxdw.autograd;
}
