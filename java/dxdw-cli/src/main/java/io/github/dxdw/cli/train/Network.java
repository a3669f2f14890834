package io.github.dxdw.cli.train;

import io.github.dxdw.Dxdw;
import io.github.dxdw.Tensor;
import java.lang.foreign.Arena;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * A perceptron: dense layers with ReLU between them and a softmax cross-entropy at the end. The
 * three products of each layer run through the library's kernels; everything between them is plain
 * Java.
 *
 * <p>Not thread-safe: one batch is in flight at a time. All memory belongs to the arena given to
 * the constructor.
 */
public final class Network {

  private final int[] sizes;
  private final int maxRows;
  private final Team team = new Team(Dxdw.threads());
  private final List<Dense> layers = new ArrayList<>();
  private final List<Parameter> parameters;
  private final Tensor loaded;
  private final double[] logits;
  private int rows;

  /**
   * A network with random weights.
   *
   * @param arena owns all memory of the network; a shared one, for passes over the values take as
   *     many threads as the kernels
   * @param backend where the kernels run and on what type
   * @param maxRows most rows of a batch
   * @param seed of the random weights
   * @param sizes inputs, sizes of the hidden layers, classes
   */
  public Network(Arena arena, Backend backend, int maxRows, long seed, int... sizes) {
    this.sizes = sizes.clone();
    this.maxRows = maxRows;
    Random random = new Random(seed);
    for (int i = 0; i + 1 < sizes.length; i++) {
      Dense layer =
          new Dense("layer " + (i + 1), arena, backend, team, maxRows, sizes[i], sizes[i + 1]);
      layer.initialise(random);
      layers.add(layer);
    }
    parameters = layers.stream().flatMap(layer -> layer.parameters().stream()).toList();
    loaded =
        backend.onHost()
            ? layers.getFirst().input.operand()
            : Tensor.allocate(arena, backend.type(), maxRows, sizes[0]);
    logits = new double[layers.getLast().outputs];
  }

  Team team() {
    return team;
  }

  /** Most rows that {@link #load} takes. */
  public int maxRows() {
    return maxRows;
  }

  /**
   * Fills the input with the examples {@code order[from]} to {@code order[to - 1]} of {@code data}.
   */
  public void load(Dataset data, int[] order, int from, int to) {
    rows = to - from;
    team.run(
        rows,
        (long) rows * data.features(),
        (member, first, end) -> data.copyFeatures(order, from + first, from + end, loaded, first));
    Tensor input = layers.getFirst().input.operand();
    if (loaded != input) {
      input.copyFrom(loaded);
    }
  }

  /** Computes the logits of the loaded examples. */
  public void forward() {
    for (int i = 0; i < layers.size(); i++) {
      layers.get(i).forward(rows);
      if (i + 1 < layers.size()) {
        layers.get(i).activate(rows, layers.get(i + 1));
      }
    }
  }

  /**
   * Compares the logits with the labels of the loaded examples, and keeps the gradient of the
   * summed loss for {@link #backward}.
   */
  public Score score(Dataset data, int[] order, int from) {
    Dense last = layers.getLast();
    double loss = 0;
    int correct = 0;
    for (int row = 0; row < rows; row++) {
      long base = (long) row * last.outputs;
      last.readOutput(row, logits);
      int label = data.label(order[from + row]);
      correct += argmax(logits) == label ? 1 : 0;
      loss += softmaxLoss(logits, label);
      for (int c = 0; c < logits.length; c++) {
        last.outputGradient.set(base + c, (float) logits[c]);
      }
    }
    last.outputGradient.push(rows);
    return new Score(rows, loss, correct);
  }

  /** Adds the gradients of the summed loss of the loaded examples to the gradient buffers. */
  public void backward() {
    for (int i = layers.size() - 1; i >= 0; i--) {
      layers.get(i).accumulateGradients(rows);
      if (i > 0) {
        layers.get(i).backward(rows);
        layers.get(i - 1).activateBackward(rows, layers.get(i));
      }
    }
  }

  /** Marks all gradients as zero: the boundary between two steps. */
  public void zeroGradients() {
    for (Parameter parameter : parameters) {
      parameter.gradient().zero();
    }
  }

  /** Weights and biases, layer by layer. */
  List<Parameter> parameters() {
    return parameters;
  }

  List<Dense> layers() {
    return layers;
  }

  /** SHA-256 of all weights and biases: their float32 bits in big-endian order, layer by layer. */
  public String sha256() {
    MessageDigest digest;
    try {
      digest = MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
    for (Parameter parameter : parameters()) {
      Mirror values = parameter.values();
      for (long i = 0; i < values.elementCount(); i++) {
        int bits = Float.floatToRawIntBits(values.get(i));
        for (int shift = 24; shift >= 0; shift -= 8) {
          digest.update((byte) (bits >>> shift));
        }
      }
    }
    return HexFormat.of().formatHex(digest.digest());
  }

  /** The sizes of the layers, such as "64-128-10". */
  @Override
  public String toString() {
    return IntStream.of(sizes).mapToObj(Integer::toString).collect(Collectors.joining("-"));
  }

  private static int argmax(double[] values) {
    int best = 0;
    for (int i = 1; i < values.length; i++) {
      best = values[i] > values[best] ? i : best;
    }
    return best;
  }

  /**
   * Returns -log softmax(logits)[label] and replaces the logits by the loss's gradient:
   * softmax(logits) - onehot(label).
   */
  static double softmaxLoss(double[] logits, int label) {
    double max = logits[argmax(logits)];
    double sum = 0;
    double labelLogit = logits[label];
    for (int c = 0; c < logits.length; c++) {
      logits[c] = StrictMath.exp(logits[c] - max);
      sum += logits[c];
    }
    for (int c = 0; c < logits.length; c++) {
      logits[c] = logits[c] / sum - (c == label ? 1 : 0);
    }
    return StrictMath.log(sum) + max - labelLogit;
  }
}
