package io.github.dxdw.cli;

import io.github.dxdw.DType;
import io.github.dxdw.Device;
import io.github.dxdw.Dxdw;
import io.github.dxdw.cli.train.Backend;
import io.github.dxdw.cli.train.Recipe;
import java.nio.file.Path;
import java.util.Optional;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;
import picocli.CommandLine.TypeConversionException;

/** The options that all trainings share. */
final class TrainingOptions {

  @Option(
      names = "--device",
      paramLabel = "DEVICE",
      defaultValue = "cpu",
      converter = DeviceConverter.class,
      description = "Where the kernels run: cpu, cuda or cuda:N (${DEFAULT-VALUE}).")
  private Device device;

  @Option(
      names = "--dtype",
      paramLabel = "TYPE",
      defaultValue = "fp32",
      converter = DTypeConverter.class,
      description = "Type of the kernels' operands: fp32, fp16 or bf16 (${DEFAULT-VALUE}).")
  private DType type;

  @Option(
      names = "--split",
      paramLabel = "N",
      defaultValue = "0",
      description =
          "Slices of the rows in each weight gradient; 0 lets the library choose"
              + " (${DEFAULT-VALUE}).")
  private int split;

  @Option(
      names = "--threads",
      paramLabel = "N",
      defaultValue = "0",
      description = "CPU threads; 0 stands for all that the machine allows (${DEFAULT-VALUE}).")
  private int threads;

  @Option(
      names = "--seed",
      paramLabel = "N",
      defaultValue = "1",
      description =
          "Fixes the held-out examples, the first weights and the order (${DEFAULT-VALUE}).")
  private long seed;

  @Option(
      names = "--check",
      description = "First compare the gradients of the first step with a reference in plain Java.")
  private boolean check;

  @Option(
      names = "--chart",
      paramLabel = "FILE",
      converter = OutputFile.Png.class,
      description = "Write a picture of the loss to this PNG file.")
  private Path chart;

  @Spec(Spec.Target.MIXEE)
  private CommandSpec spec;

  long seed() {
    return seed;
  }

  boolean check() {
    return check;
  }

  Optional<Path> chart() {
    return Optional.ofNullable(chart);
  }

  /** The recipe with these settings, once they and all options have been looked at. */
  Recipe recipe(
      int epochs,
      int microBatchRows,
      int microBatches,
      Recipe.Rule rule,
      float learningRate,
      float decay) {
    Usage.require(spec, epochs >= 1, "--epochs", epochs, "expected 1 or more");
    Usage.require(
        spec,
        split >= 0 && split <= microBatchRows,
        "--split",
        split,
        "expected 0 to " + microBatchRows + ", the rows of a micro-batch");
    Usage.requireThreads(spec, 0, threads);
    return new Recipe(epochs, microBatchRows, microBatches, rule, learningRate, decay);
  }

  /**
   * Sets the threads and tells where the kernels run; fails with the reason when that device is not
   * available.
   */
  Backend backend() {
    if (!device.isAvailable()) {
      throw new CommandException(device + " is not available: " + device.unavailabilityCause());
    }
    Dxdw.setThreads(threads);
    return new Backend(device, type, split);
  }

  static final class DeviceConverter implements ITypeConverter<Device> {
    @Override
    public Device convert(String text) {
      if (text.equals("cpu")) {
        return Device.cpu();
      }
      if (text.equals("cuda")) {
        return Device.cuda(0);
      }
      if (text.matches("cuda:\\d{1,4}")) {
        return Device.cuda(Integer.parseInt(text.substring("cuda:".length())));
      }
      throw new TypeConversionException("'" + text + "' is none of cpu, cuda, cuda:N");
    }
  }

  static final class DTypeConverter implements ITypeConverter<DType> {
    @Override
    public DType convert(String text) {
      return switch (text) {
        case "fp32", "float32" -> DType.FLOAT32;
        case "fp16", "float16" -> DType.FLOAT16;
        case "bf16", "bfloat16" -> DType.BFLOAT16;
        default -> throw new TypeConversionException("'" + text + "' is none of fp32, fp16, bf16");
      };
    }
  }
}
