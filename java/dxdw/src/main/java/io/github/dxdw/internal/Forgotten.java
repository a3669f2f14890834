package io.github.dxdw.internal;

import java.lang.ref.Cleaner;

/** The one thread that gives back what its owners forgot to close. */
final class Forgotten {
  static final Cleaner CLEANER = Cleaner.create();

  private Forgotten() {}
}
