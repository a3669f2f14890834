package io.github.dxdw;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Adding up over micro-batches, with a zeroing that writes nothing. */
class GradientBufferTest {
  private final Arena arena = Arena.ofAuto();
  private final Tensor x = Tensor.of(arena, new float[][] {{1, 2}, {3, 4}});
  private final Tensor dy = Tensor.of(arena, new float[][] {{1}, {10}});

  @Test
  void addsUp() {
    GradientBuffer buffer = GradientBuffer.allocate(arena, 2, 1);
    buffer.accumulateDw(x, dy);
    buffer.accumulateDw(x, dy, 2, Reduction.DETERMINISTIC, Options.defaults());
    assertArrayEquals(new float[] {62, 84}, buffer.tensor().toFloatArray());
    assertEquals("float32[2, 1] cpu\n[[62.0],\n [84.0]]", buffer.toString());
  }

  @Test
  @DisplayName("guards against a zeroed buffer whose old contents, NaN here, are read all the same")
  void zeroMakesTheNextCallAssign() {
    Tensor memory = Tensor.of(arena, new float[] {Float.NaN, Float.NaN}, 2, 1);
    GradientBuffer buffer = GradientBuffer.of(memory);
    buffer.zero();
    assertTrue(Float.isNaN(memory.get(0, 0)), "zeroing writes nothing");
    buffer.accumulateDw(x, dy);
    assertArrayEquals(new float[] {31, 42}, memory.toFloatArray());
    buffer.zero();
    buffer.accumulatePartials(
        Tensor.of(arena, new float[] {1, 2, 3, 4}, 2, 2, 1), Options.defaults());
    assertArrayEquals(new float[] {4, 6}, memory.toFloatArray());
    buffer.zero();
    assertArrayEquals(new float[] {0, 0}, buffer.tensor().toFloatArray());
    buffer.accumulateDw(x, dy);
    assertArrayEquals(new float[] {31, 42}, buffer.tensor().toFloatArray());
  }

  @Test
  @DisplayName("guards against a mark that a refused call uses up")
  void refusedCallKeepsTheMark() {
    GradientBuffer buffer = GradientBuffer.of(Tensor.of(arena, new float[] {5, 6}, 2, 1));
    buffer.zero();
    assertThrows(IllegalArgumentException.class, () -> buffer.accumulateDw(dy, x));
    buffer.accumulateDw(x, dy);
    assertArrayEquals(new float[] {31, 42}, buffer.tensor().toFloatArray());
  }

  @Test
  @DisplayName("guards against a weight gradient of a weighted sum that is forgotten")
  void weightedSum() {
    Tensor w = Tensor.of(arena, new float[] {1, 1});
    Tensor g = Tensor.of(arena, new float[] {1, 10});
    Tensor gx = Tensor.allocate(arena, DType.FLOAT32, 2, 2);
    GradientBuffer buffer = GradientBuffer.allocate(arena, 2);
    buffer.accumulateWeightedSum(x, w, g, gx);
    buffer.accumulateWeightedSum(x, w, g, null);
    assertArrayEquals(new float[] {62, 84}, buffer.tensor().toFloatArray());
    assertArrayEquals(new float[] {1, 1, 10, 10}, gx.toFloatArray());
  }

  @Test
  @DisplayName("guards against main gradients that lose low bits: 256 and 1, 4096 times 2^-10")
  void float32MainGradient() {
    Tensor one = Tensor.of(arena, new float[][] {{1}}).to(DType.BFLOAT16, arena);
    Tensor small = Tensor.of(arena, new float[][] {{0x1p-10f}}).to(DType.BFLOAT16, arena);
    GradientBuffer buffer = GradientBuffer.of(Tensor.of(arena, new float[][] {{256}}));
    buffer.accumulateDw(one, one);
    assertEquals(257, buffer.tensor().get(0, 0));
    buffer.zero();
    for (int i = 0; i < 4096; ++i) {
      buffer.accumulateDw(one, small);
    }
    assertEquals(4, buffer.tensor().get(0, 0));
  }

  @Test
  void takesFloat32Alone() {
    String message =
        assertThrows(
                IllegalArgumentException.class,
                () -> GradientBuffer.of(Tensor.allocate(arena, DType.FLOAT16, 2)))
            .getMessage();
    assertTrue(message.contains("float16[2]"), message);
  }
}
