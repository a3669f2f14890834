package io.github.dxdw.cli.train;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.zip.GZIPInputStream;

/**
 * The handwritten digits that come with the example: 1,797 images of 8×8 pixels. Source and
 * licence: digits.md.
 */
public final class Digits {

  private static final int PIXELS = 64;
  private static final float WHITE = 16f;

  private Digits() {}

  /** Reads the images; pixels are scaled to 0 to 1. */
  public static Dataset load() {
    try (BufferedReader reader =
        new BufferedReader(
            new InputStreamReader(
                new GZIPInputStream(Digits.class.getResourceAsStream("digits.csv.gz")),
                StandardCharsets.US_ASCII))) {
      List<String> lines = reader.lines().toList();
      float[] values = new float[lines.size() * PIXELS];
      int[] labels = new int[lines.size()];
      for (int row = 0; row < labels.length; row++) {
        String[] cells = lines.get(row).split(",");
        for (int pixel = 0; pixel < PIXELS; pixel++) {
          values[row * PIXELS + pixel] = Integer.parseInt(cells[pixel]) / WHITE;
        }
        labels[row] = Integer.parseInt(cells[PIXELS]);
      }
      return new Dataset("digits", PIXELS, values, labels);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
