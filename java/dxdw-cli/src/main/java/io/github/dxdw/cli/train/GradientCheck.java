package io.github.dxdw.cli.train;

import io.github.dxdw.Tensor;
import io.github.dxdw.autograd.Parameter;
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
      Tensor values = parameter.tensor();
      int columns = (int) values.size(values.rank() - 1);
      expected.add(new Bounded((int) values.elementCount() / columns, columns));
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
    network.parameters().forEach(parameter -> parameter.buffer().zero());
    return check.results();
  }

  /**
   * Holds gradients that another has computed for the first step against the same reference.
   *
   * @param gradients of the weights and biases, layer by layer, row by row
   * @return for each of them its worst element
   */
  public static List<Result> firstStep(
      Network network, Backend backend, Dataset data, Recipe recipe, List<float[]> gradients) {
    GradientCheck check = new GradientCheck(network, backend);
    check.accumulate(data, recipe);
    network.parameters().forEach(parameter -> parameter.buffer().zero());
    check.worst.clear();
    check.compareParameters(gradients);
    return check.results();
  }

  List<Result> results() {
    return List.copyOf(worst.values());
  }

  void accumulate(Dataset data, Recipe recipe) {
    int[] order = Dataset.inOrder(Math.min(data.size(), recipe.stepRows()));
    network.keepActivations(true);
    for (int from = 0; from < order.length; from += recipe.microBatchRows()) {
      int to = Math.min(from + recipe.microBatchRows(), order.length);
      network.load(data, order, from, to);
      network.forward();
      network.backward();
      int[] labels = new int[to - from];
      for (int i = 0; i < labels.length; i++) {
        labels[i] = data.label(order[from + i]);
      }
      reference(labels);
    }
    network.keepActivations(false);
  }

  /**
   * Forward and backward of the loaded micro-batch in fp64; compares dX and adds up what is
   * expected of dW and db.
   */
  private void reference(int[] labels) {
    int layers = network.parameters().size() / 2;
    int rows = labels.length;
    List<Bounded> weights = new ArrayList<>();
    List<Bounded> inputs = new ArrayList<>();
    List<Bounded> outputs = new ArrayList<>();
    Bounded input = Bounded.of(network.input().tensor());
    for (int i = 0; i < layers; i++) {
      weights.add(Bounded.of(network.parameters().get(2 * i).tensor()));
      Bounded bias = Bounded.of(network.parameters().get(2 * i + 1).tensor());
      Bounded output = new Bounded(rows, bias.columns);
      output.addRow(bias);
      output.addProduct(input, weights.get(i), input.columns + 1);
      inputs.add(input);
      outputs.add(i + 1 < layers ? output.roundTo(backend.type()) : output);
      input = output.relu();
    }
    Bounded gradient = outputs.getLast().softmaxGradient(labels).roundTo(backend.type());
    for (int i = layers - 1; i >= 0; i--) {
      Bounded ones = new Bounded(1, rows);
      Arrays.fill(ones.value, 1);
      int additions = 2 * rows + 1;
      expected.get(2 * i).addProduct(inputs.get(i).transpose(), gradient, additions);
      expected.get(2 * i + 1).addProduct(ones, gradient, additions);
      if (i > 0) {
        Bounded inputGradient = new Bounded(rows, inputs.get(i).columns);
        inputGradient.addProduct(gradient, weights.get(i).transpose(), gradient.columns);
        inputGradient.roundTo(backend.type());
        Tensor computed = network.activations().get(i - 1).gradient();
        record(compare("layer " + (i + 1) + " dX", inputGradient, computed.toFloatArray()));
        gradient = inputGradient.reluGradient(outputs.get(i - 1));
      }
    }
  }

  void compareParameters() {
    compareParameters(network.parameters().stream().map(p -> p.gradient().toFloatArray()).toList());
  }

  private void compareParameters(List<float[]> gradients) {
    for (int i = 0; i < expected.size(); i++) {
      String name = "layer " + (i / 2 + 1) + (i % 2 == 0 ? " dW" : " db");
      record(compare(name, expected.get(i), gradients.get(i)));
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

  /**
   * The element of {@code actual} that lies farthest from {@code expected}, measured by its bound.
   */
  static Result compare(String name, Bounded expected, float[] actual) {
    Result worst = new Result(name, 0, 0, 0, expected.error.length == 0 ? 0 : expected.error[0]);
    for (int i = 0; i < expected.value.length; i++) {
      double error = Math.abs(actual[i] - expected.value[i]);
      if (ratio(error, expected.error[i]) > ratio(worst.error(), worst.bound())) {
        worst =
            new Result(name, i / expected.columns, i % expected.columns, error, expected.error[i]);
      }
    }
    return worst;
  }
}
