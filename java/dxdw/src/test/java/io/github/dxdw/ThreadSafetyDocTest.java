package io.github.dxdw;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** What threads may do with an object is said where it is looked for. */
class ThreadSafetyDocTest {
  private static final Path SOURCES =
      Path.of(System.getProperty("dxdw.test.root"), "java/dxdw/src/main/java/io/github/dxdw");

  private static final Pattern TYPE =
      Pattern.compile(
          "/\\*\\*((?:(?!\\*/).)*)\\*/\\s*(?:@\\S+\\s+)*public (?:\\w+ )*(?:class|record)"
              + " (\\w+)([^{]*)",
          Pattern.DOTALL);

  @Test
  @DisplayName("guards against a public type that does not say which threads may use it")
  void eachTypeSaysIt() throws IOException {
    List<String> silent = new ArrayList<>();
    int types = 0;
    try (Stream<Path> all = Files.walk(SOURCES)) {
      for (Path file : all.filter(path -> path.toString().endsWith(".java")).sorted().toList()) {
        if (file.toString().contains("/internal/")) {
          continue;
        }
        Matcher type = TYPE.matcher(Files.readString(file));
        while (type.find()) {
          ++types;
          boolean exception = type.group(3).contains("Exception");
          String text = type.group(1).toLowerCase(java.util.Locale.ROOT);
          if (!exception && !text.contains("immutable") && !text.contains("thread")) {
            silent.add(type.group(2));
          }
        }
      }
    }
    assertTrue(types > 15, "found only " + types + " types");
    assertEquals(List.of(), silent);
  }
}
