package io.github.dxdw.parity;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/**
 * Memory straight from the operating system: with unreadable pages on both sides, or far larger
 * than what is ever touched. Freed with its arena. A read or write beyond a guarded end stops the
 * JVM, which no test survives.
 */
final class PageMemory {

  private static final long PAGE = 65_536;
  private static final int PROT_NONE = 0;
  private static final int PROT_READ_WRITE = 3;
  private static final int MAP_PRIVATE_ANONYMOUS_NORESERVE = 0x02 | 0x20 | 0x4000;

  private static final Linker LINKER = Linker.nativeLinker();
  private static final MethodHandle MMAP =
      handle(
          "mmap",
          FunctionDescriptor.of(
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_INT,
              ValueLayout.JAVA_INT,
              ValueLayout.JAVA_INT,
              ValueLayout.JAVA_LONG));
  private static final MethodHandle MUNMAP =
      handle(
          "munmap",
          FunctionDescriptor.of(
              ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG));
  private static final MethodHandle MPROTECT =
      handle(
          "mprotect",
          FunctionDescriptor.of(
              ValueLayout.JAVA_INT,
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_INT));

  private PageMemory() {}

  private static MethodHandle handle(String name, FunctionDescriptor type) {
    return LINKER.downcallHandle(LINKER.defaultLookup().find(name).orElseThrow(), type);
  }

  /** Whole pages, at least {@code bytes} of them, between two pages that nobody may touch. */
  static MemorySegment guarded(Arena arena, long bytes) {
    long inner = (bytes + PAGE - 1) / PAGE * PAGE;
    MemorySegment all = map(arena, inner + 2 * PAGE);
    forbid(all.address());
    forbid(all.address() + PAGE + inner);
    return all.asSlice(PAGE, inner);
  }

  /** Zeroed address space that costs memory only where it is touched. */
  static MemorySegment map(Arena arena, long bytes) {
    try {
      long address =
          (long)
              MMAP.invokeExact(0L, bytes, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS_NORESERVE, -1, 0L);
      if (address == -1) {
        throw new OutOfMemoryError("mmap refused " + bytes + " bytes");
      }
      return MemorySegment.ofAddress(address)
          .reinterpret(bytes, arena, segment -> unmap(address, bytes));
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  private static void unmap(long address, long bytes) {
    try {
      int status = (int) MUNMAP.invokeExact(address, bytes);
      assert status == 0;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  private static void forbid(long address) {
    try {
      int status = (int) MPROTECT.invokeExact(address, PAGE, PROT_NONE);
      if (status != 0) {
        throw new IllegalStateException("mprotect failed");
      }
    } catch (RuntimeException e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }
}
