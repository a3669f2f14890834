package io.github.dxdw.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import java.util.zip.GZIPOutputStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** On small files of the same format: images whose rows tell the class, with noise. */
class TrainFashionTest {

  private static final int CLASSES = 10;
  private static final int SIDE = 28;

  @TempDir private Path folder;

  @BeforeEach
  void writeFiles() throws IOException {
    write("train", 1000, new Random(1));
    write("t10k", 300, new Random(2));
  }

  private void write(String part, int count, Random random) throws IOException {
    try (DataOutputStream images = create(part + "-images-idx3-ubyte.gz");
        DataOutputStream labels = create(part + "-labels-idx1-ubyte.gz")) {
      labels.writeInt(0x0801);
      labels.writeInt(count);
      images.writeInt(0x0803);
      for (int size : new int[] {count, SIDE, SIDE}) {
        images.writeInt(size);
      }
      for (int i = 0; i < count; i++) {
        int label = random.nextInt(CLASSES);
        labels.writeByte(label);
        for (int pixel = 0; pixel < SIDE * SIDE; pixel++) {
          images.writeByte(random.nextInt(100) + (pixel / SIDE / 2 == label ? 155 : 0));
        }
      }
    }
  }

  private DataOutputStream create(String name) throws IOException {
    return new DataOutputStream(new GZIPOutputStream(Files.newOutputStream(folder.resolve(name))));
  }

  private Invocation train(String... options) {
    return Invocation.of(
        Stream.concat(
                Stream.of("train", "fashion", "--data", folder.toString()), Stream.of(options))
            .toArray(String[]::new));
  }

  @ParameterizedTest
  @ValueSource(strings = {"fp32", "bf16"})
  @DisplayName(
      "Guards against a momentum step that does not learn, and against a last batch that is not"
          + " full")
  void learns(String type) {
    Invocation run = train("--dtype", type, "--epochs", "8");
    assertEquals(0, run.status(), run.err());
    assertTrue(Double.parseDouble(run.after("test accuracy: ")) >= 0.95, run.out());
    assertTrue(Integer.parseInt(run.after("images per second: ")) > 0, run.out());
    assertEquals(
        run.after("weights sha256: "),
        train("--dtype", type, "--epochs", "8", "--threads", "1").after("weights sha256: "));
  }

  @Test
  void gradientsOfThreeLayersPassTheCheck() {
    Invocation run = train("--epochs", "1", "--check");
    assertEquals(0, run.status(), run.err());
    assertEquals(8, run.lines().stream().filter(line -> line.startsWith("check ")).count());
  }

  @Test
  @DisplayName("Guards against a stack trace where the images are not installed")
  void missingFilesAreOneLineThatNamesThePackage() throws IOException {
    Files.delete(folder.resolve("t10k-labels-idx1-ubyte.gz"));
    Invocation run = train();
    assertEquals(1, run.status());
    assertEquals(
        List.of(
            "dxdw: Fashion-MNIST is not in "
                + folder
                + ": install Debian's package dataset-fashion-mnist"),
        run.errorLines());
  }

  @Test
  @DisplayName("Guards against damaged files that end in a stack trace, a full heap, or \"null\"")
  void refusesDamagedFiles() throws IOException {
    String images = "train-images-idx3-ubyte.gz";
    byte[] whole = Files.readAllBytes(folder.resolve(images));
    for (int length : new int[] {0, 5, 30, whole.length / 2, whole.length - 1}) {
      Files.write(folder.resolve(images), Arrays.copyOf(whole, length));
      assertRefused(images + " is damaged or ends too early");
    }
    Files.writeString(folder.resolve(images), "this is no gzip file at all");
    assertRefused(images + " is damaged or ends too early");
    writeImages(images, 100, 28, 28);
    assertRefused(images + " is damaged or ends too early");
    writeImages(images, Integer.MAX_VALUE, Integer.MAX_VALUE, Integer.MAX_VALUE);
    assertRefused("more than");
    writeImages(images, -1, 28, 28);
    assertRefused("a size of -1");
    writeImages(images, 0, 28, 28);
    assertRefused("has no images");
    try (DataOutputStream out = create(images)) {
      out.write(new byte[] {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 7, 7});
    }
    assertRefused("has more bytes than its sizes tell");
    Files.write(folder.resolve(images), whole);
    Files.copy(
        folder.resolve("t10k-labels-idx1-ubyte.gz"),
        folder.resolve("train-labels-idx1-ubyte.gz"),
        StandardCopyOption.REPLACE_EXISTING);
    assertRefused("has 300 labels for the 1000 images of ");
  }

  /** Sizes, and nothing behind them. */
  private void writeImages(String name, int... sizes) throws IOException {
    try (DataOutputStream out = create(name)) {
      out.writeInt(0x0803);
      for (int size : sizes) {
        out.writeInt(size);
      }
    }
  }

  private void assertRefused(String expected) {
    Invocation run = train();
    assertEquals(1, run.status());
    assertEquals(1, run.errorLines().size(), run.err());
    assertTrue(run.err().startsWith("dxdw: can't read Fashion-MNIST: " + folder), run.err());
    assertTrue(run.err().contains(expected), run.err());
  }

  @Test
  @DisplayName("Guards against another kind of file that is taken for images")
  void refusesLabelsInPlaceOfImages() throws IOException {
    Files.copy(
        folder.resolve("train-labels-idx1-ubyte.gz"),
        folder.resolve("train-images-idx3-ubyte.gz"),
        StandardCopyOption.REPLACE_EXISTING);
    Invocation run = train();
    assertEquals(1, run.status());
    assertEquals(1, run.errorLines().size(), run.err());
    assertTrue(run.err().contains("starts with 0x0801, expected 0x0803"), run.err());
  }
}
