package io.github.dxdw.cli.train;

import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.zip.GZIPInputStream;
import java.util.zip.ZipException;

/**
 * Fashion-MNIST (Xiao, Rasul and Vollgraf, 2017): images of clothes of 28×28 pixels in 10 classes,
 * 60,000 to train on and 10,000 held out, in gzipped IDX files.
 *
 * <p>An IDX file holds a magic number, 0x0801 for one dimension of bytes and 0x0803 for three, then
 * the size of each dimension, big-endian, then the bytes.
 */
public final class FashionMnist {

  /** Where Debian's package dataset-fashion-mnist puts the files. */
  public static final Path FOLDER = Path.of("/usr/share/datasets/fashion-mnist");

  private static final int LABELS_MAGIC = 0x0801;
  private static final int IMAGES_MAGIC = 0x0803;
  private static final float WHITE = 255f;

  /** Many times what the data set has. */
  private static final long MOST_BYTES = 1 << 29;

  private FashionMnist() {}

  /** Whether {@code folder} holds the four files. */
  public static boolean isIn(Path folder) {
    return Files.isRegularFile(images(folder, "train"))
        && Files.isRegularFile(labels(folder, "train"))
        && Files.isRegularFile(images(folder, "t10k"))
        && Files.isRegularFile(labels(folder, "t10k"));
  }

  /**
   * Reads the images; pixels are scaled to 0 to 1.
   *
   * @return the examples to train on, then those held out
   * @throws IOException if a file can't be read, or is no IDX file of the right kind
   */
  public static Dataset[] load(Path folder) throws IOException {
    return new Dataset[] {read(folder, "train"), read(folder, "t10k")};
  }

  private static Path images(Path folder, String part) {
    return folder.resolve(part + "-images-idx3-ubyte.gz");
  }

  private static Path labels(Path folder, String part) {
    return folder.resolve(part + "-labels-idx1-ubyte.gz");
  }

  private static Dataset read(Path folder, String part) throws IOException {
    int[] sizes = new int[3];
    byte[] pixels = read(images(folder, part), IMAGES_MAGIC, sizes);
    if (pixels.length == 0) {
      throw new IOException(images(folder, part) + " has no images");
    }
    int features = sizes[1] * sizes[2];
    float[] values = new float[pixels.length];
    for (int i = 0; i < pixels.length; i++) {
      values[i] = Byte.toUnsignedInt(pixels[i]) / WHITE;
    }
    byte[] bytes = read(labels(folder, part), LABELS_MAGIC, new int[1]);
    if (bytes.length != sizes[0]) {
      throw new IOException(
          labels(folder, part)
              + " has "
              + bytes.length
              + " labels for the "
              + sizes[0]
              + " images of "
              + images(folder, part));
    }
    int[] labels = new int[bytes.length];
    for (int i = 0; i < labels.length; i++) {
      labels[i] = Byte.toUnsignedInt(bytes[i]);
    }
    return new Dataset("fashion", features, values, labels);
  }

  /** Reads all bytes of an IDX file, and the size of each of its dimensions into {@code sizes}. */
  private static byte[] read(Path file, int magic, int[] sizes) throws IOException {
    try (InputStream zipped = Files.newInputStream(file);
        DataInputStream in = new DataInputStream(new GZIPInputStream(zipped, 1 << 16))) {
      int found = in.readInt();
      if (found != magic) {
        throw new IOException(
            String.format("%s starts with 0x%04x, expected 0x%04x", file, found, magic));
      }
      long count = 1;
      for (int d = 0; d < sizes.length; d++) {
        sizes[d] = in.readInt();
        count *= Math.max(sizes[d], 0);
        if (sizes[d] < 0 || count > MOST_BYTES) {
          throw new IOException(
              file
                  + " tells of a size of "
                  + sizes[d]
                  + ", or of more than "
                  + MOST_BYTES
                  + " bytes");
        }
      }
      // Not all at once: the file may be shorter than it says.
      byte[] bytes = in.readNBytes((int) count);
      if (bytes.length < count) {
        throw new EOFException();
      }
      // At its end the checksum is compared.
      if (in.read() != -1) {
        throw new IOException(file + " has more bytes than its sizes tell");
      }
      return bytes;
    } catch (EOFException | ZipException e) {
      throw new IOException(file + " is damaged or ends too early", e);
    }
  }
}
