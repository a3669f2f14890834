package io.github.dxdw.cli;

import io.github.dxdw.Dxdw;
import io.github.dxdw.cli.bench.CpuBenchmark;
import io.github.dxdw.cli.bench.Peer;
import io.github.dxdw.cli.bench.Report;
import java.io.PrintWriter;
import java.util.List;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Measures the CPU kernels from Java. */
@Command(
    name = "cpu",
    description = {
      "Measure products, weighted sums and small calls on the CPU.",
      "A line shows threads, median, in brackets the 10th and 90th percentile, and how many times"
          + " as fast as the best other library the median is."
    },
    sortOptions = false)
final class BenchCpuCommand implements Runnable {

  @Option(names = "--quick", description = "Short samples: a look, not a result.")
  private boolean quick;

  @Option(
      names = "--filter",
      paramLabel = "TEXT",
      defaultValue = "",
      description = "Measure only what has this in its name, such as \"dW\" or \"1024 Y fp32\".")
  private String filter;

  @Option(
      names = "--repeats",
      paramLabel = "N",
      defaultValue = "11",
      description = "Samples of each contender (${DEFAULT-VALUE}).")
  private int repeats;

  @Option(
      names = "--threads",
      paramLabel = "N",
      defaultValue = "0",
      description = "Measure 1 to N threads; 0 stands for all, at most 2 (${DEFAULT-VALUE}).")
  private int threads;

  @Mixin private JsonFile json;

  @Spec private CommandSpec spec;

  @Override
  public void run() {
    Usage.require(spec, repeats >= 1, "--repeats", repeats, "expected 1 or more");
    Usage.requireThreads(spec, 0, threads);
    PrintWriter out = spec.commandLine().getOut();
    List<Peer> peers = Peer.all();
    int most = threads == 0 ? Math.min(2, Runtime.getRuntime().availableProcessors()) : threads;
    int before = Dxdw.threads();
    Report report;
    try {
      report = new CpuBenchmark(peers, quick, repeats, filter, out::println).run(most);
    } finally {
      Dxdw.setThreads(before);
    }
    if (report.rows().isEmpty()) {
      throw new CommandException("nothing measured has '" + filter + "' in its name");
    }
    json.write(report);
  }
}
