package io.github.dxdw;

import io.github.dxdw.internal.Arguments;
import java.lang.foreign.MemorySegment;
import java.util.Optional;

/**
 * Options of a call. Immutable; {@link #defaults()} is what the calls without options use.
 *
 * <table>
 * <caption>Defaults</caption>
 * <tr><th>option</th><th>default</th></tr>
 * <tr><td>accumulate</td><td>DEFAULT: gradients of weights and biases, and norms, are added, all
 * else is assigned</td></tr>
 * <tr><td>precision</td><td>DEFAULT: float32 stays float32</td></tr>
 * <tr><td>batchInvariant</td><td>false; the CPU is batch invariant in any case</td></tr>
 * <tr><td>stream</td><td>none: a call is complete on return</td></tr>
 * <tr><td>workspace</td><td>none: the library uses its own for the call</td></tr>
 * <tr><td>interruptible</td><td>false: interrupting a thread does not end its call</td></tr>
 * </table>
 *
 * @param accumulate whether results are added to the output or take the place of its contents
 * @param precision how products are formed
 * @param batchInvariant whether row i of Y, dX and y must have the same bits for every number of
 *     rows
 * @param stream the CUDA stream to work on, if any; a call with a stream may return earlier
 * @param workspace memory on the operands' device, aligned to 64 bytes, of at least {@link
 *     Plan#workspaceBytes()} bytes, that the call may use; compact
 * @param interruptible whether {@code y}, {@code dx}, {@code dw}, {@code dwReduce} and the weighted
 *     sums on the CPU give up when their thread is interrupted: see {@link #withInterruptible}
 */
public record Options(
    Accumulate accumulate,
    Precision precision,
    boolean batchInvariant,
    Optional<Stream> stream,
    Optional<Tensor> workspace,
    boolean interruptible) {

  private static final Options DEFAULTS =
      new Options(
          Accumulate.DEFAULT, Precision.DEFAULT, false, Optional.empty(), Optional.empty(), false);

  /**
   * Checks the options.
   *
   * @throws IllegalArgumentException if one is null, or the workspace is not compact
   */
  public Options {
    Arguments.present(accumulate, "accumulate");
    Arguments.present(precision, "precision");
    Arguments.present(stream, "stream");
    Arguments.present(workspace, "workspace");
    if (workspace.isPresent() && !workspace.get().isCompact()) {
      throw new IllegalArgumentException(
          "workspace: " + workspace.get().view().describe() + " is not compact");
    }
  }

  /**
   * The defaults of the table above.
   *
   * @return the defaults
   */
  public static Options defaults() {
    return DEFAULTS;
  }

  /**
   * These options with another way of writing results.
   *
   * @param accumulate whether results are added to the output or take the place of its contents
   * @return the changed options
   * @throws IllegalArgumentException if it is null
   */
  public Options withAccumulate(Accumulate accumulate) {
    return new Options(accumulate, precision, batchInvariant, stream, workspace, interruptible);
  }

  /**
   * These options with another precision.
   *
   * @param precision how products are formed
   * @return the changed options
   * @throws IllegalArgumentException if it is null
   */
  public Options withPrecision(Precision precision) {
    return new Options(accumulate, precision, batchInvariant, stream, workspace, interruptible);
  }

  /**
   * These options with another demand on rows.
   *
   * @param batchInvariant whether a row must have the same bits for every number of rows
   * @return the changed options
   */
  public Options withBatchInvariant(boolean batchInvariant) {
    return new Options(accumulate, precision, batchInvariant, stream, workspace, interruptible);
  }

  /**
   * These options with calls that give up, or not, when their thread is interrupted. Such a call
   * works on some rows of the output at a time, for some ten milliseconds each with usual sizes,
   * and throws {@link CallInterruptedException} between them; the exception tells which rows are
   * written. The results have the same bits. Counts on the CPU for {@code y}, {@code dx}, {@code
   * dw} without a bias, {@code dwReduce}, {@code weightedSum} and {@code weightedSumBackward};
   * elsewhere it changes nothing.
   *
   * @param interruptible whether to look at the thread's interrupt status
   * @return the changed options
   */
  public Options withInterruptible(boolean interruptible) {
    return new Options(accumulate, precision, batchInvariant, stream, workspace, interruptible);
  }

  /**
   * These options with a stream.
   *
   * @param stream the CUDA stream to work on
   * @return the changed options
   * @throws IllegalArgumentException if it is null
   */
  public Options withStream(Stream stream) {
    Arguments.present(stream, "stream");
    return new Options(
        accumulate, precision, batchInvariant, Optional.of(stream), workspace, interruptible);
  }

  /**
   * These options with a workspace on any device.
   *
   * @param workspace compact tensor, aligned to 64 bytes; its type does not matter
   * @return the changed options
   * @throws IllegalArgumentException if it is null or not compact
   */
  public Options withWorkspace(Tensor workspace) {
    Arguments.present(workspace, "workspace");
    return new Options(
        accumulate, precision, batchInvariant, stream, Optional.of(workspace), interruptible);
  }

  /**
   * These options with a workspace in host memory.
   *
   * @param workspace off-heap segment, aligned to 64 bytes, whose bytes are used as far as they
   *     come in pairs
   * @return the changed options
   * @throws IllegalArgumentException if it is null or lies on the heap
   */
  public Options withWorkspace(MemorySegment workspace) {
    Arguments.present(workspace, "workspace");
    return withWorkspace(Tensor.of(workspace, DType.FLOAT16, workspace.byteSize() / 2));
  }
}
