/**
 * Measures the kernels from Java, alone or beside other libraries: {@link Peer} is what these are
 * to provide, {@link Turns} measures, {@link Report} holds the results.
 */
package io.github.dxdw.cli.bench;
