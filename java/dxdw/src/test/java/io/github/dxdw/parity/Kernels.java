package io.github.dxdw.parity;

import static org.junit.jupiter.api.Assertions.fail;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.github.dxdw.DType;
import io.github.dxdw.Device;
import io.github.dxdw.Dxdw;
import io.github.dxdw.Options;
import io.github.dxdw.Plan;
import io.github.dxdw.Reduction;
import io.github.dxdw.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.BiConsumer;
import java.util.function.BiFunction;

/**
 * The functions of {@link Dxdw} on host tensors, run on the device that {@code -Ddxdw.device} names
 * ("cpu" or, for example, "cuda:0").
 *
 * <p>On a GPU each segment is copied to the device with the same remainder of its address, the call
 * sees the same strides and offsets there, and the outputs' segments are copied back whole. Bytes
 * beside the segments, and inputs, must be what they were.
 */
final class Kernels {
  /** Where the kernels run. */
  static final Device DEVICE = parse(System.getProperty("dxdw.device", "cpu"));

  private static final byte CANARY = (byte) 0x5A;

  /** Bytes in front of and behind a segment's copy, and what addresses are aligned to in it. */
  private static final long GUARD = 256;

  private Kernels() {}

  private static Device parse(String text) {
    return text.startsWith("cuda:")
        ? Device.cuda(Integer.parseInt(text.substring("cuda:".length())))
        : Device.cpu();
  }

  /** Skips, with the reason, what asks for a device that is not there. */
  static void requireDevice() {
    assumeTrue(DEVICE.isAvailable(), DEVICE::unavailabilityCause);
  }

  static boolean onCpu() {
    return DEVICE.equals(Device.cpu());
  }

  static void y(Tensor x, Tensor w, Tensor y) {
    y(x, w, y, Options.defaults());
  }

  static void y(Tensor x, Tensor w, Tensor y, Options options) {
    run(
        options,
        2,
        (t, o) -> {
          Dxdw.y(t[0], t[1], t[2], o);
          return null;
        },
        x,
        w,
        y);
  }

  static void dx(Tensor dy, Tensor w, Tensor dx) {
    dx(dy, w, dx, Options.defaults());
  }

  static void dx(Tensor dy, Tensor w, Tensor dx, Options options) {
    run(
        options,
        2,
        (t, o) -> {
          Dxdw.dx(t[0], t[1], t[2], o);
          return null;
        },
        dy,
        w,
        dx);
  }

  static void dw(Tensor x, Tensor dy, Tensor dw) {
    dw(x, dy, dw, 0, Reduction.DETERMINISTIC, Options.defaults());
  }

  static void dw(Tensor x, Tensor dy, Tensor dw, int split, Reduction reduction, Options options) {
    run(
        options,
        2,
        (t, o) -> {
          Dxdw.dw(t[0], t[1], t[2], split, reduction, o);
          return null;
        },
        x,
        dy,
        dw);
  }

  static Plan explainY(Tensor x, Tensor w, Tensor y, Options options) {
    return run(options, 2, (t, o) -> Dxdw.explainY(t[0], t[1], t[2], o), x, w, y);
  }

  static Plan explainDx(Tensor dy, Tensor w, Tensor dx, Options options) {
    return run(options, 2, (t, o) -> Dxdw.explainDx(t[0], t[1], t[2], o), dy, w, dx);
  }

  static Plan explainDw(
      Tensor x, Tensor dy, Tensor dw, int split, Reduction reduction, Options options) {
    return run(
        options, 2, (t, o) -> Dxdw.explainDw(t[0], t[1], t[2], split, reduction, o), x, dy, dw);
  }

  static void dwReduce(Tensor partials, Tensor dw) {
    dwReduce(partials, dw, Options.defaults());
  }

  static void dwReduce(Tensor partials, Tensor dw, Options options) {
    run(
        options,
        1,
        (t, o) -> {
          Dxdw.dwReduce(t[0], t[1], o);
          return null;
        },
        partials,
        dw);
  }

  static void weightedSum(Tensor x, Tensor w, Tensor y) {
    weightedSum(x, w, y, Options.defaults());
  }

  static void weightedSum(Tensor x, Tensor w, Tensor y, Options options) {
    run(
        options,
        2,
        (t, o) -> {
          Dxdw.weightedSum(t[0], t[1], t[2], o);
          return null;
        },
        x,
        w,
        y);
  }

  static void weightedSumBackward(Tensor x, Tensor w, Tensor g, Tensor gx, Tensor gw) {
    weightedSumBackward(x, w, g, gx, gw, Options.defaults());
  }

  static void weightedSumBackward(
      Tensor x, Tensor w, Tensor g, Tensor gx, Tensor gw, Options options) {
    run(
        options,
        3,
        (t, o) -> {
          Dxdw.weightedSumBackward(t[0], t[1], t[2], t[3], t[4], o);
          return null;
        },
        x,
        w,
        g,
        gx,
        gw);
  }

  static Plan explainWeightedSumBackward(
      Tensor x, Tensor w, Tensor g, Tensor gx, Tensor gw, Options options) {
    return run(
        options,
        3,
        (t, o) -> Dxdw.explainWeightedSumBackward(t[0], t[1], t[2], t[3], t[4], o),
        x,
        w,
        g,
        gx,
        gw);
  }

  /** Any function: tensors from {@code inputs} on are written. */
  static void call(
      Options options, int inputs, BiConsumer<Tensor[], Options> call, Tensor... tensors) {
    run(
        options,
        inputs,
        (t, o) -> {
          call.accept(t, o);
          return null;
        },
        tensors);
  }

  private static <R> R run(
      Options options, int inputs, BiFunction<Tensor[], Options, R> call, Tensor... tensors) {
    if (onCpu() || anyMisaligned(tensors)) {
      return call.apply(tensors, options);
    }
    requireDevice();
    try (Arena arena = Arena.ofConfined()) {
      List<Copy> copies = new ArrayList<>();
      Tensor[] there = new Tensor[tensors.length];
      for (int i = 0; i < tensors.length; i++) {
        there[i] = tensors[i] == null ? null : place(tensors[i], i >= inputs, copies, arena);
      }
      Options optionsThere = options;
      Optional<Tensor> workspace = options.workspace();
      if (workspace.isPresent()) {
        optionsThere = options.withWorkspace(place(workspace.get(), true, copies, arena));
      }
      try {
        return call.apply(there, optionsThere);
      } finally {
        for (Copy copy : copies) {
          copy.fetch();
        }
      }
    }
  }

  /** Memory that lies askew for its type can't be copied so; it is refused wherever it lies. */
  private static boolean anyMisaligned(Tensor[] tensors) {
    for (Tensor t : tensors) {
      if (t != null && t.segment().address() % t.dtype().byteSize() != 0) {
        return true;
      }
    }
    return false;
  }

  private static Tensor place(Tensor tensor, boolean output, List<Copy> copies, Arena arena) {
    for (Copy copy : copies) {
      if (copy.type == tensor.dtype()
          && copy.home.address() == tensor.segment().address()
          && copy.home.byteSize() == tensor.segment().byteSize()) {
        copy.output |= output;
        return copy.view(tensor);
      }
    }
    Copy copy = new Copy(tensor, arena);
    copy.output = output;
    copies.add(copy);
    return copy.view(tensor);
  }

  /** A segment's copy on the device. */
  private static final class Copy {
    final MemorySegment home;
    final DType type;
    private final MemorySegment sent;
    private final Tensor sentTensor;
    private final Tensor there;
    private final long start;
    private final Arena arena;
    private boolean output;

    Copy(Tensor tensor, Arena arena) {
      home = tensor.segment();
      type = tensor.dtype();
      this.arena = arena;
      start = GUARD + home.address() % GUARD;
      long elements = Math.ceilDiv(start + home.byteSize() + GUARD, type.byteSize());
      sentTensor = Tensor.allocate(arena, type, elements);
      sent = sentTensor.segment();
      sent.fill(CANARY);
      MemorySegment.copy(home, 0, sent, start, home.byteSize());
      there = sentTensor.to(DEVICE, arena);
    }

    Tensor view(Tensor tensor) {
      return there.view(
          tensor.shape(), tensor.strides(), start / type.byteSize() + tensor.offset());
    }

    void fetch() {
      MemorySegment back = there.to(Device.cpu(), arena).segment();
      long end = start + home.byteSize();
      if (output) {
        check(back, 0, start, "before an output");
        check(back, end, sent.byteSize(), "behind an output");
        MemorySegment.copy(back, start, home, 0, home.byteSize());
      } else {
        check(back, 0, sent.byteSize(), "of an input (its segment begins at byte " + start + ")");
      }
    }

    private void check(MemorySegment back, long from, long to, String what) {
      long at = MemorySegment.mismatch(sent, from, to, back, from, to);
      if (at >= 0) {
        fail("on " + DEVICE + " byte " + (from + at) + " " + what + " was written");
      }
    }
  }
}
