package io.github.dxdw.internal;

import io.github.dxdw.bindings.dxdw_tensor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;

/** The functions of dxdw_call in words, by their codes. */
final class Functions {
  private record Function(String name, int operands) {}

  private static final List<Function> ALL =
      List.of(
          new Function("y", 3),
          new Function("dx", 3),
          new Function("dw", 3),
          new Function("dwReduce", 2),
          new Function("weightedSum", 3),
          new Function("weightedSumBackward", 5),
          new Function("copy", 2),
          new Function("add", 3),
          new Function("relu", 2),
          new Function("reluBackward", 3),
          new Function("gelu", 2),
          new Function("geluBackward", 3),
          new Function("sumRows", 2),
          new Function("dw with a bias", 4),
          new Function("softmaxCrossEntropy", 3),
          new Function("softmaxCrossEntropyBackward", 4),
          new Function("squaredError", 3),
          new Function("squaredErrorBackward", 4),
          new Function("squaredNorm", 2),
          new Function("clipFactor", 2),
          new Function("sgd", 5),
          new Function("adamw", 6));

  private Functions() {}

  /** The Java name of a function. */
  static String name(int code) {
    return ALL.get(code).name();
  }

  /** Types and shapes of a function's operands, which stand one behind the other. */
  static String operands(int code, MemorySegment operands) {
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < ALL.get(code).operands(); ++i) {
      MemorySegment tensor = operands.asSlice(i * dxdw_tensor.sizeof(), dxdw_tensor.sizeof());
      text.append(i == 0 ? "" : ", ");
      describe(tensor, text);
    }
    return text.toString();
  }

  private static void describe(MemorySegment tensor, StringBuilder text) {
    int rank = dxdw_tensor.ndim(tensor);
    if (rank < 0) {
      text.append("none");
      return;
    }
    byte code = dxdw_tensor.dtype_code(tensor);
    text.append(code == 4 ? "bfloat" : code == 2 ? "float" : "int");
    text.append(dxdw_tensor.dtype_bits(tensor)).append('[');
    MemorySegment shape = dxdw_tensor.shape(tensor).reinterpret(rank * 8L);
    for (int d = 0; d < rank; ++d) {
      text.append(d == 0 ? "" : ", ").append(shape.getAtIndex(ValueLayout.JAVA_LONG, d));
    }
    text.append(']');
  }
}
