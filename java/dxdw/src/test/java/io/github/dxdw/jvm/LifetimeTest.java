package io.github.dxdw.jvm;

import static io.github.dxdw.jvm.Child.figure;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.github.dxdw.ChildJvm;
import io.github.dxdw.DType;
import io.github.dxdw.Device;
import io.github.dxdw.Dxdw;
import io.github.dxdw.GradientBuffer;
import io.github.dxdw.MemoryUse;
import io.github.dxdw.NativeMemoryException;
import io.github.dxdw.Options;
import io.github.dxdw.Reduction;
import io.github.dxdw.Tensor;
import io.github.dxdw.TestDevice;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.function.Supplier;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Who owns memory, until when, and what is told of it. */
class LifetimeTest {
  private final Device device = TestDevice.get();

  private Tensor allocate(Arena arena, long... shape) {
    return Tensor.allocate(arena, device, DType.FLOAT32, shape);
  }

  // ---- Taking ----

  @Test
  @DisplayName(
      "large host memory lies on pages of 4 KiB, each a fault and a translation of its own")
  void largeMemoryAsksForHugePages() throws Exception {
    assumeTrue(
        Files.exists(Path.of("/sys/kernel/mm/transparent_hugepage")),
        "the kernel knows no huge pages");
    try (Arena arena = Dxdw.arena()) {
      MemorySegment memory = arena.allocate(64L << 20, 64);
      String flags = mappingFlags(memory.address() + memory.byteSize() / 2);
      assertTrue(List.of(flags.split(" ")).contains("hg"), flags);
    }
  }

  /** What /proc/self/smaps tells of the mapping that an address lies in. */
  private static String mappingFlags(long address) throws Exception {
    boolean inside = false;
    for (String line : Files.readAllLines(Path.of("/proc/self/smaps"))) {
      if (line.matches("[0-9a-f]+-[0-9a-f]+ .*")) {
        String[] range = line.substring(0, line.indexOf(' ')).split("-");
        inside =
            Long.compareUnsigned(address, Long.parseUnsignedLong(range[0], 16)) >= 0
                && Long.compareUnsigned(address, Long.parseUnsignedLong(range[1], 16)) < 0;
      } else if (inside && line.startsWith("VmFlags:")) {
        return line;
      }
    }
    return "";
  }

  // ---- Closing ----

  @Test
  @DisplayName("J2: close during a running call crashes it: 100 times, both kinds of arena")
  void closeDuringCall() throws Exception {
    int refused = 0;
    int overtaken = 0;
    for (int round = 0; round < 100; ++round) {
      Supplier<Arena> kind = round % 2 == 0 ? Dxdw::arena : Arena::ofShared;
      Arena arena = kind.get();
      Tensor x = allocate(arena, 500, 500);
      Tensor y = allocate(arena, 500, 500);
      CountDownLatch started = new CountDownLatch(1);
      Throwable[] thrown = new Throwable[1];
      Thread worker =
          new Thread(
              () -> {
                started.countDown();
                try {
                  for (int i = 0; i < 3; ++i) {
                    Dxdw.y(x, x, y);
                  }
                } catch (Throwable e) {
                  thrown[0] = e;
                }
              });
      worker.start();
      started.await();
      if (round % 4 > 1) {
        Thread.sleep(1);
      }
      boolean closed = false;
      try {
        arena.close();
        closed = true;
      } catch (IllegalStateException e) {
        ++refused;
      }
      worker.join();
      if (closed) {
        // Either the calls were done, or they came too late and were refused.
        assertTrue(thrown[0] == null || thrown[0] instanceof IllegalStateException, "" + thrown[0]);
        overtaken += thrown[0] == null ? 0 : 1;
      } else {
        assertNull(thrown[0]);
        arena.close();
      }
    }
    assertTrue(refused + overtaken > 0, "no round closed an arena that was in use");
  }

  @Test
  @DisplayName("use after close is the JDK's exception, for the tensor and all of its views")
  void useAfterClose() {
    MemoryUse before;
    MemoryUse open;
    MemoryUse after;
    Arena arena;
    Tensor x;
    GradientBuffer buffer;
    int tries = 0;
    do {
      before = Dxdw.memoryUse();
      arena = Dxdw.arena();
      x = allocate(arena, 4, 4);
      buffer = GradientBuffer.allocate(arena, device, 4, 4);
      open = Dxdw.memoryUse();
      arena.close();
      arena.close();
      after = Dxdw.memoryUse();
      // Once more, if the collector took what other tests forgot meanwhile.
    } while (after.forgottenArenas() != before.forgottenArenas() && ++tries < 20);
    assertEquals(before.forgottenArenas(), after.forgottenArenas());
    assertEquals(before.openArenas() + 1, open.openArenas());
    assertEquals(before.arenaBytes() + 128, open.arenaBytes());
    assertEquals(before.openArenas(), after.openArenas());
    assertEquals(before.arenaBytes(), after.arenaBytes());
    refuses(arena, x, buffer);
  }

  private void refuses(Arena arena, Tensor x, GradientBuffer buffer) {
    assertThrows(IllegalStateException.class, () -> allocate(arena, 2));
    assertThrows(IllegalStateException.class, () -> allocate(arena, 0));
    assertThrows(IllegalStateException.class, () -> buffer.accumulateDw(x, x));
    buffer.zero();
    assertThrows(IllegalStateException.class, buffer::tensor);
    try (Arena open = Arena.ofConfined()) {
      Tensor there = allocate(open, 4, 4);
      for (Tensor view :
          List.of(
              x,
              x.transpose(),
              x.slice(0, 1, 3).reverse(1),
              x.select(1, 2),
              x.select(0, 0).select(0, 0).expand(4, 4),
              x.reshape(2, 8))) {
        long[] origin = new long[view.rank()];
        List<Executable> uses =
            List.of(
                () -> view.get(origin),
                () -> view.set(1, origin),
                () -> view.fill(1),
                view::toFloatArray,
                () -> view.copy(open),
                () -> allocate(open, view.shape()).copyFrom(view),
                () -> Dxdw.y(view, there, there),
                () -> Dxdw.dw(there, view, there),
                () -> Dxdw.explainDx(there, there, view));
        int rank = view.rank();
        for (Executable use : rank == 2 && view.size(0) == 4 ? uses : uses.subList(0, 6)) {
          assertThrows(IllegalStateException.class, use);
        }
        assertTrue(view.toString().endsWith("(closed)"), view.toString());
      }
    }
  }

  @Test
  @DisplayName("an arena of the library keeps the promises of an arena")
  void isAnArena() throws Exception {
    try (Arena arena = Dxdw.arena()) {
      assertThrows(IllegalArgumentException.class, () -> arena.allocate(-1, 1));
      assertThrows(IllegalArgumentException.class, () -> arena.allocate(1, 3));
      assertThrows(IllegalArgumentException.class, () -> arena.allocate(1, 0));
      for (long alignment : new long[] {1, 2, 64, 4096, 1 << 21}) {
        for (long bytes : new long[] {0, 1, 100, 70_000, 3_000_000}) {
          MemorySegment segment = arena.allocate(bytes, alignment);
          assertEquals(bytes, segment.byteSize());
          assertEquals(0, segment.address() % alignment);
          assertEquals(arena.scope(), segment.scope());
          for (long at = 0; at < bytes; at += 997) {
            assertEquals(0, segment.get(java.lang.foreign.ValueLayout.JAVA_BYTE, at));
          }
          segment.fill((byte) -1);
        }
      }
      Thread other = new Thread(() -> arena.allocate(10, 1).fill((byte) 1));
      other.start();
      other.join();
    }
  }

  // ---- Forgetting ----

  @Test
  @DisplayName("J5: tensors that nobody closes leak: 100,000 of 1 MB stay below 2 GB")
  void droppedTensors(@TempDir Path folder) throws Exception {
    int count = device.equals(Device.cpu()) ? 100_000 : 5_000;
    List<String> lines =
        new Child(folder).optimised().with("-Xmx64m", "-XX:+UseSerialGC").lines("drop", "" + count);
    assertEquals(count, figure(lines, "made"));
    assertTrue(figure(lines, "forgotten") > count - 2000, "" + lines);
    assertTrue(figure(lines, "held") < 2L << 30, "" + lines);
    if (device.equals(Device.cpu())) {
      assertTrue(figure(lines, "peak") < 2L << 30, "" + lines);
    }
  }

  @Test
  @DisplayName("memory lives as long as one tensor of it, though its arena is dropped")
  void tensorKeepsMemory() throws Exception {
    Tensor kept = dropArena();
    MemoryUse before = Dxdw.memoryUse();
    forgetMany();
    for (int i = 0;
        i < 500 && Dxdw.memoryUse().forgottenArenas() < before.forgottenArenas() + 50;
        ++i) {
      System.gc();
      Thread.sleep(10);
    }
    assertTrue(Dxdw.memoryUse().forgottenArenas() >= before.forgottenArenas() + 50);
    assertEquals(5, kept.get(999));
    Tensor sum = Tensor.allocate(Arena.ofAuto(), device, DType.FLOAT32);
    Dxdw.weightedSum(kept, kept, sum);
    assertEquals(25_000, sum.get());
  }

  private Tensor dropArena() {
    Tensor tensor = allocate(Dxdw.arena(), 1000);
    tensor.fill(5);
    return tensor.reverse(0);
  }

  private void forgetMany() {
    for (int i = 0; i < 50; ++i) {
      allocate(Dxdw.arena(), 1000).fill(6);
    }
  }

  @Test
  @DisplayName("a forgotten arena is silent, and known by the place that made it on request")
  void leakReport(@TempDir Path folder) throws Exception {
    assertEquals(List.of("forgotten 1"), new Child(folder).lines("leak"));
    ChildJvm.Result told = new Child(folder).with("-Ddxdw.leaks=true").run("leak");
    assertEquals("forgotten 1\n", told.out());
    assertTrue(told.err().contains("an arena with 4000 bytes was never closed"), told.err());
    assertTrue(told.err().contains("Programs.forget(Programs.java:"), told.err());
  }

  // ---- Limits ----

  @Test
  @DisplayName("J7: other memory of the process, or the heap's size, is taken for ours")
  void onlyTheSystemRefuses(@TempDir Path folder) throws Exception {
    List<String> lines = new Child(folder).with("-Xmx64m").lines("beside-mapping");
    assertEquals(List.of("0.0", "held 108857600", "mapped 8589934592", "held 0"), lines);
  }

  @Test
  @DisplayName("L5: 32-bit lengths: a tensor of 3e9 bytes beside a heap of 64 MB")
  void largerThanAnInt(@TempDir Path folder) throws Exception {
    long available =
        Files.readAllLines(Path.of("/proc/meminfo")).stream()
            .filter(line -> line.startsWith("MemAvailable:"))
            .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")) * 1024)
            .sum();
    assumeTrue(available > 5L << 30, "3 GB of memory are needed, free: " + available);
    List<String> lines = new Child(folder).optimised().with("-Xmx64m").lines("large");
    assertEquals("1.5 7.0", lines.get(0));
    assertEquals("0.0", lines.get(1));
    assertTrue(lines.get(2).contains("slice(0, from, to)"), lines.get(2));
  }

  @Test
  @DisplayName("L12: memory refused without bytes asked, free, in all and ours; then all works on")
  void refusedMemory() {
    for (Supplier<Arena> kind : List.<Supplier<Arena>>of(Dxdw::arena, Arena::ofConfined)) {
      try (Arena arena = kind.get()) {
        Tensor x = Tensor.of(arena, new float[][] {{1, 2}, {3, 4}});
        String message =
            assertThrows(
                    NativeMemoryException.class,
                    () -> Tensor.allocate(arena, DType.FLOAT32, 1L << 48))
                .getMessage();
        assertTrue(message.startsWith((4L << 48) + " bytes of host memory"), message);
        assertTrue(
            message.matches(".* \\d+ of \\d+ bytes are free; \\d+ bytes are held.*"), message);
        Tensor y = Tensor.allocate(arena, DType.FLOAT32, 2, 2);
        Dxdw.y(x, x, y);
        assertEquals(22, y.get(1, 1));
      }
    }
    try (Arena arena = Dxdw.arena()) {
      assertThrows(NativeMemoryException.class, () -> arena.allocate(Long.MAX_VALUE - 10, 64));
    }
  }

  @Test
  @DisplayName("J4: reading elements and copies leave memory behind: a million reads, all flat")
  void elementAccess(@TempDir Path folder) throws Exception {
    List<String> lines =
        new Child(folder)
            .optimised()
            .with("-Xms64m", "-Xmx64m", "-XX:+AlwaysPreTouch")
            .lines("elements");
    assertTrue(figure(lines, "grown") < 24 << 20, "" + lines);
    assertEquals(0, figure(lines, "held"));
    assertEquals(0, figure(lines, "device"));
  }

  @Test
  @DisplayName("J19: plans or scratch are kept for each shape: 100,000 shapes, all flat")
  void manyShapes(@TempDir Path folder) throws Exception {
    String count = device.equals(Device.cpu()) ? "100000" : "10000";
    List<String> lines =
        new Child(folder)
            .optimised()
            .with("-Xms64m", "-Xmx64m", "-XX:+AlwaysPreTouch")
            .lines("shapes", count);
    assertTrue(figure(lines, "grown") < 24 << 20, "" + lines);
    assertTrue(figure(lines, "scratch") <= 1 << 20, "" + lines);
    assertEquals(0, figure(lines, "device"));
  }

  @Test
  @DisplayName("a call with a workspace that is refused leaves no arena, frame or stream in use")
  void refusedCallHoldsNothing() {
    Arena arena = Dxdw.arena();
    Tensor x = allocate(arena, 4, 3);
    Tensor y = allocate(arena, 4, 3);
    Options options = Options.defaults().withWorkspace(allocate(arena, 1));
    for (Executable refused :
        List.<Executable>of(
            () -> Dxdw.y(x, x, y),
            () -> Dxdw.y(x, x, y, options),
            () -> Dxdw.dw(x, x, y, 9, Reduction.ATOMIC, options),
            () -> Dxdw.explainDx(x, x, y))) {
      assertThrows(IllegalArgumentException.class, refused);
    }
    arena.close();
  }
}
