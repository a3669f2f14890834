package io.github.dxdw.cli;

import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;

/**
 * Checks of options beyond their type: a value that fails one is a usage that is not understood.
 */
public final class Usage {

  private static final int MOST_THREADS = 1024;

  private Usage() {}

  /** Refuses a number of threads below {@code least}, or that the library doesn't take. */
  public static void requireThreads(CommandSpec spec, int least, int threads) {
    require(
        spec,
        threads >= least && threads <= MOST_THREADS,
        "--threads",
        threads,
        "expected " + least + " to " + MOST_THREADS);
  }

  /** Refuses the value of an option of the command that {@code spec} describes. */
  public static void require(
      CommandSpec spec, boolean holds, String option, Object value, String expected) {
    if (!holds) {
      throw new ParameterException(
          spec.commandLine(),
          "Invalid value for option '" + option + "': " + value + ": " + expected);
    }
  }
}
