package io.github.dxdw.cli;

import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import jdk.jshell.tool.JavaShellToolBuilder;
import picocli.CommandLine.Command;
import picocli.CommandLine.Unmatched;

/** Opens jshell with the library on the class path and imported. */
@Command(
    name = "shell",
    description = {
      "Open jshell with the library imported.",
      "All further arguments go to jshell: a script to run, for example."
    },
    customSynopsis = "dxdw shell [-h] [jshell arguments]")
final class ShellCommand implements Callable<Integer> {

  @Unmatched private final List<String> arguments = new ArrayList<>();

  @Override
  public Integer call() throws Exception {
    return start(JavaShellToolBuilder.builder(), arguments);
  }

  /**
   * Starts jshell with the start-up script, then {@code arguments}, and returns its exit status.
   */
  static int start(JavaShellToolBuilder jshell, List<String> arguments) throws Exception {
    Path startup = Files.createTempFile("dxdw", ".jsh");
    try {
      try (InputStream script = ShellCommand.class.getResourceAsStream("startup.jsh")) {
        Files.copy(script, startup, StandardCopyOption.REPLACE_EXISTING);
      }
      List<String> all = new ArrayList<>();
      all.addAll(List.of("--class-path", System.getProperty("java.class.path")));
      all.addAll(List.of("--startup", "DEFAULT", "--startup", startup.toString()));
      all.add("-R--enable-native-access=ALL-UNNAMED");
      System.getProperties().stringPropertyNames().stream()
          .filter(name -> name.startsWith("dxdw."))
          .forEach(name -> all.add("-R-D" + name + "=" + System.getProperty(name)));
      all.addAll(arguments);
      return jshell.start(all.toArray(String[]::new));
    } finally {
      Files.deleteIfExists(startup);
    }
  }
}
