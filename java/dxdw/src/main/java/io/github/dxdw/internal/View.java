package io.github.dxdw.internal;

import io.github.dxdw.DType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;

/**
 * What a tensor is made of: a strided view of a segment that was checked once, against the
 * segment's bounds. Immutable; callers don't write to the arrays.
 */
public final class View {
  /** Most dimensions that a tensor may have. */
  public static final int MAX_RANK = 32;

  /** Room for each view of memory that is not there. */
  private static final long PLACE_BYTES = 1L << 60;

  final MemorySegment segment;
  final Storage storage;
  final long address;
  final DType type;
  final int deviceType;
  final int deviceIndex;

  /** Bytes behind the segment's address: device memory has segments of size 0. */
  private final long capacity;

  private final long[] shape;
  private final long[] strides;
  private final long offset;
  private final long count;

  // Words of a dxdw_tensor (little-endian): device_type and device_id; ndim, dtype_code,
  // dtype_bits, dtype_lanes.
  final long placeWord;
  final long typeWord;
  final long byteOffset;

  private View(
      MemorySegment segment,
      Storage storage,
      long capacity,
      DType type,
      int deviceType,
      int deviceIndex,
      long[] shape,
      long[] strides,
      long offset) {
    this.segment = segment;
    this.storage = storage;
    this.address = segment.address();
    this.capacity = capacity;
    this.type = type;
    this.deviceType = deviceType;
    this.deviceIndex = deviceIndex;
    this.shape = shape;
    this.strides = strides;
    this.offset = offset;
    this.count = count(shape);
    checkReach();
    this.byteOffset = offset * type.byteSize();
    this.placeWord = deviceType | (long) deviceIndex << 32;
    this.typeWord =
        shape.length | typeCode(type) << 32 | (long) (8 * type.byteSize()) << 40 | 1L << 48;
  }

  /** A dxdw_dtype_code. */
  private static long typeCode(DType type) {
    return switch (type) {
      case FLOAT32, FLOAT16 -> 2;
      case BFLOAT16 -> 4;
      case INT32 -> 0;
    };
  }

  /** A view of host memory. The arrays are copied. */
  public static View ofHost(
      MemorySegment segment, DType type, long[] shape, long[] strides, long offset) {
    Arguments.present(segment, "segment");
    Arguments.present(type, "dtype");
    checkLayout(shape, strides);
    if (!segment.isNative()) {
      throw new IllegalArgumentException(
          "segment: lies on the Java heap, where native code can't reach it; copy it into an arena,"
              + " as Tensor.of(arena, values, shape) does");
    }
    return new View(
        segment,
        new Storage(),
        segment.byteSize(),
        type,
        Devices.CPU,
        0,
        shape.clone(),
        strides.clone(),
        offset);
  }

  /** A compact view of host memory. The array is copied. */
  public static View ofHost(MemorySegment segment, DType type, long[] shape) {
    checkShape(shape);
    return ofHost(segment, type, shape, compactStrides(shape), 0);
  }

  /** A compact view of memory of a CUDA device whose segment has size 0. */
  public static View ofCuda(
      DeviceBlock.Allocation allocation, DType type, int deviceIndex, long[] shape) {
    return new View(
        allocation.segment(),
        new Storage(),
        allocation.block().bytes(),
        type,
        Devices.CUDA,
        deviceIndex,
        shape.clone(),
        compactStrides(shape),
        0);
  }

  /**
   * A compact view of CUDA memory that is not there, for planning: nobody may use what it looks at.
   *
   * @param place which of several such views this is; they don't overlap
   */
  public static View anywhereOnCuda(DType type, long[] shape, int place) {
    long bytes = compactBytes(type, shape);
    if (bytes > PLACE_BYTES) {
      throw tooLarge("shape: " + Arrays.toString(shape) + " of " + type);
    }
    MemorySegment segment = MemorySegment.ofAddress((place + 1) * PLACE_BYTES);
    return new View(
        segment,
        new Storage(),
        bytes,
        type,
        Devices.CUDA,
        0,
        shape.clone(),
        compactStrides(shape),
        0);
  }

  /**
   * A compact view of memory that is not there, for a {@link Rehearsal}: elements read as 0, and
   * what is written to them is lost.
   *
   * @param model tells the device
   * @param address where the memory would be; multiples of 64, so that such views don't overlap
   * @param arena a confined arena that is closed when the rehearsal ends: outside of it nothing may
   *     reach such addresses
   */
  public static View imagined(View model, DType type, long[] shape, long address, Arena arena) {
    return new View(
        MemorySegment.ofAddress(PLACE_BYTES + address).reinterpret(arena, null),
        new Storage(),
        compactBytes(type, shape),
        type,
        model.deviceType,
        model.deviceIndex,
        shape.clone(),
        compactStrides(shape),
        0);
  }

  /** Another view of the same memory. The arrays are kept. */
  public View with(long[] newShape, long[] newStrides, long newOffset) {
    return new View(
        segment, storage, capacity, type, deviceType, deviceIndex, newShape, newStrides, newOffset);
  }

  /** A compact view of another type from the start of the same memory on. The array is copied. */
  public View as(DType newType, long[] newShape) {
    return new View(
        segment,
        storage,
        capacity,
        newType,
        deviceType,
        deviceIndex,
        newShape.clone(),
        compactStrides(newShape),
        0);
  }

  /** Refuses a shape and strides that do not fit each other. */
  public static void checkLayout(long[] shape, long[] strides) {
    checkShape(shape);
    Arguments.present(strides, "strides");
    if (strides.length != shape.length) {
      throw new IllegalArgumentException(
          "strides: "
              + Arrays.toString(strides)
              + " has "
              + strides.length
              + " entries, shape "
              + Arrays.toString(shape)
              + " has "
              + shape.length);
    }
  }

  private static void checkShape(long[] shape) {
    Arguments.present(shape, "shape");
    if (shape.length > MAX_RANK) {
      throw new IllegalArgumentException(
          "shape: " + shape.length + " dimensions are more than " + MAX_RANK);
    }
    for (int d = 0; d < shape.length; ++d) {
      if (shape[d] < 0) {
        throw new IllegalArgumentException(
            "shape: size "
                + shape[d]
                + " of dimension "
                + d
                + " in "
                + Arrays.toString(shape)
                + " is negative");
      }
    }
  }

  /** Bytes of a compact tensor; refuses a shape that 64 bits can't count. */
  public static long compactBytes(DType type, long[] shape) {
    Arguments.present(type, "dtype");
    checkShape(shape);
    try {
      return Math.multiplyExact(count(shape), type.byteSize());
    } catch (ArithmeticException e) {
      throw tooLarge("shape: " + Arrays.toString(shape) + " of " + type);
    }
  }

  private static long count(long[] shape) {
    for (long size : shape) {
      if (size == 0) {
        return 0;
      }
    }
    long count = 1;
    try {
      for (long size : shape) {
        count = Math.multiplyExact(count, size);
      }
    } catch (ArithmeticException e) {
      throw tooLarge("shape: " + Arrays.toString(shape));
    }
    return count;
  }

  private static IllegalArgumentException tooLarge(String what) {
    return new IllegalArgumentException(what + " is more than 64 bits can count");
  }

  /** Row-major strides; 0 where they would not fit, which a check of the element count refuses. */
  private static long[] compactStrides(long[] shape) {
    long[] strides = new long[shape.length];
    long stride = 1;
    for (int d = shape.length - 1; d >= 0; --d) {
      strides[d] = stride;
      stride *= Math.max(shape[d], 1);
    }
    return strides;
  }

  private void checkReach() {
    if (offset < 0) {
      throw new IndexOutOfBoundsException(
          "offset: " + offset + " elements lie before the segment of " + capacity + " bytes");
    }
    long lowest = offset;
    long highest = offset;
    long needed;
    try {
      if (count == 0) {
        needed = Math.multiplyExact(offset, type.byteSize());
      } else {
        for (int d = 0; d < shape.length; ++d) {
          if (shape[d] > 1) {
            long reach = Math.multiplyExact(shape[d] - 1, strides[d]);
            if (reach < 0) {
              lowest = Math.addExact(lowest, reach);
            } else {
              highest = Math.addExact(highest, reach);
            }
          }
        }
        needed = Math.multiplyExact(Math.addExact(highest, 1), type.byteSize());
        Math.multiplyExact(lowest, type.byteSize());
      }
    } catch (ArithmeticException e) {
      throw new IllegalArgumentException(
          "strides: " + describe() + " offset " + offset + " reaches beyond 64-bit addresses");
    }
    if (lowest < 0) {
      throw new IndexOutOfBoundsException(
          "segment: "
              + describe()
              + " offset "
              + offset
              + " starts "
              + -lowest * type.byteSize()
              + " bytes before the segment of "
              + capacity
              + " bytes");
    }
    if (needed > capacity) {
      throw new IndexOutOfBoundsException(
          "segment: "
              + describe()
              + " offset "
              + offset
              + " needs "
              + needed
              + " bytes, given "
              + capacity);
    }
  }

  /** Type, shape and strides in one line. */
  public String describe() {
    return type + Arrays.toString(shape) + " strides " + Arrays.toString(strides);
  }

  public MemorySegment segment() {
    return segment;
  }

  /** What all views of this memory share. */
  public Storage storage() {
    return storage;
  }

  /** Is this a view of memory that only a rehearsal imagines? Refused when that is over. */
  boolean isImagined() {
    if (deviceType != Devices.CPU || segment.byteSize() != 0 || count == 0) {
      return false;
    }
    Frame.checkUsable(segment);
    return true;
  }

  /** Is this the shape? */
  public boolean hasShape(long[] other) {
    return Arrays.equals(shape, other);
  }

  /** Has this the shape of another view? */
  public boolean hasShapeOf(View other) {
    return Arrays.equals(shape, other.shape);
  }

  public DType type() {
    return type;
  }

  public boolean isCuda() {
    return deviceType == Devices.CUDA;
  }

  public int deviceIndex() {
    return deviceIndex;
  }

  public int rank() {
    return shape.length;
  }

  public long size(int dim) {
    return shape[dim];
  }

  public long stride(int dim) {
    return strides[dim];
  }

  public long[] shape() {
    return shape.clone();
  }

  public long[] strides() {
    return strides.clone();
  }

  public long offset() {
    return offset;
  }

  public long count() {
    return count;
  }

  /** Does element order equal memory order, without gaps? */
  public boolean isCompact() {
    if (count == 0) {
      return true;
    }
    long stride = 1;
    for (int d = shape.length - 1; d >= 0; --d) {
      if (shape[d] != 1) {
        if (strides[d] != stride) {
          return false;
        }
        stride *= shape[d];
      }
    }
    return true;
  }
}
