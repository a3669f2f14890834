package io.github.dxdw.cli;

import io.github.dxdw.cli.bench.Report;
import java.io.IOException;
import java.nio.file.Path;
import picocli.CommandLine.Option;

/** The option that writes results to a file; a mixin of the measurements. */
public final class JsonFile {

  @Option(
      names = "--json",
      paramLabel = "FILE",
      converter = OutputFile.class,
      description = "Write the results to this file, too.")
  private Path file;

  /** Writes the report, if that was asked for. */
  public void write(Report report) {
    if (file == null) {
      return;
    }
    try {
      report.write(file);
    } catch (IOException e) {
      throw new CommandException("can't write the results: " + e.getMessage());
    }
  }
}
