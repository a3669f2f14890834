package io.github.dxdw.cli;

import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;

/**
 * Checks of options beyond their type: a value that fails one is a usage that is not understood.
 */
public final class Usage {

  private Usage() {}

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
