package io.github.dxdw.bench;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDManager;
import ai.djl.ndarray.types.Shape;
import io.github.dxdw.DType;
import io.github.dxdw.cli.bench.Peer;
import io.github.dxdw.cli.bench.Product;
import java.lang.foreign.Arena;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class PeersTest {

  @Test
  void areFound() {
    assertEquals(List.of("OpenBLAS", "PyTorch"), Peer.all().stream().map(Peer::name).toList());
    Peer.all().forEach(peer -> assertTrue(peer.description().contains(peer.name())));
  }

  @ParameterizedTest
  @EnumSource(Product.Function.class)
  @DisplayName("Guards against a comparison with a library that computes something else")
  void openBlasComputesTheSame(Product.Function function) {
    for (boolean add : new boolean[] {false, true}) {
      try (Arena arena = Arena.ofConfined()) {
        Product ours = Product.allocate(arena, function, 33, 20, 7, DType.FLOAT32, add);
        Product theirs = Product.allocate(arena, function, 33, 20, 7, DType.FLOAT32, add);
        ours.out().fill(2);
        theirs.out().fill(2);
        ours.kernel().run();
        new OpenBlas().prepare(theirs, 1).orElseThrow().run();
        assertArrayEquals(ours.out().toFloatArray(), theirs.out().toFloatArray(), 1e-4f);
      }
    }
  }

  @ParameterizedTest
  @EnumSource(names = {"FLOAT32", "FLOAT16", "BFLOAT16"})
  @DisplayName("Guards against a peer that ends the process when asked for a type that it lacks")
  void peersLeaveOutWhatTheyLack(DType type) {
    try (Arena arena = Arena.ofConfined()) {
      Product product = Product.allocate(arena, Product.Function.Y, 33, 20, 7, type, false);
      for (Peer peer : Peer.all()) {
        peer.prepare(product, 1).ifPresent(Runnable::run);
      }
    }
  }

  @Test
  @DisplayName("Guards against a peer that does not learn, whose speed would mean nothing")
  void theNetworkInTorchLearns() {
    int count = 640;
    float[] values = new float[count * 8];
    long[] labels = new long[count];
    for (int i = 0; i < count; i++) {
      labels[i] = i % 8;
      values[i * 8 + i % 8] = 1;
    }
    try (TorchNetwork network = TorchNetwork.random(1, 8, 16, 16, 8)) {
      NDManager manager = network.manager();
      NDArray images = manager.create(values, new Shape(count, 8));
      NDArray classes = manager.create(labels);
      int[] order = IntStream.range(0, count).toArray();
      double first = network.epoch(images, classes, order, 64, 0.1f, 0);
      double last = first;
      for (int epoch = 0; epoch < 10; epoch++) {
        last = network.epoch(images, classes, order, 64, 0.1f, 0);
      }
      assertTrue(last < 0.1 * first, first + " to " + last);
      assertEquals(1, network.accuracy(images, classes), 1e-6);
    }
  }
}
