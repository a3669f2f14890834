package io.github.dxdw.cli.bench;

import java.util.List;
import java.util.Optional;
import java.util.ServiceLoader;

/** Another library that can do the same products; found as a service. */
public interface Peer {

  /** The library's name, in one word. */
  String name();

  /** Name, version and settings in one line. */
  String description();

  /**
   * Prepares a product on at most {@code threads} threads.
   *
   * @return what does it, again and again; empty when this library can't
   */
  Optional<Runnable> prepare(Product product, int threads);

  /** All peers on the class path. */
  static List<Peer> all() {
    return ServiceLoader.load(Peer.class).stream().map(ServiceLoader.Provider::get).toList();
  }
}
