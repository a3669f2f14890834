package io.github.dxdw;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Random;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a tensor shows, and that views are views. */
class TensorTest {
  private final Arena arena = Arena.ofAuto();

  private Tensor counting(long... shape) {
    Tensor tensor = Tensor.allocate(arena, DType.FLOAT32, shape);
    MemorySegment memory = tensor.segment();
    for (long i = 0; i < tensor.elementCount(); ++i) {
      memory.setAtIndex(ValueLayout.JAVA_FLOAT, i, i);
    }
    return tensor;
  }

  @Test
  void factoriesKeepRowMajorOrder() {
    Tensor rows = Tensor.of(arena, new float[][] {{1, 2, 3}, {4, 5, 6}});
    assertArrayEquals(new long[] {2, 3}, rows.shape());
    assertArrayEquals(new long[] {3, 1}, rows.strides());
    assertEquals(6, rows.get(1, 2));
    assertArrayEquals(new float[] {1, 2, 3, 4, 5, 6}, rows.toFloatArray());
    Tensor values = Tensor.of(arena, new float[] {1, 2, 3, 4, 5, 6}, 3, 2);
    assertEquals(3, values.get(1, 0));
    assertArrayEquals(new long[] {2}, Tensor.of(arena, new float[] {1, 2}).shape());
    assertEquals(7, Tensor.scalar(arena, 7).get());
    assertEquals(0, Tensor.scalar(arena, 7).rank());
    assertEquals(0, Tensor.of(arena, new float[0][]).elementCount());
    assertEquals(0, rows.segment().address() % 64);
  }

  @Test
  @DisplayName("guards against views that copy, or show raw storage instead of their elements")
  void viewsShareMemory() {
    Tensor base = counting(2, 3, 4);
    Tensor view = base.transpose().slice(1, 1, 3).reverse(2);
    assertArrayEquals(new long[] {2, 2, 3}, view.shape());
    assertArrayEquals(new long[] {12, 1, -4}, view.strides());
    assertArrayEquals(new float[] {9, 5, 1, 10, 6, 2, 21, 17, 13, 22, 18, 14}, view.toFloatArray());
    view.set(-1, 1, 0, 2);
    assertEquals(-1, base.get(1, 0, 1));
    assertSame(base.segment(), view.segment());
    assertArrayEquals(new float[] {1, 5, 9}, base.select(0, 0).select(1, 1).toFloatArray());
    assertArrayEquals(
        new float[] {0, 2}, base.select(0, 0).select(0, 0).slice(0, 0, 4, 2).toFloatArray());
    assertArrayEquals(
        new float[] {0, 3}, base.select(0, 0).select(0, 0).slice(0, 0, 4, 3).toFloatArray());
    assertEquals(0, base.slice(1, 3, 3).elementCount());
    assertArrayEquals(new long[] {4, 2, 3}, base.permute(2, 0, 1).shape());
    assertEquals(base.get(1, 2, 3), base.permute(2, 0, 1).get(3, 1, 2), 0);
  }

  @Test
  @DisplayName("guards against expanded views that show storage once instead of values repeated")
  void expansionRepeats() {
    Tensor row = Tensor.of(arena, new float[] {1, 2});
    Tensor expanded = row.expand(3, 2);
    assertArrayEquals(new long[] {0, 1}, expanded.strides());
    assertArrayEquals(new float[] {1, 2, 1, 2, 1, 2}, expanded.toFloatArray());
    assertArrayEquals(
        new float[] {5, 5, 5, 5}, Tensor.scalar(arena, 5).expand(2, 2).toFloatArray());
    assertEquals(0, row.expand(0, 2).elementCount());
    assertThrows(IllegalArgumentException.class, () -> row.expand(2, 3));
    assertThrows(IllegalArgumentException.class, () -> row.expand());
    assertThrows(IllegalArgumentException.class, () -> row.expand(-1, 2));
  }

  @Test
  void reshapeIsAViewOrRefused() {
    Tensor base = counting(2, 3, 4);
    assertArrayEquals(new long[] {12, 1}, base.reshape(2, 12).strides());
    assertArrayEquals(new long[] {8, 4, 1}, base.reshape(3, 2, 4).strides());
    assertArrayEquals(base.toFloatArray(), base.reshape(4, 1, 6).toFloatArray());
    Tensor narrowed = base.slice(2, 0, 2);
    assertArrayEquals(narrowed.toFloatArray(), narrowed.reshape(6, 2, 1).toFloatArray());
    assertArrayEquals(narrowed.toFloatArray(), narrowed.reshape(1, 2, 3, 2).toFloatArray());
    String message =
        assertThrows(IllegalArgumentException.class, () -> narrowed.reshape(12)).getMessage();
    assertTrue(message.contains("copy it first"), message);
    message = assertThrows(IllegalArgumentException.class, () -> base.reshape(5, 5)).getMessage();
    assertTrue(message.contains("25") && message.contains("24"), message);
    assertArrayEquals(
        new long[] {0, 7}, Tensor.allocate(arena, DType.FLOAT32, 3, 0).reshape(0, 7).shape());
    assertEquals(1, Tensor.scalar(arena, 1).reshape(1, 1).elementCount());
    assertEquals(0, Tensor.scalar(arena, 1).reshape(1, 1).reshape().rank());
  }

  @Test
  @DisplayName("guards against a reshape that reorders elements of awkward views")
  void reshapeKeepsOrder() {
    Random random = new Random(7);
    int views = 0;
    for (int round = 0; round < 5000; ++round) {
      Tensor tensor = counting(1 + random.nextInt(4), 1 + random.nextInt(3), 1 + random.nextInt(6));
      if (random.nextBoolean()) {
        tensor = tensor.permute(2, 0, 1);
      }
      if (random.nextBoolean()) {
        tensor = tensor.slice(1, 0, 1 + random.nextLong(tensor.size(1)));
      }
      if (random.nextBoolean()) {
        tensor = tensor.reverse(random.nextInt(3));
      }
      long a = 1 + random.nextInt(6);
      if (tensor.elementCount() % a != 0) {
        continue;
      }
      try {
        Tensor view = tensor.reshape(tensor.elementCount() / a, 1, a);
        assertArrayEquals(tensor.toFloatArray(), view.toFloatArray());
        ++views;
      } catch (IllegalArgumentException e) {
        assertFalse(tensor.isCompact(), "a compact tensor takes every shape");
      }
    }
    assertTrue(views > 500, "only " + views + " views");
  }

  @Test
  void compactness() {
    Tensor base = counting(2, 3);
    assertTrue(base.isCompact());
    assertFalse(base.transpose().isCompact());
    assertFalse(base.slice(1, 0, 2).isCompact());
    assertTrue(base.slice(0, 1, 2).isCompact());
    assertTrue(base.slice(1, 0, 1).slice(0, 0, 1).isCompact());
    assertTrue(base.slice(0, 0, 0).transpose().isCompact());
  }

  @Test
  @DisplayName("guards against toString that shows an address, or storage instead of values")
  void toStringShowsValues() {
    Tensor rows = Tensor.of(arena, new float[][] {{1, 2, 3}, {4, 5, 6}});
    assertEquals("float32[2, 3] cpu\n[[1.0, 2.0, 3.0],\n [4.0, 5.0, 6.0]]", rows.toString());
    assertEquals(
        "float32[3, 2] cpu\n[[1.0, 4.0],\n [2.0, 5.0],\n [3.0, 6.0]]", rows.transpose().toString());
    assertEquals("float32[] cpu\n1.5", Tensor.scalar(arena, 1.5f).toString());
    assertEquals(
        "float32[2, 0] cpu\n[[],\n []]", Tensor.allocate(arena, DType.FLOAT32, 2, 0).toString());
    assertEquals("float32[10] cpu\n[0.0, 1.0, 2.0, ..., 7.0, 8.0, 9.0]", counting(10).toString());
    assertEquals(
        "float32[8] cpu\n[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]", counting(8).toString());
    assertEquals(
        "float32[2, 1, 2] cpu\n[[[0.0, 1.0]],\n\n [[2.0, 3.0]]]", counting(2, 1, 2).toString());
    assertTrue(counting(1000, 1000, 10).toString().length() < 4000);
    assertEquals(
        "bfloat16[1] cpu\n[0.1]",
        Tensor.of(arena, new float[] {0.1f})
            .to(DType.BFLOAT16, arena)
            .toString()
            .replace("0.100097656", "0.1"));
  }

  @Test
  void toStringNeverThrows() throws InterruptedException {
    Tensor closed;
    try (Arena confined = Arena.ofConfined()) {
      closed = Tensor.of(confined, new float[] {1, 2});
      String[] seen = new String[1];
      Thread other = new Thread(() -> seen[0] = closed.toString());
      other.start();
      other.join();
      assertEquals("float32[2] cpu (belongs to another thread)", seen[0]);
    }
    assertEquals("float32[2] cpu (closed)", closed.toString());
  }

  @Test
  @DisplayName("guards against truncation instead of rounding to nearest even")
  void conversionTable() {
    int[][] table = {
      {0x3E89CCD5, 0x3E8A}, {0x3F808000, 0x3F80}, {0x3F818000, 0x3F82}, {0x7F7FFFFF, 0x7F80},
      {0x80000001, 0x8000}, {0xFF800000, 0xFF80}, {0x7F800001, 0x7FC0}, {0x00008001, 0x0001}
    };
    for (int[] row : table) {
      Tensor source = Tensor.scalar(arena, Float.intBitsToFloat(row[0]));
      short expected = (short) row[1];
      assertEquals(
          expected,
          source.to(DType.BFLOAT16, arena).segment().get(ValueLayout.JAVA_SHORT, 0),
          Integer.toHexString(row[0]) + " by the library");
      Tensor byJava = Tensor.allocate(arena, DType.BFLOAT16);
      byJava.set(Float.intBitsToFloat(row[0]));
      assertEquals(
          expected,
          byJava.segment().get(ValueLayout.JAVA_SHORT, 0),
          Integer.toHexString(row[0]) + " by Java");
    }
    Tensor half = Tensor.of(arena, new float[] {65504, 70000, 2049}).to(DType.FLOAT16, arena);
    assertArrayEquals(new float[] {65504, Float.POSITIVE_INFINITY, 2048}, half.toFloatArray());
  }

  @Test
  @DisplayName("guards against copies that follow storage order")
  void copiesFollowIndices() {
    Tensor base = counting(3, 4);
    Tensor target = Tensor.allocate(arena, DType.FLOAT16, 4, 3).transpose();
    target.copyFrom(base);
    assertArrayEquals(base.toFloatArray(), target.toFloatArray());
    Tensor copy = base.transpose().reverse(0).copy(arena);
    assertTrue(copy.isCompact());
    assertArrayEquals(base.transpose().reverse(0).toFloatArray(), copy.toFloatArray());
    assertThrows(IllegalArgumentException.class, () -> base.copyFrom(base));
    assertThrows(IllegalArgumentException.class, () -> base.copyFrom(base.transpose()));
    base.slice(1, 1, 3).fill(9);
    assertArrayEquals(new float[] {0, 9, 9, 3}, base.select(0, 0).toFloatArray());
  }

  @Test
  @DisplayName("K18: guards against wrapping that copies, or misreads offsets in the user's memory")
  void wrapsMappedFiles(@TempDir Path folder) throws IOException {
    Path file = folder.resolve("x");
    Files.write(file, new byte[48]);
    try (FileChannel channel =
            FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE);
        Arena confined = Arena.ofConfined()) {
      MemorySegment mapped = channel.map(FileChannel.MapMode.READ_WRITE, 0, 48, confined);
      Tensor y = Tensor.of(mapped, DType.FLOAT32, new long[] {2, 2}, new long[] {4, 1}, 2);
      Tensor x = Tensor.of(confined, new float[][] {{1, 2}, {3, 4}});
      Dxdw.y(x, x, y);
      mapped.force();
    }
    float[] expected = {0, 0, 7, 10, 0, 0, 15, 22, 0, 0, 0, 0};
    MemorySegment bytes = MemorySegment.ofArray(Files.readAllBytes(file));
    for (int i = 0; i < 12; ++i) {
      assertEquals(expected[i], bytes.get(ValueLayout.JAVA_FLOAT_UNALIGNED, 4 * i));
    }
  }

  @Test
  @DisplayName("guards against 32-bit lengths: elements beyond 2 GB")
  void moreThanTwoGigabytes() {
    try (Arena confined = Arena.ofConfined()) {
      long count = 1_500_000_001L;
      // Untouched pages of a mapping cost nothing; zeroing 3 GB would.
      MemorySegment memory = mapAnonymous(confined, 2 * count);
      Tensor tensor = Tensor.of(memory, DType.BFLOAT16, count);
      tensor.set(3, count - 1);
      assertEquals(3, tensor.get(count - 1));
      assertEquals(3, tensor.reverse(0).get(0));
      assertEquals(3, tensor.slice(0, count - 1, count).toFloatArray()[0]);
      assertTrue(tensor.toString().endsWith("..., 0.0, 0.0, 3.0]"));
      Tensor expanded = Tensor.scalar(confined, 1).expand(3_000_000_000L);
      String message =
          assertThrows(IllegalStateException.class, expanded::toFloatArray).getMessage();
      assertTrue(message.contains("slice(0, from, to)"), message);
    }
  }

  private static MemorySegment mapAnonymous(Arena arena, long bytes) {
    try {
      Path file = Files.createTempFile("dxdw", ".sparse");
      try (FileChannel channel =
          FileChannel.open(
              file,
              StandardOpenOption.READ,
              StandardOpenOption.WRITE,
              StandardOpenOption.DELETE_ON_CLOSE)) {
        return channel.map(FileChannel.MapMode.READ_WRITE, 0, bytes, arena);
      }
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  @Test
  void indicesAreChecked() {
    Tensor base = counting(2, 3);
    assertThrows(IndexOutOfBoundsException.class, () -> base.get(2, 0));
    assertThrows(IndexOutOfBoundsException.class, () -> base.get(0, -1));
    assertThrows(IllegalArgumentException.class, () -> base.get(0));
    assertThrows(IndexOutOfBoundsException.class, () -> base.size(2));
    assertThrows(IndexOutOfBoundsException.class, () -> base.stride(-1));
    assertThrows(IndexOutOfBoundsException.class, () -> base.slice(0, 0, 3));
    assertThrows(IndexOutOfBoundsException.class, () -> base.slice(0, 2, 1));
    assertThrows(IllegalArgumentException.class, () -> base.slice(0, 0, 2, 0));
    assertThrows(IndexOutOfBoundsException.class, () -> base.select(1, 3));
    assertThrows(IllegalArgumentException.class, () -> base.permute(0, 0));
    assertThrows(IllegalArgumentException.class, () -> base.permute(0));
    assertThrows(IllegalArgumentException.class, () -> base.select(0, 0).transpose());
    assertThrows(
        IllegalArgumentException.class, () -> Tensor.of(arena, new float[][] {{1}, {1, 2}}));
    assertThrows(IllegalArgumentException.class, () -> Tensor.of(arena, new float[] {1, 2}, 3));
  }
}
