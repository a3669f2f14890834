package io.github.dxdw.cli;

import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.logging.Level;
import java.util.logging.Logger;
import jdk.jshell.tool.JavaShellToolBuilder;

/**
 * jshell as the command starts it. A class of its own, so that the other commands run on Java
 * runtimes without jshell.
 */
final class Shell {

  /** Where jshell keeps its history. It tells on standard error of a folder that it makes. */
  private static final Logger PREFERENCES = Logger.getLogger("java.util.prefs");

  private Shell() {}

  /**
   * Starts jshell with the start-up script, then {@code arguments}, and returns its exit status.
   */
  static int start(JavaShellToolBuilder jshell, List<String> arguments) throws Exception {
    PREFERENCES.setLevel(Level.OFF);
    Path startup = Files.createTempFile("dxdw", ".jsh");
    try {
      try (InputStream script = Shell.class.getResourceAsStream("startup.jsh")) {
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
