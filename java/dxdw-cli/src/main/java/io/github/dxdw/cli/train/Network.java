package io.github.dxdw.cli.train;

import io.github.dxdw.DType;
import io.github.dxdw.Device;
import io.github.dxdw.Reduction;
import io.github.dxdw.Tensor;
import io.github.dxdw.autograd.Function;
import io.github.dxdw.autograd.Functions;
import io.github.dxdw.autograd.Optimizer;
import io.github.dxdw.autograd.Parameter;
import io.github.dxdw.autograd.Tape;
import io.github.dxdw.autograd.Variable;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * A perceptron: dense layers with ReLU between them and a softmax cross-entropy at the end. Weights
 * and activations are of the backend's type; logits, losses, gradients of weights and the weights
 * that are moved are float32.
 *
 * <p>Not thread-safe: one batch is in flight at a time. All memory but the tape's belongs to the
 * arena given to the constructor.
 */
public final class Network implements AutoCloseable {

  private final int[] sizes;
  private final int maxRows;
  private final Arena arena;
  private final Function hidden;
  private final Function last;
  private final List<Parameter> parameters = new ArrayList<>();
  private final Tape tape;

  // A batch in host memory and on the device, which may be the same.
  private final Tensor hostInput;
  private final Tensor hostLabels;
  private final Tensor deviceInput;
  private final Tensor deviceLabels;
  private final Tensor hostLogits;
  private final Tensor hostLosses;
  private final Tensor one;

  // The rows of the batch that is loaded.
  private int rows;
  private Variable input;
  private Variable labels;
  private Tensor ones;

  // What forward computed.
  private final List<Variable> activations = new ArrayList<>();
  private boolean keeping;
  private Variable logits;
  private Variable losses;

  /**
   * A network with random weights: drawn evenly from ±sqrt(6 / inputs), which keeps the size of
   * activations through ReLU layers.
   *
   * @param arena owns the memory of parameters and batches
   * @param backend where the kernels run and on what type
   * @param maxRows most rows of a batch
   * @param seed of the random weights
   * @param sizes inputs, sizes of the hidden layers, classes
   */
  public Network(Arena arena, Backend backend, int maxRows, long seed, int... sizes) {
    this.sizes = sizes.clone();
    this.maxRows = maxRows;
    this.arena = arena;
    Device device = backend.device();
    hidden = Functions.linear(backend.split(), Reduction.DETERMINISTIC, null);
    last = Functions.linear(backend.split(), Reduction.DETERMINISTIC, DType.FLOAT32);
    tape = new Tape(device);
    Random random = new Random(seed);
    for (int i = 0; i + 1 < sizes.length; i++) {
      float[] weights = new float[sizes[i] * sizes[i + 1]];
      double limit = Math.sqrt(6.0 / sizes[i]);
      for (int j = 0; j < weights.length; j++) {
        weights[j] = (float) (limit * (2 * random.nextDouble() - 1));
      }
      Tensor w = Tensor.allocate(arena, device, backend.type(), sizes[i], sizes[i + 1]);
      Tensor b = Tensor.allocate(arena, device, backend.type(), sizes[i + 1]);
      parameters.add(Parameter.of(arena, "layer " + (i + 1) + " W", w));
      parameters.add(Parameter.of(arena, "layer " + (i + 1) + " b", b));
      try (Arena scratch = Arena.ofConfined()) {
        parameters.get(2 * i).set(Tensor.of(scratch, weights, sizes[i], sizes[i + 1]));
      }
    }
    hostInput = Tensor.allocate(arena, backend.type(), maxRows, sizes[0]);
    hostLabels = Tensor.allocate(arena, DType.INT32, maxRows);
    deviceInput = backend.onHost() ? hostInput : hostInput.to(device, arena);
    deviceLabels = backend.onHost() ? hostLabels : hostLabels.to(device, arena);
    hostLogits = Tensor.allocate(arena, DType.FLOAT32, maxRows, sizes[sizes.length - 1]);
    hostLosses = Tensor.allocate(arena, DType.FLOAT32, maxRows);
    one = Tensor.scalar(arena, 1).to(device, arena);
  }

  /** Most rows that {@link #load} takes. */
  public int maxRows() {
    return maxRows;
  }

  /** Weights and biases, layer by layer. */
  public List<Parameter> parameters() {
    return List.copyOf(parameters);
  }

  /** What moves the parameters as a recipe says. */
  public Optimizer optimizer(Recipe recipe) {
    return recipe.optimizer(arena, parameters);
  }

  /** Lets gradients of activations stay until the next forward. */
  void keepActivations(boolean keep) {
    keeping = keep;
  }

  /** The inputs of the batch that is loaded. */
  Variable input() {
    return input;
  }

  /** The inputs of all layers but the first, where they are kept. */
  List<Variable> activations() {
    return activations;
  }

  /**
   * Fills the input with the examples {@code order[from]} to {@code order[to - 1]} of {@code data}.
   */
  public void load(Dataset data, int[] order, int from, int to) {
    data.copy(order, from, to, hostInput, hostLabels);
    if (deviceInput != hostInput) {
      deviceInput.copyFrom(hostInput);
      deviceLabels.copyFrom(hostLabels);
    }
    if (rows != to - from) {
      rows = to - from;
      input = Variable.constant(deviceInput.slice(0, 0, rows));
      labels = Variable.constant(deviceLabels.slice(0, 0, rows));
      ones = one.expand(rows);
    }
  }

  /** Computes the logits and the loss of each loaded example. */
  public void forward() {
    tape.reset();
    activations.clear();
    Variable x = input;
    int top = parameters.size() - 2;
    for (int i = 0; i < top; i += 2) {
      Variable y = tape.apply(hidden, x, parameters.get(i), parameters.get(i + 1));
      x = tape.apply(Functions.RELU, y);
      if (keeping) {
        activations.add(x.keep());
      }
    }
    logits = tape.apply(last, x, parameters.get(top), parameters.get(top + 1));
    losses = tape.apply(Functions.SOFTMAX_CROSS_ENTROPY, logits, labels);
  }

  /** Compares the logits with the labels of the loaded examples; between forward and backward. */
  public Score score() {
    MemorySegment scores = onHost(logits.tensor(), hostLogits);
    MemorySegment loss = onHost(losses.tensor(), hostLosses);
    int classes = sizes[sizes.length - 1];
    double sum = 0;
    int correct = 0;
    for (int row = 0; row < rows; row++) {
      sum += loss.getAtIndex(ValueLayout.JAVA_FLOAT, row);
      long base = (long) row * classes;
      int best = 0;
      for (int c = 1; c < classes; c++) {
        float score = scores.getAtIndex(ValueLayout.JAVA_FLOAT, base + c);
        best = score > scores.getAtIndex(ValueLayout.JAVA_FLOAT, base + best) ? c : best;
      }
      correct += hostLabels.segment().getAtIndex(ValueLayout.JAVA_INT, row) == best ? 1 : 0;
    }
    return new Score(rows, sum, correct);
  }

  /** The values of a compact tensor, in the first rows of {@code copy} where it is on a GPU. */
  private MemorySegment onHost(Tensor tensor, Tensor copy) {
    if (tensor.device().equals(Device.cpu())) {
      return tensor.segment();
    }
    copy.slice(0, 0, rows).copyFrom(tensor);
    return copy.segment();
  }

  /** Adds the gradients of the summed loss of the loaded examples to those of the parameters. */
  public void backward() {
    tape.backward(losses, ones);
  }

  /** SHA-256 of all weights and biases: their float32 bits in big-endian order, layer by layer. */
  public String sha256() {
    MessageDigest digest;
    try {
      digest = MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
    for (Parameter parameter : parameters) {
      for (float value : parameter.master().toFloatArray()) {
        int bits = Float.floatToRawIntBits(value);
        for (int shift = 24; shift >= 0; shift -= 8) {
          digest.update((byte) (bits >>> shift));
        }
      }
    }
    return HexFormat.of().formatHex(digest.digest());
  }

  /** Gives the tape's memory back. */
  @Override
  public void close() {
    tape.close();
  }

  /** The sizes of the layers, such as "64-128-10". */
  @Override
  public String toString() {
    return IntStream.of(sizes).mapToObj(Integer::toString).collect(Collectors.joining("-"));
  }
}
