package io.github.dxdw.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.github.dxdw.ChildJvm;
import io.github.dxdw.TestDevice;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Calls as JDK Flight Recorder shows them; it may be off, or missing. */
class LaunchEventTest {
  @TempDir Path folder;

  @Test
  @DisplayName("calls are recorded with function, device, operands and plan, refused ones are not")
  void recorded() throws Exception {
    List<String> lines = new Child(folder).lines("events");
    String device = TestDevice.NAME;
    List<String> expected =
        List.of(
            "refused",
            "y on " + device + ": bfloat16[40, 30], bfloat16[30, 20], float32[40, 20]; true, true,",
            "dw on "
                + device
                + ": bfloat16[40, 30], bfloat16[40, 20], float32[30, 20]; true, true, split 4,"
                + " true,",
            "weightedSumBackward on "
                + device
                + ": bfloat16[40, 30], bfloat16[30], bfloat16[40], none, float32[30]; true, true,",
            "copy on " + device + ": bfloat16[40, 30], bfloat16[40, 30]; false, false,",
            "softmaxCrossEntropy on "
                + device
                + ": bfloat16[40, 30], int32[40], float32[40]; true, true,");
    assertEquals(expected.size(), lines.size(), () -> "" + lines);
    for (int i = 0; i < lines.size(); ++i) {
      assertTrue(lines.get(i).startsWith(expected.get(i)), lines.get(i));
      assertTrue(i == 0 || lines.get(i).endsWith("true"), lines.get(i));
    }
    if (device.equals("cpu")) {
      assertTrue(lines.get(2).contains("workspace 9600,"), lines.get(2));
    }
  }

  @Test
  @DisplayName("calls are recorded as the page on threads and devices says, on the module path too")
  void fromTheCommandLine() throws Exception {
    String page =
        Files.readString(
            Path.of(System.getProperty("dxdw.test.root"), "docs/threads-and-devices.md"));
    Matcher option =
        Pattern.compile("-XX:StartFlightRecording:filename=calls\\.jfr\\S*").matcher(page);
    assertTrue(option.find(), "the page shows no recording");
    ChildJvm.Result product =
        new Child(folder)
            .with(option.group(), "-Xlog:disable", "--enable-native-access=io.github.dxdw")
            .jvm()
            .onModulePath()
            .probe("product");
    assertEquals(0, product.exit(), product.err());
    List<String> lines =
        new Child(folder).lines("print-events", folder.resolve("calls.jfr").toString());
    assertEquals(1, lines.size(), () -> "" + lines);
    assertTrue(lines.getFirst().startsWith("y on cpu: float32[2, 2]"), lines.getFirst());
  }

  @Test
  @DisplayName("guards against events that cost while nobody records: 0 bytes in a thousand calls")
  void costNothing() throws Exception {
    assumeTrue(TestDevice.NAME.equals("cpu"), "counts bytes of calls on the CPU");
    assertEquals(List.of("bytes 0", "bytes 0"), new Child(folder).optimised().lines("no-events"));
  }

  @Test
  @DisplayName("guards against a library that needs the recorder: calls without module jdk.jfr")
  void withoutRecorder() throws Exception {
    ChildJvm.Result result =
        new Child(folder)
            .with("--limit-modules=io.github.dxdw", "--enable-native-access=io.github.dxdw")
            .jvm()
            .onModulePath()
            .probe("product");
    assertEquals("", result.err());
    assertEquals(ChildJvm.LIBRARY + "\n22.0\n", result.out());
  }
}
