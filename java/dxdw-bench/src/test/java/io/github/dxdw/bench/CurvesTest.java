package io.github.dxdw.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ai.djl.ndarray.NDArray;
import io.github.dxdw.DType;
import io.github.dxdw.Device;
import io.github.dxdw.cli.train.Backend;
import io.github.dxdw.cli.train.GradientCheck;
import io.github.dxdw.cli.train.Network;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** The same training by the library and in PyTorch. */
class CurvesTest {

  private static final int STEPS = 200;

  private final Curves curves = new Curves();

  @Test
  @DisplayName("Guards against a gradient, loss or optimizer that is not what PyTorch has")
  void lossesAgreeWithTorch() {
    double[] torch = curves.torch(STEPS);
    double[] ours = curves.ours(DType.FLOAT32, STEPS);
    double[] narrow = curves.ours(DType.BFLOAT16, STEPS);
    for (int step = 0; step < STEPS; step++) {
      assertEquals(torch[step], ours[step], 1e-3, "step " + step);
    }
    assertTrue(torch[STEPS - 1] < 0.2 * torch[0], torch[0] + " to " + torch[STEPS - 1]);
    double mean = IntStream.range(100, STEPS).mapToDouble(i -> torch[i]).average().orElseThrow();
    double narrowMean =
        IntStream.range(100, STEPS).mapToDouble(i -> narrow[i]).average().orElseThrow();
    assertEquals(mean, narrowMean, 0.05 * mean, "bfloat16 with float32 values");
  }

  @Test
  @DisplayName("Guards against first gradients that the stated bound does not cover in both")
  void firstGradientsAreInsideTheBound() {
    Backend backend = new Backend(Device.cpu(), DType.FLOAT32, 0);
    try (Arena arena = Arena.ofShared();
        Network network = curves.network(arena, backend);
        TorchNetwork torch = TorchNetwork.of(network)) {
      NDArray images = curves.images(torch.manager());
      NDArray labels = curves.labels(torch.manager());
      torch.differentiate(images, labels, LongStream.range(0, Curves.ROWS).toArray());
      List<float[]> gradients = new ArrayList<>();
      for (float[] mean : torch.gradients()) {
        // A power of two: exact.
        float[] sum = new float[mean.length];
        for (int i = 0; i < sum.length; i++) {
          sum[i] = mean[i] * Curves.ROWS;
        }
        gradients.add(sum);
      }
      List<GradientCheck.Result> ours =
          GradientCheck.firstStep(network, backend, curves.data(), curves.recipe());
      List<GradientCheck.Result> theirs =
          GradientCheck.firstStep(network, backend, curves.data(), curves.recipe(), gradients);
      assertEquals(5, ours.size());
      assertEquals(4, theirs.size());
      ours.forEach(result -> assertTrue(result.passed(), "dxdw: " + result));
      theirs.forEach(result -> assertTrue(result.passed(), "PyTorch: " + result));
    }
  }
}
