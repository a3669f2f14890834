package io.github.dxdw.packaging;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** What the pages say, against what there is. */
class DocumentationTest {
  private static final Pattern LINK = Pattern.compile("\\]\\(([^)#\\s]+)(#[^)]*)?\\)");

  private static List<Path> files(String folder, String name) throws IOException {
    try (Stream<Path> files = Files.walk(Build.ROOT.resolve(folder))) {
      return files
          .filter(file -> file.getFileName().toString().matches(name))
          .filter(file -> !file.toString().contains("/target/"))
          .toList();
    }
  }

  private static void collect(Set<String> found, String text, String pattern) {
    Matcher matcher = Pattern.compile(pattern).matcher(text);
    while (matcher.find()) {
      found.add(matcher.group(1));
    }
  }

  @Test
  @DisplayName("guards against a property or environment variable that no page tells of")
  void everySwitchIsListed() throws IOException {
    Set<String> used = new TreeSet<>();
    for (Path file : files("java/dxdw/src/main/java", ".*\\.java")) {
      String source = Files.readString(file);
      collect(used, source, "\"(dxdw\\.(?!so\\b)[a-z.]+)\"");
      collect(used, source, "getProperty\\(\"((?:java|user)\\.(?!home)[a-z.]+|user\\.home)\"");
      collect(used, source, "getenv\\(\"(\\w+)\"");
    }
    for (String folder : List.of("native/src", "native/cpu", "native/cuda")) {
      for (Path file : files(folder, ".*\\.(cpp|hpp|cu|cuh|c)")) {
        collect(used, Files.readString(file), "getenv\\(\"(\\w+)\"");
      }
    }
    Set<String> listed = new TreeSet<>();
    String page = Build.text("docs/loading.md");
    String table =
        page.substring(
            page.indexOf("## Properties and environment variables"),
            page.indexOf("## When nothing can be loaded"));
    for (String line : table.lines().filter(line -> line.startsWith("| `")).toList()) {
      collect(listed, line.substring(0, line.indexOf("|", 1)), "`([A-Za-z_.]+)`");
    }
    assertTrue(used.contains("dxdw.library") && used.contains("DXDW_SIMD"), used.toString());
    assertEquals(used, listed);
  }

  @Test
  @DisplayName("guards against links that lead nowhere, and pages that nobody finds")
  void links() throws IOException {
    List<Path> pages = new ArrayList<>(files("docs", ".*\\.md"));
    for (String page : List.of("README.md", "SECURITY.md", "samples/README.md")) {
      pages.add(Build.ROOT.resolve(page));
    }
    for (Path page : pages) {
      Matcher link = LINK.matcher(Files.readString(page));
      while (link.find()) {
        if (!link.group(1).contains("://")) {
          Path target = page.resolveSibling(link.group(1)).normalize();
          assertTrue(Files.exists(target), () -> page + " links to " + target);
        }
      }
    }
    String readme = Build.text("README.md");
    List<String> linked = new ArrayList<>(List.of("SECURITY.md", "samples"));
    files("docs", ".*\\.md").forEach(page -> linked.add(Build.ROOT.relativize(page).toString()));
    assertTrue(linked.size() > 7, linked.toString());
    for (String page : linked) {
      assertTrue(readme.contains("](" + page + ")"), "README.md does not link to " + page);
    }
  }
}
