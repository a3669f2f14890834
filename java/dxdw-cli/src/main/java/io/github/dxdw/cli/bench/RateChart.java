package io.github.dxdw.cli.bench;

import java.awt.Color;
import java.awt.Font;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.knowm.xchart.BitmapEncoder;
import org.knowm.xchart.BitmapEncoder.BitmapFormat;
import org.knowm.xchart.CategoryChart;
import org.knowm.xchart.CategoryChartBuilder;
import org.knowm.xchart.style.AxesChartStyler;
import org.knowm.xchart.style.CategoryStyler;
import org.knowm.xchart.style.Styler;

/**
 * A picture of the products in a report: GFLOP/s of each contender by shape and function, a panel
 * for each type and number of threads that was measured beside a peer.
 */
public final class RateChart {

  private static final Pattern PRODUCT =
      Pattern.compile("product (\\d+),(\\d+),(\\d+) (Y|dX|dW) (fp32|bf16|fp16)");
  private static final int COLUMNS = 2;
  private static final int WIDTH = 860;
  private static final int HEIGHT = 430;

  /** Of the contenders in the order in which they come, the same in all panels. */
  private static final Color[] COLOURS = {
    new Color(0x1f, 0x5f, 0xa8), new Color(0xd5, 0x6a, 0x1a), new Color(0x8a, 0x8f, 0x98)
  };

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
    int columns = Math.min(COLUMNS, panels.size());
    BitmapEncoder.saveBitmap(
        panels, Math.ceilDiv(panels.size(), columns), columns, file.toString(), BitmapFormat.PNG);
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
            .width(WIDTH)
            .height(HEIGHT)
            .title("%s, %d thread%s".formatted(type, threads, threads == 1 ? "" : "s"))
            .yAxisTitle("GFLOP/s")
            .build();
    style(chart.getStyler());
    // A contender that left a row out can't be drawn beside the others.
    rates.forEach(
        (name, values) -> {
          if (values.size() == labels.size()) {
            chart
                .addSeries(name, labels, values)
                .setFillColor(
                    colours.computeIfAbsent(
                        name, unseen -> COLOURS[colours.size() % COLOURS.length]));
          }
        });
    panels.add(chart);
  }

  private static void style(CategoryStyler styler) {
    styler.setChartBackgroundColor(Color.WHITE);
    styler.setPlotBorderVisible(false);
    styler.setPlotGridVerticalLinesVisible(false);
    styler.setAvailableSpaceFill(0.8);
    styler.setOverlapped(false);
    styler.setXAxisLabelRotation(60);
    styler.setXAxisLabelAlignmentVertical(AxesChartStyler.TextAlignment.Right);
    styler.setAxisTickLabelsFont(new Font(Font.SANS_SERIF, Font.PLAIN, 10));
    styler.setLegendPosition(Styler.LegendPosition.OutsideE);
    styler.setYAxisMin(0.0);
  }
}
