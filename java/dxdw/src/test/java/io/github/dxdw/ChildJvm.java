package io.github.dxdw;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** A JVM of its own, with home, temporary files and library path of a test's folder. */
public final class ChildJvm {
  public static final Path CLASSES = Path.of(System.getProperty("dxdw.test.classes"));
  public static final Path TEST_CLASSES = CLASSES.resolveSibling("test-classes");
  public static final Path NATIVES = Path.of(System.getProperty("dxdw.test.natives"));
  public static final Path LIBRARY = Path.of(System.getProperty("dxdw.library"));

  /** What a JVM left behind. */
  public record Result(int exit, String out, String err) {}

  private final Path folder;
  private final List<String> command = new ArrayList<>();

  public ChildJvm(Path folder) throws IOException {
    this.folder = folder;
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.add("-XX:TieredStopAtLevel=1");
    command.add("-Djava.io.tmpdir=" + Files.createDirectories(folder.resolve("tmp")));
    command.add("-Duser.home=" + Files.createDirectories(folder.resolve("home")));
    command.add("-Djava.library.path=" + Files.createDirectories(folder.resolve("nothing")));
    if (Runtime.version().feature() >= 24) {
      command.add("--illegal-native-access=deny");
    }
  }

  /** As users start it: what needs native access and was not granted it is only warned of. */
  public ChildJvm withoutFlags() {
    command.remove("--illegal-native-access=deny");
    return this;
  }

  /** Adds options, a main class and its arguments. */
  public ChildJvm with(String... options) {
    command.addAll(Arrays.asList(options));
    return this;
  }

  /** Puts a command in front, as of another namespace. */
  public ChildJvm behind(String... wrapper) {
    command.addAll(0, Arrays.asList(wrapper));
    return this;
  }

  /** The library, and what else is named, on the class path, with native access granted. */
  public ChildJvm onClassPath(Path... more) {
    return with("--enable-native-access=ALL-UNNAMED").withClassPath(more);
  }

  /** As {@link #onClassPath}, without native access. */
  public ChildJvm withClassPath(Path... more) {
    return with("-cp", join(CLASSES, TEST_CLASSES) + join(File.pathSeparator, more));
  }

  /** The library, and what else is named, on the module path; the probe on the class path. */
  public ChildJvm onModulePath(Path... more) {
    return with(
        "-p",
        CLASSES + join(File.pathSeparator, more),
        "--add-modules=io.github.dxdw",
        "-cp",
        TEST_CLASSES.toString());
  }

  private static String join(Path first, Path second) {
    return first + File.pathSeparator + second;
  }

  private static String join(String before, Path[] paths) {
    StringBuilder text = new StringBuilder();
    for (Path path : paths) {
      text.append(before).append(path);
    }
    return text.toString();
  }

  /** Starts it; {@link #finish} takes what it leaves. */
  public Process start(String name) throws IOException {
    ProcessBuilder builder = new ProcessBuilder(command);
    builder
        .environment()
        .keySet()
        .removeAll(List.of("XDG_CACHE_HOME", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"));
    builder.directory(folder.toFile());
    builder.redirectOutput(folder.resolve(name + ".out").toFile());
    builder.redirectError(folder.resolve(name + ".err").toFile());
    return builder.start();
  }

  public Result finish(String name, Process process) throws IOException, InterruptedException {
    if (!process.waitFor(120, TimeUnit.SECONDS)) {
      process.destroyForcibly();
      throw new AssertionError(
          "hangs: "
              + command
              + "\n"
              + Files.readString(folder.resolve(name + ".out"))
              + Files.readString(folder.resolve(name + ".err")));
    }
    return new Result(
        process.exitValue(),
        Files.readString(folder.resolve(name + ".out"), StandardCharsets.UTF_8),
        Files.readString(folder.resolve(name + ".err"), StandardCharsets.UTF_8));
  }

  /** Runs the probe of the tests. */
  public Result probe(String what) throws IOException, InterruptedException {
    with("probe.Probe", what);
    return finish("child", start("child"));
  }
}
