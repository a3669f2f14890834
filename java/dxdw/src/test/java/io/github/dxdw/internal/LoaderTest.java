package io.github.dxdw.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.github.dxdw.ChildJvm;
import io.github.dxdw.ChildJvm.Result;
import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.jar.JarOutputStream;
import java.util.spi.ToolProvider;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Finding and loading the native library, each time in a JVM of its own. */
class LoaderTest {
  @TempDir Path folder;
  private Path userCache;
  private Path temporaryCache;

  @BeforeEach
  void places() throws IOException {
    userCache = folder.resolve("home/.cache/dxdw");
    int user = (int) Files.getAttribute(Path.of("/proc/self"), "unix:uid");
    temporaryCache = folder.resolve("tmp/dxdw-" + user);
  }

  private ChildJvm jvm() throws IOException {
    return new ChildJvm(folder);
  }

  private static Path works(Result result) {
    assertEquals("", result.err());
    assertEquals(0, result.exit());
    String[] lines = result.out().split("\n");
    assertEquals(2, lines.length, result.out());
    assertEquals("22.0", lines[1]);
    return Path.of(lines[0]);
  }

  private static void fails(Result result, String... words) {
    assertEquals("", result.err());
    assertEquals(0, result.exit());
    for (String word : words) {
      assertTrue(result.out().contains(word), () -> "no \"" + word + "\" in: " + result.out());
    }
    assertFalse(result.out().contains("inconsistent"), result.out());
  }

  private Path compiled(String name, String source) throws IOException, InterruptedException {
    Path file = Files.writeString(folder.resolve(name + ".cpp"), source);
    Path library = folder.resolve(name).resolve("libdxdw.so");
    Files.createDirectories(library.getParent());
    String compiler = System.getenv().getOrDefault("CXX", "c++");
    Process process =
        new ProcessBuilder(compiler, "-shared", "-fPIC", "-o", library.toString(), file.toString())
            .inheritIO()
            .start();
    assertTrue(process.waitFor(60, TimeUnit.SECONDS));
    assertEquals(0, process.exitValue());
    return library;
  }

  private Path foreignAbi() throws IOException, InterruptedException {
    return compiled("foreign", "extern \"C\" int dxdw_abi_version(void) { return 999; }\n");
  }

  // ---- By property ----

  @Test
  @DisplayName("guards against an override of the library's file that is ignored")
  void byProperty() throws Exception {
    Result result = jvm().with("-Ddxdw.library=" + ChildJvm.LIBRARY).onClassPath().probe("product");
    assertEquals(ChildJvm.LIBRARY, works(result));
    assertFalse(Files.exists(userCache), "nothing is extracted");
  }

  @Test
  @DisplayName(
      "guards against a library of another ABI that is used, or refused without both numbers")
  void byPropertyWithForeignAbi() throws Exception {
    fails(
        jvm().with("-Ddxdw.library=" + foreignAbi()).onClassPath(ChildJvm.NATIVES).probe("cause"),
        "ABI version 999, needed is 1",
        "property dxdw.library");
  }

  @Test
  void byPropertyWithWrongFiles() throws Exception {
    Path other = compiled("other", "extern \"C\" int other(void) { return 1; }\n");
    Path text = Files.writeString(folder.resolve("text.so"), "no library at all\n");
    fails(jvm().with("-Ddxdw.library=" + other).onClassPath().probe("cause"), "is no dxdw library");
    fails(
        jvm().with("-Ddxdw.library=" + text).onClassPath().probe("cause"),
        "text.so",
        "is no ELF file");
    byte[] library = Files.readAllBytes(ChildJvm.LIBRARY);
    library[18] = 40;
    Path foreign = Files.write(folder.resolve("arm.so"), library);
    fails(
        jvm().with("-Ddxdw.library=" + foreign).onClassPath().probe("cause"),
        "is built for another processor: ELF machine 40, needed is");
    fails(
        jvm().with("-Ddxdw.library=build/libdxdw.so").onClassPath().probe("cause"),
        "is not an absolute path");
    fails(
        jvm().with("-Ddxdw.library=/nowhere/libdxdw.so").onClassPath().probe("cause"),
        "there is no such file");
  }

  // ---- By library path ----

  @Test
  @DisplayName("guards against a library path that stops at a library of another ABI")
  void byLibraryPath() throws Exception {
    Path good = Files.createDirectories(folder.resolve("good")).resolve("libdxdw.so");
    Files.copy(ChildJvm.LIBRARY, good);
    String path = foreignAbi().getParent() + File.pathSeparator + good.getParent();
    Result result = jvm().with("-Djava.library.path=" + path).onClassPath().probe("product");
    assertEquals(good, works(result));
  }

  // ---- By natives JAR ----

  private static String mode(Path path) throws IOException {
    return PosixFilePermissions.toString(
        Files.getPosixFilePermissions(path, LinkOption.NOFOLLOW_LINKS));
  }

  @Test
  @DisplayName("guards against extraction to a place that others can reach")
  void byNativesJar() throws Exception {
    Path file = works(jvm().onClassPath(ChildJvm.NATIVES).probe("product"));
    assertEquals(userCache, file.getParent());
    assertEquals("rwx------", mode(userCache));
    assertEquals("rw-------", mode(file));
    assertTrue(
        file.getFileName().toString().contains(Cache.sha256(Files.readAllBytes(ChildJvm.LIBRARY))));
    Object before = Files.getLastModifiedTime(file);
    assertEquals(file, works(jvm().onClassPath(ChildJvm.NATIVES).probe("product")));
    assertEquals(
        before, Files.getLastModifiedTime(file), "the second JVM uses the first one's file");
    try (Stream<Path> files = Files.list(userCache)) {
      assertEquals(List.of(file), files.toList(), "nothing else is left");
    }
  }

  @Test
  @DisplayName("guards against a damaged or planted file in the cache that is loaded")
  void damagedCache() throws Exception {
    Path file = works(jvm().onClassPath(ChildJvm.NATIVES).probe("product"));
    byte[] good = Files.readAllBytes(file);
    Files.copy(foreignAbi(), file, java.nio.file.StandardCopyOption.REPLACE_EXISTING);
    assertEquals(file, works(jvm().onClassPath(ChildJvm.NATIVES).probe("product")));
    assertEquals(-1, java.util.Arrays.mismatch(good, Files.readAllBytes(file)));

    Files.write(file, java.util.Arrays.copyOf(good, good.length / 2));
    assertEquals(file, works(jvm().onClassPath(ChildJvm.NATIVES).probe("product")));

    Path target = Files.write(folder.resolve("target"), good);
    Files.delete(file);
    Files.createSymbolicLink(file, target);
    assertEquals(file, works(jvm().onClassPath(ChildJvm.NATIVES).probe("product")));
    assertTrue(Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS), "the link is replaced");
    assertEquals(-1, java.util.Arrays.mismatch(good, Files.readAllBytes(target)));

    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-rw-rw-"));
    works(jvm().onClassPath(ChildJvm.NATIVES).probe("product"));
    assertEquals("rw-------", mode(file));
  }

  @Test
  @DisplayName("guards against a cache directory that others can write to, or that is a link")
  void unsafeDirectories() throws Exception {
    Files.createDirectories(userCache);
    Files.setPosixFilePermissions(userCache, PosixFilePermissions.fromString("rwxrwxrwx"));
    Path file = works(jvm().onClassPath(ChildJvm.NATIVES).probe("product"));
    assertEquals(temporaryCache, file.getParent());
    assertEquals("rwx------", mode(temporaryCache));

    Files.delete(userCache);
    Files.createSymbolicLink(userCache, Files.createDirectory(folder.resolve("elsewhere")));
    assertEquals(file, works(jvm().onClassPath(ChildJvm.NATIVES).probe("product")));

    Path named = Files.createDirectory(folder.resolve("named"));
    Files.setPosixFilePermissions(temporaryCache, PosixFilePermissions.fromString("rwxrwx---"));
    Files.setPosixFilePermissions(named, PosixFilePermissions.fromString("rwx-w----"));
    fails(
        jvm().with("-Ddxdw.cache=" + named).onClassPath(ChildJvm.NATIVES).probe("cause"),
        named + " is refused: others may write to it (rwx-w----)",
        userCache + " is refused: it is no directory, or a link to one",
        temporaryCache + " is refused: others may write to it (rwxrwx---)",
        "-Ddxdw.cache=");
    Files.setPosixFilePermissions(named, PosixFilePermissions.fromString("rwxr-xr-x"));
    file =
        works(jvm().with("-Ddxdw.cache=" + named).onClassPath(ChildJvm.NATIVES).probe("product"));
    assertEquals(named, file.getParent());
  }

  @Test
  @DisplayName("guards against a cache directory of another user")
  void directoryOfAnotherUser() throws Exception {
    int user = (int) Files.getAttribute(Path.of("/proc/self"), "unix:uid");
    Path foreign = Path.of("/usr");
    if (user == 0) {
      foreign = Files.createDirectory(folder.resolve("foreign-owner"));
      Files.setAttribute(foreign, "unix:uid", 65534);
    }
    Path file =
        works(jvm().with("-Ddxdw.cache=" + foreign).onClassPath(ChildJvm.NATIVES).probe("product"));
    assertEquals(userCache, file.getParent());
  }

  @Test
  @DisplayName("guards against a natives JAR whose library is not what was packed")
  void damagedJar() throws Exception {
    Path damaged = folder.resolve("damaged.jar");
    try (ZipFile good = new ZipFile(ChildJvm.NATIVES.toFile());
        OutputStream out = Files.newOutputStream(damaged);
        JarOutputStream jar = new JarOutputStream(out)) {
      for (ZipEntry entry : good.stream().toList()) {
        jar.putNextEntry(new ZipEntry(entry.getName()));
        byte[] content = good.getInputStream(entry).readAllBytes();
        if (entry.getName().endsWith(".so")) {
          content[content.length / 2] ^= 1;
        }
        jar.write(content);
      }
    }
    fails(jvm().onClassPath(damaged).probe("cause"), "is damaged", "SHA-256");
    assertFalse(Files.exists(userCache));
  }

  @Test
  @DisplayName("guards against JVMs that disturb each other while the cache is filled")
  void manyJvmsAtOnce() throws Exception {
    List<ChildJvm> jvms = new ArrayList<>();
    List<Process> processes = new ArrayList<>();
    for (int i = 0; i < 6; ++i) {
      ChildJvm jvm = jvm().onClassPath(ChildJvm.NATIVES).with("probe.Probe", "product");
      jvms.add(jvm);
      processes.add(jvm.start("child" + i));
    }
    for (int i = 0; i < 6; ++i) {
      works(jvms.get(i).finish("child" + i, processes.get(i)));
    }
    try (Stream<Path> files = Files.list(userCache)) {
      assertEquals(1, files.count(), "no temporary file is left");
    }
  }

  @Test
  @DisplayName(
      "guards against a noexec directory that ends the search, or is reported without the reason")
  void noexecDirectory() throws Exception {
    Path mounted = Files.createDirectory(folder.resolve("mounted"));
    String mount = "mount -t tmpfs -o noexec,mode=700 tmpfs '" + mounted + "' && ";
    Process trial = new ProcessBuilder("unshare", "-rm", "sh", "-c", mount + "true").start();
    assumeTrue(trial.waitFor() == 0, "this user can't mount a noexec file system");
    String[] wrapper = {"unshare", "-rm", "sh", "-c", mount + "exec \"$@\"", "sh"};
    Result result =
        jvm()
            .behind(wrapper)
            .with("-Ddxdw.cache=" + mounted)
            .onClassPath(ChildJvm.NATIVES)
            .probe("product");
    assertEquals(userCache, works(result).getParent());
    Files.walk(userCache)
        .sorted(java.util.Comparator.reverseOrder())
        .forEach(p -> p.toFile().delete());
    Files.writeString(userCache, "");
    Files.deleteIfExists(temporaryCache);
    Files.writeString(temporaryCache, "");
    fails(
        jvm()
            .behind(wrapper)
            .with("-Ddxdw.cache=" + mounted)
            .onClassPath(ChildJvm.NATIVES)
            .probe("cause"),
        mounted.toString(),
        "the directory is mounted noexec",
        "-Ddxdw.library=",
        "-Ddxdw.cache=");
  }

  // ---- Modules ----

  @Test
  @DisplayName("guards against natives that are not found, or output, on the module path")
  void onModulePath() throws Exception {
    Result result =
        jvm()
            .with("--enable-native-access=io.github.dxdw")
            .onModulePath(ChildJvm.NATIVES)
            .probe("product");
    assertEquals(userCache, works(result).getParent());
    result =
        jvm()
            .with("--enable-native-access=io.github.dxdw")
            .with("--add-modules=io.github.dxdw.natives.linux_x86_64")
            .onModulePath(ChildJvm.NATIVES)
            .probe("product");
    assertEquals(userCache, works(result).getParent());
  }

  @Test
  @DisplayName("guards against a module that applications can't require")
  void fromAnotherModule() throws Exception {
    Path sources = Files.createDirectories(folder.resolve("sources/app"));
    Path info =
        Files.writeString(
            sources.resolveSibling("module-info.java"),
            "module app { requires io.github.dxdw; }\n");
    Path main =
        Files.writeString(
            sources.resolve("Main.java"),
            """
            package app;

            import io.github.dxdw.*;
            import java.lang.foreign.Arena;

            public class Main {
              public static void main(String[] arguments) {
                try (Arena arena = Arena.ofConfined()) {
                  Tensor x = Tensor.of(arena, new float[][] {{1, 2}, {3, 4}});
                  Tensor y = Tensor.allocate(arena, DType.FLOAT32, 2, 2);
                  Dxdw.y(x, x, y);
                  System.out.print(y);
                }
              }
            }
            """);
    Path classes = folder.resolve("app");
    int compiled =
        ToolProvider.findFirst("javac")
            .orElseThrow()
            .run(
                System.out,
                System.err,
                "-p",
                ChildJvm.CLASSES.toString(),
                "-d",
                classes.toString(),
                info.toString(),
                main.toString());
    assertEquals(0, compiled);
    String path =
        classes + File.pathSeparator + ChildJvm.CLASSES + File.pathSeparator + ChildJvm.NATIVES;
    ChildJvm jvm =
        jvm().with("--enable-native-access=io.github.dxdw", "-p", path, "-m", "app/app.Main");
    Result result = jvm.finish("app", jvm.start("app"));
    assertEquals("", result.err());
    assertEquals("float32[2, 2] cpu\n[[7.0, 10.0],\n [15.0, 22.0]]", result.out());
  }

  @Test
  @DisplayName("guards against a missing grant of native access without the flag to set")
  void withoutNativeAccess() throws Exception {
    Result result =
        jvm()
            .with("--enable-native-access=ALL-UNNAMED")
            .onModulePath(ChildJvm.NATIVES)
            .probe("cause");
    fails(
        result,
        "--enable-native-access=io.github.dxdw",
        "--enable-native-access=ALL-UNNAMED",
        "Enable-Native-Access: ALL-UNNAMED");
  }

  @Test
  @DisplayName("guards against two class loaders of one JVM that can't both have the library")
  void twoClassLoaders() throws Exception {
    Path main =
        Files.writeString(
            folder.resolve("Twice.java"),
            """
            import java.net.*;
            import java.nio.file.Path;

            public class Twice {
              public static void main(String[] paths) throws Exception {
                URL[] urls = new URL[paths.length];
                for (int i = 0; i < urls.length; ++i) {
                  urls[i] = Path.of(paths[i]).toUri().toURL();
                }
                for (int i = 0; i < 2; ++i) {
                  Class<?> dxdw = new URLClassLoader(urls, null).loadClass("io.github.dxdw.Dxdw");
                  System.out.println(dxdw.getMethod("isAvailable").invoke(null));
                }
              }
            }
            """);
    ChildJvm jvm =
        jvm()
            .with(
                "--enable-native-access=ALL-UNNAMED",
                main.toString(),
                ChildJvm.CLASSES.toString(),
                ChildJvm.NATIVES.toString());
    Result result = jvm.finish("twice", jvm.start("twice"));
    assertEquals("", result.err());
    assertEquals("true\ntrue\n", result.out());
    try (Stream<Path> left = Files.list(folder.resolve("tmp"))) {
      assertEquals(
          List.of(), left.filter(p -> p.getFileName().toString().startsWith("dxdw")).toList());
    }
  }

  // ---- Nothing, and other systems ----

  @Test
  @DisplayName("guards against a failure that names one attempt of several, or no way out")
  void nothingAnywhere() throws Exception {
    fails(
        jvm().onClassPath().probe("cause"),
        "property dxdw.library: not set",
        "java.library.path: no libdxdw.so in",
        "io.github.dxdw:dxdw-natives:" + Library.version() + " with classifier linux-x86_64",
        "-Ddxdw.library=/absolute/path/to/libdxdw.so");
  }

  @Test
  @DisplayName("guards against musl that is not recognised")
  void musl() {
    assertTrue(
        Loader.mapsMusl(Stream.of("7f00-7f01 r-xp 00000000 08:01 12  /lib/ld-musl-x86_64.so.1")));
    assertFalse(
        Loader.mapsMusl(
            Stream.of("7f00-7f01 r-xp 00000000 08:01 12  /usr/lib/x86_64-linux-gnu/libc.so.6")));
    assertEquals("linux-x86_64", Loader.platform());
  }

  // ---- The natives JAR ----

  @Test
  @DisplayName("guards against classes in the natives JAR, and binaries of another processor")
  void nativesJar() throws Exception {
    try (ZipFile jar = new ZipFile(ChildJvm.NATIVES.toFile())) {
      assertTrue(jar.stream().noneMatch(entry -> entry.getName().endsWith(".class")));
      byte[] library =
          jar.getInputStream(jar.getEntry(Bundle.resource("linux-x86_64"))).readAllBytes();
      // ELF, 64-bit, little-endian, machine 62 = x86-64.
      assertEquals("7f454c460201", java.util.HexFormat.of().formatHex(library, 0, 6));
      assertEquals(62, library[18] | library[19] << 8);
      String hash =
          new String(
                  jar.getInputStream(jar.getEntry(Bundle.resource("linux-x86_64") + ".sha256"))
                      .readAllBytes())
              .strip();
      assertEquals(Cache.sha256(library), hash);
    }
  }
}
