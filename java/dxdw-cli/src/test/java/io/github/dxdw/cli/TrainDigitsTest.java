package io.github.dxdw.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.awt.image.BufferedImage;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.IntStream;
import javax.imageio.ImageIO;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TrainDigitsTest {

  @ParameterizedTest
  @ValueSource(strings = {"fp32", "fp16", "bf16"})
  @DisplayName(
      "Guards against gradients that are wrong in a way that keeps a network from learning")
  void reachesItsAccuracy(String type) {
    Invocation run = Invocation.of("train", "digits", "--dtype", type);
    assertEquals(0, run.status(), run.err());
    assertEquals("", run.err());
    double accuracy = Double.parseDouble(run.after("test accuracy: "));
    assertTrue(accuracy >= 0.97, run.out());
    assertTrue(
        run.lines().getLast().matches("test accuracy: 0\\.9\\d\\d|test accuracy: 1\\.000"),
        run.out());
    assertEquals(30, run.lines().stream().filter(line -> line.startsWith("epoch ")).count());
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 3})
  @DisplayName("Guards against operands of 16 bits that cost more than half a point of accuracy")
  void sixteenBitsReachTheAccuracyOfFloat32(int seed) {
    assertEquals(accuracy("fp32", seed), accuracy("bf16", seed), 0.005 + 1e-9);
  }

  private static double accuracy(String type, int seed) {
    Invocation run =
        Invocation.of("train", "digits", "--dtype", type, "--seed", Integer.toString(seed));
    assertEquals(0, run.status(), run.err());
    return Double.parseDouble(run.after("test accuracy: "));
  }

  @ParameterizedTest
  @ValueSource(strings = {"fp32", "bf16"})
  @DisplayName("Guards against bits that depend on the run, on the threads or on --check")
  void sameSeedSameBits(String type) {
    List<String> expected = bits("--dtype", type);
    assertEquals(expected, bits("--dtype", type));
    assertEquals(expected, bits("--dtype", type, "--threads", "1"));
    assertEquals(expected, bits("--dtype", type, "--threads", "2"));
    assertEquals(expected.getLast(), bits("--dtype", type, "--check").getLast());
    assertEquals(bits("--dtype", type, "--split", "3"), bits("--dtype", type, "--split", "3"));
    assertNotEquals(expected.getLast(), bits("--dtype", type, "--seed", "2").getLast());
  }

  /** All output of a short training but the accuracy, so that the weights come last. */
  private static List<String> bits(String... options) {
    String[] arguments =
        IntStream.range(0, options.length + 4)
            .mapToObj(
                i -> i < 4 ? new String[] {"train", "digits", "--epochs", "2"}[i] : options[i - 4])
            .toArray(String[]::new);
    Invocation run = Invocation.of(arguments);
    assertEquals(0, run.status(), run.err());
    assertEquals(64, run.after("weights sha256: ").length());
    return run.lines().subList(0, run.lines().size() - 1);
  }

  @Test
  void checkPrintsEachGradientBesideItsBound() {
    Invocation run = Invocation.of("train", "digits", "--epochs", "1", "--check");
    assertEquals(0, run.status(), run.err());
    for (String gradient :
        List.of("layer 1 dW", "layer 1 db", "layer 2 dW", "layer 2 db", "layer 2 dX")) {
      assertTrue(
          run.after("check " + gradient)
              .matches("worst error \\S+  bound \\S+  at \\[\\d+, \\d+]  ok"),
          run.out());
    }
  }

  @Test
  @DisplayName("Guards against a chart that is empty, of another format or of another size")
  void drawsAChart(@TempDir Path folder) throws IOException {
    Path file = folder.resolve("loss.png");
    Invocation run = Invocation.of("train", "digits", "--epochs", "3", "--chart", file.toString());
    assertEquals(0, run.status(), run.err());
    BufferedImage picture = ImageIO.read(file.toFile());
    assertEquals(900, picture.getWidth());
    assertEquals(520, picture.getHeight());
    long blue =
        IntStream.range(0, 900 * 520)
            .map(i -> picture.getRGB(i % 900, i / 900) & 0xffffff)
            .filter(colour -> colour == 0x1f5fa8)
            .count();
    assertTrue(blue > 300, "only " + blue + " pixels of the loss");
  }
}
