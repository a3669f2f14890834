package io.github.dxdw.internal;

import io.github.dxdw.LibraryLoadException;
import io.github.dxdw.bindings.dxdw_h;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.lang.System.Logger.Level;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * Finds the native library and loads it: the file that the property {@code dxdw.library} names, and
 * no other, when it is set; else the first usable one on {@code java.library.path}; else the one
 * that the natives JAR brings, by way of a private {@link Cache}. A file is loaded for good only
 * once its ABI version has been found to be ours.
 */
final class Loader {
  private static final String LIBRARY_PROPERTY = "dxdw.library";
  private static final System.Logger LOGGER = System.getLogger("io.github.dxdw");

  private final List<String> attempts = new ArrayList<>();
  private Throwable lastCause;

  private Loader() {}

  /** Loads the library and returns its file, or throws with the list of all attempts. */
  static Path load() {
    return new Loader().find();
  }

  private Path find() {
    String named = System.getProperty(LIBRARY_PROPERTY);
    Optional<Path> found;
    if (named != null && !named.isEmpty()) {
      found = fromProperty(named);
    } else {
      attempts.add("property " + LIBRARY_PROPERTY + ": not set");
      found = fromLibraryPath().or(this::fromBundle);
    }
    Path file = found.orElseThrow(this::failure);
    LOGGER.log(Level.DEBUG, "dxdw loaded {0}", file);
    return file;
  }

  // ---- The three places ----

  private Optional<Path> fromProperty(String named) {
    String what = "property " + LIBRARY_PROPERTY + " = " + named;
    Path file;
    try {
      file = Path.of(named);
    } catch (InvalidPathException e) {
      return failed(what, e.getMessage(), e);
    }
    if (!file.isAbsolute()) {
      return failed(what, "is not an absolute path", null);
    }
    if (!Files.isRegularFile(file)) {
      return failed(what, "there is no such file", null);
    }
    return open(what, file);
  }

  private Optional<Path> fromLibraryPath() {
    String path = System.getProperty("java.library.path", "");
    String name = System.mapLibraryName("dxdw");
    boolean seen = false;
    for (String folder : path.split(File.pathSeparator)) {
      if (folder.isEmpty()) {
        continue;
      }
      Path file = Path.of(folder, name).toAbsolutePath();
      if (Files.isRegularFile(file)) {
        seen = true;
        Optional<Path> opened = open("java.library.path: " + file, file);
        if (opened.isPresent()) {
          return opened;
        }
      }
    }
    return seen
        ? Optional.empty()
        : failed("java.library.path", "no " + name + " in " + path, null);
  }

  private Optional<Path> fromBundle() {
    String platform = platform();
    String what = "natives JAR for " + platform;
    Bundle bundle;
    try {
      bundle = Bundle.find(platform).orElse(null);
    } catch (IOException e) {
      return failed(what, e.toString(), e);
    }
    if (bundle == null) {
      return failed(
          what,
          "neither class path nor module path has "
              + Bundle.resource(platform)
              + ": add the dependency io.github.dxdw:dxdw-natives:"
              + Library.version()
              + " with classifier "
              + platform,
          null);
    }
    if (isMusl()) {
      return failed(
          what,
          "this JVM runs on musl libc, the library needs glibc 2.28 or later: build libdxdw on this"
              + " system",
          null);
    }
    for (Cache cache : Cache.candidates(attempts)) {
      Optional<Path> opened = fromCache(what, bundle, cache);
      if (opened.isPresent()) {
        return opened;
      }
    }
    return Optional.empty();
  }

  private Optional<Path> fromCache(String what, Bundle bundle, Cache cache) {
    String where = what + " in " + cache.folder();
    try {
      Path file = cache.place(bundle);
      return open(where, file);
    } catch (IOException e) {
      return failed(where, e.toString(), e);
    }
  }

  // ---- Opening a file ----

  private Optional<Path> open(String what, Path file) {
    try {
      checkHeader(file);
      int version = abiVersion(file);
      int expected = dxdw_h.DXDW_ABI_VERSION();
      if (version != expected) {
        return failed(what, "has ABI version " + version + ", needed is " + expected, null);
      }
      loadForGood(file);
      return Optional.of(file);
    } catch (IllegalCallerException e) {
      return failed(what, "native access is not granted: " + nativeAccessHelp(), e);
    } catch (UnsatisfiedLinkError e) {
      return failed(what, explain(e), e);
    } catch (IOException e) {
      return failed(what, e.toString(), e);
    }
  }

  /** The dynamic linker has side effects, and warnings, for files that are no libraries at all. */
  private static void checkHeader(Path file) throws IOException {
    byte[] head;
    try (InputStream in = Files.newInputStream(file)) {
      head = in.readNBytes(20);
    }
    if (head.length < 20 || head[0] != 0x7f || head[1] != 'E' || head[2] != 'L' || head[3] != 'F') {
      throw new UnsatisfiedLinkError("is no ELF file");
    }
    int machine = head[18] & 0xff | (head[19] & 0xff) << 8;
    int expected =
        switch (processor()) {
          case "x86_64" -> 62;
          case "aarch64" -> 183;
          default -> machine;
        };
    if (machine != expected) {
      throw new UnsatisfiedLinkError(
          "is built for another processor: ELF machine " + machine + ", needed is " + expected);
    }
  }

  private static void loadForGood(Path file) throws IOException {
    try {
      System.load(file.toString());
    } catch (UnsatisfiedLinkError e) {
      if (!String.valueOf(e.getMessage()).contains("another classloader")) {
        throw e;
      }
      // Two class loaders of one JVM, as in an application server, can't share a file: a copy
      // serves.
      Path folder =
          Files.createTempDirectory(
              "dxdw",
              PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
      Path copy = folder.resolve(file.getFileName());
      try {
        Files.copy(file, copy, StandardCopyOption.REPLACE_EXISTING);
        System.load(copy.toString());
      } finally {
        Files.deleteIfExists(copy);
        Files.deleteIfExists(folder);
      }
    }
  }

  /** Asks a file for its ABI version, and lets go of it again. */
  private static int abiVersion(Path file) {
    try (Arena arena = Arena.ofConfined()) {
      SymbolLookup symbols;
      try {
        symbols = SymbolLookup.libraryLookup(file, arena);
      } catch (IllegalArgumentException e) {
        // Only this way of loading tells what the dynamic linker has to say.
        System.load(file.toString());
        throw new UnsatisfiedLinkError(e.getMessage());
      }
      MemorySegment symbol =
          symbols
              .find("dxdw_abi_version")
              .orElseThrow(
                  () ->
                      new UnsatisfiedLinkError("is no dxdw library: dxdw_abi_version is missing"));
      return (int)
          Linker.nativeLinker()
              .downcallHandle(symbol, FunctionDescriptor.of(ValueLayout.JAVA_INT))
              .invokeExact();
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  private static String explain(UnsatisfiedLinkError error) {
    String message = String.valueOf(error.getMessage());
    if (message.contains("failed to map segment")) {
      return message + " (the directory is mounted noexec)";
    }
    return message;
  }

  // ---- Reporting ----

  private Optional<Path> failed(String what, String why, Throwable cause) {
    attempts.add(what + ": " + why);
    if (cause != null) {
      lastCause = cause;
    }
    return Optional.empty();
  }

  private LibraryLoadException failure() {
    StringBuilder message = new StringBuilder("dxdw: no native library could be loaded. Tried:");
    for (String attempt : attempts) {
      message.append("\n  - ").append(attempt);
    }
    message
        .append("\nWay out: set -D")
        .append(LIBRARY_PROPERTY)
        .append("=/absolute/path/to/libdxdw.so, or -D")
        .append(Cache.PROPERTY)
        .append("=/a/directory of your own that is not mounted noexec.");
    if (lastCause instanceof IllegalCallerException) {
      message.append("\nNative access: ").append(nativeAccessHelp()).append('.');
    }
    return new LibraryLoadException(message.toString(), lastCause);
  }

  private static String nativeAccessHelp() {
    return "start Java with --enable-native-access=io.github.dxdw when dxdw is on the module path,"
        + " with --enable-native-access=ALL-UNNAMED when it is on the class path, or put"
        + " \"Enable-Native-Access: ALL-UNNAMED\" into the manifest of the executable JAR";
  }

  // ---- The system ----

  /** Operating system and processor as the natives JARs are named, such as linux-x86_64. */
  static String platform() {
    String system = System.getProperty("os.name", "").toLowerCase().replaceAll("[^a-z0-9]", "");
    return system + "-" + processor();
  }

  private static String processor() {
    return switch (System.getProperty("os.arch", "")) {
      case "amd64", "x86_64" -> "x86_64";
      case "aarch64", "arm64" -> "aarch64";
      case String other -> other.toLowerCase().replaceAll("[^a-z0-9_]", "");
    };
  }

  private static boolean isMusl() {
    Path maps = Path.of("/proc/self/maps");
    try (Stream<String> lines = Files.lines(maps)) {
      return mapsMusl(lines);
    } catch (IOException | RuntimeException e) {
      return false;
    }
  }

  /** Do the memory maps of a process show musl's dynamic linker? */
  static boolean mapsMusl(Stream<String> maps) {
    return maps.anyMatch(line -> line.contains("/ld-musl-") || line.contains("/libc.musl-"));
  }

  /** For reading a resource wholly. */
  static byte[] bytes(InputStream in) throws IOException {
    try (in) {
      return in.readAllBytes();
    }
  }
}
