package io.github.dxdw;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/**
 * The functions around products, called as a user calls them, on numbers small enough to check by
 * eye.
 */
class TrainingTest {
  private static void refused(String message, Runnable call) {
    IllegalArgumentException thrown = assertThrows(IllegalArgumentException.class, call::run);
    assertTrue(thrown.getMessage().contains(message), thrown.getMessage());
  }

  @Test
  @DisplayName(
      "guards against operands of activations and bias gradients that arrive in another order")
  void activations() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor x = Tensor.of(arena, new float[] {-1, 2, 3, -4}, 2, 2);
      Tensor bias = Tensor.of(arena, new float[] {10, 20});
      Tensor y = Tensor.allocate(arena, DType.FLOAT32, 2, 2);
      Dxdw.add(x, bias.expand(2, 2), y);
      assertArrayEquals(new float[] {9, 22, 13, 16}, y.toFloatArray());
      Dxdw.relu(x, y);
      assertArrayEquals(new float[] {0, 2, 3, 0}, y.toFloatArray());
      Tensor g = Tensor.of(arena, new float[] {5, 6, 7, 8}, 2, 2);
      Dxdw.reluBackward(x, g, y);
      assertArrayEquals(new float[] {0, 6, 7, 0}, y.toFloatArray());
      Dxdw.gelu(x, y);
      assertEquals(2 * 0.9772498680518208, y.get(0, 1), 1e-6);
      Dxdw.geluBackward(x, g, y);
      assertEquals(6 * (0.9772498680518208 + 2 * 0.05399096651318806), y.get(0, 1), 1e-5);
      Dxdw.relu(x, x);
      assertArrayEquals(new float[] {0, 2, 3, 0}, x.toFloatArray());
      Tensor gb = Tensor.of(arena, new float[] {100, 200});
      Dxdw.sumRows(g, gb);
      assertArrayEquals(new float[] {112, 214}, gb.toFloatArray());
      Tensor dw = Tensor.allocate(arena, DType.FLOAT32, 2, 2);
      Dxdw.dw(x, g, dw, gb);
      assertArrayEquals(new float[] {21, 24, 10, 12}, dw.toFloatArray());
      assertArrayEquals(new float[] {124, 228}, gb.toFloatArray());
    }
  }

  @Test
  @DisplayName("guards against labels, losses and their gradients that arrive in another order")
  void losses() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor logits = Tensor.of(arena, new float[] {0, 0, (float) Math.log(3), 0}, 2, 2);
      Tensor labels = Tensor.of(arena, new int[] {1, 0});
      Tensor loss = Tensor.allocate(arena, DType.FLOAT32, 2);
      Dxdw.softmaxCrossEntropy(logits, labels, loss);
      assertEquals(Math.log(2), loss.get(0), 1e-6);
      assertEquals(Math.log(4.0 / 3), loss.get(1), 1e-6);
      Tensor g = Tensor.of(arena, new float[] {1, 4});
      Tensor gx = Tensor.allocate(arena, DType.FLOAT32, 2, 2);
      Dxdw.softmaxCrossEntropyBackward(logits, labels, g, gx);
      assertArrayEquals(new float[] {0.5f, -0.5f, -1, 1}, gx.toFloatArray(), 1e-6f);
      Tensor target = Tensor.of(arena, new float[] {1, 2, 0, 3}, 2, 2);
      Tensor x = Tensor.of(arena, new float[] {1, 4, 1, 1}, 2, 2);
      Dxdw.squaredError(x, target, loss);
      assertArrayEquals(new float[] {4, 5}, loss.toFloatArray());
      Dxdw.squaredErrorBackward(x, target, g, gx);
      assertArrayEquals(new float[] {0, 4, 8, -16}, gx.toFloatArray());
      labels.setInt(2, 1);
      refused(
          "labels: value 2 at row 1 is outside 0 to 1",
          () -> Dxdw.softmaxCrossEntropy(logits, labels, loss));
    }
  }

  @Test
  @DisplayName("guards against state and numbers of optimizers that arrive in another order")
  void optimizers() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor g = Tensor.of(arena, new float[] {3, 4});
      Tensor norm = Tensor.scalar(arena, 0);
      Dxdw.squaredNorm(g, norm);
      assertEquals(25, norm.get());
      Tensor scale = Tensor.scalar(arena, 0);
      Dxdw.clipFactor(norm, scale, 2.5);
      assertEquals(0.5f, scale.get());
      Tensor p = Tensor.of(arena, new float[] {1, 2});
      Tensor velocity = Tensor.of(arena, new float[] {2, 0});
      Tensor copy = Tensor.allocate(arena, DType.BFLOAT16, 2);
      Dxdw.sgd(p, g, velocity, copy, scale, 0.5, 0.25, 2, false);
      assertArrayEquals(new float[] {4, 6}, velocity.toFloatArray());
      assertArrayEquals(new float[] {-1, -1}, p.toFloatArray());
      assertArrayEquals(new float[] {-1, -1}, copy.toFloatArray());
      Dxdw.sgd(p, g, null, null, null, 0.5, 0, 0, false);
      assertArrayEquals(new float[] {-2.5f, -3}, p.toFloatArray());
      Tensor m = Tensor.of(arena, new float[] {0, 1});
      Tensor v = Tensor.of(arena, new float[] {0, 16});
      Tensor q = Tensor.of(arena, new float[] {1, 1});
      Dxdw.adamw(q, g, m, v, copy, null, 0.5, 0.5, 0.75, 0, 0.5, 2);
      // m = 1.5, 2.5; v = 2.25, 16; divided by 0.75 and 0.4375.
      assertArrayEquals(new float[] {1.5f, 2.5f}, m.toFloatArray());
      assertArrayEquals(new float[] {2.25f, 16}, v.toFloatArray());
      assertEquals(0.75 - 0.5 * 2 / Math.sqrt(2.25 / 0.4375), q.get(0), 1e-6);
      refused("scalars: beta1", () -> Dxdw.adamw(q, g, m, v, null, null, 0.5, 1, 0.5, 0, 0, 1));
      refused("scalars: lr", () -> Dxdw.sgd(p, g, null, null, null, -1, 0, 0, false));
      refused("momentum", () -> Dxdw.sgd(p, g, null, null, null, 1, 0.9, 0, false));
      refused("nesterov", () -> Dxdw.sgd(p, g, velocity, null, null, 1, 0, 0, true));
    }
  }

  @Test
  @DisplayName("guards against integers that are read as floats, or floats as integers")
  void integers() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor labels = Tensor.of(arena, new int[] {1, -2, 3, Integer.MIN_VALUE}, 2, 2);
      assertEquals("int32", labels.dtype().toString());
      assertEquals(Integer.MIN_VALUE, labels.getInt(1, 1));
      assertEquals("int32[2, 2] cpu\n[[1, -2],\n [3, -2147483648]]", labels.toString());
      assertEquals(3, labels.transpose().copy(arena).getInt(0, 1));
      Tensor floats = Tensor.allocate(arena, DType.FLOAT32, 2, 2);
      refused("use getInt", () -> labels.get(0, 0));
      refused("use setInt", () -> labels.set(1, 0, 0));
      refused("use setInt", () -> labels.fill(1));
      refused("use getInt", labels::toFloatArray);
      refused("use get", () -> floats.getInt(0, 0));
      refused("use set", () -> floats.setInt(1, 0, 0));
      refused("int32", () -> floats.copyFrom(labels));
      refused("int32", () -> labels.copyFrom(floats));
      refused("x: type is int32", () -> Dxdw.relu(labels, floats));
      refused("labels: type is float32", () -> Dxdw.softmaxCrossEntropy(floats, floats, floats));
      refused("values: 3", () -> Tensor.of(arena, new int[3], 2, 2));
    }
  }
}
