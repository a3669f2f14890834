package io.github.dxdw.cli;

import io.github.dxdw.cli.bench.BenchTask;
import java.util.ServiceLoader;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** The measurements: those of this module, and those that come with the bench JAR. */
@Command(
    name = "bench",
    description = {
      "Measure the kernels.",
      "Other libraries take part, and calls and training join the list, once they are built: mvn -B"
          + " -Pbench -DskipTests package"
    },
    subcommands = {BenchCpuCommand.class, BenchChartCommand.class, BenchFloorsCommand.class})
final class BenchCommand implements Runnable {

  @Spec private CommandSpec spec;

  /** Adds the commands of the bench JAR, where it is on the class path. */
  static void addTasks(CommandLine root) {
    CommandLine bench = root.getSubcommands().get("bench");
    ServiceLoader.load(BenchTask.class).forEach(bench::addSubcommand);
  }

  @Override
  public void run() {
    throw new ParameterException(
        spec.commandLine(),
        "a measurement is missing: " + String.join(", ", spec.subcommands().keySet()));
  }
}
