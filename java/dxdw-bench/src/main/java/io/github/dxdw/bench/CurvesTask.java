package io.github.dxdw.bench;

import io.github.dxdw.DType;
import io.github.dxdw.cli.JsonFile;
import io.github.dxdw.cli.OutputFile;
import io.github.dxdw.cli.Usage;
import io.github.dxdw.cli.bench.BenchTask;
import io.github.dxdw.cli.bench.Machine;
import io.github.dxdw.cli.bench.Report;
import java.awt.BasicStroke;
import java.awt.Color;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.knowm.xchart.BitmapEncoder;
import org.knowm.xchart.BitmapEncoder.BitmapFormat;
import org.knowm.xchart.XYChart;
import org.knowm.xchart.XYChartBuilder;
import org.knowm.xchart.XYSeries;
import org.knowm.xchart.style.Styler;
import org.knowm.xchart.style.markers.SeriesMarkers;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Shows the losses of {@link Curves}, and how far they are from PyTorch's. */
@Command(
    name = "curves",
    description = {
      "Train one network step by step beside PyTorch: same weights, batches and rule.",
      "Shows how far the losses are apart."
    },
    sortOptions = false)
public final class CurvesTask implements BenchTask {

  private static final int WIDTH = 900;
  private static final int PANEL_HEIGHT = 420;
  private static final Color BLUE = new Color(0x1f, 0x5f, 0xa8);
  private static final Color ORANGE = new Color(0xd5, 0x6a, 0x1a);
  private static final Color GREEN = new Color(0x2e, 0x8b, 0x57);

  @Option(
      names = "--steps",
      paramLabel = "N",
      defaultValue = "200",
      description = "Steps of 64 examples (${DEFAULT-VALUE}).")
  private int steps;

  @Option(
      names = "--chart",
      paramLabel = "FILE",
      converter = OutputFile.Png.class,
      description = "Write a picture of the losses to this PNG file.")
  private Path chart;

  @Mixin private JsonFile json;

  @Spec private CommandSpec spec;

  @Override
  public void run() {
    Usage.require(spec, steps >= 1, "--steps", steps, "expected 1 or more");
    Curves curves = new Curves();
    Map<String, double[]> losses = new LinkedHashMap<>();
    losses.put("PyTorch float32", curves.torch(steps));
    losses.put("dxdw float32", curves.ours(DType.FLOAT32, steps));
    losses.put("dxdw bfloat16", curves.ours(DType.BFLOAT16, steps));
    double[] torch = losses.get("PyTorch float32");
    PrintWriter out = spec.commandLine().getOut();
    List<Report.Row> rows = new ArrayList<>();
    losses.forEach(
        (name, loss) -> {
          double apart =
              IntStream.range(0, steps)
                  .mapToDouble(i -> Math.abs(loss[i] - torch[i]))
                  .max()
                  .orElse(0);
          out.printf(
              "%-16s loss %.6f at first, %.6f at last, at most %.1e from PyTorch%n",
              name, loss[0], loss[steps - 1], apart);
          rows.add(
              new Report.Row(
                  "largest distance from PyTorch's loss in " + steps + " steps, " + name,
                  1,
                  "",
                  0,
                  0,
                  0,
                  List.of(new Report.Result(name, apart, apart, apart))));
        });
    json.write(new Report(Machine.lines(List.of(new Torch())), 1, false, rows));
    if (chart != null) {
      draw(losses, torch);
    }
  }

  private void draw(Map<String, double[]> losses, double[] torch) {
    XYChart loss = panel("Loss, digits, 64-128-10, batches of 64, SGD with momentum", "mean loss");
    XYChart distance = panel("Distance from PyTorch's loss", "|loss - PyTorch's|");
    distance.getStyler().setYAxisLogarithmic(true);
    double[] x = IntStream.rangeClosed(1, steps).asDoubleStream().toArray();
    Color[] colours = {ORANGE, BLUE, GREEN};
    // The widest line first, so that those above it leave its edges to be seen.
    float[] widths = {6, 2.5f, 1.2f};
    int series = 0;
    for (Map.Entry<String, double[]> entry : losses.entrySet()) {
      add(loss, entry.getKey(), x, entry.getValue(), colours[series], widths[series]);
      if (entry.getValue() != torch) {
        double[] apart = new double[steps];
        for (int i = 0; i < steps; i++) {
          apart[i] = Math.max(Math.abs(entry.getValue()[i] - torch[i]), 1e-8);
        }
        add(distance, entry.getKey(), x, apart, colours[series], 1.5f);
      }
      series++;
    }
    try {
      BitmapEncoder.saveBitmap(List.of(loss, distance), 2, 1, chart.toString(), BitmapFormat.PNG);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static XYChart panel(String title, String axis) {
    XYChart chart =
        new XYChartBuilder()
            .width(WIDTH)
            .height(PANEL_HEIGHT)
            .title(title)
            .xAxisTitle("step")
            .yAxisTitle(axis)
            .build();
    Styler styler = chart.getStyler();
    styler.setChartBackgroundColor(Color.WHITE);
    styler.setLegendPosition(Styler.LegendPosition.OutsideE);
    chart.getStyler().setXAxisDecimalPattern("0");
    chart.getStyler().setXAxisMin(0.0);
    return chart;
  }

  private static void add(
      XYChart chart, String name, double[] x, double[] y, Color colour, float width) {
    XYSeries series = chart.addSeries(name, x, y);
    series.setMarker(SeriesMarkers.NONE);
    series.setLineColor(colour);
    series.setLineStyle(new BasicStroke(width));
  }
}
