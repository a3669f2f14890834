package io.github.dxdw.cli.bench;

import io.github.dxdw.DType;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Tensor;
import io.github.dxdw.cli.bench.Product.Function;
import io.github.dxdw.cli.bench.Turns.Contender;
import io.github.dxdw.cli.bench.Turns.Times;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/**
 * The CPU kernels from Java: products, weighted sums and small calls, beside the peers there are.
 */
public final class CpuBenchmark {

  private static final Shape[] SHAPES = {
    new Shape(1024, 1024, 1024, 1),
    new Shape(2048, 1024, 4096, 1),
    new Shape(8192, 256, 256, 1),
    new Shape(16384, 64, 64, 1.5),
    new Shape(32768, 128, 16, 1.5),
    new Shape(1023, 1021, 1019, 1)
  };
  private static final Sum[] SUMS = {
    new Sum(65536, 1024, DType.FLOAT32),
    new Sum(65536, 2048, DType.BFLOAT16),
    new Sum(1048576, 64, DType.FLOAT32),
    new Sum(256, 262144, DType.FLOAT32)
  };
  private static final int[] SMALL = {4, 8, 16, 32};
  private static final int CALLS = 1000;

  private final List<Peer> peers;
  private final Turns turns;
  private final boolean quick;
  private final int repeats;
  private final String filter;
  private final Consumer<String> print;
  private final List<Report.Row> rows = new ArrayList<>();

  /** T, K, N; what dW is to be, times the best peer. All else is to be at least as fast. */
  private record Shape(long t, long k, long n, double aimDw) {}

  private record Sum(long rows, long d, DType type) {}

  /**
   * A run.
   *
   * @param peers whom to compare with
   * @param quick whether samples are short
   * @param repeats samples of each contender
   * @param filter rows whose name contains this are measured
   * @param print takes the lines of the table
   */
  public CpuBenchmark(
      List<Peer> peers, boolean quick, int repeats, String filter, Consumer<String> print) {
    this.peers = peers;
    this.turns = new Turns(repeats, quick);
    this.quick = quick;
    this.repeats = repeats;
    this.filter = filter;
    this.print = print;
  }

  /** Measures everything on 1 thread up to {@code most}. */
  public Report run(int most) {
    List<String> machine = Machine.lines(peers);
    machine.forEach(line -> print.accept("# " + line));
    for (DType type : List.of(DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)) {
      for (int threads = 1; threads <= most; threads++) {
        for (Shape shape : SHAPES) {
          for (Function function : Function.values()) {
            product(shape, function, type, false, threads);
          }
          product(shape, Function.DW, type, true, threads);
        }
      }
    }
    for (int threads = 1; threads <= most; threads++) {
      for (Sum sum : SUMS) {
        weightedSum(sum, threads);
      }
    }
    for (int size : SMALL) {
      overhead(size);
    }
    return new Report(machine, repeats, quick, List.copyOf(rows));
  }

  private void product(Shape s, Function function, DType type, boolean add, int threads) {
    String name =
        "product "
            + (s.t + "," + s.k + "," + s.n + " " + function + (add ? " add " : " "))
            + Machine.shortName(type);
    if (!name.contains(filter)) {
      return;
    }
    Dxdw.setThreads(threads);
    try (Arena arena = Arena.ofConfined()) {
      Product product = Product.allocate(arena, function, s.t, s.k, s.n, type, add);
      List<Times> times = turns.measure(contenders(product, threads), threads);
      double aim = times.size() == 1 ? 0 : function == Function.DW ? s.aimDw : 1;
      add(name, threads, "GFLOP/s", product.operations(), aim, times);
    }
  }

  private List<Contender> contenders(Product product, int threads) {
    List<Contender> contenders = new ArrayList<>();
    contenders.add(new Contender("dxdw", product.kernel()));
    for (Peer peer : peers) {
      peer.prepare(product, threads)
          .ifPresent(run -> contenders.add(new Contender(peer.name(), run)));
    }
    return contenders;
  }

  private void weightedSum(Sum s, int threads) {
    String name = "weighted sum " + s.rows + "," + s.d + " " + Machine.shortName(s.type);
    if (!name.contains(filter)) {
      return;
    }
    Dxdw.setThreads(threads);
    try (Arena arena = Arena.ofConfined()) {
      Tensor x = Values.random(arena, s.type, s.rows, s.d);
      Tensor w = Values.random(arena, s.type, s.d);
      Tensor g = Values.random(arena, s.type, s.rows);
      Tensor y = Tensor.allocate(arena, DType.FLOAT32, s.rows);
      Tensor gx = Tensor.allocate(arena, s.type, s.rows, s.d);
      Tensor gw = Tensor.allocate(arena, DType.FLOAT32, s.d);
      double bytes = (double) x.elementCount() * s.type.byteSize();
      Contender forward = new Contender("dxdw", () -> Dxdw.weightedSum(x, w, y));
      Contender backward = new Contender("dxdw", () -> Dxdw.weightedSumBackward(x, w, g, gx, gw));
      add(name + " fwd", threads, "GB/s", bytes, 0, turns.measure(List.of(forward), threads));
      add(name + " bwd", threads, "GB/s", 2 * bytes, 0, turns.measure(List.of(backward), threads));
    }
  }

  /** A thousand calls are one run: the clock costs as much as some calls. */
  private void overhead(int size) {
    String name = "overhead " + size + "x" + size + "x" + size;
    if (!name.contains(filter)) {
      return;
    }
    Dxdw.setThreads(1);
    try (Arena arena = Arena.ofConfined()) {
      Product product = Product.allocate(arena, Function.Y, size, size, size, DType.FLOAT32, false);
      List<Contender> contenders =
          contenders(product, 1).stream()
              .map(
                  one ->
                      new Contender(
                          one.name(),
                          () -> {
                            for (int call = 0; call < CALLS; call++) {
                              one.run().run();
                            }
                          }))
              .toList();
      List<Report.Result> results =
          turns.measure(contenders, 1).stream()
              .map(
                  t ->
                      new Report.Result(
                          t.name(), t.median() / CALLS, t.low() / CALLS, t.high() / CALLS))
              .toList();
      add(Report.Row.of(name, 1, "ns", results));
    }
  }

  /** {@code amount}: floating-point operations or bytes of a call. */
  private void add(
      String name, int threads, String unit, double amount, double aim, List<Times> times) {
    List<Report.Result> results =
        times.stream()
            .map(
                t ->
                    new Report.Result(
                        t.name(), amount / t.median(), amount / t.high(), amount / t.low()))
            .toList();
    Report.Row row = Report.Row.of(name, threads, unit, results);
    double best =
        times.stream().skip(1).mapToDouble(t -> t.best() / times.getFirst().best()).min().orElse(0);
    add(new Report.Row(name, threads, unit, row.ratio(), best, aim, results));
  }

  private void add(Report.Row row) {
    rows.add(row);
    print.accept(row.toString());
  }
}
