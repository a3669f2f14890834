package io.github.dxdw.autograd;

import io.github.dxdw.DType;
import io.github.dxdw.Device;
import io.github.dxdw.Tensor;
import io.github.dxdw.internal.Arguments;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Random;

/**
 * Holds the gradients of a {@link Function} against central differences of a reference in float64,
 * and tries what usually goes wrong: incoming gradients that are dense, expanded (stride 0),
 * narrowed, permuted, shifted by one element, reversed, and padded with NaN; inputs laid out in
 * these ways; each input's gradient wanted alone; gradients that are added to others; inputs that
 * are results of other functions.
 *
 * <p>An element passes if rounding explains its distance from the reference. With J the matrix of
 * derivatives by central differences, u = 2<sup>-24</sup>, m outputs and r = 16 + m roundings, the
 * gradient of input j may be off by r u sum over i of |g[i]| |J[i, j]|, a rounding to the type that
 * it is stored in, and what the differences themselves are off. That is so for functions that
 * compute in float32 and whose derivatives are not themselves small differences of large numbers.
 * Inputs should keep away from where the function has no derivative.
 *
 * <p>Meant for small inputs: the reference is run twice for each element of each input. Used by one
 * thread at a time.
 */
public final class GradCheck {
  private static final double UNIT = 0x1p-24;
  private static final double ROUNDINGS = 16;

  /** How far central differences are off, compared with what they are taken of. */
  private static final double DIFFERENCES = 1e-9;

  /** The forward in float64. */
  @FunctionalInterface
  public interface Reference {
    /**
     * Computes the output.
     *
     * @param inputs the values of each input, in row-major order
     * @return the values of the output, in row-major order
     */
    double[] forward(double[][] inputs);
  }

  /**
   * What came out. Immutable.
   *
   * @param compared how many tensors were compared
   * @param failures for each that failed a line: what was tried, and the worst element or what was
   *     thrown
   */
  public record Report(int compared, List<String> failures) {
    /**
     * Copies the lines.
     *
     * @throws IllegalArgumentException if they are null
     */
    public Report {
      failures = List.copyOf(Arguments.present(failures, "failures"));
    }

    /**
     * Did everything pass?
     *
     * @return true if so
     */
    public boolean passed() {
      return failures.isEmpty();
    }

    /** How many comparisons there were, and a line for each that failed. */
    @Override
    public String toString() {
      return passed()
          ? compared + " comparisons, all inside their bounds"
          : failures.size() + " of " + compared + " failed:\n" + String.join("\n", failures);
    }
  }

  /** How a tensor lies in memory. */
  private enum Layout {
    DENSE,
    EXPANDED,
    NARROWED,
    PERMUTED,
    OFFSET,
    REVERSED,
    PADDED_WITH_NAN;

    /** A tensor laid out in this way with the same values; EXPANDED takes the first for all. */
    Tensor of(Arena arena, Tensor values) {
      long[] shape = values.shape();
      int rank = shape.length;
      Tensor view =
          switch (this) {
            case DENSE -> allocate(arena, values, shape);
            case EXPANDED -> allocate(arena, values);
            case NARROWED -> {
              long[] wide = shape.clone();
              if (rank > 0) {
                wide[rank - 1] *= 2;
              }
              Tensor memory = allocate(arena, values, wide);
              yield rank == 0 ? memory : memory.slice(rank - 1, 0, shape[rank - 1]);
            }
            case PERMUTED -> {
              int[] turned = new int[rank];
              Arrays.setAll(turned, d -> rank - 1 - d);
              long[] turnedShape = new long[rank];
              Arrays.setAll(turnedShape, d -> shape[rank - 1 - d]);
              yield allocate(arena, values, turnedShape).permute(turned);
            }
            case OFFSET -> {
              Tensor memory = allocate(arena, values, values.elementCount() + 1);
              yield memory.slice(0, 1, values.elementCount() + 1).reshape(shape);
            }
            case REVERSED -> {
              Tensor memory = allocate(arena, values, shape);
              for (int d = 0; d < rank; ++d) {
                memory = memory.reverse(d);
              }
              yield memory;
            }
            case PADDED_WITH_NAN -> {
              long[] padded = new long[rank];
              Arrays.setAll(padded, d -> shape[d] + 2);
              Tensor memory = allocate(arena, values, padded);
              for (int d = 0; d < rank; ++d) {
                memory = memory.slice(d, 1, shape[d] + 1);
              }
              yield memory;
            }
          };
      if (this != EXPANDED) {
        view.copyFrom(values);
        return view;
      }
      Tensor first = values;
      while (first.rank() > 0 && values.elementCount() > 0) {
        first = first.select(0, 0);
      }
      if (values.elementCount() > 0) {
        view.copyFrom(first);
      }
      return view.expand(shape);
    }

    private static Tensor allocate(Arena arena, Tensor like, long... shape) {
      Tensor memory = Tensor.allocate(arena, like.device(), like.dtype(), shape);
      if (isFloating(like)) {
        memory.fill(Float.NaN);
      }
      return memory;
    }

    @Override
    public String toString() {
      return name().toLowerCase(Locale.ROOT).replace('_', ' ');
    }
  }

  /** y = x, so that what comes after it sees the result of a function. */
  private static final Function IDENTITY =
      new Function() {
        @Override
        public Tensor forward(Context context) {
          Tensor y = context.outputLike(context.input(0));
          context.copy(context.input(0), y);
          return y;
        }

        @Override
        public void backward(Context context, Tensor gradient) {
          context.copy(gradient, context.gradient(0));
        }

        @Override
        public String name() {
          return "identity";
        }
      };

  private final Function function;
  private final Reference reference;
  private final Variable[] given;
  private final Device device;
  private final List<String> failures = new ArrayList<>();
  private int compared;

  // The reference at the given point.
  private double[] value;

  /** Of each input, by output and element: derivatives. */
  private final double[][][] derivatives;

  private final double[][] inputs;

  private GradCheck(Function function, Reference reference, Variable[] given) {
    this.function = function;
    this.reference = reference;
    this.given = given;
    device = given[0].tensor().device();
    inputs = new double[given.length][];
    derivatives = new double[given.length][][];
  }

  /**
   * Checks a function at one point.
   *
   * @param function what to check
   * @param reference its forward in float64
   * @param inputs values; the gradients of {@link Parameter}s are checked, those of constants not.
   *     The tensors and gradient buffers are not written
   * @return what came out
   * @throws IllegalArgumentException if an argument is null, there is no parameter among the
   *     inputs, or the reference gives another number of values than the function
   */
  public static Report run(Function function, Reference reference, Variable... inputs) {
    Arguments.present(function, "function");
    Arguments.present(reference, "reference");
    Arguments.present(inputs, "inputs");
    for (int i = 0; i < inputs.length; ++i) {
      Arguments.present(inputs[i], "inputs[" + i + "]");
    }
    if (Arrays.stream(inputs).noneMatch(Parameter.class::isInstance)) {
      throw new IllegalArgumentException(
          "inputs: there is no parameter among the " + inputs.length);
    }
    return new GradCheck(function, reference, inputs).run();
  }

  private Report run() {
    differentiateReference();
    compareForward();
    for (Layout layout : Layout.values()) {
      attempt("gradient " + layout, new Attempt(Layout.DENSE, layout, -1, false, false));
    }
    for (Layout layout : Layout.values()) {
      // Different values can't be one element.
      if (layout != Layout.EXPANDED && layout != Layout.DENSE) {
        attempt("inputs " + layout, new Attempt(layout, Layout.DENSE, -1, false, false));
      }
    }
    for (int i = 0; i < given.length; ++i) {
      if (given[i].wantsGradient()) {
        attempt(
            "input " + i + " alone wanted",
            new Attempt(Layout.DENSE, Layout.DENSE, i, false, false));
      }
    }
    attempt("added", new Attempt(Layout.DENSE, Layout.DENSE, -1, true, false));
    attempt("inputs that are results", new Attempt(Layout.DENSE, Layout.NARROWED, -1, false, true));
    attempt(
        "inputs that are results, added", new Attempt(Layout.DENSE, Layout.DENSE, -1, true, true));
    return new Report(compared, failures);
  }

  private void differentiateReference() {
    for (int i = 0; i < given.length; ++i) {
      inputs[i] = values(given[i].tensor());
    }
    value = Arguments.present(reference.forward(copy(inputs)), "reference: its result");
    for (int i = 0; i < given.length; ++i) {
      derivatives[i] = new double[value.length][inputs[i].length];
      for (int j = 0; j < inputs[i].length && isFloating(given[i].tensor()); ++j) {
        // A power of two near the cube root of the precision: x + h and x - h are exact.
        double step = Math.scalb(1.0, Math.getExponent(Math.max(Math.abs(inputs[i][j]), 1)) - 17);
        double[] above = shifted(i, j, step);
        double[] below = shifted(i, j, -step);
        for (int k = 0; k < value.length; ++k) {
          derivatives[i][k][j] = (above[k] - below[k]) / (2 * step);
        }
      }
    }
  }

  private static double[] values(Tensor tensor) {
    double[] values = new double[(int) tensor.elementCount()];
    if (isFloating(tensor)) {
      float[] floats = tensor.toFloatArray();
      Arrays.setAll(values, j -> floats[j]);
    } else {
      Arrays.setAll(values, j -> tensor.getInt(index(tensor, j)));
    }
    return values;
  }

  private double[] shifted(int input, int element, double step) {
    double[][] moved = copy(inputs);
    moved[input][element] += step;
    double[] result = Arguments.present(reference.forward(moved), "reference: its result");
    if (result.length != value.length) {
      throw new IllegalArgumentException(
          "reference: gave " + value.length + " values, for other inputs " + result.length);
    }
    return result;
  }

  private static double[][] copy(double[][] values) {
    double[][] copy = new double[values.length][];
    Arrays.setAll(copy, i -> values[i].clone());
    return copy;
  }

  private static boolean isFloating(Tensor tensor) {
    return tensor.dtype() != DType.INT32;
  }

  private void compareForward() {
    try (Tape tape = new Tape(device)) {
      Variable[] constants = new Variable[given.length];
      Arrays.setAll(constants, i -> Variable.constant(given[i].tensor()));
      Tensor output = tape.apply(function, constants).tensor();
      if (output.elementCount() != value.length) {
        throw new IllegalArgumentException(
            "reference: gave "
                + value.length
                + " values, "
                + function.name()
                + " has "
                + Arrays.toString(output.shape()));
      }
      double[] bound = new double[value.length];
      for (int k = 0; k < value.length; ++k) {
        double magnitude = Math.abs(value[k]);
        long terms = 0;
        for (int i = 0; i < given.length; ++i) {
          for (int j = 0; j < inputs[i].length; ++j) {
            magnitude += Math.abs(derivatives[i][k][j] * inputs[i][j]);
            terms += derivatives[i][k][j] == 0 ? 0 : 1;
          }
        }
        bound[k] = bound(value[k], magnitude, terms, output.dtype());
      }
      compare("output", output, value, bound);
    }
  }

  private static double bound(double value, double magnitude, long terms, DType stored) {
    double error = (ROUNDINGS + terms) * UNIT * magnitude + Float.MIN_NORMAL;
    double rounding =
        switch (stored) {
          case FLOAT16 -> 0x1p-11;
          case BFLOAT16 -> 0x1p-8;
          default -> 0;
        };
    return error + rounding * (Math.abs(value) + error) + (stored == DType.FLOAT16 ? 0x1p-25 : 0);
  }

  /**
   * One way to differentiate.
   *
   * @param inputs how inputs lie
   * @param gradient how the incoming gradient lies
   * @param alone the only input whose gradient is wanted; -1 for all that can be
   * @param added whether gradients are added to others
   * @param results whether inputs are results of another function
   */
  private record Attempt(
      Layout inputs, Layout gradient, int alone, boolean added, boolean results) {

    /** Are there other gradients in the buffers of parameters? */
    boolean prefilled() {
      return added && !results;
    }
  }

  private void attempt(String what, Attempt attempt) {
    try (Arena arena = Arena.ofShared();
        Tape tape = new Tape(device)) {
      Parameter[] parameters = new Parameter[given.length];
      Variable[] variables = new Variable[given.length];
      for (int i = 0; i < given.length; ++i) {
        Tensor laidOut = attempt.inputs.of(arena, given[i].tensor());
        boolean wanted = given[i].wantsGradient() && (attempt.alone < 0 || attempt.alone == i);
        parameters[i] = wanted ? Parameter.of(arena, "input " + i, laidOut) : null;
        variables[i] = wanted ? parameters[i] : Variable.constant(laidOut);
        if (wanted) {
          parameters[i].buffer().tensor().fill(attempt.prefilled() ? 1 : Float.NaN);
          if (!attempt.prefilled()) {
            parameters[i].buffer().zero();
          }
        }
      }
      Variable[] applied = variables.clone();
      if (attempt.results) {
        Arrays.setAll(applied, i -> tape.apply(IDENTITY, variables[i]));
      }
      Variable output = tape.apply(function, applied);
      // Twice, where gradients of results are to be added to others.
      int times = attempt.added && attempt.results ? 2 : 1;
      Variable root = output;
      if (times == 2) {
        root = tape.apply(new Both(), output, tape.apply(function, applied));
      }
      Tensor gradient = gradient(arena, output.tensor(), attempt.gradient);
      float[] g = gradient.toFloatArray();
      tape.backward(root, gradient);
      for (int i = 0; i < given.length; ++i) {
        if (parameters[i] != null) {
          DType stored = attempt.results ? given[i].tensor().dtype() : DType.FLOAT32;
          compareGradient(
              what + ", gradient of input " + i,
              i,
              parameters[i].gradient(),
              g,
              times,
              attempt.prefilled() ? 1 : 0,
              stored);
        }
      }
    } catch (RuntimeException e) {
      ++compared;
      failures.add(what + ": " + e);
    }
  }

  /** Hands its gradient to two results, as their sum would. */
  private static final class Both implements Function {
    @Override
    public Tensor forward(Context context) {
      Tensor y = context.outputLike(context.input(0));
      context.copy(context.input(0), y);
      return y;
    }

    @Override
    public void backward(Context context, Tensor gradient) {
      context.copy(gradient, context.gradient(0));
      context.copy(gradient, context.gradient(1));
    }
  }

  private static Tensor gradient(Arena arena, Tensor output, Layout layout) {
    Random random = new Random(5);
    float[] values = new float[(int) output.elementCount()];
    for (int k = 0; k < values.length; ++k) {
      values[k] = 2 * random.nextFloat() - 1;
    }
    Tensor dense = Tensor.allocate(arena, output.device(), output.dtype(), output.shape());
    if (values.length > 0) {
      dense.copyFrom(Tensor.of(arena, values, values.length).reshape(output.shape()));
    }
    return layout.of(arena, dense);
  }

  private void compareGradient(
      String what, int input, Tensor got, float[] g, int times, double old, DType stored) {
    int count = inputs[input].length;
    double[] expected = new double[count];
    double[] bound = new double[count];
    for (int j = 0; j < count; ++j) {
      double magnitude = 0;
      double differences = 0;
      for (int k = 0; k < value.length; ++k) {
        double slope = derivatives[input][k][j];
        expected[j] += times * g[k] * slope;
        magnitude += times * Math.abs(g[k] * slope);
        differences += times * Math.abs(g[k]) * (Math.abs(value[k]) + Math.abs(slope));
      }
      bound[j] =
          times * bound(expected[j], magnitude, value.length, stored)
              + DIFFERENCES * differences
              + (old + Math.abs(expected[j])) * UNIT * 2;
      expected[j] += old;
    }
    compare(what, got, expected, bound);
  }

  private void compare(String what, Tensor got, double[] expected, double[] bound) {
    ++compared;
    float[] values = got.toFloatArray();
    int worst = -1;
    double most = 1;
    int outside = 0;
    for (int j = 0; j < values.length; ++j) {
      double ratio = Math.abs(values[j] - expected[j]) / bound[j];
      if (!(ratio <= 1)) {
        ++outside;
        if (worst < 0 || !(ratio <= most)) {
          worst = j;
          most = ratio;
        }
      }
    }
    if (worst >= 0) {
      failures.add(
          String.format(
              Locale.ROOT,
              "%s: %d of %d elements, worst at %s: %s, expected %.9g, bound %.2e",
              what,
              outside,
              values.length,
              Arrays.toString(index(got, worst)),
              values[worst],
              expected[worst],
              bound[worst]));
    }
  }

  private static long[] index(Tensor tensor, int element) {
    long[] index = new long[tensor.rank()];
    long rest = element;
    for (int d = index.length - 1; d >= 0; --d) {
      index[d] = rest % tensor.size(d);
      rest /= tensor.size(d);
    }
    return index;
  }
}
