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

  private final Team team;

  /** A block for each member of the team. */
  private final float[][] gradients;

  private final float[][] weights;

  Momentum(List<Parameter> parameters, float decay, Team team) {
    this.parameters = parameters;
    this.decay = decay;
    this.team = team;
    gradients = new float[team.members()][BLOCK];
    weights = new float[team.members()][BLOCK];
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
    for (int p = 0; p < velocities.length; p++) {
      Parameter parameter = parameters.get(p);
      MemorySegment gradient = parameter.readGradient().segment();
      MemorySegment values = parameter.values().values();
      float[][] velocity = velocities[p];
      team.run(
          velocity.length,
          parameter.values().elementCount(),
          (member, from, to) -> {
            for (int block = from; block < to; block++) {
              move(block, velocity[block], gradient, values, member, rate, scale);
            }
          });
      parameter.values().push();
    }
  }

  private void move(
      int block,
      float[] velocity,
      MemorySegment gradient,
      MemorySegment values,
      int member,
      float rate,
      float scale) {
    long bytes = (long) block * BLOCK * Float.BYTES;
    int count = (int) Math.min(BLOCK, (values.byteSize() - bytes) / Float.BYTES);
    float[] g = gradients[member];
    float[] w = weights[member];
    MemorySegment.copy(gradient, ValueLayout.JAVA_FLOAT, bytes, g, 0, count);
    MemorySegment.copy(values, ValueLayout.JAVA_FLOAT, bytes, w, 0, count);
    move(velocity, g, w, 1 - rate * decay, rate, scale);
    MemorySegment.copy(w, 0, values, ValueLayout.JAVA_FLOAT, bytes, count);
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
