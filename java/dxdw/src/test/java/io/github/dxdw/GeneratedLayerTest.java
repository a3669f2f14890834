package io.github.dxdw;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.dxdw.bindings.dxdw_h;
import io.github.dxdw.bindings.dxdw_tensor;
import java.io.IOException;
import java.io.Reader;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Properties;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** The generated layer alone: when these pass and others fail, the fault lies above it. */
class GeneratedLayerTest {
  private static final Path ROOT = Path.of(System.getProperty("dxdw.test.root"));

  @BeforeAll
  static void load() {
    assertTrue(Dxdw.isAvailable(), () -> Dxdw.unavailabilityCause().toString());
  }

  private static Properties origin() throws IOException {
    Properties origin = new Properties();
    try (Reader in = Files.newBufferedReader(ROOT.resolve("bindings/GENERATED.properties"))) {
      origin.load(in);
    }
    return origin;
  }

  @Test
  @DisplayName("guards against a header that changed after the binding was generated")
  void bindingIsOfThisHeader() throws Exception {
    byte[] header = Files.readAllBytes(ROOT.resolve("native/include/dxdw.h"));
    String hash = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(header));
    assertEquals(hash, origin().getProperty("header.sha256"), "run bindings/generate");
    assertEquals("22", origin().getProperty("jextract.version"));
  }

  @Test
  @DisplayName("guards against calls that JDK 22 lacks in the generated sources")
  void generatedSourcesNeedNoLaterJdk() throws IOException {
    try (var files = Files.walk(ROOT.resolve("bindings/java"))) {
      for (Path file : files.filter(Files::isRegularFile).toList()) {
        assertFalse(Files.readString(file).contains("SymbolLookup.findOrThrow"), file.toString());
      }
    }
  }

  @Test
  @DisplayName("guards against functions of the header that the library does not export")
  void everyGeneratedSymbolResolves() throws Exception {
    List<Method> addresses =
        Arrays.stream(dxdw_h.class.getMethods())
            .filter(method -> method.getName().endsWith("$address"))
            .toList();
    List<String> names = Files.readAllLines(ROOT.resolve("bindings/symbols.txt"));
    long functions = names.stream().filter(line -> line.startsWith("--include-function")).count();
    assertEquals(functions, addresses.size());
    for (Method address : addresses) {
      MemorySegment symbol = (MemorySegment) address.invoke(null);
      assertNotEquals(0, symbol.address(), address.getName());
    }
  }

  @Test
  @DisplayName("guards against functions of the header that the symbol list forgot")
  void symbolListIsComplete() throws IOException {
    String header = Files.readString(ROOT.resolve("native/include/dxdw.h"));
    String bare = header.replaceAll("(?s)/\\*.*?\\*/", "");
    List<String> names = Files.readAllLines(ROOT.resolve("bindings/symbols.txt"));
    var declared = java.util.regex.Pattern.compile("(?m)^(?:\\w+ )+\\*?(\\w+)\\(").matcher(bare);
    int count = 0;
    while (declared.find()) {
      assertTrue(names.contains("--include-function " + declared.group(1)), declared.group(1));
      ++count;
    }
    assertTrue(count > 40, "found only " + count + " functions in the header");
  }

  private static MemorySegment tensor(Arena arena, MemorySegment data, long... shape) {
    MemorySegment tensor = arena.allocate(dxdw_tensor.layout());
    dxdw_tensor.data(tensor, data);
    dxdw_tensor.device_type(tensor, 1);
    dxdw_tensor.ndim(tensor, shape.length);
    dxdw_tensor.dtype_code(tensor, (byte) 2);
    dxdw_tensor.dtype_bits(tensor, (byte) 32);
    dxdw_tensor.dtype_lanes(tensor, (short) 1);
    dxdw_tensor.shape(tensor, arena.allocateFrom(ValueLayout.JAVA_LONG, shape));
    return tensor;
  }

  @Test
  @DisplayName("guards against a descriptor that the native side reads differently")
  void productByHand() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment x = arena.allocateFrom(ValueLayout.JAVA_FLOAT, 1, 2, 3, 4, 5, 6);
      MemorySegment w = arena.allocateFrom(ValueLayout.JAVA_FLOAT, 1, 10, 2, 20, 3, 30);
      MemorySegment y = arena.allocate(ValueLayout.JAVA_FLOAT, 4);
      int status =
          dxdw_h.y_launch(
              tensor(arena, x, 2, 3),
              tensor(arena, w, 3, 2),
              tensor(arena, y, 2, 2),
              MemorySegment.NULL);
      assertEquals(0, status);
      assertArrayEquals(new float[] {14, 140, 32, 320}, y.toArray(ValueLayout.JAVA_FLOAT));
    }
  }

  @Test
  @DisplayName("guards against sizes, strides and offsets cut to 32 bits on their way")
  void longsArriveWhole() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment tensor =
          tensor(arena, MemorySegment.NULL, (1L << 33) + 1, (1L << 40) + 2, Long.MAX_VALUE);
      long[] strides = {-(1L << 34) - 3, 1L << 41, Long.MIN_VALUE};
      dxdw_tensor.strides(tensor, arena.allocateFrom(ValueLayout.JAVA_LONG, strides));
      dxdw_tensor.byte_offset(tensor, (1L << 35) + 5);
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG, 13);
      assertEquals(0, dxdw_h.dxdw_echo(tensor, out, 13));
      assertArrayEquals(
          new long[] {
            1,
            0,
            3,
            2,
            32,
            1,
            (1L << 35) + 5,
            (1L << 33) + 1,
            (1L << 40) + 2,
            Long.MAX_VALUE,
            -(1L << 34) - 3,
            1L << 41,
            Long.MIN_VALUE
          },
          out.toArray(ValueLayout.JAVA_LONG));
    }
  }
}
