package io.github.dxdw.packaging;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.module.ModuleDescriptor;
import java.lang.module.ModuleFinder;
import java.nio.file.Files;
import java.util.List;
import java.util.Set;
import java.util.spi.ToolProvider;
import java.util.stream.Collectors;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.w3c.dom.Element;

/** The JARs of the library itself, those of the sources and of the documentation beside it. */
class ApiJarTest {
  @Test
  @DisplayName("K12: guards against an API JAR that brings binaries, or is large")
  void smallAndWithoutBinaries() throws Exception {
    assertTrue(Files.size(Build.api("")) < 1_000_000, () -> Build.api("").toString());
    List<String> names = Build.names(Build.api(""));
    assertTrue(names.contains("io/github/dxdw/Dxdw.class"));
    assertTrue(names.contains("META-INF/LICENSE"));
    assertTrue(
        names.contains("META-INF/native-image/io.github.dxdw/dxdw/reachability-metadata.json"));
    for (String name : names) {
      assertTrue(
          name.equals("module-info.class")
              || name.startsWith("io/github/dxdw/")
              || name.startsWith("META-INF/"),
          name);
      assertFalse(name.matches(".*\\.(so|dll|dylib|a|cubin|ptx)"), name);
    }
  }

  @Test
  @DisplayName("guards against a library that is no module, requires others, or shows its insides")
  void module() {
    ModuleDescriptor module =
        ModuleFinder.of(Build.api("")).findAll().iterator().next().descriptor();
    assertEquals("io.github.dxdw", module.name());
    assertFalse(module.isAutomatic());
    assertFalse(module.isOpen());
    assertEquals(
        Set.of("java.base"),
        module.requires().stream()
            .filter(
                required ->
                    !required.modifiers().contains(ModuleDescriptor.Requires.Modifier.STATIC))
            .map(ModuleDescriptor.Requires::name)
            .collect(Collectors.toSet()));
    Set<String> exported =
        module.exports().stream().map(ModuleDescriptor.Exports::source).collect(Collectors.toSet());
    assertTrue(exported.contains("io.github.dxdw"), exported.toString());
    assertTrue(
        exported.stream()
            .noneMatch(name -> name.endsWith(".internal") || name.endsWith(".bindings")),
        exported.toString());

    StringWriter said = new StringWriter();
    PrintWriter out = new PrintWriter(said);
    int status =
        ToolProvider.findFirst("jar")
            .orElseThrow()
            .run(out, out, "--describe-module", "--file", Build.api("").toString());
    assertEquals(0, status, said.toString());
    assertTrue(
        said.toString().startsWith("io.github.dxdw@" + Build.VERSION + " jar:"), said.toString());
    assertTrue(said.toString().contains("\nexports io.github.dxdw\n"), said.toString());
    assertTrue(said.toString().contains("\nrequires java.base mandated\n"), said.toString());
  }

  @Test
  @DisplayName("guards against a library that pulls others in")
  void noDependencies() throws Exception {
    Element pom = Build.pom("java/dxdw/pom.xml");
    for (Element dependency :
        Build.children(Build.children(pom, "dependencies").getFirst(), "dependency")) {
      assertEquals("test", Build.value(dependency, "scope"), dependency.getTextContent());
    }
    assertTrue(
        Build.children(Build.pom("pom.xml"), "dependencies").isEmpty(), "inherited by everyone");
  }

  @Test
  @DisplayName("guards against missing sources, and documentation of what is not exported")
  void sourcesAndDocumentation() throws Exception {
    List<String> sources = Build.names(Build.api("-sources"));
    assertTrue(
        sources.containsAll(
            List.of(
                "module-info.java",
                "io/github/dxdw/Dxdw.java",
                "io/github/dxdw/internal/Loader.java",
                "io/github/dxdw/bindings/dxdw_h.java")),
        sources.toString());
    List<String> pages = Build.names(Build.api("-javadoc"));
    assertTrue(pages.contains("io.github.dxdw/io/github/dxdw/Dxdw.html"), pages.toString());
    assertTrue(
        pages.stream().noneMatch(name -> name.matches(".*/dxdw/(internal|bindings)/.*")),
        pages.toString());
  }
}
