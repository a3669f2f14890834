package io.github.dxdw.internal;

import io.github.dxdw.LibraryLoadException;

/** Loads the library as if on another system; run in a JVM of its own, on the class path. */
public final class HostProbe {
  private HostProbe() {}

  /**
   * Takes system, processor, whether the C library is musl and, if wanted, the runtime's folder.
   */
  public static void main(String[] arguments) {
    if (arguments.length > 3) {
      System.setProperty("java.home", arguments[3]);
    }
    Host host = new Host(arguments[0], arguments[1], Boolean.parseBoolean(arguments[2]));
    try {
      System.out.println(new Loader(host).load());
    } catch (LibraryLoadException e) {
      System.out.println(e.getMessage());
      System.out.println("causes: " + ((e.getCause() == null ? 0 : 1) + e.getSuppressed().length));
    }
  }
}
