package io.github.dxdw.cli;

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
    return Shell.start(JavaShellToolBuilder.builder(), arguments);
  }
}
