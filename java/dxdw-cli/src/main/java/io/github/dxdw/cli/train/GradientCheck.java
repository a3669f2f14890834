package io.github.dxdw.cli.train;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * Compares the gradients that the kernels add up over the micro-batches of a step with the same
 * network in fp64 plain Java, element by element, each beside a bound that follows from the types
 * and the lengths of the sums: see {@link Bounded}.
 */
public final class GradientCheck {

  private final Network network;
  private final Backend backend;
  private final List<Bounded> expected = new ArrayList<>();
  private final Map<String, Result> worst = new LinkedHashMap<>();

  /**
   * The element of a gradient whose error is largest for its bound.
   *
   * @param gradient which one
   * @param row where
   * @param column where
   * @param error distance from the reference
   * @param bound largest distance that rounding explains
   */
  public record Result(String gradient, int row, int column, double error, double bound) {

    /** Whether rounding explains the error. */
    public boolean passed() {
      return error <= bound;
    }

    /** One line, such as "layer 1 dW worst error 1.2e-07 bound 3.4e-06 at [3, 5] ok". */
    @Override
    public String toString() {
      return String.format(
          Locale.ROOT,
          "%-10s  worst error %.2e  bound %.2e  at [%d, %d]  %s",
          gradient,
          error,
          bound,
          row,
          column,
          passed() ? "ok" : "OUTSIDE");
    }
  }

  GradientCheck(Network network, Backend backend) {
    this.network = network;
    this.backend = backend;
    for (Parameter parameter : network.parameters()) {
      expected.add(
          new Bounded(
              (int) parameter.values().operand().size(0),
              (int) parameter.values().operand().size(1)));
    }
  }

  /**
   * Runs the first step of a training without moving the weights, and leaves the gradients at zero.
   *
   * @return for each gradient its worst element: dX of each layer but the first, dW and db of each
   *     layer
   */
  public static List<Result> firstStep(
      Network network, Backend backend, Dataset data, Recipe recipe) {
    GradientCheck check = new GradientCheck(network, backend);
    check.accumulate(data, recipe);
    check.compareParameters();
    network.zeroGradients();
    return check.results();
  }

  List<Result> results() {
    return List.copyOf(worst.values());
  }

  void accumulate(Dataset data, Recipe recipe) {
    int[] order = Dataset.inOrder(Math.min(data.size(), recipe.stepRows()));
    for (int from = 0; from < order.length; from += recipe.microBatchRows()) {
      int to = Math.min(from + recipe.microBatchRows(), order.length);
      network.load(data, order, from, to);
      network.forward();
      network.score(data, order, from);
      network.backward();
      int[] labels = new int[to - from];
      for (int i = 0; i < labels.length; i++) {
        labels[i] = data.label(order[from + i]);
      }
      reference(labels);
    }
  }

  /**
   * Forward and backward of the loaded micro-batch in fp64; compares dX and adds up what is
   * expected of dW and db.
   */
  private void reference(int[] labels) {
    List<Dense> layers = network.layers();
    int rows = labels.length;
    List<Bounded> inputs = new ArrayList<>();
    List<Bounded> outputs = new ArrayList<>();
    Bounded input = Bounded.of(layers.getFirst().input, rows);
    for (Dense layer : layers) {
      Bounded output = new Bounded(rows, layer.outputs);
      output.addRow(Bounded.of(layer.bias.values(), 1));
      output.addProduct(input, Bounded.of(layer.weights.values(), layer.inputs), layer.inputs + 1);
      inputs.add(input);
      outputs.add(output);
      input = output.relu().roundTo(backend.type());
    }
    Bounded gradient = outputs.getLast().softmaxGradient(labels).roundTo(backend.type());
    for (int i = layers.size() - 1; i >= 0; i--) {
      Dense layer = layers.get(i);
      Bounded ones = new Bounded(1, rows);
      Arrays.fill(ones.value, 1);
      int additions = 2 * rows + 1;
      expected.get(2 * i).addProduct(inputs.get(i).transpose(), gradient, additions);
      expected.get(2 * i + 1).addProduct(ones, gradient, additions);
      if (i > 0) {
        Bounded inputGradient = new Bounded(rows, layer.inputs);
        inputGradient.addProduct(
            gradient, Bounded.of(layer.weights.values(), layer.inputs).transpose(), layer.outputs);
        record(compare("layer " + (i + 1) + " dX", inputGradient, layer.inputGradient::get));
        gradient = inputGradient.reluGradient(outputs.get(i - 1)).roundTo(backend.type());
      }
    }
  }

  void compareParameters() {
    List<Parameter> parameters = network.parameters();
    for (int i = 0; i < parameters.size(); i++) {
      MemorySegment gradient = parameters.get(i).readGradient().segment();
      record(
          compare(
              parameters.get(i).name(),
              expected.get(i),
              at -> gradient.getAtIndex(ValueLayout.JAVA_FLOAT, at)));
    }
  }

  /** Keeps the result unless the same gradient did worse in an earlier micro-batch. */
  private void record(Result result) {
    worst.merge(
        result.gradient(),
        result,
        (a, b) -> ratio(a.error(), a.bound()) >= ratio(b.error(), b.bound()) ? a : b);
  }

  /** How much of the bound an error uses up; NaN counts as all of it and more. */
  private static double ratio(double error, double bound) {
    return error == 0 ? 0 : Double.isNaN(error / bound) ? Double.POSITIVE_INFINITY : error / bound;
  }

  /** A float32 gradient, element by element in row-major order. */
  interface Elements {
    float at(long index);
  }

  /**
   * The element of {@code actual} that lies farthest from {@code expected}, measured by its bound.
   */
  static Result compare(String name, Bounded expected, Elements actual) {
    Result worst = new Result(name, 0, 0, 0, expected.error.length == 0 ? 0 : expected.error[0]);
    for (int i = 0; i < expected.value.length; i++) {
      double error = Math.abs(actual.at(i) - expected.value[i]);
      if (ratio(error, expected.error[i]) > ratio(worst.error(), worst.bound())) {
        worst =
            new Result(name, i / expected.columns, i % expected.columns, error, expected.error[i]);
      }
    }
    return worst;
  }
}
