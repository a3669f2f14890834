package io.github.dxdw.packaging;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.IOException;
import java.lang.module.ModuleFinder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.jar.Attributes;
import java.util.jar.Manifest;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Every natives JAR that the build packed, whatever its platform. */
class NativesJarTest {
  private static final Set<String> SYSTEM_LIBRARIES =
      Set.of(
          "libc.so.6",
          "libm.so.6",
          "libpthread.so.0",
          "libdl.so.2",
          "librt.so.1",
          "ld-linux-x86-64.so.2",
          "ld-linux-aarch64.so.1");
  private static final Pattern GLIBC = Pattern.compile("GLIBC_(\\d+)\\.(\\d+)(\\.\\d+)?");
  private static final Pattern FUNCTION = Pattern.compile("(?m)^(?:\\w+ )+\\*?(\\w+)\\(");

  static Stream<String> platforms() throws IOException {
    return Build.natives().keySet().stream();
  }

  private static Path jar(String platform) throws IOException {
    return Build.natives().get(platform);
  }

  private static byte[] library(String platform) throws IOException {
    return Build.read(jar(platform), "META-INF/dxdw/" + platform + "/libdxdw.so");
  }

  @Test
  @DisplayName("guards against a build that packs no natives, or under a name that no one asks for")
  void platformOfTheBuild() throws IOException {
    Set<String> packed = Build.natives().keySet();
    assertTrue(packed.contains(Build.PLATFORM), packed.toString());
    assertTrue(
        Set.of("linux-x86_64", "linux-x86_64-cuda13", "linux-aarch_64").containsAll(packed),
        packed.toString());
  }

  @ParameterizedTest
  @MethodSource("platforms")
  @DisplayName("K13: guards against natives JARs that repeat classes, or bring other platforms")
  void holdsOneLibraryAndNoClasses(String platform) throws IOException {
    String folder = "META-INF/dxdw/" + platform + "/";
    assertEquals(
        List.of(
            "META-INF/LICENSE",
            "META-INF/MANIFEST.MF",
            folder + "libdxdw.so",
            folder + "libdxdw.so.sha256"),
        Build.names(jar(platform)));
  }

  @ParameterizedTest
  @MethodSource("platforms")
  @DisplayName("guards against a manifest without platform and CUDA, or a second module io.github")
  void manifest(String platform) throws IOException {
    Attributes manifest =
        new Manifest(new ByteArrayInputStream(Build.read(jar(platform), "META-INF/MANIFEST.MF")))
            .getMainAttributes();
    assertEquals(platform, manifest.getValue("Dxdw-Platform"));
    assertEquals("2.28", manifest.getValue("Dxdw-Glibc"));
    assertEquals(Build.VERSION, manifest.getValue("Implementation-Version"));
    String cuda = manifest.getValue("Dxdw-CUDA");
    if (platform.endsWith("-cuda13")) {
      assertTrue(cuda.matches("13\\.[0-9.]+ \\(.*sm_80.*sm_90a.*\\)"), cuda);
    } else if (!platform.equals(Build.PLATFORM)) {
      // The build folder of this machine's own library may have been given CUDA by hand.
      assertEquals("none", cuda);
    }
    String module = ModuleFinder.of(jar(platform)).findAll().iterator().next().descriptor().name();
    assertEquals("io.github.dxdw.natives." + platform.replace('-', '_'), module);
  }

  @ParameterizedTest
  @MethodSource("platforms")
  @DisplayName("K16: guards against a library of another processor under the platform's name")
  void processor(String platform) throws IOException {
    int expected = platform.startsWith("linux-x86_64") ? Elf.X86_64 : Elf.AARCH64;
    assertEquals(expected, Elf.read(library(platform)).machine());
  }

  @ParameterizedTest
  @MethodSource("platforms")
  @DisplayName("K5: guards against a link to CUDA or to libraries that not every machine has")
  void neededLibraries(String platform) throws IOException {
    Elf elf = Elf.read(library(platform));
    assertTrue(elf.needed().contains("libc.so.6"), elf.needed().toString());
    Set<String> others = new TreeSet<>(elf.needed());
    others.removeAll(SYSTEM_LIBRARIES);
    assertEquals(Set.of(), others);
    assertFalse(elf.searchPath(), "a search path of the build machine is in it");
    assertFalse(elf.executableStack());
  }

  @ParameterizedTest
  @MethodSource("platforms")
  @DisplayName("K4: guards against a library that needs a newer glibc than promised")
  void glibc(String platform) throws IOException {
    Set<String> versions = Elf.read(library(platform)).versions();
    int counted = 0;
    for (String version : versions) {
      Matcher glibc = GLIBC.matcher(version);
      assertTrue(glibc.matches(), "asks for " + version);
      int number = Integer.parseInt(glibc.group(1)) * 1000 + Integer.parseInt(glibc.group(2));
      assertTrue(number <= 2028, "asks for " + version);
      ++counted;
    }
    assertTrue(counted > 0, "no version found");
  }

  @ParameterizedTest
  @MethodSource("platforms")
  @DisplayName("guards against a packed library whose names are not those of the header")
  void exports(String platform) throws IOException {
    Set<String> declared = new TreeSet<>();
    Matcher function =
        FUNCTION.matcher(Build.text("native/include/dxdw.h").replaceAll("(?s)/\\*.*?\\*/", ""));
    while (function.find()) {
      declared.add(function.group(1));
    }
    assertTrue(declared.size() > 40, declared.toString());
    assertEquals(declared, Elf.read(library(platform)).exported());
  }

  @ParameterizedTest
  @MethodSource("platforms")
  @DisplayName("guards against a hash that is not the library's")
  void hash(String platform) throws Exception {
    byte[] sum = MessageDigest.getInstance("SHA-256").digest(library(platform));
    byte[] packed = Build.read(jar(platform), "META-INF/dxdw/" + platform + "/libdxdw.so.sha256");
    assertEquals(
        HexFormat.of().formatHex(sum), new String(packed, StandardCharsets.US_ASCII).strip());
  }

  @Test
  @DisplayName("guards against two platforms with one library")
  void differ() throws IOException {
    Map<String, Path> natives = Build.natives();
    Set<String> hashes = new TreeSet<>();
    for (String platform : natives.keySet()) {
      hashes.add(
          new String(
              Build.read(natives.get(platform), "META-INF/dxdw/" + platform + "/libdxdw.so.sha256"),
              StandardCharsets.US_ASCII));
    }
    assertEquals(natives.size(), hashes.size());
  }

  static Stream<String> platformsOfThisMachine() throws IOException {
    return platforms().filter(platform -> platform.startsWith(Build.PLATFORM));
  }

  @ParameterizedTest
  @MethodSource("platformsOfThisMachine")
  @DisplayName("K5: guards against JARs, as packed, that need a GPU or can't say why there is none")
  void computesWithoutGpu(String platform, @TempDir Path folder) throws Exception {
    Path program =
        Files.writeString(
            folder.resolve("Program.java"),
            """
            import io.github.dxdw.*;
            import java.lang.foreign.Arena;

            public class Program {
              public static void main(String[] arguments) {
                try (Arena arena = Arena.ofConfined()) {
                  Tensor x = Tensor.of(arena, new float[][] {{1, 2}, {3, 4}});
                  Tensor dW = Tensor.allocate(arena, DType.FLOAT32, 2, 2);
                  Dxdw.dw(x, x, dW);
                  System.out.println(java.util.Arrays.toString(dW.toFloatArray()));
                }
                Device gpu = Device.cuda(0);
                System.out.println(gpu.isAvailable() || !gpu.unavailabilityCause().isEmpty());
                System.out.println(Device.cuda(4711).unavailabilityCause());
              }
            }
            """);
    Path output = folder.resolve("output");
    Process process =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "--enable-native-access=ALL-UNNAMED",
                "-Ddxdw.cache=" + folder.resolve("cache"),
                "-Djava.library.path=" + folder,
                "-cp",
                Build.api("") + File.pathSeparator + jar(platform),
                program.toString())
            .redirectErrorStream(true)
            .redirectOutput(output.toFile())
            .start();
    assertEquals(0, process.waitFor(), () -> text(output));
    List<String> lines = Files.readAllLines(output);
    assertEquals(3, lines.size(), lines.toString());
    assertEquals("[10.0, 14.0, 14.0, 20.0]", lines.get(0));
    assertEquals("true", lines.get(1));
    assertFalse(lines.get(2).isEmpty());
  }

  private static String text(Path file) {
    try {
      return Files.readString(file);
    } catch (IOException e) {
      return e.toString();
    }
  }
}
