package io.github.dxdw.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.dxdw.Dxdw;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

class SoakTest {

  @Test
  @DisplayName("J12: 16 threads with mixed calls hang, or differ from a lone caller")
  void sixSeconds() {
    int threads = Dxdw.threads();
    Invocation run = Invocation.of("soak", "--minutes", "0.1", "--threads", "16");
    assertEquals("", run.err());
    assertEquals(0, run.status());
    String last = run.out().strip().lines().reduce((first, second) -> second).orElseThrow();
    assertTrue(last.matches("\\d{3,} calls from 16 threads, each result as a .*"), last);
    assertEquals(22, run.out().strip().lines().count(), run.out());
    assertEquals(threads, Dxdw.threads());
  }
}
