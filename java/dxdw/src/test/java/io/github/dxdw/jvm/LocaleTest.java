package io.github.dxdw.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.github.dxdw.ChildJvm;
import java.io.IOException;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A JVM gives the C library the user's locale. */
class LocaleTest {
  @Test
  @DisplayName("guards against a decimal comma in messages and plans, where the user has one")
  void numbersHaveAPoint(@TempDir Path folder) throws Exception {
    String locale = "de_DE.UTF-8";
    assumeTrue(made(locale, folder), "localedef, of package locales, makes no " + locale);
    ChildJvm jvm =
        new Child(folder)
            .jvm()
            .behind("env", "LOCPATH=" + folder, "LC_ALL=" + locale)
            .onClassPath()
            .with(Programs.class.getName(), "numbers");
    ChildJvm.Result result = jvm.finish("numbers", jvm.start("numbers"));
    assertEquals("", result.err());
    assertEquals(
        """
        0,5
        scalars: maxNorm, number 0, is -0.5, expected a number from 0 to inf
        0.97 waves
        float32[1] cpu
        [0.5]
        """,
        result.out());
  }

  private static boolean made(String locale, Path folder) throws InterruptedException {
    try {
      Process process =
          new ProcessBuilder(
                  "localedef", "-i", "de_DE", "-f", "UTF-8", folder.resolve(locale).toString())
              .redirectErrorStream(true)
              .redirectOutput(ProcessBuilder.Redirect.DISCARD)
              .start();
      return process.waitFor(1, TimeUnit.MINUTES) && process.exitValue() == 0;
    } catch (IOException e) {
      return false;
    }
  }
}
