package io.github.dxdw.parity;

import io.github.dxdw.Accumulate;
import io.github.dxdw.DType;
import io.github.dxdw.Precision;
import io.github.dxdw.Reduction;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.random.RandomGenerator;

/**
 * One call of one function, fully described by values: what to run, on what sizes and layouts, with
 * what data.
 *
 * @param sizes T, K, N of a product; split, K, N of dw_reduce; x's shape [..., D] of a weighted sum
 * @param layouts one for each operand, in the order of the C interface
 * @param threads the thread counts to run with; more than one are compared bit for bit
 * @param wanted for the backward weighted sum: 1 = gx, 2 = gw, 3 = both
 */
record Case(
    Function function,
    DType input,
    DType output,
    int[] sizes,
    int split,
    Reduction reduction,
    Accumulate accumulate,
    Precision precision,
    Layout[] layouts,
    Data data,
    int[] threads,
    int wanted,
    long seed) {

  enum Function {
    Y("x", "w", "y"),
    DX("dy", "w", "dx"),
    DW("x", "dy", "dw"),
    DW_REDUCE("partials", "dw"),
    WEIGHTED_SUM("x", "w", "y"),
    WEIGHTED_SUM_BACKWARD("x", "w", "g", "gx", "gw");

    final List<String> operands;

    Function(String... operands) {
      this.operands = List.of(operands);
    }

    boolean product() {
      return this == Y || this == DX || this == DW;
    }

    boolean weighted() {
      return this == WEIGHTED_SUM || this == WEIGHTED_SUM_BACKWARD;
    }

    boolean output(int operand) {
      return this == WEIGHTED_SUM_BACKWARD ? operand >= 3 : operand == operands.size() - 1;
    }

    boolean addsByDefault() {
      return this == DW || this == DW_REDUCE || this == WEIGHTED_SUM_BACKWARD;
    }
  }

  /** What the elements hold. */
  enum Data {
    /** -3 to 3: all sums are exact. */
    SMALL_INTEGERS,
    /** -255 to 255: sums that leave the range of float16. */
    LARGE_INTEGERS,
    /** -1 to 1. */
    UNIFORM,
    /** 0 to 1: nothing cancels. */
    POSITIVE,
    /** Magnitudes over many powers of two. */
    WIDE,
    /** Around the smallest normal float32, products below it. */
    TINY,
    /** Small integers with zeros of both signs, NaN and infinities. */
    SPECIAL;

    float draw(RandomGenerator random, DType type) {
      float value =
          switch (this) {
            case SMALL_INTEGERS -> random.nextInt(-3, 4);
            case LARGE_INTEGERS -> random.nextInt(-255, 256);
            case UNIFORM -> random.nextFloat(-1, 1);
            case POSITIVE -> random.nextFloat();
            case WIDE -> {
              int reach = type == DType.FLOAT16 ? 7 : 24;
              yield Math.scalb(random.nextFloat(-1, 1), random.nextInt(-reach, reach + 1));
            }
            case TINY -> {
              int exponent =
                  type == DType.FLOAT16 ? random.nextInt(-24, -8) : random.nextInt(-130, -1);
              yield Math.scalb(random.nextFloat(-1, 1), exponent);
            }
            case SPECIAL ->
                switch (random.nextInt(60)) {
                  case 0 -> Float.NaN;
                  case 1 -> Float.POSITIVE_INFINITY;
                  case 2 -> Float.NEGATIVE_INFINITY;
                  case 3, 4, 5, 6 -> -0f;
                  case 7, 8, 9, 10 -> 0f;
                  default -> random.nextInt(-3, 4);
                };
          };
      return Bits.round(type, value);
    }
  }

  private static final int[] EDGES = {
    1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 127, 128, 129
  };

  boolean adds() {
    return accumulate == Accumulate.ADD
        || accumulate == Accumulate.DEFAULT && function.addsByDefault();
  }

  /**
   * Whether output {@code operand} is added to: by default the backward weighted sum assigns gx and
   * adds to gw.
   */
  boolean adds(int operand) {
    boolean gx = function == Function.WEIGHTED_SUM_BACKWARD && operand == 3;
    return gx ? accumulate == Accumulate.ADD : adds();
  }

  boolean absent(int operand) {
    return function == Function.WEIGHTED_SUM_BACKWARD
        && operand >= 3
        && (wanted >> operand - 3 & 1) == 0;
  }

  DType type(int operand) {
    return function.output(operand) ? output : input;
  }

  /** Terms in one output element of the sum that the function is for. */
  int contraction() {
    return switch (function) {
      case Y -> sizes[1];
      case DX -> sizes[2];
      case DW, DW_REDUCE -> sizes[0];
      case WEIGHTED_SUM -> sizes[sizes.length - 1];
      case WEIGHTED_SUM_BACKWARD -> rows();
    };
  }

  int rows() {
    int rows = 1;
    for (int d = 0; d + 1 < sizes.length; d++) {
      rows *= sizes[d];
    }
    return rows;
  }

  long[] shape(int operand) {
    int[] s = sizes;
    return switch (function) {
      case Y -> operand == 0 ? of(s[0], s[1]) : operand == 1 ? of(s[1], s[2]) : of(s[0], s[2]);
      case DX -> operand == 0 ? of(s[0], s[2]) : operand == 1 ? of(s[1], s[2]) : of(s[0], s[1]);
      case DW -> operand == 0 ? of(s[0], s[1]) : operand == 1 ? of(s[0], s[2]) : of(s[1], s[2]);
      case DW_REDUCE -> operand == 0 ? of(s) : of(s[1], s[2]);
      case WEIGHTED_SUM -> operand == 0 ? of(s) : operand == 1 ? of(s[s.length - 1]) : leading();
      case WEIGHTED_SUM_BACKWARD ->
          switch (operand) {
            case 0, 3 -> of(s);
            case 1, 4 -> of(s[s.length - 1]);
            default -> leading();
          };
    };
  }

  private long[] leading() {
    return of(Arrays.copyOf(sizes, sizes.length - 1));
  }

  private static long[] of(int... sizes) {
    return Arrays.stream(sizes).asLongStream().toArray();
  }

  // ---- Drawing ----

  static Case draw(RandomGenerator random) {
    Function function = Function.values()[random.nextInt(Function.values().length)];
    int[] sizes = function.weighted() ? weightedSizes(random) : productSizes(random);
    if (function == Function.DW_REDUCE) {
      sizes[0] = random.nextInt(8) == 0 ? 0 : random.nextInt(1, 20);
    }
    return draw(random, function, sizes);
  }

  /** A case of a given function and given sizes; all else is drawn. */
  static Case draw(RandomGenerator random, Function function, int... sizes) {
    DType input = function == Function.DW_REDUCE ? DType.FLOAT32 : pick(random, Bits.FLOATS);
    DType output = random.nextBoolean() ? input : DType.FLOAT32;
    int split = 1;
    if (function == Function.DW) {
      int most = Math.max(sizes[0], 1);
      split =
          switch (random.nextInt(4)) {
            case 0 -> 0;
            case 1 -> 1;
            case 2 -> random.nextInt(1, Math.min(most, 8) + 1);
            default -> random.nextInt(1, Math.min(most, 200) + 1);
          };
    }
    int operands = function.operands.size();
    Layout[] layouts = new Layout[operands];
    Case plain =
        new Case(
            function,
            input,
            output,
            sizes,
            split,
            pick(random, Reduction.values()),
            pick(random, Accumulate.values()),
            pick(random, Precision.values()),
            layouts,
            pick(random, Data.values()),
            random.nextInt(4) == 0 ? new int[] {1, 2, 7, 16} : new int[] {random.nextInt(1, 5)},
            function == Function.WEIGHTED_SUM_BACKWARD ? random.nextInt(1, 4) : 3,
            random.nextLong());
    for (int i = 0; i < operands; i++) {
      layouts[i] = Layout.draw(random, plain.shape(i).length, function.output(i));
    }
    return plain;
  }

  private static int[] productSizes(RandomGenerator random) {
    int kind = random.nextInt(200);
    if (kind == 0) {
      return new int[] {random.nextInt(1, 200), random.nextInt(1, 200), random.nextInt(1, 200)};
    }
    if (kind < 12) {
      int[] sizes = {random.nextInt(1, 12), random.nextInt(1, 12), random.nextInt(1, 12)};
      sizes[random.nextInt(3)] =
          switch (random.nextInt(4)) {
            case 0 -> 510 + random.nextInt(6);
            case 1 -> 1022 + random.nextInt(6);
            default -> random.nextInt(200, 2600);
          };
      return sizes;
    }
    if (kind < 24) {
      int[] sizes = {random.nextInt(1, 20), random.nextInt(1, 20), random.nextInt(1, 20)};
      sizes[random.nextInt(3)] = 0;
      return sizes;
    }
    return new int[] {size(random), size(random), size(random)};
  }

  private static int size(RandomGenerator random) {
    return switch (random.nextInt(3)) {
      case 0 -> EDGES[random.nextInt(EDGES.length)] / (random.nextInt(3) + 1) + 1;
      case 1 -> random.nextInt(1, 10);
      default -> random.nextInt(1, 71);
    };
  }

  private static int[] weightedSizes(RandomGenerator random) {
    int rank = random.nextInt(1, 6);
    int[] sizes = new int[rank];
    long count = 1;
    for (int d = rank - 1; d >= 0; d--) {
      sizes[d] =
          count > 3000
              ? random.nextInt(1, 3)
              : random.nextInt(3) == 0 ? size(random) : random.nextInt(1, 8);
      count *= sizes[d];
    }
    switch (random.nextInt(12)) {
      case 0 -> sizes[random.nextInt(rank)] = 0;
      case 1 -> {
        Arrays.fill(sizes, 1);
        sizes[random.nextInt(rank)] = random.nextInt(100, 20000);
      }
      default -> {}
    }
    return sizes;
  }

  private static <T> T pick(RandomGenerator random, T[] values) {
    return values[random.nextInt(values.length)];
  }

  // ---- Shrinking ----

  /** Cases a little smaller or simpler than this one, the boldest first. */
  List<Case> simpler() {
    List<Case> found = new ArrayList<>();
    for (int d = 0; d < sizes.length; d++) {
      for (int smaller : new int[] {1, sizes[d] / 2, sizes[d] - sizes[d] / 8, sizes[d] - 1}) {
        if (smaller >= 0 && smaller < sizes[d]) {
          int[] copy = sizes.clone();
          copy[d] = smaller;
          int most = function == Function.DW ? Math.max(copy[0], 1) : 1;
          found.add(
              with(
                  input,
                  output,
                  copy,
                  Math.min(split, most),
                  accumulate,
                  precision,
                  layouts,
                  data,
                  threads));
        }
      }
    }
    if (split > 1) {
      found.add(with(input, output, sizes, 1, accumulate, precision, layouts, data, threads));
      found.add(
          with(input, output, sizes, split - 1, accumulate, precision, layouts, data, threads));
    }
    for (int i = 0; i < layouts.length; i++) {
      for (Layout layout : layouts[i].simpler()) {
        Layout[] copy = layouts.clone();
        copy[i] = layout;
        found.add(with(input, output, sizes, split, accumulate, precision, copy, data, threads));
      }
    }
    if (threads.length > 1) {
      for (int count : threads) {
        found.add(
            with(
                input,
                output,
                sizes,
                split,
                accumulate,
                precision,
                layouts,
                data,
                new int[] {count}));
      }
    } else if (threads[0] > 1) {
      found.add(
          with(input, output, sizes, split, accumulate, precision, layouts, data, new int[] {1}));
    }
    for (Data simple : new Data[] {Data.SMALL_INTEGERS, Data.UNIFORM}) {
      if (simple.ordinal() < data.ordinal()) {
        found.add(
            with(input, output, sizes, split, accumulate, precision, layouts, simple, threads));
      }
    }
    if (input != DType.FLOAT32) {
      found.add(
          with(
              DType.FLOAT32,
              DType.FLOAT32,
              sizes,
              split,
              accumulate,
              precision,
              layouts,
              data,
              threads));
    }
    if (output != DType.FLOAT32) {
      found.add(
          with(input, DType.FLOAT32, sizes, split, accumulate, precision, layouts, data, threads));
    }
    if (accumulate != Accumulate.ASSIGN) {
      found.add(
          with(input, output, sizes, split, Accumulate.ASSIGN, precision, layouts, data, threads));
    }
    if (precision != Precision.DEFAULT) {
      found.add(
          with(input, output, sizes, split, accumulate, Precision.DEFAULT, layouts, data, threads));
    }
    return found;
  }

  private Case with(
      DType input,
      DType output,
      int[] sizes,
      int split,
      Accumulate accumulate,
      Precision precision,
      Layout[] layouts,
      Data data,
      int[] threads) {
    return new Case(
        function,
        input,
        output,
        sizes,
        split,
        reduction,
        accumulate,
        precision,
        layouts,
        data,
        threads,
        wanted,
        seed);
  }

  /**
   * The smallest case that still fails, found by taking the first simpler one that does until none
   * is left.
   */
  static Case shrink(Case failing, java.util.function.Predicate<Case> fails) {
    Case smallest = failing;
    int tries = 0;
    boolean found = true;
    while (found && tries < 3000) {
      found = false;
      for (Case candidate : smallest.simpler()) {
        tries++;
        if (fails.test(candidate)) {
          smallest = candidate;
          found = true;
          break;
        }
      }
    }
    return smallest;
  }

  @Override
  public String toString() {
    StringBuilder text = new StringBuilder();
    text.append(
        "%s %s -> %s, sizes %s, %s, precision %s, data %s, threads %s"
            .formatted(
                function,
                input,
                output,
                Arrays.toString(sizes),
                accumulate,
                precision,
                data,
                Arrays.toString(threads)));
    if (function == Function.DW) {
      text.append(", split %d %s".formatted(split, reduction));
    }
    for (int i = 0; i < layouts.length; i++) {
      if (absent(i)) {
        text.append("%n  %s not wanted".formatted(function.operands.get(i)));
        continue;
      }
      Layout.Placed placed = layouts[i].place(shape(i));
      text.append(
          "%n  %s %s%s strides %s offset %d"
              .formatted(
                  function.operands.get(i),
                  type(i),
                  Arrays.toString(placed.shape()),
                  Arrays.toString(placed.strides()),
                  placed.offset()));
    }
    return text.append("%n  data seed %d".formatted(seed)).toString();
  }
}
