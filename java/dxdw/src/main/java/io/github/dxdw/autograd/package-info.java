/**
 * Differentiable operations in plain Java. A {@link io.github.dxdw.autograd.Function} is a forward
 * and a backward, with the kernels of {@link io.github.dxdw.Dxdw} or loops of one's own in them; a
 * {@link io.github.dxdw.autograd.Tape} records what is applied and runs the backwards in reverse
 * order; a {@link io.github.dxdw.autograd.Parameter} is a leaf, whose gradient adds up in a float32
 * {@link io.github.dxdw.GradientBuffer} over the micro-batches of a step until an {@link
 * io.github.dxdw.autograd.Optimizer} moves it. {@link io.github.dxdw.autograd.GradCheck} compares
 * the gradients of a function with central differences.
 *
 * <p>A step looks like this:
 *
 * <pre>{@code
 * tape.reset();
 * Variable hidden = tape.apply(Functions.RELU, tape.apply(Functions.LINEAR, x, w1, b1));
 * Variable loss = tape.apply(Functions.SOFTMAX_CROSS_ENTROPY, tape.apply(Functions.LINEAR, hidden, w2, b2), labels);
 * tape.backward(loss, ones);
 * optimizer.step(0.1);
 * }</pre>
 *
 * <p>Steps after the first of a shape allocate nothing, neither on the Java heap nor off it. The
 * types of this package are used by one thread at a time.
 */
package io.github.dxdw.autograd;
