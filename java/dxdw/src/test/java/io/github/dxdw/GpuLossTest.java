package io.github.dxdw;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A GPU lost for good, which needs a JVM of its own. */
class GpuLossTest {
  private static boolean closed(Path out) throws IOException {
    return Files.readString(out).endsWith("closed\n");
  }

  @Test
  @DisplayName("a real fault loses the device with one cause for all later calls; the CPU goes on")
  void lostForGood(@TempDir Path folder) throws Exception {
    assumeTrue(Device.cuda(0).isAvailable(), Device.cuda(0)::unavailabilityCause);
    ChildJvm child =
        new ChildJvm(folder)
            .with("-Ddxdw.library=" + ChildJvm.LIBRARY)
            .onClassPath()
            .with(GpuLoss.class.getName());
    Process process = child.start("loss");
    Path out = folder.resolve("loss.out");
    List<String> lines;
    try {
      // Not the end of the process: after such a fault the driver's own teardown may wait for ever
      // for other processes that use the GPU, and this one does.
      for (int i = 0; i < 600 && process.isAlive() && !closed(out); ++i) {
        Thread.sleep(100);
      }
      lines = Files.readAllLines(out);
    } finally {
      process.destroyForcibly();
    }
    assertEquals("", Files.readString(folder.resolve("loss.err")));
    String all = String.join("\n", lines);
    assertEquals(10, lines.size(), all);
    assertTrue(lines.get(0).matches("fault 6 .*cudaErrorIllegalAddress.*"), all);
    String cause = lines.get(0).substring("fault 6 ".length());
    for (int i = 1; i <= 4; ++i) {
      assertTrue(lines.get(i).endsWith(" DeviceLostException " + cause), all);
    }
    assertTrue(lines.contains("cpu 22.0"), all);
    assertTrue(lines.stream().anyMatch(line -> line.startsWith("available false")), all);
    assertEquals("closed", lines.getLast());
  }
}
