package io.github.dxdw.autograd;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import io.github.dxdw.DType;
import io.github.dxdw.Dxdw;
import io.github.dxdw.GradientBuffer;
import io.github.dxdw.MemoryUse;
import io.github.dxdw.Reduction;
import io.github.dxdw.Tensor;
import io.github.dxdw.bindings.dxdw_h;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.management.ManagementFactory;
import java.lang.ref.WeakReference;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Recording and differentiating, on the device that -Ddxdw.device names. */
class TapeTest {
  private static final Function WEIGHTED_SUM = new WeightedSum();

  private final Arena arena = Arena.ofShared();
  private Tape tape;

  @BeforeEach
  void open() {
    On.requireDevice();
    tape = new Tape(On.DEVICE);
  }

  @AfterEach
  void close() {
    if (tape != null) {
      tape.close();
    }
    arena.close();
  }

  private Tensor tensor(float[][] rows) {
    return Tensor.of(arena, rows).to(On.DEVICE, arena);
  }

  private Tensor vector(float... values) {
    return Tensor.of(arena, values).to(On.DEVICE, arena);
  }

  private Parameter parameter(String name, float[][] rows) {
    return Parameter.of(arena, name, tensor(rows));
  }

  private static long launches() {
    return dxdw_h.dxdw_counter(dxdw_h.DXDW_COUNTER_LAUNCHES());
  }

  @Test
  @DisplayName("guards against one input's gradient that is forgotten")
  void bothGradientsOfAWeightedSum() {
    for (Function function : new Function[] {WEIGHTED_SUM, Functions.WEIGHTED_SUM}) {
      tape.reset();
      Parameter x = parameter("x", new float[][] {{1, 2}, {3, 4}});
      Parameter w = Parameter.of(arena, "w", vector(1, 1));
      Variable y = tape.apply(function, x, w);
      assertArrayEquals(new float[] {3, 7}, y.tensor().toFloatArray());
      tape.backward(y, vector(1, 10));
      assertArrayEquals(new float[] {1, 1, 10, 10}, x.gradient().toFloatArray());
      assertArrayEquals(new float[] {31, 42}, w.gradient().toFloatArray());
    }
  }

  @Test
  @DisplayName("guards against a gradient that is quietly wrong, as its input was changed in place")
  void changedInPlace() {
    Parameter w = Parameter.of(arena, "weights", vector(1, 1));
    Tensor x = tensor(new float[][] {{1, 2}, {3, 4}});
    Variable y = tape.apply(WEIGHTED_SUM, Variable.constant(x), w);
    x.select(0, 1).set(5, 0);
    String message =
        assertThrows(IllegalStateException.class, () -> tape.backward(y, vector(1, 1)))
            .getMessage();
    assertEquals(
        "saved: tensor 0 of result 0, WeightedSum, its input 0, float32[2, 2] strides [2, 1], was"
            + " changed in place after the forward: version "
            + (x.version() - 1)
            + " was saved, now it is "
            + x.version(),
        message);
    assertArrayEquals(new float[2], w.gradient().toFloatArray(), "a gradient was written");
    tape.reset();
    Variable z = tape.apply(WEIGHTED_SUM, Variable.constant(x), w);
    w.set(vector(2, 2));
    message =
        assertThrows(IllegalStateException.class, () -> tape.backward(z, vector(1, 1)))
            .getMessage();
    assertTrue(message.contains("its input 1 (parameter weights)"), message);
    tape.reset();
    tape.backward(tape.apply(WEIGHTED_SUM, Variable.constant(x), w), vector(1, 1));
    assertArrayEquals(new float[] {6, 6}, w.gradient().toFloatArray());
  }

  @Test
  @DisplayName("guards against a function that forgets a gradient and goes unnoticed")
  void forgottenGradient() {
    Function forgetful =
        new Function() {
          @Override
          public Tensor forward(Context context) {
            return WEIGHTED_SUM.forward(context);
          }

          @Override
          public void backward(Context context, Tensor gradient) {
            Dxdw.weightedSumBackward(
                context.saved(0), context.saved(1), gradient, context.gradient(0), null);
          }

          @Override
          public String name() {
            return "forgetful";
          }
        };
    Parameter x = parameter("x", new float[][] {{1, 2}, {3, 4}});
    Parameter w = Parameter.of(arena, "w", vector(1, 1));
    Variable y = tape.apply(forgetful, x, w);
    String message =
        assertThrows(IllegalStateException.class, () -> tape.backward(y, vector(1, 1)))
            .getMessage();
    assertTrue(message.contains("did not ask for the gradient of input 1, parameter w"), message);
  }

  @Test
  @DisplayName("guards against empty batches that lose the gradient, or the check of their shapes")
  void emptyBatches() {
    Parameter x = Parameter.of(arena, "x", Tensor.allocate(arena, On.DEVICE, DType.FLOAT32, 0, 5));
    Parameter w = Parameter.of(arena, "w", Tensor.allocate(arena, On.DEVICE, DType.FLOAT32, 5, 3));
    Variable y = tape.apply(Functions.LINEAR, x, w);
    assertArrayEquals(new long[] {0, 3}, y.tensor().shape());
    tape.backward(y, Tensor.allocate(arena, On.DEVICE, DType.FLOAT32, 0, 3));
    assertArrayEquals(new long[] {0, 5}, x.gradient().shape());
    assertArrayEquals(new float[15], w.gradient().toFloatArray());
    Parameter wrong =
        Parameter.of(arena, "wrong", Tensor.allocate(arena, On.DEVICE, DType.FLOAT32, 4, 3));
    tape.reset();
    assertThrows(IllegalArgumentException.class, () -> tape.apply(Functions.LINEAR, x, wrong));
    tape.reset();
    Variable again = tape.apply(Functions.LINEAR, x, w);
    assertThrows(
        IllegalArgumentException.class,
        () -> tape.backward(again, Tensor.allocate(arena, On.DEVICE, DType.FLOAT32, 1, 3)));
  }

  @Test
  @DisplayName(
      "guards against a frozen weight that costs a kernel, a workspace or the input's life")
  void frozenWeights() {
    Parameter x = parameter("x", new float[][] {{1, 2}, {3, 4}});
    Tensor weights = tensor(new float[][] {{1, 2}, {3, 4}});
    Variable w = Variable.constant(weights);
    Tensor dy = tensor(new float[][] {{1, 0}, {0, 1}});
    Variable y = tape.apply(Functions.LINEAR, x, w);
    long before = launches();
    tape.backward(y, dy);
    if (On.cpu()) {
      assertEquals(before + 1, launches(), "kernels of a backward that wants dX alone");
    }
    assertArrayEquals(new float[] {1, 3, 2, 4}, x.gradient().toFloatArray());
    Tape.Needs needs = tape.plan(() -> tape.backward(tape.apply(Functions.LINEAR, x, w), dy));
    assertEquals(2, needs.calls(), "the forward and dX");
    assertEquals(Dxdw.explainDx(dy, weights, x.tensor()).workspaceBytes(), needs.workspaceBytes());
    tape.reset();
    before = launches();
    Variable constant = tape.apply(Functions.LINEAR, Variable.constant(x.tensor()), w);
    if (On.cpu()) {
      assertEquals(before + 1, launches());
    }
    assertFalse(constant.wantsGradient());
    assertThrows(IllegalArgumentException.class, () -> tape.backward(constant, dy));
  }

  @Test
  @DisplayName("guards against an input that the tape keeps alive for a gradient nobody wants")
  void frozenWeightsLetTheInputGo() throws InterruptedException {
    WeakReference<MemorySegment> memory = applyToTemporary();
    for (int i = 0; i < 100 && memory.get() != null; ++i) {
      System.gc();
      Thread.sleep(10);
    }
    assertNull(memory.get(), "the memory of an input that nothing needs");
    // An input that is not saved may change: only dX is wanted, which needs W alone.
    Parameter x = parameter("x", new float[][] {{1, 2}, {3, 4}});
    Variable w = Variable.constant(tensor(new float[][] {{1, 2}, {3, 4}}));
    Variable v = Variable.constant(vector(1, 2));
    Variable y = tape.apply(Functions.LINEAR, x, w);
    Variable sums = tape.apply(Functions.WEIGHTED_SUM, y, v);
    x.tensor().fill(0);
    y.tensor().fill(0);
    tape.backward(sums, vector(1, 1));
    assertArrayEquals(new float[] {5, 11, 5, 11}, x.gradient().toFloatArray());
  }

  private WeakReference<MemorySegment> applyToTemporary() {
    Tensor x = Tensor.allocate(Arena.ofAuto(), On.DEVICE, DType.FLOAT32, 2, 2);
    Variable identity = Variable.constant(tensor(new float[][] {{1, 0}, {0, 1}}));
    Variable y = tape.apply(Functions.LINEAR, Variable.constant(x), identity);
    tape.apply(Functions.LINEAR, y, parameter("w", new float[][] {{1, 0}, {0, 1}}));
    return new WeakReference<>(x.segment());
  }

  @Test
  @DisplayName("guards against the gradients of a weight used twice that replace each other")
  void tiedWeights() {
    Parameter w = parameter("w", new float[][] {{1, 2}, {3, 4}});
    Variable x = Variable.constant(tensor(new float[][] {{1, 0}}));
    // y = x W Wᵀ
    Variable y = tape.apply(Functions.LINEAR, tape.apply(Functions.LINEAR, x, w), w.transpose());
    assertArrayEquals(new float[] {5, 11}, y.tensor().toFloatArray());
    tape.backward(y, tensor(new float[][] {{1, 10}}));
    // dh = g W = [31, 42]; dW from below = xᵀ dh, from above = gᵀ h, h = [1, 2].
    assertArrayEquals(new float[] {32, 44, 10, 20}, w.gradient().toFloatArray());
    assertSame(w.transpose(), w.transpose());
    assertSame(w, w.transpose().transpose());
  }

  @Test
  @DisplayName("guards against gradients of a result used twice that replace each other")
  void resultUsedTwice() {
    Parameter x = parameter("x", new float[][] {{1, 2}, {3, 4}});
    Variable identity = Variable.constant(tensor(new float[][] {{1, 0}, {0, 1}}));
    Variable middle = tape.apply(Functions.LINEAR, x, identity).keep();
    Variable square = tape.apply(Functions.LINEAR, middle, middle);
    assertArrayEquals(new float[] {7, 10, 15, 22}, square.tensor().toFloatArray());
    tape.backward(square, tensor(new float[][] {{1, 0}, {0, 0}}));
    // d(m00² + m01 m10): dM = [[2 m00, m10], [m01, 0]]
    float[] expected = {2, 3, 2, 0};
    assertArrayEquals(expected, x.gradient().toFloatArray());
    assertArrayEquals(expected, middle.gradient().toFloatArray());
    assertArrayEquals(new float[] {1, 2, 3, 4}, middle.tensor().toFloatArray());
  }

  @Test
  @DisplayName("guards against one call that writes two gradients, one of them not the first")
  void assignsAndAddsInOneCall() {
    for (Function function : new Function[] {WEIGHTED_SUM, Functions.WEIGHTED_SUM}) {
      tape.reset();
      Parameter bottom = parameter("bottom", new float[][] {{1, 2}, {3, 4}});
      Parameter w = Parameter.of(arena, "w", vector(1, 1));
      w.gradient().fill(100);
      Variable identity = Variable.constant(tensor(new float[][] {{1, 0}, {0, 1}}));
      Variable x = tape.apply(Functions.LINEAR, bottom, identity);
      tape.backward(tape.apply(function, x, w), vector(1, 10));
      assertArrayEquals(new float[] {131, 142}, w.gradient().toFloatArray());
      assertArrayEquals(new float[] {1, 1, 10, 10}, bottom.gradient().toFloatArray());
    }
  }

  @Test
  @DisplayName("guards against what earlier steps left in the memory, NaN here, that is read")
  void earlierStepsLeaveNoTraces() {
    Parameter w = parameter("w", new float[][] {{1, 2}, {3, 4}});
    Parameter b = Parameter.of(arena, "b", vector(1, 1));
    Variable v = Variable.constant(vector(1, 2));
    Tensor data = tensor(new float[][] {{Float.NaN, Float.NaN}, {Float.NaN, Float.NaN}});
    Variable x = Variable.constant(data);
    for (int step = 0; step < 2; ++step) {
      tape.reset();
      Variable h = tape.apply(Functions.RELU, tape.apply(Functions.LINEAR, x, w, b));
      h = tape.apply(Functions.ADD, tape.apply(Functions.LINEAR, h, w, b), h);
      tape.backward(tape.apply(Functions.MEAN, tape.apply(Functions.WEIGHTED_SUM, h, v)));
      if (step == 0) {
        assertTrue(Float.isNaN(w.gradient().get(0, 0)));
        data.copyFrom(tensor(new float[][] {{1, 0}, {0, 1}}));
        w.buffer().zero();
        b.buffer().zero();
      }
    }
    // h = [[2, 3], [4, 5]]; each row has half of dz = [1, 2], dh = dz Wᵀ + dz = [6, 13] / 2.
    assertArrayEquals(new float[] {6, 12.5f, 7, 14.5f}, w.gradient().toFloatArray());
    assertArrayEquals(new float[] {7, 15}, b.gradient().toFloatArray());
  }

  @Test
  @DisplayName("guards against main gradients that lose low bits over micro-batches: 256 and 1")
  void gradientsAddUpInFloat32() {
    Tensor one = tensor(new float[][] {{1}}).to(DType.BFLOAT16, arena);
    Tensor small = tensor(new float[][] {{0x1p-10f}}).to(DType.BFLOAT16, arena);
    Parameter w = Parameter.of(arena, "w", tensor(new float[][] {{0}}).to(DType.BFLOAT16, arena));
    w.buffer().tensor().fill(256);
    Variable x = Variable.constant(one);
    tape.backward(tape.apply(Functions.LINEAR, x, w), one);
    assertEquals(257, w.gradient().get(0, 0));
    w.buffer().zero();
    for (int i = 0; i < 4096; ++i) {
      tape.reset();
      tape.backward(tape.apply(Functions.LINEAR, x, w), small);
    }
    assertEquals(4, w.gradient().get(0, 0));
    Parameter v = Parameter.of(arena, "v", tensor(new float[][] {{0}}).to(DType.BFLOAT16, arena));
    Tensor column = tensor(new float[][] {{1}, {0x1p-12f}}).to(DType.BFLOAT16, arena);
    Tensor ones = tensor(new float[][] {{1}, {1}}).to(DType.BFLOAT16, arena);
    for (int round = 1; round <= 2; ++round) {
      tape.reset();
      tape.backward(tape.apply(Functions.LINEAR, Variable.constant(column), v), ones);
      assertEquals(round * 1.000244140625f, v.gradient().get(0, 0), "a rounding to bfloat16");
    }
  }

  @Test
  @DisplayName("guards against zeroed buffers that are read, and against temporaries of dW's size")
  void addsWithoutATemporary() {
    Parameter w =
        Parameter.of(arena, "w", Tensor.allocate(arena, On.DEVICE, DType.FLOAT32, 64, 48));
    w.buffer().tensor().fill(Float.NaN);
    w.buffer().zero();
    Variable x = Variable.constant(Tensor.allocate(arena, On.DEVICE, DType.FLOAT32, 1, 64));
    Tensor dy = Tensor.allocate(arena, On.DEVICE, DType.FLOAT32, 1, 48);
    for (int round = 0; round < 2; ++round) {
      tape.reset();
      tape.backward(tape.apply(Functions.linear(1, Reduction.DETERMINISTIC, null), x, w), dy);
    }
    for (float value : w.gradient().toFloatArray()) {
      assertEquals(0, value);
    }
    Tape.Needs needs =
        tape.plan(
            () ->
                tape.backward(
                    tape.apply(Functions.linear(1, Reduction.DETERMINISTIC, null), x, w), dy));
    assertEquals(0, needs.workspaceBytes());
    assertEquals(192, needs.bytes(), "the tape has more than y [1, 48]");
    assertEquals(192, tape.bytes());
  }

  @Test
  @DisplayName("guards against gradients whose strides are not looked at: expanded, narrowed")
  void gradientsOfAnyStrides() {
    Parameter x = parameter("x", new float[][] {{1, 2}, {3, 4}});
    Parameter w = parameter("w", new float[][] {{1, 2}, {3, 4}});
    Tensor wide =
        tensor(new float[][] {{1, 1, Float.NaN, Float.NaN}, {1, 1, Float.NaN, Float.NaN}});
    Tensor expanded = Tensor.scalar(arena, 1).to(On.DEVICE, arena).expand(2, 2);
    for (Tensor dy : new Tensor[] {expanded, wide.slice(1, 0, 2), expanded.transpose()}) {
      tape.reset();
      x.buffer().zero();
      w.buffer().zero();
      tape.backward(tape.apply(Functions.LINEAR, x, w), dy);
      assertArrayEquals(new float[] {3, 7, 3, 7}, x.gradient().toFloatArray());
      assertArrayEquals(new float[] {4, 4, 6, 6}, w.gradient().toFloatArray());
    }
  }

  @Test
  @DisplayName("guards against values that are read after their memory went to others")
  void valuesAreGoneAfterTheBackward() {
    Parameter x = parameter("x", new float[][] {{1, 2}, {3, 4}});
    Variable w = Variable.constant(tensor(new float[][] {{1, 0}, {0, 1}}));
    Variable first = tape.apply(Functions.LINEAR, x, w);
    Variable second = tape.apply(Functions.LINEAR, first, w).keep();
    Variable root = tape.apply(Functions.LINEAR, second, w);
    Tensor dy = tensor(new float[][] {{1, 0}, {0, 1}});
    tape.backward(root, dy);
    assertArrayEquals(new float[] {1, 2, 3, 4}, root.tensor().toFloatArray());
    assertArrayEquals(new float[] {1, 2, 3, 4}, second.tensor().toFloatArray());
    assertArrayEquals(dy.toFloatArray(), second.gradient().toFloatArray());
    String message = assertThrows(IllegalStateException.class, first::tensor).getMessage();
    assertEquals(
        "the value of result 0, linear was given back by backward: keep() it before", message);
    assertThrows(IllegalStateException.class, first::gradient);
    assertThrows(IllegalStateException.class, () -> tape.apply(Functions.LINEAR, root, w));
    assertThrows(IllegalStateException.class, () -> tape.backward(root, dy));
    tape.reset();
    assertThrows(IllegalStateException.class, root::tensor);
    assertThrows(IllegalArgumentException.class, () -> tape.backward(root, dy));
    tape.close();
    tape.close();
    assertThrows(IllegalStateException.class, () -> tape.apply(Functions.LINEAR, x, w));
  }

  @Test
  @DisplayName("J5: the memory of tapes that nobody closes leaks")
  void forgottenTapes() throws InterruptedException {
    int tapes = 50;
    Parameter x = parameter("x", new float[][] {{1, 2}, {3, 4}});
    MemoryUse before = Dxdw.memoryUse();
    for (int i = 0; i < tapes; ++i) {
      Tape dropped = new Tape(On.DEVICE);
      dropped.backward(dropped.apply(Functions.LINEAR, x, x), x.tensor());
    }
    for (int i = 0; i < 500 && forgottenSince(before) < tapes; ++i) {
      System.gc();
      Thread.sleep(10);
    }
    assertTrue(forgottenSince(before) >= tapes, "collected arenas: " + forgottenSince(before));
  }

  private static long forgottenSince(MemoryUse before) {
    return Dxdw.memoryUse().forgottenArenas() - before.forgottenArenas();
  }

  @Test
  void refusesWhatDoesNotFit() {
    Parameter x = parameter("x", new float[][] {{1, 2}, {3, 4}});
    Variable y = tape.apply(Functions.LINEAR, x, x);
    String message =
        assertThrows(
                IllegalArgumentException.class,
                () -> tape.backward(y, tensor(new float[][] {{1, 2}})))
            .getMessage();
    assertTrue(message.startsWith("gradient: float32[1, 2] strides [2, 1] on "), message);
    assertTrue(message.contains("for float32[2, 2] strides [2, 1] on "), message);
    message = assertThrows(IllegalArgumentException.class, () -> tape.backward(y)).getMessage();
    assertTrue(message.contains("has not one element"), message);
    assertThrows(IllegalArgumentException.class, () -> tape.apply(Functions.LINEAR, x, null));
    assertThrows(IllegalArgumentException.class, () -> tape.apply(null, x));
    assertThrows(IllegalArgumentException.class, () -> Variable.constant(null));
    try (Tape other = new Tape(On.DEVICE)) {
      message =
          assertThrows(IllegalArgumentException.class, () -> other.apply(Functions.LINEAR, y, x))
              .getMessage();
      assertTrue(message.contains("is not a result of this step"), message);
    }
    assertThrows(
        IllegalArgumentException.class, () -> Functions.linear(-1, Reduction.DETERMINISTIC, null));
  }

  @Test
  @DisplayName("guards against a step that is refused and leaves memory taken")
  void aFailedCallLeavesNothingBehind() {
    Parameter x = parameter("x", new float[][] {{1, 2}, {3, 4}});
    Variable bad = Variable.constant(tensor(new float[][] {{1, 2, 3}}));
    for (int i = 0; i < 100; ++i) {
      assertThrows(IllegalArgumentException.class, () -> tape.apply(Functions.LINEAR, x, bad));
    }
    assertTrue(tape.bytes() <= 64, tape.toString());
    Variable y = tape.apply(Functions.LINEAR, x, x);
    assertEquals(7, y.tensor().get(0, 0));
  }

  @Test
  @DisplayName("guards against memory that grows, on the Java heap or off it, step by step")
  void stepsAllocateNothing() {
    ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    Parameter w1 =
        Parameter.of(arena, "w1", Tensor.allocate(arena, On.DEVICE, DType.FLOAT32, 8, 8));
    Parameter w2 = Parameter.of(arena, "w2", Tensor.allocate(arena, On.DEVICE, DType.FLOAT32, 8));
    Variable[] batches = {
      Variable.constant(Tensor.allocate(arena, On.DEVICE, DType.FLOAT32, 16, 8)),
      Variable.constant(Tensor.allocate(arena, On.DEVICE, DType.FLOAT32, 5, 8))
    };
    Tensor[] gradients = {
      Tensor.allocate(arena, On.DEVICE, DType.FLOAT32, 16),
      Tensor.allocate(arena, On.DEVICE, DType.FLOAT32, 5)
    };
    Runnable steps =
        () -> {
          for (int i = 0; i < 100; ++i) {
            tape.reset();
            Variable h = tape.apply(Functions.LINEAR, batches[i % 2], w1);
            h = tape.apply(Functions.LINEAR, h, w1.transpose());
            tape.backward(tape.apply(Functions.WEIGHTED_SUM, h, w2), gradients[i % 2]);
            w1.buffer().zero();
          }
        };
    steps.run();
    long bytes = tape.bytes();
    long scratch = dxdw_h.dxdw_counter(dxdw_h.DXDW_COUNTER_SCRATCH_BYTES());
    for (int i = 0; i < 60; ++i) {
      steps.run();
    }
    long least = Long.MAX_VALUE;
    for (int round = 0; round < 20 && least > 0; ++round) {
      long before = threads.getCurrentThreadAllocatedBytes();
      steps.run();
      least = Math.min(least, threads.getCurrentThreadAllocatedBytes() - before);
    }
    assertEquals(bytes, tape.bytes());
    assertEquals(scratch, dxdw_h.dxdw_counter(dxdw_h.DXDW_COUNTER_SCRATCH_BYTES()));
    assertEquals(0, least, "bytes in 100 steps");
  }

  @Test
  @DisplayName("guards against a plan that differs from what a step takes, or that leaves traces")
  void planTellsWhatAStepTakes() {
    Parameter w1 =
        Parameter.of(arena, "w1", Tensor.allocate(arena, On.DEVICE, DType.FLOAT32, 40, 300));
    Parameter w2 =
        Parameter.of(arena, "w2", Tensor.allocate(arena, On.DEVICE, DType.FLOAT32, 300, 7));
    Variable x = Variable.constant(Tensor.allocate(arena, On.DEVICE, DType.FLOAT32, 1000, 40));
    Tensor dy = Tensor.allocate(arena, On.DEVICE, DType.FLOAT32, 1000, 7);
    Runnable step =
        () -> {
          Variable h = tape.apply(Functions.LINEAR, x, w1);
          Variable y = tape.apply(Functions.LINEAR, h, w2);
          assertEquals(0f, y.tensor().get(999, 6));
          tape.backward(y, dy);
        };
    w1.buffer().tensor().fill(3);
    long before = launches();
    long version = w1.gradient().version();
    Tape.Needs needs = tape.plan(step);
    assertEquals(before, launches(), "planning ran a kernel");
    assertEquals(version, w1.gradient().version());
    assertEquals(5, needs.calls());
    // h and y, then the gradient of h: y stays, it is the root.
    assertEquals(4L * (1000 * 300 + 1000 * 7 + 1000 * 300), needs.bytes(), 256);
    step.run();
    assertEquals(needs.bytes(), tape.bytes());
    assertEquals(needs, tape.plan(step));
    assertEquals(3f, w1.gradient().get(0, 0));
  }

  @Test
  @DisplayName(
      "guards against a crash: tensors of a plan, used when it is over or by other threads")
  void tensorsOfAPlanAreClosed() throws InterruptedException {
    Parameter w = parameter("w", new float[][] {{1, 2}, {3, 4}});
    Tensor out = Tensor.allocate(arena, On.DEVICE, DType.FLOAT32, 2, 2);
    Tensor[] planned = new Tensor[1];
    Throwable[] elsewhere = new Throwable[1];
    tape.plan(
        () -> {
          planned[0] = tape.apply(Functions.RELU, w).tensor();
          Thread other =
              new Thread(
                  () -> {
                    try {
                      Dxdw.relu(planned[0], out);
                    } catch (RuntimeException e) {
                      elsewhere[0] = e;
                    }
                  });
          other.start();
          try {
            other.join();
          } catch (InterruptedException e) {
            throw new AssertionError(e);
          }
        });
    assertSame(WrongThreadException.class, elsewhere[0].getClass());
    assertThrows(IllegalStateException.class, () -> Dxdw.relu(planned[0], out));
    assertThrows(IllegalStateException.class, () -> Dxdw.relu(out, planned[0].transpose()));
    assertThrows(IllegalStateException.class, () -> out.copyFrom(planned[0]));
    assertThrows(IllegalStateException.class, () -> planned[0].get(0, 0));
    assertThrows(IllegalStateException.class, planned[0]::toFloatArray);
    assertTrue(planned[0].toString().endsWith("(closed)"), planned[0].toString());
    assertArrayEquals(new float[4], out.toFloatArray());
  }

  @Test
  @DisplayName("guards against a tape that is planned or closed within its plan, and is lost then")
  void plansDoNotNest() {
    Parameter w = parameter("w", new float[][] {{1, 2}, {3, 4}});
    Runnable step = () -> tape.apply(Functions.RELU, w);
    assertStartsWith("plan: ", () -> tape.plan(() -> tape.plan(step)));
    assertStartsWith("close: ", () -> tape.plan(tape::close));
    try (Tape inner = new Tape(On.DEVICE)) {
      tape.plan(() -> assertEquals(1, inner.plan(() -> inner.apply(Functions.RELU, w)).calls()));
    }
    step.run();
    tape.plan(step);
    assertArrayEquals(
        new float[] {1, 2, 3, 4}, tape.apply(Functions.RELU, w).tensor().toFloatArray());
  }

  @Test
  @DisplayName("guards against gradients that are lost by a plan, or come out of nothing")
  void plansLeaveGradients() {
    Parameter w = parameter("w", new float[][] {{1, 2}, {3, 4}});
    Tensor x = tensor(new float[][] {{1, 2}, {3, 4}});
    w.gradient().fill(5);
    Optimizer optimizer = Optimizer.sgd(arena, List.of(w), 0, 0, false);
    assertStartsWith("step: ", () -> tape.plan(() -> optimizer.step(1)));
    assertArrayEquals(new float[] {5, 5, 5, 5}, w.gradient().toFloatArray());
    assertArrayEquals(new float[] {1, 2, 3, 4}, w.tensor().toFloatArray());
    w.buffer().zero();
    tape.plan(() -> w.buffer().accumulateDw(x, x));
    assertArrayEquals(new float[4], w.gradient().toFloatArray(), "zeros, not what stood there");
  }

  private static void assertStartsWith(String expected, Runnable call) {
    String message = assertThrows(IllegalStateException.class, call::run).getMessage();
    assertTrue(message.startsWith(expected), message);
  }

  @Test
  @DisplayName("guards against memory for the mean of each number of elements there ever was")
  void constantsAreBounded() {
    Parameter x = Parameter.of(arena, "x", Tensor.allocate(arena, On.DEVICE, DType.FLOAT32, 3000));
    x.tensor().fill(3);
    Tensor all = x.tensor();
    Variable keep = Variable.constant(all);
    long early = 0;
    for (int count = 1; count < 3000; ++count) {
      tape.reset();
      Variable mean = tape.apply(Functions.MEAN, Variable.constant(all.slice(0, 0, count)));
      assertEquals(3, tape.apply(Functions.ADD, mean, mean).tensor().get() / 2, 1e-5);
      tape.backward(tape.apply(Functions.MEAN, tape.apply(Functions.ADD, x, keep)));
      if (count == 200) {
        early = Dxdw.memoryUse().arenaBytes();
      }
    }
    // 2,800 numbers take 11 KB. What other tests forgot may go meanwhile.
    long late = Dxdw.memoryUse().arenaBytes();
    assertTrue(late < early + 5_000, early + " bytes, later " + late);
    assertEquals(2999f / 3000, x.gradient().get(7), 1e-3);
  }

  @Test
  @Timeout(300)
  @DisplayName("guards against a deep stack, or no end, where a step has very many calls")
  void manyCalls() {
    int calls = On.cpu() ? 50_000 : 1_000;
    Parameter w = parameter("w", new float[][] {{1, 2}, {3, 4}});
    Tensor ones = tensor(new float[][] {{1, 1}, {1, 1}});
    for (int step = 0; step < 2; ++step) {
      tape.reset();
      Variable first = tape.apply(Functions.RELU, w);
      Variable y = first;
      for (int i = 0; i < calls; ++i) {
        y = tape.apply(i % 1000 == 0 ? Functions.ADD : Functions.RELU, inputs(i, y, first));
      }
      tape.backward(y, ones);
    }
    assertEquals(2f * (1 + calls / 1000), w.gradient().get(0, 0));
  }

  private static Variable[] inputs(int i, Variable y, Variable first) {
    return i % 1000 == 0 ? new Variable[] {y, first} : new Variable[] {y};
  }

  @Test
  @DisplayName("guards against a pool that keeps the memory of every shape it ever saw")
  void memoryIsBounded() {
    Parameter w = Parameter.of(arena, "w", Tensor.allocate(arena, On.DEVICE, DType.FLOAT32, 4, 4));
    for (int rows = 1; rows < 3000; rows += 13) {
      tape.reset();
      Tensor x = Tensor.allocate(arena, On.DEVICE, DType.FLOAT32, rows, 4);
      Variable y = tape.apply(Functions.LINEAR, Variable.constant(x), w);
      tape.backward(tape.apply(Functions.LINEAR, y, w), x);
      assertTrue(tape.bytes() <= 2 * 3 * 16L * (rows + 32), tape.bytes() + " for " + rows);
    }
  }

  @Test
  @DisplayName(
      "guards against a context that is used when its turn is over, and nested calls of a tape")
  void contextsAreGoodInTheirPassAlone() {
    Context[] seen = new Context[1];
    Variable constant = Variable.constant(vector(1, 1));
    Function nosy =
        new Function() {
          @Override
          public Tensor forward(Context context) {
            seen[0] = context;
            assertThrows(IllegalStateException.class, () -> context.saved(0));
            assertThrows(IllegalStateException.class, () -> context.gradient(0));
            assertThrows(IndexOutOfBoundsException.class, () -> context.input(2));
            assertEquals(2, context.inputCount());
            context.temporary(DType.FLOAT16, 3, 3).fill(1);
            assertThrows(IllegalStateException.class, () -> tape.apply(Functions.RELU, constant));
            assertThrows(IllegalStateException.class, tape::reset);
            return WEIGHTED_SUM.forward(context);
          }

          @Override
          public void backward(Context context, Tensor gradient) {
            assertThrows(IllegalStateException.class, () -> context.input(0));
            assertThrows(IllegalStateException.class, () -> context.save(gradient));
            assertThrows(IndexOutOfBoundsException.class, () -> context.saved(2));
            assertThrows(IllegalStateException.class, () -> context.options(0));
            assertNull(context.gradient(0));
            assertThrows(IllegalStateException.class, tape::reset);
            WEIGHTED_SUM.backward(context, gradient);
          }
        };
    Parameter w = Parameter.of(arena, "w", vector(1, 1));
    Variable x = Variable.constant(tensor(new float[][] {{1, 2}, {3, 4}}));
    Variable y = tape.apply(nosy, x, w);
    assertThrows(IllegalStateException.class, () -> seen[0].input(0));
    tape.backward(y, vector(1, 10));
    assertThrows(IllegalStateException.class, () -> seen[0].saved(0));
    assertArrayEquals(new float[] {31, 42}, w.gradient().toFloatArray());
  }

  @Test
  void parametersOfOtherTypesHaveFloat32Values() {
    Parameter w = Parameter.of(arena, "w", vector(1, 2).to(DType.BFLOAT16, arena));
    assertEquals(DType.FLOAT32, w.master().dtype());
    assertEquals(DType.FLOAT32, w.gradient().dtype());
    w.set(vector(1.001f, 3));
    assertArrayEquals(new float[] {1.001f, 3}, w.master().toFloatArray());
    assertArrayEquals(new float[] {1, 3}, w.tensor().toFloatArray());
    Parameter v = Parameter.of(arena, "v", vector(1, 2));
    assertSame(v.tensor(), v.master());
    assertEquals("parameter v: " + v.tensor(), v.toString());
    GradientBuffer buffer = v.buffer();
    assertSame(buffer.tensor(), v.gradient());
  }
}
