package io.github.dxdw.packaging;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.w3c.dom.Element;

/** What users write into their build files. */
class CoordinatesTest {
  private static final List<String> EVERYTHING =
      List.of(
          "dxdw",
          "dxdw-all",
          "dxdw-natives:linux-x86_64",
          "dxdw-natives:linux-x86_64-cuda13",
          "dxdw-natives:linux-aarch_64");

  @Test
  @DisplayName("guards against a BOM that forgets an artifact, or is of another version")
  void bom() throws Exception {
    Element pom = Build.pom("java/dxdw-bom/pom.xml");
    assertEquals(Build.VERSION, Build.value(pom, "version"));
    assertEquals(
        EVERYTHING, Build.dependencies(Build.children(pom, "dependencyManagement").getFirst()));
  }

  @Test
  @DisplayName("guards against the one dependency for everybody that forgets a platform")
  void all() throws Exception {
    assertEquals(
        List.of("dxdw", "dxdw-natives:linux-x86_64", "dxdw-natives:linux-aarch_64"),
        Build.dependencies(Build.pom("java/dxdw-all/pom.xml")));
    Path jar = Build.ROOT.resolve("java/dxdw-natives/target/dxdw-all.jar");
    assertEquals(Set.of("META-INF/LICENSE", "META-INF/MANIFEST.MF"), Set.copyOf(Build.names(jar)));
  }

  @Test
  @DisplayName("guards against an artifact that does not say what it is, or under which licence")
  void published() throws Exception {
    Element parent = Build.pom("pom.xml");
    for (String name : List.of("dxdw", "dxdw-natives", "dxdw-all", "dxdw-bom")) {
      Element pom = Build.pom("java/" + name + "/pom.xml");
      assertEquals(name, Build.value(pom, "name"));
      assertTrue(Build.value(pom, "description").length() > 20, name);
      // The BOM has no parent to say it.
      Element said = Build.children(pom, "parent").isEmpty() ? pom : parent;
      Element license = Build.children(only(said, "licenses"), "license").getFirst();
      assertEquals("Apache-2.0", Build.value(license, "name"), name);
      assertEquals(
          "https://www.apache.org/licenses/LICENSE-2.0.txt", Build.value(license, "url"), name);
      Element developer = Build.children(only(said, "developers"), "developer").getFirst();
      assertTrue(Build.value(developer, "name").contains("dxdw"), name);
    }
  }

  private static Element only(Element parent, String name) {
    List<Element> found = Build.children(parent, name);
    assertEquals(1, found.size(), name);
    return found.getFirst();
  }

  /** The dependencies of a Gradle build, as artifact or artifact:classifier, platforms left out. */
  private static List<String> gradleDependencies(String text) {
    Matcher found =
        Pattern.compile("(?m)^ *(?:implementation|runtimeOnly)\\(\"io\\.github\\.dxdw:(.*)\"\\)")
            .matcher(text);
    List<String> dependencies = new ArrayList<>();
    while (found.find()) {
      dependencies.add(found.group(1).replace("::", ":"));
    }
    return dependencies;
  }

  @Test
  @DisplayName("K12: guards against samples of another version, or that pull several platforms")
  void samples() throws Exception {
    List<String> one = List.of("dxdw", "dxdw-natives:linux-x86_64");
    for (String name : List.of("maven", "spring-boot", "jlink", "fat-jar")) {
      Element pom = Build.pom("samples/" + name + "/pom.xml");
      Element properties = Build.children(pom, "properties").getFirst();
      assertEquals(Build.VERSION, Build.value(properties, "dxdw.version"), name);
      assertEquals(
          name.equals("fat-jar") ? List.of("dxdw-all") : one, Build.dependencies(pom), name);
    }
    String gradle = Build.text("samples/gradle/build.gradle.kts");
    assertEquals(one, gradleDependencies(gradle));
    assertTrue(
        gradle.contains(
            "implementation(platform(\"io.github.dxdw:dxdw-bom:" + Build.VERSION + "\"))"));
    assertTrue(gradle.contains("--enable-native-access=ALL-UNNAMED"));
  }

  @Test
  @DisplayName("guards against a page with coordinates that do not exist")
  void page() {
    String page = Build.text("docs/packaging.md");
    List<String> named = new ArrayList<>();
    Matcher dependency =
        Pattern.compile(
                "<artifactId>(.*)</artifactId>\\s*(?:<version>(.*)</version>\\s*)?"
                    + "(?:<classifier>(.*)</classifier>)?")
            .matcher(page);
    while (dependency.find()) {
      if (dependency.group(2) != null) {
        assertEquals(Build.VERSION, dependency.group(2));
      }
      named.add(
          dependency.group(1) + (dependency.group(3) == null ? "" : ":" + dependency.group(3)));
    }
    assertEquals(List.of("dxdw-all", "dxdw-bom", "dxdw", "dxdw-natives:linux-x86_64"), named);
    assertEquals(List.of("dxdw", "dxdw-natives:linux-x86_64"), gradleDependencies(page));
    assertTrue(page.contains("dxdw-bom:" + Build.VERSION), "the BOM for Gradle");
    for (String artifact : EVERYTHING) {
      String[] parts = artifact.split(":");
      String row = "| `" + parts[0] + "` | " + (parts.length > 1 ? "`" + parts[1] + "` |" : "|");
      assertTrue(page.contains(row), row);
    }
  }
}
