package io.github.dxdw;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.dxdw.bindings.dxdw_h;
import java.lang.foreign.Arena;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Devices as they look on any machine, those without a GPU included; {@link GpuTest} needs one. */
class DeviceTest {
  private static final Device ABSENT = Device.cuda(1000);

  @BeforeAll
  static void load() {
    assertTrue(Dxdw.isAvailable(), () -> Dxdw.unavailabilityCause().toString());
  }

  @AfterEach
  void disarm() {
    for (int fault = 0; fault <= dxdw_h.DXDW_FAULT_STICKY(); ++fault) {
      assertEquals(0, dxdw_h.dxdw_inject_fault(fault, -1));
    }
  }

  @Test
  @DisplayName("the CPU is a device with a name, memory and hardware threads, and needs no GPU")
  void cpu() {
    Device cpu = Device.cpu();
    assertTrue(cpu.isAvailable());
    assertEquals("", cpu.unavailabilityCause());
    assertFalse(cpu.name().isEmpty());
    assertTrue(cpu.totalBytes() > 0 && cpu.freeBytes() <= cpu.totalBytes());
    assertTrue(cpu.multiprocessors() >= 1);
    assertEquals("", cpu.capability());
    assertEquals(cpu, Device.all().getFirst());
  }

  @Test
  @DisplayName("guards against a missing GPU that ends in a crash or in an error without a cause")
  void absentDevice() {
    assertFalse(ABSENT.isAvailable());
    assertFalse(ABSENT.unavailabilityCause().isEmpty());
    try (Arena arena = Arena.ofConfined()) {
      List<Executable> uses =
          List.of(
              ABSENT::name,
              ABSENT::totalBytes,
              ABSENT::multiprocessors,
              ABSENT::capability,
              () -> Stream.create(ABSENT),
              () -> Event.create(ABSENT),
              () -> Tensor.allocate(arena, ABSENT, DType.FLOAT32, 2, 3),
              () -> Tensor.allocate(arena, ABSENT, DType.FLOAT32, 0),
              () -> GradientBuffer.allocate(arena, ABSENT, 2, 3),
              () -> Tensor.allocate(arena, DType.FLOAT32, 2, 3).to(ABSENT, arena));
      for (Executable use : uses) {
        DeviceException refused = assertThrows(DeviceException.class, use);
        assertEquals(4, refused.status());
        assertTrue(refused.getMessage().contains("cuda"), refused.getMessage());
      }
    }
  }

  @Test
  @DisplayName("guards against streams, events and graphs of the CPU")
  void cpuHasNoStreams() {
    assertThrows(IllegalArgumentException.class, () -> Stream.create(Device.cpu()));
    assertThrows(IllegalArgumentException.class, () -> Event.create(Device.cpu()));
    assertThrows(IllegalArgumentException.class, () -> Stream.create(null));
    assertThrows(IllegalArgumentException.class, () -> Event.create(null));
    assertThrows(IllegalArgumentException.class, () -> Graph.capture(null, () -> {}));
    assertThrows(IllegalArgumentException.class, () -> Device.allocatePinned(null, 1));
    assertThrows(IllegalArgumentException.class, () -> Device.allocatePinned(Arena.ofAuto(), -1));
  }

  @Test
  @DisplayName("guards against a lost device that takes the CPU down, or is told in other words")
  void lostDevice() {
    assertEquals(0, dxdw_h.dxdw_inject_fault(dxdw_h.DXDW_FAULT_STICKY(), 0));
    String first = null;
    try (Arena arena = Arena.ofConfined()) {
      for (int i = 0; i < 3; ++i) {
        for (Executable use :
            List.<Executable>of(
                () -> Stream.create(Device.cuda(0)),
                () -> Event.create(Device.cuda(0)),
                () -> Tensor.allocate(arena, Device.cuda(0), DType.FLOAT32, 2, 3))) {
          DeviceLostException lost = assertThrows(DeviceLostException.class, use);
          assertEquals(6, lost.status());
          first = first == null ? lost.getMessage() : first;
          assertEquals(first, lost.getMessage());
        }
        Tensor x = Tensor.of(arena, new float[][] {{1, 2}, {3, 4}});
        Tensor y = Tensor.allocate(arena, DType.FLOAT32, 2, 2);
        Dxdw.y(x, x, y);
        assertEquals(22, y.get(1, 1));
      }
    }
  }

  @Test
  @DisplayName("guards against refused memory without its size, and leaves what was there usable")
  void refusedMemory() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor x = Tensor.allocate(arena, DType.FLOAT32, 400, 300);
      Tensor dw = Tensor.allocate(arena, DType.FLOAT32, 300, 300);
      dw.fill(7);
      x.fill(1);
      assertEquals(0, dxdw_h.dxdw_inject_fault(dxdw_h.DXDW_FAULT_ALLOCATE(), 0));
      NativeMemoryException refused =
          assertThrows(
              NativeMemoryException.class,
              () -> Dxdw.dw(x, x, dw, 8, Reduction.DETERMINISTIC, Options.defaults()));
      assertTrue(
          refused.getMessage().matches(".* \\d+ bytes of scratch; \\d+ of \\d+ bytes are free, .*"),
          refused.getMessage());
      assertEquals(7, dw.get(299, 299));
      Dxdw.dw(x, x, dw, 8, Reduction.DETERMINISTIC, Options.defaults());
      assertEquals(407, dw.get(299, 299));
    }
  }

  @Test
  @DisplayName("a view with any strides is checked against all of the memory")
  void anyView() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor x = Tensor.of(arena, new float[] {0, 1, 2, 3, 4, 5});
      Tensor view = x.slice(0, 1, 3).view(new long[] {2, 2}, new long[] {-3, 1}, 3);
      assertEquals("float32[2, 2] cpu\n[[3.0, 4.0],\n [0.0, 1.0]]", view.toString());
      assertThrows(
          IndexOutOfBoundsException.class, () -> x.view(new long[] {2, 2}, new long[] {4, 2}, 0));
      assertThrows(
          IndexOutOfBoundsException.class, () -> x.view(new long[] {2}, new long[] {-1}, 0));
      assertThrows(
          IllegalArgumentException.class, () -> x.view(new long[] {2}, new long[] {1, 1}, 0));
      assertThrows(IllegalArgumentException.class, () -> x.view(null, new long[] {1}, 0));
    }
  }
}
