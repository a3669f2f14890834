package io.github.dxdw.cli.bench;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;

/**
 * Results of a run, in the JSON format of native/bench, too.
 *
 * @param machine lines about processor, libraries and settings
 * @param repeats samples of each contender
 * @param quick whether the run was too short to be relied on
 * @param rows what was measured
 */
public record Report(List<String> machine, int repeats, boolean quick, List<Row> rows) {

  /** Checks that everything is there, as it may not be in a file. */
  public Report {
    machine = List.copyOf(present(machine, "machine"));
    rows = List.copyOf(present(rows, "rows"));
  }

  private static <T> T present(T value, String name) {
    if (value == null) {
      throw new IllegalArgumentException(name + " is missing");
    }
    return value;
  }

  private static final ObjectMapper JSON =
      JsonMapper.builder()
          .propertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE)
          .enable(SerializationFeature.INDENT_OUTPUT)
          .build();

  /**
   * One comparison.
   *
   * @param name what was done
   * @param threads on how many
   * @param unit of the contenders' numbers
   * @param ratio how many times as fast as the best peer the first contender was, by medians; 0
   *     without peers
   * @param bestRatio the same by the best samples
   * @param aim ratio that is aimed at; 0 for none
   * @param contenders the library first
   */
  public record Row(
      String name,
      int threads,
      String unit,
      double ratio,
      double bestRatio,
      double aim,
      List<Result> contenders) {

    /** Checks that everything is there. */
    public Row {
      present(name, "name");
      present(unit, "unit");
      contenders = List.copyOf(present(contenders, "contenders"));
    }

    /**
     * A row without an aim. In units that measure time less is better, in others, which end in /s,
     * more.
     */
    public static Row of(String name, int threads, String unit, List<Result> contenders) {
      return new Row(name, threads, unit, ratio(unit, contenders), 0, 0, contenders);
    }

    private static double ratio(String unit, List<Result> contenders) {
      double ours = contenders.getFirst().median();
      return contenders.stream()
          .skip(1)
          .mapToDouble(peer -> unit.endsWith("/s") ? ours / peer.median() : peer.median() / ours)
          .min()
          .orElse(0);
    }

    /** A line of the table. */
    @Override
    public String toString() {
      StringBuilder line =
          new StringBuilder(String.format(Locale.ROOT, "%-44s %d  ", name, threads));
      for (Result result : contenders) {
        line.append(' ').append(result.name()).append(' ').append(number(result.median()));
        if (result.low() != result.high()) {
          line.append(" [").append(number(result.low())).append('-');
          line.append(number(result.high())).append(']');
        }
      }
      line.append(' ').append(unit);
      if (ratio > 0) {
        line.append(String.format(Locale.ROOT, "  ratio %.2f", ratio));
      }
      if (aim > 0) {
        line.append(
            String.format(Locale.ROOT, " (aim %.2f%s)", aim, ratio < aim ? ", missed" : ""));
      }
      return line.toString();
    }

    private static String number(double value) {
      return String.format(Locale.ROOT, value < 100 ? "%.1f" : "%.0f", value);
    }
  }

  /**
   * What one contender reached.
   *
   * @param name who
   * @param median of the samples
   * @param low 10th percentile
   * @param high 90th percentile
   */
  public record Result(String name, double median, double low, double high) {
    /** Checks that there is a name. */
    public Result {
      present(name, "name");
    }
  }

  /** Reads a file that {@link #write} or native/bench wrote. */
  public static Report read(Path file) throws IOException {
    Report report = JSON.readValue(file.toFile(), Report.class);
    if (report == null) {
      throw new IOException("there is none");
    }
    return report;
  }

  /** Writes the report as JSON. */
  public void write(Path file) throws IOException {
    JSON.writeValue(file.toFile(), this);
  }
}
