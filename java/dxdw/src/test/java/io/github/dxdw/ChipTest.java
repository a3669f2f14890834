package io.github.dxdw;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Plans for GPUs that are not there. */
class ChipTest {
  private static final Chip H200 = new Chip(90, 132);

  @Test
  @DisplayName("guards against a starved dW that is not split, and a full one that is")
  void split() {
    Plan full = Dxdw.planDw(H200, DType.BFLOAT16, 8192, 4096, 14336, 0, Reduction.DETERMINISTIC);
    assertEquals(1, full.split(), full::toString);
    assertTrue(full.tiles() > 132, full::toString);
    Plan starved = Dxdw.planDw(H200, DType.BFLOAT16, 32768, 512, 512, 0, Reduction.DETERMINISTIC);
    assertTrue(starved.tiles() < 132 && starved.split() > 1, starved::toString);
    assertTrue(starved.kernel().endsWith("+reduce"), starved::toString);
    assertTrue(starved.workspaceBytes() >= 4L * 512 * 512 * starved.split(), starved::toString);
    Plan atomic = Dxdw.planDw(H200, DType.BFLOAT16, 32768, 512, 512, 0, Reduction.ATOMIC);
    assertTrue(atomic.kernel().endsWith("+atomic"), atomic::toString);
  }

  @Test
  @DisplayName("plans differ from chip to chip and say why")
  void chips() {
    Plan hopper = Dxdw.planY(H200, DType.BFLOAT16, 4096, 4096, 4096);
    Plan ampere = Dxdw.planY(new Chip(80, 108), DType.BFLOAT16, 4096, 4096, 4096);
    assertEquals("sm_90", hopper.level());
    assertEquals("sm_80", ampere.level());
    assertTrue(hopper.kernel().startsWith("hopper"), hopper::toString);
    assertTrue(ampere.kernel().startsWith("mma"), ampere::toString);
    assertTrue(hopper.why().contains("waves"), hopper::toString);
    Plan plain = Dxdw.planDx(H200, DType.FLOAT32, 100, 200, 300);
    assertTrue(plain.kernel().startsWith("simt"), plain::toString);
    assertEquals("none", Dxdw.planY(H200, DType.FLOAT16, 0, 5, 7).kernel());
  }

  @Test
  @DisplayName("guards against impossible chips and shapes")
  void refused() {
    assertThrows(IllegalArgumentException.class, () -> new Chip(9, 132));
    assertThrows(IllegalArgumentException.class, () -> new Chip(90, 0));
    assertThrows(IllegalArgumentException.class, () -> Chip.of(Device.cpu()));
    assertThrows(DeviceException.class, () -> Chip.of(Device.cuda(1000)));
    assertThrows(IllegalArgumentException.class, () -> Dxdw.planY(null, DType.FLOAT32, 1, 1, 1));
    assertThrows(IllegalArgumentException.class, () -> Dxdw.planY(H200, null, 1, 1, 1));
    assertThrows(IllegalArgumentException.class, () -> Dxdw.planY(H200, DType.FLOAT32, -1, 1, 1));
    assertThrows(
        IllegalArgumentException.class,
        () -> Dxdw.planY(H200, DType.FLOAT32, 1L << 40, 1L << 40, 1));
    assertThrows(
        IllegalArgumentException.class,
        () -> Dxdw.planDw(H200, DType.FLOAT32, 4, 4, 4, 5, Reduction.ATOMIC));
  }
}
