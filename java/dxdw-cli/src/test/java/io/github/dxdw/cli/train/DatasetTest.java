package io.github.dxdw.cli.train;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.dxdw.DType;
import io.github.dxdw.Tensor;
import java.lang.foreign.Arena;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

class DatasetTest {

  @Test
  void digitsAreComplete() {
    Dataset digits = Digits.load();
    assertEquals(1797, digits.size());
    assertEquals(64, digits.features());
    assertEquals(10, digits.classes());
    assertArrayEquals(new int[] {0, 1, 2}, IntStream.range(0, 3).map(digits::label).toArray());
    try (Arena arena = Arena.ofConfined()) {
      Tensor rows = Tensor.allocate(arena, DType.BFLOAT16, 2, 64);
      Tensor labels = Tensor.allocate(arena, DType.INT32, 2);
      digits.copy(new int[] {9, 8, 0}, 1, 3, rows, labels);
      assertEquals(8, labels.getInt(0));
      assertEquals(0, labels.getInt(1));
      assertEquals(5 / 16f, rows.get(1, 2));
      assertEquals(13 / 16f, rows.get(1, 3));
      assertEquals(9 / 16f, rows.get(0, 2));
    }
  }

  @Test
  @DisplayName(
      "Guards against examples that are trained on and tested on at once, lost or given another"
          + " label")
  void holdOutPartsTheExamples() {
    int count = 1003;
    float[] values = new float[count];
    int[] labels = new int[count];
    for (int i = 0; i < count; i++) {
      values[i] = i;
      labels[i] = i % 7;
    }
    Dataset[] parts = new Dataset("numbers", 1, values, labels).holdOut(5, 3);
    assertEquals(803, parts[0].size());
    assertEquals(200, parts[1].size());
    Map<Float, Integer> seen = new HashMap<>();
    try (Arena arena = Arena.ofConfined()) {
      Tensor value = Tensor.allocate(arena, DType.FLOAT32, 1, 1);
      Tensor label = Tensor.allocate(arena, DType.INT32, 1);
      for (Dataset part : parts) {
        int[] order = Dataset.inOrder(part.size());
        for (int i = 0; i < part.size(); i++) {
          part.copy(order, i, i + 1, value, label);
          assertEquals(part.label(i), label.getInt(0));
          seen.put(value.get(0, 0), part.label(i));
        }
      }
    }
    assertEquals(count, seen.size());
    seen.forEach((value, label) -> assertEquals(value.intValue() % 7, label));
  }

  @Test
  void shufflesAreFixedByTheirSeed() {
    int[] order = Dataset.shuffled(100, new Random(5));
    assertArrayEquals(order, Dataset.shuffled(100, new Random(5)));
    assertArrayEquals(Dataset.inOrder(100), IntStream.of(order).sorted().toArray());
    assertTrue(IntStream.range(0, 100).anyMatch(i -> order[i] != i));
  }

  @Test
  void refusesArraysThatDoNotFit() {
    IllegalArgumentException refused =
        assertThrows(
            IllegalArgumentException.class, () -> new Dataset("x", 3, new float[5], new int[2]));
    assertEquals("values: length 5, expected 2 rows of 3", refused.getMessage());
  }

  @Test
  void softmaxLossAndItsGradient() {
    double[] logits = {1000, 1000};
    assertEquals(Math.log(2), Bounded.softmaxLoss(logits, 0), 1e-12);
    assertArrayEquals(new double[] {-0.5, 0.5}, logits, 1e-12);
  }
}
