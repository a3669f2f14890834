package io.github.dxdw.cli.bench;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.knowm.xchart.CategoryChart;
import org.knowm.xchart.CategoryChartBuilder;

/**
 * A picture of products on a GPU: time over the floor, which is the larger of what the memory and
 * what the arithmetic of the board take at least. A panel for each function, a bar for each
 * contender; 1 is the best there can be.
 */
public final class FloorChart {

  /** Bars end here. */
  private static final double LIMIT = 2.5;

  private FloorChart() {}

  /**
   * Writes the picture as a PNG file.
   *
   * @param kernels what dxdw_bench_cuda --json wrote
   * @param peers what native/bench/cuda/peers.py --json wrote
   * @throws IOException if a file can't be read or written
   * @throws IllegalArgumentException if the first file has no product
   */
  public static void write(Path kernels, Path peers, Path file) throws IOException {
    ObjectMapper json = new ObjectMapper();
    JsonNode rows = json.readTree(kernels.toFile());
    Map<String, JsonNode> others = new LinkedHashMap<>();
    for (JsonNode result : json.readTree(peers.toFile()).path("results")) {
      others.put(result.path("shape").asText(), result.path("ms"));
    }
    List<CategoryChart> panels = new ArrayList<>();
    for (String function : List.of("Y", "dX", "dW", "dW add")) {
      String triton = function.equals("dW add") ? "triton dW deterministic" : "triton " + function;
      Map<String, Function<JsonNode, JsonNode>> contenders = new LinkedHashMap<>();
      contenders.put("dxdw", row -> row.at("/ours/median_ms"));
      contenders.put("cuBLASLt, best of 32", row -> row.at("/best32/median_ms"));
      contenders.put("PyTorch", row -> other(others, row, "torch " + function));
      contenders.put("Triton", row -> other(others, row, triton));
      panel(rows, function, contenders, panels);
    }
    if (panels.isEmpty()) {
      throw new IllegalArgumentException(kernels + " has no product");
    }
    Panels.save(panels, file);
  }

  private static JsonNode other(Map<String, JsonNode> others, JsonNode row, String name) {
    JsonNode times = others.get(row.path("shape").asText());
    return times == null ? row.path("absent") : times.path(name);
  }

  private static void panel(
      JsonNode rows,
      String function,
      Map<String, Function<JsonNode, JsonNode>> contenders,
      List<CategoryChart> panels) {
    List<JsonNode> measured = new ArrayList<>();
    for (JsonNode row : rows) {
      // float32 products by default do not use the unit that the floor speaks of.
      if (row.path("what").asText().equals(function)
          && !row.path("shape").asText().endsWith("fp32")) {
        measured.add(row);
      }
    }
    if (measured.isEmpty()) {
      return;
    }
    List<String> labels = measured.stream().map(row -> row.path("shape").asText()).toList();
    CategoryChart chart =
        new CategoryChartBuilder()
            .width(Panels.WIDTH)
            .height(Panels.HEIGHT)
            .title(function + ", bfloat16: time over floor; bars end at " + LIMIT)
            .yAxisTitle("time / floor")
            .build();
    Panels.style(chart.getStyler());
    chart.getStyler().setYAxisMax(LIMIT);
    int contender = 0;
    for (var entry : contenders.entrySet()) {
      List<Double> values = new ArrayList<>();
      for (JsonNode row : measured) {
        JsonNode time = entry.getValue().apply(row);
        if (time.isNumber()) {
          values.add(Math.min(LIMIT, time.asDouble() / row.path("floor_ms").asDouble()));
        }
      }
      // A contender that left a row out can't be drawn beside the others.
      if (values.size() == labels.size()) {
        chart.addSeries(entry.getKey(), labels, values).setFillColor(Panels.colour(contender));
      }
      contender++;
    }
    panels.add(chart);
  }
}
