package io.github.dxdw.internal;

import io.github.dxdw.LibraryLoadException;
import io.github.dxdw.bindings.dxdw_h;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.System.Logger.Level;
import java.nio.file.Path;
import java.util.Properties;

/** The native library: loaded once, when this class is first used, which never throws. */
public final class Library {
  /** Most threads that the native library takes. */
  private static final int MOST_THREADS = 1024;

  private static final System.Logger LOGGER = System.getLogger("io.github.dxdw");
  private static final Path FILE;
  private static final LibraryLoadException FAILURE;

  static {
    Path file = null;
    LibraryLoadException failure = null;
    try {
      file = new Loader(Host.current()).load();
      // The JVM's count respects the limits of a container, and flags of the user.
      Native.setThreads(processors());
      LOGGER.log(Level.DEBUG, "loaded {0}: {1}", file, Native.description());
    } catch (LibraryLoadException e) {
      failure = e;
    } catch (Throwable e) {
      failure = new LibraryLoadException("dxdw: the native library could not be loaded: " + e, e);
    }
    FILE = file;
    FAILURE = failure;
  }

  private Library() {}

  private static int processors() {
    return Math.clamp(Runtime.getRuntime().availableProcessors(), 1, MOST_THREADS);
  }

  /** Throws unless the native library is there. */
  public static void require() {
    if (FAILURE != null) {
      throw new LibraryLoadException(FAILURE.getMessage(), FAILURE);
    }
  }

  /**
   * The calling thread's frame for a call.
   *
   * @throws LibraryLoadException if the library is not there
   */
  public static Frame frame() {
    require();
    return Frame.current();
  }

  /** Why the library could not be loaded; null when it was. */
  public static LibraryLoadException failure() {
    return FAILURE;
  }

  /** The file that the library was loaded from. */
  public static Path file() {
    require();
    return FILE;
  }

  /** Sets the CPU threads of a call; 0 = the processors that the JVM may use. */
  public static void setThreads(int threads) {
    require();
    Native.setThreads(threads == 0 ? processors() : threads);
  }

  /** The CPU threads of a call. */
  public static int threads() {
    require();
    return Native.threads();
  }

  /** Bytes of CPU scratch in use or kept; 0 without the library. */
  public static long scratchBytes() {
    return FAILURE == null ? Native.counter(dxdw_h.DXDW_COUNTER_SCRATCH_BYTES()) : 0;
  }

  /** Bytes allocated on CUDA devices; 0 without the library. */
  public static long deviceBytes() {
    return FAILURE == null ? Native.counter(dxdw_h.DXDW_COUNTER_DEVICE_BYTES()) : 0;
  }

  /** The SIMD level in use. */
  public static String simdLevel() {
    require();
    return Native.simdLevel();
  }

  /** One line about the library, or about why it is not there. */
  public static String describe() {
    return FAILURE == null
        ? Native.description()
        : "dxdw "
            + version()
            + " without its native library: "
            + FAILURE.getMessage().replaceAll("\\s*\\R\\s*", " ");
  }

  /** The version that the build wrote down. */
  public static String version() {
    try (InputStream in = Library.class.getResourceAsStream("version.properties")) {
      Properties properties = new Properties();
      properties.load(in);
      return properties.getProperty("version");
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
