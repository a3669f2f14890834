package io.github.dxdw.cli;

import io.github.dxdw.cli.train.Dataset;
import io.github.dxdw.cli.train.FashionMnist;
import io.github.dxdw.cli.train.Recipe;
import java.io.IOException;
import java.nio.file.Path;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Trains on Fashion-MNIST. */
@Command(
    name = "fashion",
    description = {
      "Train a 784-512-512-10 perceptron on the 60,000 images of clothes of Fashion-MNIST, batch"
          + " 256; 10,000 are held out.",
      "Debian's package dataset-fashion-mnist has the images."
    },
    sortOptions = false)
final class TrainFashionCommand implements Runnable {

  private static final int BATCH_ROWS = 256;
  private static final int HIDDEN = 512;
  private static final float LEARNING_RATE = 0.1f;
  private static final float DECAY = 1e-4f;

  @Option(
      names = "--epochs",
      paramLabel = "N",
      defaultValue = "10",
      description = "Times that all examples are seen (${DEFAULT-VALUE}).")
  private int epochs;

  @Option(
      names = "--data",
      paramLabel = "FOLDER",
      description = "Folder of the four IDX files (${DEFAULT-VALUE}).")
  private Path data = FashionMnist.FOLDER;

  @Mixin private TrainingOptions options;

  @Spec private CommandSpec spec;

  @Override
  public void run() {
    Recipe recipe =
        options.recipe(epochs, BATCH_ROWS, 1, Recipe.Rule.MOMENTUM, LEARNING_RATE, DECAY);
    Dataset[] parts = load(data);
    Training training = new Training(spec.commandLine().getOut(), options, recipe);
    training.run(parts[0], parts[1], HIDDEN, HIDDEN);
    training.printSpeed();
  }

  private static Dataset[] load(Path folder) {
    if (!FashionMnist.isIn(folder)) {
      throw new CommandException(
          "Fashion-MNIST is not in " + folder + ": install Debian's package dataset-fashion-mnist");
    }
    try {
      return FashionMnist.load(folder);
    } catch (IOException e) {
      throw new CommandException("can't read Fashion-MNIST: " + e.getMessage());
    }
  }
}
