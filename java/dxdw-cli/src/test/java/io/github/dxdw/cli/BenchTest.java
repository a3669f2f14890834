package io.github.dxdw.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.dxdw.Dxdw;
import io.github.dxdw.cli.bench.Report;
import java.awt.image.BufferedImage;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import javax.imageio.ImageIO;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class BenchTest {

  @Test
  @DisplayName("Guards against results that no reader takes, and against threads left changed")
  void cpuWritesWhatItPrints(@TempDir Path folder) throws IOException {
    int threads = Dxdw.threads();
    Path json = folder.resolve("results.json");
    Invocation run =
        Invocation.of(
            "bench",
            "cpu",
            "--quick",
            "--repeats",
            "2",
            "--threads",
            "1",
            "--filter",
            "x4x4",
            "--json",
            json.toString());
    assertEquals(0, run.status(), run.err());
    assertEquals(threads, Dxdw.threads());
    Report report = Report.read(json);
    assertEquals(2, report.repeats());
    assertEquals(List.of("overhead 4x4x4"), report.rows().stream().map(Report.Row::name).toList());
    Report.Result ours = report.rows().getFirst().contenders().getFirst();
    assertEquals("dxdw", ours.name());
    assertTrue(ours.low() <= ours.median() && ours.median() <= ours.high(), run.out());
    assertTrue(ours.low() > 0, run.out());
    assertEquals(report.rows().getFirst().toString(), run.lines().getLast());
  }

  @Test
  @DisplayName("Guards against names and numbers in the digits of the user's language")
  void rowsAreTheSameInEachLanguage() {
    Locale before = Locale.getDefault();
    Locale.setDefault(Locale.forLanguageTag("ar-EG"));
    try {
      Report.Row row = Report.Row.of("x", 1, "ns", List.of(result("dxdw", 1.5)));
      assertEquals("x 1 dxdw 1.5 ns", row.toString().replaceAll(" +", " "));
    } finally {
      Locale.setDefault(before);
    }
  }

  @Test
  void cpuRefusesAFilterThatNothingMatches() {
    Invocation run = Invocation.of("bench", "cpu", "--filter", "no such row");
    assertEquals(1, run.status());
    assertEquals(List.of("dxdw: nothing measured has 'no such row' in its name"), run.errorLines());
  }

  @Test
  @DisplayName("Guards against a ratio that praises the slower one")
  void ratioIsAgainstTheBestPeer() {
    List<Report.Result> results =
        List.of(result("dxdw", 100), result("slow", 50), result("fast", 200));
    assertEquals(0.5, Report.Row.of("x", 1, "GFLOP/s", results).ratio());
    assertEquals(0.5, Report.Row.of("x", 1, "ns", results).ratio());
    assertEquals(2, Report.Row.of("x", 1, "ns", List.of(results.get(1), results.get(0))).ratio());
    assertEquals(0, Report.Row.of("x", 1, "ns", results.subList(0, 1)).ratio());
  }

  private static Report.Result result(String name, double median) {
    return new Report.Result(name, median, median, median);
  }

  @Test
  @DisplayName("Guards against a chart of the native results that lacks a contender")
  void drawsTheNativeResults(@TempDir Path folder) throws IOException {
    Path json = folder.resolve("native.json");
    Files.writeString(
        json,
        """
        {
          "machine": ["some machine"], "repeats": 11, "quick": false,
          "rows": [
            {"name": "roofline read", "threads": 1, "unit": "GB/s", "ratio": 0, "best_ratio": 0, "aim": 0, "contenders": [
              {"name": "best", "median": 20, "low": 20, "high": 20}]},
            {"name": "product 1024,1024,1024 Y fp32", "threads": 1, "unit": "GFLOP/s", "ratio": 1, "best_ratio": 1, "aim": 1, "contenders": [
              {"name": "dxdw", "median": 100, "low": 99, "high": 101},
              {"name": "OpenBLAS", "median": 98, "low": 97, "high": 99},
              {"name": "oneDNN", "median": 90, "low": 89, "high": 91}]},
            {"name": "product 1024,1024,1024 Y bf16", "threads": 1, "unit": "GFLOP/s", "ratio": 1, "best_ratio": 1, "aim": 1, "contenders": [
              {"name": "dxdw", "median": 200, "low": 199, "high": 201},
              {"name": "oneDNN", "median": 190, "low": 189, "high": 191}]}
          ]
        }
        """);
    Path png = folder.resolve("native.png");
    Invocation run = Invocation.of("bench", "chart", json.toString(), png.toString());
    assertEquals(0, run.status(), run.err());
    assertShows(png, 3000, 0x1f5fa8, 0xd56a1a, 0x8a8f98);
  }

  @Test
  @DisplayName("Guards against a chart of a GPU's results that lacks a contender")
  void drawsTheResultsOfAGpu(@TempDir Path folder) throws IOException {
    Path json =
        Files.writeString(
            folder.resolve("cuda.json"),
            """
            [{"shape": "qkv", "what": "Y", "floor_ms": 0.38, "ours": {"median_ms": 0.39}, "best32": {"median_ms": 0.4}},
             {"shape": "qkv fp32", "what": "Y", "floor_ms": 0.38, "ours": {"median_ms": 5}}]
            """);
    Path peers =
        Files.writeString(
            folder.resolve("peers.json"),
            """
            {"results": [{"shape": "qkv", "ms": {"torch Y": 0.41, "triton Y": 0.5}}]}
            """);
    Path png = folder.resolve("floors.png");
    Invocation run =
        Invocation.of("bench", "floors", json.toString(), peers.toString(), png.toString());
    assertEquals(0, run.status(), run.err());
    assertShows(png, 3000, 0x1f5fa8, 0xd56a1a, 0x8a8f98, 0x3a9b6b);
  }

  private static void assertShows(Path png, int least, int... colours) throws IOException {
    BufferedImage picture = ImageIO.read(png.toFile());
    for (int colour : colours) {
      long pixels = 0;
      for (int i = 0; i < picture.getWidth() * picture.getHeight(); i++) {
        int found = picture.getRGB(i % picture.getWidth(), i / picture.getWidth()) & 0xffffff;
        pixels += found == colour ? 1 : 0;
      }
      assertTrue(pixels > least, "%06x: %d pixels".formatted(colour, pixels));
    }
  }

  @Test
  void aFileThatIsNoReportIsOneLine(@TempDir Path folder) throws IOException {
    List<Path> files = new ArrayList<>(List.of(folder.resolve("absent.json")));
    for (String text :
        List.of(
            "",
            "null",
            "[1, 2]",
            "{}",
            "{\"machine\": [], \"rows\": [{}]}",
            "{\"machine\": [], \"rows\": [{\"name\": \"x\", \"unit\": \"ns\"}]}",
            "{\"machine\": [], \"rows\":")) {
      files.add(Files.writeString(folder.resolve(files.size() + ".json"), text));
    }
    String png = folder.resolve("x.png").toString();
    for (Path file : files) {
      Invocation run = Invocation.of("bench", "chart", file.toString(), png);
      assertEquals(1, run.status());
      assertEquals(1, run.errorLines().size(), run.err());
      assertTrue(run.err().startsWith("dxdw: can't read the results in " + file), run.err());
      assertFalse(run.err().contains("REDACTED"), run.err());
      Invocation floors = Invocation.of("bench", "floors", file.toString(), file.toString(), png);
      assertEquals(1, floors.status());
      assertEquals(1, floors.errorLines().size(), floors.err());
      assertTrue(floors.err().startsWith("dxdw: can't draw the results: "), floors.err());
    }
  }
}
