package io.github.dxdw.cli.train;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;

/**
 * Gradient descent with momentum (Polyak, 1964) and decoupled weight decay, in float32 on the host.
 *
 * <p>v = 0.9 · v + g, w -= rate · (v + decay · w).
 */
final class Momentum implements Optimiser {

  private static final float MOMENTUM = 0.9f;

  /**
   * Elements that are brought into arrays at a time: loops over arrays with one index are
   * vectorised.
   */
  private static final int BLOCK = 2048;

  private final List<Parameter> parameters;
  private final float decay;

  /** Of each parameter, block by block. */
  private final float[][][] velocities;

  private final float[] gradients = new float[BLOCK];
  private final float[] weights = new float[BLOCK];

  Momentum(List<Parameter> parameters, float decay) {
    this.parameters = parameters;
    this.decay = decay;
    velocities =
        parameters.stream()
            .map(
                p ->
                    new float[Math.toIntExact(Math.ceilDiv(p.values().elementCount(), BLOCK))]
                        [BLOCK])
            .toArray(float[][][]::new);
  }

  @Override
  public void step(float rate, float scale) {
    float kept = 1 - rate * decay;
    for (int p = 0; p < velocities.length; p++) {
      MemorySegment gradient = parameters.get(p).readGradient().segment();
      MemorySegment values = parameters.get(p).values().values();
      for (int block = 0; block < velocities[p].length; block++) {
        long bytes = (long) block * BLOCK * Float.BYTES;
        int count = (int) Math.min(BLOCK, (values.byteSize() - bytes) / Float.BYTES);
        MemorySegment.copy(gradient, ValueLayout.JAVA_FLOAT, bytes, gradients, 0, count);
        MemorySegment.copy(values, ValueLayout.JAVA_FLOAT, bytes, weights, 0, count);
        move(velocities[p][block], gradients, weights, kept, rate, scale);
        MemorySegment.copy(weights, 0, values, ValueLayout.JAVA_FLOAT, bytes, count);
      }
      parameters.get(p).values().push();
    }
  }

  /** All arrays have {@link #BLOCK} elements; what is behind the end of a parameter is ignored. */
  private static void move(
      float[] velocity, float[] gradient, float[] weight, float kept, float rate, float scale) {
    for (int i = 0; i < velocity.length; i++) {
      float v = MOMENTUM * velocity[i] + scale * gradient[i];
      velocity[i] = v;
      weight[i] = kept * weight[i] - rate * v;
    }
  }
}
