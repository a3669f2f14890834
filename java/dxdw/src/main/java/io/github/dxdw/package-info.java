/**
 * The gradient kernels of a matrix product, on the CPU and on NVIDIA GPUs.
 *
 * <p>Letters: T = tokens (batch times sequence), K = inputs, N = outputs, D = features. Sizes,
 * strides and offsets are counted in elements and are {@code long}s. A {@link
 * io.github.dxdw.Tensor} is a view of memory that an {@link java.lang.foreign.Arena} of the caller
 * owns: whoever closes the arena ends the life of all views, and a call with such a view throws
 * {@link IllegalStateException}. An arena can't be closed while a call works on its memory.
 *
 * <p>Every argument is checked before anything is written. What is wrong with an argument comes as
 * {@link IllegalArgumentException} that names it and shows both values, memory that is too small as
 * {@link IndexOutOfBoundsException}, closed memory as {@link IllegalStateException}, memory of
 * another thread as {@link WrongThreadException}, and all that goes wrong behind the checks as
 * {@link io.github.dxdw.DxdwException}.
 *
 * <p>Unless a type says otherwise, its methods may be called by any number of threads at once.
 * Calls that write the same memory must be ordered by the caller. A virtual thread occupies its
 * carrier for the duration of a call.
 */
package io.github.dxdw;
