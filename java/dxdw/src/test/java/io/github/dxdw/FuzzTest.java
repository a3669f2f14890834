package io.github.dxdw;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Random calls, bad ones most of them: exceptions of the documented kinds, and no byte outside. */
class FuzzTest {
  private static final int CALLS = 100_000;
  private static final long GUARD = 1 << 16;
  private static final long INNER = 1 << 12;
  private static final byte CANARY = 0x5a;

  private final Random random = new Random(20);
  private final Arena shared = Arena.ofShared();
  private final MemorySegment guarded = guardedMemory();
  private final MemorySegment inner = guarded.asSlice(GUARD, INNER);
  private final MemorySegment closed = closedMemory();
  private final MemorySegment foreign = foreignMemory();

  private MemorySegment guardedMemory() {
    MemorySegment memory = shared.allocate(2 * GUARD + INNER, 64);
    memory.fill(CANARY);
    return memory;
  }

  private static MemorySegment closedMemory() {
    try (Arena arena = Arena.ofConfined()) {
      return arena.allocate(INNER, 64);
    }
  }

  /** Memory of another thread's confined arena. */
  private static MemorySegment foreignMemory() {
    MemorySegment[] memory = new MemorySegment[1];
    Thread owner = new Thread(() -> memory[0] = Arena.ofConfined().allocate(INNER, 64));
    owner.start();
    try {
      owner.join();
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
    return memory[0];
  }

  private MemorySegment segment() {
    return switch (random.nextInt(24)) {
      case 0 -> null;
      case 1 -> closed;
      case 2 -> foreign;
      case 3 -> MemorySegment.ofArray(new float[64]);
      case 4 -> MemorySegment.NULL;
      case 5 -> inner.asReadOnly();
      case 6 -> inner.asSlice(random.nextLong(INNER));
      case 7 -> inner.asSlice(0, random.nextLong(INNER));
      default -> inner;
    };
  }

  private long oddLong() {
    return switch (random.nextInt(30)) {
      case 0 -> -1;
      case 1 -> Long.MIN_VALUE;
      case 2 -> Long.MAX_VALUE;
      case 3 -> 1L << (20 + random.nextInt(43));
      case 4 -> 0;
      default -> 1 + random.nextInt(5);
    };
  }

  private long[] longs(int length) {
    return random.longs(length).map(ignored -> oddLong()).toArray();
  }

  private Tensor tensor(long... usual) {
    if (random.nextInt(60) == 0) {
      return null;
    }
    boolean fitting = random.nextInt(4) > 0;
    long[] shape = fitting ? usual : longs(random.nextInt(20) == 0 ? 33 : random.nextInt(4));
    DType type = DType.values()[random.nextInt(8) == 0 ? random.nextInt(4) : 0];
    Tensor tensor =
        random.nextBoolean()
            ? Tensor.of(segment(), type, shape, longs(shape.length), oddLong() * 8)
            : Tensor.of(
                segment(), random.nextInt(50) == 0 ? null : type, shape, compact(shape), place());
    return random.nextInt(10) == 0 ? tensor.transpose() : tensor;
  }

  /** Strides of 0 allow any size: a sum over 2^62 elements is a fine call that never ends. */
  private Tensor bounded(Tensor tensor) {
    return tensor == null || tensor.elementCount() < 1 << 20 ? tensor : tensor.slice(0, 0, 0);
  }

  private Tensor labels(long... shape) {
    return random.nextInt(10) == 0
        ? tensor(shape)
        : Tensor.of(segment(), DType.INT32, shape, compact(shape), place());
  }

  private double oddDouble() {
    return switch (random.nextInt(20)) {
      case 0 -> Double.NaN;
      case 1 -> -1;
      case 2 -> Double.POSITIVE_INFINITY;
      case 3 -> Double.longBitsToDouble(random.nextLong());
      default -> random.nextDouble();
    };
  }

  private Tensor present(long... usual) {
    Tensor tensor = tensor(usual);
    return tensor == null ? present(usual) : tensor;
  }

  private long place() {
    return random.nextInt(40) * 25L;
  }

  private static long[] compact(long[] shape) {
    long[] strides = new long[shape.length];
    long stride = 1;
    for (int d = shape.length - 1; d >= 0; --d) {
      strides[d] = stride;
      stride *= shape[d];
    }
    return strides;
  }

  private <T> T oneOf(T[] values) {
    return random.nextInt(60) == 0 ? null : values[random.nextInt(values.length)];
  }

  private Options options() {
    if (random.nextInt(3) > 0) {
      return random.nextInt(60) == 0 ? null : Options.defaults();
    }
    Options options =
        Options.defaults()
            .withAccumulate(oneOf(Accumulate.values()))
            .withPrecision(oneOf(Precision.values()))
            .withBatchInvariant(random.nextBoolean());
    return random.nextBoolean() ? options : options.withWorkspace(segment());
  }

  private int split() {
    return random.nextInt(8) == 0 ? random.nextInt() : random.nextInt(-1, 5);
  }

  private void call() {
    switch (random.nextInt(19)) {
      case 0 -> Dxdw.y(tensor(4, 3), tensor(3, 2), tensor(4, 2), options());
      case 1 -> Dxdw.dx(tensor(4, 2), tensor(3, 2), tensor(4, 3), options());
      case 2 ->
          Dxdw.dw(
              tensor(4, 3),
              tensor(4, 2),
              tensor(3, 2),
              split(),
              oneOf(Reduction.values()),
              options());
      case 3 -> Dxdw.dwReduce(tensor(2, 3, 2), tensor(3, 2), options());
      case 4 -> Dxdw.weightedSum(tensor(2, 4, 3), tensor(3), tensor(2, 4), options());
      case 5 ->
          Dxdw.weightedSumBackward(
              tensor(2, 4, 3), tensor(3), tensor(2, 4), tensor(2, 4, 3), tensor(3), options());
      case 6 ->
          Dxdw.explainDw(
              tensor(4, 3),
              tensor(4, 2),
              tensor(3, 2),
              split(),
              oneOf(Reduction.values()),
              options());
      case 7 -> present(4, 3).copyFrom(tensor(4, 3));
      case 8 -> Dxdw.add(tensor(4, 3), tensor(4, 3), tensor(4, 3), options());
      case 9 -> Dxdw.reluBackward(tensor(4, 3), tensor(4, 3), tensor(4, 3), options());
      case 10 -> Dxdw.gelu(tensor(2, 4, 3), tensor(2, 4, 3), options());
      case 11 -> Dxdw.sumRows(bounded(tensor(2, 4, 3)), tensor(3), options());
      case 12 ->
          Dxdw.dw(
              tensor(4, 3),
              tensor(4, 2),
              tensor(3, 2),
              tensor(2),
              split(),
              oneOf(Reduction.values()),
              options());
      case 13 ->
          Dxdw.softmaxCrossEntropyBackward(
              tensor(4, 3), labels(4), tensor(4), tensor(4, 3), options());
      case 14 -> Dxdw.squaredError(tensor(2, 4, 3), tensor(2, 4, 3), tensor(2, 4), options());
      case 15 -> Dxdw.squaredNorm(bounded(tensor(2, 4, 3)), tensor(), options());
      case 16 -> Dxdw.clipFactor(tensor(), tensor(), oddDouble(), options());
      case 17 ->
          Dxdw.adamw(
              tensor(4, 3),
              tensor(4, 3),
              tensor(4, 3),
              tensor(4, 3),
              null,
              random.nextBoolean() ? null : tensor(),
              oddDouble(),
              oddDouble(),
              oddDouble(),
              oddDouble(),
              oddDouble(),
              (int) oddLong(),
              options());
      default -> {
        Tensor tensor = present(4, 3);
        tensor.slice((int) oddLong(), oddLong(), oddLong(), oddLong()).reverse(0).toFloatArray();
        tensor.reshape(longs(2)).set(1, oddLong(), oddLong());
      }
    }
  }

  @Test
  @DisplayName(
      "guards against a native side that crashes, exits, or writes outside on bad arguments")
  void onlyDocumentedExceptions() {
    Map<String, Integer> seen = new TreeMap<>();
    for (int i = 0; i < CALLS; ++i) {
      String outcome;
      try {
        call();
        outcome = "fine";
      } catch (IllegalArgumentException
          | IllegalStateException
          | IndexOutOfBoundsException
          | WrongThreadException
          | DxdwException e) {
        outcome = e.getClass().getSimpleName();
        assertTrue(e.getMessage() != null && !e.getMessage().isEmpty(), outcome);
      } catch (Throwable e) {
        throw new AssertionError("call " + i, e);
      }
      seen.merge(outcome, 1, Integer::sum);
    }
    for (long at = 0; at < GUARD; ++at) {
      assertEquals(CANARY, guarded.get(ValueLayout.JAVA_BYTE, at));
      assertEquals(CANARY, guarded.get(ValueLayout.JAVA_BYTE, GUARD + INNER + at));
    }
    for (String outcome :
        new String[] {
          "fine",
          "IllegalArgumentException",
          "IllegalStateException",
          "IndexOutOfBoundsException",
          "WrongThreadException"
        }) {
      assertTrue(seen.getOrDefault(outcome, 0) > 100, () -> outcome + " is too rare: " + seen);
    }
  }
}
