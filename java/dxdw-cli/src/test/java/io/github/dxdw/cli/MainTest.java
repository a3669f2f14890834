package io.github.dxdw.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.dxdw.Device;
import io.github.dxdw.Dxdw;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
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
        "bench chart results.json           | 'PNG'",
        "soak --minutes 0                   | '--minutes': 0.0: expected more than 0",
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
