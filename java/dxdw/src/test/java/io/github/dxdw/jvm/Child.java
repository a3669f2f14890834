package io.github.dxdw.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.dxdw.ChildJvm;
import io.github.dxdw.TestDevice;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** Runs {@link Programs} in a JVM of its own, on the device of the tests. */
final class Child {
  private final Path folder;
  private final List<String> options = new ArrayList<>();

  Child(Path folder) {
    this.folder = folder;
  }

  /** Adds options of the JVM; later ones win. */
  Child with(String... more) {
    options.addAll(List.of(more));
    return this;
  }

  /** As fast as it gets, at the price of a slower start. */
  Child optimised() {
    return with("-XX:TieredStopAtLevel=4");
  }

  /** A JVM that is not started yet. */
  ChildJvm jvm() throws IOException {
    return new ChildJvm(folder)
        .with("-Ddxdw.library=" + ChildJvm.LIBRARY, "-Ddxdw.device=" + TestDevice.NAME)
        .with(options.toArray(String[]::new));
  }

  /** Runs a program to its end and returns what it left. */
  ChildJvm.Result run(String... program) throws IOException, InterruptedException {
    TestDevice.get();
    ChildJvm jvm = jvm().onClassPath().with(Programs.class.getName()).with(program);
    return jvm.finish(program[0], jvm.start(program[0]));
  }

  /** Runs a program that ends well and prints nothing but results, whose lines are returned. */
  List<String> lines(String... program) throws IOException, InterruptedException {
    ChildJvm.Result result = run(program);
    assertEquals("", result.err());
    assertEquals(0, result.exit(), result.out());
    requireNoCrash(folder);
    return result.out().lines().toList();
  }

  /** The number that follows a name in such lines, the first of several. */
  static long figure(List<String> lines, String name) {
    for (String line : lines) {
      if (line.startsWith(name + " ")) {
        return Long.parseLong(line.substring(name.length() + 1));
      }
    }
    throw new AssertionError("no " + name + " in " + lines);
  }

  /** No JVM left the report of a crash. */
  static void requireNoCrash(Path folder) throws IOException {
    try (Stream<Path> files = Files.list(folder)) {
      assertTrue(files.noneMatch(file -> file.getFileName().toString().startsWith("hs_err")));
    }
  }
}
