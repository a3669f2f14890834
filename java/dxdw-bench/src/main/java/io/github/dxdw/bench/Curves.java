package io.github.dxdw.bench;

import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDManager;
import ai.djl.ndarray.types.Shape;
import io.github.dxdw.DType;
import io.github.dxdw.Device;
import io.github.dxdw.autograd.Optimizer;
import io.github.dxdw.cli.train.Backend;
import io.github.dxdw.cli.train.Dataset;
import io.github.dxdw.cli.train.Digits;
import io.github.dxdw.cli.train.Network;
import io.github.dxdw.cli.train.Recipe;
import java.lang.foreign.Arena;
import java.util.Random;
import java.util.stream.IntStream;

/**
 * One training done twice: the same network, first weights, batches and rule by the library and in
 * PyTorch. Digits, 64-128-10, batches of 64, momentum 0.9.
 */
final class Curves {

  static final int ROWS = 64;
  private static final int HIDDEN = 128;
  private static final long SEED = 1;
  private static final float RATE = 0.05f;
  private static final float DECAY = 1e-4f;

  private final Dataset data = Digits.load();
  private final Recipe recipe = new Recipe(1, ROWS, 1, Recipe.Rule.MOMENTUM, RATE, DECAY);

  Dataset data() {
    return data;
  }

  Recipe recipe() {
    return recipe;
  }

  /** The network with its first weights. */
  Network network(Arena arena, Backend backend) {
    return new Network(arena, backend, ROWS, SEED, data.features(), HIDDEN, data.classes());
  }

  /** The examples of the batch of a step: all in random order, then again in another one. */
  int[] batch(int step) {
    int batches = data.size() / ROWS;
    Random random = new Random(step / batches);
    int[] order = IntStream.range(0, data.size()).toArray();
    for (int i = order.length - 1; i > 0; i--) {
      int j = random.nextInt(i + 1);
      int swapped = order[i];
      order[i] = order[j];
      order[j] = swapped;
    }
    int from = step % batches * ROWS;
    return IntStream.range(from, from + ROWS).map(i -> order[i]).toArray();
  }

  /** The mean loss of each step by the library. */
  double[] ours(DType type, int steps) {
    double[] losses = new double[steps];
    try (Arena arena = Arena.ofShared();
        Network network = network(arena, new Backend(Device.cpu(), type, 0))) {
      Optimizer optimizer = network.optimizer(recipe);
      for (int step = 0; step < steps; step++) {
        network.load(data, batch(step), 0, ROWS);
        network.forward();
        losses[step] = network.score().loss();
        network.backward();
        optimizer.step(RATE, 1.0 / ROWS);
      }
    }
    return losses;
  }

  /** The mean loss of each step in PyTorch. */
  double[] torch(int steps) {
    double[] losses = new double[steps];
    try (Arena arena = Arena.ofShared();
        Network model = network(arena, new Backend(Device.cpu(), DType.FLOAT32, 0));
        TorchNetwork network = TorchNetwork.of(model)) {
      NDArray images = images(network.manager());
      NDArray labels = labels(network.manager());
      for (int step = 0; step < steps; step++) {
        long[] rows = IntStream.of(batch(step)).asLongStream().toArray();
        losses[step] = network.step(images, labels, rows, RATE, DECAY);
      }
    }
    return losses;
  }

  NDArray images(NDManager manager) {
    return manager.create(data.toFloatArray(), new Shape(data.size(), data.features()));
  }

  NDArray labels(NDManager manager) {
    return manager.create(IntStream.range(0, data.size()).mapToLong(data::label).toArray());
  }
}
