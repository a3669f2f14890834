/** The command line of dxdw: {@code info}, {@code train digits} and {@code shell}. */
package io.github.dxdw.cli;
