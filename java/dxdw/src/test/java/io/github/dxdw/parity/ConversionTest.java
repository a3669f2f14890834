package io.github.dxdw.parity;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.dxdw.DType;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Tensor;
import io.github.dxdw.bindings.dxdw_h;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.SplittableRandom;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Rounding between the types: the library's helpers and tensor copies against plain Java, over all
 * 16-bit patterns.
 */
class ConversionTest {

  private static final int PATTERNS = 1 << 16;

  @BeforeAll
  static void load() {
    assertTrue(Dxdw.isAvailable(), "the native library must load");
  }

  @ParameterizedTest
  @CsvSource({
    "3E89CCD5, 3E8A", // truncation gives 3E89
    "3F808000, 3F80", // tie, to even: down
    "3F818000, 3F82", // tie, to even: up
    "3F808001, 3F81",
    "3F817FFF, 3F81",
    "7F7FFFFF, 7F80", // largest float32: infinity
    "FF7FFFFF, FF80",
    "7F7F7FFF, 7F7F",
    "7F800000, 7F80",
    "80000000, 8000",
    "00000001, 0000",
    "00008000, 0000",
    "00008001, 0001",
    "00018000, 0002",
    "807FFFFF, 8080"
  })
  @DisplayName("float32 to bfloat16 rounds to nearest even instead of cutting off")
  void bfloat16Table(String from, String to) {
    float value = Float.intBitsToFloat(Integer.parseUnsignedInt(from, 16));
    short expected = (short) Integer.parseInt(to, 16);
    assertEquals(expected, Bits.floatToBfloat16(value), "plain Java");
    assertBoth(DType.BFLOAT16, value, expected);
  }

  @ParameterizedTest
  @CsvSource({
    "3F801000, 3C00", // tie, to even: down
    "3F803000, 3C02", // tie, to even: up
    "477FE000, 7BFF", // 65504
    "477FEFFF, 7BFF", // just below 65520
    "477FF000, 7C00", // 65520: infinity
    "C77FF000, FC00",
    "33000000, 0000", // half the smallest subnormal: tie, to even
    "33000001, 0001",
    "33C00000, 0002", // one and a half of it: tie, to even
    "387FE000, 0400", // tie between the largest subnormal and the smallest normal
    "80000001, 8000"
  })
  @DisplayName("float32 to float16 rounds to nearest even, to subnormals and to infinity")
  void float16Table(String from, String to) {
    float value = Float.intBitsToFloat(Integer.parseUnsignedInt(from, 16));
    short expected = (short) Integer.parseInt(to, 16);
    assertEquals(expected, Bits.floatToFloat16(value), "plain Java");
    assertBoth(DType.FLOAT16, value, expected);
  }

  @ParameterizedTest
  @EnumSource(names = {"BFLOAT16", "FLOAT16"})
  @DisplayName("every 16-bit pattern becomes the right float32, by the helper and by a tensor copy")
  void everyPatternWidens(DType type) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment patterns = arena.allocate(2L * PATTERNS, 64);
      for (int p = 0; p < PATTERNS; p++) {
        patterns.setAtIndex(ValueLayout.JAVA_SHORT, p, (short) p);
      }
      MemorySegment helper = arena.allocate(4L * PATTERNS, 64);
      assertEquals(
          0,
          type == DType.BFLOAT16
              ? dxdw_h.dxdw_bfloat16_to_float(patterns, helper, PATTERNS)
              : dxdw_h.dxdw_float16_to_float(patterns, helper, PATTERNS));
      Tensor source = Tensor.of(patterns, type, PATTERNS);
      Tensor copy = source.to(DType.FLOAT32, arena);
      for (int p = 0; p < PATTERNS; p++) {
        float expected =
            type == DType.BFLOAT16
                ? Bits.bfloat16ToFloat((short) p)
                : Bits.float16ToFloat((short) p);
        assertSame(expected, helper.getAtIndex(ValueLayout.JAVA_FLOAT, p), p, "helper");
        assertSame(
            expected, Bits.read(copy.segment(), DType.FLOAT32, copy.offset() + p), p, "copy");
        assertSame(expected, source.get(p), p, "get");
      }
    }
  }

  @ParameterizedTest
  @EnumSource(names = {"BFLOAT16", "FLOAT16"})
  @DisplayName(
      "narrowing agrees with plain Java on every pattern, on its neighbours, on ties and on random"
          + " floats")
  void narrowing(DType type) {
    int extra = 200_000;
    int count = PATTERNS * 5 + extra;
    float[] values = new float[count];
    int at = 0;
    for (int p = 0; p < PATTERNS; p++) {
      int bits =
          Float.floatToRawIntBits(
              type == DType.BFLOAT16
                  ? Bits.bfloat16ToFloat((short) p)
                  : Bits.float16ToFloat((short) p));
      int half = type == DType.BFLOAT16 ? 0x8000 : 0x1000;
      for (int add : new int[] {0, half - 1, half, half + 1, 2 * half - 1}) {
        values[at++] = Float.intBitsToFloat(bits + add);
      }
    }
    SplittableRandom random = new SplittableRandom(7);
    while (at < count) {
      values[at++] = Float.intBitsToFloat(random.nextInt());
    }
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment source = arena.allocateFrom(ValueLayout.JAVA_FLOAT, values);
      MemorySegment helper = arena.allocate(2L * count, 64);
      assertEquals(
          0,
          type == DType.BFLOAT16
              ? dxdw_h.dxdw_float_to_bfloat16(source, helper, count)
              : dxdw_h.dxdw_float_to_float16(source, helper, count));
      Tensor copy = Tensor.of(source, DType.FLOAT32, count).to(type, arena);
      for (int i = 0; i < count; i++) {
        float expected = Bits.round(type, values[i]);
        assertSame(expected, Bits.read(helper, type, i), i, "helper of " + Bits.show(values[i]));
        assertSame(
            expected,
            Bits.read(copy.segment(), type, copy.offset() + i),
            i,
            "copy of " + Bits.show(values[i]));
      }
    }
  }

  @ParameterizedTest
  @EnumSource(names = {"BFLOAT16", "FLOAT16"})
  @DisplayName("a NaN of any payload stays a quiet NaN of its sign")
  void nan(DType type) {
    int exponentAndQuiet = type == DType.BFLOAT16 ? 0x7FC0 : 0x7E00;
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment one = arena.allocate(4);
      MemorySegment narrow = arena.allocate(2);
      for (int bits :
          new int[] {
            0x7F800001, 0x7F80FFFF, 0x7FBFFFFF, 0x7FC00000, 0x7FFFFFFF, 0xFF800001, 0xFFFFFFFF
          }) {
        one.set(ValueLayout.JAVA_INT, 0, bits);
        assertEquals(
            0,
            type == DType.BFLOAT16
                ? dxdw_h.dxdw_float_to_bfloat16(one, narrow, 1)
                : dxdw_h.dxdw_float_to_float16(one, narrow, 1));
        int got = narrow.get(ValueLayout.JAVA_SHORT, 0) & 0xFFFF;
        assertEquals(
            exponentAndQuiet,
            got & exponentAndQuiet,
            () -> "0x%08X gave 0x%04X".formatted(bits, got));
        assertEquals(bits >>> 31, got >>> 15, "sign");
      }
    }
  }

  @Test
  @DisplayName("copies between all types and any strides round once and leave the gaps alone")
  void stridedCopies() {
    SplittableRandom random = new SplittableRandom(11);
    for (int i = 0; i < 2000; i++) {
      try (Arena arena = Arena.ofConfined()) {
        DType from = Bits.FLOATS[random.nextInt(3)];
        DType to = Bits.FLOATS[random.nextInt(3)];
        int rank = random.nextInt(0, 5);
        long[] shape = random.longs(rank, 0, 9).toArray();
        Operand source =
            new Operand(arena, "source", from, shape, Layout.draw(random, rank, false));
        Operand target = new Operand(arena, "target", to, shape, Layout.draw(random, rank, true));
        for (int e = 0; e < source.count(); e++) {
          source.set(e, Float.intBitsToFloat(random.nextInt()));
        }
        source.snapshot();
        target.snapshot();
        target.tensor.copyFrom(source.tensor);
        float[] expected = source.load();
        float[] got = target.load();
        for (int e = 0; e < got.length; e++) {
          assertSame(Bits.round(to, expected[e]), got[e], e, source + " to " + target);
        }
        assertEquals(null, source.touched(false));
        assertEquals(null, target.touched(true));
      }
    }
  }

  private static void assertBoth(DType type, float value, short expected) {
    try (Arena arena = Arena.ofConfined()) {
      // Thirty-seven of them, so that vector bodies and tails both convert.
      int count = 37;
      Tensor source = Tensor.allocate(arena, DType.FLOAT32, count);
      source.fill(value);
      MemorySegment helper = arena.allocate(2L * count);
      assertEquals(
          0,
          type == DType.BFLOAT16
              ? dxdw_h.dxdw_float_to_bfloat16(source.segment(), helper, count)
              : dxdw_h.dxdw_float_to_float16(source.segment(), helper, count));
      Tensor copy = source.to(type, arena);
      Tensor set = Tensor.allocate(arena, type, 1);
      set.set(value, 0);
      assertEquals(expected, set.segment().get(ValueLayout.JAVA_SHORT_UNALIGNED, 0), "Tensor.set");
      for (int i = 0; i < count; i++) {
        assertEquals(expected, helper.get(ValueLayout.JAVA_SHORT_UNALIGNED, 2L * i), "helper");
        assertEquals(
            expected,
            copy.segment().get(ValueLayout.JAVA_SHORT_UNALIGNED, 2 * (copy.offset() + i)),
            "copy");
      }
    }
  }

  private static void assertSame(float expected, float got, int index, String what) {
    if (!Bits.same(expected, got)) {
      assertEquals(Bits.show(expected), Bits.show(got), what + " at " + index);
    }
  }
}
