package io.github.dxdw.cli;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Locale;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/**
 * The name of a file that a command writes when its work is done. It is opened when the command
 * line is read, so that no result is lost for want of a place; what is in it stays.
 */
public class OutputFile implements ITypeConverter<Path> {

  @Override
  public Path convert(String name) {
    Path file;
    try {
      file = Path.of(name);
    } catch (InvalidPathException e) {
      throw new TypeConversionException("'" + name + "': " + e.getReason());
    }
    if (name.isEmpty() || Files.isDirectory(file)) {
      throw new TypeConversionException("'" + name + "' is no name of a file");
    }
    Path folder = file.toAbsolutePath().getParent();
    if (!Files.isDirectory(folder) || !Files.isWritable(folder)) {
      throw new TypeConversionException(
          name + ": " + folder + " is no folder that can be written to");
    }
    boolean there = Files.exists(file);
    try {
      Files.newByteChannel(file, StandardOpenOption.WRITE, StandardOpenOption.CREATE).close();
      if (!there) {
        Files.delete(file);
      }
    } catch (IOException e) {
      throw new TypeConversionException(name + ": can't be written");
    }
    return file;
  }

  /** A picture, whose name tells the format. */
  public static final class Png extends OutputFile {

    @Override
    public Path convert(String name) {
      if (!name.toLowerCase(Locale.ROOT).endsWith(".png")) {
        throw new TypeConversionException(name + ": expected a name in .png");
      }
      return super.convert(name);
    }
  }
}
