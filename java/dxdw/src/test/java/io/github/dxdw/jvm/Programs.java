package io.github.dxdw.jvm;

import com.sun.management.ThreadMXBean;
import io.github.dxdw.Accumulate;
import io.github.dxdw.Chip;
import io.github.dxdw.DType;
import io.github.dxdw.Device;
import io.github.dxdw.Dxdw;
import io.github.dxdw.MemoryUse;
import io.github.dxdw.Options;
import io.github.dxdw.Reduction;
import io.github.dxdw.Tensor;
import io.github.dxdw.TestDevice;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;

/** What the tests of this package run in JVMs of their own; they print what is to be compared. */
public final class Programs {
  private static final Device DEVICE = TestDevice.named(System.getProperty("dxdw.device", "cpu"));
  private static final long MEGABYTE = 1L << 20;

  private Programs() {}

  public static void main(String[] arguments) throws Exception {
    switch (arguments[0]) {
      case "drop" -> drop(Integer.parseInt(arguments[1]));
      case "leak" -> leak();
      case "large" -> large();
      case "beside-mapping" -> besideMapping();
      case "elements" -> elements();
      case "shapes" -> shapes(Integer.parseInt(arguments[1]));
      case "collector" -> collector();
      case "calls" -> calls();
      case "threads" -> System.out.println(Dxdw.threads());
      case "exit" -> exit(Integer.parseInt(arguments[1]));
      case "events" -> events();
      case "no-events" -> noEvents();
      case "numbers" -> numbers();
      case "print-events" -> printEvents(Path.of(arguments[1]));
      default -> throw new IllegalArgumentException(arguments[0]);
    }
  }

  /** Numbers with a fraction: in the user's locale, then as the library writes them. */
  private static void numbers() {
    System.out.println(String.format("%.1f", 0.5));
    try (Arena arena = Arena.ofConfined()) {
      Tensor norm = Tensor.scalar(arena, 1);
      try {
        Dxdw.clipFactor(norm, Tensor.scalar(arena, 2), -0.5);
      } catch (IllegalArgumentException e) {
        System.out.println(e.getMessage());
      }
      Chip chip = new Chip(90, 132);
      String why =
          Dxdw.planDw(chip, DType.BFLOAT16, 8192, 1000, 1000, 4, Reduction.DETERMINISTIC).why();
      System.out.println(why.substring(why.indexOf(": 0") + 2));
      System.out.println(Tensor.of(arena, new float[] {0.5f}));
    }
  }

  /** A figure of /proc/self/status, in bytes. */
  static long status(String key) throws IOException {
    for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
      if (line.startsWith(key + ":")) {
        return Long.parseLong(line.replaceAll("\\D", "")) * 1024;
      }
    }
    throw new AssertionError(key);
  }

  private static void print(String name, long value) {
    System.out.println(name + " " + value);
  }

  /** Drops tensors of 1 MB, each with an arena of its own, without closing any. */
  private static void drop(int count) throws IOException {
    float sum = 0;
    for (int i = 0; i < count; ++i) {
      Tensor tensor = Tensor.allocate(Dxdw.arena(), DEVICE, DType.FLOAT32, MEGABYTE / 4);
      if (DEVICE.equals(Device.cpu())) {
        for (long at = 0; at < MEGABYTE / 4; at += 1024) {
          tensor.set(1, at);
        }
        sum += tensor.get(0);
      }
    }
    System.out.println(sum);
    MemoryUse use = Dxdw.memoryUse();
    print("peak", status("VmHWM"));
    print("held", use.arenaBytes());
    print("made", use.openArenas() + use.forgottenArenas());
    print("forgotten", use.forgottenArenas());
  }

  private static void leak() throws InterruptedException {
    forget();
    for (int i = 0; i < 200 && Dxdw.memoryUse().forgottenArenas() == 0; ++i) {
      System.gc();
      Thread.sleep(10);
    }
    print("forgotten", Dxdw.memoryUse().forgottenArenas());
  }

  private static void forget() {
    Tensor.allocate(Dxdw.arena(), DType.FLOAT32, 1000);
  }

  /** A tensor of 3e9 bytes in a JVM whose own arenas may not have as much. */
  private static void large() {
    try (Arena arena = Dxdw.arena()) {
      Tensor tensor = Tensor.allocate(arena, DType.FLOAT32, 750_000_000);
      tensor.fill(1.5f);
      tensor.set(7, 725_000_000);
      System.out.println(tensor.get(724_999_999) + " " + tensor.get(725_000_000));
      System.out.println(
          Tensor.allocate(arena, DType.BFLOAT16, 2, 2_200_000_000L).transpose().get(1, 1));
      try {
        Tensor.scalar(arena, 1).expand(3_000_000_000L).toFloatArray();
      } catch (IllegalStateException e) {
        System.out.println(e.getMessage());
      }
    }
  }

  /** Allocates while 8 GB of a file are mapped that have nothing to do with it. */
  private static void besideMapping() throws IOException {
    Path file = Files.createTempFile("dxdw", ".sparse");
    try (Arena arena = Dxdw.arena();
        FileChannel channel =
            FileChannel.open(
                file,
                StandardOpenOption.READ,
                StandardOpenOption.WRITE,
                StandardOpenOption.DELETE_ON_CLOSE)) {
      MemorySegment mapped =
          channel.map(FileChannel.MapMode.READ_WRITE, 0, 8L << 30, Arena.ofAuto());
      for (int i = 0; i < 100_000; ++i) {
        Tensor.allocate(arena, DType.FLOAT32, 10);
      }
      System.out.println(Tensor.allocate(arena, DType.FLOAT32, 100 * MEGABYTE / 4).get(0));
      print("held", Dxdw.memoryUse().arenaBytes());
      print("mapped", mapped.byteSize());
    }
    print("held", Dxdw.memoryUse().arenaBytes());
  }

  /** Reads elements, copies and shows: nothing may stay behind. */
  private static void elements() throws IOException {
    try (Arena arena = Dxdw.arena()) {
      Tensor tensor = Tensor.allocate(arena, DEVICE, DType.BFLOAT16, 100, 100);
      Tensor copy = Tensor.allocate(arena, DType.FLOAT32, 100, 100);
      int gets = DEVICE.equals(Device.cpu()) ? 1_000_000 : 20_000;
      long resident = 0;
      long held = Dxdw.memoryUse().arenaBytes();
      float sum = 0;
      for (int round = 0; round < 20; ++round) {
        for (int i = 0; i < gets / 10; ++i) {
          sum += tensor.get(i % 100, i / 100 % 100);
        }
        for (int i = 0; i < gets / 1000; ++i) {
          sum += tensor.toFloatArray()[i];
          copy.copyFrom(tensor);
          sum += tensor.toString().length();
        }
        if (round == 9) {
          resident = status("VmRSS");
        }
      }
      System.out.println(sum);
      print("grown", status("VmRSS") - resident);
      print("held", Dxdw.memoryUse().arenaBytes() - held);
      print("device", Dxdw.memoryUse().deviceBytes() - (DEVICE.equals(Device.cpu()) ? 0 : 20_000));
    }
  }

  /** Products of many shapes: no plan or scratch may stay for each of them. */
  private static void shapes(int count) throws IOException {
    SplittableRandom random = new SplittableRandom(19);
    try (Arena arena = Dxdw.arena()) {
      Tensor x = Tensor.allocate(arena, DEVICE, DType.FLOAT32, 100, 100);
      Tensor w = Tensor.allocate(arena, DEVICE, DType.FLOAT32, 100, 100);
      Tensor out = Tensor.allocate(arena, DEVICE, DType.FLOAT32, 100, 100);
      long resident = 0;
      long scratch = 0;
      long device = 0;
      for (int i = 0; i < count; ++i) {
        long t = 1 + random.nextInt(100);
        long k = 1 + random.nextInt(100);
        long n = 1 + random.nextInt(100);
        if (random.nextBoolean()) {
          Dxdw.y(part(x, t, k), part(w, k, n), part(out, t, n));
        } else {
          int split = random.nextInt((int) Math.min(t, 5) + 1);
          Reduction reduction = random.nextBoolean() ? Reduction.DETERMINISTIC : Reduction.ATOMIC;
          Dxdw.dw(part(x, t, k), part(w, t, n), part(out, k, n), split, reduction, ADD);
        }
        if (i == count / 10) {
          resident = status("VmRSS");
          scratch = Dxdw.memoryUse().scratchBytes();
          device = Dxdw.memoryUse().deviceBytes();
        }
      }
      print("grown", status("VmRSS") - resident);
      print("scratch", Dxdw.memoryUse().scratchBytes() - scratch);
      print("device", Dxdw.memoryUse().deviceBytes() - device);
    }
  }

  private static final Options ADD = Options.defaults().withAccumulate(Accumulate.ADD);

  private static Tensor part(Tensor tensor, long rows, long columns) {
    return tensor.slice(0, 0, rows).slice(1, 0, columns);
  }

  /**
   * Makes garbage of twice the heap's size during products; prints how often it was collected while
   * one of them ran.
   */
  private static void collector() throws InterruptedException {
    try (Arena arena = Dxdw.arena()) {
      long rows = DEVICE.equals(Device.cpu()) ? 4096 : 131_072;
      Tensor x = Tensor.allocate(arena, DEVICE, DType.FLOAT32, rows, 2048);
      Tensor w = Tensor.allocate(arena, DEVICE, DType.FLOAT32, 2048, 2048);
      Tensor y = Tensor.allocate(arena, DEVICE, DType.FLOAT32, rows, 2048);
      AtomicBoolean stop = new AtomicBoolean();
      AtomicLong moment = new AtomicLong(); // odd while a call runs
      Thread product =
          new Thread(
              () -> {
                while (!stop.get()) {
                  moment.incrementAndGet();
                  Dxdw.y(x, w, y);
                  moment.incrementAndGet();
                }
              });
      product.start();
      long collections = 0;
      long garbage = 0;
      int kept = 0;
      byte[][] young = new byte[16][];
      while (garbage < 96L * MEGABYTE) {
        long call = moment.get();
        long before = collections();
        young[kept++ % young.length] = new byte[1 << 18];
        long collected = collections() - before;
        if (call % 2 == 1 && call == moment.get()) {
          collections += collected;
          garbage += 1 << 18;
        }
      }
      stop.set(true);
      product.join();
      print("collections", collections);
    }
  }

  private static long collections() {
    long count = 0;
    for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
      count += Math.max(0, collector.getCollectionCount());
    }
    return count;
  }

  /** A million calls; afterwards two arenas are closed, which the log of handshakes shows. */
  private static void calls() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor x = Tensor.of(arena, new float[][] {{1, 2}, {3, 4}});
      Tensor y = Tensor.allocate(arena, DType.FLOAT32, 2, 2);
      for (int i = 0; i < 1_000_000; ++i) {
        Dxdw.y(x, x, y);
      }
      System.out.println("calls " + y.get(1, 1));
    }
    for (int i = 0; i < 2; ++i) {
      Arena arena = Dxdw.arena();
      Tensor.allocate(arena, DType.FLOAT32, 2);
      arena.close();
    }
  }

  /** Leaves while 8 threads compute, after some milliseconds. */
  private static void exit(int millis) throws InterruptedException {
    Arena arena = millis % 2 == 0 ? Dxdw.arena() : Arena.ofShared();
    Tensor x = Tensor.allocate(arena, DEVICE, DType.FLOAT32, 300, 300);
    for (int i = 0; i < 8; ++i) {
      Tensor y = Tensor.allocate(arena, DEVICE, DType.FLOAT32, 300, 300);
      Thread thread =
          new Thread(
              () -> {
                while (true) {
                  Dxdw.y(x, x, y);
                }
              });
      thread.setDaemon(i % 2 == 0);
      thread.start();
    }
    if (millis % 3 == 0) {
      Tensor y = Tensor.allocate(arena, DEVICE, DType.FLOAT32, 300, 300);
      Runtime.getRuntime().addShutdownHook(new Thread(() -> Dxdw.y(x, x, y)));
    }
    Thread.sleep(millis);
    System.exit(7);
  }

  /** Prints the events of some calls. */
  private static void events() throws IOException {
    Path file = Files.createTempFile("dxdw", ".jfr");
    try (Arena arena = Arena.ofConfined();
        Recording recording = new Recording()) {
      Tensor x = Tensor.allocate(arena, DEVICE, DType.BFLOAT16, 40, 30);
      Tensor w = Tensor.allocate(arena, DEVICE, DType.BFLOAT16, 30, 20);
      Tensor y = Tensor.allocate(arena, DEVICE, DType.FLOAT32, 40, 20);
      Tensor labels = Tensor.of(arena, new int[40], 40).to(DEVICE, arena);
      Dxdw.y(x, w, y);
      recording.enable("io.github.dxdw.Launch");
      recording.start();
      Dxdw.y(x, w, y);
      Dxdw.dw(
          x,
          Tensor.allocate(arena, DEVICE, DType.BFLOAT16, 40, 20),
          Tensor.allocate(arena, DEVICE, DType.FLOAT32, 30, 20),
          4,
          Reduction.DETERMINISTIC,
          Options.defaults());
      Dxdw.weightedSumBackward(
          x,
          w.select(1, 0),
          x.select(1, 0),
          null,
          Tensor.allocate(arena, DEVICE, DType.FLOAT32, 30));
      try {
        Dxdw.y(x, x, y);
      } catch (IllegalArgumentException e) {
        System.out.println("refused");
      }
      x.copy(arena);
      Dxdw.softmaxCrossEntropy(x, labels, Tensor.allocate(arena, DEVICE, DType.FLOAT32, 40));
      recording.stop();
      Dxdw.y(x, w, y);
      recording.dump(file);
    }
    printEvents(file);
    Files.delete(file);
  }

  private static void printEvents(Path file) throws IOException {
    for (RecordedEvent event : RecordingFile.readAllEvents(file)) {
      if (event.getEventType().getName().equals("io.github.dxdw.Launch")) {
        System.out.printf(
            "%s on %s: %s; %s, %s, split %d, %b, workspace %d, %b%n",
            event.getString("function"),
            event.getString("device"),
            event.getString("operands"),
            event.getString("kernel") != null,
            event.getString("level") != null,
            event.getInt("split"),
            event.getInt("threads") > 0,
            event.getLong("workspace"),
            event.getDuration().toNanos() > 0);
      }
    }
  }

  /** Bytes on the Java heap in a thousand calls while no recording is on, before one and after. */
  private static void noEvents() {
    ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    try (Arena arena = Arena.ofConfined()) {
      Tensor x = Tensor.of(arena, new float[][] {{1, 2}, {3, 4}});
      Tensor y = Tensor.allocate(arena, DType.FLOAT32, 2, 2);
      for (int phase = 0; phase < 2; ++phase) {
        long least = Long.MAX_VALUE;
        for (int round = 0; round < 200 && least > 0; ++round) {
          long before = threads.getCurrentThreadAllocatedBytes();
          for (int i = 0; i < 1000; ++i) {
            Dxdw.y(x, x, y);
          }
          least = Math.min(least, threads.getCurrentThreadAllocatedBytes() - before);
        }
        print("bytes", least);
        try (Recording recording = new Recording()) {
          recording.enable("io.github.dxdw.Launch");
          recording.start();
          Dxdw.y(x, x, y);
        }
      }
    }
  }
}
