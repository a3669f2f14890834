package io.github.dxdw.packaging;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.TreeMap;
import java.util.function.Predicate;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import javax.xml.parsers.DocumentBuilderFactory;
import org.w3c.dom.Element;
import org.w3c.dom.Node;
import org.w3c.dom.NodeList;

/** Where the build puts what it packs. */
final class Build {
  static final Path ROOT = Path.of(System.getProperty("dxdw.test.root"));
  static final String VERSION = System.getProperty("dxdw.test.version");
  static final String PLATFORM = System.getProperty("dxdw.test.platform");

  private Build() {}

  /** An artifact of the module java/dxdw: "" its JAR, "-sources", "-javadoc". */
  static Path api(String suffix) {
    return ROOT.resolve("java/dxdw/target/dxdw-" + VERSION + suffix + ".jar");
  }

  /** The natives JARs of this version that have been packed, by classifier. */
  static TreeMap<String, Path> natives() throws IOException {
    TreeMap<String, Path> natives = new TreeMap<>();
    String start = "dxdw-natives-" + VERSION + "-";
    try (Stream<Path> files = Files.list(ROOT.resolve("java/dxdw-natives/target"))) {
      for (Path file : files.toList()) {
        String name = file.getFileName().toString();
        if (name.startsWith(start) && name.endsWith(".jar")) {
          natives.put(name.substring(start.length(), name.length() - 4), file);
        }
      }
    }
    return natives;
  }

  /** The names of the files in a JAR. */
  static List<String> names(Path jar) throws IOException {
    try (ZipFile zip = new ZipFile(jar.toFile())) {
      return zip.stream()
          .filter(Predicate.not(ZipEntry::isDirectory))
          .map(ZipEntry::getName)
          .sorted()
          .toList();
    }
  }

  static byte[] read(Path jar, String name) throws IOException {
    try (ZipFile zip = new ZipFile(jar.toFile())) {
      return zip.getInputStream(zip.getEntry(name)).readAllBytes();
    }
  }

  static String text(String file) {
    try {
      return Files.readString(ROOT.resolve(file));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** A POM's root element. */
  static Element pom(String file) throws Exception {
    return DocumentBuilderFactory.newInstance()
        .newDocumentBuilder()
        .parse(ROOT.resolve(file).toFile())
        .getDocumentElement();
  }

  /** The children of that name. */
  static List<Element> children(Element parent, String name) {
    NodeList nodes = parent.getChildNodes();
    return Stream.iterate(0, i -> i < nodes.getLength(), i -> i + 1)
        .map(nodes::item)
        .filter(node -> node.getNodeType() == Node.ELEMENT_NODE && node.getNodeName().equals(name))
        .map(Element.class::cast)
        .toList();
  }

  /** The text of the child of that name, "" without one. */
  static String value(Element parent, String name) {
    List<Element> found = children(parent, name);
    return found.isEmpty() ? "" : found.getFirst().getTextContent().strip();
  }

  /** The dependencies below a POM's element, as artifact or artifact:classifier. */
  static List<String> dependencies(Element parent) {
    return children(children(parent, "dependencies").getFirst(), "dependency").stream()
        .map(
            dependency ->
                value(dependency, "artifactId")
                    + (value(dependency, "classifier").isEmpty()
                        ? ""
                        : ":" + value(dependency, "classifier")))
        .toList();
  }
}
