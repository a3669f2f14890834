/**
 * A small perceptron trained with the library's kernels, written to be read: {@link Network} shows
 * forward and backward, {@link Dense} the three products of a layer, {@link Trainer} the
 * accumulation of micro-batches and {@link GradientCheck} the reference that the gradients are held
 * against.
 */
package io.github.dxdw.cli.train;
