package io.github.dxdw.cli.bench;

import java.awt.Color;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.knowm.xchart.CategoryChart;
import org.knowm.xchart.CategoryChartBuilder;

/**
 * A picture of the products in a report: GFLOP/s of each contender by shape and function, a panel
 * for each type and number of threads that was measured beside a peer.
 */
public final class RateChart {

  private static final Pattern PRODUCT =
      Pattern.compile("product (\\d+),(\\d+),(\\d+) (Y|dX|dW) (fp32|bf16|fp16)");

  private RateChart() {}

  /**
   * Writes the picture as a PNG file.
   *
   * @throws IOException if the file can't be written
   * @throws IllegalArgumentException if the report has no product with a peer
   */
  public static void write(Report report, Path file) throws IOException {
    List<CategoryChart> panels = new ArrayList<>();
    Map<String, Color> colours = new HashMap<>();
    for (String type : List.of("fp32", "bf16", "fp16")) {
      report.rows().stream()
          .mapToInt(Report.Row::threads)
          .distinct()
          .sorted()
          .forEach(threads -> panel(report, type, threads, panels, colours));
    }
    if (panels.isEmpty()) {
      throw new IllegalArgumentException("the report has no product that a peer took part in");
    }
    Panels.save(panels, file);
  }

  private static void panel(
      Report report,
      String type,
      int threads,
      List<CategoryChart> panels,
      Map<String, Color> colours) {
    List<String> labels = new ArrayList<>();
    Map<String, List<Double>> rates = new LinkedHashMap<>();
    for (Report.Row row : report.rows()) {
      Matcher product = PRODUCT.matcher(row.name());
      if (row.threads() != threads
          || !product.matches()
          || !product.group(5).equals(type)
          || row.contenders().size() < 2) {
        continue;
      }
      labels.add(
          "%s %s×%s×%s"
              .formatted(product.group(4), product.group(1), product.group(2), product.group(3)));
      for (Report.Result result : row.contenders()) {
        rates.computeIfAbsent(result.name(), name -> new ArrayList<>()).add(result.median());
      }
    }
    if (labels.isEmpty()) {
      return;
    }
    CategoryChart chart =
        new CategoryChartBuilder()
            .width(Panels.WIDTH)
            .height(Panels.HEIGHT)
            .title(type + ", " + threads + (threads == 1 ? " thread" : " threads"))
            .yAxisTitle("GFLOP/s")
            .build();
    Panels.style(chart.getStyler());
    // A contender that left a row out can't be drawn beside the others.
    rates.forEach(
        (name, values) -> {
          if (values.size() == labels.size()) {
            chart
                .addSeries(name, labels, values)
                .setFillColor(
                    colours.computeIfAbsent(name, unseen -> Panels.colour(colours.size())));
          }
        });
    panels.add(chart);
  }
}
