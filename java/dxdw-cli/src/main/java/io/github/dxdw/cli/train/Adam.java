package io.github.dxdw.cli.train;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;

/**
 * Adam with decoupled weight decay (Kingma and Ba, 2015; Loshchilov and Hutter, 2019), in float32
 * on the host.
 *
 * <p>m = β₁·m + (1 - β₁)·g, v = β₂·v + (1 - β₂)·g², w -= rate · (m̂ / (sqrt(v̂) + ε) + decay · w),
 * where m̂ and v̂ are m and v divided by 1 - β₁ᵗ and 1 - β₂ᵗ.
 */
final class Adam implements Optimiser {

  private static final float BETA1 = 0.9f;
  private static final float BETA2 = 0.999f;
  private static final float EPSILON = 1e-8f;

  private final List<Parameter> parameters;
  private final float decay;
  private final float[][] first;
  private final float[][] second;
  private int steps;

  Adam(List<Parameter> parameters, float decay) {
    this.parameters = parameters;
    this.decay = decay;
    first =
        parameters.stream()
            .map(p -> new float[(int) p.values().elementCount()])
            .toArray(float[][]::new);
    second =
        parameters.stream()
            .map(p -> new float[(int) p.values().elementCount()])
            .toArray(float[][]::new);
  }

  @Override
  public void step(float rate, float scale) {
    steps++;
    float firstCorrection = (float) (1 / (1 - StrictMath.pow(BETA1, steps)));
    float secondCorrection = (float) (1 / (1 - StrictMath.pow(BETA2, steps)));
    for (int p = 0; p < parameters.size(); p++) {
      MemorySegment gradient = parameters.get(p).readGradient().segment();
      Mirror values = parameters.get(p).values();
      float[] m = first[p];
      float[] v = second[p];
      for (int i = 0; i < m.length; i++) {
        float g = gradient.getAtIndex(ValueLayout.JAVA_FLOAT, i) * scale;
        m[i] = BETA1 * m[i] + (1 - BETA1) * g;
        v[i] = BETA2 * v[i] + (1 - BETA2) * g * g;
        float w = values.get(i);
        float direction =
            m[i] * firstCorrection / ((float) Math.sqrt(v[i] * secondCorrection) + EPSILON);
        values.set(i, w - rate * (direction + decay * w));
      }
      values.push();
    }
  }
}
