package io.github.dxdw.internal;

import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.lang.module.ModuleFinder;
import java.lang.module.ModuleReader;
import java.lang.module.ModuleReference;
import java.net.URL;
import java.net.URLConnection;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The native library as a natives JAR brings it, with its SHA-256 beside it. The folder is no
 * package, so modules don't encapsulate it.
 */
final class Bundle {
  private static final Pattern SHA256 = Pattern.compile("[0-9a-f]{64}");

  /** Opens the resource of that name. */
  private interface Opener {
    Optional<InputStream> open(String resource) throws IOException;
  }

  private final String resource;
  private final Opener opener;
  private final String sha256;

  private Bundle(String resource, Opener opener, String sha256) {
    this.resource = resource;
    this.opener = opener;
    this.sha256 = sha256;
  }

  String sha256() {
    return sha256;
  }

  /** The library itself, verified. Takes some time: not wanted where the cache has it. */
  byte[] content() throws IOException {
    byte[] content =
        bytes(opener.open(resource).orElseThrow(() -> new IOException(resource + " is gone")));
    String actual = Cache.sha256(content);
    if (!actual.equals(sha256)) {
      throw new IOException(
          resource + " is damaged: its SHA-256 is " + actual + ", expected " + sha256);
    }
    return content;
  }

  static String resource(String classifier) {
    return "META-INF/dxdw/" + classifier + "/libdxdw.so";
  }

  /**
   * Looks on the class path, in the modules of the boot layer, then in the rest of the module path.
   */
  static Optional<Bundle> find(String classifier) throws IOException {
    String resource = resource(classifier);
    Optional<Bundle> bundle = read(resource, Bundle::openByClassLoader);
    return bundle.isPresent() ? bundle : read(resource, Bundle::openOnModulePath);
  }

  private static Optional<Bundle> read(String resource, Opener opener) throws IOException {
    Optional<InputStream> library = opener.open(resource);
    if (library.isEmpty()) {
      return Optional.empty();
    }
    library.get().close();
    Optional<InputStream> hash = opener.open(resource + ".sha256");
    if (hash.isEmpty()) {
      throw new IOException(resource + ".sha256 is missing beside the library");
    }
    Matcher expected = SHA256.matcher(new String(bytes(hash.get()), StandardCharsets.US_ASCII));
    if (!expected.find()) {
      throw new IOException(resource + ".sha256 holds no SHA-256");
    }
    return Optional.of(new Bundle(resource, opener, expected.group()));
  }

  private static Optional<InputStream> openByClassLoader(String resource) throws IOException {
    ClassLoader loader = Bundle.class.getClassLoader();
    URL url =
        loader == null ? ClassLoader.getSystemResource(resource) : loader.getResource(resource);
    if (url == null) {
      return Optional.empty();
    }
    URLConnection connection = url.openConnection();
    connection.setUseCaches(false);
    return Optional.of(connection.getInputStream());
  }

  /** A natives JAR that no module requires is on the module path, but not in the module graph. */
  private static Optional<InputStream> openOnModulePath(String resource) throws IOException {
    String modulePath = System.getProperty("jdk.module.path", "");
    Path[] entries =
        Arrays.stream(modulePath.split(File.pathSeparator))
            .filter(entry -> !entry.isEmpty())
            .map(Path::of)
            .toArray(Path[]::new);
    for (ModuleReference module : ModuleFinder.of(entries).findAll()) {
      if (!module.descriptor().name().startsWith("io.github.dxdw.natives")) {
        continue;
      }
      try (ModuleReader reader = module.open()) {
        Optional<InputStream> in = reader.open(resource);
        if (in.isPresent()) {
          return Optional.of(new ByteArrayInputStream(bytes(in.get())));
        }
      }
    }
    return Optional.empty();
  }

  private static byte[] bytes(InputStream in) throws IOException {
    try (in) {
      return in.readAllBytes();
    }
  }
}
