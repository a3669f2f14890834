package io.github.dxdw.cli;

import io.github.dxdw.Chip;
import io.github.dxdw.DType;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Plan;
import io.github.dxdw.Reduction;
import java.io.PrintWriter;
import java.util.Locale;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** Shows how the three products of a layer would run on a GPU, which need not be there. */
@Command(
    name = "plan",
    description = "Show tiles, waves and slices of a layer's products on a GPU, without one.",
    sortOptions = false)
final class PlanCommand implements Runnable {

  /** Longest contraction that the crossover is looked for. */
  private static final long MOST_TOKENS = 1L << 30;

  @Parameters(index = "0", paramLabel = "T", description = "Tokens: batch times sequence.")
  private long tokens;

  @Parameters(index = "1", paramLabel = "K", description = "Inputs of the layer.")
  private long inputs;

  @Parameters(index = "2", paramLabel = "N", description = "Outputs of the layer.")
  private long outputs;

  @Option(
      names = "--sms",
      paramLabel = "N",
      defaultValue = "132",
      description = "Multiprocessors of the GPU (${DEFAULT-VALUE}).")
  private int multiprocessors;

  @Option(
      names = "--capability",
      paramLabel = "N",
      defaultValue = "90",
      description = "Its compute capability, major times 10 plus minor (${DEFAULT-VALUE}).")
  private int capability;

  @Option(
      names = "--dtype",
      paramLabel = "TYPE",
      defaultValue = "bf16",
      converter = TrainingOptions.DTypeConverter.class,
      description = "Type of the operands: fp32, fp16 or bf16 (${DEFAULT-VALUE}).")
  private DType type;

  @Option(
      names = "--split",
      paramLabel = "N",
      defaultValue = "0",
      description = "Slices of T in dW; 0 lets the library choose (${DEFAULT-VALUE}).")
  private int split;

  @Option(names = "--atomic", description = "Add slices atomically instead of in their order.")
  private boolean atomic;

  @Spec private CommandSpec spec;

  @Override
  public void run() {
    Usage.require(spec, multiprocessors >= 1, "--sms", multiprocessors, "expected 1 or more");
    Usage.require(spec, capability >= 10, "--capability", capability, "expected 10 or more");
    long most = Math.min(Math.max(tokens, 1), Integer.MAX_VALUE);
    Usage.require(
        spec, split >= 0 && split <= most, "--split", split, "expected 0 to " + most + ", as T");
    Chip chip = new Chip(capability, multiprocessors);
    Plan y;
    Plan dx;
    Plan dw;
    try {
      y = Dxdw.planY(chip, type, tokens, inputs, outputs);
      dx = Dxdw.planDx(chip, type, tokens, inputs, outputs);
      dw = planDw(chip, tokens, split);
    } catch (IllegalArgumentException e) {
      throw new ParameterException(
          spec.commandLine(),
          "T " + tokens + ", K " + inputs + ", N " + outputs + ": " + e.getMessage());
    }
    print(
        "T %d, K %d, N %d, %s on %d multiprocessors of capability %d.%d",
        tokens, inputs, outputs, type, multiprocessors, capability / 10, capability % 10);
    show("Y  = X W", y);
    show("dX = dY W^T", dx);
    show("dW = X^T dY", dw);
    print("");
    print("%s", crossover(chip));
  }

  private void show(String formula, Plan plan) {
    print("");
    print(
        "%-12s %s: %d tiles, %d slices, %.2f waves, workspace %s",
        formula,
        plan.kernel(),
        plan.tiles(),
        plan.split(),
        (double) plan.tiles() * plan.split() / multiprocessors,
        bytes(plan.workspaceBytes()));
    print("             %s", plan.why());
  }

  private Plan planDw(Chip chip, long t, int slices) {
    return Dxdw.planDw(
        chip,
        type,
        t,
        inputs,
        outputs,
        slices,
        atomic ? Reduction.ATOMIC : Reduction.DETERMINISTIC);
  }

  /**
   * From which T on the library cuts dW into slices: its tiles do not grow with T, its work does.
   */
  private String crossover(Chip chip) {
    Plan whole = planDw(chip, Math.max(tokens, 1), 1);
    String tiles =
        String.format(
            Locale.ROOT,
            "dW in one piece has %d tiles for %d multiprocessors",
            whole.tiles(),
            multiprocessors);
    if (!splits(chip, MOST_TOKENS)) {
      return tiles + ": slices do not pay for any T.";
    }
    long low = 0;
    long high = 1;
    while (!splits(chip, high)) {
      low = high;
      high *= 2;
    }
    // The first T of the block in which the choice turns; beyond it, tails may turn it back.
    while (high - low > 1) {
      long middle = low + (high - low) / 2;
      if (splits(chip, middle)) {
        high = middle;
      } else {
        low = middle;
      }
    }
    return String.format(
        Locale.ROOT,
        "%s: slices begin to pay at T = %d (%d slices); at T = %d the choice is %d.",
        tiles,
        high,
        planDw(chip, high, 0).split(),
        tokens,
        planDw(chip, tokens, 0).split());
  }

  private boolean splits(Chip chip, long t) {
    return planDw(chip, t, 0).split() > 1;
  }

  private static String bytes(long bytes) {
    return bytes == 0 ? "none" : String.format(Locale.ROOT, "%.1f MB", bytes / 1e6);
  }

  private void print(String format, Object... values) {
    PrintWriter out = spec.commandLine().getOut();
    out.println(String.format(Locale.ROOT, format, values));
  }
}
