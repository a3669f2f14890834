package io.github.dxdw.parity;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.dxdw.Accumulate;
import io.github.dxdw.DType;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Options;
import io.github.dxdw.Reduction;
import io.github.dxdw.Tensor;
import io.github.dxdw.bindings.dxdw_h;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/**
 * Runs a small program of this class in a JVM of its own and returns what it printed. Its
 * environment is empty, but for the cap on the SIMD level under which the tests themselves run, and
 * the encoding of file names.
 */
final class FreshJvm {
  private static final Set<String> KEPT =
      Set.of("DXDW_SIMD", "LC_ALL", "LC_CTYPE", "LANG", "LOCPATH");

  private FreshJvm() {}

  /**
   * Standard output of {@code main(program)}; fails when it ended badly or wrote to standard error.
   */
  static String run(String program, String... jvmOptions) throws IOException, InterruptedException {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(Arrays.asList(jvmOptions));
    command.add("--enable-native-access=ALL-UNNAMED");
    command.add("-Xmx256m");
    String library = System.getProperty("dxdw.library");
    if (library != null) {
      command.add("-Ddxdw.library=" + library);
    }
    command.add("-cp");
    command.add(root(FreshJvm.class) + ":" + root(Dxdw.class));
    command.add(FreshJvm.class.getName());
    command.add(program);
    Path out = Files.createTempFile("fresh", ".out");
    Path err = Files.createTempFile("fresh", ".err");
    try {
      ProcessBuilder builder =
          new ProcessBuilder(command).redirectOutput(out.toFile()).redirectError(err.toFile());
      builder.environment().keySet().retainAll(KEPT);
      Process process = builder.start();
      assertTrue(process.waitFor(120, TimeUnit.SECONDS), "the JVM hangs");
      assertEquals("", Files.readString(err), "standard error");
      assertEquals(0, process.exitValue());
      return Files.readString(out);
    } finally {
      Files.delete(out);
      Files.delete(err);
    }
  }

  private static Path root(Class<?> type) {
    String name = type.getName().replace('.', '/') + ".class";
    String found = String.valueOf(type.getClassLoader().getResource(name));
    String path = found.substring("file:".length(), found.length() - name.length());
    return Path.of(java.net.URLDecoder.decode(path.replace("+", "%2B"), StandardCharsets.UTF_8));
  }

  public static void main(String[] arguments) {
    try (Arena arena = Arena.ofConfined()) {
      switch (arguments[0]) {
        case "first-call" -> firstCalls(arena);
        case "hash" -> System.out.println(hash(arena));
        case "odd-strides" -> oddStrides(arena);
        case "scratch" -> System.out.println(scratch(arena));
        default -> throw new IllegalArgumentException(arguments[0]);
      }
    }
  }

  /** dW added to ones by the first, second, ... tenth call of a JVM. */
  private static void firstCalls(Arena arena) {
    Tensor x = Tensors.constant(arena, DType.FLOAT32, 1, 100, 40);
    Tensor dy = Tensors.constant(arena, DType.FLOAT32, 0.5f, 100, 30);
    for (int call = 0; call < 10; call++) {
      Tensor dw = Tensors.constant(arena, DType.FLOAT32, 1, 40, 30);
      Dxdw.dw(x, dy, dw, 0, Reduction.DETERMINISTIC, Options.defaults());
      float[] values = dw.toFloatArray();
      for (float value : values) {
        if (value != values[0]) {
          throw new IllegalStateException("call " + call + " differs inside");
        }
      }
      System.out.println(values[0]);
    }
  }

  /** A hash of the bits of deterministic results. */
  static int hash(Arena arena) {
    int hash = 1;
    for (DType type : Bits.FLOATS) {
      Tensor x = Tensors.random(arena, 1, type, 1000, 70);
      Tensor dy = Tensors.random(arena, 2, type, 1000, 90);
      Tensor dw = Tensors.constant(arena, DType.FLOAT32, 0.25f, 70, 90);
      for (int split : new int[] {0, 1, 8}) {
        Dxdw.dw(
            x,
            dy,
            dw,
            split,
            Reduction.DETERMINISTIC,
            Options.defaults().withAccumulate(Accumulate.ADD));
        MemorySegment bits = dw.segment();
        hash = 31 * hash + Arrays.hashCode(bits.toArray(ValueLayout.JAVA_BYTE));
      }
    }
    return hash;
  }

  /** Bytes of scratch that the library has taken for two dW of 3000 x 3000 without split. */
  private static long scratch(Arena arena) {
    Tensor x = Tensors.constant(arena, DType.FLOAT32, 1, 8, 3000);
    Tensor dw = Tensor.allocate(arena, DType.FLOAT32, 3000, 3000);
    Dxdw.dw(x, x, dw, 1, Reduction.DETERMINISTIC, Options.defaults());
    Dxdw.dw(x, x, dw, 1, Reduction.ATOMIC, Options.defaults());
    return dxdw_h.dxdw_counter(dxdw_h.DXDW_COUNTER_SCRATCH_BYTES());
  }

  private static void oddStrides(Arena arena) {
    Tensor x = Tensors.random(arena, 1, DType.FLOAT32, 1, 9);
    for (long stride : new long[] {0, 1, -7, 999_999}) {
      Tensor odd =
          Tensor.of(
              x.segment(), DType.FLOAT32, new long[] {1, 9}, new long[] {stride, 1}, x.offset());
      Tensors.dw(arena, odd, Tensors.constant(arena, DType.FLOAT32, 1, 1, 1), DType.FLOAT32);
    }
  }
}
