package io.github.dxdw.internal;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Enabled;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;

/** A call as a recording shows it. Its duration is that of the native call. */
@Name(LaunchEvent.NAME)
@Label("Launch")
@Category("dxdw")
@Description(
    "A call of a dxdw function. With a stream, its duration is the time to put it there, not to"
        + " carry it out.")
@Enabled(false)
@StackTrace(false)
final class LaunchEvent extends Event {
  static final String NAME = "io.github.dxdw.Launch";

  /** One object answers for all of the class, so that asking allocates nothing. */
  private static final LaunchEvent ANY = new LaunchEvent();

  @Label("Function")
  String function;

  @Label("Device")
  String device;

  @Label("Operands")
  @Description("Types and shapes, in the order of the arguments")
  String operands;

  @Label("Kernel")
  String kernel;

  @Label("Level")
  @Description("SIMD level or GPU architecture")
  String level;

  @Label("Split")
  @Description("Slices of the contraction")
  int split;

  @Label("Threads")
  @Description("CPU threads, or thread blocks on a GPU")
  int threads;

  @Label("Workspace")
  @DataAmount
  long workspace;

  static boolean wanted() {
    return ANY.isEnabled();
  }
}
