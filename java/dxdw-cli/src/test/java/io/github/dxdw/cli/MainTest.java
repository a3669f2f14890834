package io.github.dxdw.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.dxdw.Device;
import io.github.dxdw.Dxdw;
import java.io.DataOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import java.util.zip.GZIPOutputStream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@DisplayName(
    "Guards against failures that are a stack trace, or a message that does not say what was wrong")
class MainTest {

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "''                                 | a command is missing",
        "bogus                              | 'bogus'",
        "train                              | a data set is missing: digits, fashion",
        "train mnist                        | 'mnist'",
        "train digits --dtype fp8           | '--dtype': 'fp8' is none of fp32, fp16, bf16",
        "train digits --device tpu          | '--device': 'tpu' is none of cpu, cuda, cuda:N",
        "train digits --device cuda:-1      | '--device': 'cuda:-1' is none of cpu, cuda, cuda:N",
        "train digits --split -1            | '--split': -1: expected 0 to 16",
        "train digits --split 17            | '--split': 17: expected 0 to 16",
        "train digits --threads 1025        | '--threads': 1025: expected 0 to 1024",
        "train digits --epochs 0            | '--epochs': 0: expected 1 or more",
        "train digits --epochs many         | '--epochs': 'many' is not an int",
        "train digits --seed                | '--seed'",
        "train digits --chart loss.gif      | '--chart': loss.gif: expected a name in .png",
        "train digits --chart no/where.png  | is no folder that can be written to",
        "train digits --colour              | '--colour'",
        "train digits --chart /dev/full/x.png | is no folder that can be written to",
        "train fashion --epochs 0           | '--epochs': 0: expected 1 or more",
        "train fashion --split 257          | '--split': 257: expected 0 to 256",
        "bench                              | a measurement is missing: cpu, chart",
        "bench cpu --repeats 0              | '--repeats': 0: expected 1 or more",
        "bench cpu --threads -1             | '--threads': -1: expected 0 to 1024",
        "train digits --chart /proc/x.png   | '--chart': /proc/x.png: ",
        "bench chart results.json           | 'PNG'",
        "bench chart results.json x.gif     | (PNG): x.gif: expected a name in .png",
        "bench chart results.json no/x.png  | is no folder that can be written to",
        "bench floors a.json b.json picture | (PNG): picture: expected a name in .png",
        "bench cpu --json no/where.json     | '--json': no/where.json:",
        "bench cpu --json /                 | '--json': '/' is no name of a file",
        "plan 4 5                           | 'N'",
        "plan 4 5 six                       | (N): 'six' is not a long",
        "plan 4 5 -6                        | N -6",
        "plan -- -1 2 3                     | T -1",
        "plan 9223372036854775807 2 3       | T 9223372036854775807",
        "plan 4 5 6 --sms 0                 | '--sms': 0: expected 1 or more",
        "plan 4 5 6 --capability 9          | '--capability': 9: expected 10 or more",
        "plan 4 5 6 --split -1              | '--split': -1: expected 0 to 4",
        "plan 4 5 6 --split 5               | '--split': 5: expected 0 to 4",
        "soak --minutes 0                   | '--minutes': 0.0: expected more than 0, at most"
            + " 100000",
        "soak --minutes NaN                 | '--minutes': NaN: expected more than 0, at most"
            + " 100000",
        "soak --minutes 1e9                 | '--minutes': 1.0E9: expected more than 0, at most"
            + " 100000",
        "soak --threads 0                   | '--threads': 0: expected 1 to 1024",
        "info --all                         | '--all'",
      })
  void wrongUsageIsOneLineAndStatusTwo(String line, String expected) {
    Invocation run = Invocation.of(line.isEmpty() ? new String[0] : line.split(" "));
    assertEquals(2, run.status(), run.err());
    assertEquals(1, run.errorLines().size(), run.err());
    assertTrue(run.err().startsWith("dxdw: "), run.err());
    assertTrue(run.err().contains(expected), run.err());
    assertEquals("", run.out());
  }

  @Test
  @DisplayName("Guards against results that are lost, as their file can't be written in the end")
  void looksAtOutputFilesFirst(@TempDir Path folder) throws IOException {
    Path taken = Files.createDirectory(folder.resolve("taken.png"));
    Path old = Files.writeString(folder.resolve("old.png"), "as it was");
    Path fresh = folder.resolve("fresh.png");
    for (String command : List.of("train digits --epochs 0", "bench cpu --repeats 0")) {
      String option = command.startsWith("train") ? "--chart" : "--json";
      String[] words = command.split(" ");
      for (Path file : List.of(taken, old, fresh)) {
        String[] arguments =
            Stream.concat(Stream.of(words), Stream.of(option, file.toString()))
                .toArray(String[]::new);
        Invocation run = Invocation.of(arguments);
        assertEquals(2, run.status());
        assertEquals(1, run.errorLines().size(), run.err());
        assertTrue(run.err().contains(file == taken ? "'" + option + "'" : ": 0: "), run.err());
      }
    }
    assertEquals("as it was", Files.readString(old));
    assertFalse(Files.exists(fresh), "left by a command that did not run");
  }

  @Test
  @DisplayName("Guards against output that is lost without a word, as on a disk that is full")
  void unwritableOutput() throws Exception {
    Process run = start("-Xmx64m", "info").redirectOutput(new File("/dev/full")).start();
    assertFailsWith("dxdw: the output can't be written: No space left on device", run);
    // A reader that is gone: an exit status, but no words.
    Process gone = start("-Xmx64m", "info").start();
    gone.getInputStream().close();
    String err = new String(gone.getErrorStream().readAllBytes(), StandardCharsets.UTF_8);
    assertTrue(gone.waitFor(1, TimeUnit.MINUTES));
    assertEquals("", err);
    assertEquals(1, gone.exitValue());
  }

  @Test
  @DisplayName("Guards against errors of the JVM that end in a stack trace: a heap that is full")
  void littleHeap(@TempDir Path folder) throws Exception {
    for (String name : List.of("train-labels-idx1", "t10k-labels-idx1", "t10k-images-idx3")) {
      Files.createFile(folder.resolve(name + "-ubyte.gz"));
    }
    Path images = folder.resolve("train-images-idx3-ubyte.gz");
    try (OutputStream file = Files.newOutputStream(images);
        DataOutputStream out = new DataOutputStream(new GZIPOutputStream(file))) {
      for (int word : new int[] {0x0803, 100_000, 28, 28}) {
        out.writeInt(word);
      }
      for (int image = 0; image < 100_000; image++) {
        out.write(new byte[28 * 28]);
      }
    }
    Process run =
        start("-Xmx48m", "train", "fashion", "--data", folder.toString())
            .redirectOutput(ProcessBuilder.Redirect.DISCARD)
            .start();
    assertFailsWith("dxdw: OutOfMemoryError: Java heap space", run);
  }

  /** A JVM of its own for the command line. */
  private static ProcessBuilder start(String heap, String... arguments) {
    ProcessBuilder builder =
        new ProcessBuilder(
            Stream.concat(
                    Stream.of(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        heap,
                        "-XX:+UseSerialGC",
                        "--enable-native-access=ALL-UNNAMED",
                        "-Ddxdw.library=" + System.getProperty("dxdw.library"),
                        "-cp",
                        System.getProperty("java.class.path"),
                        "io.github.dxdw.cli.Main"),
                    Stream.of(arguments))
                .toList());
    builder.environment().put("LC_ALL", "C.UTF-8"); // for messages of the system
    return builder;
  }

  private static void assertFailsWith(String line, Process run) throws Exception {
    String err = new String(run.getErrorStream().readAllBytes(), StandardCharsets.UTF_8);
    assertTrue(run.waitFor(1, TimeUnit.MINUTES));
    assertEquals(List.of(line), err.lines().toList());
    assertEquals(1, run.exitValue());
  }

  @Test
  void anAbsentDeviceIsOneLineWithTheReason() {
    Invocation run = Invocation.of("train", "digits", "--device", "cuda:999");
    assertEquals(1, run.status());
    assertEquals(
        List.of("dxdw: cuda:999 is not available: " + Device.cuda(999).unavailabilityCause()),
        run.errorLines());
    assertFalse(Device.cuda(999).unavailabilityCause().isBlank());
  }

  @Test
  void verboseAddsTheStackTrace() {
    Invocation run = Invocation.of("--verbose", "train", "digits", "--device", "cuda:999");
    assertEquals(1, run.status());
    assertTrue(run.err().contains("\tat io.github.dxdw.cli."), run.err());
    Invocation last = Invocation.of("train", "digits", "--epochs", "0", "--verbose");
    assertEquals(2, last.status());
    assertTrue(last.err().contains("\tat "), last.err());
  }

  @Test
  void infoTellsWhatIsInUse() {
    Invocation run = Invocation.of("info");
    assertEquals(0, run.status(), run.err());
    assertEquals(Dxdw.version(), run.after("version "));
    assertEquals(Path.of(System.getProperty("dxdw.library")), Path.of(run.after("library ")));
    assertEquals(Dxdw.simdLevel(), run.after("simd "));
    assertEquals(Dxdw.threads(), Integer.parseInt(run.after("threads ")));
    assertTrue(run.after("cpu ").startsWith(Device.cpu().name() + ", "), run.out());
    if (Device.cuda(0).isAvailable()) {
      assertTrue(run.after("cuda:0 ").startsWith(Device.cuda(0).name() + ", "), run.out());
    } else {
      assertEquals("not available: " + Device.cuda(0).unavailabilityCause(), run.after("cuda "));
    }
    assertEquals("", run.err());
  }

  @Test
  void versionAndHelp() {
    assertEquals(List.of("dxdw " + Dxdw.version()), Invocation.of("--version").lines());
    Invocation help = Invocation.of("train", "digits", "--help");
    assertEquals(0, help.status());
    for (String option :
        List.of(
            "--device",
            "--dtype",
            "--split",
            "--threads",
            "--seed",
            "--epochs",
            "--check",
            "--chart")) {
      assertTrue(help.out().contains(option), option + " is missing in:\n" + help.out());
    }
    assertFalse(help.out().contains("\033"), "colours although the output is no terminal");
  }
}
