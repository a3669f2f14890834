package io.github.dxdw.autograd;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import io.github.dxdw.DType;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Stream;
import io.github.dxdw.Tensor;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Whole trainings, on the device that -Ddxdw.device names. */
class TrainingTest {
  private static final int ROWS = 64;
  private static final int INPUTS = 20;
  private static final int HIDDEN = 33;
  private static final int CLASSES = 5;

  private final Arena arena = Arena.ofShared();

  @BeforeEach
  void requireDevice() {
    On.requireDevice();
  }

  private Tensor random(long seed, DType type, long... shape) {
    Random random = new Random(seed);
    long count = 1;
    for (long size : shape) {
      count *= size;
    }
    float[] values = new float[(int) count];
    for (int i = 0; i < values.length; ++i) {
      values[i] = 2 * random.nextFloat() - 1;
    }
    Tensor tensor = Tensor.allocate(arena, On.DEVICE, type, shape);
    tensor.copyFrom(Tensor.of(arena, values, values.length).reshape(shape));
    return tensor;
  }

  /** A perceptron and data whose class is the largest of the first inputs. */
  private final class Model {
    final List<Parameter> parameters = new ArrayList<>();
    final Variable x;
    final Variable labels;
    final Tensor share;

    Model(DType type) {
      parameters.add(Parameter.of(arena, "w1", random(1, type, INPUTS, HIDDEN)));
      parameters.add(Parameter.of(arena, "b1", random(2, type, HIDDEN)));
      parameters.add(Parameter.of(arena, "w2", random(3, type, HIDDEN, CLASSES)));
      parameters.add(Parameter.of(arena, "b2", random(4, type, CLASSES)));
      Tensor data = random(5, type, ROWS, INPUTS);
      x = Variable.constant(data);
      float[] values = data.to(DType.FLOAT32, arena).toFloatArray();
      int[] largest = new int[ROWS];
      for (int row = 0; row < ROWS; ++row) {
        for (int c = 1; c < CLASSES; ++c) {
          if (values[row * INPUTS + c] > values[row * INPUTS + largest[row]]) {
            largest[row] = c;
          }
        }
      }
      labels = Variable.constant(Tensor.of(arena, largest, ROWS).to(On.DEVICE, arena));
      share = Tensor.scalar(arena, 1f / ROWS).to(On.DEVICE, arena).expand(ROWS);
    }

    Variable losses(Tape tape) {
      Variable hidden =
          tape.apply(
              Functions.GELU,
              tape.apply(Functions.LINEAR, x, parameters.get(0), parameters.get(1)));
      return tape.apply(
          Functions.SOFTMAX_CROSS_ENTROPY,
          tape.apply(Functions.LINEAR, hidden, parameters.get(2), parameters.get(3)),
          labels);
    }
  }

  /** Trains for some steps; gives the losses before each, then all values of the parameters. */
  private float[] train(DType type, Stream stream, int steps) {
    Model model = new Model(type);
    Optimizer optimizer = Optimizer.adamW(arena, model.parameters, 0.9, 0.999, 1e-8, 0.01).clip(1);
    List<Float> seen = new ArrayList<>();
    if (stream != null) {
      optimizer.on(stream);
    }
    try (Tape tape = stream == null ? new Tape(On.DEVICE) : new Tape(stream)) {
      for (int step = 0; step < steps; ++step) {
        tape.reset();
        Variable losses = model.losses(tape);
        if (stream != null) {
          stream.synchronize();
        }
        float sum = 0;
        for (float loss : losses.tensor().toFloatArray()) {
          sum += loss;
        }
        seen.add(sum / ROWS);
        tape.backward(losses, model.share);
        optimizer.step(0.02);
      }
      if (stream != null) {
        stream.synchronize();
      }
    }
    for (Parameter parameter : model.parameters) {
      for (float value : parameter.master().toFloatArray()) {
        seen.add(value);
      }
    }
    float[] all = new float[seen.size()];
    for (int i = 0; i < all.length; ++i) {
      all[i] = seen.get(i);
    }
    return all;
  }

  @ParameterizedTest
  @EnumSource(names = {"FLOAT32", "FLOAT16", "BFLOAT16"})
  @DisplayName("guards against a training whose bits depend on the run or on the threads")
  void twoRunsEndInTheSameBits(DType type) {
    float[] first = train(type, null, 60);
    assertArrayEquals(first, train(type, null, 60));
    int threads = Dxdw.threads();
    try {
      Dxdw.setThreads(1);
      assertArrayEquals(first, train(type, null, 60));
    } finally {
      Dxdw.setThreads(threads);
    }
    assertTrue(first[59] < 0.4 * first[0], first[0] + " to " + first[59]);
  }

  @Test
  @DisplayName("guards against 16-bit operands that learn less, as their values lose small steps")
  void sixteenBitsLearnAsWell() {
    float[] wide = train(DType.FLOAT32, null, 120);
    float[] narrow = train(DType.BFLOAT16, null, 120);
    assertEquals(wide[119], narrow[119], 0.05, "losses");
  }

  @Test
  @DisplayName("guards against work on a stream that is not ordered as it is without one")
  void streamsGiveTheSameBits() {
    assumeFalse(On.cpu(), "the CPU has no streams");
    try (Stream stream = Stream.create(On.DEVICE)) {
      for (DType type : new DType[] {DType.FLOAT32, DType.BFLOAT16}) {
        assertArrayEquals(train(type, null, 30), train(type, stream, 30));
      }
    }
  }

  @Test
  @DisplayName("guards against tapes of different threads that share more than functions")
  void threadsDontMeet() throws Exception {
    float[] alone = train(DType.FLOAT32, null, 20);
    try (ExecutorService pool = Executors.newFixedThreadPool(6)) {
      List<Future<float[]>> futures = new ArrayList<>();
      for (int i = 0; i < 12; ++i) {
        futures.add(pool.submit(() -> train(DType.FLOAT32, null, 20)));
      }
      for (Future<float[]> future : futures) {
        assertArrayEquals(alone, future.get());
      }
    }
  }

  @ParameterizedTest
  @EnumSource(names = {"FLOAT32", "BFLOAT16"})
  @DisplayName("guards against micro-batches whose gradients add up to something else")
  void microBatchesAddUp(DType type) {
    Tensor x = random(7, type, ROWS, INPUTS);
    Tensor dy = random(8, type, ROWS, HIDDEN);
    Tensor magnitudes = Tensor.allocate(arena, On.DEVICE, DType.FLOAT32, INPUTS, HIDDEN);
    Dxdw.dw(absolute(x), absolute(dy), magnitudes);
    float[] magnitude = magnitudes.toFloatArray();
    float[][] weights = new float[3][];
    float[][] biases = new float[3][];
    int[] counts = {1, 4, 16};
    for (int i = 0; i < counts.length; ++i) {
      Parameter w = Parameter.of(arena, "w", random(9, type, INPUTS, HIDDEN));
      Parameter b = Parameter.of(arena, "b", random(10, type, HIDDEN));
      int rows = ROWS / counts[i];
      try (Tape tape = new Tape(On.DEVICE)) {
        for (int from = 0; from < ROWS; from += rows) {
          tape.reset();
          Variable part = Variable.constant(x.slice(0, from, from + rows));
          tape.backward(tape.apply(Functions.LINEAR, part, w, b), dy.slice(0, from, from + rows));
        }
      }
      weights[i] = w.gradient().toFloatArray();
      biases[i] = b.gradient().toFloatArray();
    }
    float[] gradient = dy.to(DType.FLOAT32, arena).toFloatArray();
    for (int i = 1; i < counts.length; ++i) {
      for (int j = 0; j < magnitude.length; ++j) {
        assertEquals(weights[0][j], weights[i][j], 4 * Math.ulp(magnitude[j]), "element " + j);
      }
      for (int n = 0; n < HIDDEN; ++n) {
        float sum = 0;
        for (int row = 0; row < ROWS; ++row) {
          sum += Math.abs(gradient[row * HIDDEN + n]);
        }
        assertEquals(biases[0][n], biases[i][n], 4 * Math.ulp(sum), "element " + n);
      }
    }
  }

  private Tensor absolute(Tensor tensor) {
    float[] values = tensor.to(DType.FLOAT32, arena).toFloatArray();
    for (int i = 0; i < values.length; ++i) {
      values[i] = Math.abs(values[i]);
    }
    return Tensor.of(arena, values, tensor.shape()).to(tensor.dtype(), arena).to(On.DEVICE, arena);
  }
}
