package io.github.dxdw;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.lang.foreign.Arena;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** The count of writes that views share. */
class VersionTest {
  private final Arena arena = Arena.ofAuto();

  @Test
  @DisplayName("guards against a write through our own methods that nobody notices")
  void everyWriteCounts() {
    Tensor x = Tensor.allocate(arena, DType.FLOAT32, 2, 2);
    Tensor w = Tensor.allocate(arena, DType.FLOAT32, 2, 2);
    Tensor sums = Tensor.allocate(arena, DType.FLOAT32, 2);
    long before = x.version();
    x.set(1, 0, 0);
    assertEquals(++before, x.version());
    x.fill(2);
    assertEquals(++before, x.version());
    x.copyFrom(w);
    assertEquals(++before, x.version());
    Dxdw.y(w, w, x);
    assertEquals(++before, x.version());
    Dxdw.dw(w, w, x, 2, Reduction.DETERMINISTIC, Options.defaults());
    assertEquals(++before, x.version());
    Dxdw.weightedSumBackward(w, sums, sums.copy(arena), x, sums.copy(arena));
    assertEquals(++before, x.version());
    assertEquals(0, w.version(), "reading counts");
    x.toFloatArray();
    x.get(0, 0);
    Dxdw.explainY(w, w, x);
    assertEquals(before, x.version());
  }

  @Test
  @DisplayName("guards against a write through one view that another doesn't show")
  void viewsShareTheCount() {
    Tensor x = Tensor.allocate(arena, DType.FLOAT32, 2, 3);
    Tensor row = x.select(0, 1);
    Tensor turned = x.transpose();
    row.set(1, 2);
    assertEquals(1, x.version());
    assertEquals(1, turned.slice(0, 1, 2).version());
    assertEquals(0, x.copy(arena).select(0, 0).version() - 1, "a copy is written once");
  }

  @Test
  @DisplayName("guards against a refused call that counts as a write")
  void refusedCallsWriteNothing() {
    Tensor x = Tensor.allocate(arena, DType.FLOAT32, 2, 3);
    assertThrows(IllegalArgumentException.class, () -> Dxdw.y(x, x, x));
    assertThrows(IllegalArgumentException.class, () -> Dxdw.y(x, null, x));
    Dxdw.dx(x, x, Tensor.allocate(arena, DType.FLOAT32, 2, 2));
    assertEquals(0, x.version());
  }
}
