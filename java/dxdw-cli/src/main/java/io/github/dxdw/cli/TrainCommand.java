package io.github.dxdw.cli;

import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** The trainings. */
@Command(
    name = "train",
    description = "Train a small network with the kernels.",
    subcommands = {TrainDigitsCommand.class, TrainFashionCommand.class})
final class TrainCommand implements Runnable {

  @Spec private CommandSpec spec;

  @Override
  public void run() {
    throw new ParameterException(
        spec.commandLine(),
        "a data set is missing: " + String.join(", ", spec.subcommands().keySet()));
  }
}
