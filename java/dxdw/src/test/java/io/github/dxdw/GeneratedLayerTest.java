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
import java.lang.foreign.AddressLayout;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
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

  /** The name of a layout among the linker's canonical ones. */
  private static String canonicalName(MemoryLayout layout) {
    return switch (layout) {
      case ValueLayout.OfInt i -> "int";
      case ValueLayout.OfLong l -> "long";
      case ValueLayout.OfFloat f -> "float";
      case ValueLayout.OfDouble d -> "double";
      case AddressLayout a -> "void*";
      default -> throw new AssertionError(layout);
    };
  }

  private static String entry(FunctionDescriptor descriptor) {
    return "{\"returnType\": \"%s\", \"parameterTypes\": [%s]}"
        .formatted(
            descriptor.returnLayout().map(GeneratedLayerTest::canonicalName).orElse("void"),
            descriptor.argumentLayouts().stream()
                .map(layout -> '"' + canonicalName(layout) + '"')
                .collect(Collectors.joining(", ")));
  }

  /** What the library calls past the generated layer: the loader's question, the C library. */
  private static Set<String> callsOfOurOwn() throws IOException {
    Pattern descriptor = Pattern.compile("FunctionDescriptor\\s*\\.of(Void)?\\(([^)]*)\\)");
    Map<String, String> names =
        Map.of("ValueLayout.JAVA_INT", "int", "ValueLayout.JAVA_LONG", "long");
    Set<String> calls = new TreeSet<>();
    try (var files = Files.walk(ROOT.resolve("java/dxdw/src/main/java"))) {
      for (Path file : files.filter(Files::isRegularFile).toList()) {
        Matcher found = descriptor.matcher(Files.readString(file));
        while (found.find()) {
          List<String> types = new ArrayList<>();
          for (String layout : found.group(2).strip().split("\\s*,\\s*")) {
            types.add(Objects.requireNonNull(names.get(layout), file + ": " + layout));
          }
          String result = found.group(1) == null ? types.removeFirst() : "void";
          types.replaceAll(type -> '"' + type + '"');
          calls.add(
              "{\"returnType\": \"%s\", \"parameterTypes\": [%s]}"
                  .formatted(result, String.join(", ", types)));
        }
      }
    }
    assertTrue(calls.contains("{\"returnType\": \"int\", \"parameterTypes\": []}"), "the loader's");
    return calls;
  }

  @Test
  @DisplayName("K15: guards against a call or a resource that native-image is not told of")
  void reachabilityMetadata() throws Exception {
    String metadata =
        Files.readString(
            ChildJvm.CLASSES.resolve(
                "META-INF/native-image/io.github.dxdw/dxdw/reachability-metadata.json"));
    Set<String> calls = new TreeSet<>();
    for (Method method : dxdw_h.class.getMethods()) {
      if (method.getName().endsWith("$descriptor")) {
        calls.add(entry((FunctionDescriptor) method.invoke(null)));
      }
    }
    calls.addAll(callsOfOurOwn());
    Set<String> listed =
        metadata
            .lines()
            .map(String::strip)
            .filter(line -> line.startsWith("{\"returnType\""))
            .map(line -> line.replaceAll(",$", ""))
            .collect(Collectors.toCollection(TreeSet::new));
    assertEquals(calls, listed, "run bindings/generate");
    assertTrue(metadata.contains("\"META-INF/dxdw/**\""), metadata);
    assertTrue(metadata.contains("\"io/github/dxdw/internal/version.properties\""), metadata);
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
