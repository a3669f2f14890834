package io.github.dxdw.autograd;

import io.github.dxdw.DType;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Options;
import io.github.dxdw.Tensor;
import io.github.dxdw.internal.Access;
import io.github.dxdw.internal.Arguments;
import io.github.dxdw.internal.View;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * One call of a {@link Function} on a {@link Tape}: its inputs, the memory for its output, what it
 * saves for the backward, and where the gradients go. It is good during {@link Function#forward}
 * and {@link Function#backward} alone, on the thread that runs them.
 */
public final class Context {
  private enum Phase {
    IDLE,
    FORWARD,
    RECORDED,
    BACKWARD
  }

  private static final Tensor[] NO_TENSORS = {};

  private final Tape tape;
  private final int index;
  private final Variable result = new Variable(null, this, null);
  private final List<Pool.Block> outputs = new ArrayList<>();
  private final List<Pool.Block> temporaries = new ArrayList<>();

  /** A view that is asked for step by step, and what it was made of. */
  private Tensor expanded;

  private Tensor expandedFrom;
  private Tensor repeated;
  private float repeatedValue;

  private final long[] oneSize = new long[1];
  private final long[] twoSizes = new long[2];

  private Phase phase = Phase.IDLE;
  private Function function;
  private int inputCount;
  private boolean anyWanted;
  private Variable[] inputs = {};
  private Tensor[] inputTensors = NO_TENSORS;

  private int savedCount;
  private Tensor[] saved = NO_TENSORS;
  private long[] savedVersions = {};

  /** Which input a saved tensor is; -1 for none. */
  private int[] savedInputs = {};

  // During the backward, for each input that wants a gradient.
  private Tensor[] destinations = NO_TENSORS;
  private boolean[] adds = {};

  /** Memory of a gradient that is added to that of an earlier input, which is the same variable. */
  private boolean[] apart = {};

  /** Whether the output plays a part in what is differentiated. */
  private boolean reached;

  Context(Tape tape, int index) {
    this.tape = tape;
    this.index = index;
  }

  // ---- For functions ----

  /**
   * How many inputs there are.
   *
   * @return the number of variables that the function was applied to
   */
  public int inputCount() {
    return inputCount;
  }

  /**
   * An input, during the forward. The backward has only what was saved.
   *
   * @param input its place, from 0
   * @return its value
   * @throws IndexOutOfBoundsException if there is no such input
   * @throws IllegalStateException outside of the forward
   */
  public Tensor input(int input) {
    require(Phase.FORWARD, "input");
    return inputTensors[checked(input)];
  }

  /**
   * Is the gradient of an input wanted? What only an unwanted gradient would need is neither
   * computed nor saved.
   *
   * @param input its place, from 0
   * @return true if so
   * @throws IndexOutOfBoundsException if there is no such input
   */
  public boolean wants(int input) {
    return inputs[checked(input)] != null;
  }

  /**
   * Memory for the output, or for what the backward needs besides: compact, with contents from
   * earlier steps. It lives until the backward has passed, or else until the tape is reset.
   *
   * @param dtype element type
   * @param shape sizes; none for a scalar
   * @return the tensor
   * @throws IllegalArgumentException if an argument is null or a size negative
   * @throws IllegalStateException outside of the forward
   */
  public Tensor output(DType dtype, long... shape) {
    require(Phase.FORWARD, "output");
    return take(outputs, dtype, shape);
  }

  /**
   * As {@link #output(DType, long...)}, for a vector.
   *
   * @param dtype element type
   * @param size its size
   * @return the tensor
   * @throws IllegalArgumentException if the type is null or the size negative
   * @throws IllegalStateException outside of the forward
   */
  public Tensor output(DType dtype, long size) {
    oneSize[0] = size;
    return output(dtype, oneSize);
  }

  /**
   * As {@link #output(DType, long...)}, for a matrix.
   *
   * @param dtype element type
   * @param rows its rows
   * @param columns its columns
   * @return the tensor
   * @throws IllegalArgumentException if the type is null or a size negative
   * @throws IllegalStateException outside of the forward
   */
  public Tensor output(DType dtype, long rows, long columns) {
    twoSizes[0] = rows;
    twoSizes[1] = columns;
    return output(dtype, twoSizes);
  }

  /**
   * As {@link #output(DType, long...)}, with the type and shape of another tensor.
   *
   * @param like that tensor
   * @return the tensor
   * @throws IllegalArgumentException if the tensor is null
   * @throws IllegalStateException outside of the forward
   */
  public Tensor outputLike(Tensor like) {
    require(Phase.FORWARD, "outputLike");
    return take(outputs, Access.get().view(Arguments.present(like, "like")));
  }

  /**
   * Memory for use within this forward or backward: compact, with any contents.
   *
   * @param dtype element type
   * @param shape sizes; none for a scalar
   * @return the tensor
   * @throws IllegalArgumentException if an argument is null or a size negative
   * @throws IllegalStateException outside of the forward and the backward
   */
  public Tensor temporary(DType dtype, long... shape) {
    if (phase != Phase.FORWARD) {
      require(Phase.BACKWARD, "temporary");
    }
    return take(temporaries, dtype, shape);
  }

  private Tensor take(List<Pool.Block> owner, DType dtype, long[] shape) {
    long bytes = View.compactBytes(dtype, shape);
    Pool.Block block = tape.pool().take(bytes);
    owner.add(block);
    return block.tensor(dtype, shape);
  }

  private Tensor take(List<Pool.Block> owner, View like) {
    return take(owner, like.type(), like);
  }

  private Tensor take(List<Pool.Block> owner, DType dtype, View like) {
    Pool.Block block = tape.pool().take(Math.multiplyExact(like.count(), dtype.byteSize()));
    owner.add(block);
    return block.tensor(dtype, like);
  }

  /**
   * Keeps a tensor for the backward, in the order of the calls, with its {@link Tensor#version()}.
   * If no input wants a gradient nothing is kept.
   *
   * @param tensor an input, the output or more memory from {@link #output}; null keeps the place
   *     empty, as for what only an unwanted gradient would need
   * @throws IllegalStateException outside of the forward
   */
  public void save(Tensor tensor) {
    require(Phase.FORWARD, "save");
    if (!anyWanted) {
      return;
    }
    if (savedCount == saved.length) {
      int room = 2 * savedCount + 2;
      saved = Arrays.copyOf(saved, room);
      savedVersions = Arrays.copyOf(savedVersions, room);
      savedInputs = Arrays.copyOf(savedInputs, room);
    }
    int input = inputCount - 1;
    while (input >= 0 && inputTensors[input] != tensor) {
      --input;
    }
    saved[savedCount] = tensor;
    savedVersions[savedCount] = tensor == null ? 0 : tensor.version();
    savedInputs[savedCount] = input;
    ++savedCount;
  }

  /**
   * Keeps two tensors for the backward, as two calls of {@link #save(Tensor)} do.
   *
   * @param first a tensor or null
   * @param second a tensor or null
   * @throws IllegalStateException outside of the forward
   */
  public void save(Tensor first, Tensor second) {
    save(first);
    save(second);
  }

  /**
   * What was saved, during the backward.
   *
   * @param index in the order of {@link #save}, from 0
   * @return the tensor; null where null was saved
   * @throws IndexOutOfBoundsException if there is no such tensor
   * @throws IllegalStateException outside of the backward, or if the tensor was written since it
   *     was saved
   */
  public Tensor saved(int index) {
    require(Phase.BACKWARD, "saved");
    if (index < 0 || index >= savedCount) {
      throw new IndexOutOfBoundsException(
          "saved: " + index + " is outside 0 to " + (savedCount - 1) + ", " + describe());
    }
    checkVersion(index);
    return saved[index];
  }

  /**
   * Where the gradient of an input goes, during the backward. Its strides may be those of a view.
   * Whether it is assigned or added to, {@link #options(int)} says.
   *
   * @param input its place, from 0
   * @return a tensor of the input's shape, of the input's type or, for a parameter, float32; null
   *     if the gradient is not wanted
   * @throws IndexOutOfBoundsException if there is no such input
   * @throws IllegalStateException outside of the backward
   */
  public Tensor gradient(int input) {
    require(Phase.BACKWARD, "gradient");
    if (inputs[checked(input)] == null) {
      return null;
    }
    if (destinations[input] == null) {
      destinations[input] = destination(input);
    }
    return destinations[input];
  }

  private Tensor destination(int input) {
    Variable variable = inputs[input];
    Variable base = variable.base();
    apart[input] = false;
    for (int other = 0; other < inputCount; ++other) {
      if (other != input && destinations[other] != null && inputs[other].base() == base) {
        apart[input] = true;
        adds[input] = false;
        return take(temporaries, Access.get().view(variable.seen(memory(base))));
      }
    }
    if (base instanceof Parameter parameter) {
      adds[input] = !Access.get().isZeroed(parameter.buffer());
    } else {
      adds[input] = base.hasGradient();
      if (!base.hasGradient()) {
        View value = Access.get().view(base.tensor());
        Pool.Block block =
            tape.pool().take(Math.multiplyExact(value.count(), value.type().byteSize()));
        base.gradientIn(block, block.tensor(value.type(), value));
      }
    }
    return variable.seen(memory(base));
  }

  /** The memory of a gradient, as it is. */
  private static Tensor memory(Variable base) {
    return base instanceof Parameter parameter
        ? Access.get().memory(parameter.buffer())
        : base.gradientMemory();
  }

  /**
   * The options under which a call writes the gradient of one input: assign where it is the first
   * contribution, else add; on the tape's stream, if it has one.
   *
   * @param input its place, from 0
   * @return the options
   * @throws IndexOutOfBoundsException if there is no such input
   * @throws IllegalStateException outside of the backward, or if the gradient is not wanted
   */
  public Options options(int input) {
    return adds(input) ? tape.adding() : tape.assigning();
  }

  /** Whether a contribution to the gradient of an input is added to others. */
  boolean adds(int input) {
    if (gradient(input) == null) {
      throw new IllegalStateException(
          "options: the gradient of input " + input + " of " + describe() + " is not wanted");
    }
    return adds[input];
  }

  /**
   * The options under which a call writes, on the tape's stream if it has one. In the forward they
   * assign. In the backward one call may write the gradients of all inputs that want one: assign
   * where each is the first contribution, else add. If only some of them are, zeros are written to
   * these.
   *
   * @return the options
   * @throws IllegalStateException outside of the forward and the backward
   */
  public Options options() {
    if (phase == Phase.FORWARD) {
      return tape.assigning();
    }
    require(Phase.BACKWARD, "options");
    boolean adding = false;
    boolean assigning = false;
    for (int i = 0; i < inputCount; ++i) {
      if (inputs[i] != null) {
        gradient(i);
        adding |= adds[i];
        assigning |= !adds[i];
      }
    }
    if (adding && assigning) {
      for (int i = 0; i < inputCount; ++i) {
        if (inputs[i] != null && !adds[i]) {
          tape.zero(destinations[i]);
          adds[i] = true;
        }
      }
    }
    return adding ? tape.adding() : tape.assigning();
  }

  /**
   * Copies, converting, on the tape's stream if it has one.
   *
   * @param source a tensor
   * @param destination a tensor of the same shape that shares no memory with it
   * @throws IllegalArgumentException as {@link Tensor#copyFrom(Tensor)} says
   */
  public void copy(Tensor source, Tensor destination) {
    tape.copy(source, destination);
  }

  // ---- For the functions of this package ----

  /** In the forward, the options under which a call adds to what stands in the output. */
  Options addingOptions() {
    return tape.adding();
  }

  /** The options under which a call writes temporary memory. */
  Options assigningOptions() {
    return tape.assigning();
  }

  /**
   * A vector [N] as rows: the sizes of the result are the first {@code dims} of another tensor,
   * then N. Made once as long as these stay the same.
   */
  Tensor expanded(Tensor row, Tensor leading, int dims) {
    boolean same = row == expandedFrom && expanded.rank() == dims + 1;
    for (int d = 0; same && d < dims; ++d) {
      same = expanded.size(d) == leading.size(d);
    }
    if (!same) {
      long[] shape = Arrays.copyOf(leading.shape(), dims + 1);
      shape[dims] = row.size(0);
      expanded = row.expand(shape);
      expandedFrom = row;
    }
    return expanded;
  }

  /** A vector of equal values, which is made once as long as they stay the same. */
  Tensor repeated(DType dtype, float value, long count) {
    if (repeated == null
        || repeated.dtype() != dtype
        || repeatedValue != value
        || repeated.size(0) != count) {
      repeated = tape.constant(dtype, value).expand(count);
      repeatedValue = value;
    }
    return repeated;
  }

  /** Forgets what was made of constants of the tape. */
  void forgetConstants() {
    repeated = null;
  }

  /** A tensor in a type: itself, or a copy for this pass. */
  Tensor as(DType dtype, Tensor tensor) {
    if (tensor.dtype() == dtype) {
      return tensor;
    }
    Tensor copy = take(temporaries, dtype, Access.get().view(tensor));
    tape.copy(tensor, copy);
    return copy;
  }

  /**
   * A tensor [..., N] as a matrix of rows [N]: itself, a view or, where no stride leads from row to
   * row, a copy for this pass.
   */
  Tensor rows(Tensor tensor) {
    if (tensor.rank() == 2) {
      return tensor;
    }
    Tensor even =
        hasRows(tensor) ? tensor : take(temporaries, tensor.dtype(), Access.get().view(tensor));
    if (even != tensor) {
      tape.copy(tensor, even);
    }
    return even.reshape(rowCount(tensor), tensor.size(tensor.rank() - 1));
  }

  /** Does one stride lead from each row of a tensor [..., N] to the next? */
  static boolean hasRows(Tensor tensor) {
    return tensor.rank() == 2
        || Access.get().hasView(tensor, rowCount(tensor), tensor.size(tensor.rank() - 1));
  }

  private static long rowCount(Tensor tensor) {
    long count = 1;
    for (int d = 0; d < tensor.rank() - 1; ++d) {
      count *= tensor.size(d);
    }
    return count;
  }

  /** Lets a tensor be a contribution to the gradient of an input. */
  void contribute(Tensor tensor, int input) {
    if (adds(input)) {
      tape.add(as(destinations[input].dtype(), tensor), destinations[input]);
    } else {
      tape.copy(tensor, destinations[input]);
    }
  }

  /** Lets the sum of the rows of a tensor be a contribution to the gradient of an input. */
  void sumRows(Tensor rows, int input) {
    Tensor destination = gradient(input);
    if (destination.dtype() == DType.FLOAT32) {
      Dxdw.sumRows(rows, destination, options(input));
      return;
    }
    Tensor sums = take(temporaries, DType.FLOAT32, Access.get().view(destination));
    Dxdw.sumRows(rows, sums, tape.assigning());
    contribute(sums, input);
  }

  private int checked(int input) {
    if (input < 0 || input >= inputCount) {
      throw new IndexOutOfBoundsException(
          "input: " + input + " is outside 0 to " + (inputCount - 1) + ", " + describe());
    }
    return input;
  }

  private void require(Phase needed, String what) {
    if (phase != needed) {
      throw new IllegalStateException(
          what
              + ": is there in the "
              + (needed == Phase.FORWARD ? "forward" : "backward")
              + " alone, "
              + describe());
    }
  }

  // ---- For the tape ----

  Tape tape() {
    return tape;
  }

  int index() {
    return index;
  }

  Variable result() {
    return result;
  }

  boolean isRecorded() {
    return phase == Phase.RECORDED || phase == Phase.BACKWARD;
  }

  /** What messages call this call's result. */
  String describe() {
    return function == null ? "result " + index : "result " + index + ", " + function.name();
  }

  void begin(Function applied, int count) {
    forget();
    function = applied;
    inputCount = count;
    anyWanted = false;
    if (inputs.length < count) {
      inputs = new Variable[count];
      inputTensors = new Tensor[count];
      destinations = new Tensor[count];
      adds = new boolean[count];
      apart = new boolean[count];
    }
  }

  void input(int place, Variable variable, Tensor value) {
    inputTensors[place] = value;
    boolean wanted = variable.wantsGradient();
    anyWanted |= wanted;
    // The others' only use is their tensor, which then may go.
    inputs[place] = wanted ? variable : null;
  }

  /** Runs the forward. */
  Variable run() {
    phase = Phase.FORWARD;
    Tensor value;
    boolean done = false;
    try {
      value = function.forward(this);
      if (value == null) {
        throw new IllegalStateException("forward: returned null, " + describe());
      }
      done = true;
    } finally {
      Arrays.fill(inputTensors, null);
      releaseAll(temporaries);
      if (!done) {
        forget();
        releaseAll(outputs);
      }
    }
    result.begin(value);
    phase = anyWanted ? Phase.RECORDED : Phase.IDLE;
    return result;
  }

  /** Marks what the output depends on. */
  void reach() {
    reached = true;
  }

  /** Marks the calls that the inputs come from, and checks what was saved. */
  void spread() {
    if (!reached) {
      return;
    }
    for (int i = 0; i < inputCount; ++i) {
      if (inputs[i] != null && inputs[i].producer() != null) {
        inputs[i].producer().reach();
      }
    }
    for (int i = 0; i < savedCount; ++i) {
      checkVersion(i);
    }
  }

  private void checkVersion(int i) {
    if (saved[i] != null && saved[i].version() != savedVersions[i]) {
      int input = savedInputs[i];
      String name = "";
      if (input >= 0) {
        name = ", its input " + input;
        if (inputs[input] != null) {
          name += " (" + inputs[input].describe() + ")";
        }
      }
      throw new IllegalStateException(
          "saved: tensor "
              + i
              + " of "
              + describe()
              + name
              + ", "
              + Access.get().view(saved[i]).describe()
              + ", was changed in place after the forward: version "
              + savedVersions[i]
              + " was saved, now it is "
              + saved[i].version());
    }
  }

  /** Runs the backward, where a gradient has arrived. */
  void runBackward(Tensor gradient) {
    phase = Phase.BACKWARD;
    Arrays.fill(destinations, 0, inputCount, null);
    try {
      function.backward(this, gradient);
      for (int i = 0; i < inputCount; ++i) {
        if (inputs[i] != null && destinations[i] == null) {
          throw new IllegalStateException(
              "backward: did not ask for the gradient of input "
                  + i
                  + ", "
                  + inputs[i].describe()
                  + ", which is wanted, "
                  + describe());
        }
      }
      for (int i = 0; i < inputCount; ++i) {
        if (inputs[i] != null) {
          finish(i);
        }
      }
    } finally {
      phase = Phase.RECORDED;
      Arrays.fill(destinations, 0, inputCount, null);
      releaseAll(temporaries);
    }
  }

  private void finish(int input) {
    Variable base = inputs[input].base();
    if (apart[input]) {
      Tensor sum = inputs[input].seen(memory(base));
      tape.add(destinations[input], sum);
    } else if (!(base instanceof Parameter parameter)) {
      base.gradientWritten();
    } else if (!tape.isRehearsed()) {
      Access.get().written(parameter.buffer());
    }
  }

  /** Lets go of what the backward needed, and takes memory back that nobody wants to keep. */
  void pass(List<Variable> kept) {
    forget();
    for (int i = outputs.size() - 1; i >= 0; --i) {
      if (!isKept(outputs.get(i), kept)) {
        outputs.remove(i).release();
      }
    }
    if (!result.isKept()) {
      result.release();
      result.releaseGradient();
    }
  }

  private static boolean isKept(Pool.Block block, List<Variable> kept) {
    for (int i = 0; i < kept.size(); ++i) {
      if (block.holds(kept.get(i).tensor())) {
        return true;
      }
    }
    return false;
  }

  private void forget() {
    phase = Phase.IDLE;
    reached = false;
    Arrays.fill(saved, 0, savedCount, null);
    savedCount = 0;
    Arrays.fill(inputs, null);
    Arrays.fill(inputTensors, null);
  }

  /** Ends everything: the tape is reset. */
  void reset() {
    forget();
    function = null;
    releaseAll(outputs);
    releaseAll(temporaries);
    result.end();
  }

  private static void releaseAll(List<Pool.Block> blocks) {
    for (int i = 0; i < blocks.size(); ++i) {
      blocks.get(i).release();
    }
    blocks.clear();
  }
}
