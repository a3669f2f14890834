package io.github.dxdw.cli;

import com.fasterxml.jackson.core.JsonProcessingException;
import io.github.dxdw.cli.bench.FloorChart;
import java.io.IOException;
import java.nio.file.Path;
import picocli.CommandLine.Command;
import picocli.CommandLine.Parameters;

/** Draws results of a GPU. */
@Command(
    name = "floors",
    description =
        "Draw the products that dxdw_bench_cuda --json measured on a GPU, as time over the least"
            + " that the board allows, beside those of native/bench/cuda/peers.py --json.")
final class BenchFloorsCommand implements Runnable {

  @Parameters(index = "0", paramLabel = "JSON", description = "Results of dxdw_bench_cuda.")
  private Path kernels;

  @Parameters(index = "1", paramLabel = "PEERS", description = "Results of peers.py.")
  private Path peers;

  @Parameters(
      index = "2",
      paramLabel = "PNG",
      converter = OutputFile.Png.class,
      description = "Picture to write.")
  private Path picture;

  @Override
  public void run() {
    try {
      FloorChart.write(kernels, peers, picture);
    } catch (JsonProcessingException e) {
      throw new CommandException("can't draw the results: no JSON: " + e.getOriginalMessage());
    } catch (IOException | IllegalArgumentException e) {
      throw new CommandException("can't draw the results: " + e.getMessage());
    }
  }
}
