package io.github.dxdw;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A GPU lost for good, which needs a JVM of its own. */
class GpuLossTest {
  @Test
  @DisplayName("a real fault loses the device with one cause for all later calls; the CPU goes on")
  void lostForGood(@TempDir Path folder) throws Exception {
    assumeTrue(Device.cuda(0).isAvailable(), Device.cuda(0)::unavailabilityCause);
    ChildJvm child =
        new ChildJvm(folder)
            .with("-Ddxdw.library=" + ChildJvm.LIBRARY)
            .onClassPath()
            .with(GpuLoss.class.getName());
    ChildJvm.Result result = child.finish("loss", child.start("loss"));
    assertEquals("", result.err());
    assertEquals(0, result.exit(), result.out());
    List<String> lines = result.out().lines().toList();
    assertTrue(lines.get(0).matches("fault 6 .*cudaErrorIllegalAddress.*"), result.out());
    String cause = lines.get(0).substring("fault 6 ".length());
    for (int i = 1; i <= 4; ++i) {
      assertTrue(lines.get(i).endsWith(" DeviceLostException " + cause), result.out());
    }
    assertTrue(lines.contains("cpu 22.0"), result.out());
    assertTrue(lines.stream().anyMatch(line -> line.startsWith("available false")), result.out());
    assertEquals("closed", lines.getLast());
  }
}
