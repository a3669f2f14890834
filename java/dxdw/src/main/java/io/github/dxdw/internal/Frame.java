package io.github.dxdw.internal;

import io.github.dxdw.Accumulate;
import io.github.dxdw.Plan;
import io.github.dxdw.Precision;
import io.github.dxdw.bindings.dxdw_h;
import io.github.dxdw.bindings.dxdw_options;
import io.github.dxdw.bindings.dxdw_plan;
import io.github.dxdw.bindings.dxdw_tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;

/**
 * The arguments of a call in off-heap memory. Each thread has one and uses it again and again, so
 * that a call allocates nothing: operands and options are filled in, then the call is made, which
 * empties the frame.
 */
public final class Frame {
  /** Function codes of dxdw_call. */
  public static final int Y = 0;

  public static final int DX = 1;
  public static final int DW = 2;
  public static final int DW_REDUCE = 3;
  public static final int WEIGHTED_SUM = 4;
  public static final int WEIGHTED_SUM_BACKWARD = 5;
  public static final int COPY = 6;
  public static final int ADD = 7;
  public static final int RELU = 8;
  public static final int RELU_BACKWARD = 9;
  public static final int GELU = 10;
  public static final int GELU_BACKWARD = 11;
  public static final int SUM_ROWS = 12;
  public static final int DW_BIAS = 13;
  public static final int SOFTMAX_CROSS_ENTROPY = 14;
  public static final int SOFTMAX_CROSS_ENTROPY_BACKWARD = 15;
  public static final int SQUARED_ERROR = 16;
  public static final int SQUARED_ERROR_BACKWARD = 17;
  public static final int SQUARED_NORM = 18;
  public static final int CLIP_FACTOR = 19;
  public static final int SGD = 20;
  public static final int ADAMW = 21;

  private static final int OPERANDS = 6;
  private static final long TENSOR_BYTES = 48;
  private static final long LIST_BYTES = 8L * View.MAX_RANK;
  private static final long LISTS = OPERANDS * TENSOR_BYTES;
  private static final long OPTIONS = LISTS + OPERANDS * 2 * LIST_BYTES;
  private static final long OPTIONS_BYTES = 104;
  private static final long PLAN = OPTIONS + OPTIONS_BYTES;
  private static final long END = PLAN + dxdw_plan.sizeof();

  // Words of a dxdw_tensor; View packs those at 8 and 16.
  private static final long DATA = 0;
  private static final long PLACE = 8;
  private static final long TYPE = 16;
  private static final long SHAPE = 24;
  private static final long STRIDES = 32;
  private static final long BYTE_OFFSET = 40;

  // Words of dxdw_options: size and accumulate; precision and flags; and one each.
  private static final long PRECISION = 8;
  private static final long STREAM = 16;
  private static final long WORKSPACE = 24;
  private static final long WORKSPACE_BYTES = 32;
  private static final long SCALARS = 40;

  /** ndim = -1 with everything else 0: an operand that is not wanted. */
  private static final long ABSENT = 0xffff_ffffL;

  /**
   * All memory. A constant segment makes the stores that fill a frame plain stores; they go to
   * addresses within this class's own allocation alone.
   */
  private static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);

  private static final ThreadLocal<Frame> CURRENT = ThreadLocal.withInitial(Frame::new);

  static {
    boolean agrees =
        dxdw_tensor.sizeof() == TENSOR_BYTES
            && dxdw_tensor.device_type$offset() == PLACE
            && dxdw_tensor.device_id$offset() == PLACE + 4
            && dxdw_tensor.ndim$offset() == TYPE
            && dxdw_tensor.dtype_code$offset() == TYPE + 4
            && dxdw_tensor.dtype_bits$offset() == TYPE + 5
            && dxdw_tensor.dtype_lanes$offset() == TYPE + 6
            && dxdw_tensor.shape$offset() == SHAPE
            && dxdw_tensor.strides$offset() == STRIDES
            && dxdw_tensor.byte_offset$offset() == BYTE_OFFSET
            && dxdw_options.sizeof() == OPTIONS_BYTES
            && dxdw_options.size$offset() == 0
            && dxdw_options.accumulate$offset() == 4
            && dxdw_options.precision$offset() == PRECISION
            && dxdw_options.flags$offset() == PRECISION + 4
            && dxdw_options.stream$offset() == STREAM
            && dxdw_options.workspace$offset() == WORKSPACE
            && dxdw_options.workspace_bytes$offset() == WORKSPACE_BYTES
            && dxdw_options.scalars$offset() == SCALARS
            && dxdw_h.DXDW_MAX_NDIM() == View.MAX_RANK
            && dxdw_h.DXDW_COPY() == COPY
            && dxdw_h.DXDW_ADD_FWD() == ADD
            && dxdw_h.DXDW_ADAMW() == ADAMW;
    if (!agrees) {
      throw new AssertionError("the call frame does not agree with the generated layouts");
    }
  }

  private final MemorySegment memory = Arena.ofAuto().allocate(END, 64);
  private final long base = memory.address();
  private final MemorySegment operands = memory.asSlice(0, LISTS);
  private final MemorySegment optionsMemory = memory.asSlice(OPTIONS, OPTIONS_BYTES);
  private final MemorySegment plan = memory.asSlice(PLAN, dxdw_plan.sizeof());

  private MemorySegment options = MemorySegment.NULL;
  private MemorySegment hold0 = MemorySegment.NULL;
  private MemorySegment hold1 = MemorySegment.NULL;
  private MemorySegment hold2 = MemorySegment.NULL;
  private MemorySegment hold3 = MemorySegment.NULL;
  private MemorySegment hold4 = MemorySegment.NULL;
  private MemorySegment hold5 = MemorySegment.NULL;
  private StreamHandle streamInUse;

  // What the call writes; most calls write one output.
  private Storage written;
  private final Storage[] alsoWritten = new Storage[OPERANDS];
  private int alsoWrittenCount;

  /** Set while calls are only planned. */
  private Rehearsal rehearsal;

  private Frame() {
    for (int slot = 0; slot < OPERANDS; ++slot) {
      long tensor = slot * TENSOR_BYTES;
      long list = memory.address() + lists(slot);
      memory.set(ValueLayout.JAVA_LONG, tensor + SHAPE, list);
      memory.set(ValueLayout.JAVA_LONG, tensor + STRIDES, list + LIST_BYTES);
    }
    dxdw_plan.size(plan, (int) dxdw_plan.sizeof());
  }

  private static long lists(int slot) {
    return LISTS + slot * 2 * LIST_BYTES;
  }

  /** The calling thread's frame, empty. Initialising this class needs the library. */
  static Frame current() {
    return CURRENT.get();
  }

  /** Puts an input into the place that the function's operand order gives it. */
  public Frame input(int slot, View view) {
    describe(slot, view.address, view.placeWord, view.typeWord, view.byteOffset);
    long sizes = base + lists(slot);
    long strides = sizes + LIST_BYTES;
    if (view.rank() == 2) {
      // Matrices are most operands, and a loop costs as much again as the stores.
      put(sizes, view.size(0));
      put(sizes + 8, view.size(1));
      put(strides, view.stride(0));
      put(strides + 8, view.stride(1));
    } else {
      for (int d = 0; d < view.rank(); ++d) {
        put(sizes + 8L * d, view.size(d));
        put(strides + 8L * d, view.stride(d));
      }
    }
    hold(slot, view.segment);
    return this;
  }

  private void describe(int slot, long data, long place, long type, long byteOffset) {
    long tensor = base + slot * TENSOR_BYTES;
    put(tensor + DATA, data);
    put(tensor + PLACE, place);
    put(tensor + TYPE, type);
    put(tensor + BYTE_OFFSET, byteOffset);
  }

  /** A layout without alignment saves the test of the address; all are aligned. */
  private static void put(long address, long value) {
    ALL.set(ValueLayout.JAVA_LONG_UNALIGNED, address, value);
  }

  /** As {@link #input}, for an operand that is written. */
  public Frame output(int slot, View view, String name) {
    if (view.segment.isReadOnly()) {
      clear();
      throw new IllegalArgumentException(
          name + ": " + view.describe() + " is read-only, and this is an output");
    }
    if (written == null) {
      written = view.storage;
    } else {
      alsoWritten[alsoWrittenCount++] = view.storage;
    }
    return input(slot, view);
  }

  /** Marks an operand as not wanted or not there. */
  public Frame absent(int slot) {
    describe(slot, 0, 0, ABSENT, 0);
    return this;
  }

  private void hold(int slot, MemorySegment segment) {
    switch (slot) {
      case 0 -> hold0 = segment;
      case 1 -> hold1 = segment;
      case 2 -> hold2 = segment;
      case 3 -> hold3 = segment;
      case 4 -> hold4 = segment;
      default -> hold5 = segment;
    }
  }

  /** Sets options other than the defaults, after the operands; stream and workspace may be null. */
  public Frame options(
      Accumulate accumulate,
      Precision precision,
      boolean batchInvariant,
      StreamHandle stream,
      View workspace) {
    long flags = batchInvariant ? dxdw_h.DXDW_BATCH_INVARIANT() : 0;
    long words = base + OPTIONS;
    put(words, OPTIONS_BYTES | (long) accumulate.ordinal() << 32);
    put(words + PRECISION, precision.ordinal() | flags << 32);
    put(words + STREAM, 0);
    if (stream != null) {
      try {
        stream.acquire();
      } catch (IllegalStateException closed) {
        clear();
        throw closed;
      }
      streamInUse = stream;
      put(words + STREAM, stream.segment().address());
    }
    long bytes = workspace == null ? 0 : workspace.count() * workspace.type.byteSize();
    put(words + WORKSPACE, 0);
    if (bytes != 0) {
      checkWorkspace(workspace);
      put(words + WORKSPACE, workspace.address + workspace.byteOffset);
      if (hold5 == MemorySegment.NULL) {
        // Functions with six operands use no workspace.
        hold5 = workspace.segment;
      }
    }
    put(words + WORKSPACE_BYTES, bytes);
    options = optionsMemory;
    return this;
  }

  /** The native library sees of a workspace its address alone. */
  private void checkWorkspace(View workspace) {
    long place = ALL.get(ValueLayout.JAVA_LONG_UNALIGNED, base + PLACE);
    if (workspace.segment.isReadOnly()) {
      throw refused(workspace, "is read-only");
    }
    if (workspace.placeWord != place) {
      String where = deviceName(workspace.placeWord);
      throw refused(workspace, "is on " + where + ", the operands are on " + deviceName(place));
    }
  }

  private IllegalArgumentException refused(View workspace, String why) {
    clear();
    return new IllegalArgumentException("workspace: " + workspace.describe() + " " + why);
  }

  private static String deviceName(long place) {
    return Devices.name((int) place, (int) (place >>> 32));
  }

  /** Whether calls of this thread are planned, not made. */
  boolean isRehearsing() {
    return rehearsal != null;
  }

  /** Has the calls of this thread planned, not made, until null is given; returns what was set. */
  Rehearsal rehearse(Rehearsal next) {
    Rehearsal before = rehearsal;
    rehearsal = next;
    return before;
  }

  /** Sets one of the function's own numbers, after the options, if there are any. */
  public Frame scalar(int index, double value) {
    long words = base + OPTIONS;
    if (options != optionsMemory) {
      put(words, OPTIONS_BYTES);
      for (long word = PRECISION; word < SCALARS; word += 8) {
        put(words + word, 0);
      }
      options = optionsMemory;
    }
    put(words + SCALARS + 8L * index, Double.doubleToRawLongBits(value));
    return this;
  }

  /** Makes the call. */
  public void run(int function, int split, int deterministic) {
    if (rehearsal != null) {
      rehearse(function, split, deterministic);
      return;
    }
    try {
      if (Launches.wanted()) {
        callAndTell(function, split, deterministic);
      } else {
        call(function, split, deterministic);
      }
      countWrites();
      if (streamInUse != null && streamInUse.recording() != null) {
        record(streamInUse.recording());
      }
    } finally {
      clear();
    }
  }

  private void countWrites() {
    if (written != null) {
      written.written();
      for (int i = 0; i < alsoWrittenCount; ++i) {
        alsoWritten[i].written();
      }
    }
  }

  private void rehearse(int function, int split, int deterministic) {
    if (function == COPY) {
      clear();
    } else {
      rehearsal.add(explain(function, split, deterministic).workspaceBytes());
    }
  }

  private void call(int function, int split, int deterministic) {
    Native.call(
        function,
        operands,
        split,
        deterministic,
        options,
        hold0,
        hold1,
        hold2,
        hold3,
        hold4,
        hold5);
  }

  /** Makes the call and tells JDK Flight Recorder of it; a call that fails is not told. */
  private void callAndTell(int function, int split, int deterministic) {
    LaunchEvent event = new LaunchEvent();
    event.function = Functions.name(function);
    event.operands = Functions.operands(function, operands);
    long place = memory.get(ValueLayout.JAVA_LONG, PLACE);
    event.device = deviceName(place);
    if (function != COPY) {
      Native.explain(function, operands, split, deterministic, options, plan);
      event.kernel = dxdw_plan.kernel(plan).getString(0);
      event.level = dxdw_plan.level(plan).getString(0);
      event.split = dxdw_plan.split(plan);
      event.threads = dxdw_plan.threads(plan);
      event.workspace = dxdw_plan.workspace_bytes(plan);
    }
    event.begin();
    call(function, split, deterministic);
    event.commit();
  }

  private void record(Recording recording) {
    recording.add(hold0);
    recording.add(hold1);
    recording.add(hold2);
    recording.add(hold3);
    recording.add(hold4);
    recording.add(hold5);
    recording.addWritten(written);
    for (int i = 0; i < alsoWrittenCount; ++i) {
      recording.addWritten(alsoWritten[i]);
    }
  }

  /** Says what the call would run. */
  public Plan explain(int function, int split, int deterministic) {
    try {
      checkUsable(hold0);
      checkUsable(hold1);
      checkUsable(hold2);
      checkUsable(hold3);
      checkUsable(hold4);
      checkUsable(hold5);
      Native.explain(function, operands, split, deterministic, options, plan);
    } finally {
      clear();
    }
    return plan();
  }

  /** Says what the call would run on a GPU of that kind. */
  public Plan planOn(
      int function, int split, int deterministic, int capability, int multiprocessors) {
    try {
      Native.planForChip(
          function, operands, split, deterministic, options, capability, multiprocessors, plan);
    } finally {
      clear();
    }
    return plan();
  }

  private Plan plan() {
    return new Plan(
        dxdw_plan.kernel(plan).getString(0),
        dxdw_plan.level(plan).getString(0),
        dxdw_plan.split(plan),
        dxdw_plan.threads(plan),
        dxdw_plan.tiles(plan),
        dxdw_plan.workspace_bytes(plan),
        dxdw_plan.why(plan).getString(0));
  }

  /**
   * Explaining reads no memory, yet an operand that could not be used is refused as in the call.
   */
  static void checkUsable(MemorySegment segment) {
    if (!segment.scope().isAlive()) {
      throw new IllegalStateException("Already closed");
    }
    if (!segment.isAccessibleBy(Thread.currentThread())) {
      throw new WrongThreadException("the memory belongs to another thread's confined arena");
    }
  }

  private void clear() {
    if (streamInUse != null) {
      streamInUse.release();
      streamInUse = null;
    }
    options = MemorySegment.NULL;
    written = null;
    if (alsoWrittenCount > 0) {
      Arrays.fill(alsoWritten, null);
      alsoWrittenCount = 0;
    }
    hold0 = MemorySegment.NULL;
    hold1 = MemorySegment.NULL;
    hold2 = MemorySegment.NULL;
    hold3 = MemorySegment.NULL;
    hold4 = MemorySegment.NULL;
    hold5 = MemorySegment.NULL;
  }
}
