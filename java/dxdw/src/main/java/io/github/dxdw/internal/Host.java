package io.github.dxdw.internal;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;

/**
 * The system that a JVM runs on.
 *
 * @param system such as linux
 * @param processor such as x86_64 or aarch_64
 * @param musl is the C library musl?
 */
record Host(String system, String processor, boolean musl) {
  /** What there are natives JARs for. */
  static final List<String> PLATFORMS = List.of("linux-x86_64", "linux-aarch_64");

  /** Natives JARs with more in them, best first; "" is the one that every platform has. */
  private static final List<String> FLAVOURS = List.of("-cuda13", "");

  static Host current() {
    String system = plain(System.getProperty("os.name", ""), "[^a-z0-9]");
    String processor =
        switch (System.getProperty("os.arch", "")) {
          case "amd64", "x86_64" -> "x86_64";
          case "aarch64", "arm64" -> "aarch_64";
          case String other -> plain(other, "[^a-z0-9_]");
        };
    return new Host(system, processor, isMusl());
  }

  private static String plain(String name, String unwanted) {
    return name.toLowerCase(Locale.ROOT).replaceAll(unwanted, "");
  }

  /** As the classifiers of the natives JARs name it. */
  String platform() {
    return system + "-" + processor;
  }

  /** The classifiers of the natives JARs that fit, best first. */
  List<String> classifiers() {
    return FLAVOURS.stream().map(flavour -> platform() + flavour).toList();
  }

  /** The processor in the header of an ELF file; -1 where it is not known. */
  int elfMachine() {
    return switch (processor) {
      case "x86_64" -> 62;
      case "aarch_64" -> 183;
      default -> -1;
    };
  }

  private static boolean isMusl() {
    try (Stream<String> lines = Files.lines(Path.of("/proc/self/maps"))) {
      return mapsMusl(lines);
    } catch (IOException | RuntimeException e) {
      return false;
    }
  }

  /** Do the memory maps of a process show musl's dynamic linker? */
  static boolean mapsMusl(Stream<String> maps) {
    return maps.anyMatch(line -> line.contains("/ld-musl-") || line.contains("/libc.musl-"));
  }
}
