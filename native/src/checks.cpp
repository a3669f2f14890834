#include "checks.hpp"

#include <stdio.h>
#include <string.h>

#include "overlap.hpp"

namespace dxdw {

namespace {

constexpr int kMostOperands = 5;
constexpr uint64_t kWorkspaceAlignment = 64;

// ---- One operand ----

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

const char *type_name(DType type) {
  return type == DType::f32 ? "float32" : type == DType::f16 ? "float16" : "bfloat16";
}

struct Text {
  char chars[200];
};

void append(Text *text, size_t *used, const char *format, int64_t value) {
  if (*used >= sizeof text->chars) return;
  const int wrote = snprintf(text->chars + *used, sizeof text->chars - *used, format, static_cast<long long>(value));
  if (wrote > 0) *used += static_cast<size_t>(wrote);
}

void append_list(Text *text, size_t *used, const int64_t *values, int32_t count) {
  append(text, used, "[", 0);
  for (int32_t i = 0; i < count; ++i) append(text, used, i == 0 ? "%lld" : ", %lld", values[i]);
  append(text, used, "]", 0);
}

Text list_text(const int64_t *values, int32_t count) {
  Text text;
  size_t used = 0;
  append_list(&text, &used, values, count);
  return text;
}

// "x float32[3, 4] strides [4, 1]"
Text describe(const Operand &operand) {
  Text text;
  size_t used =
      static_cast<size_t>(snprintf(text.chars, sizeof text.chars, "%s %s", operand.name, type_name(operand.type)));
  append_list(&text, &used, operand.shape, operand.ndim);
  append(&text, &used, " strides ", 0);
  append_list(&text, &used, operand.strides, operand.ndim);
  return text;
}

Footprint footprint(const Operand &operand) {
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

Status check_type(const char *name, const dxdw_tensor *t, DType *type) {
  if (t->dtype_lanes == 1) {
    if (t->dtype_code == DXDW_FLOAT && t->dtype_bits == 32) return *type = DType::f32, DXDW_OK;
    if (t->dtype_code == DXDW_FLOAT && t->dtype_bits == 16) return *type = DType::f16, DXDW_OK;
    if (t->dtype_code == DXDW_BFLOAT && t->dtype_bits == 16) return *type = DType::bf16, DXDW_OK;
  }
  return fail(DXDW_INVALID_ARGUMENT,
              "%s: type code %d with %d bits and %d lanes is none of float32 (2, 32, 1), float16 (2, 16, 1), "
              "bfloat16 (4, 16, 1)",
              name, t->dtype_code, t->dtype_bits, t->dtype_lanes);
}

// Sizes are not negative, and the distance between the outermost elements fits 64 bits: where they lie.
Status check_extent(Operand *o) {
  int64_t low = 0, high = 1;
  bool fits = true, negative = false;
  for (int32_t d = 0; d < o->ndim; ++d) {
    const int64_t size = o->shape[d];
    if (size <= 1) {
      negative |= size < 0;
      o->empty |= size == 0;
      continue;
    }
    int64_t reach;
    fits &= !__builtin_mul_overflow(size - 1, o->strides[d], &reach);
    if (reach < 0)
      fits &= !__builtin_add_overflow(low, reach, &low);
    else
      fits &= !__builtin_add_overflow(high, reach, &high);
  }
  if (__builtin_expect(negative, 0))
    return fail(DXDW_INVALID_ARGUMENT, "%s: shape %s has a negative size", o->name, list_text(o->shape, o->ndim).chars);
  const int64_t item = size_of(o->type);
  int64_t low_bytes = 0, high_bytes = 0;
  fits &= !__builtin_mul_overflow(low, item, &low_bytes) && !__builtin_mul_overflow(high, item, &high_bytes);
  if (__builtin_expect(!fits && !o->empty, 0))
    return fail(DXDW_INVALID_ARGUMENT, "%s: shape %s with strides %s reaches beyond 64-bit addresses", o->name,
                list_text(o->shape, o->ndim).chars, list_text(o->strides, o->ndim).chars);
  const uint64_t address = reinterpret_cast<uint64_t>(o->data);
  o->lowest = address + static_cast<uint64_t>(low_bytes);
  o->end = address + static_cast<uint64_t>(high_bytes);
  return DXDW_OK;
}

// Compact row-major strides for a tensor that brings none.
Status fill_strides(Operand *o) {
  int64_t count = 1;
  for (int32_t d = o->ndim - 1; d >= 0; --d) {
    o->compact[d] = count;
    if (o->shape[d] > 0 && __builtin_mul_overflow(count, o->shape[d], &count))
      return fail(DXDW_INVALID_ARGUMENT, "%s: shape %s has more elements than 64 bits can count", o->name,
                  list_text(o->shape, o->ndim).chars);
  }
  o->strides = o->compact;
  return DXDW_OK;
}

Status check_operand(const char *name, const dxdw_tensor *t, bool output, Operand *o) {
  o->name = name;
  o->output = output;
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
  if (o->strides == nullptr) DXDW_TRY(fill_strides(o));
  o->data = static_cast<char *>(t->data) + t->byte_offset;
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

Status check_same_size(const Operand &a, int32_t dim_a, const Operand &b, int32_t dim_b) {
  if (a.size(dim_a) == b.size(dim_b)) return DXDW_OK;
  return fail(DXDW_INVALID_ARGUMENT, "%s: size %lld of dimension %d does not match size %lld of dimension %d of %s",
              describe(a).chars, static_cast<long long>(a.size(dim_a)), dim_a, static_cast<long long>(b.size(dim_b)),
              dim_b, describe(b).chars);
}

Status check_same_type(const Operand &a, const Operand &b) {
  if (a.type == b.type) return DXDW_OK;
  return fail(DXDW_INVALID_ARGUMENT, "%s: type %s does not match type %s of %s", describe(a).chars, type_name(a.type),
              type_name(b.type), describe(b).chars);
}

Status check_output_type(const Operand &out, const Operand &in) {
  if (out.type == DType::f32 || out.type == in.type) return DXDW_OK;
  return fail(DXDW_INVALID_ARGUMENT, "%s: type %s is neither float32 nor the type %s of %s", describe(out).chars,
              type_name(out.type), type_name(in.type), describe(in).chars);
}

Status check_same_device(const Operand &a, const Operand &b) {
  if (a.tensor->device_type == b.tensor->device_type && a.tensor->device_id == b.tensor->device_id) return DXDW_OK;
  return fail(DXDW_INVALID_ARGUMENT, "%s: device (%d, %d) is not the device (%d, %d) of %s", a.name,
              a.tensor->device_type, a.tensor->device_id, b.tensor->device_type, b.tensor->device_id, b.name);
}

// The common case of distinct elements, told without ado: a matrix or vector in rising rows.
bool plainly_distinct(const Operand &o) {
  if (o.ndim == 1) return o.shape[0] == 1 || o.strides[0] > 0;
  if (o.ndim != 2) return false;
  const int64_t inner = o.shape[1] == 1 ? 0 : o.strides[1], outer = o.shape[0] == 1 ? INT64_MAX : o.strides[0];
  return (inner > 0 || o.shape[1] == 1) && outer > (o.shape[1] - 1) * inner;
}

bool share_memory(const Operand &a, const Operand &b) {
  return a.lowest < b.end && b.lowest < a.end && overlap(footprint(a), footprint(b));
}

// Operands that are there, on one device, outputs apart from themselves and from everything else.
Status check_placement(const Operand *operands, int count) {
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
      if (share_memory(out, other))
        return fail(DXDW_INVALID_ARGUMENT, "%s: this output shares memory with %s", describe(out).chars,
                    describe(other).chars);
    }
  }
  return DXDW_OK;
}

Status check_options(const dxdw_options *options, bool adds_by_default, const Operand &on, Context *context, bool *add,
                     int32_t *precision, bool *batch_invariant) {
  *context = {on.tensor->device_type, on.tensor->device_id, nullptr, nullptr, 0};
  *add = adds_by_default;
  *precision = DXDW_PRECISION_DEFAULT;
  *batch_invariant = false;
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
  if (options->accumulate != DXDW_ACCUMULATE_DEFAULT) *add = options->accumulate == DXDW_ADD;
  *precision = options->precision;
  *batch_invariant = (options->flags & DXDW_BATCH_INVARIANT) != 0;
  context->stream = options->stream;
  context->workspace = options->workspace;
  context->workspace_bytes = options->workspace_bytes;
  return DXDW_OK;
}

// ---- The functions ----

Matrix matrix(const Operand &o) { return {o.data, o.type, o.size(0), o.size(1), o.strides[0], o.strides[1]}; }

struct Names {
  const char *names[kMostOperands];
  int count;
  int outputs_from;  // operands from here on are outputs
};

constexpr Names kNames[] = {{{"x", "w", "y"}, 3, 2},    {{"dy", "w", "dx"}, 3, 2}, {{"x", "dy", "dw"}, 3, 2},
                            {{"partials", "dw"}, 2, 1}, {{"x", "w", "y"}, 3, 2},   {{"x", "w", "g", "gx", "gw"}, 5, 3}};

constexpr int32_t kFunctions = sizeof kNames / sizeof kNames[0];

Status check_product(int32_t function, Operand *o, int32_t split, int32_t deterministic, const dxdw_options *options,
                     Call *call) {
  for (int i = 0; i < 3; ++i) DXDW_TRY(check_rank(o[i], 2));
  DXDW_TRY(check_same_type(o[1], o[0]));
  DXDW_TRY(check_output_type(o[2], o[0]));
  Matrix a = matrix(o[0]), b = matrix(o[1]);
  if (function == DXDW_Y) {
    DXDW_TRY(check_same_size(o[1], 0, o[0], 1));
    DXDW_TRY(check_same_size(o[2], 0, o[0], 0));
    DXDW_TRY(check_same_size(o[2], 1, o[1], 1));
  } else if (function == DXDW_DX) {
    DXDW_TRY(check_same_size(o[1], 1, o[0], 1));
    DXDW_TRY(check_same_size(o[2], 0, o[0], 0));
    DXDW_TRY(check_same_size(o[2], 1, o[1], 0));
    b = b.transposed();
  } else {
    DXDW_TRY(check_same_size(o[1], 0, o[0], 0));
    DXDW_TRY(check_same_size(o[2], 0, o[0], 1));
    DXDW_TRY(check_same_size(o[2], 1, o[1], 1));
    a = a.transposed();
    const int64_t tokens = o[0].size(0);
    if (split < 0 || split > (tokens < 1 ? 1 : tokens))
      return fail(DXDW_INVALID_ARGUMENT, "split: %d is outside 0 to %lld, the tokens of %s", split,
                  static_cast<long long>(tokens < 1 ? 1 : tokens), describe(o[0]).chars);
    if (deterministic != 0 && deterministic != 1)
      return fail(DXDW_INVALID_ARGUMENT, "deterministic: %d is neither 0 nor 1", deterministic);
  }
  Product &p = call->product;
  p.a = a;
  p.b = b;
  p.c = matrix(o[2]);
  DXDW_TRY(check_options(options, function == DXDW_DW, o[0], &call->context, &p.add, &p.precision, &p.batch_invariant));
  p.split = function == DXDW_DW ? split : 1;
  p.deterministic = function != DXDW_DW || deterministic == 1;
  call->empty = o[2].empty || (p.add && p.contraction() == 0);
  return DXDW_OK;
}

Status check_reduction(Operand *o, const dxdw_options *options, Call *call) {
  DXDW_TRY(check_rank(o[0], 3));
  DXDW_TRY(check_rank(o[1], 2));
  for (int i = 0; i < 2; ++i)
    if (o[i].type != DType::f32)
      return fail(DXDW_INVALID_ARGUMENT, "%s: type is %s, expected float32", describe(o[i]).chars,
                  type_name(o[i].type));
  DXDW_TRY(check_same_size(o[1], 0, o[0], 1));
  DXDW_TRY(check_same_size(o[1], 1, o[0], 2));
  Reduction &r = call->reduction;
  r.partials = {o[0].data, DType::f32, o[0].size(1), o[0].size(2), o[0].strides[1], o[0].strides[2]};
  r.split = o[0].size(0);
  r.split_stride = o[0].strides[0];
  r.dw = matrix(o[1]);
  int32_t precision;
  bool batch_invariant;
  DXDW_TRY(check_options(options, true, o[0], &call->context, &r.add, &precision, &batch_invariant));
  call->empty = o[1].empty || (r.add && r.split == 0);
  return DXDW_OK;
}

RowsView rows_view(const Operand &o) {
  RowsView view;
  view.data = o.tensor == nullptr ? nullptr : o.data;
  view.type = o.tensor == nullptr ? DType::f32 : o.type;
  view.feature_stride = 0;
  return view;
}

// Merges the leading dimensions of x with those of the `count` other views (feature dimension apart), outermost first.
void merge_rows(const Operand &x, const Operand *const *others, RowsView *const *views, int count, Rows *rows) {
  rows->ndim = 0;
  rows->count = 1;
  for (int32_t d = 0; d + 1 < x.ndim; ++d) {
    const int64_t size = x.size(d);
    rows->count *= size;
    if (size == 1) continue;
    const int32_t last = rows->ndim - 1;
    bool merges = last >= 0;
    for (int v = 0; v < count && merges; ++v)
      if (others[v]->tensor != nullptr) merges = views[v]->row_strides[last] == others[v]->strides[d] * size;
    const int32_t into = merges ? last : rows->ndim++;
    rows->shape[into] = merges ? rows->shape[into] * size : size;
    for (int v = 0; v < count; ++v)
      if (others[v]->tensor != nullptr) views[v]->row_strides[into] = others[v]->strides[d];
  }
  if (rows->ndim == 0) {
    rows->ndim = 1;
    rows->shape[0] = 1;
    for (int v = 0; v < count; ++v) views[v]->row_strides[0] = 0;
  }
}

Status check_row_count(const Operand &x) {
  int64_t count = 1;
  for (int32_t d = 0; d + 1 < x.ndim; ++d)
    if (__builtin_mul_overflow(count, x.size(d), &count))
      return fail(DXDW_INVALID_ARGUMENT, "%s: has more rows than 64 bits can count", describe(x).chars);
  return DXDW_OK;
}

Status check_weighted_operands(const Operand &x, const Operand &w, const Operand &per_row) {
  if (x.ndim < 1) return fail(DXDW_INVALID_ARGUMENT, "%s: rank is 0, expected 1 or more", describe(x).chars);
  DXDW_TRY(check_rank(w, 1));
  DXDW_TRY(check_rank(per_row, x.ndim - 1));
  DXDW_TRY(check_same_type(w, x));
  DXDW_TRY(check_same_size(w, 0, x, x.ndim - 1));
  for (int32_t d = 0; d + 1 < x.ndim; ++d) DXDW_TRY(check_same_size(per_row, d, x, d));
  return check_row_count(x);
}

Status check_forward(Operand *o, const dxdw_options *options, Call *call) {
  DXDW_TRY(check_weighted_operands(o[0], o[1], o[2]));
  DXDW_TRY(check_output_type(o[2], o[0]));
  WeightedSum &f = call->forward;
  int32_t precision;
  bool batch_invariant;
  DXDW_TRY(check_options(options, false, o[0], &call->context, &f.add, &precision, &batch_invariant));
  f.features = o[1].size(0);
  f.x = rows_view(o[0]);
  f.w = rows_view(o[1]);
  f.y = rows_view(o[2]);
  f.x.feature_stride = o[0].strides[o[0].ndim - 1];
  f.w.feature_stride = o[1].strides[0];
  const Operand *walked[] = {&o[0], &o[2]};
  RowsView *views[] = {&f.x, &f.y};
  merge_rows(o[0], walked, views, 2, &f.rows);
  call->empty = f.rows.count == 0 || (f.add && f.features == 0);
  return DXDW_OK;
}

Status check_backward(Operand *o, const dxdw_options *options, Call *call) {
  DXDW_TRY(check_weighted_operands(o[0], o[1], o[2]));
  DXDW_TRY(check_same_type(o[2], o[0]));
  const Operand &x = o[0];
  if (o[3].tensor != nullptr) {
    DXDW_TRY(check_rank(o[3], x.ndim));
    for (int32_t d = 0; d < x.ndim; ++d) DXDW_TRY(check_same_size(o[3], d, x, d));
    DXDW_TRY(check_output_type(o[3], x));
  }
  if (o[4].tensor != nullptr) {
    DXDW_TRY(check_rank(o[4], 1));
    DXDW_TRY(check_same_size(o[4], 0, x, x.ndim - 1));
    DXDW_TRY(check_output_type(o[4], x));
  }
  WeightedSumBackward &b = call->backward;
  int32_t precision;
  bool batch_invariant;
  DXDW_TRY(check_options(options, true, x, &call->context, &b.add_gw, &precision, &batch_invariant));
  b.add_gx = options != nullptr && options->accumulate == DXDW_ADD;
  b.features = o[1].size(0);
  RowsView *all[] = {&b.x, &b.w, &b.g, &b.gx, &b.gw};
  for (int i = 0; i < 5; ++i) *all[i] = rows_view(o[i]);
  b.x.feature_stride = x.strides[x.ndim - 1];
  b.w.feature_stride = o[1].strides[0];
  if (o[3].tensor != nullptr) b.gx.feature_stride = o[3].strides[o[3].ndim - 1];
  if (o[4].tensor != nullptr) b.gw.feature_stride = o[4].strides[0];
  const Operand *walked[] = {&o[0], &o[2], &o[3]};
  RowsView *views[] = {&b.x, &b.g, &b.gx};
  merge_rows(x, walked, views, 3, &b.rows);
  const bool gx_idle = b.gx.data == nullptr || o[3].empty;
  const bool gw_idle = b.gw.data == nullptr || o[4].empty || (b.add_gw && b.rows.count == 0);
  if (gx_idle) b.gx.data = nullptr;
  if (gw_idle) b.gw.data = nullptr;
  call->empty = gx_idle && gw_idle;
  return DXDW_OK;
}

// ---- The short way for the common call ----
//
// A small product costs less than its checks. So what is plainly right, dense or padded matrices on the CPU with
// default options, is accepted with few comparisons; whatever is not goes through the checks above, which also find the
// words for what is wrong.

// Sizes and strides below this can't overflow anything.
constexpr int kPlainBits = 30;

constexpr uint64_t word_of(uint64_t low, uint64_t high) { return low | high << 32; }

// The words that device_type and device_id, and ndim and dtype, make.
constexpr uint64_t kOnCpu = word_of(DXDW_CPU, 0);
constexpr uint64_t kMatrixF32 = word_of(2, DXDW_FLOAT | 32 << 8 | 1 << 16);
constexpr uint64_t kMatrixF16 = word_of(2, DXDW_FLOAT | 16 << 8 | 1 << 16);
constexpr uint64_t kMatrixBf16 = word_of(2, DXDW_BFLOAT | 16 << 8 | 1 << 16);

uint64_t word_at(const int32_t *p) {
  uint64_t word;
  memcpy(&word, p, sizeof word);
  return word;
}

// A non-empty matrix with strides that are not negative, and where its bytes end.
bool plain_matrix(const dxdw_tensor *t, Matrix *m, uint64_t *end) {
  if (t == nullptr || word_at(&t->device_type) != kOnCpu) return false;
  const uint64_t type = word_at(&t->ndim);
  m->type = type == kMatrixF32 ? DType::f32 : type == kMatrixF16 ? DType::f16 : DType::bf16;
  if (m->type == DType::bf16 && type != kMatrixBf16) return false;
  if (t->data == nullptr || t->shape == nullptr || t->strides == nullptr) return false;
  m->rows = t->shape[0];
  m->cols = t->shape[1];
  m->row_stride = t->strides[0];
  m->col_stride = t->strides[1];
  if (((m->rows - 1) | (m->cols - 1) | m->row_stride | m->col_stride) >> kPlainBits != 0) return false;
  m->data = static_cast<char *>(t->data) + t->byte_offset;
  const int64_t item = size_of(m->type), last = (m->rows - 1) * m->row_stride + (m->cols - 1) * m->col_stride;
  *end = reinterpret_cast<uint64_t>(m->data) + static_cast<uint64_t>((last + 1) * item);
  return (reinterpret_cast<uint64_t>(m->data) & static_cast<uint64_t>(item - 1)) == 0;
}

bool plain_product(int32_t function, const dxdw_tensor *const *tensors, int32_t split, int32_t deterministic,
                   Call *call) {
  Matrix first, second, out;
  uint64_t first_end, second_end, out_end;
  if (!plain_matrix(tensors[0], &first, &first_end) || !plain_matrix(tensors[1], &second, &second_end) ||
      !plain_matrix(tensors[2], &out, &out_end))
    return false;
  Product &p = call->product;
  p.a = function == DXDW_DW ? first.transposed() : first;
  p.b = function == DXDW_DX ? second.transposed() : second;
  p.c = out;
  const auto address = [](const Matrix &m) { return reinterpret_cast<uint64_t>(m.data); };
  const bool fits = p.a.cols == p.b.rows && p.c.rows == p.a.rows && p.c.cols == p.b.cols;
  const bool types = first.type == second.type && (out.type == DType::f32 || out.type == first.type);
  const bool distinct = out.col_stride > 0 && (out.rows == 1 || out.row_stride > (out.cols - 1) * out.col_stride);
  const bool apart = (out_end <= address(first) || first_end <= address(out)) &&
                     (out_end <= address(second) || second_end <= address(out));
  const bool slices = function != DXDW_DW || (split >= 0 && split <= p.a.cols && (deterministic | 1) == 1);
  if (!(fits && types && distinct && apart && slices)) return false;
  p.add = function == DXDW_DW;
  p.precision = DXDW_PRECISION_DEFAULT;
  p.batch_invariant = false;
  p.split = function == DXDW_DW ? split : 1;
  p.deterministic = function != DXDW_DW || deterministic == 1;
  call->function = function;
  call->empty = false;
  call->context = {DXDW_CPU, 0, nullptr, nullptr, 0};
  return true;
}

bool is_optional(int32_t function, int operand) { return function == DXDW_WEIGHTED_SUM_BWD && operand >= 3; }

bool is_absent(const dxdw_tensor *t) { return t == nullptr || (t->ndim == -1 && t->data == nullptr); }

Status check_operands(int32_t function, const dxdw_tensor *const *tensors, Operand *operands) {
  const Names &names = kNames[function];
  for (int i = 0; i < names.count; ++i) {
    if (__builtin_expect(is_optional(function, i), 0) && is_absent(tensors[i])) {
      operands[i].tensor = nullptr;
      operands[i].name = names.names[i];
      operands[i].output = true;
      continue;
    }
    DXDW_TRY(check_operand(names.names[i], tensors[i], i >= names.outputs_from, &operands[i]));
  }
  return DXDW_OK;
}

}  // namespace

int operand_count(int32_t function) { return function < 0 || function >= kFunctions ? 0 : kNames[function].count; }

Status check_call(int32_t function, const dxdw_tensor *const *tensors, int32_t split, int32_t deterministic,
                  const dxdw_options *options, Call *call) {
  if (options == nullptr && function >= DXDW_Y && function <= DXDW_DW &&
      plain_product(function, tensors, split, deterministic, call))
    return DXDW_OK;
  if (operand_count(function) == 0)
    return fail(DXDW_INVALID_ARGUMENT, "function: %d is outside 0 to %d", function, kFunctions - 1);
  Operand operands[kMostOperands];
  DXDW_TRY(check_operands(function, tensors, operands));
  call->function = function;
  switch (function) {
    case DXDW_Y:
    case DXDW_DX:
    case DXDW_DW: DXDW_TRY(check_product(function, operands, split, deterministic, options, call)); break;
    case DXDW_DW_REDUCE: DXDW_TRY(check_reduction(operands, options, call)); break;
    case DXDW_WEIGHTED_SUM_FWD: DXDW_TRY(check_forward(operands, options, call)); break;
    default: DXDW_TRY(check_backward(operands, options, call)); break;
  }
  return check_placement(operands, kNames[function].count);
}

Status check_workspace(const Call &call, const dxdw_tensor *const *tensors, uint64_t needed) {
  const Context &context = call.context;
  if (needed == 0) return DXDW_OK;
  if (context.workspace_bytes < needed)
    return fail(DXDW_INVALID_ARGUMENT, "workspace: %llu bytes given, %llu needed",
                static_cast<unsigned long long>(context.workspace_bytes), static_cast<unsigned long long>(needed));
  const uint64_t address = reinterpret_cast<uint64_t>(context.workspace);
  if (address % kWorkspaceAlignment != 0)
    return fail(DXDW_INVALID_ARGUMENT, "workspace: address %p of %llu bytes is not aligned to %llu bytes (%llu needed)",
                context.workspace, static_cast<unsigned long long>(context.workspace_bytes),
                static_cast<unsigned long long>(kWorkspaceAlignment), static_cast<unsigned long long>(needed));
  Operand operands[kMostOperands];
  DXDW_TRY(check_operands(call.function, tensors, operands));
  for (int i = 0; i < kNames[call.function].count; ++i) {
    if (operands[i].tensor == nullptr || operands[i].empty) continue;
    if (operands[i].lowest < address + needed && address < operands[i].end)
      return fail(DXDW_INVALID_ARGUMENT, "workspace: %llu bytes at %p share memory with %s",
                  static_cast<unsigned long long>(needed), context.workspace, describe(operands[i]).chars);
  }
  return DXDW_OK;
}

Status check_copy(const dxdw_tensor *source, const dxdw_tensor *destination, const dxdw_options *options, Copy *copy,
                  Context *context) {
  Operand from, to;
  DXDW_TRY(check_operand("source", source, false, &from));
  DXDW_TRY(check_operand("destination", destination, true, &to));
  DXDW_TRY(check_rank(to, from.ndim));
  for (int32_t d = 0; d < from.ndim; ++d) DXDW_TRY(check_same_size(to, d, from, d));
  bool add, batch_invariant;
  int32_t precision;
  const bool on_device = destination->device_type == DXDW_CUDA;
  DXDW_TRY(check_options(options, false, on_device ? to : from, context, &add, &precision, &batch_invariant));
  if (!to.empty) {
    if (!plainly_distinct(to) && overlaps_itself(footprint(to)))
      return fail(DXDW_INVALID_ARGUMENT, "%s: elements of this output share memory", describe(to).chars);
    const bool same_device =
        source->device_type == destination->device_type && source->device_id == destination->device_id;
    if (same_device && share_memory(to, from))
      return fail(DXDW_INVALID_ARGUMENT, "%s: this output shares memory with %s", describe(to).chars,
                  describe(from).chars);
  }
  copy->source = from.data;
  copy->destination = to.data;
  copy->source_type = from.type;
  copy->destination_type = to.type;
  copy->source_device_type = source->device_type;
  copy->source_device_id = source->device_id;
  copy->destination_device_type = destination->device_type;
  copy->destination_device_id = destination->device_id;
  copy->ndim = 0;
  copy->count = to.empty ? 0 : 1;
  for (int32_t d = 0; d < from.ndim && !to.empty; ++d) {
    const int64_t size = from.size(d);
    copy->count *= size;
    if (size == 1) continue;
    const int32_t last = copy->ndim - 1;
    const bool merges = last >= 0 && copy->source_strides[last] == from.strides[d] * size &&
                        copy->destination_strides[last] == to.strides[d] * size;
    const int32_t into = merges ? last : copy->ndim++;
    copy->shape[into] = merges ? copy->shape[into] * size : size;
    copy->source_strides[into] = from.strides[d];
    copy->destination_strides[into] = to.strides[d];
  }
  if (copy->ndim == 0) {
    copy->ndim = 1;
    copy->shape[0] = copy->count;
    copy->source_strides[0] = copy->destination_strides[0] = 1;
  }
  return DXDW_OK;
}

}  // namespace dxdw
