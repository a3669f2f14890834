package io.github.dxdw.cli;

import io.github.dxdw.cli.train.Backend;
import io.github.dxdw.cli.train.Dataset;
import io.github.dxdw.cli.train.GradientCheck;
import io.github.dxdw.cli.train.Network;
import io.github.dxdw.cli.train.Recipe;
import io.github.dxdw.cli.train.Score;
import io.github.dxdw.cli.train.Trainer;
import java.io.Console;
import java.io.PrintWriter;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.Consumer;
import java.util.stream.IntStream;

/**
 * A training as the user sees it: a line per epoch, on a terminal a progress bar, at the end the
 * accuracy.
 */
final class Training {

  private final PrintWriter out;
  private final TrainingOptions options;
  private final Recipe recipe;
  private final List<Double> examplesPerSecond = new ArrayList<>();

  Training(PrintWriter out, TrainingOptions options, Recipe recipe) {
    this.out = out;
    this.options = options;
    this.recipe = recipe;
  }

  /** Trains a perceptron with hidden layers of the given sizes. */
  void run(Dataset train, Dataset heldOut, int... hidden) {
    Backend backend = options.backend();
    int[] sizes =
        IntStream.concat(
                IntStream.concat(IntStream.of(train.features()), IntStream.of(hidden)),
                IntStream.of(train.classes()))
            .toArray();
    try (Arena arena = Arena.ofShared();
        Network network =
            new Network(arena, backend, recipe.microBatchRows(), options.seed(), sizes)) {
      print(
          "%s: %d examples, %d held out; network %s, %s on %s, seed %d",
          train.name(),
          train.size(),
          heldOut.size(),
          network,
          backend.type(),
          backend.device(),
          options.seed());
      if (options.check()) {
        check(network, backend, train);
      }
      List<Score> history = train(network, train);
      options.chart().ifPresent(file -> LossChart.write(file, train.name(), history));
      print("weights sha256: %s", network.sha256());
      print("test accuracy: %.3f", Trainer.evaluate(network, heldOut).accuracy());
    }
  }

  /** Prints the median, over the epochs, of how many examples were trained on in a second. */
  void printSpeed() {
    List<Double> sorted = examplesPerSecond.stream().sorted().toList();
    int half = sorted.size() / 2;
    double median = (sorted.get(half) + sorted.get((sorted.size() - 1) / 2)) / 2;
    print("images per second: %.0f", median);
  }

  private void check(Network network, Backend backend, Dataset train) {
    List<GradientCheck.Result> results = GradientCheck.firstStep(network, backend, train, recipe);
    results.forEach(result -> print("check %s", result));
    if (!results.stream().allMatch(GradientCheck.Result::passed)) {
      throw new CommandException("a gradient of the first step lies outside its bound");
    }
  }

  private List<Score> train(Network network, Dataset train) {
    Trainer trainer = new Trainer(network, train, recipe, options.seed());
    if (!onTerminal()) {
      return train(trainer, () -> {}, out::println);
    }
    long steps = (long) recipe.epochs() * trainer.steps();
    try (StatusLine status = new StatusLine(System.err, out, train.name(), steps)) {
      return train(trainer, status::step, status::println);
    }
  }

  private List<Score> train(Trainer trainer, Runnable onStep, Consumer<String> print) {
    List<Score> history = new ArrayList<>();
    for (int epoch = 1; epoch <= recipe.epochs(); epoch++) {
      long start = System.nanoTime();
      Score score = trainer.epoch(onStep);
      examplesPerSecond.add(score.examples() / ((System.nanoTime() - start) * 1e-9));
      history.add(score);
      print.accept(
          format(
              "epoch %3d/%d  loss %.4f  accuracy %.4f",
              epoch, recipe.epochs(), score.loss(), score.accuracy()));
    }
    return history;
  }

  private static boolean onTerminal() {
    Console console = System.console();
    return console != null && console.isTerminal();
  }

  private void print(String format, Object... values) {
    out.println(format(format, values));
  }

  private static String format(String format, Object... values) {
    return String.format(Locale.ROOT, format, values);
  }
}
