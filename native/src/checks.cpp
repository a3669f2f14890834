#include "checks.hpp"

#include <string.h>

#include "checks_training.hpp"
#include "operands.hpp"

namespace dxdw {

// ---- Products and weighted sums ----

// Can the bytes of slices be counted, rows padded to four floats? Expanded operands have room for any number of slices.
static bool slices_countable(int64_t rows, int64_t cols, int32_t split) {
  int64_t floats;
  return !__builtin_mul_overflow(rows, cols + 3, &floats) && !__builtin_mul_overflow(floats, split, &floats) &&
         floats <= INT64_MAX / 4;
}

static Status check_slices(const Asked &asked, const Operand &x, const Operand &dw) {
  const int64_t most = x.size(0) < 1 ? 1 : x.size(0);
  if (asked.split < 0 || asked.split > most)
    return fail(DXDW_INVALID_ARGUMENT, "split: %d is outside 0 to %lld, the tokens of %s", asked.split,
                static_cast<long long>(most), describe(x).chars);
  if (asked.deterministic != 0 && asked.deterministic != 1)
    return fail(DXDW_INVALID_ARGUMENT, "deterministic: %d is neither 0 nor 1", asked.deterministic);
  if (asked.split <= 1 || dw.empty || slices_countable(dw.size(0), dw.size(1), asked.split)) return DXDW_OK;
  return fail(DXDW_INVALID_ARGUMENT, "split: %d slices of %s take more bytes than 64 bits can count", asked.split,
              describe(dw).chars);
}

Status check_product(const Asked &asked, Operand *o, Call *call) {
  const int32_t function = asked.function;
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
    DXDW_TRY(check_slices(asked, o[0], o[2]));
  }
  Product &p = call->product;
  p.a = a;
  p.b = b;
  p.c = matrix(o[2]);
  const bool is_dw = function == DXDW_DW || function == DXDW_DW_BIAS;
  Choice choice;
  DXDW_TRY(check_options(asked.options, is_dw, o[0], &call->context, &choice));
  p.add = choice.add;
  p.precision = choice.precision;
  p.batch_invariant = choice.batch_invariant;
  p.split = is_dw ? asked.split : 1;
  p.deterministic = !is_dw || asked.deterministic == 1;
  call->empty = o[2].empty || (p.add && p.contraction() == 0);
  return DXDW_OK;
}

namespace {

constexpr uint64_t kWorkspaceAlignment = 64;

Status check_reduction(const Asked &asked, Operand *o, Call *call) {
  DXDW_TRY(check_rank(o[0], 3));
  DXDW_TRY(check_rank(o[1], 2));
  for (int i = 0; i < 2; ++i) DXDW_TRY(check_float32(o[i]));
  DXDW_TRY(check_same_size(o[1], 0, o[0], 1));
  DXDW_TRY(check_same_size(o[1], 1, o[0], 2));
  Reduction &r = call->reduction;
  r.partials = {o[0].data, DType::f32, o[0].size(1), o[0].size(2), stride_of(o[0], 1), stride_of(o[0], 2)};
  r.split = o[0].size(0);
  r.split_stride = stride_of(o[0], 0);
  r.dw = matrix(o[1]);
  Choice choice;
  DXDW_TRY(check_options(asked.options, true, o[0], &call->context, &choice));
  r.add = choice.add;
  call->empty = o[1].empty || (r.add && r.split == 0);
  return DXDW_OK;
}

Status check_weighted_operands(const Operand &x, const Operand &w, const Operand &per_row) {
  if (x.ndim < 1) return fail(DXDW_INVALID_ARGUMENT, "%s: rank is 0, expected 1 or more", describe(x).chars);
  DXDW_TRY(check_rank(w, 1));
  DXDW_TRY(check_rank(per_row, x.ndim - 1));
  DXDW_TRY(check_same_type(w, x));
  DXDW_TRY(check_same_size(w, 0, x, x.ndim - 1));
  for (int32_t d = 0; d + 1 < x.ndim; ++d) DXDW_TRY(check_same_size(per_row, d, x, d));
  return DXDW_OK;
}

Status check_forward(const Asked &asked, Operand *o, Call *call) {
  DXDW_TRY(check_weighted_operands(o[0], o[1], o[2]));
  DXDW_TRY(check_output_type(o[2], o[0]));
  WeightedSum &f = call->forward;
  Choice choice;
  DXDW_TRY(check_options(asked.options, false, o[0], &call->context, &choice));
  f.add = choice.add;
  f.features = o[1].size(0);
  f.x = rows_view(o[0]);
  f.w = rows_view(o[1]);
  f.y = rows_view(o[2]);
  f.x.feature_stride = stride_of(o[0], o[0].ndim - 1);
  f.w.feature_stride = stride_of(o[1], 0);
  const Operand *walked[] = {&o[0], &o[2]};
  RowsView *views[] = {&f.x, &f.y};
  merge_dims(walked, views, 2, nullptr, o[0].ndim - 1, &f.rows);
  call->empty = f.rows.count == 0 || (f.add && f.features == 0);
  return DXDW_OK;
}

Status check_backward(const Asked &asked, Operand *o, Call *call) {
  DXDW_TRY(check_weighted_operands(o[0], o[1], o[2]));
  DXDW_TRY(check_same_type(o[2], o[0]));
  const Operand &x = o[0];
  if (o[3].tensor != nullptr) {
    DXDW_TRY(check_same_shape(o[3], x));
    DXDW_TRY(check_output_type(o[3], x));
  }
  if (o[4].tensor != nullptr) {
    DXDW_TRY(check_rank(o[4], 1));
    DXDW_TRY(check_same_size(o[4], 0, x, x.ndim - 1));
    DXDW_TRY(check_output_type(o[4], x));
  }
  WeightedSumBackward &b = call->backward;
  Choice choice;
  DXDW_TRY(check_options(asked.options, true, x, &call->context, &choice));
  b.add_gw = choice.add;
  b.add_gx = asked.options != nullptr && asked.options->accumulate == DXDW_ADD;
  b.features = o[1].size(0);
  RowsView *all[] = {&b.x, &b.w, &b.g, &b.gx, &b.gw};
  for (int i = 0; i < 5; ++i) *all[i] = rows_view(o[i]);
  b.x.feature_stride = stride_of(x, x.ndim - 1);
  b.w.feature_stride = stride_of(o[1], 0);
  if (o[3].tensor != nullptr) b.gx.feature_stride = stride_of(o[3], o[3].ndim - 1);
  if (o[4].tensor != nullptr) b.gw.feature_stride = stride_of(o[4], 0);
  const Operand *walked[] = {&o[0], &o[2], &o[3]};
  RowsView *views[] = {&b.x, &b.g, &b.gx};
  merge_dims(walked, views, 3, nullptr, x.ndim - 1, &b.rows);
  const bool gx_idle = b.gx.data == nullptr || o[3].empty;
  const bool gw_idle = b.gw.data == nullptr || o[4].empty || (b.add_gw && b.rows.count == 0);
  if (gx_idle) b.gx.data = nullptr;
  if (gw_idle) b.gw.data = nullptr;
  call->empty = gx_idle && gw_idle;
  return DXDW_OK;
}

// ---- All functions ----

constexpr OperandRule in(const char *name) { return {name, false, false, false}; }
constexpr OperandRule maybe_in(const char *name) { return {name, false, true, false}; }
constexpr OperandRule labels(const char *name) { return {name, false, false, true}; }
constexpr OperandRule out(const char *name) { return {name, true, false, false}; }
constexpr OperandRule maybe_out(const char *name) { return {name, true, true, false}; }

struct Function {
  Family family;
  Check check;
  int count;  // of operands; 0: none of dxdw_call's launches
  OperandRule operands[kMostOperands];
  bool in_place = false;
};

// By dxdw_function.
constexpr Function kFunctions[] = {
    {Family::product, check_product, 3, {in("x"), in("w"), out("y")}},
    {Family::product, check_product, 3, {in("dy"), in("w"), out("dx")}},
    {Family::product, check_product, 3, {in("x"), in("dy"), out("dw")}},
    {Family::reduction, check_reduction, 2, {in("partials"), out("dw")}},
    {Family::forward, check_forward, 3, {in("x"), in("w"), out("y")}},
    {Family::backward, check_backward, 5, {in("x"), in("w"), in("g"), maybe_out("gx"), maybe_out("gw")}},
    {Family::product, nullptr, 0, {}},  // DXDW_COPY
    {Family::elementwise, check_elementwise, 3, {in("a"), in("b"), out("y")}, true},
    {Family::elementwise, check_elementwise, 2, {in("x"), out("y")}, true},
    {Family::elementwise, check_elementwise, 3, {in("x"), in("g"), out("gx")}, true},
    {Family::elementwise, check_elementwise, 2, {in("x"), out("y")}, true},
    {Family::elementwise, check_elementwise, 3, {in("x"), in("g"), out("gx")}, true},
    {Family::backward, check_sum_rows, 2, {in("g"), out("gb")}},
    {Family::product_bias, check_product_bias, 4, {in("x"), in("dy"), out("dw"), out("db")}},
    {Family::row_loss, check_row_loss, 3, {in("logits"), labels("labels"), out("loss")}},
    {Family::row_loss, check_row_loss, 4, {in("logits"), labels("labels"), in("g"), out("gx")}},
    {Family::row_loss, check_row_loss, 3, {in("x"), in("target"), out("loss")}},
    {Family::row_loss, check_row_loss, 4, {in("x"), in("target"), in("g"), out("gx")}},
    {Family::squared_norm, check_squared_norm, 2, {in("x"), out("norm")}},
    {Family::clip_factor, check_clip_factor, 2, {in("norm"), out("scale")}, true},
    {Family::step, check_sgd, 5, {out("p"), in("g"), maybe_out("velocity"), maybe_out("copy"), maybe_in("scale")}},
    {Family::step, check_adamw, 6, {out("p"), in("g"), out("m"), out("v"), maybe_out("copy"), maybe_in("scale")}},
};

constexpr int32_t kFunctionCount = sizeof kFunctions / sizeof kFunctions[0];
static_assert(kFunctionCount == DXDW_ADAMW + 1, "one line a function");

bool is_absent(const dxdw_tensor *t) { return t == nullptr || (t->ndim == -1 && t->data == nullptr); }

Status check_operands(const Function &function, const dxdw_tensor *const *tensors, Operand *operands) {
  for (int i = 0; i < function.count; ++i) {
    const OperandRule &rule = function.operands[i];
    if (__builtin_expect(rule.optional, 0) && is_absent(tensors[i])) {
      operands[i].tensor = nullptr;
      operands[i].name = rule.name;
      operands[i].output = rule.output;
      continue;
    }
    DXDW_TRY(check_operand(rule, tensors[i], &operands[i]));
    DXDW_TRY(check_kind(rule.name, operands[i].type, rule.labels));
  }
  return DXDW_OK;
}

}  // namespace

int operand_count(int32_t function) {
  return function < 0 || function >= kFunctionCount ? 0 : kFunctions[function].count;
}

Status check_call(int32_t function, const dxdw_tensor *const *tensors, int32_t split, int32_t deterministic,
                  const dxdw_options *options, Call *call) {
  if (operand_count(function) == 0)
    return fail(DXDW_INVALID_ARGUMENT, "function: %d is outside 0 to %d", function, kFunctionCount - 1);
  const Function &asked = kFunctions[function];
  Operand operands[kMostOperands];
  DXDW_TRY(check_operands(asked, tensors, operands));
  call->function = function;
  call->family = asked.family;
  DXDW_TRY(asked.check({function, split, deterministic, options}, operands, call));
  return check_placement(operands, asked.count, asked.in_place);
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
  const Function &function = kFunctions[call.function];
  Operand operands[kMostOperands];
  DXDW_TRY(check_operands(function, tensors, operands));
  for (int i = 0; i < function.count; ++i) {
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
  DXDW_TRY(check_operand(in("source"), source, &from));
  DXDW_TRY(check_operand(out("destination"), destination, &to));
  DXDW_TRY(check_same_shape(to, from));
  if ((from.type == DType::i32) != (to.type == DType::i32)) DXDW_TRY(check_same_type(to, from));
  Choice choice;
  const bool on_device = destination->device_type == DXDW_CUDA;
  DXDW_TRY(check_options(options, false, on_device ? to : from, context, &choice));
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
    const bool merges = last >= 0 && spans(copy->source_strides[last], from.strides[d], size) &&
                        spans(copy->destination_strides[last], to.strides[d], size);
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

// ---- The short way for the common call ----
//
// A small product costs less than its checks. So what is plainly right, dense or padded matrices on the CPU with
// default options, is accepted with few comparisons; whatever is not goes through the checks above, which also find the
// words for what is wrong.

namespace {

// Sizes and strides below this can't overflow anything.
constexpr int kPlainBits = 30;

constexpr uint64_t word_of(uint64_t low, uint64_t high) { return low | high << 32; }

// The words that device_type and device_id, and ndim and dtype, make.
constexpr uint64_t kOnCpu = word_of(DXDW_CPU, 0);
constexpr uint64_t kMatrixF32 = word_of(2, DXDW_FLOAT | 32 << 8 | 1 << 16);
constexpr uint64_t kMatrixF16 = word_of(2, DXDW_FLOAT | 16 << 8 | 1 << 16);
constexpr uint64_t kMatrixBf16 = word_of(2, DXDW_BFLOAT | 16 << 8 | 1 << 16);

inline uint64_t word_at(const int32_t *p) {
  uint64_t word;
  memcpy(&word, p, sizeof word);
  return word;
}

// Takes a non-empty matrix with strides that are not negative, or, where `turned`, its transposed; returns where its
// bytes end, 0 for whatever is not plain.
uint64_t take_plain(const dxdw_tensor *t, bool turned, Matrix *m) {
  const uint64_t type = word_at(&t->ndim);
  const bool is_f32 = type == kMatrixF32;
  if (word_at(&t->device_type) != kOnCpu || (!is_f32 && type != kMatrixF16 && type != kMatrixBf16)) return 0;
  if (t->data == nullptr || t->shape == nullptr) return 0;
  const int64_t rows = t->shape[0], cols = t->shape[1];
  int64_t row_stride = cols, col_stride = 1;
  if (t->strides != nullptr) {
    row_stride = t->strides[0];
    col_stride = t->strides[1];
  }
  const uint64_t last_row = static_cast<uint64_t>(rows) - 1, last_col = static_cast<uint64_t>(cols) - 1;
  if ((last_row | last_col | static_cast<uint64_t>(row_stride | col_stride)) >> kPlainBits != 0) return 0;
  m->data = address_of(t);
  m->type = is_f32 ? DType::f32 : type == kMatrixF16 ? DType::f16 : DType::bf16;
  m->rows = turned ? cols : rows;
  m->cols = turned ? rows : cols;
  m->row_stride = turned ? col_stride : row_stride;
  m->col_stride = turned ? row_stride : col_stride;
  const uint64_t start = reinterpret_cast<uint64_t>(m->data), item = is_f32 ? 4 : 2;
  if ((start & (item - 1)) != 0) return 0;
  return start + static_cast<uint64_t>((rows - 1) * row_stride + (cols - 1) * col_stride + 1) * item;
}

}  // namespace

bool plain_product(int32_t function, const dxdw_tensor *first, const dxdw_tensor *second, const dxdw_tensor *out,
                   int32_t split, int32_t deterministic, Product *p) {
  if (first == nullptr || second == nullptr || out == nullptr) return false;
  const bool is_dw = function == DXDW_DW;
  const uint64_t a_end = take_plain(first, is_dw, &p->a), b_end = take_plain(second, function == DXDW_DX, &p->b),
                 c_end = take_plain(out, false, &p->c);
  if (a_end == 0 || b_end == 0 || c_end == 0) return false;
  if (p->a.cols != p->b.rows || p->c.rows != p->a.rows || p->c.cols != p->b.cols) return false;
  if (p->a.type != p->b.type || (p->c.type != DType::f32 && p->c.type != p->a.type)) return false;
  if (p->c.col_stride == 0 || (p->c.rows > 1 && p->c.row_stride <= (p->c.cols - 1) * p->c.col_stride)) return false;
  const auto start = [](const Matrix &m) { return reinterpret_cast<uint64_t>(m.data); };
  if (c_end > start(p->a) && a_end > start(p->c)) return false;
  if (c_end > start(p->b) && b_end > start(p->c)) return false;
  p->split = 1;
  p->deterministic = true;
  if (is_dw) {
    if (split < 0 || split > p->a.cols || (deterministic | 1) != 1) return false;
    if (split > 1 && !slices_countable(p->c.rows, p->c.cols, split)) return false;
    p->split = split;
    p->deterministic = deterministic == 1;
  }
  p->add = is_dw;
  p->precision = DXDW_PRECISION_DEFAULT;
  p->batch_invariant = false;
  return true;
}

}  // namespace dxdw
