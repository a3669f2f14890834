package io.github.dxdw.bench;

import ai.djl.engine.Engine;
import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDList;
import ai.djl.ndarray.NDManager;
import ai.djl.ndarray.index.NDIndex;
import ai.djl.ndarray.types.DataType;
import ai.djl.ndarray.types.Shape;
import ai.djl.nn.Activation;
import ai.djl.nn.core.Linear;
import ai.djl.training.GradientCollector;
import ai.djl.training.loss.Loss;
import io.github.dxdw.autograd.Parameter;
import io.github.dxdw.cli.train.Network;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/**
 * A perceptron in PyTorch by DJL, in float32: layers with ReLU between them, softmax cross-entropy
 * and gradient descent as torch.optim.SGD does it, the last by operations in place.
 */
final class TorchNetwork implements AutoCloseable {

  private static final float MOMENTUM = 0.9f;

  private final NDManager manager = Torch.engine().newBaseManager();
  private final Loss loss = Loss.softmaxCrossEntropyLoss();
  private final List<NDArray> weights = new ArrayList<>();
  private final List<NDArray> biases = new ArrayList<>();

  /** Weights [outputs, inputs] and biases, layer by layer. */
  private final List<NDArray> parameters = new ArrayList<>();

  private TorchNetwork() {}

  /** Sizes: inputs, hidden layers, classes. Weights are drawn evenly from ±sqrt(6 / inputs). */
  static TorchNetwork random(long seed, int... sizes) {
    TorchNetwork network = new TorchNetwork();
    Random random = new Random(seed);
    for (int i = 0; i + 1 < sizes.length; i++) {
      float[] values = new float[sizes[i] * sizes[i + 1]];
      double limit = Math.sqrt(6.0 / sizes[i]);
      for (int j = 0; j < values.length; j++) {
        values[j] = (float) (limit * (2 * random.nextDouble() - 1));
      }
      network.addLayer(values, new float[sizes[i + 1]]);
    }
    return network;
  }

  /** The same weights as those of another network. */
  static TorchNetwork of(Network other) {
    TorchNetwork network = new TorchNetwork();
    List<Parameter> parameters = other.parameters();
    for (int i = 0; i < parameters.size(); i += 2) {
      network.addLayer(
          parameters.get(i).master().transpose().toFloatArray(),
          parameters.get(i + 1).master().toFloatArray());
    }
    return network;
  }

  private void addLayer(float[] values, float[] bias) {
    NDArray w = manager.create(values, new Shape(bias.length, values.length / bias.length));
    NDArray b = manager.create(bias);
    weights.add(w);
    biases.add(b);
    parameters.add(w);
    parameters.add(b);
    w.setRequiresGradient(true);
    b.setRequiresGradient(true);
  }

  NDManager manager() {
    return manager;
  }

  /**
   * Goes through the examples in the given order.
   *
   * @return mean loss
   */
  double epoch(NDArray images, NDArray labels, int[] order, int batch, float rate, float decay) {
    double sum = 0;
    for (int from = 0; from < order.length; from += batch) {
      int to = Math.min(from + batch, order.length);
      long[] rows = new long[to - from];
      for (int i = 0; i < rows.length; i++) {
        rows[i] = order[from + i];
      }
      sum += (to - from) * (double) step(images, labels, rows, rate, decay);
    }
    return sum / order.length;
  }

  /**
   * Goes one step.
   *
   * @return mean loss before it
   */
  float step(NDArray images, NDArray labels, long[] rows, float rate, float decay) {
    float value = differentiate(images, labels, rows);
    for (NDArray parameter : parameters) {
      try (NDArray velocity = parameter.getGradient();
          NDArray decayed = parameter.mul(decay)) {
        velocity.addi(decayed);
        try (NDArray move = velocity.mul(rate)) {
          parameter.subi(move);
        }
        // The next backward adds to this: the gradient is the velocity.
        velocity.muli(MOMENTUM);
      }
    }
    return value;
  }

  /**
   * Adds the gradient of the mean loss of some examples to what the parameters' gradients hold.
   *
   * @return the loss
   */
  float differentiate(NDArray images, NDArray labels, long[] rows) {
    try (NDManager batch = manager.newSubManager()) {
      NDArray index = batch.create(rows);
      NDArray x = images.get(batch, new NDIndex("{}", index));
      NDArray y = labels.get(batch, new NDIndex("{}", index));
      x.attach(batch);
      y.attach(batch);
      try (GradientCollector collector = Engine.getEngine("PyTorch").newGradientCollector()) {
        NDArray mean = loss.evaluate(new NDList(y), new NDList(logits(x)));
        collector.backward(mean);
        return mean.getFloat();
      }
    }
  }

  /** The gradients of weights [inputs, outputs] and biases, layer by layer. */
  List<float[]> gradients() {
    List<float[]> gradients = new ArrayList<>();
    for (NDArray parameter : parameters) {
      try (NDArray gradient = parameter.getGradient()) {
        NDArray turned = gradient.getShape().dimension() == 2 ? gradient.transpose() : gradient;
        gradients.add(turned.toFloatArray());
      }
    }
    return gradients;
  }

  private NDArray logits(NDArray x) {
    NDArray output = x;
    for (int i = 0; i < weights.size(); i++) {
      output = Linear.linear(output, weights.get(i), biases.get(i)).singletonOrThrow();
      if (i + 1 < weights.size()) {
        output = Activation.relu(output);
      }
    }
    return output;
  }

  /** Share of the examples that are classified right. */
  double accuracy(NDArray images, NDArray labels) {
    try (NDManager scope = manager.newSubManager()) {
      NDArray x = images.duplicate();
      x.attach(scope);
      NDArray right = logits(x).argMax(1).eq(labels.toType(DataType.INT64, true));
      return right.toType(DataType.FLOAT32, false).mean().getFloat();
    }
  }

  @Override
  public void close() {
    manager.close();
  }
}
