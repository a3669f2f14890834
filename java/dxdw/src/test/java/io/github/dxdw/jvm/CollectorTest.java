package io.github.dxdw.jvm;

import static io.github.dxdw.jvm.Child.figure;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.github.dxdw.ChildJvm;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Calls must not stand in the way of the collector, nor of threads that have nothing to do with
 * them.
 */
class CollectorTest {
  @TempDir Path folder;

  @ParameterizedTest
  @ValueSource(strings = {"Serial", "Parallel", "G1", "Z", "Shenandoah"})
  @DisplayName("J8: a call that keeps the collector waiting until the heap is full")
  void collectsDuringCalls(String collector) throws Exception {
    Child child = new Child(folder).with("-XX:+Use" + collector + "GC");
    ChildJvm.Result known = child.run("threads");
    assumeTrue(known.exit() == 0, () -> "this JVM has no such collector: " + known.err());
    List<String> lines = child.with("-Xmx48m").lines("collector");
    assertTrue(figure(lines, "collections") >= 2, "" + lines);
  }

  @Test
  @DisplayName("J8: a function that is linked as critical keeps the collector waiting")
  void noCriticalCalls() throws IOException {
    try (Stream<Path> all = Files.walk(ChildJvm.CLASSES)) {
      for (Path file : all.filter(path -> path.toString().endsWith(".class")).toList()) {
        // A method that is called stands by its owner's name in the class file.
        String text = new String(Files.readAllBytes(file), StandardCharsets.ISO_8859_1);
        boolean links = text.contains("java/lang/foreign/Linker$Option");
        assertTrue(!links || !text.contains("critical"), file::toString);
      }
    }
  }

  @Test
  @DisplayName("J17: arenas opened and closed by a call stop all threads: a million calls, no stop")
  void noHandshakes() throws Exception {
    List<String> lines = new Child(folder).optimised().with("-Xlog:handshake*=info").lines("calls");
    int calls = lines.indexOf("calls 22.0");
    assertTrue(calls >= 0, () -> "" + lines);
    assertEquals(0, closings(lines.subList(0, calls)));
    assertEquals(2, closings(lines.subList(calls, lines.size())), "the log shows no closing");
  }

  private static long closings(List<String> lines) {
    return lines.stream().filter(line -> line.contains("CloseScopedMemory")).count();
  }
}
