package io.github.dxdw.cli;

import io.github.dxdw.cli.train.Dataset;
import io.github.dxdw.cli.train.Digits;
import io.github.dxdw.cli.train.Recipe;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Trains on the digits that come with the example. */
@Command(
    name = "digits",
    description =
        "Train a 64-128-10 perceptron on 1,797 handwritten digits, a fifth of them held out.",
    sortOptions = false)
final class TrainDigitsCommand implements Runnable {

  private static final int HELD_OUT = 5;
  private static final int HIDDEN = 128;
  private static final int MICRO_BATCH_ROWS = 16;
  private static final int MICRO_BATCHES = 4;
  private static final float LEARNING_RATE = 2e-2f;
  private static final float DECAY = 0.2f;

  @Option(
      names = "--epochs",
      paramLabel = "N",
      defaultValue = "30",
      description = "Times that all examples are seen (${DEFAULT-VALUE}).")
  private int epochs;

  @Mixin private TrainingOptions options;

  @Spec private CommandSpec spec;

  @Override
  public void run() {
    Recipe recipe =
        options.recipe(
            epochs, MICRO_BATCH_ROWS, MICRO_BATCHES, Recipe.Rule.ADAM, LEARNING_RATE, DECAY);
    Dataset[] parts = Digits.load().holdOut(HELD_OUT, options.seed());
    new Training(spec.commandLine().getOut(), options, recipe).run(parts[0], parts[1], HIDDEN);
  }
}
