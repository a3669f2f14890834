package io.github.dxdw.bundle;

import io.github.dxdw.DType;
import io.github.dxdw.Device;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Event;
import io.github.dxdw.Graph;
import io.github.dxdw.Options;
import io.github.dxdw.Reduction;
import io.github.dxdw.Stream;
import io.github.dxdw.Tensor;
import io.github.dxdw.bindings.dxdw_h;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/**
 * What a launch from Java costs the host: calls of 64 x 64 x 64 on a stream, all checks included,
 * beside an empty kernel launched through a bare downcall handle in the same run; and a graph of a
 * hundred launches.
 *
 * <p>Launches are timed in bursts that the device's queue holds, with a wait between bursts, and
 * the kinds take turns. Shown are the median burst and the first and last decile.
 *
 * <p>Usage: LaunchCost cuda:N [FILE.json]
 */
public final class LaunchCost {
  private static final int BURST = 200;
  private static final int BURSTS = 400;
  private static final int WARM_UP = 150;
  private static final int GRAPH_LAUNCHES = 100;
  private static final MethodHandle EMPTY;
  private static final MethodHandle NOTHING;

  static {
    // The symbols are found once the library is loaded.
    Dxdw.libraryFile();
    EMPTY = dxdw_h.dxdw_cuda_nop$handle();
    NOTHING = dxdw_h.dxdw_nop$handle();
  }

  private LaunchCost() {}

  /** Something whose cost is measured. */
  private interface Launch {
    void run() throws Throwable;
  }

  /** Nanoseconds per launch of each burst. */
  private record Kind(String name, Launch launch, double[] nanoseconds) {
    Kind(String name, Launch launch) {
      this(name, launch, new double[BURSTS]);
    }

    double quantile(double q) {
      double[] sorted = nanoseconds.clone();
      Arrays.sort(sorted);
      return sorted[(int) Math.round(q * (sorted.length - 1))];
    }
  }

  public static void main(String[] arguments) throws Throwable {
    int index = Integer.parseInt(arguments[0].substring("cuda:".length()));
    Device device = Device.cuda(index);
    List<String> json = new ArrayList<>();
    System.out.println(device.name() + ", " + Dxdw.describe() + ", Java " + Runtime.version());
    try (Arena arena = Arena.ofConfined();
        Stream stream = Stream.create(device)) {
      MemorySegment place = arena.allocate(ValueLayout.ADDRESS);
      if (dxdw_h.dxdw_stream_create(index, place) != 0) {
        throw new IllegalStateException(dxdw_h.dxdw_last_error().getString(0));
      }
      MemorySegment bare = place.get(ValueLayout.ADDRESS, 0);
      List<Kind> kinds = kinds(arena, device, stream, bare);
      for (int burst = -WARM_UP; burst < BURSTS; ++burst) {
        for (Kind kind : kinds) {
          double nanoseconds = time(kind.launch());
          dxdw_h.dxdw_stream_synchronize(bare);
          stream.synchronize();
          if (burst >= 0) {
            kind.nanoseconds()[burst] = nanoseconds;
          }
        }
      }
      double empty = kinds.get(1).quantile(0.5);
      System.out.printf(
          Locale.ROOT, "%-34s %9s %9s %9s %9s%n", "host, ns", "median", "10%", "90%", "x empty");
      for (Kind kind : kinds) {
        double median = kind.quantile(0.5);
        System.out.printf(
            Locale.ROOT,
            "%-34s %9.0f %9.0f %9.0f %9.2f%n",
            kind.name(),
            median,
            kind.quantile(0.1),
            kind.quantile(0.9),
            median / empty);
        json.add(
            String.format(
                Locale.ROOT,
                "{\"name\": \"%s\", \"median_ns\": %.1f, \"p10_ns\": %.1f, \"p90_ns\": %.1f,"
                    + " \"times_empty\": %.3f}",
                kind.name(),
                median,
                kind.quantile(0.1),
                kind.quantile(0.9),
                median / empty));
      }
      graph(arena, device, stream, json);
      dxdw_h.dxdw_stream_destroy(bare);
    }
    if (arguments.length > 1) {
      write(Path.of(arguments[1]), device, json);
    }
  }

  private static List<Kind> kinds(Arena arena, Device device, Stream stream, MemorySegment bare) {
    Options options = Options.defaults().withStream(stream);
    List<Kind> kinds = new ArrayList<>();
    kinds.add(new Kind("a downcall that does nothing", () -> check((int) NOTHING.invokeExact())));
    kinds.add(new Kind("empty kernel, bare handle", () -> check((int) EMPTY.invokeExact(bare))));
    for (DType type : new DType[] {DType.FLOAT32, DType.BFLOAT16}) {
      Tensor a = Tensor.allocate(arena, device, type, 64, 64);
      Tensor b = Tensor.allocate(arena, device, type, 64, 64);
      Tensor c = Tensor.allocate(arena, device, DType.FLOAT32, 64, 64);
      Tensor v = Tensor.allocate(arena, device, type, 64);
      Tensor sums = Tensor.allocate(arena, device, DType.FLOAT32, 64);
      kinds.add(new Kind("Y 64x64x64 " + type, () -> Dxdw.y(a, b, c, options)));
      kinds.add(new Kind("dX 64x64x64 " + type, () -> Dxdw.dx(a, b, c, options)));
      kinds.add(
          new Kind(
              "dW 64x64x64 " + type, () -> Dxdw.dw(a, b, c, 1, Reduction.DETERMINISTIC, options)));
      kinds.add(
          new Kind(
              "dW 64x64x64, planned, " + type,
              () -> Dxdw.dw(a, b, c, 0, Reduction.DETERMINISTIC, options)));
      kinds.add(
          new Kind("weighted sum 64x64 " + type, () -> Dxdw.weightedSum(a, v, sums, options)));
    }
    return kinds;
  }

  private static double time(Launch launch) throws Throwable {
    long start = System.nanoTime();
    for (int i = 0; i < BURST; ++i) {
      launch.run();
    }
    return (System.nanoTime() - start) / (double) BURST;
  }

  private static void check(int status) {
    if (status != 0) {
      throw new IllegalStateException(dxdw_h.dxdw_last_error().getString(0));
    }
  }

  /** A hundred dW in a graph: host time of a replay, and time on the device, for each launch. */
  private static void graph(Arena arena, Device device, Stream stream, List<String> json) {
    Options options = Options.defaults().withStream(stream);
    for (DType type : new DType[] {DType.FLOAT32, DType.BFLOAT16}) {
      Tensor a = Tensor.allocate(arena, device, type, 64, 64);
      Tensor c = Tensor.allocate(arena, device, DType.FLOAT32, 64, 64);
      Runnable work =
          () -> {
            for (int i = 0; i < GRAPH_LAUNCHES; ++i) {
              Dxdw.dw(a, a, c, 1, Reduction.DETERMINISTIC, options);
            }
          };
      try (Graph graph = Graph.capture(stream, work);
          Event start = Event.create(device);
          Event end = Event.create(device)) {
        double[] host = new double[300];
        double[] whole = new double[host.length];
        double[] kernels = new double[host.length];
        for (int i = -50; i < host.length; ++i) {
          start.record(stream);
          long begin = System.nanoTime();
          graph.replay(stream);
          long returned = System.nanoTime();
          end.record(stream);
          stream.synchronize();
          long done = System.nanoTime();
          if (i >= 0) {
            host[i] = (returned - begin) / 1e3 / GRAPH_LAUNCHES;
            whole[i] = (done - begin) / 1e3 / GRAPH_LAUNCHES;
            kernels[i] = end.millisecondsSince(start) * 1e3 / GRAPH_LAUNCHES;
          }
        }
        for (double[] values : new double[][] {host, whole, kernels}) {
          Arrays.sort(values);
        }
        int median = host.length / 2;
        System.out.printf(
            Locale.ROOT,
            "graph of %d dW 64x64x64 %s: host %.3f us, until done %.3f us, on the device %.3f us"
                + " each%n",
            GRAPH_LAUNCHES,
            type,
            host[median],
            whole[median],
            kernels[median]);
        json.add(
            String.format(
                Locale.ROOT,
                "{\"name\": \"graph of %d dW 64x64x64 %s\", \"host_us\": %.4f, \"until_done_us\":"
                    + " %.4f, \"device_us\": %.4f}",
                GRAPH_LAUNCHES,
                type,
                host[median],
                whole[median],
                kernels[median]));
      }
    }
  }

  private static void write(Path file, Device device, List<String> entries) throws IOException {
    Files.writeString(
        file,
        String.format(
            Locale.ROOT,
            "{\"device\": \"%s\", \"library\": \"%s\", \"java\": \"%s\", \"burst\": %d, \"bursts\":"
                + " %d,%n \"results\": [%n  %s%n]}%n",
            device.name(),
            Dxdw.describe(),
            Runtime.version(),
            BURST,
            BURSTS,
            String.join(",\n  ", entries)));
  }
}
