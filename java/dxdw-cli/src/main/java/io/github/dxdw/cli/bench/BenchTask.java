package io.github.dxdw.cli.bench;

/** A measurement of another module that becomes a subcommand of bench; found as a service. */
public interface BenchTask extends Runnable {}
