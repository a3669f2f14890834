package io.github.dxdw;

import java.util.Objects;

/**
 * What a call would run, as told by the {@code explain} methods of {@link Dxdw}. Immutable.
 *
 * @param kernel name of the kernel; {@code "none"} when there is nothing to compute
 * @param level SIMD level or GPU architecture that the kernel is compiled for
 * @param split slices of T of a weight gradient, planned when 0 was asked; 1 elsewhere
 * @param threads CPU threads, or thread blocks on a GPU
 * @param tiles output tiles
 * @param workspaceBytes bytes of workspace that the call needs
 * @param why one sentence that says why this kernel was chosen
 */
public record Plan(
    String kernel,
    String level,
    int split,
    int threads,
    long tiles,
    long workspaceBytes,
    String why) {

  /** Refuses texts that are null. */
  public Plan {
    Objects.requireNonNull(kernel, "kernel");
    Objects.requireNonNull(level, "level");
    Objects.requireNonNull(why, "why");
  }
}
