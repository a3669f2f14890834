package io.github.dxdw.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.invoke.MethodHandle;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** A downcall through a handle that the compiler can't see to be constant is ten times slower. */
class HandleTest {
  @Test
  @DisplayName("J20: every handle is static final")
  void handlesAreConstant() {
    List<String> others = new ArrayList<>();
    int handles = 0;
    for (Field field : Native.class.getDeclaredFields()) {
      if (field.getType() != MethodHandle.class) {
        continue;
      }
      ++handles;
      int modifiers = field.getModifiers();
      if (!Modifier.isStatic(modifiers) || !Modifier.isFinal(modifiers)) {
        others.add(field.getName());
      }
    }
    assertTrue(handles > 0, "no handle found in " + Native.class);
    assertEquals(List.of(), others);
  }

  @Test
  @DisplayName("J20: no class of the library calls invokeWithArguments")
  void nothingInvokesWithArguments() throws IOException, URISyntaxException {
    Path classes =
        Path.of(Native.class.getProtectionDomain().getCodeSource().getLocation().toURI());
    List<Path> files;
    try (Stream<Path> all = Files.walk(classes)) {
      files = all.filter(file -> file.toString().endsWith(".class")).toList();
    }
    assertTrue(files.size() > 10, "only " + files.size() + " classes in " + classes);
    List<Path> callers = new ArrayList<>();
    for (Path file : files) {
      // A method that is called stands by its name in the class file.
      String text = new String(Files.readAllBytes(file), StandardCharsets.ISO_8859_1);
      if (text.contains("invokeWithArguments")) {
        callers.add(file);
      }
    }
    assertEquals(List.of(), callers);
  }
}
