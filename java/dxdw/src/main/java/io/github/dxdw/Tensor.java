package io.github.dxdw;

import io.github.dxdw.internal.Access;
import io.github.dxdw.internal.Arguments;
import io.github.dxdw.internal.DeviceBlock;
import io.github.dxdw.internal.Elements;
import io.github.dxdw.internal.HostMemory;
import io.github.dxdw.internal.StreamHandle;
import io.github.dxdw.internal.Text;
import io.github.dxdw.internal.View;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;

/**
 * A strided view of memory that an {@link Arena} of the caller owns: the element with the indices
 * i, j, ... lies {@code offset + i * stride(0) + j * stride(1) + ...} elements behind the start of
 * the segment. Strides may be 0 (expanded), negative (reversed) or leave gaps. {@link
 * #transpose()}, {@link #slice(int, long, long)}, {@link #expand(long...)} and the like cost
 * nothing and copy nothing: they are further views of the same memory.
 *
 * <p>A tensor never owns memory and has no {@code close}. Once the arena is closed, every use of
 * its memory throws {@link IllegalStateException}. The memory of a confined arena can be used by
 * the arena's thread alone; others get {@link WrongThreadException}.
 *
 * <p>Immutable, apart from the memory that it looks at.
 */
public final class Tensor {
  /** Alignment of memory that this class allocates, in bytes. */
  private static final long ALIGNMENT = 64;

  static {
    Access.set(new InternalAccess());
  }

  private final View view;

  private Tensor(View view) {
    this.view = view;
  }

  static Tensor of(View view) {
    return new Tensor(view);
  }

  View view() {
    return view;
  }

  /**
   * Wraps off-heap memory as a compact row-major tensor, without a copy.
   *
   * @param segment off-heap memory
   * @param dtype element type
   * @param shape sizes; none for a scalar
   * @return the view
   * @throws IllegalArgumentException if an argument is null, a size is negative, or the segment
   *     lies on the heap
   * @throws IndexOutOfBoundsException if the segment is too small
   */
  public static Tensor of(MemorySegment segment, DType dtype, long... shape) {
    return new Tensor(View.ofHost(segment, dtype, shape));
  }

  /**
   * Wraps off-heap memory as a strided tensor, without a copy.
   *
   * @param segment off-heap memory
   * @param dtype element type
   * @param shape sizes
   * @param strides distance between neighbours in each dimension, in elements
   * @param offset distance of the first element from the segment's start, in elements
   * @return the view
   * @throws IllegalArgumentException if an argument is null, a size is negative, shape and strides
   *     differ in length, or the segment lies on the heap
   * @throws IndexOutOfBoundsException if an element would lie outside of the segment
   */
  public static Tensor of(
      MemorySegment segment, DType dtype, long[] shape, long[] strides, long offset) {
    return new Tensor(View.ofHost(segment, dtype, shape, strides, offset));
  }

  /**
   * Allocates a compact tensor of zeros in host memory, aligned to 64 bytes.
   *
   * @param arena owner of the memory
   * @param dtype element type
   * @param shape sizes; none for a scalar
   * @return the tensor
   * @throws IllegalArgumentException if an argument is null or a size negative
   * @throws NativeMemoryException if there is not enough memory
   */
  public static Tensor allocate(Arena arena, DType dtype, long... shape) {
    Arguments.present(arena, "arena");
    long bytes = View.compactBytes(dtype, shape);
    MemorySegment segment;
    try {
      segment = arena.allocate(bytes, ALIGNMENT);
    } catch (OutOfMemoryError e) {
      throw HostMemory.refused(
          bytes,
          "no memory for "
              + dtype
              + Arrays.toString(shape)
              + " from the JVM, whose own arenas -XX:MaxDirectMemorySize limits ("
              + e.getMessage()
              + ")");
    }
    return of(segment, dtype, shape);
  }

  /**
   * Allocates a compact tensor on a device. Host memory is zeroed; device memory is too.
   *
   * @param arena owner of the memory, which is freed when the arena is closed and the device's work
   *     is done
   * @param device where the memory lies
   * @param dtype element type
   * @param shape sizes; none for a scalar
   * @return the tensor
   * @throws IllegalArgumentException if an argument is null or a size negative
   * @throws NativeMemoryException if there is not enough memory
   * @throws DeviceException if the device can't be used
   */
  public static Tensor allocate(Arena arena, Device device, DType dtype, long... shape) {
    Arguments.present(arena, "arena");
    Arguments.present(device, "device");
    if (device.isCpu()) {
      return allocate(arena, dtype, shape);
    }
    return allocateCuda(arena, device.index(), null, dtype, shape);
  }

  /**
   * Allocates a compact tensor of zeros on a stream's device. Returns before that is done: use the
   * tensor on that stream, or once the stream is synchronized.
   *
   * @param arena owner of the memory, which is freed when the arena is closed and the device's work
   *     is done
   * @param stream the stream to allocate on
   * @param dtype element type
   * @param shape sizes; none for a scalar
   * @return the tensor
   * @throws IllegalArgumentException if an argument is null or a size negative
   * @throws IllegalStateException if the stream is closed, or a graph is recorded on it
   * @throws NativeMemoryException if there is not enough memory
   * @throws DeviceException if the device fails
   */
  public static Tensor allocate(Arena arena, Stream stream, DType dtype, long... shape) {
    Arguments.present(arena, "arena");
    Arguments.present(stream, "stream");
    return allocateCuda(arena, stream.device().index(), stream.handle(), dtype, shape);
  }

  private static Tensor allocateCuda(
      Arena arena, int deviceIndex, StreamHandle stream, DType dtype, long[] shape) {
    long bytes = View.compactBytes(dtype, shape);
    DeviceBlock.Allocation allocation = DeviceBlock.allocate(arena, deviceIndex, bytes, stream);
    return new Tensor(View.ofCuda(allocation, dtype, deviceIndex, shape));
  }

  /**
   * Copies values into a float32 tensor.
   *
   * @param arena owner of the memory
   * @param values values in row-major order
   * @param shape sizes whose product is the number of values; none for a vector of all values
   * @return the tensor
   * @throws IllegalArgumentException if an argument is null or the product of the sizes is not the
   *     number of values
   */
  public static Tensor of(Arena arena, float[] values, long... shape) {
    Arguments.present(values, "values");
    Arguments.present(shape, "shape");
    long[] sizes = shape.length == 0 ? new long[] {values.length} : shape;
    checkCount(values.length, View.compactBytes(DType.FLOAT32, sizes) / Float.BYTES, sizes);
    Tensor tensor = allocate(arena, DType.FLOAT32, sizes);
    MemorySegment.copy(values, 0, tensor.segment(), ValueLayout.JAVA_FLOAT, 0, values.length);
    return tensor;
  }

  /**
   * Copies integers into an int32 tensor, as for labels.
   *
   * @param arena owner of the memory
   * @param values values in row-major order
   * @param shape sizes whose product is the number of values; none for a vector of all values
   * @return the tensor
   * @throws IllegalArgumentException if an argument is null or the product of the sizes is not the
   *     number of values
   */
  public static Tensor of(Arena arena, int[] values, long... shape) {
    Arguments.present(values, "values");
    Arguments.present(shape, "shape");
    long[] sizes = shape.length == 0 ? new long[] {values.length} : shape;
    checkCount(values.length, View.compactBytes(DType.INT32, sizes) / Integer.BYTES, sizes);
    Tensor tensor = allocate(arena, DType.INT32, sizes);
    MemorySegment.copy(values, 0, tensor.segment(), ValueLayout.JAVA_INT, 0, values.length);
    return tensor;
  }

  private static void checkCount(long given, long needed, long[] shape) {
    if (given != needed) {
      throw new IllegalArgumentException(
          "values: "
              + given
              + " values for the "
              + needed
              + " elements of shape "
              + Arrays.toString(shape));
    }
  }

  /**
   * Copies rows into a float32 matrix.
   *
   * @param arena owner of the memory
   * @param rows rows of one length
   * @return the matrix [rows, length of a row]
   * @throws IllegalArgumentException if an argument or a row is null, or rows differ in length
   */
  public static Tensor of(Arena arena, float[][] rows) {
    Arguments.present(rows, "rows");
    int columns = rows.length == 0 ? 0 : Arguments.present(rows[0], "rows[0]").length;
    for (int i = 0; i < rows.length; ++i) {
      if (Arguments.present(rows[i], "rows[" + i + "]").length != columns) {
        throw new IllegalArgumentException(
            "rows[" + i + "]: has " + rows[i].length + " values, rows[0] has " + columns);
      }
    }
    Tensor tensor = allocate(arena, DType.FLOAT32, rows.length, columns);
    for (int i = 0; i < rows.length; ++i) {
      MemorySegment.copy(
          rows[i],
          0,
          tensor.segment(),
          ValueLayout.JAVA_FLOAT,
          (long) i * columns * Float.BYTES,
          columns);
    }
    return tensor;
  }

  /**
   * Makes a float32 tensor of rank 0.
   *
   * @param arena owner of the memory
   * @param value its value
   * @return the tensor
   * @throws IllegalArgumentException if the arena is null
   */
  public static Tensor scalar(Arena arena, float value) {
    Tensor tensor = allocate(arena, DType.FLOAT32);
    tensor.set(value);
    return tensor;
  }

  /**
   * The element type.
   *
   * @return the element type
   */
  public DType dtype() {
    return view.type();
  }

  /**
   * The device that the memory lies on.
   *
   * @return the device
   */
  public Device device() {
    return view.isCuda() ? Device.cuda(view.deviceIndex()) : Device.cpu();
  }

  /**
   * The number of dimensions.
   *
   * @return 0 to 32
   */
  public int rank() {
    return view.rank();
  }

  /**
   * The size of a dimension.
   *
   * @param dim dimension, from 0
   * @return its size
   * @throws IndexOutOfBoundsException if there is no such dimension
   */
  public long size(int dim) {
    return view.size(Arguments.dimension(dim, rank(), "dim"));
  }

  /**
   * All sizes.
   *
   * @return a copy of the shape
   */
  public long[] shape() {
    return view.shape();
  }

  /**
   * The stride of a dimension. That of a dimension of size 1 means nothing.
   *
   * @param dim dimension, from 0
   * @return distance between neighbours, in elements
   * @throws IndexOutOfBoundsException if there is no such dimension
   */
  public long stride(int dim) {
    return view.stride(Arguments.dimension(dim, rank(), "dim"));
  }

  /**
   * All strides, in elements.
   *
   * @return a copy of the strides
   */
  public long[] strides() {
    return view.strides();
  }

  /**
   * The distance of the element with all indices 0 from the segment's start.
   *
   * @return elements, not bytes
   */
  public long offset() {
    return view.offset();
  }

  /**
   * The number of elements: the product of all sizes.
   *
   * @return 1 for a scalar
   */
  public long elementCount() {
    return view.count();
  }

  /**
   * The segment that this tensor looks at, as it was given: all of it, not only the part in view.
   *
   * @return the segment; one of size 0 for device memory
   */
  public MemorySegment segment() {
    return view.segment();
  }

  /**
   * How often the memory was written through this library: by {@link #set}, {@link #fill}, {@link
   * #copyFrom(Tensor)} and the calls of {@link Dxdw} that have it as an output, by way of this
   * tensor or any that is a view of it, or of which it is a view. Tensors that were wrapped around
   * the same memory one by one count each for itself, and writes through the segment are not seen.
   * Two threads that write at once may be counted as one.
   *
   * @return a number that rises with each write
   */
  public long version() {
    return view.storage().version();
  }

  /**
   * Do the elements lie one behind the other in row-major order, without gaps?
   *
   * @return true if so, and when there are no elements
   */
  public boolean isCompact() {
    return view.isCompact();
  }

  // ---- Views ----

  /**
   * Swaps the last two dimensions.
   *
   * @return a view of the same memory
   * @throws IllegalArgumentException if the rank is below 2
   */
  public Tensor transpose() {
    int rank = rank();
    if (rank < 2) {
      throw new IllegalArgumentException(
          "transpose: " + view.describe() + " has rank " + rank + ", needed are 2 dimensions");
    }
    int[] dims = new int[rank];
    Arrays.setAll(dims, d -> d);
    dims[rank - 1] = rank - 2;
    dims[rank - 2] = rank - 1;
    return permute(dims);
  }

  /**
   * Puts the dimensions into another order.
   *
   * @param dims for each dimension of the result, the dimension of this tensor that it is
   * @return a view of the same memory
   * @throws IllegalArgumentException if dims is not a permutation of all dimensions
   */
  public Tensor permute(int... dims) {
    Arguments.present(dims, "dims");
    int rank = rank();
    long seen = 0;
    long[] shape = new long[rank];
    long[] strides = new long[rank];
    boolean fits = dims.length == rank;
    for (int d = 0; d < rank && fits; ++d) {
      fits = dims[d] >= 0 && dims[d] < rank && (seen & 1L << dims[d]) == 0;
      if (fits) {
        seen |= 1L << dims[d];
        shape[d] = view.size(dims[d]);
        strides[d] = view.stride(dims[d]);
      }
    }
    if (!fits) {
      throw new IllegalArgumentException(
          "dims: "
              + Arrays.toString(dims)
              + " is no permutation of the "
              + rank
              + " dimensions of "
              + view.describe());
    }
    return new Tensor(view.with(shape, strides, view.offset()));
  }

  /**
   * Narrows a dimension.
   *
   * @param dim dimension
   * @param from first index, inclusive
   * @param to last index, exclusive
   * @return a view of the same memory
   * @throws IndexOutOfBoundsException if there is no such dimension, or not 0 &lt;= from &lt;= to
   *     &lt;= size(dim)
   */
  public Tensor slice(int dim, long from, long to) {
    return slice(dim, from, to, 1);
  }

  /**
   * Narrows a dimension to every step-th index.
   *
   * @param dim dimension
   * @param from first index, inclusive
   * @param to last index, exclusive
   * @param step distance between the indices kept, 1 or more
   * @return a view of the same memory
   * @throws IndexOutOfBoundsException if there is no such dimension, or not 0 &lt;= from &lt;= to
   *     &lt;= size(dim)
   * @throws IllegalArgumentException if step is below 1
   */
  public Tensor slice(int dim, long from, long to, long step) {
    long size = size(dim);
    if (from < 0 || to < from || to > size) {
      throw new IndexOutOfBoundsException(
          "slice: "
              + from
              + " to "
              + to
              + " is outside 0 to "
              + size
              + ", dimension "
              + dim
              + " of "
              + view.describe());
    }
    if (step < 1) {
      throw new IllegalArgumentException("step: " + step + " is below 1");
    }
    long[] shape = view.shape();
    long[] strides = view.strides();
    shape[dim] = to == from ? 0 : (to - from - 1) / step + 1;
    long offset = shape[dim] == 0 ? view.offset() : view.offset() + from * strides[dim];
    strides[dim] = shape[dim] <= 1 ? strides[dim] : strides[dim] * step;
    return new Tensor(view.with(shape, strides, view.count() == 0 ? view.offset() : offset));
  }

  /**
   * Picks one index of a dimension, which the result does not have any more.
   *
   * @param dim dimension
   * @param index index in it
   * @return a view of the same memory
   * @throws IndexOutOfBoundsException if there is no such dimension or index
   */
  public Tensor select(int dim, long index) {
    long size = size(dim);
    if (index < 0 || index >= size) {
      throw new IndexOutOfBoundsException(
          "index: "
              + index
              + " is outside 0 to "
              + (size - 1)
              + ", dimension "
              + dim
              + " of "
              + view.describe());
    }
    long offset = view.count() == 0 ? view.offset() : view.offset() + index * view.stride(dim);
    return new Tensor(view.with(without(view.shape(), dim), without(view.strides(), dim), offset));
  }

  private static long[] without(long[] values, int at) {
    long[] rest = new long[values.length - 1];
    System.arraycopy(values, 0, rest, 0, at);
    System.arraycopy(values, at + 1, rest, at, rest.length - at);
    return rest;
  }

  /**
   * Repeats dimensions of size 1 and adds leading dimensions, by strides of 0.
   *
   * @param shape sizes of the result; its last dimensions match those of this tensor or stand where
   *     this tensor has size 1
   * @return a view of the same memory, good as an input, not as an output
   * @throws IllegalArgumentException if the shape is null or does not match
   */
  public Tensor expand(long... shape) {
    Arguments.present(shape, "shape");
    int added = shape.length - rank();
    boolean fits = added >= 0;
    long[] strides = new long[shape.length];
    for (int d = Math.max(added, 0); d < shape.length && fits; ++d) {
      boolean same = shape[d] == view.size(d - added);
      fits = same || (view.size(d - added) == 1 && shape[d] >= 0);
      strides[d] = same ? view.stride(d - added) : 0;
    }
    for (int d = 0; d < added && fits; ++d) {
      fits = shape[d] >= 0;
    }
    if (!fits || shape.length > View.MAX_RANK) {
      throw new IllegalArgumentException(
          "shape: " + view.describe() + " can't be expanded to " + Arrays.toString(shape));
    }
    return new Tensor(view.with(shape.clone(), strides, view.offset()));
  }

  /**
   * Turns a dimension round, by a negative stride.
   *
   * @param dim dimension
   * @return a view of the same memory
   * @throws IndexOutOfBoundsException if there is no such dimension
   */
  public Tensor reverse(int dim) {
    long size = size(dim);
    if (view.count() == 0 || size == 1) {
      return this;
    }
    long[] strides = view.strides();
    long offset = view.offset() + (size - 1) * strides[dim];
    strides[dim] = -strides[dim];
    return new Tensor(view.with(view.shape(), strides, offset));
  }

  /**
   * Looks at the elements, in row-major order, in another shape.
   *
   * @param shape sizes with the same product
   * @return a view of the same memory
   * @throws IllegalArgumentException if the products differ, or no strides can give that shape
   *     without a copy: then {@link #copy(Arena)} first
   */
  public Tensor reshape(long... shape) {
    long bytes = View.compactBytes(dtype(), shape);
    if (bytes / dtype().byteSize() != elementCount()) {
      throw new IllegalArgumentException(
          "shape: "
              + Arrays.toString(shape)
              + " has "
              + bytes / dtype().byteSize()
              + " elements, "
              + view.describe()
              + " has "
              + elementCount());
    }
    long[] strides = new long[shape.length];
    if (!reshapedStrides(shape, strides)) {
      throw new IllegalArgumentException(
          "shape: no view of "
              + view.describe()
              + " has shape "
              + Arrays.toString(shape)
              + "; copy it first");
    }
    return new Tensor(view.with(shape.clone(), strides, view.offset()));
  }

  /**
   * Looks at the same memory with any sizes and strides, as {@link #of(MemorySegment, DType,
   * long[], long[], long)} does; it reaches device memory, too.
   *
   * @param shape sizes
   * @param strides distance between neighbours in each dimension, in elements
   * @param offset distance of the first element from the segment's start, in elements
   * @return a view of the same memory
   * @throws IllegalArgumentException if an argument is null, a size is negative, or shape and
   *     strides differ in length
   * @throws IndexOutOfBoundsException if an element would lie outside of the memory
   */
  public Tensor view(long[] shape, long[] strides, long offset) {
    View.checkLayout(shape, strides);
    return new Tensor(view.with(shape.clone(), strides.clone(), offset));
  }

  /** Has a shape of as many elements a view of this memory? */
  boolean hasView(long[] shape) {
    return reshapedStrides(shape, new long[shape.length]);
  }

  /** Walks both shapes from the last dimension on, block by block of equal element counts. */
  private boolean reshapedStrides(long[] shape, long[] strides) {
    if (elementCount() == 0) {
      return true;
    }
    int from = rank() - 1;
    int to = shape.length - 1;
    while (to >= 0 || from >= 0) {
      while (from >= 0 && view.size(from) == 1) {
        --from;
      }
      if (to < 0) {
        break;
      }
      if (shape[to] == 1) {
        strides[to--] = 1;
        continue;
      }
      // A block that one stride walks: dimensions of this tensor that lie seamlessly in each other.
      long stride = view.stride(from);
      long room = view.size(from);
      for (--from;
          from >= 0 && (view.size(from) == 1 || view.stride(from) == stride * room);
          --from) {
        room *= view.size(from);
      }
      for (; to >= 0 && (shape[to] == 1 || room % shape[to] == 0) && room > 1; --to) {
        strides[to] = stride;
        stride *= shape[to];
        room /= shape[to];
      }
      if (room != 1) {
        return false;
      }
    }
    return true;
  }

  // ---- Values ----

  private long position(long[] index) {
    Arguments.present(index, "index");
    if (index.length != rank()) {
      throw new IllegalArgumentException(
          "index: "
              + Arrays.toString(index)
              + " has "
              + index.length
              + " entries, "
              + view.describe()
              + " has rank "
              + rank());
    }
    long position = view.offset();
    for (int d = 0; d < index.length; ++d) {
      if (index[d] < 0 || index[d] >= view.size(d)) {
        throw new IndexOutOfBoundsException(
            "index: " + Arrays.toString(index) + " is outside " + view.describe());
      }
      position += index[d] * view.stride(d);
    }
    return position;
  }

  /** The element that lies {@code position} elements behind the start of the segment. */
  private Tensor element(long position) {
    return new Tensor(view.with(new long[0], new long[0], position));
  }

  /**
   * Reads one element. On a GPU that is a copy; the work of streams that writes the element must be
   * done.
   *
   * @param index one index for each dimension
   * @return its value
   * @throws IllegalArgumentException if the number of indices is not the rank, or the elements are
   *     integers
   * @throws IndexOutOfBoundsException if an index is outside of its dimension
   * @throws IllegalStateException if the memory is closed
   */
  public float get(long... index) {
    long position = position(index);
    if (view.isCuda()) {
      try (Arena arena = Arena.ofConfined()) {
        return element(position).to(Device.cpu(), arena).get();
      }
    }
    return Elements.get(view, position);
  }

  /**
   * Writes one element, rounded to nearest even. On a GPU that is a copy; the work of streams that
   * uses the element must be done.
   *
   * @param value its value
   * @param index one index for each dimension
   * @throws IllegalArgumentException if the number of indices is not the rank, the elements are
   *     integers, or the memory is read-only
   * @throws IndexOutOfBoundsException if an index is outside of its dimension
   * @throws IllegalStateException if the memory is closed
   */
  public void set(float value, long... index) {
    long position = position(index);
    if (view.isCuda()) {
      try (Arena arena = Arena.ofConfined()) {
        element(position).copyFrom(scalar(arena, value));
      }
      return;
    }
    Elements.set(writable(view), position, value);
    view.storage().written();
  }

  /**
   * Reads one element of an int32 tensor. On a GPU that is a copy; the work of streams that writes
   * the element must be done.
   *
   * @param index one index for each dimension
   * @return its value
   * @throws IllegalArgumentException if the number of indices is not the rank, or the elements are
   *     not int32
   * @throws IndexOutOfBoundsException if an index is outside of its dimension
   * @throws IllegalStateException if the memory is closed
   */
  public int getInt(long... index) {
    long position = position(index);
    if (view.isCuda()) {
      try (Arena arena = Arena.ofConfined()) {
        return element(position).to(Device.cpu(), arena).getInt();
      }
    }
    return Elements.getInt(view, position);
  }

  /**
   * Writes one element of an int32 tensor. On a GPU that is a copy; the work of streams that uses
   * the element must be done.
   *
   * @param value its value
   * @param index one index for each dimension
   * @throws IllegalArgumentException if the number of indices is not the rank, the elements are not
   *     int32, or the memory is read-only
   * @throws IndexOutOfBoundsException if an index is outside of its dimension
   * @throws IllegalStateException if the memory is closed
   */
  public void setInt(int value, long... index) {
    long position = position(index);
    if (view.isCuda()) {
      try (Arena arena = Arena.ofConfined()) {
        element(position).copyFrom(of(arena, new int[] {value}).select(0, 0));
      }
      return;
    }
    Elements.setInt(writable(view), position, value);
    view.storage().written();
  }

  private static View writable(View view) {
    if (view.segment().isReadOnly()) {
      throw new IllegalArgumentException("tensor: " + view.describe() + " is read-only");
    }
    return view;
  }

  /**
   * Writes one value, rounded to nearest even, to all elements.
   *
   * @param value the value
   * @throws IllegalArgumentException if the elements are integers, or the memory is read-only
   * @throws IllegalStateException if the memory is closed
   */
  public void fill(float value) {
    if (view.isCuda()) {
      try (Arena arena = Arena.ofConfined()) {
        copyFrom(scalar(arena, value).to(device(), arena).expand(view.shape()));
      }
      return;
    }
    Elements.fill(writable(view), value);
    view.storage().written();
  }

  /**
   * Copies the logical values, in row-major order of the indices, whatever the strides are.
   *
   * @return as many values as there are elements
   * @throws IllegalArgumentException if the elements are integers
   * @throws IllegalStateException if the memory is closed, or there are more elements than an array
   *     holds: then take it slice by slice
   */
  public float[] toFloatArray() {
    if (elementCount() > Integer.MAX_VALUE - 8) {
      throw new IllegalStateException(
          "tensor: the "
              + elementCount()
              + " elements of "
              + view.describe()
              + " don't fit a Java array; take them in parts, as in slice(0, from,"
              + " to).toFloatArray()");
    }
    if (view.isCuda()) {
      try (Arena arena = Arena.ofConfined()) {
        Tensor values = allocate(arena, DType.FLOAT32, view.shape());
        values.copyFrom(this);
        return values.toFloatArray();
      }
    }
    float[] values = new float[(int) elementCount()];
    Elements.read(view, values);
    return values;
  }

  /**
   * Copies all elements of another tensor of the same shape into this one, converting them to this
   * type: rounded to nearest even, NaN stays NaN. Strides and devices may differ. Integers go to
   * integers alone.
   *
   * @param source tensor of this shape that shares no memory with this one
   * @throws IllegalArgumentException if source is null, shapes differ, one of the types is int32
   *     and the other isn't, memory is shared or read-only, or two elements of this tensor share
   *     memory
   * @throws IllegalStateException if memory is closed
   * @throws LibraryLoadException if the native library can't be loaded
   */
  public void copyFrom(Tensor source) {
    Arguments.present(source, "source");
    Dxdw.copy(source, this, null);
  }

  /**
   * As {@link #copyFrom(Tensor)}, but on a stream, after the work that the stream has been given so
   * far. Copies on the device, and from or to memory of {@link Device#allocatePinned}, go on after
   * this method has returned.
   *
   * @param source tensor of this shape that shares no memory with this one
   * @param stream a stream on the device that one of the tensors, or both, lie on
   * @throws IllegalArgumentException if an argument is null, shapes or types don't fit as said
   *     there, memory is shared, two elements of this tensor share memory, or the stream is on
   *     another device
   * @throws IllegalStateException if memory or the stream is closed
   * @throws DxdwException if the copy fails, or can't be recorded into a graph: those from and to
   *     host memory can't
   * @throws LibraryLoadException if the native library can't be loaded
   */
  public void copyFrom(Tensor source, Stream stream) {
    Arguments.present(source, "source");
    Arguments.present(stream, "stream");
    Dxdw.copy(source, this, stream);
  }

  /**
   * Copies this tensor into a compact one of another type.
   *
   * @param dtype element type of the copy
   * @param arena owner of the copy's memory
   * @return the copy, on the same device
   * @throws IllegalArgumentException if an argument is null, or one of the types is int32 and the
   *     other isn't
   * @throws IllegalStateException if the memory is closed
   * @throws LibraryLoadException if the native library can't be loaded
   */
  public Tensor to(DType dtype, Arena arena) {
    Tensor copy = allocate(arena, device(), dtype, view.shape());
    copy.copyFrom(this);
    return copy;
  }

  /**
   * Copies this tensor into a compact one on another device.
   *
   * @param device device of the copy
   * @param arena owner of the copy's memory
   * @return the copy, of the same type
   * @throws IllegalArgumentException if an argument is null
   * @throws IllegalStateException if the memory is closed
   * @throws DeviceException if the device can't be used
   * @throws LibraryLoadException if the native library can't be loaded
   */
  public Tensor to(Device device, Arena arena) {
    Tensor copy = allocate(arena, device, dtype(), view.shape());
    copy.copyFrom(this);
    return copy;
  }

  /**
   * Copies this tensor into a compact one of the same type and device.
   *
   * @param arena owner of the copy's memory
   * @return the copy
   * @throws IllegalArgumentException if the arena is null
   * @throws IllegalStateException if the memory is closed
   * @throws LibraryLoadException if the native library can't be loaded
   */
  public Tensor copy(Arena arena) {
    return to(dtype(), arena);
  }

  /**
   * Shows type, shape, device and values, as in {@code float32[2, 2] cpu} and, on lines of their
   * own, {@code [[1.0, 2.0],} and {@code [3.0, 4.0]]}. Dimensions of more than 8 are abbreviated.
   * Values on a GPU are copied; the work of streams that writes them must be done. Never throws.
   */
  @Override
  public String toString() {
    String head = dtype() + Arrays.toString(view.shape()) + " " + device();
    if (!view.segment().scope().isAlive()) {
      return head + " (closed)";
    }
    if (!view.segment().isAccessibleBy(Thread.currentThread())) {
      return head + " (belongs to another thread)";
    }
    if (!view.isCuda()) {
      return head + "\n" + Text.values(view);
    }
    try (Arena arena = Arena.ofConfined()) {
      DType type = dtype() == DType.INT32 ? DType.INT32 : DType.FLOAT32;
      Tensor shown = allocate(arena, type, Text.shownShape(view.shape()));
      copyShown(this, shown, 0);
      return head + "\n" + Text.values(shown.view, view.shape());
    } catch (DxdwException failure) {
      return head + " (" + failure.getMessage() + ")";
    }
  }

  /** Copies, from dimension {@code dim} on, the entries that the text of a tensor shows. */
  private static void copyShown(Tensor source, Tensor shown, int dim) {
    if (dim == source.rank()) {
      shown.copyFrom(source);
      return;
    }
    long size = source.size(dim);
    long kept = shown.size(dim);
    if (size == kept) {
      copyShown(source, shown, dim + 1);
      return;
    }
    long edge = kept / 2;
    copyShown(source.slice(dim, 0, edge), shown.slice(dim, 0, edge), dim + 1);
    copyShown(source.slice(dim, size - edge, size), shown.slice(dim, edge, kept), dim + 1);
  }
}
