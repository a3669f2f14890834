#include "checks_training.hpp"

#include <float.h>
#include <math.h>

namespace dxdw {

namespace {

// Numbers that a function takes by way of dxdw_options.scalars: low to high, high itself only where `closed`.
struct ScalarRule {
  const char *name;
  double low, high;
  bool closed;
  bool whole;
};

Status check_scalars(const dxdw_options *options, const ScalarRule *rules, int count) {
  if (options == nullptr)
    return fail(DXDW_INVALID_ARGUMENT, "options: is NULL, expected scalars: %d numbers from %s on", count,
                rules[0].name);
  for (int i = 0; i < count; ++i) {
    const ScalarRule &rule = rules[i];
    const double value = options->scalars[i];
    const bool below = rule.closed ? value <= rule.high : value < rule.high;
    if (value >= rule.low && below && (!rule.whole || value == static_cast<double>(static_cast<int64_t>(value))))
      continue;
    return fail(DXDW_INVALID_ARGUMENT, "scalars: %s, number %d, is %g, expected %s from %g to %s%g", rule.name, i,
                value, rule.whole ? "a whole number" : "a number", rule.low, rule.closed ? "" : "below ", rule.high);
  }
  return DXDW_OK;
}

// A function that replaces what it writes, or reads it on its own account.
Status refuse_accumulate(const dxdw_options *options) {
  if (options == nullptr || options->accumulate == DXDW_ACCUMULATE_DEFAULT) return DXDW_OK;
  return fail(DXDW_INVALID_ARGUMENT, "options: accumulate is %d, expected %d for this function", options->accumulate,
              DXDW_ACCUMULATE_DEFAULT);
}

// One float32 number: shape [] or [1].
Status check_number(const Operand &o) {
  DXDW_TRY(check_float32(o));
  if (o.ndim == 0 || (o.ndim == 1 && o.size(0) == 1)) return DXDW_OK;
  return fail(DXDW_INVALID_ARGUMENT, "%s: shape is %s, expected [] or [1]", describe(o).chars,
              list_text(o.shape, o.ndim).chars);
}

// The distance of neighbours in dimension d; 0 where there are none.
int64_t distance(const Operand &o, int32_t d) {
  if (o.size(d) <= 1) return 0;
  const int64_t stride = stride_of(o, d);
  return stride < 0 ? -stride : stride;
}

// Dimensions of elementwise work, outermost first: in falling order of the strides of what is written.
void merge_elements(const Operand *const *operands, RowsView *const *views, int count, const Operand &written,
                    Rows *grid) {
  if (written.empty) {
    *grid = {1, 0, {0}};
    return;
  }
  int32_t dims[DXDW_MAX_NDIM];
  for (int32_t d = 0; d < written.ndim; ++d) {
    int32_t at = d;
    for (; at > 0 && distance(written, dims[at - 1]) < distance(written, d); --at) dims[at] = dims[at - 1];
    dims[at] = d;
  }
  merge_dims(operands, views, count, dims, written.ndim, grid);
}

// base^exponent; the C library's pow is of no use, for its symbol is younger than the C libraries to be served.
double power(double base, double exponent) {
  double result = 1.0;
  for (uint64_t left = static_cast<uint64_t>(exponent); left != 0; left >>= 1) {
    if (left & 1) result *= base;
    base *= base;
  }
  return result;
}

}  // namespace

Status check_elementwise(const Asked &asked, Operand *o, Call *call) {
  const bool two = asked.function != DXDW_RELU_FWD && asked.function != DXDW_GELU_FWD;
  const Operand &x = o[0], &out = o[two ? 2 : 1];
  if (two) {
    DXDW_TRY(check_same_type(o[1], x));
    DXDW_TRY(check_same_shape(o[1], x));
  }
  DXDW_TRY(check_output_type(out, x));
  DXDW_TRY(check_same_shape(out, x));
  Choice choice;
  DXDW_TRY(check_options(asked.options, false, x, &call->context, &choice));
  Elementwise &e = call->elementwise;
  e.add = choice.add;
  e.in[0] = rows_view(x);
  e.out = rows_view(out);
  if (two) e.in[1] = rows_view(o[1]);
  if (!two) e.in[1].data = nullptr;
  const Operand *walked[] = {&x, &out, &o[1]};
  RowsView *views[] = {&e.in[0], &e.out, &e.in[1]};
  merge_elements(walked, views, two ? 3 : 2, out, &e.grid);
  call->empty = out.empty;
  return DXDW_OK;
}

namespace {

// gb = sum of the rows of g, as the backward of a weighted sum whose g is all ones.
void fill_sums(const Operand &g, const Operand &gb, bool add, WeightedSumBackward *sums) {
  sums->features = gb.size(0);
  sums->add_gw = add;
  sums->add_gx = false;
  sums->x = rows_view(g);
  sums->x.feature_stride = stride_of(g, g.ndim - 1);
  sums->gw = rows_view(gb);
  sums->gw.feature_stride = stride_of(gb, 0);
  sums->w.data = sums->g.data = sums->gx.data = nullptr;
  sums->w.type = sums->g.type = sums->gx.type = DType::f32;
  sums->w.feature_stride = 1;
  sums->g.row_strides[0] = 0;
  const Operand *walked[] = {&g};
  RowsView *views[] = {&sums->x};
  merge_dims(walked, views, 1, nullptr, g.ndim - 1, &sums->rows);
}

Status check_bias(const Operand &g, const Operand &gb) {
  if (g.ndim < 1) return fail(DXDW_INVALID_ARGUMENT, "%s: rank is 0, expected 1 or more", describe(g).chars);
  DXDW_TRY(check_rank(gb, 1));
  DXDW_TRY(check_float32(gb));
  DXDW_TRY(check_same_size(gb, 0, g, g.ndim - 1));
  return DXDW_OK;
}

}  // namespace

Status check_sum_rows(const Asked &asked, Operand *o, Call *call) {
  DXDW_TRY(check_bias(o[0], o[1]));
  Choice choice;
  DXDW_TRY(check_options(asked.options, true, o[0], &call->context, &choice));
  fill_sums(o[0], o[1], choice.add, &call->backward);
  call->empty = o[1].empty || (choice.add && call->backward.rows.count == 0);
  return DXDW_OK;
}

Status check_product_bias(const Asked &asked, Operand *o, Call *call) {
  DXDW_TRY(check_product(asked, o, call));
  DXDW_TRY(check_bias(o[1], o[3]));
  ProductBias &p = call->product_bias;
  fill_sums(o[1], o[3], p.product.add, &p.sums);
  p.product_idle = call->empty;
  p.sums_idle = o[3].empty || (p.product.add && p.sums.rows.count == 0);
  call->empty = p.product_idle && p.sums_idle;
  return DXDW_OK;
}

Status check_row_loss(const Asked &asked, Operand *o, Call *call) {
  const bool softmax =
      asked.function == DXDW_SOFTMAX_CROSS_ENTROPY_FWD || asked.function == DXDW_SOFTMAX_CROSS_ENTROPY_BWD;
  const bool backward = asked.function == DXDW_SOFTMAX_CROSS_ENTROPY_BWD || asked.function == DXDW_SQUARED_ERROR_BWD;
  const Operand &x = o[0], &target = o[1], &y = o[2], &gx = o[3];
  if (x.ndim < 1) return fail(DXDW_INVALID_ARGUMENT, "%s: rank is 0, expected 1 or more", describe(x).chars);
  const int32_t lead = x.ndim - 1;
  if (softmax) {
    DXDW_TRY(check_rank(target, lead));
    for (int32_t d = 0; d < lead; ++d) DXDW_TRY(check_same_size(target, d, x, d));
  } else {
    DXDW_TRY(check_same_type(target, x));
    DXDW_TRY(check_same_shape(target, x));
  }
  DXDW_TRY(check_rank(y, lead));
  for (int32_t d = 0; d < lead; ++d) DXDW_TRY(check_same_size(y, d, x, d));
  if (backward) {
    DXDW_TRY(check_output_type(y, x));
    DXDW_TRY(check_same_shape(gx, x));
    DXDW_TRY(check_output_type(gx, x));
  } else {
    DXDW_TRY(check_float32(y));
  }
  Choice choice;
  DXDW_TRY(check_options(asked.options, false, x, &call->context, &choice));
  RowLoss &r = call->row_loss;
  r.add = choice.add;
  r.features = x.size(lead);
  r.x = rows_view(x);
  r.x.feature_stride = stride_of(x, lead);
  r.target = rows_view(target);
  if (!softmax) r.target.feature_stride = stride_of(target, lead);
  r.y = rows_view(y);
  r.gx.data = nullptr;
  if (backward) {
    r.gx = rows_view(gx);
    r.gx.feature_stride = stride_of(gx, lead);
  }
  const Operand *walked[] = {&x, &target, &y, &gx};
  RowsView *views[] = {&r.x, &r.target, &r.y, &r.gx};
  merge_dims(walked, views, backward ? 4 : 3, nullptr, lead, &r.rows);
  call->empty = backward ? gx.empty : r.rows.count == 0;
  return DXDW_OK;
}

Status check_squared_norm(const Asked &asked, Operand *o, Call *call) {
  DXDW_TRY(check_number(o[1]));
  Choice choice;
  DXDW_TRY(check_options(asked.options, true, o[0], &call->context, &choice));
  SquaredNorm &n = call->squared_norm;
  n.add = choice.add;
  n.x = rows_view(o[0]);
  n.norm = o[1].data;
  const Operand *walked[] = {&o[0]};
  RowsView *views[] = {&n.x};
  merge_dims(walked, views, 1, nullptr, o[0].ndim, &n.grid);
  call->empty = n.add && o[0].empty;
  return DXDW_OK;
}

Status check_clip_factor(const Asked &asked, Operand *o, Call *call) {
  static constexpr ScalarRule kRules[] = {{"maxNorm", 0, INFINITY, true, false}};
  DXDW_TRY(check_number(o[0]));
  DXDW_TRY(check_number(o[1]));
  Choice choice;
  DXDW_TRY(check_options(asked.options, false, o[0], &call->context, &choice));
  DXDW_TRY(refuse_accumulate(asked.options));
  DXDW_TRY(check_scalars(asked.options, kRules, 1));
  call->clip_factor = {o[0].data, o[1].data, static_cast<float>(asked.options->scalars[0])};
  call->empty = false;
  return DXDW_OK;
}

namespace {

// state: one or two operands, of which only the first may be absent.
Status check_step(const Asked &asked, const Operand &p, const Operand &g, const Operand *const *state, int states,
                  const Operand &copy, const Operand &scale, Call *call) {
  DXDW_TRY(check_float32(p));
  DXDW_TRY(check_float32(g));
  DXDW_TRY(check_same_shape(g, p));
  for (int i = 0; i < states; ++i) {
    if (state[i]->tensor == nullptr) continue;
    DXDW_TRY(check_float32(*state[i]));
    DXDW_TRY(check_same_shape(*state[i], p));
  }
  if (copy.tensor != nullptr) {
    if (copy.type != DType::f16 && copy.type != DType::bf16)
      return fail(DXDW_INVALID_ARGUMENT, "%s: type is %s, expected float16 or bfloat16", describe(copy).chars,
                  type_name(copy.type));
    DXDW_TRY(check_same_shape(copy, p));
  }
  if (scale.tensor != nullptr) DXDW_TRY(check_number(scale));
  Choice choice;
  DXDW_TRY(check_options(asked.options, false, p, &call->context, &choice));
  DXDW_TRY(refuse_accumulate(asked.options));
  OptimizerStep &s = call->step;
  s.p = rows_view(p);
  s.g = rows_view(g);
  s.copy = rows_view(copy);
  s.scale = scale.tensor == nullptr ? nullptr : scale.data;
  const Operand *walked[] = {&p, &g, &copy, nullptr, nullptr};
  RowsView *views[] = {&s.p, &s.g, &s.copy, &s.state[0], &s.state[1]};
  s.state[0].data = s.state[1].data = nullptr;
  for (int i = 0; i < states; ++i) {
    s.state[i] = rows_view(*state[i]);
    walked[3 + i] = state[i];
  }
  merge_elements(walked, views, 3 + states, p, &s.grid);
  call->empty = p.empty;
  return DXDW_OK;
}

}  // namespace

Status check_sgd(const Asked &asked, Operand *o, Call *call) {
  static constexpr ScalarRule kRules[] = {{"lr", 0, FLT_MAX, true, false},
                                          {"momentum", 0, FLT_MAX, true, false},
                                          {"weightDecay", 0, FLT_MAX, true, false},
                                          {"nesterov", 0, 1, true, true}};
  const Operand *state[] = {&o[2]};
  DXDW_TRY(check_step(asked, o[0], o[1], state, 1, o[3], o[4], call));
  DXDW_TRY(check_scalars(asked.options, kRules, 4));
  const double *const scalars = asked.options->scalars;
  if (o[2].tensor == nullptr && scalars[1] != 0)
    return fail(DXDW_INVALID_ARGUMENT, "scalars: momentum is %g, expected 0 without a velocity", scalars[1]);
  if (scalars[3] != 0 && scalars[1] == 0)
    return fail(DXDW_INVALID_ARGUMENT, "scalars: nesterov is %g, expected 0 where momentum is %g", scalars[3],
                scalars[1]);
  call->step.sgd = {static_cast<float>(scalars[0]), static_cast<float>(scalars[1]), static_cast<float>(scalars[2]),
                    scalars[3] != 0};
  return DXDW_OK;
}

Status check_adamw(const Asked &asked, Operand *o, Call *call) {
  static constexpr ScalarRule kRules[] = {{"lr", 0, FLT_MAX, true, false},
                                          {"beta1", 0, 1, false, false},
                                          {"beta2", 0, 1, false, false},
                                          {"eps", 0, FLT_MAX, true, false},
                                          {"weightDecay", 0, FLT_MAX, true, false},
                                          {"step", 1, 0x1p53, true, true}};
  const Operand *state[] = {&o[2], &o[3]};
  DXDW_TRY(check_step(asked, o[0], o[1], state, 2, o[4], o[5], call));
  DXDW_TRY(check_scalars(asked.options, kRules, 6));
  const double *const scalars = asked.options->scalars;
  const double lr = scalars[0], beta1 = scalars[1], beta2 = scalars[2], step = scalars[5];
  const double decay = lr * scalars[4], rate = lr / (1 - power(beta1, step));
  if (rate > FLT_MAX || decay > FLT_MAX)
    return fail(DXDW_INVALID_ARGUMENT,
                "scalars: lr, number 0, is %g: lr / (1 - beta1^step) is %g and lr . weightDecay %g, expected float32",
                lr, rate, decay);
  AdamWNumbers &n = call->step.adamw;
  n.keep = static_cast<float>(1 - decay);
  n.beta1 = static_cast<float>(beta1);
  n.rest1 = static_cast<float>(1 - beta1);
  n.beta2 = static_cast<float>(beta2);
  n.rest2 = static_cast<float>(1 - beta2);
  n.step = static_cast<float>(rate);
  n.inverse_root = static_cast<float>(1 / __builtin_sqrt(1 - power(beta2, step)));
  n.eps = static_cast<float>(scalars[3]);
  return DXDW_OK;
}

}  // namespace dxdw
