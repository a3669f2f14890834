package io.github.dxdw.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.concurrent.TimeUnit;
import jdk.jshell.tool.JavaShellToolBuilder;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ShellTest {

  private static final String PROMPT = "jshell> ";
  private static final String CONTINUATION = "   ...> ";
  private static final Path README = Path.of(System.getProperty("dxdw.test.root"), "README.md");

  @Test
  @DisplayName("Guards against a README whose session shows something else than jshell does")
  void replaysTheSessionOfTheReadme() throws Exception {
    assumeTrue(Files.exists(README), "there is no README.md");
    List<String> session = session(Files.readString(README));
    String input =
        String.join(
            "\n",
            session.stream()
                .filter(line -> line.startsWith(PROMPT) || line.startsWith(CONTINUATION))
                .map(line -> line.substring(PROMPT.length()))
                .toList());
    assertEquals(String.join("\n", session), String.join("\n", transcript(input + "\n")));
  }

  /** The lines of the fenced block after the marker that are not blank. */
  private static List<String> session(String readme) {
    String marker = "<!-- jshell session -->";
    List<String> lines =
        readme.lines().dropWhile(line -> !line.strip().equals(marker)).skip(1).toList();
    List<String> block =
        lines.stream()
            .dropWhile(line -> !line.startsWith("```"))
            .skip(1)
            .takeWhile(line -> !line.startsWith("```"))
            .filter(line -> !line.isBlank())
            .map(String::stripTrailing)
            .toList();
    assertTrue(
        block.stream().anyMatch(line -> line.startsWith(PROMPT)),
        "no session after " + marker + " in " + README);
    return block;
  }

  /** What jshell shows for this input, the input echoed, without blank lines and the greeting. */
  private static List<String> transcript(String input) throws Exception {
    ByteArrayOutputStream output = new ByteArrayOutputStream();
    PrintStream stream = new PrintStream(output, true, StandardCharsets.UTF_8);
    JavaShellToolBuilder jshell =
        JavaShellToolBuilder.builder()
            .persistence(new HashMap<>())
            .in(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)), null)
            .out(stream, stream, stream);
    assertEquals(0, Shell.start(jshell, List.of("--feedback", "normal")));
    return output
        .toString(StandardCharsets.UTF_8)
        .replace("\r", "")
        .lines()
        .dropWhile(line -> !line.startsWith(PROMPT))
        .map(String::stripTrailing)
        .filter(line -> !line.isBlank() && !line.equals(PROMPT.strip()))
        .toList();
  }

  @Test
  @DisplayName(
      "Guards against a shell that lacks native access, the library or the imports in the process"
          + " that runs the script, and against words on standard error when there are no"
          + " preferences yet")
  void runsAScript(@TempDir Path folder) throws Exception {
    Path script = folder.resolve("script.jsh");
    Files.writeString(
        script,
        """
        Tensor x = tensor(new float[][] {{1, 2}, {3, 4}});
        Tensor dY = Tensor.scalar(arena, 1).expand(2, 2);
        Tensor dW = zeros(2, 2);
        Dxdw.dw(x, dY, dW);
        System.out.println(java.util.Arrays.toString(dW.toFloatArray()));
        /exit 3
        """);
    Process process =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "--enable-native-access=ALL-UNNAMED",
                "-Djava.util.prefs.userRoot=" + folder,
                "-Ddxdw.library=" + System.getProperty("dxdw.library"),
                "-cp",
                System.getProperty("java.class.path"),
                "io.github.dxdw.cli.Main",
                "shell",
                script.toString())
            .redirectInput(ProcessBuilder.Redirect.from(new File("/dev/null")))
            .start();
    String out = read(process.getInputStream());
    String err = read(process.getErrorStream());
    assertTrue(process.waitFor(1, TimeUnit.MINUTES));
    assertEquals("[4.0, 4.0, 6.0, 6.0]", out.strip());
    assertEquals("", err);
    assertEquals(3, process.exitValue());
  }

  private static String read(InputStream stream) throws IOException {
    return new String(stream.readAllBytes(), StandardCharsets.UTF_8);
  }
}
