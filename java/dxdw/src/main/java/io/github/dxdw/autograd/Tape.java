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
import io.github.dxdw.internal.View;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;

/**
 * Records the functions that are applied, and differentiates what they computed.
 *
 * <p>A step is: {@link #reset()}, {@link #apply}, ..., {@link #backward}. The tape owns the memory
 * of results and their gradients, and uses it again in later steps: from the second step of a shape
 * on, nothing is allocated. In {@link #backward}, the memory of results is given back as soon as
 * nothing needs it, and later gradients take its place.
 *
 * <p>Gradients of a variable that is used more than once add up. So do those of {@link Parameter}s,
 * in float32, over any number of steps, until their buffers are zeroed. For equal inputs all
 * gradients are equal to the bit, whatever the number of threads.
 *
 * <p>What computes no gradient costs nothing: results that depend on no parameter are not recorded,
 * and keep alive neither their inputs nor what their functions save.
 *
 * <p>Used by one thread at a time. Forwards and backwards of functions must not call the tape that
 * runs them: that is an {@link IllegalStateException}. On a GPU a tape works on a stream or,
 * without one, waits for each call. Close it when it is no longer needed; the memory of a tape that
 * is forgotten waits for the garbage collector.
 */
public final class Tape implements AutoCloseable {
  /**
   * So many constants are kept from step to step: means over ever other numbers bring ever more.
   */
  private static final int MOST_CONSTANTS = 64;

  private enum State {
    RECORDING,
    PASSED,
    CLOSED
  }

  private final Device device;
  private final Stream stream;
  private final Options plain;
  private final Options assigning;
  private final Options adding;
  private final List<Context> calls = new ArrayList<>();
  private final List<Variable> kept = new ArrayList<>();
  private Arena arena = Dxdw.arena();
  private final List<Constant> constants = new ArrayList<>();
  private Pool pool;
  private Rehearsal rehearsal;
  private int count;
  private State state = State.RECORDING;

  /** Whether a forward or backward is running. */
  private boolean inFunction;

  /** A scalar that stays for a step at least. */
  private record Constant(DType type, float value, Tensor tensor) {}

  /**
   * What a step needs, known before it is taken. Immutable.
   *
   * @param bytes memory that the tape allocates: the most that results and gradients occupy at once
   * @param workspaceBytes the largest workspace of a call; the library has it, not the tape
   * @param calls calls of kernels, copies not counted
   */
  public record Needs(long bytes, long workspaceBytes, long calls) {}

  /** A tape on the CPU. */
  public Tape() {
    this(Device.cpu());
  }

  /**
   * A tape on a device. On a GPU each call is waited for.
   *
   * @param device where all variables lie
   * @throws IllegalArgumentException if the device is null
   */
  public Tape(Device device) {
    this(Arguments.present(device, "device"), null);
  }

  /**
   * A tape on a stream, whose calls return before their work is done. Synchronize the stream before
   * values are read.
   *
   * @param stream a stream on the device where all variables lie
   * @throws IllegalArgumentException if the stream is null
   */
  public Tape(Stream stream) {
    this(Arguments.present(stream, "stream").device(), stream);
  }

  private Tape(Device device, Stream stream) {
    this.device = device;
    this.stream = stream;
    Options options = Options.defaults();
    plain = stream == null ? options : options.withStream(stream);
    assigning = plain.withAccumulate(Accumulate.ASSIGN);
    adding = plain.withAccumulate(Accumulate.ADD);
    pool = new Pool(device, stream);
  }

  /**
   * The device of all variables.
   *
   * @return the device
   */
  public Device device() {
    return device;
  }

  // ---- Recording ----

  /**
   * Applies a function to one variable.
   *
   * @param function what to compute
   * @param input its input
   * @return its output
   * @throws IllegalArgumentException if an argument is null, or the input is of another tape; and
   *     what the function throws
   * @throws IllegalStateException if the input's value is gone, or {@link #backward} was called
   *     since the last {@link #reset()}
   */
  public Variable apply(Function function, Variable input) {
    Context context = begin(function, 1);
    input(context, 0, input);
    return run(context);
  }

  /**
   * Applies a function to two variables.
   *
   * @param function what to compute
   * @param first its first input
   * @param second its second input
   * @return its output
   * @throws IllegalArgumentException if an argument is null, or an input is of another tape; and
   *     what the function throws
   * @throws IllegalStateException if an input's value is gone, or {@link #backward} was called
   *     since the last {@link #reset()}
   */
  public Variable apply(Function function, Variable first, Variable second) {
    Context context = begin(function, 2);
    input(context, 0, first);
    input(context, 1, second);
    return run(context);
  }

  /**
   * Applies a function to three variables.
   *
   * @param function what to compute
   * @param first its first input
   * @param second its second input
   * @param third its third input
   * @return its output
   * @throws IllegalArgumentException if an argument is null, or an input is of another tape; and
   *     what the function throws
   * @throws IllegalStateException if an input's value is gone, or {@link #backward} was called
   *     since the last {@link #reset()}
   */
  public Variable apply(Function function, Variable first, Variable second, Variable third) {
    Context context = begin(function, 3);
    input(context, 0, first);
    input(context, 1, second);
    input(context, 2, third);
    return run(context);
  }

  /**
   * Applies a function to any number of variables.
   *
   * @param function what to compute
   * @param inputs its inputs
   * @return its output
   * @throws IllegalArgumentException if an argument is null, or an input is of another tape; and
   *     what the function throws
   * @throws IllegalStateException if an input's value is gone, or {@link #backward} was called
   *     since the last {@link #reset()}
   */
  public Variable apply(Function function, Variable... inputs) {
    Arguments.present(inputs, "inputs");
    Context context = begin(function, inputs.length);
    for (int i = 0; i < inputs.length; ++i) {
      input(context, i, inputs[i]);
    }
    return run(context);
  }

  private Context begin(Function function, int inputs) {
    Arguments.present(function, "function");
    checkOpen();
    if (state == State.PASSED) {
      throw new IllegalStateException("apply: backward was called; reset() begins the next step");
    }
    if (count == calls.size()) {
      calls.add(new Context(this, count));
    }
    Context context = calls.get(count);
    context.begin(function, inputs);
    return context;
  }

  private void input(Context context, int place, Variable variable) {
    if (variable == null) {
      throw new IllegalArgumentException("input " + place + ": is null");
    }
    Context producer = variable.producer();
    if (producer != null && (producer.tape() != this || producer == context)) {
      throw new IllegalArgumentException(
          "input " + place + ": " + variable.describe() + " is not a result of this step");
    }
    context.input(place, variable, variable.tensor());
  }

  private Variable run(Context context) {
    inFunction = true;
    try {
      Variable result = context.run();
      ++count;
      return result;
    } finally {
      inFunction = false;
    }
  }

  // ---- Differentiating ----

  /**
   * Differentiates a single number.
   *
   * @param root a result with one element
   * @throws IllegalArgumentException if it is null, has more elements, depends on no parameter or
   *     is not of this step
   * @throws IllegalStateException as {@link #backward(Variable, Tensor)} says
   */
  public void backward(Variable root) {
    Arguments.present(root, "root");
    Tensor value = root.tensor();
    if (value.elementCount() != 1) {
      throw new IllegalArgumentException(
          "root: "
              + Access.get().view(value).describe()
              + " has not one element: give the gradient of each");
    }
    Tensor one = constant(value.dtype(), 1);
    backward(root, value.rank() == 0 ? one : one.expand(value.shape()));
  }

  /**
   * Differentiates sum over i of gradient[i] &middot; root[i]: adds the gradient of each parameter
   * to its buffer, and leaves those of results that were {@linkplain Variable#keep() kept}. Then
   * all that was saved is let go. The tape records nothing more until {@link #reset()}.
   *
   * <p>What was saved is checked first: if a tensor was changed in place since its function saved
   * it, no gradient is touched.
   *
   * @param root a result
   * @param gradient of the root's shape, type and device; any strides
   * @throws IllegalArgumentException if an argument is null, the gradient does not fit, or the root
   *     depends on no parameter or is not of this step
   * @throws IllegalStateException if a saved tensor was changed in place, with its name and both
   *     versions; if {@link #backward} was called since the last {@link #reset()}; and if a
   *     function does not ask for a gradient that is wanted
   */
  public void backward(Variable root, Tensor gradient) {
    Arguments.present(root, "root");
    Arguments.present(gradient, "gradient");
    checkOpen();
    if (state == State.PASSED) {
      throw new IllegalStateException("backward: was called already; reset() begins the next step");
    }
    Context last = root.producer();
    if (last == null || last.tape() != this || !last.isRecorded()) {
      throw new IllegalArgumentException(
          "root: " + root.describe() + " is no result of this step that depends on a parameter");
    }
    View value = Access.get().view(root.base().tensor());
    View given = Access.get().view(root.isTransposed() ? gradient.transpose() : gradient);
    if (!given.hasShapeOf(value)
        || given.type() != value.type()
        || !gradient.device().equals(device)) {
      throw new IllegalArgumentException(
          "gradient: "
              + Access.get().view(gradient).describe()
              + " on "
              + gradient.device()
              + " for "
              + Access.get().view(root.tensor()).describe()
              + " on "
              + device);
    }
    int from = last.index();
    last.reach();
    for (int i = from; i >= 0; --i) {
      calls.get(i).spread();
    }
    state = State.PASSED;
    root.keep();
    collectKept();
    pass(root.base(), root.isTransposed() ? gradient.transpose() : gradient, from);
  }

  private void collectKept() {
    kept.clear();
    for (int i = 0; i < count; ++i) {
      if (calls.get(i).result().isKept()) {
        kept.add(calls.get(i).result());
      }
    }
  }

  private void pass(Variable root, Tensor gradient, int from) {
    for (int i = count - 1; i > from; --i) {
      calls.get(i).pass(kept);
    }
    root.gradientIn(null, gradient);
    root.gradientWritten();
    for (int i = from; i >= 0; --i) {
      Context context = calls.get(i);
      if (context.result().hasGradient()) {
        inFunction = true;
        try {
          context.runBackward(context.result().gradientMemory());
        } finally {
          inFunction = false;
        }
      }
      context.pass(kept);
    }
    kept.clear();
  }

  // ---- Memory ----

  /**
   * Begins a step: forgets all results. Their memory is used again. Gradients of parameters stay.
   *
   * @throws IllegalStateException if the tape is closed
   */
  public void reset() {
    checkOpen();
    for (int i = 0; i < count; ++i) {
      calls.get(i).reset();
    }
    count = 0;
    state = State.RECORDING;
    if (constants.size() > MOST_CONSTANTS) {
      calls.forEach(Context::forgetConstants);
      constants.clear();
      arena.close();
      arena = Dxdw.arena();
    }
  }

  /**
   * Tells what a step needs, without taking it: the calls of kernels in it are checked and planned,
   * not made, and results have no memory, so that all of their elements read as 0. Other Java code
   * in the step runs as ever. The tape is as after {@link #reset()} then, and the tensors of
   * results are closed.
   *
   * @param step calls {@link #apply} and {@link #backward} of this tape; neither {@link #reset()}
   *     nor an optimizer
   * @return what it needs, where the tape has no memory yet
   * @throws IllegalArgumentException if the step is null; and what the step throws
   * @throws IllegalStateException if the tape is closed, or a step is being planned
   */
  public Needs plan(Runnable step) {
    Arguments.present(step, "step");
    checkOpen();
    checkNotPlanning("plan");
    reset();
    Pool real = pool;
    try (Arena imagined = Arena.ofConfined()) {
      pool = real.imagined(Access.get().view(constant(DType.FLOAT32, 1)), imagined);
      rehearsal = new Rehearsal();
      rehearsal.run(step);
      return new Needs(pool.bytes(), rehearsal.workspaceBytes(), rehearsal.calls());
    } finally {
      reset();
      pool = real;
      rehearsal = null;
    }
  }

  private void checkNotPlanning(String what) {
    if (rehearsal != null) {
      throw new IllegalStateException(what + ": the tape is planning a step");
    }
  }

  /**
   * The memory that the tape has.
   *
   * @return bytes
   */
  public long bytes() {
    return pool.bytes();
  }

  /**
   * Gives all memory back; results are gone. Closing twice is fine.
   *
   * @throws IllegalStateException if a function of the tape runs, or a step is being planned
   */
  @Override
  public void close() {
    if (state == State.CLOSED) {
      return;
    }
    checkNotPlanning("close");
    reset();
    state = State.CLOSED;
    pool.close();
    arena.close();
  }

  private void checkOpen() {
    if (state == State.CLOSED) {
      throw new IllegalStateException("the tape is closed");
    }
    if (inFunction) {
      throw new IllegalStateException(
          "the tape runs a function, which must not use the tape itself");
    }
  }

  /** Tells the device and how many results there are. */
  @Override
  public String toString() {
    return "tape on " + device + ", " + count + " results, " + pool.bytes() + " bytes";
  }

  // ---- For contexts ----

  Pool pool() {
    return pool;
  }

  boolean isRehearsed() {
    return rehearsal != null;
  }

  Options assigning() {
    return assigning;
  }

  Options adding() {
    return adding;
  }

  void copy(Tensor source, Tensor destination) {
    if (stream == null) {
      destination.copyFrom(source);
    } else {
      destination.copyFrom(source, stream);
    }
  }

  /** Writes zeros. */
  void zero(Tensor tensor) {
    if (isRehearsed()) {
      return;
    }
    if (stream == null) {
      tensor.fill(0);
      return;
    }
    tensor.copyFrom(constant(tensor.dtype(), 0).expand(tensor.shape()), stream);
  }

  /** A scalar that stays for this step at least. */
  Tensor constant(DType type, float value) {
    for (int i = 0; i < constants.size(); ++i) {
      Constant constant = constants.get(i);
      if (constant.type == type && constant.value == value) {
        return constant.tensor;
      }
    }
    Tensor scalar = Tensor.allocate(arena, device, type);
    Rehearsal.outside(() -> scalar.fill(value));
    constants.add(new Constant(type, value, scalar));
    return scalar;
  }

  /** sum += term. */
  void add(Tensor term, Tensor sum) {
    Dxdw.add(sum, term, sum, plain);
  }
}
