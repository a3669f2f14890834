package io.github.dxdw.internal;

/**
 * Whether calls are told to JDK Flight Recorder. Its module may be missing: nothing here links to
 * it.
 */
final class Launches {
  private static final boolean PRESENT = present();

  private Launches() {}

  private static boolean present() {
    try {
      Class.forName("jdk.jfr.Event", false, Launches.class.getClassLoader());
      return true;
    } catch (ClassNotFoundException | LinkageError e) {
      return false;
    }
  }

  /** Is a recording on that wants calls? */
  static boolean wanted() {
    return PRESENT && LaunchEvent.wanted();
  }
}
