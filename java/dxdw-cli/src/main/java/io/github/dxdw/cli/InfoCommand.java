package io.github.dxdw.cli;

import io.github.dxdw.Device;
import io.github.dxdw.Dxdw;
import java.io.PrintWriter;
import java.util.Locale;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/** Shows what is in use. */
@Command(
    name = "info",
    description = "Show the library, its SIMD level and threads, and the devices.")
final class InfoCommand implements Runnable {

  @Spec private CommandSpec spec;

  @Override
  public void run() {
    PrintWriter out = spec.commandLine().getOut();
    line(out, "version", Dxdw.version());
    line(out, "library", Dxdw.libraryFile().toString());
    line(out, "build", Dxdw.describe());
    line(out, "simd", Dxdw.simdLevel());
    line(out, "threads", Integer.toString(Dxdw.threads()));
    line(out, "java", Runtime.version() + ", " + System.getProperty("java.vendor"));
    for (Device device : Device.all()) {
      line(
          out,
          device.toString(),
          device.isAvailable()
              ? describe(device)
              : "not available: " + device.unavailabilityCause());
    }
    Device gpu = Device.cuda(0);
    if (!Device.all().contains(gpu)) {
      line(out, "cuda", "not available: " + gpu.unavailabilityCause());
    }
  }

  private static String describe(Device device) {
    String text =
        String.format(
            Locale.ROOT,
            "%s, %.1f of %.1f GB free",
            device.name(),
            device.freeBytes() / 1e9,
            device.totalBytes() / 1e9);
    return device.capability().isEmpty()
        ? text
        : text
            + ", capability "
            + device.capability()
            + ", "
            + device.multiprocessors()
            + " multiprocessors";
  }

  private static void line(PrintWriter out, String name, String value) {
    out.printf("%-9s %s%n", name, value);
  }
}
