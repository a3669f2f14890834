package io.github.dxdw.cli;

import io.github.dxdw.cli.train.Score;
import java.awt.BasicStroke;
import java.awt.Color;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.IntStream;
import org.knowm.xchart.BitmapEncoder;
import org.knowm.xchart.BitmapEncoder.BitmapFormat;
import org.knowm.xchart.XYChart;
import org.knowm.xchart.XYChartBuilder;
import org.knowm.xchart.XYSeries;
import org.knowm.xchart.style.Styler;
import org.knowm.xchart.style.markers.SeriesMarkers;

/** A picture of a training: loss on the left axis and accuracy on the right one, epoch by epoch. */
final class LossChart {

  private static final Color BLUE = new Color(0x1f, 0x5f, 0xa8);
  private static final Color ORANGE = new Color(0xd5, 0x6a, 0x1a);
  private static final int WIDTH = 900;
  private static final int HEIGHT = 520;

  private LossChart() {}

  /** Writes the picture as a PNG file. */
  static void write(Path file, String title, List<Score> history) {
    XYChart chart =
        new XYChartBuilder()
            .width(WIDTH)
            .height(HEIGHT)
            .title("Training on " + title)
            .xAxisTitle("epoch")
            .yAxisTitle("loss")
            .build();
    Styler styler = chart.getStyler();
    styler.setChartBackgroundColor(Color.WHITE);
    styler.setLegendLayout(Styler.LegendLayout.Horizontal);
    styler.setLegendPosition(Styler.LegendPosition.OutsideS);
    chart.getStyler().setYAxisMin(0, 0.0);
    chart.getStyler().setXAxisDecimalPattern("0");
    chart.setYAxisGroupTitle(1, "accuracy");
    chart.getStyler().setYAxisGroupPosition(1, Styler.YAxisPosition.Right);
    double[] epochs = IntStream.rangeClosed(1, history.size()).asDoubleStream().toArray();
    add(chart, "loss", epochs, history.stream().mapToDouble(Score::loss).toArray(), BLUE, 0);
    add(
        chart,
        "accuracy",
        epochs,
        history.stream().mapToDouble(Score::accuracy).toArray(),
        ORANGE,
        1);
    try {
      BitmapEncoder.saveBitmap(chart, file.toString(), BitmapFormat.PNG);
    } catch (IOException e) {
      throw new CommandException("can't write the chart: " + e.getMessage());
    }
  }

  private static void add(
      XYChart chart, String name, double[] x, double[] y, Color colour, int axis) {
    XYSeries series = chart.addSeries(name, x, y);
    series.setMarker(SeriesMarkers.CIRCLE);
    series.setLineColor(colour);
    series.setMarkerColor(colour);
    series.setLineStyle(new BasicStroke(2f));
    series.setYAxisGroup(axis);
  }
}
