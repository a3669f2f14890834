package io.github.dxdw.cli.bench;

import io.github.dxdw.DType;
import io.github.dxdw.Device;
import io.github.dxdw.Dxdw;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** What a run was measured on. */
public final class Machine {

  private Machine() {}

  /** Processor, load, JVM, the library, the peers. */
  public static List<String> lines(List<Peer> peers) {
    List<String> lines = new ArrayList<>();
    lines.add(
        String.format(
            Locale.ROOT,
            "%s, %d cores, %s %s, Java %s, load %.1f",
            Device.cpu().name(),
            Runtime.getRuntime().availableProcessors(),
            System.getProperty("os.name"),
            System.getProperty("os.version"),
            Runtime.version(),
            ManagementFactory.getOperatingSystemMXBean().getSystemLoadAverage()));
    lines.add(Dxdw.describe());
    peers.forEach(peer -> lines.add(peer.description()));
    return List.copyOf(lines);
  }

  static String shortName(DType type) {
    return switch (type) {
      case FLOAT32 -> "fp32";
      case FLOAT16 -> "fp16";
      case BFLOAT16 -> "bf16";
      case INT32 -> "int32";
    };
  }
}
