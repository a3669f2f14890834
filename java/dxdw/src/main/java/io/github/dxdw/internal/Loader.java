package io.github.dxdw.internal;

import io.github.dxdw.LibraryLoadException;
import io.github.dxdw.bindings.dxdw_h;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Finds the native library and loads it: the file that the property {@code dxdw.library} names, and
 * no other, when it is set; else the first usable one on {@code java.library.path}, in the {@code
 * lib} folder of the Java runtime, or of the natives JARs, by way of a private {@link Cache}. A
 * file is loaded for good only once its ABI version has been found to be ours.
 */
final class Loader {
  private static final String LIBRARY_PROPERTY = "dxdw.library";
  private static final String NAME = System.mapLibraryName("dxdw");

  private final Host host;
  private final List<String> attempts = new ArrayList<>();
  private final List<Throwable> causes = new ArrayList<>();
  private List<Cache> caches;

  Loader(Host host) {
    this.host = host;
  }

  /** Loads the library and returns its file, or throws with the list of all attempts. */
  Path load() {
    String named = System.getProperty(LIBRARY_PROPERTY);
    Optional<Path> found;
    if (named != null && !named.isEmpty()) {
      found = fromProperty(named);
    } else {
      attempts.add("property " + LIBRARY_PROPERTY + ": not set");
      found = fromLibraryPath().or(this::fromRuntime).or(this::fromBundles);
    }
    return found.orElseThrow(this::failure);
  }

  // ---- The places ----

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
    boolean seen = false;
    for (String folder : path.split(File.pathSeparator)) {
      if (folder.isEmpty()) {
        continue;
      }
      Path file;
      try {
        file = Path.of(folder, NAME).toAbsolutePath();
      } catch (InvalidPathException e) {
        // Such as a name that the locale can't express.
        seen = true;
        failed("java.library.path: " + folder, e.getMessage(), e);
        continue;
      }
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
        : failed("java.library.path", "no " + NAME + " in " + path, null);
  }

  /** Where jlink puts the libraries of a module that was packed with them. */
  private Optional<Path> fromRuntime() {
    Path file = Path.of(System.getProperty("java.home", ""), "lib", NAME).toAbsolutePath();
    String what = "Java runtime: " + file;
    return Files.isRegularFile(file)
        ? open(what, file)
        : failed(what, "there is no such file", null);
  }

  private Optional<Path> fromBundles() {
    boolean seen = false;
    for (String classifier : host.classifiers()) {
      String what = "natives JAR " + classifier;
      try {
        Optional<Bundle> bundle = Bundle.find(classifier);
        if (bundle.isEmpty()) {
          continue;
        }
        seen = true;
        Optional<Path> opened = fromBundle(what, bundle.get());
        if (opened.isPresent()) {
          return opened;
        }
      } catch (IOException e) {
        seen = true;
        failed(what, e.toString(), e);
      }
    }
    return seen ? Optional.empty() : failed("natives JAR", missingBundle(), null);
  }

  private String missingBundle() {
    String platform = host.platform();
    String missing = "neither class path nor module path has " + Bundle.resource(platform) + ": ";
    if (!Host.PLATFORMS.contains(platform)) {
      return missing
          + "there are natives for "
          + String.join(" and ", Host.PLATFORMS)
          + " only, so build libdxdw on this system";
    }
    return missing
        + "add the dependency io.github.dxdw:dxdw-natives:"
        + Library.version()
        + " with classifier "
        + platform
        + ", or io.github.dxdw:dxdw-all in place of io.github.dxdw:dxdw";
  }

  private Optional<Path> fromBundle(String what, Bundle bundle) {
    if (host.musl()) {
      return failed(
          what,
          "this JVM runs on musl libc, the library needs glibc 2.28 or later: build libdxdw on this"
              + " system",
          null);
    }
    if (caches().isEmpty()) {
      return failed(what, "no property names a directory to unpack it to", null);
    }
    for (Cache cache : caches()) {
      String where = what + " in " + cache.folder();
      try {
        Optional<Path> opened = open(where, cache.place(bundle));
        if (opened.isPresent()) {
          return opened;
        }
      } catch (IOException e) {
        failed(where, e.toString(), e);
      }
    }
    return Optional.empty();
  }

  private List<Cache> caches() {
    if (caches == null) {
      caches = Cache.candidates(attempts);
    }
    return caches;
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
      loadForGood(what, file);
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
  private void checkHeader(Path file) throws IOException {
    byte[] head;
    try (InputStream in = Files.newInputStream(file)) {
      head = in.readNBytes(20);
    }
    if (head.length < 20 || head[0] != 0x7f || head[1] != 'E' || head[2] != 'L' || head[3] != 'F') {
      throw new UnsatisfiedLinkError("is no ELF file");
    }
    int machine = head[18] & 0xff | (head[19] & 0xff) << 8;
    int expected = host.elfMachine();
    if (expected != -1 && machine != expected) {
      throw new UnsatisfiedLinkError(
          "is built for another processor: ELF machine " + machine + ", needed is " + expected);
    }
  }

  private void loadForGood(String what, Path file) throws IOException {
    try {
      System.load(file.toString());
    } catch (UnsatisfiedLinkError e) {
      if (!String.valueOf(e.getMessage()).contains("another classloader")) {
        throw e;
      }
      loadCopy(what, file);
    }
  }

  /**
   * Two class loaders of one JVM, as in an application server, can't share a file: a copy serves,
   * which goes as soon as it is loaded.
   */
  private void loadCopy(String what, Path file) throws IOException {
    for (Cache cache : caches()) {
      String where = what + ", copied for a further class loader to " + cache.folder();
      try (Cache.Temporary copy = cache.temporary(Files.readAllBytes(file))) {
        System.load(copy.file().toString());
        return;
      } catch (UnsatisfiedLinkError e) {
        failed(where, explain(e), e);
      } catch (IOException e) {
        failed(where, e.toString(), e);
      }
    }
    throw new IOException("another class loader of this JVM has it, and no copy could be loaded");
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

  private String explain(UnsatisfiedLinkError error) {
    String message = String.valueOf(error.getMessage());
    if (message.contains("failed to map segment")) {
      return message + " (the directory is mounted noexec)";
    }
    if (host.musl()) {
      return message + " (this JVM runs on musl libc: the library must be built for it)";
    }
    if (message.contains("GLIBC_") && message.contains("not found")) {
      return message + " (the library needs glibc 2.28 or later, that of this system is older)";
    }
    return message;
  }

  // ---- Reporting ----

  private Optional<Path> failed(String what, String why, Throwable cause) {
    attempts.add(what + ": " + why);
    if (cause != null) {
      causes.add(cause);
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
    Throwable last = causes.isEmpty() ? null : causes.removeLast();
    LibraryLoadException failure = new LibraryLoadException(message.toString(), last);
    causes.forEach(failure::addSuppressed);
    return failure;
  }

  private static String nativeAccessHelp() {
    return "start Java with --enable-native-access=io.github.dxdw when dxdw is on the module path,"
        + " with --enable-native-access=ALL-UNNAMED when it is on the class path (jshell:"
        + " -R--enable-native-access=ALL-UNNAMED), or put \"Enable-Native-Access: ALL-UNNAMED\""
        + " into the manifest of the executable JAR";
  }
}
