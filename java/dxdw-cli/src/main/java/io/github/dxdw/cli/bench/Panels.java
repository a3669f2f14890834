package io.github.dxdw.cli.bench;

import java.awt.Color;
import java.awt.Font;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.knowm.xchart.BitmapEncoder;
import org.knowm.xchart.BitmapEncoder.BitmapFormat;
import org.knowm.xchart.CategoryChart;
import org.knowm.xchart.style.AxesChartStyler;
import org.knowm.xchart.style.CategoryStyler;
import org.knowm.xchart.style.Styler;

/** What the pictures of results have in common: panels of bars, two beside each other. */
final class Panels {

  static final int WIDTH = 860;
  static final int HEIGHT = 430;

  private static final int COLUMNS = 2;

  private static final Color[] COLOURS = {
    new Color(0x1f, 0x5f, 0xa8),
    new Color(0xd5, 0x6a, 0x1a),
    new Color(0x8a, 0x8f, 0x98),
    new Color(0x3a, 0x9b, 0x6b)
  };

  private Panels() {}

  /** Of a contender: 0 is the library, the others follow in the order in which they come. */
  static Color colour(int contender) {
    return COLOURS[contender % COLOURS.length];
  }

  static void style(CategoryStyler styler) {
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

  /** Writes the panels as one PNG file. */
  static void save(List<CategoryChart> panels, Path file) throws IOException {
    int columns = Math.min(COLUMNS, panels.size());
    BitmapEncoder.saveBitmap(
        panels, Math.ceilDiv(panels.size(), columns), columns, file.toString(), BitmapFormat.PNG);
  }
}
