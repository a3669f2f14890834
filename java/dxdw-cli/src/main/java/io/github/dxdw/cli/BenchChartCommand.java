package io.github.dxdw.cli;

import com.fasterxml.jackson.core.JsonProcessingException;
import io.github.dxdw.cli.bench.RateChart;
import io.github.dxdw.cli.bench.Report;
import java.io.IOException;
import java.nio.file.Path;
import picocli.CommandLine.Command;
import picocli.CommandLine.Parameters;

/** Draws results. */
@Command(
    name = "chart",
    description =
        "Draw the products in a file of results, which bench cpu --json or dxdw_bench_cpu --json"
            + " wrote.")
final class BenchChartCommand implements Runnable {

  @Parameters(index = "0", paramLabel = "JSON", description = "File of results.")
  private Path results;

  @Parameters(
      index = "1",
      paramLabel = "PNG",
      converter = OutputFile.Png.class,
      description = "Picture to write.")
  private Path picture;

  @Override
  public void run() {
    Report report;
    try {
      report = Report.read(results);
    } catch (JsonProcessingException e) {
      throw new CommandException(
          "can't read the results in "
              + results
              + ": no JSON of results: "
              + e.getOriginalMessage());
    } catch (IOException e) {
      throw new CommandException("can't read the results in " + results + ": " + e.getMessage());
    }
    try {
      RateChart.write(report, picture);
    } catch (IOException e) {
      throw new CommandException("can't write the chart: " + e.getMessage());
    }
  }
}
