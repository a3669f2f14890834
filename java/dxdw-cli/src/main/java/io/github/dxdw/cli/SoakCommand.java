package io.github.dxdw.cli;

import io.github.dxdw.Device;
import io.github.dxdw.cli.soak.Soak;
import java.io.PrintWriter;
import java.time.Duration;
import java.util.Locale;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Lets many threads call for a long time and watches them. */
@Command(
    name = "soak",
    description =
        "Make mixed calls from many threads for a long time; watch results, memory and progress.",
    sortOptions = false)
final class SoakCommand implements Runnable {

  private static final int MOST_MINUTES = 100_000;

  @Option(
      names = "--minutes",
      paramLabel = "N",
      defaultValue = "20",
      description = "How long (${DEFAULT-VALUE}); 0.1 is a look.")
  private double minutes;

  @Option(
      names = "--threads",
      paramLabel = "N",
      defaultValue = "16",
      description = "Threads that call (${DEFAULT-VALUE}).")
  private int threads;

  @Option(
      names = "--device",
      paramLabel = "DEVICE",
      defaultValue = "cpu",
      converter = TrainingOptions.DeviceConverter.class,
      description = "cpu, cuda or cuda:N (${DEFAULT-VALUE}).")
  private Device device;

  @Option(
      names = "--seed",
      paramLabel = "N",
      defaultValue = "1",
      description = "What calls are drawn from (${DEFAULT-VALUE}).")
  private long seed;

  @Spec private CommandSpec spec;

  @Override
  public void run() {
    Usage.require(
        spec,
        minutes > 0 && minutes <= MOST_MINUTES,
        "--minutes",
        minutes,
        "expected more than 0, at most " + MOST_MINUTES);
    Usage.requireThreads(spec, 1, threads);
    if (!device.isAvailable()) {
      throw new CommandException(device + " is not available: " + device.unavailabilityCause());
    }
    PrintWriter out = spec.commandLine().getOut();
    Soak.Outcome outcome;
    try {
      outcome =
          new Soak(
                  device, threads, Duration.ofMillis((long) (minutes * 60_000)), seed, out::println)
              .run();
    } catch (InterruptedException e) {
      throw new CommandException("interrupted");
    }
    if (!outcome.passed()) {
      throw new CommandException(String.join("; ", outcome.faults()));
    }
    out.println(
        String.format(
            Locale.ROOT,
            "%d calls from %d threads, each result as a lone caller's; resident memory %.1f MB"
                + " after a fifth of the time, %.1f MB at the end",
            outcome.calls(),
            threads,
            outcome.firstResident() / 1e6,
            outcome.lastResident() / 1e6));
  }
}
