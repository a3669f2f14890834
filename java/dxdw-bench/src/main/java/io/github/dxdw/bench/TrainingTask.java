package io.github.dxdw.bench;

import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDManager;
import ai.djl.ndarray.types.Shape;
import io.github.dxdw.DType;
import io.github.dxdw.Device;
import io.github.dxdw.Dxdw;
import io.github.dxdw.cli.JsonFile;
import io.github.dxdw.cli.Usage;
import io.github.dxdw.cli.bench.BenchTask;
import io.github.dxdw.cli.bench.Machine;
import io.github.dxdw.cli.bench.Report;
import io.github.dxdw.cli.train.Backend;
import io.github.dxdw.cli.train.Dataset;
import io.github.dxdw.cli.train.FashionMnist;
import io.github.dxdw.cli.train.Network;
import io.github.dxdw.cli.train.Recipe;
import io.github.dxdw.cli.train.Trainer;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.locks.LockSupport;
import java.util.function.DoubleSupplier;
import java.util.stream.IntStream;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/**
 * Trains the network of {@code dxdw train fashion} in float32 and bfloat16 by the library's
 * kernels, and in float32 in PyTorch, epochs taking turns.
 */
@Command(
    name = "training",
    description = {
      "Train a 784-512-512-10 perceptron on Fashion-MNIST beside PyTorch, epochs taking turns.",
      "Shows images per second, median and in brackets the 10th and 90th percentile, and the"
          + " accuracy on the images held out."
    },
    sortOptions = false)
public final class TrainingTask implements BenchTask {

  private static final Recipe.Rule RULE = Recipe.Rule.MOMENTUM;
  private static final int BATCH = 256;
  private static final int HIDDEN = 512;
  private static final float RATE = 0.1f;
  private static final float DECAY = 1e-4f;
  private static final long SETTLE_NANOS = 50_000_000;

  @Option(
      names = "--epochs",
      paramLabel = "N",
      defaultValue = "10",
      description = "Times that all examples are seen (${DEFAULT-VALUE}).")
  private int epochs;

  @Option(
      names = "--threads",
      paramLabel = "N",
      defaultValue = "0",
      description = "Threads of each; 0 stands for all that the machine allows (${DEFAULT-VALUE}).")
  private int threads;

  @Option(
      names = "--data",
      paramLabel = "FOLDER",
      description = "Folder of the four IDX files (${DEFAULT-VALUE}).")
  private Path data = FashionMnist.FOLDER;

  @Mixin private JsonFile json;

  @Spec private CommandSpec spec;

  /** One who trains. */
  private record Contender(
      String name, Runnable epoch, DoubleSupplier accuracy, List<Double> imagesPerSecond) {}

  @Override
  public void run() {
    Usage.require(spec, epochs >= 1, "--epochs", epochs, "expected 1 or more");
    Usage.requireThreads(spec, 0, threads);
    Dxdw.setThreads(threads);
    int count = Dxdw.threads();
    Torch.setThreads(count);
    try (Arena arena = Arena.ofShared()) {
      Dataset[] parts = FashionMnist.load(data);
      PrintWriter out = spec.commandLine().getOut();
      List<String> machine = Machine.lines(List.of(new Torch()));
      machine.forEach(line -> out.println("# " + line));
      Map<String, Contender> contenders = new LinkedHashMap<>();
      for (DType type : List.of(DType.FLOAT32, DType.BFLOAT16)) {
        Contender ours = ours(arena, type, parts);
        contenders.put(ours.name, ours);
      }
      Contender torch = torch(parts);
      contenders.put(torch.name, torch);
      takeTurns(List.copyOf(contenders.values()), parts[0].size());
      List<Report.Row> rows = new ArrayList<>();
      Report.Result peer = speed(torch);
      for (DType type : List.of(DType.FLOAT32, DType.BFLOAT16)) {
        Contender ours = contenders.get("dxdw " + type);
        Report.Row row =
            Report.Row.of("train fashion " + type, count, "images/s", List.of(speed(ours), peer));
        rows.add(
            new Report.Row(
                row.name(),
                count,
                row.unit(),
                row.ratio(),
                0,
                type == DType.FLOAT32 ? 1.3 : 2,
                row.contenders()));
      }
      rows.add(
          new Report.Row(
              "train fashion accuracy",
              count,
              "% right",
              0,
              0,
              0,
              contenders.values().stream()
                  .map(
                      c -> {
                        double percent = 100 * c.accuracy.getAsDouble();
                        return new Report.Result(c.name, percent, percent, percent);
                      })
                  .toList()));
      rows.forEach(out::println);
      json.write(new Report(machine, epochs, false, rows));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private Contender ours(Arena arena, DType type, Dataset[] parts) {
    Recipe recipe = new Recipe(epochs, BATCH, 1, RULE, RATE, DECAY);
    Network network =
        new Network(arena, new Backend(Device.cpu(), type, 0), BATCH, 1, sizes(parts[0]));
    Trainer trainer = new Trainer(network, parts[0], recipe, 1);
    return new Contender(
        "dxdw " + type,
        () -> trainer.epoch(() -> {}),
        () -> Trainer.evaluate(network, parts[1]).accuracy(),
        new ArrayList<>());
  }

  private Contender torch(Dataset[] parts) {
    TorchNetwork network = TorchNetwork.random(1, sizes(parts[0]));
    NDManager manager = network.manager();
    NDArray[] images = new NDArray[2];
    NDArray[] labels = new NDArray[2];
    for (int part = 0; part < 2; part++) {
      Dataset from = parts[part];
      images[part] = manager.create(from.toFloatArray(), new Shape(from.size(), from.features()));
      labels[part] =
          manager.create(IntStream.range(0, from.size()).mapToLong(from::label).toArray());
    }
    Random random = new Random(1);
    int[] done = {0};
    Runnable epoch =
        () -> {
          int[] order = shuffled(parts[0].size(), random);
          double rate = RATE * 0.5 * (1 + Math.cos(Math.PI * done[0]++ / epochs));
          network.epoch(images[0], labels[0], order, BATCH, (float) rate, DECAY);
        };
    return new Contender(
        "PyTorch", epoch, () -> network.accuracy(images[1], labels[1]), new ArrayList<>());
  }

  private static int[] sizes(Dataset data) {
    return new int[] {data.features(), HIDDEN, HIDDEN, data.classes()};
  }

  private static int[] shuffled(int count, Random random) {
    Integer[] order = IntStream.range(0, count).boxed().toArray(Integer[]::new);
    Collections.shuffle(Arrays.asList(order), random);
    return Arrays.stream(order).mapToInt(Integer::intValue).toArray();
  }

  private void takeTurns(List<Contender> contenders, int images) {
    for (int epoch = 0; epoch < epochs; epoch++) {
      for (Contender contender : contenders) {
        // Another's threads are to stop spinning first.
        LockSupport.parkNanos(SETTLE_NANOS);
        long start = System.nanoTime();
        contender.epoch.run();
        contender.imagesPerSecond.add(images / ((System.nanoTime() - start) * 1e-9));
      }
    }
  }

  private static Report.Result speed(Contender contender) {
    double[] sorted =
        contender.imagesPerSecond.stream().mapToDouble(Double::doubleValue).sorted().toArray();
    int last = sorted.length - 1;
    return new Report.Result(
        contender.name,
        (sorted[sorted.length / 2] + sorted[last / 2]) / 2,
        sorted[Math.round(0.1f * last)],
        sorted[Math.round(0.9f * last)]);
  }
}
