package io.github.dxdw.cli.train;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.dxdw.DType;
import io.github.dxdw.Device;
import io.github.dxdw.autograd.Parameter;
import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

class GradientCheckTest {

  private static final Recipe RECIPE = new Recipe(1, 16, 4, Recipe.Rule.ADAM, 2e-2f, 0.2f);
  private static final Dataset DATA = Digits.load();

  @ParameterizedTest
  @CsvSource({
    "FLOAT32, 0", "FLOAT32, 1", "FLOAT32, 2", "FLOAT32, 5", "FLOAT32, 16",
    "FLOAT16, 0", "FLOAT16, 1", "FLOAT16, 2", "FLOAT16, 5", "FLOAT16, 16",
    "BFLOAT16, 0", "BFLOAT16, 1", "BFLOAT16, 2", "BFLOAT16, 5", "BFLOAT16, 16",
  })
  @DisplayName(
      "Guards against a gradient that no rounding explains, in any type and split, deep networks"
          + " included")
  void gradientsLieInsideTheirBounds(DType type, int split) {
    Backend backend = new Backend(Device.cpu(), type, split);
    for (int[] sizes : new int[][] {{64, 128, 10}, {64, 33, 17, 10}, {64, 10}}) {
      try (Arena arena = Arena.ofShared();
          Network network = new Network(arena, backend, RECIPE.microBatchRows(), 7, sizes)) {
        List<GradientCheck.Result> results =
            GradientCheck.firstStep(network, backend, DATA, RECIPE);
        assertEquals(3 * (sizes.length - 1) - 1, results.size());
        results.forEach(
            result -> assertTrue(result.passed(), type + ", split " + split + ": " + result));
        for (Parameter parameter : network.parameters()) {
          assertEquals(0f, parameter.gradient().toFloatArray()[0], "gradients are left behind");
        }
      }
    }
  }

  @ParameterizedTest
  @EnumSource(value = DType.class, mode = EnumSource.Mode.EXCLUDE, names = "INT32")
  @DisplayName(
      "Guards against a check that passes whatever comes: one example counted twice must be seen")
  void seesAnExampleThatIsCountedTwice(DType type) {
    Backend backend = new Backend(Device.cpu(), type, 0);
    try (Arena arena = Arena.ofShared();
        Network network = new Network(arena, backend, RECIPE.microBatchRows(), 7, 64, 128, 10)) {
      GradientCheck check = new GradientCheck(network, backend);
      check.accumulate(DATA, RECIPE);
      network.load(DATA, Dataset.inOrder(1), 0, 1);
      network.forward();
      network.backward();
      check.compareParameters();
      List<GradientCheck.Result> results = check.results();
      for (int layer = 1; layer <= 2; layer++) {
        String name = "layer " + layer + " dW";
        assertFalse(
            results.stream()
                .filter(r -> r.gradient().equals(name))
                .findFirst()
                .orElseThrow()
                .passed(),
            results.toString());
      }
    }
  }

  @ParameterizedTest
  @CsvSource({"NaN", "Infinity", "1.001"})
  @DisplayName("Guards against NaN and infinity that compare as inside")
  void reportsTheWorstElement(float wrong) {
    Bounded expected = new Bounded(2, 3);
    for (int i = 0; i < expected.value.length; i++) {
      expected.value[i] = 1;
      expected.error[i] = 1e-4;
    }
    float[] gradient = new float[6];
    Arrays.fill(gradient, 1.00005f);
    assertTrue(GradientCheck.compare("dW", expected, gradient).passed());
    gradient[4] = wrong;
    GradientCheck.Result result = GradientCheck.compare("dW", expected, gradient);
    assertFalse(result.passed());
    assertEquals(1, result.row());
    assertEquals(1, result.column());
  }
}
