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

  private static final MethodHandle MADVISE =
      handle(
          "madvise",
          FunctionDescriptor.of(
              ValueLayout.JAVA_INT,
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_INT));
  private static final int MADV_HUGEPAGE = 14;
  private static final long HUGE_PAGE = 2L << 20;

  /** Memory of this size holds at least one huge page wherever it begins. */
  private static final long WORTH_HUGE_PAGES = 2 * HUGE_PAGE;

  private HostMemory() {}

  private static MethodHandle handle(String name, FunctionDescriptor type) {
    MemorySegment function = LINKER.defaultLookup().find(name).orElseThrow();
    return LINKER.downcallHandle(function, type);
  }

  /** The address of that many zero bytes; 0 when the system refuses them. */
  static long allocate(long bytes) {
    try {
      long address = (long) CALLOC.invokeExact(1L, bytes);
      if (address != 0 && bytes >= WORTH_HUGE_PAGES) {
        askForHugePages(address, bytes);
      }
      return address;
    } catch (Throwable thrown) {
      throw Native.rethrow(thrown);
    }
  }

  /** What lies within the memory as whole huge pages. The system is free to have none. */
  private static void askForHugePages(long address, long bytes) throws Throwable {
    long from = (address + HUGE_PAGE - 1) & -HUGE_PAGE;
    long to = (address + bytes) & -HUGE_PAGE;
    int ignored = (int) MADVISE.invokeExact(from, to - from, MADV_HUGEPAGE);
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
