package io.github.dxdw.cli;

import io.github.dxdw.Device;
import io.github.dxdw.Dxdw;
import java.io.PrintWriter;
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
      line(out, device.toString(), device.name());
    }
    Device gpu = Device.cuda(0);
    if (!gpu.isAvailable()) {
      line(out, "cuda", "not available: " + gpu.unavailabilityCause());
    }
  }

  private static void line(PrintWriter out, String name, String value) {
    out.printf("%-9s %s%n", name, value);
  }
}
