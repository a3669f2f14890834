package io.github.dxdw;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Options do what they say, and the documented defaults are the real ones. */
class OptionsTest {
  @Test
  @DisplayName("guards against documentation and code that disagree about the defaults")
  void documentedDefaults() throws Exception {
    Path source =
        Path.of(System.getProperty("dxdw.test.root"))
            .resolve("java/dxdw/src/main/java/io/github/dxdw/Options.java");
    Matcher row =
        Pattern.compile("<tr><td>(\\w+)</td><td>(\\w+)").matcher(Files.readString(source));
    Map<String, String> documented = new TreeMap<>();
    while (row.find()) {
      documented.put(row.group(1), row.group(2));
    }
    Options defaults = Options.defaults();
    Map<String, String> real = new TreeMap<>();
    for (var component : Options.class.getRecordComponents()) {
      Object value = component.getAccessor().invoke(defaults);
      real.put(
          component.getName(),
          value instanceof java.util.Optional<?> optional
              ? optional.map(Object::toString).orElse("none")
              : value.toString());
    }
    assertEquals(real, documented);
    assertSame(defaults, Options.defaults());
  }

  @Test
  void withersChangeOneThing() {
    Options options = Options.defaults().withPrecision(Precision.TF32).withBatchInvariant(true);
    assertEquals(Precision.TF32, options.precision());
    assertTrue(options.batchInvariant());
    assertEquals(Accumulate.DEFAULT, options.accumulate());
    assertEquals(
        Options.defaults(), options.withPrecision(Precision.DEFAULT).withBatchInvariant(false));
  }

  @Test
  @DisplayName("guards against a shortcut of precision that nobody asked for")
  void float32StaysFloat32() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor dx = Tensor.allocate(arena, DType.FLOAT32, 1, 1);
      Tensor dy = Tensor.of(arena, new float[][] {{1024.5f}});
      Dxdw.dx(dy, Tensor.of(arena, new float[][] {{1}}), dx);
      assertEquals(1024.5f, dx.get(0, 0));
    }
  }

  @Test
  @DisplayName("guards against adding where assigning was asked for, and the reverse")
  void accumulation() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor one = Tensor.of(arena, new float[][] {{1}});
      Tensor two = Tensor.of(arena, new float[][] {{2}});
      Tensor out = Tensor.of(arena, new float[][] {{10}});
      Options add = Options.defaults().withAccumulate(Accumulate.ADD);
      Options assign = Options.defaults().withAccumulate(Accumulate.ASSIGN);
      Dxdw.dw(one, two, out);
      assertEquals(12, out.get(0, 0));
      Dxdw.y(one, two, out, add);
      assertEquals(14, out.get(0, 0));
      Dxdw.dx(one, two, out, add);
      assertEquals(16, out.get(0, 0));
      Dxdw.y(one, two, out);
      assertEquals(2, out.get(0, 0));
      out.fill(Float.NaN);
      Dxdw.dw(one, two, out);
      assertTrue(Float.isNaN(out.get(0, 0)), "adding to NaN leaves NaN");
      Dxdw.dw(one, two, out, 1, Reduction.DETERMINISTIC, assign);
      assertEquals(2, out.get(0, 0));
      Dxdw.dwReduce(two.reshape(1, 1, 1), out);
      assertEquals(4, out.get(0, 0));
      Dxdw.dwReduce(two.reshape(1, 1, 1), out, assign);
      assertEquals(2, out.get(0, 0));
    }
  }

  @Test
  @DisplayName("guards against a plan whose workspace is not what the call needs")
  void planTellsTheWorkspace() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor x = Tensor.allocate(arena, DType.FLOAT32, 64, 8);
      Tensor dw = Tensor.allocate(arena, DType.FLOAT32, 8, 8);
      x.fill(1);
      Plan plan =
          Dxdw.explainDw(x, x.copy(arena), dw, 4, Reduction.DETERMINISTIC, Options.defaults());
      assertEquals(4, plan.split());
      assertEquals(4L * 8 * 8 * Float.BYTES, plan.workspaceBytes());
      assertEquals(0, dw.get(0, 0), "explaining runs nothing");
      Options exact = Options.defaults().withWorkspace(arena.allocate(plan.workspaceBytes(), 64));
      Dxdw.dw(x, x.copy(arena), dw, 4, Reduction.DETERMINISTIC, exact);
      assertEquals(64, dw.get(7, 7));
      assertThrows(
          IllegalArgumentException.class,
          () ->
              Dxdw.dw(
                  x,
                  x.copy(arena),
                  dw,
                  4,
                  Reduction.DETERMINISTIC,
                  Options.defaults().withWorkspace(arena.allocate(plan.workspaceBytes() - 4, 64))));
      assertEquals(64, dw.get(7, 7));
    }
  }
}
