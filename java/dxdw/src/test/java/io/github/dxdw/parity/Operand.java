package io.github.dxdw.parity;

import io.github.dxdw.DType;
import io.github.dxdw.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;

/**
 * A tensor in memory of its own: its segment ends with its last element, canaries stand on both
 * sides, and whatever the layout leaves free between elements holds NaN. What a call may not touch
 * is compared byte for byte.
 */
final class Operand {

  private static final int GUARD = 64;
  private static final byte CANARY = (byte) 0xA5;
  private static final int NAN32 = 0x7FC5A5A5;
  private static final short NAN_BF16 = 0x7FC5;
  private static final short NAN_F16 = 0x7E5A;

  final String name;
  final Tensor tensor;
  final DType type;
  final long[] shape;
  private final MemorySegment whole;
  private final MemorySegment inner;
  private final Layout.Placed placed;
  private byte[] before;

  Operand(Arena arena, String name, DType type, long[] shape, Layout layout) {
    this.name = name;
    this.type = type;
    this.shape = shape;
    placed = layout.place(shape);
    long bytes = placed.elements() * type.byteSize();
    whole = arena.allocate(bytes + 2 * GUARD, 64);
    whole.fill(CANARY);
    inner = whole.asSlice(GUARD, bytes);
    for (long e = 0; e < placed.elements(); e++) {
      poison(e);
    }
    tensor = Tensor.of(inner, type, shape, placed.strides(), placed.offset());
  }

  private void poison(long element) {
    switch (type) {
      case FLOAT32 -> inner.set(ValueLayout.JAVA_INT_UNALIGNED, element * 4, NAN32);
      case FLOAT16 -> inner.set(ValueLayout.JAVA_SHORT_UNALIGNED, element * 2, NAN_F16);
      case BFLOAT16 -> inner.set(ValueLayout.JAVA_SHORT_UNALIGNED, element * 2, NAN_BF16);
      case INT32 -> inner.set(ValueLayout.JAVA_INT_UNALIGNED, element * 4, Integer.MIN_VALUE);
    }
  }

  int count() {
    long count = 1;
    for (long size : shape) {
      count *= size;
    }
    return Math.toIntExact(count);
  }

  void set(int index, float value) {
    Bits.write(
        inner, type, Reference.element(shape, placed.strides(), placed.offset(), index), value);
  }

  float[] load() {
    return Reference.load(inner, type, shape, placed.strides(), placed.offset());
  }

  /** Remembers all bytes, those of the canaries included. */
  void snapshot() {
    before = whole.toArray(ValueLayout.JAVA_BYTE);
  }

  /** Puts back what {@link #snapshot} saw. */
  void restore() {
    MemorySegment.copy(before, 0, whole, ValueLayout.JAVA_BYTE, 0, before.length);
  }

  /** All bytes as they are now. */
  byte[] bytes() {
    return whole.toArray(ValueLayout.JAVA_BYTE);
  }

  /**
   * The first byte that changed since {@link #snapshot} outside the elements of an output, or null.
   */
  String touched(boolean output) {
    byte[] after = bytes();
    if (output) {
      int size = type.byteSize();
      int count = count();
      for (int i = 0; i < count; i++) {
        long element = Reference.element(shape, placed.strides(), placed.offset(), i);
        int at = Math.toIntExact(GUARD + element * size);
        System.arraycopy(before, at, after, at, size);
      }
    }
    int at = Arrays.mismatch(before, after);
    if (at < 0) {
      return null;
    }
    return "%s: byte %d of %d changed from 0x%02X to 0x%02X outside its elements (segment starts at byte %d)"
        .formatted(this, at, before.length, before[at], after[at], GUARD);
  }

  /** Writes over one byte in front of the segment: what a test of the tests does. */
  void damageCanary() {
    whole.set(ValueLayout.JAVA_BYTE, GUARD - 1, (byte) 0);
  }

  /** Coordinates of the element that comes {@code index}-th in row-major order. */
  String coordinates(int index) {
    long[] at = new long[shape.length];
    int rest = index;
    for (int d = shape.length - 1; d >= 0; d--) {
      at[d] = rest % shape[d];
      rest /= (int) shape[d];
    }
    return name + Arrays.toString(at);
  }

  @Override
  public String toString() {
    return "%s %s%s strides %s offset %d"
        .formatted(
            name, type, Arrays.toString(shape), Arrays.toString(placed.strides()), placed.offset());
  }
}
