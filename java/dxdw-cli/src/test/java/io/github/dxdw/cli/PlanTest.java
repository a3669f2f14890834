package io.github.dxdw.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

class PlanTest {

  @Test
  @DisplayName("Guards against a plan without tiles, waves, or the T from which slices pay")
  void starvedLayer() {
    Invocation run = Invocation.of("plan", "32768", "512", "512");
    assertEquals(0, run.status(), run.err());
    String dw = run.after("dW = X^T dY");
    assertTrue(dw.matches("hopper_\\w+\\+reduce: \\d+ tiles, \\d+ slices, .* waves, .* MB"), dw);
    assertTrue(run.after("Y  = X W").contains(" 1 slices"), run.out());
    String crossover = run.after("dW in one piece has ");
    assertTrue(crossover.matches("\\d+ tiles for 132 .* begin to pay at T = \\d+ .*"), crossover);
  }

  @Test
  @DisplayName("Guards against slices for a dW whose tiles fill the GPU")
  void fullLayer() {
    Invocation run = Invocation.of("plan", "8192", "4096", "14336", "--sms", "108");
    assertEquals(0, run.status(), run.err());
    assertTrue(run.after("dW = X^T dY").contains(" 1 slices"), run.out());
    assertTrue(run.out().contains("108 multiprocessors"), run.out());
  }
}
