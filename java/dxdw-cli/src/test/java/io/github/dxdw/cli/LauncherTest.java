package io.github.dxdw.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Runs a copy of the launcher in a folder of its own, with a PATH that holds nothing but what a
 * test puts there. JDKs and Maven are scripts: the former print their arguments, the latter counts
 * its runs.
 */
class LauncherTest {

  private static final List<String> SYSTEM_TOOLS =
      List.of(
          "dirname", "readlink", "find", "mkdir", "touch", "mv", "grep", "tail", "cat", "flock");
  private static final String MAVEN =
      """
      #!/bin/bash
      echo maven >>runs
      mkdir -p java/dxdw/target java/dxdw-cli/target native/target
      touch java/dxdw-cli/target/dxdw-cli-0.jar
      echo "$PWD/pom.xml" >java/dxdw-cli/target/classpath.txt
      """;
  private static final String CMAKE =
      """
      #!/bin/bash
      [[ $1 == --build ]] || exit 0
      echo cmake >>"${2%/build}/runs"
      touch "$2/libdxdw.so"
      """;

  @TempDir private Path folder;
  private Path root;
  private Path bin;
  private Path jdks;

  @BeforeEach
  void copyTheLauncher() throws IOException {
    root = Files.createDirectories(folder.resolve("a checkout"));
    bin = Files.createDirectories(folder.resolve("bin"));
    jdks = Files.createDirectories(folder.resolve("jdks"));
    Files.copy(
        Path.of(System.getProperty("dxdw.test.root"), "dxdw"),
        root.resolve("dxdw"),
        StandardCopyOption.COPY_ATTRIBUTES);
    for (String source :
        List.of(
            "native/cpu",
            "bindings/java",
            "java/dxdw/src/main",
            "java/dxdw-natives",
            "java/dxdw-cli/src/main")) {
      Files.createDirectories(root.resolve(source));
    }
    for (String source :
        List.of(
            "pom.xml",
            "CMakeLists.txt",
            "native/cpu/kernel.cpp",
            "java/dxdw/pom.xml",
            "java/dxdw-natives/pom.xml",
            "java/dxdw-cli/pom.xml",
            "java/dxdw-cli/src/main/Main.java")) {
      Files.createFile(root.resolve(source));
    }
    for (String tool : SYSTEM_TOOLS) {
      Path found =
          Stream.of("/usr/bin", "/bin")
              .map(place -> Path.of(place, tool))
              .filter(Files::isExecutable)
              .findFirst()
              .orElseThrow(() -> new AssertionError(tool + " is not installed"));
      tool(tool, "#!/bin/sh\nexec " + found + " \"$@\"\n");
    }
  }

  @Test
  @DisplayName(
      "Guards against a start that fails with something else than one line that names all that is"
          + " missing")
  void namesAllThatIsMissing() throws Exception {
    Invocation run = launch(Map.of(), "info");
    assertEquals(1, run.status());
    assertEquals("", run.out());
    assertEquals(
        List.of(
            "dxdw: not built yet, and to build it these are missing: a JDK 22 or later (JAVA_HOME,"
                + " java on the PATH, "
                + jdks
                + "), Maven (mvn), CMake (cmake), a C++ compiler (c++, g++ or clang++)"),
        run.errorLines());
  }

  @Test
  void namesTheCompilerThatCxxAsksFor() throws Exception {
    jdk("25", "25.0.1");
    tool("mvn", MAVEN);
    tool("cmake", "#!/bin/sh\n");
    tool("c++", "#!/bin/sh\n");
    Invocation run = launch(Map.of("CXX", "icpx -O2"), "info");
    assertEquals(
        List.of(
            "dxdw: not built yet, and to build it these are missing: the C++ compiler that CXX"
                + " names (icpx -O2)"),
        run.errorLines());
  }

  @Test
  @DisplayName(
      "Guards against a JDK 17 that is taken because it is the default, or a runtime without"
          + " compiler")
  void anOldJdkDoesNotCount() throws Exception {
    buildTools();
    Path old = jdk("17", "17.0.9");
    Files.delete(jdk("25-jre", "25").resolve("bin/javac"));
    Files.createSymbolicLink(bin.resolve("java"), old.resolve("bin/java"));
    Invocation run = launch(Map.of("JAVA_HOME", old.toString()), "info");
    assertEquals(1, run.status());
    assertEquals(1, run.errorLines().size(), run.err());
    assertTrue(run.err().contains("missing: a JDK 22 or later ("), run.err());
  }

  @Test
  void takesTheJdkOfTheUserElseTheNewest() throws Exception {
    buildTools();
    jdk("22", "22.0.2");
    jdk("x", "25");
    jdk("24", "24.0.1");
    Path old = jdk("8", "1.8.0_402");
    assertEquals("x", launch(Map.of("JAVA_HOME", old.toString())).lines().getFirst());
    assertEquals(
        "24", launch(Map.of("JAVA_HOME", jdks.resolve("24").toString())).lines().getFirst());
    Files.createSymbolicLink(bin.resolve("java"), jdks.resolve("22/bin/java"));
    assertEquals("22", launch(Map.of("JAVA_HOME", old.toString())).lines().getFirst());
  }

  @Test
  @DisplayName(
      "Guards against Maven running at each start, and against a build that misses a changed"
          + " source")
  void buildsOnceAndAgainWhenASourceChanges() throws Exception {
    buildTools();
    jdk("25", "25");
    Invocation first = launch(Map.of(), "train", "two words");
    assertEquals(0, first.status(), first.err());
    assertEquals(List.of("dxdw: building..."), first.errorLines());
    assertEquals(List.of("25", "io.github.dxdw.cli.Main", "train", "two words"), first.lines());
    Invocation second = launch(Map.of(), "train");
    assertEquals("", second.err());
    assertEquals(List.of("cmake", "maven"), runs());

    for (Map.Entry<String, String> change :
        Map.of(
                "native/cpu/kernel.cpp", "cmake",
                "CMakeLists.txt", "cmake",
                "java/dxdw-cli/src/main/Main.java", "maven",
                "pom.xml", "maven")
            .entrySet()) {
      List<String> expected = Stream.concat(runs().stream(), Stream.of(change.getValue())).toList();
      touch(root.resolve(change.getKey()));
      launch(Map.of(), "info");
      launch(Map.of(), "info");
      assertEquals(expected, runs(), change.getKey());
    }
    List<String> before = runs();
    Files.delete(root.resolve("build/libdxdw.so"));
    launch(Map.of(), "info");
    assertEquals(
        Stream.concat(before.stream(), Stream.of("cmake")).toList(),
        runs(),
        "the library was gone");
  }

  @Test
  @DisplayName("Guards against a failed build that ends in pages of output, or that counts as done")
  void aFailedBuildIsOneLine() throws Exception {
    buildTools();
    jdk("25", "25");
    tool(
        "mvn",
        "#!/bin/sh\n"
            + "echo '[ERROR] COMPILATION ERROR :'; echo '[ERROR] Main.java:[3,1] no such thing';"
            + " echo '[ERROR] more'; exit 1\n");
    for (int i = 0; i < 2; i++) {
      Invocation run = launch(Map.of(), "info");
      assertEquals(1, run.status());
      assertEquals(
          List.of(
              "dxdw: building...",
              "dxdw: the build failed (all of it: "
                  + root
                  + "/build/launcher/java.log): Main.java:[3,1] no such thing"),
          run.errorLines());
    }
  }

  @Test
  @DisplayName(
      "Guards against benchmarks without the optimising compiler, without the libraries to compare"
          + " with, or with these slowed down by the user's settings")
  void benchTakesTheBenchmarksThatWereBuilt() throws Exception {
    buildTools();
    Path home = jdk("25", "25");
    script(
        home.resolve("bin/java"),
        "#!/bin/bash\necho \"$*\"; echo \"core ${OPENBLAS_CORETYPE-unset}\"\n");
    Map<String, String> environment = Map.of("OPENBLAS_CORETYPE", "Prescott");
    List<String> without = launch(environment, "bench", "cpu").lines();
    assertTrue(without.getFirst().endsWith(" io.github.dxdw.cli.Main bench cpu"));
    assertFalse(without.getFirst().contains("dxdw-bench"), without.getFirst());
    assertFalse(without.getFirst().contains("TieredStopAtLevel"), without.getFirst());
    assertEquals("core unset", without.getLast());
    Path target = Files.createDirectories(root.resolve("java/dxdw-bench/target"));
    Files.createFile(target.resolve("dxdw-bench-0.jar"));
    Files.writeString(target.resolve("classpath.txt"), "/some/peer.jar");
    List<String> with = launch(environment, "bench", "cpu").lines();
    assertTrue(with.getFirst().contains(target + "/dxdw-bench-0.jar:"), with.getFirst());
    assertTrue(with.getFirst().contains(":/some/peer.jar"), with.getFirst());
    List<String> info = launch(environment, "info").lines();
    assertFalse(info.getFirst().contains("dxdw-bench"), info.getFirst());
    assertEquals("core Prescott", info.getLast());
  }

  @Test
  @DisplayName("Guards against names that are not ASCII and can't be found in the plain locale")
  void takesUtf8WhereNoLocaleIsSet() throws Exception {
    buildTools();
    script(jdk("25", "25").resolve("bin/java"), "#!/bin/bash\necho \"${LC_ALL-unset}\"\n");
    assertEquals(List.of("C.UTF-8"), launch(Map.of(), "info").lines());
    assertEquals(List.of("C.UTF-8"), launch(Map.of("LANG", "C"), "info").lines());
    assertEquals(List.of("C.UTF-8"), launch(Map.of("LC_ALL", "POSIX"), "info").lines());
    assertEquals(List.of("unset"), launch(Map.of("LANG", "de_DE.UTF-8"), "info").lines());
    assertEquals(List.of("tr_TR.UTF-8"), launch(Map.of("LC_ALL", "tr_TR.UTF-8"), "info").lines());
  }

  @Test
  void startsThroughALink() throws Exception {
    buildTools();
    jdk("25", "25");
    Path link = Files.createSymbolicLink(folder.resolve("link"), root.resolve("dxdw"));
    Invocation run = launch(link, Map.of(), "info");
    assertEquals(List.of("25", "io.github.dxdw.cli.Main", "info"), run.lines());
  }

  private void buildTools() throws IOException {
    tool("mvn", MAVEN);
    tool("cmake", CMAKE);
    tool("g++", "#!/bin/sh\n");
  }

  /** A JDK whose java prints the folder's name, then the main class and its arguments. */
  private Path jdk(String name, String version) throws IOException {
    Path home = Files.createDirectories(jdks.resolve(name));
    Files.createDirectories(home.resolve("bin"));
    Files.writeString(
        home.resolve("release"), "IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"" + version + "\"\n");
    script(home.resolve("bin/javac"), "#!/bin/sh\n");
    script(
        home.resolve("bin/java"),
        "#!/bin/bash\necho "
            + name
            + "\nwhile [[ $1 != io.* ]]; do shift; done\nprintf '%s\\n' \"$@\"\n");
    return home;
  }

  private void tool(String name, String text) throws IOException {
    script(bin.resolve(name), text);
  }

  private static void script(Path file, String text) throws IOException {
    Files.writeString(file, text);
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rwxr-xr-x"));
  }

  /** Changes a file, and waits until the change is in the past. */
  private static void touch(Path file) throws Exception {
    Files.setLastModifiedTime(file, FileTime.from(Instant.now()));
    Thread.sleep(20);
  }

  private List<String> runs() throws IOException {
    return Files.readAllLines(root.resolve("runs"));
  }

  private Invocation launch(Map<String, String> environment, String... arguments) throws Exception {
    return launch(root.resolve("dxdw"), environment, arguments);
  }

  private Invocation launch(Path launcher, Map<String, String> environment, String... arguments)
      throws Exception {
    ProcessBuilder builder =
        new ProcessBuilder(
            Stream.concat(Stream.of("/bin/bash", launcher.toString()), Stream.of(arguments))
                .toList());
    builder.environment().clear();
    builder.environment().put("PATH", bin.toString());
    builder.environment().put("HOME", folder.toString());
    builder.environment().put("DXDW_JDKS", jdks.toString());
    builder.environment().putAll(environment);
    Path out = folder.resolve("out");
    Path err = folder.resolve("err");
    Process process = builder.redirectOutput(out.toFile()).redirectError(err.toFile()).start();
    assertTrue(process.waitFor(1, TimeUnit.MINUTES));
    return new Invocation(
        process.exitValue(),
        Files.readString(out, StandardCharsets.UTF_8),
        Files.readString(err, StandardCharsets.UTF_8));
  }
}
