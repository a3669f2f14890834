package io.github.dxdw.cli.train;

import io.github.dxdw.DType;
import io.github.dxdw.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.Map;
import java.util.Random;

/**
 * Labelled examples: {@code size} rows of {@code features} float32 values, and a label from 0 for
 * each row.
 */
public final class Dataset {

  private final String name;
  private final int features;
  private final Tensor values;
  private final int[] labels;

  /** The values in other types, once they have been asked for. */
  private final Map<DType, Tensor> converted = new EnumMap<>(DType.class);

  /**
   * Examples that stand row by row in {@code values}.
   *
   * @throws IllegalArgumentException if the arrays do not fit each other
   */
  public Dataset(String name, int features, float[] values, int[] labels) {
    if (values.length != (long) labels.length * features) {
      throw new IllegalArgumentException(
          "values: length "
              + values.length
              + ", expected "
              + labels.length
              + " rows of "
              + features);
    }
    this.name = name;
    this.features = features;
    this.values = Tensor.of(Arena.ofAuto(), values, labels.length, features);
    this.labels = labels.clone();
  }

  /** What the examples are, in one word. */
  public String name() {
    return name;
  }

  /** Number of examples. */
  public int size() {
    return labels.length;
  }

  /** Values of an example. */
  public int features() {
    return features;
  }

  /** Label of an example, from 0. */
  public int label(int example) {
    return labels[example];
  }

  /** All values, row by row. */
  public float[] toFloatArray() {
    return values.toFloatArray();
  }

  /** Number of classes: one more than the largest label. */
  public int classes() {
    return Arrays.stream(labels).max().orElse(-1) + 1;
  }

  /**
   * Copies the examples {@code order[from]} to {@code order[to - 1]} to compact tensors in host
   * memory, the values to one of any type, the labels to one of int32.
   */
  void copy(int[] order, int from, int to, Tensor destination, Tensor destinationLabels) {
    Tensor source = values(destination.dtype());
    long bytes = (long) features * source.dtype().byteSize();
    for (int i = from; i < to; i++) {
      MemorySegment.copy(
          source.segment(), order[i] * bytes, destination.segment(), (i - from) * bytes, bytes);
      destinationLabels.segment().setAtIndex(ValueLayout.JAVA_INT, i - from, labels[order[i]]);
    }
  }

  private synchronized Tensor values(DType type) {
    return type == DType.FLOAT32
        ? values
        : converted.computeIfAbsent(type, t -> values.to(t, Arena.ofAuto()));
  }

  /**
   * Parts the examples at random: one in {@code parts} is held out.
   *
   * @return the examples to train on, then those held out
   */
  public Dataset[] holdOut(int parts, long seed) {
    int[] order = shuffled(size(), new Random(seed));
    int cut = size() - size() / parts;
    return new Dataset[] {select(order, 0, cut), select(order, cut, size())};
  }

  private Dataset select(int[] order, int from, int to) {
    float[] selected = new float[(to - from) * features];
    int[] selectedLabels = new int[to - from];
    for (int i = from; i < to; i++) {
      MemorySegment.copy(
          values.segment(),
          ValueLayout.JAVA_FLOAT,
          (long) order[i] * features * Float.BYTES,
          selected,
          (i - from) * features,
          features);
      selectedLabels[i - from] = labels[order[i]];
    }
    return new Dataset(name, features, selected, selectedLabels);
  }

  /** 0 to {@code count - 1} in their order. */
  static int[] inOrder(int count) {
    int[] order = new int[count];
    Arrays.setAll(order, i -> i);
    return order;
  }

  /** 0 to {@code count - 1} in an order drawn from {@code random}. */
  static int[] shuffled(int count, Random random) {
    int[] order = inOrder(count);
    for (int i = count - 1; i > 0; i--) {
      int j = random.nextInt(i + 1);
      int swapped = order[i];
      order[i] = order[j];
      order[j] = swapped;
    }
    return order;
  }
}
