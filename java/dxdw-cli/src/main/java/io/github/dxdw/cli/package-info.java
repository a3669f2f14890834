/**
 * The command line of dxdw: {@code info}, {@code plan}, {@code train}, {@code bench}, {@code soak}
 * and {@code shell}.
 */
package io.github.dxdw.cli;
