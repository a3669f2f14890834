/**
 * A small perceptron trained with the library's kernels, written to be read: {@link
 * io.github.dxdw.cli.train.Network} shows forward and backward on a tape, {@link
 * io.github.dxdw.cli.train.Trainer} the accumulation of micro-batches and {@link
 * io.github.dxdw.cli.train.GradientCheck} the reference that the gradients are held against.
 */
package io.github.dxdw.cli.train;
