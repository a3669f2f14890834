// Operands and options as the checks see them: one operand by itself, operands against each other, where they lie. What
// each function asks of its operands stands in checks.cpp and checks_training.cpp.
#pragma once

#include <stdio.h>

#include "overlap.hpp"
#include "problem.hpp"
#include "status.hpp"

namespace dxdw {

constexpr int kMostOperands = 6;

// ---- One operand ----

// What a function says of one of its operands.
struct OperandRule {
  const char *name;
  bool output;    // written, be it read or not
  bool optional;  // may be absent
  bool labels;    // int32; all others are floats
};

// An operand that passed the checks of its own: strides always there, byte offset added.
struct Operand {
  const char *name;
  const dxdw_tensor *tensor;  // NULL = optional and absent
  char *data;
  DType type;
  int32_t ndim;
  const int64_t *shape;
  const int64_t *strides;
  bool empty;
  bool output;
  uint64_t lowest, end;            // addresses of the lowest byte and of the one behind the highest, unless empty
  int64_t compact[DXDW_MAX_NDIM];  // strides when the tensor brings none

  int64_t size(int32_t d) const { return shape[d]; }
};

inline const char *type_name(DType type) {
  switch (type) {
    case DType::f32: return "float32";
    case DType::f16: return "float16";
    case DType::bf16: return "bfloat16";
    default: return "int32";
  }
}

struct Text {
  char chars[200];
};

inline void append(Text *text, size_t *used, const char *format, int64_t value) {
  if (*used >= sizeof text->chars) return;
  const int wrote = snprintf(text->chars + *used, sizeof text->chars - *used, format, static_cast<long long>(value));
  if (wrote > 0) *used += static_cast<size_t>(wrote);
}

inline void append_list(Text *text, size_t *used, const int64_t *values, int32_t count) {
  append(text, used, "[", 0);
  for (int32_t i = 0; i < count; ++i) append(text, used, i == 0 ? "%lld" : ", %lld", values[i]);
  append(text, used, "]", 0);
}

inline Text list_text(const int64_t *values, int32_t count) {
  Text text;
  size_t used = 0;
  append_list(&text, &used, values, count);
  return text;
}

// "x float32[3, 4] strides [4, 1]"
inline Text describe(const Operand &operand) {
  Text text;
  size_t used =
      static_cast<size_t>(snprintf(text.chars, sizeof text.chars, "%s %s", operand.name, type_name(operand.type)));
  append_list(&text, &used, operand.shape, operand.ndim);
  append(&text, &used, " strides ", 0);
  append_list(&text, &used, operand.strides, operand.ndim);
  return text;
}

inline Footprint footprint(const Operand &operand) {
  Footprint view;
  view.address = reinterpret_cast<uint64_t>(operand.data);
  view.item = size_of(operand.type);
  view.ndim = operand.ndim;
  for (int32_t d = 0; d < operand.ndim; ++d) {
    view.shape[d] = operand.shape[d];
    view.strides[d] = operand.shape[d] == 1 ? 0 : operand.strides[d] * view.item;
  }
  return view;
}

// Any offset may stand beside any address, NULL included, until both are checked.
inline char *address_of(const dxdw_tensor *t) {
  return reinterpret_cast<char *>(reinterpret_cast<uint64_t>(t->data) + t->byte_offset);
}

inline Status check_type(const char *name, const dxdw_tensor *t, DType *type) {
  if (t->dtype_lanes == 1) {
    if (t->dtype_code == DXDW_FLOAT && t->dtype_bits == 32) return *type = DType::f32, DXDW_OK;
    if (t->dtype_code == DXDW_FLOAT && t->dtype_bits == 16) return *type = DType::f16, DXDW_OK;
    if (t->dtype_code == DXDW_BFLOAT && t->dtype_bits == 16) return *type = DType::bf16, DXDW_OK;
    if (t->dtype_code == DXDW_INT && t->dtype_bits == 32) return *type = DType::i32, DXDW_OK;
  }
  return fail(DXDW_INVALID_ARGUMENT,
              "%s: type code %d with %d bits and %d lanes is none of float32 (2, 32, 1), float16 (2, 16, 1), "
              "bfloat16 (4, 16, 1), int32 (0, 32, 1)",
              name, t->dtype_code, t->dtype_bits, t->dtype_lanes);
}

// Integers where integers are asked for, floats elsewhere.
inline Status check_kind(const char *name, DType type, bool labels) {
  if (__builtin_expect((type == DType::i32) == labels, 1)) return DXDW_OK;
  return fail(DXDW_INVALID_ARGUMENT, "%s: type is %s, expected %s", name, type_name(type),
              labels ? "int32" : "float32, float16 or bfloat16");
}

// Bytes between the ends of an operand. Distances within and between operands then add up in 64 bits.
constexpr int64_t kMostSpan = int64_t{1} << 61;

// Sizes are not negative; the number of elements fits 64 bits, and so does the distance between the outermost ones, which
// is where they lie.
inline Status check_extent(Operand *o) {
  int64_t low = 0, high = 1, count = 1;
  bool fits = true, counts = true, negative = false;
  for (int32_t d = 0; d < o->ndim; ++d) {
    const int64_t size = o->shape[d];
    if (size <= 1) {
      negative |= size < 0;
      o->empty |= size == 0;
      continue;
    }
    int64_t reach;
    counts &= !__builtin_mul_overflow(count, size, &count);
    fits &= !__builtin_mul_overflow(size - 1, o->strides[d], &reach);
    if (reach < 0)
      fits &= !__builtin_add_overflow(low, reach, &low);
    else
      fits &= !__builtin_add_overflow(high, reach, &high);
  }
  if (__builtin_expect(negative, 0))
    return fail(DXDW_INVALID_ARGUMENT, "%s: shape %s has a negative size", o->name, list_text(o->shape, o->ndim).chars);
  if (__builtin_expect(!counts && !o->empty, 0))
    return fail(DXDW_INVALID_ARGUMENT, "%s: shape %s has more elements than 64 bits can count", o->name,
                list_text(o->shape, o->ndim).chars);
  const int64_t item = size_of(o->type);
  int64_t low_bytes = 0, high_bytes = 0, span;
  fits &= !__builtin_mul_overflow(low, item, &low_bytes) && !__builtin_mul_overflow(high, item, &high_bytes) &&
          !__builtin_sub_overflow(high_bytes, low_bytes, &span) && span <= kMostSpan;
  const uint64_t address = reinterpret_cast<uint64_t>(o->data);
  o->lowest = address + static_cast<uint64_t>(low_bytes);
  o->end = address + static_cast<uint64_t>(high_bytes);
  fits &= o->lowest <= address && address < o->end;
  if (__builtin_expect(fits || o->empty, 1)) return DXDW_OK;
  return fail(DXDW_INVALID_ARGUMENT, "%s: shape %s with strides %s reaches beyond 64-bit addresses", o->name,
              list_text(o->shape, o->ndim).chars, list_text(o->strides, o->ndim).chars);
}

// Compact row-major strides for a tensor that brings none. They may overflow where there are no elements, or more than
// check_extent lets pass.
inline void fill_strides(Operand *o) {
  uint64_t stride = 1;
  for (int32_t d = o->ndim - 1; d >= 0; --d) {
    o->compact[d] = static_cast<int64_t>(stride);
    if (o->shape[d] > 0) stride *= static_cast<uint64_t>(o->shape[d]);
  }
  o->strides = o->compact;
}

inline Status check_operand(const OperandRule &rule, const dxdw_tensor *t, Operand *o) {
  const char *const name = rule.name;
  o->name = name;
  o->output = rule.output;
  o->tensor = t;
  if (t == nullptr) return fail(DXDW_INVALID_ARGUMENT, "%s: is NULL", name);
  if (t->ndim < 0 || t->ndim > DXDW_MAX_NDIM)
    return fail(DXDW_INVALID_ARGUMENT, "%s: rank %d is outside 0 to %d", name, t->ndim, DXDW_MAX_NDIM);
  if (t->device_type != DXDW_CPU && t->device_type != DXDW_CUDA)
    return fail(DXDW_INVALID_ARGUMENT, "%s: device type %d is neither CPU (%d) nor CUDA (%d)", name, t->device_type,
                DXDW_CPU, DXDW_CUDA);
  if (t->device_id < 0 || (t->device_type == DXDW_CPU && t->device_id != 0))
    return fail(DXDW_INVALID_ARGUMENT, "%s: device index %d does not exist for device type %d", name, t->device_id,
                t->device_type);
  DXDW_TRY(check_type(name, t, &o->type));
  o->ndim = t->ndim;
  if (t->ndim > 0 && t->shape == nullptr)
    return fail(DXDW_INVALID_ARGUMENT, "%s: rank is %d but shape is NULL", name, t->ndim);
  o->shape = t->shape;
  o->strides = t->strides;
  o->empty = false;
  if (o->strides == nullptr) fill_strides(o);
  o->data = address_of(t);
  DXDW_TRY(check_extent(o));
  if (o->empty) return DXDW_OK;
  if (t->data == nullptr)
    return fail(DXDW_INVALID_ARGUMENT, "%s: data is NULL but shape %s is not empty", name,
                list_text(o->shape, o->ndim).chars);
  if ((reinterpret_cast<uint64_t>(o->data) & static_cast<uint64_t>(size_of(o->type) - 1)) != 0)
    return fail(DXDW_INVALID_ARGUMENT, "%s: address %p is not a multiple of the %lld bytes of a %s", name,
                static_cast<void *>(o->data), static_cast<long long>(size_of(o->type)), type_name(o->type));
  return DXDW_OK;
}

// ---- Several operands ----

inline Status check_rank(const Operand &o, int32_t rank) {
  if (__builtin_expect(o.ndim == rank, 1)) return DXDW_OK;
  return fail(DXDW_INVALID_ARGUMENT, "%s: rank is %d, expected %d", describe(o).chars, o.ndim, rank);
}

inline Status check_same_size(const Operand &a, int32_t dim_a, const Operand &b, int32_t dim_b) {
  if (a.size(dim_a) == b.size(dim_b)) return DXDW_OK;
  return fail(DXDW_INVALID_ARGUMENT, "%s: size %lld of dimension %d does not match size %lld of dimension %d of %s",
              describe(a).chars, static_cast<long long>(a.size(dim_a)), dim_a, static_cast<long long>(b.size(dim_b)),
              dim_b, describe(b).chars);
}

inline Status check_same_type(const Operand &a, const Operand &b) {
  if (a.type == b.type) return DXDW_OK;
  return fail(DXDW_INVALID_ARGUMENT, "%s: type %s does not match type %s of %s", describe(a).chars, type_name(a.type),
              type_name(b.type), describe(b).chars);
}

inline Status check_output_type(const Operand &out, const Operand &in) {
  if (out.type == DType::f32 || out.type == in.type) return DXDW_OK;
  return fail(DXDW_INVALID_ARGUMENT, "%s: type %s is neither float32 nor the type %s of %s", describe(out).chars,
              type_name(out.type), type_name(in.type), describe(in).chars);
}

// "cpu" or, for example, "cuda:1".
struct DeviceName {
  char chars[24];
};

inline DeviceName device_name(const Operand &o) {
  DeviceName name = {"cpu"};
  if (o.tensor->device_type == DXDW_CUDA) snprintf(name.chars, sizeof name.chars, "cuda:%d", o.tensor->device_id);
  return name;
}

inline Status check_same_device(const Operand &a, const Operand &b) {
  if (a.tensor->device_type == b.tensor->device_type && a.tensor->device_id == b.tensor->device_id) return DXDW_OK;
  return fail(DXDW_INVALID_ARGUMENT, "%s: device is %s, that of %s is %s", a.name, device_name(a).chars, b.name,
              device_name(b).chars);
}

// The common case of distinct elements, told without ado: a matrix or vector in rising rows.
inline bool plainly_distinct(const Operand &o) {
  if (o.ndim == 1) return o.shape[0] == 1 || o.strides[0] > 0;
  if (o.ndim != 2) return false;
  const int64_t inner = o.shape[1] == 1 ? 0 : o.strides[1], outer = o.shape[0] == 1 ? INT64_MAX : o.strides[0];
  return (inner > 0 || o.shape[1] == 1) && outer > (o.shape[1] - 1) * inner;
}

inline bool share_memory(const Operand &a, const Operand &b) {
  return a.lowest < b.end && b.lowest < a.end && overlap(footprint(a), footprint(b));
}

// The same elements in the same order.
inline bool identical(const Operand &a, const Operand &b) {
  if (a.data != b.data || a.type != b.type || a.ndim != b.ndim) return false;
  for (int32_t d = 0; d < a.ndim; ++d)
    if (a.size(d) != b.size(d) || (a.size(d) > 1 && a.strides[d] != b.strides[d])) return false;
  return true;
}

// Operands that are there, on one device, outputs apart from themselves and from everything else. in_place: an output
// may be an input.
inline Status check_placement(const Operand *operands, int count, bool in_place) {
  const Operand *first = nullptr;
  for (int i = 0; i < count; ++i) {
    if (operands[i].tensor == nullptr) continue;
    if (first == nullptr) first = &operands[i];
    DXDW_TRY(check_same_device(operands[i], *first));
  }
  for (int i = 0; i < count; ++i) {
    const Operand &out = operands[i];
    if (!out.output || out.tensor == nullptr || out.empty) continue;
    if (!plainly_distinct(out) && overlaps_itself(footprint(out)))
      return fail(DXDW_INVALID_ARGUMENT, "%s: elements of this output share memory", describe(out).chars);
    for (int j = 0; j < count; ++j) {
      const Operand &other = operands[j];
      if (j == i || other.tensor == nullptr || other.empty || (other.output && j < i)) continue;
      if (in_place && !other.output && identical(out, other)) continue;
      if (share_memory(out, other))
        return fail(DXDW_INVALID_ARGUMENT, "%s: this output shares memory with %s", describe(out).chars,
                    describe(other).chars);
    }
  }
  return DXDW_OK;
}

// What options ask for beside where and on what memory to work.
struct Choice {
  bool add;
  int32_t precision;
  bool batch_invariant;
};

inline Status check_options(const dxdw_options *options, bool adds_by_default, const Operand &on, Context *context,
                            Choice *choice) {
  *context = {on.tensor->device_type, on.tensor->device_id, nullptr, nullptr, 0};
  *choice = {adds_by_default, DXDW_PRECISION_DEFAULT, false};
  if (options == nullptr) return DXDW_OK;
  if (options->size != sizeof(dxdw_options))
    return fail(DXDW_INVALID_ARGUMENT, "options: size is %u, expected %zu", options->size, sizeof(dxdw_options));
  if (options->accumulate < DXDW_ACCUMULATE_DEFAULT || options->accumulate > DXDW_ASSIGN)
    return fail(DXDW_INVALID_ARGUMENT, "options: accumulate is %d, expected 0 to %d", options->accumulate, DXDW_ASSIGN);
  if (options->precision < DXDW_PRECISION_DEFAULT || options->precision > DXDW_PRECISION_BF16X3)
    return fail(DXDW_INVALID_ARGUMENT, "options: precision is %d, expected 0 to %d", options->precision,
                DXDW_PRECISION_BF16X3);
  if ((options->flags & ~DXDW_BATCH_INVARIANT) != 0)
    return fail(DXDW_INVALID_ARGUMENT, "options: flags are 0x%x, known are 0x%x", static_cast<unsigned>(options->flags),
                static_cast<unsigned>(DXDW_BATCH_INVARIANT));
  if (options->stream != nullptr && on.tensor->device_type != DXDW_CUDA)
    return fail(DXDW_INVALID_ARGUMENT, "options: a stream was given, but %s is on the CPU", on.name);
  if (options->accumulate != DXDW_ACCUMULATE_DEFAULT) choice->add = options->accumulate == DXDW_ADD;
  choice->precision = options->precision;
  choice->batch_invariant = (options->flags & DXDW_BATCH_INVARIANT) != 0;
  context->stream = options->stream;
  context->workspace = options->workspace;
  context->workspace_bytes = options->workspace_bytes;
  return DXDW_OK;
}

// The stride of a dimension, for kernels to reckon with: that of a size of 1, or of a tensor without elements, means nothing
// and may hold what would not fit 64 bits when multiplied.
inline int64_t stride_of(const Operand &o, int32_t d) {
  const int64_t stride = o.strides[d];
  constexpr int64_t kFar = int64_t{1} << 40;
  return (o.empty || o.size(d) == 1) && (stride > kFar || stride < -kFar) ? 1 : stride;
}

inline Matrix matrix(const Operand &o) {
  return {o.data, o.type, o.size(0), o.size(1), stride_of(o, 0), stride_of(o, 1)};
}

// ---- Operands as the kernels see them ----

// Row strides are merge_dims' to fill in.
inline RowsView rows_view(const Operand &o) {
  RowsView view;
  view.data = o.tensor == nullptr ? nullptr : o.data;
  view.type = o.tensor == nullptr ? DType::f32 : o.type;
  view.feature_stride = 0;
  return view;
}

// outer == inner . size, where that fits 64 bits.
inline bool spans(int64_t outer, int64_t inner, int64_t size) {
  int64_t span;
  return !__builtin_mul_overflow(inner, size, &span) && outer == span;
}

// Merges dimensions of operands that have them in common, in the order in which `dims` lists them, outermost first.
inline void merge_dims(const Operand *const *operands, RowsView *const *views, int count, const int32_t *dims,
                       int32_t ndim, Rows *rows) {
  rows->ndim = 0;
  rows->count = 1;
  for (int32_t i = 0; i < ndim; ++i) {
    const int32_t d = dims == nullptr ? i : dims[i];
    const int64_t size = operands[0]->size(d);
    // Of an operand that is empty by its last dimension, the leading ones may count beyond 64 bits.
    if (__builtin_mul_overflow(rows->count, size, &rows->count)) rows->count = INT64_MAX;
    if (size == 1) continue;
    const int32_t last = rows->ndim - 1;
    int64_t joined = size;
    bool merges = last >= 0 && !__builtin_mul_overflow(rows->shape[last], size, &joined);
    for (int v = 0; v < count && merges; ++v)
      if (operands[v]->tensor != nullptr) merges = spans(views[v]->row_strides[last], stride_of(*operands[v], d), size);
    const int32_t into = merges ? last : rows->ndim++;
    rows->shape[into] = merges ? joined : size;
    for (int v = 0; v < count; ++v)
      if (operands[v]->tensor != nullptr) views[v]->row_strides[into] = stride_of(*operands[v], d);
  }
  if (rows->ndim == 0) {
    rows->ndim = 1;
    rows->shape[0] = 1;
    for (int v = 0; v < count; ++v) views[v]->row_strides[0] = 0;
  }
}

inline Status check_same_shape(const Operand &a, const Operand &b) {
  DXDW_TRY(check_rank(a, b.ndim));
  for (int32_t d = 0; d < b.ndim; ++d) DXDW_TRY(check_same_size(a, d, b, d));
  return DXDW_OK;
}

inline Status check_float32(const Operand &o) {
  if (o.type == DType::f32) return DXDW_OK;
  return fail(DXDW_INVALID_ARGUMENT, "%s: type is %s, expected float32", describe(o).chars, type_name(o.type));
}

// ---- One function ----

// What dxdw_call was asked for, operands apart.
struct Asked {
  int32_t function, split, deterministic;
  const dxdw_options *options;
};

// A function's own checks: shapes, types, options, and what the kernels get to see.
typedef Status (*Check)(const Asked &asked, Operand *operands, Call *call);

// Y, dX and dW, and dW with what comes with it.
Status check_product(const Asked &asked, Operand *operands, Call *call);

}  // namespace dxdw
