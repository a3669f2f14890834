package io.github.dxdw.autograd;

import io.github.dxdw.Accumulate;
import io.github.dxdw.DType;
import io.github.dxdw.Device;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Options;
import io.github.dxdw.Stream;
import io.github.dxdw.Tensor;
import io.github.dxdw.internal.Access;
import io.github.dxdw.internal.Arguments;
import io.github.dxdw.internal.Rehearsal;
import java.lang.foreign.Arena;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;

/**
 * Moves parameters by their gradients, and zeroes these. Each parameter takes one pass over its
 * float32 values, its gradient and what the rule remembers; where functions read another type, the
 * same pass writes the rounded copy. On the CPU and on GPUs; equal gradients give equal bits.
 *
 * <p>The gradient of a parameter that had none since the last step counts as zero.
 *
 * <p>Used by one thread at a time.
 */
public final class Optimizer {
  private enum Rule {
    SGD,
    ADAMW
  }

  private final Rule rule;
  private final List<Parameter> parameters;
  private final double momentum;
  private final boolean nesterov;
  private final double beta1;
  private final double beta2;
  private final double epsilon;
  private final double weightDecay;

  /** Velocities, or first moments; null without momentum. */
  private final Tensor[] first;

  /** Second moments; null for gradient descent. */
  private final Tensor[] second;

  /** The sum of the squares of all gradients. */
  private final Tensor squaredNorm;

  /** What gradients are multiplied by, to clip them. */
  private final Tensor clipFactor;

  /** What gradients are multiplied by besides, and its value. */
  private final Tensor gradientScale;

  private float gradientScaleValue = 1;

  /** The product of both. */
  private final Tensor scale;

  private final Tensor zero;
  private final Tensor clipFactors;
  private final Tensor gradientScales;
  private Options options = Options.defaults();
  private Options assigning = options.withAccumulate(Accumulate.ASSIGN);
  private Options adding = options.withAccumulate(Accumulate.ADD);
  private Stream stream;
  private double maxNorm = Double.POSITIVE_INFINITY;
  private boolean normKnown;
  private long steps;

  private Optimizer(
      Arena arena,
      List<Parameter> parameters,
      Rule rule,
      double momentum,
      boolean nesterov,
      double beta1,
      double beta2,
      double epsilon,
      double weightDecay) {
    Arguments.present(arena, "arena");
    checkParameters(Arguments.present(parameters, "parameters"));
    this.parameters = List.copyOf(parameters);
    this.rule = rule;
    this.momentum = momentum;
    this.nesterov = nesterov;
    this.beta1 = beta1;
    this.beta2 = beta2;
    this.epsilon = epsilon;
    this.weightDecay = weightDecay;
    int count = parameters.size();
    first = new Tensor[count];
    second = new Tensor[count];
    for (int i = 0; i < count; ++i) {
      if (rule == Rule.ADAMW || momentum != 0) {
        first[i] = zeros(arena, parameters.get(i).master());
      }
      if (rule == Rule.ADAMW) {
        second[i] = zeros(arena, parameters.get(i).master());
      }
    }
    Device device = parameters.getFirst().master().device();
    squaredNorm = Tensor.allocate(arena, device, DType.FLOAT32);
    clipFactor = Tensor.allocate(arena, device, DType.FLOAT32);
    gradientScale = Tensor.allocate(arena, device, DType.FLOAT32);
    gradientScale.fill(1);
    scale = Tensor.allocate(arena, device, DType.FLOAT32);
    zero = Tensor.allocate(arena, device, DType.FLOAT32);
    clipFactors = clipFactor.reshape(1);
    gradientScales = gradientScale.reshape(1);
  }

  private static void checkParameters(List<Parameter> parameters) {
    if (parameters.isEmpty()) {
      throw new IllegalArgumentException("parameters: there are none");
    }
    Map<Parameter, Integer> places = new IdentityHashMap<>();
    for (int i = 0; i < parameters.size(); ++i) {
      Parameter parameter = Arguments.present(parameters.get(i), "parameters[" + i + "]");
      Integer earlier = places.put(parameter, i);
      if (earlier != null) {
        throw new IllegalArgumentException(
            "parameters["
                + i
                + "]: is parameters["
                + earlier
                + "], "
                + parameter.name()
                + ", which a step moves once");
      }
    }
  }

  private static Tensor zeros(Arena arena, Tensor like) {
    return Tensor.allocate(arena, like.device(), DType.FLOAT32, like.shape());
  }

  /**
   * Gradient descent as torch.optim.SGD does it: d = g + weightDecay &middot; p; v = momentum
   * &middot; v + d; p -= rate &middot; v, or rate &middot; (d + momentum &middot; v) with
   * Nesterov's momentum.
   *
   * @param arena owner of the memory for v
   * @param parameters what is moved, all on one device
   * @param momentum share of v that is kept, 0 or more; with 0 there is no v
   * @param weightDecay share of p that is added to its gradient, 0 or more
   * @param nesterov whether to look ahead
   * @return the optimizer
   * @throws IllegalArgumentException if an argument or a parameter is null, there are no parameters
   *     or one is there twice, or a number is out of its range or too large for float32
   * @throws io.github.dxdw.NativeMemoryException if there is not enough memory
   */
  public static Optimizer sgd(
      Arena arena,
      List<Parameter> parameters,
      double momentum,
      double weightDecay,
      boolean nesterov) {
    atLeastZero(momentum, "momentum");
    atLeastZero(weightDecay, "weightDecay");
    if (nesterov && momentum == 0) {
      throw new IllegalArgumentException("nesterov: needs a momentum above 0");
    }
    return new Optimizer(arena, parameters, Rule.SGD, momentum, nesterov, 0, 0, 0, weightDecay);
  }

  /**
   * Adam with decoupled weight decay (Loshchilov and Hutter, 2019) as torch.optim.AdamW does it: p
   * -= rate &middot; weightDecay &middot; p; m = beta1 &middot; m + (1 - beta1) &middot; g; v =
   * beta2 &middot; v + (1 - beta2) &middot; g<sup>2</sup>; p -= rate &middot; (m / (1 -
   * beta1<sup>t</sup>)) / (&radic;(v / (1 - beta2<sup>t</sup>)) + epsilon), t = 1, 2, 3, ...
   *
   * @param arena owner of the memory for m and v
   * @param parameters what is moved, all on one device
   * @param beta1 share of m that is kept, from 0 to below 1; usually 0.9
   * @param beta2 share of v that is kept, from 0 to below 1; usually 0.999
   * @param epsilon keeps the quotient finite, 0 or more; usually 1e-8
   * @param weightDecay share of p, times the rate, that a step takes away, 0 or more
   * @return the optimizer
   * @throws IllegalArgumentException if an argument or a parameter is null, there are no parameters
   *     or one is there twice, or a number is out of its range or too large for float32
   * @throws io.github.dxdw.NativeMemoryException if there is not enough memory
   */
  public static Optimizer adamW(
      Arena arena,
      List<Parameter> parameters,
      double beta1,
      double beta2,
      double epsilon,
      double weightDecay) {
    share(beta1, "beta1");
    share(beta2, "beta2");
    atLeastZero(epsilon, "epsilon");
    atLeastZero(weightDecay, "weightDecay");
    return new Optimizer(
        arena, parameters, Rule.ADAMW, 0, false, beta1, beta2, epsilon, weightDecay);
  }

  private static void atLeastZero(double value, String name) {
    if (!(value >= 0 && value <= Float.MAX_VALUE)) {
      throw new IllegalArgumentException(
          name + ": " + value + ", expected 0 or more, and what float32 holds");
    }
  }

  private static void share(double value, String name) {
    if (!(value >= 0 && value < 1)) {
      throw new IllegalArgumentException(name + ": " + value + ", expected 0 to below 1");
    }
  }

  /**
   * Works on a stream, after the work that it has been given; the tape's, as a rule.
   *
   * @param stream a stream on the parameters' device
   * @return this
   * @throws IllegalArgumentException if the stream is null
   */
  public Optimizer on(Stream stream) {
    this.stream = Arguments.present(stream, "stream");
    options = Options.defaults().withStream(stream);
    assigning = options.withAccumulate(Accumulate.ASSIGN);
    adding = options.withAccumulate(Accumulate.ADD);
    return this;
  }

  /**
   * Shortens the gradient of all parameters together, where it is longer than that: it is
   * multiplied by min(1, maxNorm / norm). Squares are added up in a fixed order, parameter by
   * parameter.
   *
   * @param maxNorm longest Euclidean norm, 0 or more; infinite for no limit, as it is at first
   * @return this
   * @throws IllegalArgumentException if it is NaN or negative
   */
  public Optimizer clip(double maxNorm) {
    if (!(maxNorm >= 0)) {
      throw new IllegalArgumentException("maxNorm: " + maxNorm + ", expected 0 or more");
    }
    this.maxNorm = maxNorm;
    return this;
  }

  /**
   * Moves all parameters once and zeroes their gradients.
   *
   * @param rate learning rate, 0 or more
   * @throws IllegalArgumentException if the rate is NaN, negative or too large for float32
   * @throws IllegalStateException if memory is closed, or this thread plans the step of a tape
   * @throws io.github.dxdw.DxdwException if a call fails behind the checks
   */
  public void step(double rate) {
    step(rate, 1);
  }

  /**
   * Moves all parameters once, with their gradients multiplied by a number first, and zeroes the
   * gradients.
   *
   * @param rate learning rate, 0 or more
   * @param gradientScale such as 1 / rows where gradients are sums over rows; above 0, used in
   *     float32
   * @throws IllegalArgumentException if a number is out of its range
   * @throws IllegalStateException if memory is closed, or this thread plans the step of a tape
   * @throws io.github.dxdw.DxdwException if a call fails behind the checks
   */
  public void step(double rate, double gradientScale) {
    atLeastZero(rate, "rate");
    float wanted = (float) gradientScale;
    if (!(wanted > 0 && wanted < Float.POSITIVE_INFINITY)) {
      throw new IllegalArgumentException(
          "gradientScale: " + gradientScale + ", expected a number above 0 that float32 holds");
    }
    if (Rehearsal.isOn()) {
      throw new IllegalStateException(
          "step: an optimizer's step is no part of what a tape plans: it would lose the gradients");
    }
    Tensor factor = factor(wanted);
    long number = steps + 1;
    for (int i = 0; i < first.length; ++i) {
      Parameter parameter = parameters.get(i);
      Tensor values = parameter.master();
      Tensor copy = parameter.tensor() == values ? null : parameter.tensor();
      Tensor gradient = gradient(parameter);
      if (rule == Rule.SGD) {
        Dxdw.sgd(
            values,
            gradient,
            first[i],
            copy,
            factor,
            rate,
            momentum,
            weightDecay,
            nesterov,
            options);
      } else {
        Dxdw.adamw(
            values,
            gradient,
            first[i],
            second[i],
            copy,
            factor,
            rate,
            beta1,
            beta2,
            epsilon,
            weightDecay,
            number,
            options);
      }
      // Counted once a call has passed the checks: a refused step is none.
      steps = number;
      parameter.buffer().zero();
    }
  }

  /** What gradients are multiplied by, on the device; null for 1. */
  private Tensor factor(float wanted) {
    if (wanted != gradientScaleValue) {
      if (stream != null) {
        // An earlier step may still read it.
        stream.synchronize();
      }
      gradientScale.fill(wanted);
      gradientScaleValue = wanted;
    }
    if (maxNorm == Double.POSITIVE_INFINITY) {
      normKnown = false;
      return wanted == 1 ? null : gradientScale;
    }
    for (int i = 0; i < first.length; ++i) {
      Dxdw.squaredNorm(gradient(parameters.get(i)), squaredNorm, i == 0 ? assigning : adding);
    }
    normKnown = true;
    // The norm is that of the gradients before they are scaled.
    Dxdw.clipFactor(squaredNorm, clipFactor, maxNorm / wanted, options);
    if (wanted == 1) {
      return clipFactor;
    }
    Dxdw.weightedSum(clipFactors, gradientScales, scale, options);
    return scale;
  }

  private Tensor gradient(Parameter parameter) {
    Access access = Access.get();
    if (stream == null || !access.isZeroed(parameter.buffer())) {
      return parameter.gradient();
    }
    Tensor memory = access.memory(parameter.buffer());
    memory.copyFrom(zero.expand(memory.shape()), stream);
    access.written(parameter.buffer());
    return memory;
  }

  /**
   * The Euclidean norm of all gradients together, scaled but not clipped, at the last step. Waits
   * for the device.
   *
   * @return the norm
   * @throws IllegalStateException if the last step had no limit, or memory is closed
   */
  public double gradientNorm() {
    if (!normKnown) {
      throw new IllegalStateException("gradientNorm: is computed by steps with a limit: clip()");
    }
    if (stream != null) {
      stream.synchronize();
    }
    return gradientScaleValue * Math.sqrt(squaredNorm.get());
  }

  /** The rule, the number of parameters and the steps so far. */
  @Override
  public String toString() {
    return (rule == Rule.SGD ? "SGD" : "AdamW")
        + " of "
        + parameters.size()
        + " parameters after "
        + steps
        + " steps";
  }
}
