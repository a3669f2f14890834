package io.github.dxdw;

/**
 * Memory outside of the Java heap, as {@link Dxdw#memoryUse()} found it. Immutable.
 *
 * @param arenaBytes bytes that arenas of {@link Dxdw#arena()} hold, on the host and on devices
 * @param openArenas arenas of {@link Dxdw#arena()} that are neither closed nor collected
 * @param forgottenArenas arenas of {@link Dxdw#arena()} that the collector had to close, since the
 *     start; 0 in a program that closes what it makes
 * @param scratchBytes bytes of CPU scratch that the native library uses or keeps for the next calls
 * @param deviceBytes bytes allocated on CUDA devices through this library, by any arena
 */
public record MemoryUse(
    long arenaBytes, long openArenas, long forgottenArenas, long scratchBytes, long deviceBytes) {}
