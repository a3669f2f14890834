package io.github.dxdw.packaging;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import java.util.List;
import java.util.Set;
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
}
