package io.github.dxdw.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The README's worked example of a function of one's own, compiled and run. */
class ReadmeExampleTest {

  private static final Path README = Path.of(System.getProperty("dxdw.test.root"), "README.md");

  @TempDir private Path folder;

  @Test
  @Timeout(value = 1, unit = TimeUnit.MINUTES)
  @DisplayName("Guards against an example that does not compile or prints something else")
  void compilesAndPrintsWhatTheReadmeSays() throws Exception {
    assumeTrue(Files.exists(README), "there is no README.md");
    List<String> program = block("<!-- autograd example -->");
    List<String> expected = block("<!-- autograd output -->");
    long code = program.stream().filter(line -> !line.isBlank()).count();
    assertTrue(code < 40, code + " lines");
    Path source = folder.resolve("WeightedSum.java");
    Files.write(source, program);
    ByteArrayOutputStream messages = new ByteArrayOutputStream();
    int status =
        ToolProvider.getSystemJavaCompiler()
            .run(
                null,
                messages,
                messages,
                "-Xlint:all",
                "-d",
                folder.toString(),
                "-cp",
                System.getProperty("java.class.path"),
                source.toString());
    assertEquals(0, status, messages.toString(StandardCharsets.UTF_8));
    assertEquals(String.join("\n", expected), String.join("\n", output("WeightedSum")));
  }

  /** What the main method of a class in the folder prints. */
  private List<String> output(String name) throws Exception {
    PrintStream before = System.out;
    ByteArrayOutputStream printed = new ByteArrayOutputStream();
    try (URLClassLoader loader = new URLClassLoader(new URL[] {folder.toUri().toURL()})) {
      System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
      Method main = loader.loadClass(name).getMethod("main", String[].class);
      main.setAccessible(true);
      main.invoke(null, (Object) new String[0]);
    } finally {
      System.setOut(before);
    }
    return printed.toString(StandardCharsets.UTF_8).lines().toList();
  }

  /** The lines of the fenced block after a marker. */
  private static List<String> block(String marker) throws Exception {
    List<String> block =
        Files.readString(README)
            .lines()
            .dropWhile(line -> !line.strip().equals(marker))
            .dropWhile(line -> !line.startsWith("```"))
            .skip(1)
            .takeWhile(line -> !line.startsWith("```"))
            .toList();
    assertTrue(!block.isEmpty(), "no block after " + marker + " in " + README);
    return block;
  }
}
