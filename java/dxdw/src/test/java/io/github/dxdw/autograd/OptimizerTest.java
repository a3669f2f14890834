package io.github.dxdw.autograd;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import io.github.dxdw.DType;
import io.github.dxdw.Tensor;
import java.lang.foreign.Arena;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Optimizers beside the same rules in float64. */
class OptimizerTest {
  private static final int COUNT = 37;

  private final Arena arena = Arena.ofAuto();
  private final Random random = new Random(3);

  @BeforeEach
  void requireDevice() {
    On.requireDevice();
  }

  private Parameter parameter(String name, DType type, float[] values) {
    Tensor tensor = Tensor.allocate(arena, On.DEVICE, type, values.length);
    Parameter parameter = Parameter.of(arena, name, tensor);
    parameter.set(Tensor.of(arena, values));
    return parameter;
  }

  private float[] values() {
    float[] values = new float[COUNT];
    for (int i = 0; i < COUNT; ++i) {
      values[i] = 2 * random.nextFloat() - 1;
    }
    return values;
  }

  private void gradient(Parameter parameter, float[] values) {
    parameter.gradient().copyFrom(Tensor.of(arena, values));
  }

  @ParameterizedTest
  @CsvSource({
    "FLOAT32, 0, 0, false",
    "FLOAT32, 0.9, 0, false",
    "FLOAT32, 0.9, 0.1, true",
    "BFLOAT16, 0.9, 0.1, false",
    "FLOAT16, 0, 0.1, false"
  })
  void sgd(DType type, double momentum, double decay, boolean nesterov) {
    float[] start = values();
    Parameter parameter = parameter("p", type, start);
    Optimizer optimizer = Optimizer.sgd(arena, List.of(parameter), momentum, decay, nesterov);
    double[] p = widen(start);
    double[] v = new double[COUNT];
    for (int step = 1; step <= 5; ++step) {
      float[] g = values();
      gradient(parameter, g);
      optimizer.step(0.1, 0.5);
      for (int i = 0; i < COUNT; ++i) {
        double d = 0.5 * g[i] + decay * p[i];
        v[i] = momentum * v[i] + d;
        p[i] -= 0.1 * (nesterov ? d + momentum * v[i] : v[i]);
      }
      assertClose(p, parameter, step);
      assertArrayEquals(new float[COUNT], parameter.gradient().toFloatArray(), "not zeroed");
    }
  }

  @ParameterizedTest
  @CsvSource({"FLOAT32, 0", "FLOAT32, 0.1", "BFLOAT16, 0.1", "FLOAT16, 0"})
  void adamW(DType type, double decay) {
    float[] start = values();
    Parameter parameter = parameter("p", type, start);
    Optimizer optimizer = Optimizer.adamW(arena, List.of(parameter), 0.9, 0.999, 1e-8, decay);
    double[] p = widen(start);
    double[] m = new double[COUNT];
    double[] v = new double[COUNT];
    for (int step = 1; step <= 5; ++step) {
      float[] g = values();
      gradient(parameter, g);
      optimizer.step(0.1);
      for (int i = 0; i < COUNT; ++i) {
        p[i] -= 0.1 * decay * p[i];
        m[i] = 0.9 * m[i] + 0.1 * g[i];
        v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
        p[i] -=
            0.1
                * (m[i] / (1 - Math.pow(0.9, step)))
                / (Math.sqrt(v[i] / (1 - Math.pow(0.999, step))) + 1e-8);
      }
      assertClose(p, parameter, step);
    }
  }

  private static double[] widen(float[] values) {
    double[] wide = new double[values.length];
    for (int i = 0; i < wide.length; ++i) {
      wide[i] = values[i];
    }
    return wide;
  }

  /** About ten roundings a step; and the copy is the values rounded, to the bit. */
  private void assertClose(double[] expected, Parameter parameter, int steps) {
    float[] got = parameter.master().toFloatArray();
    for (int i = 0; i < got.length; ++i) {
      assertEquals(expected[i], got[i], steps * 10 * 0x1p-24 * 2, "element " + i);
    }
    assertArrayEquals(
        parameter.master().to(parameter.tensor().dtype(), arena).toFloatArray(),
        parameter.tensor().toFloatArray());
  }

  @ParameterizedTest
  @CsvSource({"1, 1", "0.25, 1", "1, 0.5", "0.25, 0.5", "100, 1"})
  @DisplayName("guards against a norm of each parameter alone, or of gradients scaled twice")
  void clipsByTheNormOfAllGradients(double maxNorm, double scale) {
    Parameter a = parameter("a", DType.FLOAT32, values());
    Parameter b = parameter("b", DType.BFLOAT16, values());
    float[] beforeA = a.master().toFloatArray();
    float[] beforeB = b.master().toFloatArray();
    Optimizer optimizer = Optimizer.sgd(arena, List.of(a, b), 0, 0, false).clip(maxNorm);
    assertThrows(IllegalStateException.class, optimizer::gradientNorm);
    float[] ga = values();
    float[] gb = values();
    gradient(a, ga);
    gradient(b, gb);
    optimizer.step(1, scale);
    double norm = 0;
    for (int i = 0; i < COUNT; ++i) {
      norm += scale * scale * ((double) ga[i] * ga[i] + (double) gb[i] * gb[i]);
    }
    norm = Math.sqrt(norm);
    assertEquals(norm, optimizer.gradientNorm(), 1e-5 * norm);
    double factor = scale * Math.min(1, maxNorm / norm);
    for (int i = 0; i < COUNT; ++i) {
      assertEquals(beforeA[i] - factor * ga[i], a.master().get(i), 1e-6);
      assertEquals(beforeB[i] - factor * gb[i], b.master().get(i), 1e-6);
    }
  }

  @Test
  @DisplayName("guards against a norm of 0, or of an earlier step, where none was computed")
  void tellsTheNormOfTheLastStepAlone() {
    Parameter p = parameter("p", DType.FLOAT32, new float[] {3, 4});
    Optimizer optimizer = Optimizer.sgd(arena, List.of(p), 0, 0, false);
    optimizer.step(1);
    optimizer.clip(10);
    assertThrows(IllegalStateException.class, optimizer::gradientNorm);
    gradient(p, new float[] {3, 4});
    optimizer.step(0);
    assertEquals(5, optimizer.gradientNorm(), 1e-6);
    optimizer.clip(Double.POSITIVE_INFINITY).step(0);
    assertThrows(IllegalStateException.class, optimizer::gradientNorm);
  }

  @Test
  @DisplayName("guards against old gradients that a parameter without one is moved by")
  void noGradientIsZero() {
    Parameter p = parameter("p", DType.FLOAT32, new float[] {1, 2});
    Optimizer optimizer = Optimizer.sgd(arena, List.of(p), 0, 0.5, false);
    p.gradient().fill(Float.NaN);
    p.buffer().zero();
    optimizer.step(1);
    assertArrayEquals(new float[] {0.5f, 1}, p.tensor().toFloatArray());
    assertEquals("SGD of 1 parameters after 1 steps", optimizer.toString());
  }

  @Test
  @DisplayName("guards against steps that allocate on the Java heap")
  void stepsAllocateNothing() {
    ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    Parameter p = parameter("p", DType.BFLOAT16, values());
    Optimizer sgd = Optimizer.sgd(arena, List.of(p), 0.9, 0, false).clip(1);
    Optimizer adamW = Optimizer.adamW(arena, List.of(p), 0.9, 0.999, 1e-8, 0);
    Runnable steps =
        () -> {
          for (int i = 0; i < 100; ++i) {
            p.gradient();
            sgd.step(0.1);
            p.gradient();
            adamW.step(0.1, 0.5);
          }
        };
    for (int i = 0; i < 60; ++i) {
      steps.run();
    }
    long least = Long.MAX_VALUE;
    for (int round = 0; round < 20 && least > 0; ++round) {
      long before = threads.getCurrentThreadAllocatedBytes();
      steps.run();
      least = Math.min(least, threads.getCurrentThreadAllocatedBytes() - before);
    }
    if (On.cpu()) {
      assertEquals(0, least, "bytes in 200 steps");
    }
  }

  @Test
  @DisplayName("guards against a refused step that is counted, and changes those that follow")
  void refusedStepsDoNotCount() {
    float[] start = values();
    float[] g = values();
    Parameter plain = parameter("plain", DType.FLOAT32, start);
    Parameter refused = parameter("refused", DType.FLOAT32, start);
    Optimizer first = Optimizer.adamW(arena, List.of(plain), 0.9, 0.999, 1e-8, 0.1);
    Optimizer second = Optimizer.adamW(arena, List.of(refused), 0.9, 0.999, 1e-8, 0.1);
    for (int step = 0; step < 3; ++step) {
      gradient(plain, g);
      first.step(0.1);
      gradient(refused, g);
      // rate / (1 - 0.9) is beyond float32.
      assertMessage("scalars: lr", () -> second.step(Float.MAX_VALUE));
      second.step(0.1);
    }
    assertArrayEquals(plain.tensor().toFloatArray(), refused.tensor().toFloatArray());
    assertEquals("AdamW of 1 parameters after 3 steps", second.toString());
  }

  @Test
  @DisplayName("guards against a parameter that a step moves twice, and a null that is found late")
  void refusesParametersThatAreThereTwice() {
    Parameter p = parameter("p", DType.FLOAT32, new float[] {1});
    Parameter q = parameter("q", DType.FLOAT32, new float[] {1});
    assertMessage(
        "parameters[2]: is parameters[0], p",
        () -> Optimizer.sgd(arena, List.of(p, q, p), 0, 0, false));
    assertMessage(
        "parameters[1]: is null",
        () -> Optimizer.adamW(arena, Arrays.asList(p, null), 0.9, 0.9, 0, 0));
  }

  @Test
  void refusesNumbersOutOfTheirRange() {
    List<Parameter> one = List.of(parameter("p", DType.FLOAT32, new float[] {1}));
    assertMessage("momentum: -1.0", () -> Optimizer.sgd(arena, one, -1, 0, false));
    assertMessage("weightDecay: NaN", () -> Optimizer.sgd(arena, one, 0, Double.NaN, false));
    // What float32 can't hold is refused at once, not by the first step.
    assertMessage("momentum: 1.0E39", () -> Optimizer.sgd(arena, one, 1e39, 0, false));
    assertMessage("weightDecay: 1.0E300", () -> Optimizer.sgd(arena, one, 0, 1e300, false));
    assertMessage("epsilon: 1.0E300", () -> Optimizer.adamW(arena, one, 0, 0, 1e300, 0));
    assertMessage("nesterov: needs", () -> Optimizer.sgd(arena, one, 0, 0, true));
    assertMessage("beta1: 1.0", () -> Optimizer.adamW(arena, one, 1, 0.9, 0, 0));
    assertMessage("beta2: -0.1", () -> Optimizer.adamW(arena, one, 0, -0.1, 0, 0));
    assertMessage("epsilon: -1.0", () -> Optimizer.adamW(arena, one, 0, 0, -1, 0));
    assertMessage("parameters: there are none", () -> Optimizer.sgd(arena, List.of(), 0, 0, false));
    assertMessage("parameters: is null", () -> Optimizer.sgd(arena, null, 0, 0, false));
    Optimizer optimizer = Optimizer.sgd(arena, one, 0, 0, false);
    assertMessage("rate: -1.0", () -> optimizer.step(-1));
    assertMessage("rate: 1.0E300", () -> optimizer.step(1e300));
    assertMessage("gradientScale: 0.0", () -> optimizer.step(1, 0));
    // 0 and infinite as float32.
    assertMessage("gradientScale: 1.0E-60", () -> optimizer.step(1, 1e-60));
    assertMessage("gradientScale: 1.0E60", () -> optimizer.step(1, 1e60));
    assertMessage("maxNorm: NaN", () -> optimizer.clip(Double.NaN));
    assertMessage("stream: is null", () -> optimizer.on(null));
  }

  private static void assertMessage(String expected, Runnable call) {
    String message = assertThrows(IllegalArgumentException.class, call::run).getMessage();
    assertTrue(message.startsWith(expected), message);
  }
}
