package io.github.dxdw.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.github.dxdw.ChildJvm;
import io.github.dxdw.ChildJvm.Result;
import io.github.dxdw.bindings.dxdw_h;
import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
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
  private static final int JVMS = 16;
  private static final Path DOCUMENTATION = Path.of(System.getProperty("dxdw.test.root"), "docs");

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
  @DisplayName("K17: guards against an override of the library's file that is ignored")
  void byProperty() throws Exception {
    Result result = jvm().with("-Ddxdw.library=" + ChildJvm.LIBRARY).onClassPath().probe("product");
    assertEquals(ChildJvm.LIBRARY, works(result));
    assertFalse(Files.exists(userCache), "nothing is extracted");
  }

  @Test
  @DisplayName("K17: guards against a log that does not tell the file that was loaded")
  void logs() throws Exception {
    Path logging =
        Files.writeString(
            folder.resolve("logging.properties"),
            """
            handlers = java.util.logging.ConsoleHandler
            java.util.logging.ConsoleHandler.level = FINE
            io.github.dxdw.level = FINE
            """);
    Result result =
        jvm()
            .with("-Djava.util.logging.config.file=" + logging)
            .with("-Ddxdw.library=" + ChildJvm.LIBRARY)
            .onClassPath()
            .probe("product");
    assertEquals(0, result.exit());
    assertTrue(
        result.err().contains("loaded " + ChildJvm.LIBRARY + ": dxdw " + nativeVersion()),
        result.err());
  }

  private static String nativeVersion() {
    return Library.version().replace("-SNAPSHOT", "");
  }

  @Test
  @DisplayName(
      "K17: guards against a library of another ABI that is used, or refused without both numbers")
  void byPropertyWithForeignAbi() throws Exception {
    fails(
        jvm().with("-Ddxdw.library=" + foreignAbi()).onClassPath(ChildJvm.NATIVES).probe("cause"),
        "ABI version 999, needed is " + dxdw_h.DXDW_ABI_VERSION(),
        "property dxdw.library");
  }

  @Test
  @DisplayName("K16: guards against wrong files that reach the dynamic linker, or say not why")
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

  @Test
  @DisplayName("K4: guards against an older glibc that is told in the linker's words alone")
  void olderGlibc() throws Exception {
    byte[] library = Files.readAllBytes(ChildJvm.LIBRARY);
    String asksForMore =
        new String(library, StandardCharsets.ISO_8859_1).replace("GLIBC_2.", "GLIBC_9.");
    Path file =
        Files.write(folder.resolve("later.so"), asksForMore.getBytes(StandardCharsets.ISO_8859_1));
    fails(
        jvm().with("-Ddxdw.library=" + file).onClassPath().probe("cause"),
        "GLIBC_9.",
        "(the library needs glibc 2.28 or later, that of this system is older)");
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
  @DisplayName("K8: guards against extraction to a place that others can reach")
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
  @DisplayName("K8: guards against a damaged or planted file in the cache that is loaded")
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
  @DisplayName("K8: guards against a cache directory that others can write to, or a link to one")
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
  @DisplayName("K8: guards against a cache directory of another user")
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
    try (Stream<Path> files = Files.list(userCache)) {
      assertEquals(List.of(), files.toList());
    }
  }

  @Test
  @DisplayName("guards against JVMs that disturb each other while the cache is filled")
  void manyJvmsAtOnce() throws Exception {
    List<ChildJvm> jvms = new ArrayList<>();
    List<Process> processes = new ArrayList<>();
    for (int i = 0; i < JVMS; ++i) {
      ChildJvm jvm = jvm().onClassPath(ChildJvm.NATIVES).with("probe.Probe", "product");
      jvms.add(jvm);
      processes.add(jvm.start("child" + i));
    }
    for (int i = 0; i < JVMS; ++i) {
      works(jvms.get(i).finish("child" + i, processes.get(i)));
    }
    try (Stream<Path> files = Files.list(userCache)) {
      assertEquals(1, files.count(), "no temporary file is left");
    }
  }

  @Test
  @DisplayName("guards against copies that pile up when JVMs are killed while they unpack")
  void killedJvms() throws Exception {
    for (int delay : new int[] {150, 200, 250, 300, 400}) {
      ChildJvm jvm = jvm().onClassPath(ChildJvm.NATIVES).with("probe.Probe", "product");
      Process process = jvm.start("killed");
      process.waitFor(delay, TimeUnit.MILLISECONDS);
      process.destroyForcibly().waitFor();
    }
    Files.createDirectories(userCache);
    Files.setPosixFilePermissions(userCache, PosixFilePermissions.fromString("rwx------"));
    Path left = Files.writeString(userCache.resolve(".libdxdw-1.so"), "of a dead process");
    Path writing = Files.writeString(userCache.resolve(".libdxdw-2.so"), "of a live process");
    Path file;
    try (FileChannel channel = FileChannel.open(writing, StandardOpenOption.WRITE);
        FileLock lock = channel.lock()) {
      assertTrue(lock.isValid());
      file = works(jvm().onClassPath(ChildJvm.NATIVES).probe("product"));
      assertFalse(Files.exists(left), "the dead process's file is deleted");
      assertTrue(Files.exists(writing), "the live process's file is not");
    }
    assertEquals(file, works(jvm().onClassPath(ChildJvm.NATIVES).probe("product")));
    try (Stream<Path> files = Files.list(userCache)) {
      assertEquals(List.of(file), files.toList(), "one file of this version");
    }
  }

  @Test
  @DisplayName("K1: guards against a read-only home that ends the search")
  void readOnlyHome() throws Exception {
    String mount = "mount -t tmpfs -o ro tmpfs '" + folder.resolve("home") + "' && ";
    jvm();
    Process trial = new ProcessBuilder("unshare", "-rm", "sh", "-c", mount + "true").start();
    assumeTrue(trial.waitFor() == 0, "this user can't mount a file system");
    Result result =
        jvm()
            .behind("unshare", "-rm", "sh", "-c", mount + "exec \"$@\"", "sh")
            .onClassPath(ChildJvm.NATIVES)
            .probe("product");
    assertEquals(rootsTemporaryCache(), works(result).getParent());
  }

  /** In a namespace of its own by {@code unshare -r}, each user is number 0. */
  private Path rootsTemporaryCache() {
    return temporaryCache.resolveSibling("dxdw-0");
  }

  @Test
  @DisplayName(
      "K1: guards against a noexec directory that ends the search, or is told without the reason")
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
    Files.deleteIfExists(rootsTemporaryCache());
    Files.writeString(rootsTemporaryCache(), "");
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
  @DisplayName("K10: guards against natives that are not found, or output, on the module path")
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
  @DisplayName("K10: guards against a missing grant of native access without the flag to set")
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
  @DisplayName("K10: guards against a missing grant on the class path without the flag to set")
  void withoutNativeAccessOnClassPath() throws Exception {
    assumeTrue(Runtime.version().feature() >= 24, "this JDK only warns");
    fails(
        jvm().withClassPath(ChildJvm.NATIVES).probe("cause"),
        "--enable-native-access=ALL-UNNAMED when it is on the class path",
        "-R--enable-native-access=ALL-UNNAMED",
        "Enable-Native-Access: ALL-UNNAMED");
  }

  @Test
  @DisplayName("J14: guards against a slow path, or none, where Java is started without any flags")
  void withoutFlags() throws Exception {
    Result with = jvm().onClassPath(ChildJvm.NATIVES).probe("level");
    Result without = jvm().withoutFlags().withClassPath(ChildJvm.NATIVES).probe("level");
    assertEquals("", with.err());
    assertEquals(0, without.exit(), without.err());
    assertEquals(with.out(), without.out());
    assertTrue(
        without.err().lines().allMatch(line -> line.isEmpty() || line.startsWith("WARNING: ")),
        without.err());
    assertTrue(without.out().endsWith("\n22.0\n"), without.out());
    String level = without.out().lines().findFirst().orElseThrow();
    assertTrue(without.out().lines().skip(1).anyMatch(line -> line.contains(level)));
  }

  @Test
  @DisplayName("K11: guards against documented lines for jshell that do not work")
  void inJshell() throws Exception {
    String page = Files.readString(DOCUMENTATION.resolve("packaging.md"));
    String section = page.substring(page.indexOf("## jshell"), page.indexOf("## Modules"));
    assertTrue(section.contains("jshell -R--enable-native-access=ALL-UNNAMED --class-path "));
    int start = section.indexOf("```java\n") + "```java\n".length();
    Path script =
        Files.writeString(
            folder.resolve("dw.jsh"),
            section.substring(start, section.indexOf("```", start))
                + "System.out.println(dW)\n/exit\n");
    jvm();
    Process process =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "jshell").toString(),
                "-R--enable-native-access=ALL-UNNAMED",
                "-R-Duser.home=" + folder.resolve("home"),
                "-J-Duser.home=" + folder.resolve("home"),
                "--class-path",
                ChildJvm.CLASSES + File.pathSeparator + ChildJvm.NATIVES,
                script.toString())
            .redirectError(folder.resolve("jshell.err").toFile())
            .redirectOutput(folder.resolve("jshell.out").toFile())
            .start();
    assertTrue(process.waitFor(120, TimeUnit.SECONDS));
    String warned = Files.readString(folder.resolve("jshell.err"));
    assertFalse(warned.contains("native-access"), warned);
    assertEquals(
        "float32[2, 2] cpu\n[[1.0, 3.0],\n [2.0, 4.0]]",
        Files.readString(folder.resolve("jshell.out")).strip());
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
    try (Stream<Path> files = Files.list(userCache)) {
      assertEquals(1, files.count(), "the copy is gone");
    }
  }

  // ---- Several natives ----

  /** A natives JAR for the platform, packed here. */
  private Path packed(String classifier, byte[] library) throws IOException {
    Path file = folder.resolve(classifier + ".jar");
    try (OutputStream out = Files.newOutputStream(file);
        JarOutputStream jar = new JarOutputStream(out)) {
      jar.putNextEntry(new ZipEntry(Bundle.resource(classifier)));
      jar.write(library);
      jar.putNextEntry(new ZipEntry(Bundle.resource(classifier) + ".sha256"));
      jar.write(Cache.sha256(library).getBytes());
    }
    return file;
  }

  @Test
  @DisplayName("K12: guards against natives with CUDA that are passed over beside those without")
  void nativesWithCuda() throws Exception {
    String cuda = Host.current().platform() + "-cuda13";
    byte[] good = Files.readAllBytes(ChildJvm.LIBRARY);
    byte[] marked = Arrays.copyOf(good, good.length + 1);
    Path file = works(jvm().onClassPath(ChildJvm.NATIVES, packed(cuda, marked)).probe("product"));
    assertTrue(file.toString().contains(Cache.sha256(marked)), file.toString());

    Path foreign = packed(cuda, Files.readAllBytes(foreignAbi()));
    file = works(jvm().onClassPath(ChildJvm.NATIVES, foreign).probe("product"));
    assertTrue(file.toString().contains(Cache.sha256(good)), file.toString());
    fails(
        jvm().onClassPath(foreign).probe("cause"),
        "natives JAR "
            + cuda
            + " in "
            + userCache
            + ": has ABI version 999, needed is "
            + dxdw_h.DXDW_ABI_VERSION());
  }

  @Test
  @DisplayName("guards against a runtime image that lacks the library which jlink put into it")
  void inRuntimeImage() throws Exception {
    Path library = Files.createDirectories(folder.resolve("image/lib")).resolve("libdxdw.so");
    Files.copy(ChildJvm.LIBRARY, library);
    Host host = Host.current();
    Result result = host(host.system(), host.processor(), false, folder.resolve("image"));
    assertEquals(library + "\n", result.out());
  }

  // ---- Nothing, and other systems ----

  @Test
  @DisplayName("guards against names that the locale can't express, which end the search")
  void namesBeyondTheLocale() throws Exception {
    assumeTrue(
        StandardCharsets.US_ASCII.newEncoder().canEncode("" + ChildJvm.CLASSES + folder),
        "in this locale Java doesn't find these classes themselves");
    Path file =
        works(
            jvm()
                .behind("env", "LC_ALL=C")
                .with(
                    "-Djava.library.path=/tmp/\u00fc:/nothing",
                    "-Duser.home=/tmp/\u00fc",
                    "-Ddxdw.cache=/tmp/\u00fc")
                .onClassPath(ChildJvm.NATIVES)
                .probe("product"));
    assertEquals(temporaryCache, file.getParent());
  }

  @Test
  @DisplayName("guards against a natives JAR that is passed over without a word")
  void nowhereToUnpack() throws Exception {
    fails(
        jvm()
            .with("-Duser.home=", "-Djava.io.tmpdir=")
            .onClassPath(ChildJvm.NATIVES)
            .probe("cause"),
        "natives JAR linux-x86_64: no property names a directory to unpack it to");
  }

  @Test
  @DisplayName("guards against a failure that names one attempt of several, or no way out")
  void nothingAnywhere() throws Exception {
    fails(
        jvm().onClassPath().probe("cause"),
        "property dxdw.library: not set",
        "java.library.path: no libdxdw.so in",
        "Java runtime: "
            + Path.of(System.getProperty("java.home"), "lib/libdxdw.so")
            + ": there is",
        "io.github.dxdw:dxdw-natives:" + Library.version() + " with classifier linux-x86_64",
        "-Ddxdw.library=/absolute/path/to/libdxdw.so");
  }

  private Result host(String system, String processor, boolean musl, Object... more)
      throws Exception {
    ChildJvm jvm =
        jvm()
            .onClassPath(ChildJvm.NATIVES)
            .with("io.github.dxdw.internal.HostProbe", system, processor, "" + musl);
    for (Object argument : more) {
      jvm.with(argument.toString());
    }
    return jvm.finish("host", jvm.start("host"));
  }

  @Test
  @DisplayName("guards against advice to add natives for a system that there are none for")
  void unknownSystems() throws Exception {
    for (String[] system : new String[][] {{"macosx", "aarch_64"}, {"linux", "riscv64"}}) {
      fails(
          host(system[0], system[1], false),
          "has META-INF/dxdw/" + system[0] + "-" + system[1] + "/libdxdw.so",
          "there are natives for linux-x86_64 and linux-aarch_64 only, so build libdxdw on this");
    }
    fails(
        host("linux", "aarch_64", false),
        "dxdw-natives:" + Library.version() + " with classifier linux-aarch_64",
        "io.github.dxdw:dxdw-all");
  }

  @Test
  @DisplayName("K3: guards against glibc natives on musl that end in the linker's words alone")
  void onMusl() throws Exception {
    Host host = Host.current();
    fails(
        host(host.system(), host.processor(), true),
        "natives JAR "
            + host.platform()
            + ": this JVM runs on musl libc, the library needs glibc"
            + " 2.28 or later: build libdxdw on this system");
    assertFalse(Files.exists(userCache), "nothing is unpacked in vain");
  }

  @Test
  @DisplayName("guards against a failure that keeps one cause of several")
  void keepsAllCauses() throws Exception {
    jvm();
    Files.createDirectories(userCache.getParent());
    Files.writeString(userCache, "");
    Files.writeString(temporaryCache, "");
    Host host = Host.current();
    fails(
        host(host.system(), host.processor(), false),
        userCache + ": java.io.IOException: " + userCache + " is refused",
        temporaryCache + ": java.io.IOException: " + temporaryCache + " is refused",
        "causes: 2");
  }

  @Test
  @DisplayName("guards against instructions that older processors lack, on the way or in kernels")
  void onAnOlderProcessor() throws Exception {
    assumeTrue(Host.current().processor().equals("x86_64"), "Nehalem is one of x86-64");
    assumeTrue(
        Stream.of(System.getenv("PATH").split(File.pathSeparator))
            .anyMatch(path -> Files.isExecutable(Path.of(path, "qemu-x86_64"))),
        "qemu-x86_64 is not on the PATH");
    String[] emulator = {"qemu-x86_64", "-cpu", "Nehalem"};
    Result result = jvm().behind(emulator).onClassPath(ChildJvm.NATIVES).probe("level");
    assertEquals("", result.err());
    assertTrue(result.out().startsWith("baseline\n"), result.out());
    assertTrue(result.out().endsWith("\n22.0\n"), result.out());
  }

  @Test
  @DisplayName("K3: guards against musl that is not recognised")
  void musl() {
    assertTrue(
        Host.mapsMusl(Stream.of("7f00-7f01 r-xp 00000000 08:01 12  /lib/ld-musl-x86_64.so.1")));
    assertFalse(
        Host.mapsMusl(
            Stream.of("7f00-7f01 r-xp 00000000 08:01 12  /usr/lib/x86_64-linux-gnu/libc.so.6")));
  }

  // ---- The natives JAR ----

  @Test
  @DisplayName(
      "K13, K16: guards against classes in the natives JAR, and binaries of another processor")
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
