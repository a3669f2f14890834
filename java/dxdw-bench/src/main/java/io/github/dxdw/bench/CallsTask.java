package io.github.dxdw.bench;

import io.github.dxdw.cli.JsonFile;
import io.github.dxdw.cli.bench.BenchTask;
import io.github.dxdw.cli.bench.Machine;
import io.github.dxdw.cli.bench.Peer;
import io.github.dxdw.cli.bench.Report;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import org.openjdk.jmh.profile.GCProfiler;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.RunnerException;
import org.openjdk.jmh.runner.options.ChainedOptionsBuilder;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;
import org.openjdk.jmh.runner.options.VerboseMode;
import org.openjdk.jmh.util.Statistics;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Runs {@link Calls} with JMH, each benchmark in JVMs of its own. */
@Command(
    name = "calls",
    description = {
      "Measure with JMH what a call costs from Java: time and allocated bytes.",
      "A line shows threads, median, in brackets the 10th and 90th percentile."
    },
    sortOptions = false)
public final class CallsTask implements BenchTask {

  private static final String ALLOCATION = "gc.alloc.rate.norm";

  /** JMH's own use of old parts of the JDK is not worth a warning; JDK 22 knows no such option. */
  private static final String[] UNSAFE_ACCESS =
      Runtime.version().feature() < 23
          ? new String[0]
          : new String[] {"--sun-misc-unsafe-memory-access=allow"};

  private static final Map<String, String> CONTENDERS =
      Map.of("productOpenBlas", "OpenBLAS", "productTorch", "PyTorch");

  @Option(names = "--quick", description = "Short samples: a look, not a result.")
  private boolean quick;

  @Option(
      names = "--filter",
      paramLabel = "REGEX",
      defaultValue = ".*",
      description =
          "Benchmarks to run: emptyCall, product, productOpenBlas, productTorch, weightedSum.")
  private String filter;

  @Mixin private JsonFile json;

  @Spec private CommandSpec spec;

  @Override
  public void run() {
    List<String> machine = Machine.lines(Peer.all());
    machine.forEach(line -> spec.commandLine().getOut().println("# " + line));
    List<Report.Row> rows = rows(measure());
    rows.forEach(spec.commandLine().getOut()::println);
    json.write(new Report(machine, quick ? 3 : 10, quick, rows));
  }

  private Collection<RunResult> measure() {
    ChainedOptionsBuilder options =
        new OptionsBuilder()
            .include("\\Q" + Calls.class.getName() + "\\E\\.(" + filter + ")$")
            .verbosity(VerboseMode.SILENT)
            .addProfiler(GCProfiler.class)
            .shouldFailOnError(true)
            .jvmArgsAppend(UNSAFE_ACCESS)
            .forks(quick ? 1 : 2)
            .warmupIterations(quick ? 2 : 5)
            .warmupTime(TimeValue.milliseconds(quick ? 300 : 1000))
            .measurementIterations(quick ? 3 : 5)
            .measurementTime(TimeValue.milliseconds(quick ? 300 : 1000));
    try {
      return new Runner(options.build()).run();
    } catch (RunnerException e) {
      throw new IllegalStateException("JMH: " + e.getMessage(), e);
    }
  }

  /** Benchmarks of the same thing in one row, then what each allocates. */
  private static List<Report.Row> rows(Collection<RunResult> results) {
    Map<String, List<Report.Result>> times = new TreeMap<>(CallsTask::byNameAndSize);
    Map<String, List<Report.Result>> bytes = new TreeMap<>(CallsTask::byNameAndSize);
    // The library's own results stand in front of the others'.
    results.stream()
        .sorted((a, b) -> Integer.compare(method(a).length(), method(b).length()))
        .forEach(
            result -> {
              String contender = CONTENDERS.getOrDefault(method(result), "dxdw");
              String name = name(result);
              add(times, name, contender, result.getPrimaryResult().getStatistics());
              add(
                  bytes,
                  name,
                  contender,
                  result.getSecondaryResults().get(ALLOCATION).getStatistics());
            });
    List<Report.Row> rows = new ArrayList<>();
    times.forEach((name, list) -> rows.add(Report.Row.of(name, 1, "ns", list)));
    bytes.forEach((name, list) -> rows.add(new Report.Row(name, 1, "bytes", 0, 0, 0, list)));
    return rows;
  }

  private static void add(
      Map<String, List<Report.Result>> rows, String name, String contender, Statistics s) {
    rows.computeIfAbsent(name, key -> new ArrayList<>())
        .add(
            new Report.Result(
                contender, s.getPercentile(50), s.getPercentile(10), s.getPercentile(90)));
  }

  private static String method(RunResult result) {
    String benchmark = result.getParams().getBenchmark();
    return benchmark.substring(benchmark.lastIndexOf('.') + 1);
  }

  private static String name(RunResult result) {
    return switch (method(result)) {
      case "emptyCall" -> "call of an empty native function";
      case "weightedSum" -> "call weighted sum 16,64 fp32";
      default ->
          String.format(
              Locale.ROOT,
              "call product %1$s,%1$s,%1$s Y fp32",
              result.getParams().getParam("size"));
    };
  }

  /** Shorter names first, so that 4 comes before 16. */
  private static int byNameAndSize(String a, String b) {
    return a.length() == b.length() ? a.compareTo(b) : Integer.compare(a.length(), b.length());
  }
}
