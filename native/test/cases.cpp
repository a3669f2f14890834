#include "cases.hpp"

namespace test {

bool level_has_fma() { return strcmp(dxdw_simd_level(), "baseline") != 0; }

namespace {

// ---- References ----

// out[n] = chain over l of a[l] . b[l][n], from +0.0, one fused multiply-add each.
template <typename Fma>
inline __attribute__((always_inline)) void chain_loops(const float *a, const float *b, int64_t length, int64_t width,
                                                       float *out, Fma fused) {
  for (int64_t n = 0; n < width; ++n) out[n] = 0.0f;
  for (int64_t l = 0; l < length; ++l)
    for (int64_t n = 0; n < width; ++n) out[n] = fused(a[l], b[l * width + n], out[n]);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"), optimize("O3"))) void chain_fma(const float *a, const float *b, int64_t length,
                                                                   int64_t width, float *out) {
  for (int64_t n = 0; n < width; ++n) out[n] = 0.0f;
  for (int64_t l = 0; l < length; ++l)
    for (int64_t n = 0; n < width; ++n) out[n] = __builtin_fmaf(a[l], b[l * width + n], out[n]);
}
#endif

void chain(const float *a, const float *b, int64_t length, int64_t width, float *out) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2")) return chain_fma(a, b, length, width, out);
#endif
  chain_loops(a, b, length, width, out, [](float x, float y, float z) { return fmaf(x, y, z); });
}

// The order that dxdw.h promises for one slice: blocks of the contraction, the first assigned or added to `old`.
void chain_blocks(const float *a, const float *b, int64_t length, int64_t width, const float *old, float *out,
                  std::vector<float> *scratch) {
  scratch->resize(static_cast<size_t>(width));
  for (int64_t from = 0; from < length || from == 0; from += DXDW_CPU_BLOCK) {
    const int64_t block = length - from < DXDW_CPU_BLOCK ? length - from : DXDW_CPU_BLOCK;
    chain(a + from, b + from * width, block, width, scratch->data());
    for (int64_t n = 0; n < width; ++n) {
      const float sum = (*scratch)[static_cast<size_t>(n)];
      out[n] = from > 0 ? out[n] + sum : old != nullptr ? old[n] + sum : sum;
    }
  }
}

std::vector<float> transposed(const std::vector<float> &values, int64_t rows, int64_t cols) {
  std::vector<float> out(values.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      out[static_cast<size_t>(c * rows + r)] = values[static_cast<size_t>(r * cols + c)];
  return out;
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Longest chain of roundings in a sum of `length` products that is cut into blocks and slices.
double chain_length(int64_t length, int64_t split) {
  const double block = static_cast<double>(length < DXDW_CPU_BLOCK ? length : DXDW_CPU_BLOCK);
  return block + static_cast<double>(ceil_div(length, DXDW_CPU_BLOCK) + split) + 3;
}

// How far a result may be from the fp64 value: `steps` roundings of a sum whose terms have the sizes summed in
// `magnitude`, and one rounding to the output type.
double bound(Type out, double steps, double magnitude, double value) {
  const double smallest = out == Type::f16 ? 0x1p-25 : 0x1p-126;
  return 1.01 * (steps * 0x1p-24 * magnitude + roundoff_of(out) * fabs(value)) + smallest;
}

const char *text_of_function(int32_t function) {
  const char *names[] = {"y_launch", "dx_launch", "dw_launch", "dw_reduce", "weighted_sum_fwd", "weighted_sum_bwd"};
  return names[function];
}

// Layout of an array operand that is not wanted.
dxdw_tensor absent() {
  dxdw_tensor tensor = {};
  tensor.ndim = -1;
  return tensor;
}

void check_surroundings(const Operand *operands, int count, int outputs_from, const std::string &what) {
  for (int i = 0; i < count; ++i) {
    if (i < outputs_from)
      CHECK(operands[i].untouched(), "%s: operand %d, an input, was written", what.c_str(), i);
    else
      CHECK(operands[i].gaps_untouched(), "%s: operand %d: memory between or around the output's elements was written",
            what.c_str(), i);
  }
}

}  // namespace

// ---- Products ----

void run(const ProductCase &c, const Memory &memory) {
  const int64_t shapes[3][3][2] = {
      {{c.t, c.k}, {c.k, c.n}, {c.t, c.n}}, {{c.t, c.n}, {c.k, c.n}, {c.t, c.k}}, {{c.t, c.k}, {c.t, c.n}, {c.k, c.n}}};
  const bool is_dw = c.function == DXDW_DW;
  const bool add = c.accumulate == DXDW_ADD || (c.accumulate == DXDW_ACCUMULATE_DEFAULT && is_dw);
  Random random(c.seed);
  Operand o[3];
  for (int i = 0; i < 3; ++i) {
    const int64_t *shape = shapes[c.function][i];
    o[i].place(memory.operands[i], c.places[i], i < 2 ? c.in : c.out, {shape[0], shape[1]}, c.layouts[i]);
    if (i < 2 || add) o[i].fill_random(&random);
  }
  const std::vector<float> old = o[2].values();
  for (Operand &operand : o) operand.remember();
  dxdw_tensor array[3];
  for (int i = 0; i < 3; ++i) array[i] = *o[i].tensor(c.by_offset);

  std::string what =
      std::string(text_of_function(c.function)) + " T " + std::to_string(c.t) + " K " + std::to_string(c.k) + " N " +
      std::to_string(c.n) + " split " + std::to_string(c.split) + " deterministic " + std::to_string(c.deterministic) +
      " accumulate " + std::to_string(c.accumulate) + " precision " + std::to_string(c.precision) + " seed " +
      std::to_string(c.seed) + " level " + dxdw_simd_level() + " threads " + std::to_string(dxdw_threads());
  for (const Operand &operand : o) what += "\n  " + operand.text();

  dxdw_options options = options_of(c.accumulate, c.precision);
  dxdw_plan plan = {};
  plan.size = sizeof plan;
  if (dxdw_explain(c.function, array, c.split, c.deterministic, &options, &plan) != DXDW_OK)
    FAIL("%s: explain: %s", what.c_str(), dxdw_last_error());
  uint64_t bytes = ~uint64_t{0};
  if (dxdw_workspace(c.function, array, c.split, c.deterministic, &options, &bytes) != DXDW_OK)
    FAIL("%s: workspace: %s", what.c_str(), dxdw_last_error());
  CHECK(bytes == plan.workspace_bytes, "%s: workspace %llu, explain says %llu", what.c_str(),
        static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(plan.workspace_bytes));
  CHECK(plan.split >= 1 && (is_dw ? c.split == 0 || plan.split == c.split || c.k * c.n * c.t == 0 : plan.split == 1),
        "%s: planned split %d", what.c_str(), plan.split);

  // A workspace of exactly the bytes asked for, its end (rounded up to the alignment) at a guard page.
  const uint64_t padded = (bytes + 63) / 64 * 64;
  if (c.own_workspace && bytes > 0) {
    if (static_cast<int64_t>(padded) > memory.operands[3].high() - memory.operands[3].low())
      FAIL("%s: arena too small for a workspace of %llu bytes", what.c_str(), static_cast<unsigned long long>(bytes));
    options.workspace = memory.operands[3].high() - padded;
    options.workspace_bytes = bytes;
    memset(options.workspace, 0xFF, padded);
  }

  set_context(what);
  int32_t status;
  if (c.through_call)
    status = dxdw_call(c.function, array, c.split, c.deterministic, &options, nullptr, nullptr, nullptr, nullptr,
                       nullptr, nullptr);
  else if (c.function == DXDW_Y)
    status = y_launch(&array[0], &array[1], &array[2], &options);
  else if (c.function == DXDW_DX)
    status = dx_launch(&array[0], &array[1], &array[2], &options);
  else
    status = dw_launch(&array[0], &array[1], &array[2], c.split, c.deterministic, &options);
  if (status != DXDW_OK) FAIL("%s: status %d: %s", what.c_str(), status, dxdw_last_error());

  check_surroundings(o, 3, 2, what);
  if (options.workspace != nullptr)
    for (uint64_t i = bytes; i < padded; ++i)
      CHECK(static_cast<char *>(options.workspace)[i] == '\xFF', "%s: wrote behind the workspace", what.c_str());

  // As C[m,n] = A[m,l] . B[l,n].
  std::vector<float> a = o[0].values(), b = o[1].values();
  int64_t m = c.t, length = c.k, n = c.n;
  if (c.function == DXDW_DX) {
    b = transposed(b, c.k, c.n);
    length = c.n;
    n = c.k;
  } else if (is_dw) {
    a = transposed(a, c.t, c.k);
    m = c.k;
    length = c.t;
  }
  const int64_t split = is_dw ? plan.split : 1;
  const bool bits = level_has_fma() && (c.in != Type::bf16 || c.precision == DXDW_PRECISION_EXACT) &&
                    (split == 1 || c.deterministic == 1);
  const int64_t chunk = ceil_div(length, split);
  std::vector<float> row(static_cast<size_t>(n)), partial(static_cast<size_t>(n)), scratch;
  std::vector<double> exact(static_cast<size_t>(n)), size(static_cast<size_t>(n));
  for (int64_t i = 0; i < m; ++i) {
    const float *a_row = a.data() + i * length;
    const float *old_row = old.data() + i * n;
    for (int64_t j = 0; j < n; ++j) {
      exact[static_cast<size_t>(j)] = add ? static_cast<double>(old_row[j]) : 0.0;
      size[static_cast<size_t>(j)] = fabs(exact[static_cast<size_t>(j)]);
    }
    for (int64_t l = 0; l < length; ++l)
      for (int64_t j = 0; j < n; ++j) {
        const double product = static_cast<double>(a_row[l]) * static_cast<double>(b[static_cast<size_t>(l * n + j)]);
        exact[static_cast<size_t>(j)] += product;
        size[static_cast<size_t>(j)] += fabs(product);
      }
    if (bits && split == 1) {
      if (length > 0 || !add)
        chain_blocks(a_row, b.data(), length, n, add ? old_row : nullptr, row.data(), &scratch);
      else
        row.assign(old_row, old_row + n);
    } else if (bits) {
      for (float &value : row) value = 0.0f;
      for (int64_t s = 0; s < split; ++s) {
        const int64_t from = s * chunk < length ? s * chunk : length;
        const int64_t to = from + chunk < length ? from + chunk : length;
        chain_blocks(a_row + from, b.data() + from * n, to - from, n, nullptr, partial.data(), &scratch);
        for (int64_t j = 0; j < n; ++j) row[static_cast<size_t>(j)] += partial[static_cast<size_t>(j)];
      }
      for (int64_t j = 0; add && j < n; ++j) row[static_cast<size_t>(j)] = old_row[j] + row[static_cast<size_t>(j)];
    }
    for (int64_t j = 0; j < n; ++j) {
      const size_t at = static_cast<size_t>(j);
      const float given = o[2].get(i * n + j);
      const double allowed = bound(c.out, chain_length(length, split), size[at], exact[at]);
      CHECK(fabs(static_cast<double>(given) - exact[at]) <= allowed,
            "%s\n  element [%lld, %lld]: got %.9g, fp64 %.17g, allowed error %.3g", what.c_str(),
            static_cast<long long>(i), static_cast<long long>(j), static_cast<double>(given), exact[at], allowed);
      if (!bits) continue;
      const float wanted = rounded(c.out, row[at]);
      CHECK(same(given, wanted), "%s\n  element [%lld, %lld]: got %.9g, promised order of sums gives %.9g",
            what.c_str(), static_cast<long long>(i), static_cast<long long>(j), static_cast<double>(given),
            static_cast<double>(wanted));
    }
  }
}

// ---- Reduction ----

void run(const ReduceCase &c, const Memory &memory) {
  const bool add = c.accumulate != DXDW_ASSIGN;
  Random random(c.seed);
  Operand o[2];
  o[0].place(memory.operands[0], c.places[0], Type::f32, {c.split, c.k, c.n}, c.layouts[0]);
  o[1].place(memory.operands[1], c.places[1], Type::f32, {c.k, c.n}, c.layouts[1]);
  o[0].fill_random(&random);
  if (add) o[1].fill_random(&random);
  const std::vector<float> partials = o[0].values(), old = o[1].values();
  for (Operand &operand : o) operand.remember();
  std::string what = "dw_reduce split " + std::to_string(c.split) + " accumulate " + std::to_string(c.accumulate) +
                     " seed " + std::to_string(c.seed) + "\n  " + o[0].text() + "\n  " + o[1].text();
  const dxdw_options options = options_of(c.accumulate);
  set_context(what);
  if (dw_reduce(o[0].tensor(), o[1].tensor(), &options) != DXDW_OK) FAIL("%s: %s", what.c_str(), dxdw_last_error());
  check_surroundings(o, 2, 1, what);
  const int64_t count = c.k * c.n;
  for (int64_t i = 0; i < count; ++i) {
    float sum = 0.0f;
    for (int64_t s = 0; s < c.split; ++s) sum += partials[static_cast<size_t>(s * count + i)];
    const float before = old[static_cast<size_t>(i)];
    const float wanted = !add ? sum : c.split == 0 ? before : before + sum;
    CHECK(same(o[1].get(i), wanted), "%s\n  element %lld: got %.9g, slice order gives %.9g", what.c_str(),
          static_cast<long long>(i), static_cast<double>(o[1].get(i)), static_cast<double>(wanted));
  }
}

// ---- Weighted sums ----

void run(const WeightedCase &c, const Memory &memory) {
  Random random(c.seed);
  int64_t rows = 1;
  for (int64_t size : c.rows) rows *= size;
  std::vector<int64_t> x_shape = c.rows;
  x_shape.push_back(c.d);
  const bool add_main = c.accumulate == DXDW_ADD;
  const bool add_gw = c.accumulate != DXDW_ASSIGN;
  const int count = c.backward ? 5 : 3, outputs_from = c.backward ? 3 : 2;
  Operand o[5];
  o[0].place(memory.operands[0], c.places[0], c.in, x_shape, c.layouts[0]);
  o[1].place(memory.operands[1], c.places[1], c.in, {c.d}, c.layouts[1]);
  o[2].place(memory.operands[2], c.places[2], c.backward ? c.in : c.out, c.rows, c.layouts[2]);
  if (c.backward) {
    o[3].place(memory.operands[3], c.places[3], c.out, x_shape, c.layouts[3]);
    o[4].place(memory.operands[4], c.places[4], c.out, {c.d}, c.layouts[4]);
  }
  for (int i = 0; i < outputs_from; ++i) o[i].fill_random(&random);
  if (!c.backward && add_main) o[2].fill_random(&random);
  if (c.backward && add_main) o[3].fill_random(&random);
  if (c.backward && add_gw) o[4].fill_random(&random);
  const std::vector<float> x = o[0].values(), w = o[1].values(), third = o[2].values(), old_gx = o[3].values(),
                           old_gw = o[4].values();
  std::string what = std::string(c.backward ? "weighted_sum_bwd" : "weighted_sum_fwd") + " accumulate " +
                     std::to_string(c.accumulate) + " seed " + std::to_string(c.seed) + " level " + dxdw_simd_level() +
                     " threads " + std::to_string(dxdw_threads());
  for (int i = 0; i < count; ++i) {
    o[i].remember();
    what += "\n  " + o[i].text();
  }
  dxdw_tensor array[5];
  for (int i = 0; i < count; ++i) array[i] = *o[i].tensor(c.by_offset);
  if (c.backward && !c.want_gx) array[3] = absent();
  if (c.backward && !c.want_gw) array[4] = absent();
  const dxdw_options options = options_of(c.accumulate);
  set_context(what);
  int32_t status;
  if (c.through_call)
    status = dxdw_call(c.backward ? DXDW_WEIGHTED_SUM_BWD : DXDW_WEIGHTED_SUM_FWD, array, 0, 0, &options, nullptr,
                       nullptr, nullptr, nullptr, nullptr, nullptr);
  else if (c.backward)
    status = weighted_sum_bwd(&array[0], &array[1], &array[2], c.want_gx ? &array[3] : nullptr,
                              c.want_gw ? &array[4] : nullptr, &options);
  else
    status = weighted_sum_fwd(&array[0], &array[1], &array[2], &options);
  if (status != DXDW_OK) FAIL("%s: status %d: %s", what.c_str(), status, dxdw_last_error());
  check_surroundings(o, count, outputs_from, what);

  const auto compare = [&](const char *name, int64_t i, float given, Type type, double steps, double size,
                           double exact) {
    const double allowed = bound(type, steps, size, exact);
    CHECK(fabs(static_cast<double>(given) - exact) <= allowed,
          "%s\n  %s, element %lld: got %.9g, fp64 %.17g, allowed error %.3g", what.c_str(), name,
          static_cast<long long>(i), static_cast<double>(given), exact, allowed);
  };
  if (!c.backward) {
    for (int64_t i = 0; i < rows; ++i) {
      double exact = add_main ? static_cast<double>(third[static_cast<size_t>(i)]) : 0.0;
      double size = fabs(exact);
      for (int64_t d = 0; d < c.d; ++d) {
        const double product =
            static_cast<double>(x[static_cast<size_t>(i * c.d + d)]) * static_cast<double>(w[static_cast<size_t>(d)]);
        exact += product;
        size += fabs(product);
      }
      compare("y", i, o[2].get(i), c.out, static_cast<double>(c.d) + 2, size, exact);
    }
    return;
  }
  if (!c.want_gx) CHECK(o[3].untouched(), "%s: gx was not wanted, but written", what.c_str());
  if (!c.want_gw) CHECK(o[4].untouched(), "%s: gw was not wanted, but written", what.c_str());
  for (int64_t i = 0; c.want_gx && i < rows * c.d; ++i) {
    const float g = third[static_cast<size_t>(i / c.d)], weight = w[static_cast<size_t>(i % c.d)];
    const double old = add_main ? static_cast<double>(old_gx[static_cast<size_t>(i)]) : 0.0;
    const double product = static_cast<double>(g) * static_cast<double>(weight);
    compare("gx", i, o[3].get(i), c.out, 2, fabs(old) + fabs(product), old + product);
    if (!add_main)
      CHECK(same(o[3].get(i), rounded(c.out, g * weight)),
            "%s\n  gx, element %lld: got %.9g, product rounded once %.9g", what.c_str(), static_cast<long long>(i),
            static_cast<double>(o[3].get(i)), static_cast<double>(rounded(c.out, g * weight)));
  }
  for (int64_t d = 0; c.want_gw && d < c.d; ++d) {
    double exact = add_gw ? static_cast<double>(old_gw[static_cast<size_t>(d)]) : 0.0;
    double size = fabs(exact);
    for (int64_t i = 0; i < rows; ++i) {
      const double product =
          static_cast<double>(x[static_cast<size_t>(i * c.d + d)]) * static_cast<double>(third[static_cast<size_t>(i)]);
      exact += product;
      size += fabs(product);
    }
    compare("gw", d, o[4].get(d), c.out, static_cast<double>(rows) + 2, size, exact);
  }
}

// ---- Copies ----

void run(const CopyCase &c, const Memory &memory) {
  Random random(c.seed);
  Operand o[2];
  o[0].place(memory.operands[0], c.places[0], c.in, c.shape, c.layouts[0]);
  o[1].place(memory.operands[1], c.places[1], c.out, c.shape, c.layouts[1]);
  // Any bit pattern: values of all sizes, subnormals, infinities and NaN among them.
  o[0].fill([&](int64_t) {
    const uint32_t bits = static_cast<uint32_t>(random.next());
    return random.one_in(2) ? float_of_bits(bits) : random.value() * 100.0f;
  });
  for (Operand &operand : o) operand.remember();
  const std::string what = "dxdw_copy seed " + std::to_string(c.seed) + "\n  " + o[0].text() + "\n  " + o[1].text();
  set_context(what);
  if (dxdw_copy(o[0].tensor(), o[1].tensor(), nullptr) != DXDW_OK) FAIL("%s: %s", what.c_str(), dxdw_last_error());
  check_surroundings(o, 2, 1, what);
  for (int64_t i = 0; i < o[0].count(); ++i) {
    const float wanted = rounded(c.out, o[0].get(i));
    CHECK(same(o[1].get(i), wanted), "%s\n  element %lld: %.9g became %.9g, expected %.9g", what.c_str(),
          static_cast<long long>(i), static_cast<double>(o[0].get(i)), static_cast<double>(o[1].get(i)),
          static_cast<double>(wanted));
  }
}

// ---- Random layouts ----

Layout random_layout(Random *random, int ndim, bool input) {
  Layout layout;
  if (random->one_in(5)) {
    layout.no_strides = true;
    return layout;
  }
  if (random->one_in(3))
    for (int i = kMostDims - 1; i > 0; --i) {
      const int j = static_cast<int>(random->between(0, i));
      const int kept = layout.order[i];
      layout.order[i] = layout.order[j];
      layout.order[j] = kept;
    }
  if (random->one_in(4)) layout.step = random->between(2, 3);
  if (random->one_in(3)) layout.pad = random->between(1, 5);
  const unsigned all = (1u << ndim) - 1;
  if (random->one_in(6)) layout.reversed = static_cast<unsigned>(random->next()) & all;
  if (input && random->one_in(8)) layout.expanded = static_cast<unsigned>(random->next()) & all;
  layout.wild = random->one_in(4);
  return layout;
}

Place random_place(Random *random) {
  const int64_t which = random->between(0, 2);
  return which == 0 ? Place::high : which == 1 ? Place::low : Place::middle;
}

}  // namespace test
