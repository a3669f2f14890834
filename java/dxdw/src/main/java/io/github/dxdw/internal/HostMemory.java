package io.github.dxdw.internal;

import io.github.dxdw.NativeMemoryException;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/**
 * Host memory as the C library gives it. What the JVM allocates for its own arenas counts against a
 * limit that follows the size of the Java heap; here only the system says no.
 */
public final class HostMemory {
  private static final Linker LINKER = Linker.nativeLinker();
  private static final MethodHandle CALLOC =
      handle(
          "calloc",
          FunctionDescriptor.of(
              ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG));
  private static final MethodHandle FREE =
      handle("free", FunctionDescriptor.ofVoid(ValueLayout.JAVA_LONG));

  private HostMemory() {}

  private static MethodHandle handle(String name, FunctionDescriptor type) {
    MemorySegment function = LINKER.defaultLookup().find(name).orElseThrow();
    return LINKER.downcallHandle(function, type);
  }

  /** The address of that many zero bytes; 0 when the system refuses them. */
  static long allocate(long bytes) {
    try {
      return (long) CALLOC.invokeExact(1L, bytes);
    } catch (Throwable thrown) {
      throw Native.rethrow(thrown);
    }
  }

  /** Gives back what {@link #allocate} gave. */
  static void free(long address) {
    try {
      FREE.invokeExact(address);
    } catch (Throwable thrown) {
      throw Native.rethrow(thrown);
    }
  }

  /** The exception that says what was asked for, what there is, and what is ours of it. */
  public static NativeMemoryException refused(long bytes, String reason) {
    String there = "";
    if (Library.failure() == null) {
      Devices.Info host = Devices.info(Devices.CPU, 0);
      there = "; " + host.freeBytes() + " of " + host.totalBytes() + " bytes are free";
    }
    return new NativeMemoryException(
        bytes
            + " bytes of host memory were refused: "
            + reason
            + there
            + "; "
            + OwnedArena.bytesHeld()
            + " bytes are held by arenas of Dxdw.arena()");
  }
}
