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
          new Function("copy", 2));

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
    text.append(dxdw_tensor.dtype_code(tensor) == 4 ? "bfloat" : "float");
    text.append(dxdw_tensor.dtype_bits(tensor)).append('[');
    MemorySegment shape = dxdw_tensor.shape(tensor).reinterpret(rank * 8L);
    for (int d = 0; d < rank; ++d) {
      text.append(d == 0 ? "" : ", ").append(shape.getAtIndex(ValueLayout.JAVA_LONG, d));
    }
    text.append(']');
  }
}
