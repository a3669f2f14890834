// Memory that cannot be had, and memory that is kept. Guards against half-written outputs, crashes on a failed
// allocation, and scratch that grows with every shape.
#include "harness.hpp"

using namespace test;
using Values = std::vector<float>;

namespace {

Values random_values(int64_t count, uint64_t seed) {
  Random random(seed);
  Values values(static_cast<size_t>(count));
  for (float &value : values) value = random.value();
  return values;
}

// Runs `call` with the first, second, ... allocation failing until none does. Returns how many struck.
template <typename Call>
int strike(const char *what, Literal *out, Literal *second, Call call) {
  const std::vector<char> before = out->memory();
  const std::vector<char> before_second = second == nullptr ? std::vector<char>() : second->memory();
  for (int skip = 0; skip < 1000; ++skip) {
    CHECK_OK(dxdw_inject_fault(DXDW_FAULT_ALLOCATE, skip));
    const int32_t status = call();
    CHECK_OK(dxdw_inject_fault(DXDW_FAULT_ALLOCATE, -1));
    if (status == DXDW_OK) return skip;
    CHECK(status == DXDW_OUT_OF_MEMORY, "%s, allocation %d fails: status %d (%s)", what, skip, status,
          dxdw_last_error());
    CHECK(strpbrk(dxdw_last_error(), "0123456789") != nullptr, "%s: the message tells no bytes: %s", what,
          dxdw_last_error());
    CHECK(out->memory() == before && (second == nullptr || second->memory() == before_second),
          "%s, allocation %d fails: the output was written", what, skip);
  }
  FAIL("%s: a thousand allocations failed", what);
}

void failing_allocations() {
  const dxdw_options assign = options_of(DXDW_ASSIGN);
  int struck = 0;
  for (int32_t threads : {1, 3})
    for (Type type : kTypes) {
      CHECK_OK(dxdw_set_threads(threads));
      Literal x(type, {300, 200}, random_values(60000, 1)), w(type, {200, 250}, random_values(50000, 2));
      Literal dy(type, {300, 250}, random_values(75000, 3));
      Literal y(type, {300, 250}, NAN), dx(type, {300, 200}, NAN);
      struck += strike("Y", &y, nullptr, [&] { return y_launch(x.tensor(), w.tensor(), y.tensor(), nullptr); });
      struck += strike("dX", &dx, nullptr, [&] { return dx_launch(dy.tensor(), w.tensor(), dx.tensor(), nullptr); });
      int split_struck = 0;
      for (int32_t split : {0, 1, 4})
        for (int32_t deterministic : {0, 1})
          for (Type out_type : {Type::f32, type}) {
            Literal dw(out_type, {200, 250}, 7.0f), wanted(out_type, {200, 250}, 7.0f);
            CHECK_OK(dw_launch(x.tensor(), dy.tensor(), wanted.tensor(), split, 1, nullptr));
            const int count = strike("dW", &dw, nullptr, [&] {
              return dw_launch(x.tensor(), dy.tensor(), dw.tensor(), split, deterministic, nullptr);
            });
            struck += count;
            if (split == 4 && deterministic == 1) split_struck += count;
            if (deterministic == 1) expect("dW after failed allocations", dw.stored(), wanted.stored());
          }
      CHECK(split_struck > 0, "a split dW needs a workspace, but no allocation could fail");
      Literal db(Type::f32, {250}, 7.0f), long_dw(Type::f32, {40, 250}, 7.0f);
      Literal long_x(type, {5000, 40}, random_values(200000, 7)), long_dy(type, {5000, 250}, random_values(1250000, 8));
      struck += strike("dW with db, in slices of T", &long_dw, &db, [&] {
        const dxdw_tensor operands[6] = {*long_x.tensor(), *long_dy.tensor(), *long_dw.tensor(), *db.tensor()};
        return dxdw_call(DXDW_DW_BIAS, operands, 1, 1, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
      });
      Literal rows(type, {5000, 40}, random_values(200000, 4)), feature(type, {40}, random_values(40, 5));
      Literal g(type, {5000}, random_values(5000, 6)), sums(type, {5000}, NAN), gx(type, {5000, 40}, NAN),
          gw(type, {40}, NAN);
      struck += strike("weighted sum", &sums, nullptr,
                       [&] { return weighted_sum_fwd(rows.tensor(), feature.tensor(), sums.tensor(), nullptr); });
      struck += strike("weighted sum backward", &gx, &gw, [&] {
        return weighted_sum_bwd(rows.tensor(), feature.tensor(), g.tensor(), gx.tensor(), gw.tensor(), &assign);
      });
    }
  CHECK(struck > 0, "no allocation could fail");
}

// A caller's workspace stands in for the library's: no allocation of K x N is left that could fail.
void own_workspace_instead() {
  CHECK_OK(dxdw_set_threads(1));
  Literal x(Type::f32, {64, 500}, 1.0f), dy(Type::f32, {64, 500}, 1.0f), dw(Type::f32, {500, 500}, 0.0f);
  uint64_t bytes = 0;
  CHECK_OK(dxdw_dw_workspace(x.tensor(), dy.tensor(), dw.tensor(), 4, 1, nullptr, &bytes));
  void *memory = nullptr;
  CHECK(posix_memalign(&memory, 64, bytes) == 0, "no memory");
  dxdw_options options = options_of(DXDW_ASSIGN);
  options.workspace = memory;
  options.workspace_bytes = bytes;
  const int64_t before = dxdw_counter(DXDW_COUNTER_SCRATCH_BYTES);
  CHECK_OK(dw_launch(x.tensor(), dy.tensor(), dw.tensor(), 4, 1, &options));
  CHECK(dxdw_counter(DXDW_COUNTER_SCRATCH_BYTES) < before + 4 * 500 * 500 * 4,
        "partials were allocated beside the workspace");
  for (int64_t i = 0; i < 500 * 500; ++i)
    CHECK(dw.stored(i) == 64, "element %lld is %g", static_cast<long long>(i), static_cast<double>(dw.stored(i)));
  free(memory);
}

int64_t resident_bytes() {
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  long long total = 0, resident = 0;
  const int read = fscanf(file, "%lld %lld", &total, &resident);
  fclose(file);
  return read == 2 ? resident * kPage : 0;
}

// Scratch and resident memory stay where the largest shape brought them, however many shapes come.
void many_shapes(int shapes) {
  CHECK_OK(dxdw_set_threads(2));
  constexpr int64_t kMost = 120;
  Literal x(Type::f32, {kMost, kMost}, 0.5f), w(Type::f32, {kMost, kMost}, 0.5f), out(Type::f32, {kMost, kMost}, 0.0f);
  Random random(8);
  int64_t scratch = 0, resident = 0;
  for (int i = 0; i < shapes; ++i) {
    int64_t a[2], b[2], c[2];
    const int64_t t = random.between(1, kMost), k = random.between(1, kMost), n = random.between(1, kMost);
    dxdw_tensor x_view = *x.tensor(), w_view = *w.tensor(), out_view = *out.tensor();
    x_view.shape = a;
    w_view.shape = b;
    out_view.shape = c;
    a[0] = t, a[1] = k;
    const int32_t function = static_cast<int32_t>(random.between(0, 1)) * DXDW_DW;
    b[0] = function == DXDW_Y ? k : t, b[1] = n;
    c[0] = function == DXDW_Y ? t : k, c[1] = n;
    CHECK_OK(function == DXDW_Y ? y_launch(&x_view, &w_view, &out_view, nullptr)
                                : dw_launch(&x_view, &w_view, &out_view,
                                            static_cast<int32_t>(random.between(0, t < 5 ? t : 5)), 1, nullptr));
    if (i == shapes / 10) {
      scratch = dxdw_counter(DXDW_COUNTER_SCRATCH_BYTES);
      resident = resident_bytes();
    }
  }
  const int64_t scratch_after = dxdw_counter(DXDW_COUNTER_SCRATCH_BYTES), resident_after = resident_bytes();
  CHECK(scratch_after <= 2 * scratch + (1 << 20), "scratch grew from %lld to %lld bytes over %d shapes",
        static_cast<long long>(scratch), static_cast<long long>(scratch_after), shapes);
  CHECK(resident_after <= resident + (16 << 20), "resident memory grew from %lld to %lld bytes over %d shapes",
        static_cast<long long>(resident), static_cast<long long>(resident_after), shapes);
}

// What a huge call took is not kept for ever.
void huge_scratch_is_let_go() {
  Literal x(Type::f32, {64, 1}, 1.0f), dy(Type::f32, {64, 1}, 1.0f);
  dxdw_tensor wide_x = *x.tensor(), wide_dy = *dy.tensor();
  int64_t wide_shape[] = {64, 1500}, expanded[] = {1, 0};
  wide_x.shape = wide_dy.shape = wide_shape;
  wide_x.strides = wide_dy.strides = expanded;
  Literal out(Type::f32, {1500, 1500}, 0.0f);
  CHECK_OK(dw_launch(&wide_x, &wide_dy, out.tensor(), 32, 1, nullptr));  // 288 MB of partials
  CHECK(out.stored(1499) == 64, "element is %g", static_cast<double>(out.stored(1499)));
  const int64_t kept = dxdw_counter(DXDW_COUNTER_SCRATCH_BYTES);
  CHECK(kept <= 128 << 20, "%lld bytes of scratch are kept", static_cast<long long>(kept));
}

}  // namespace

int main(int count, char **arguments) {
  const int shapes = count > 1 ? atoi(arguments[1]) : 10000;
  report_faults();
  failing_allocations();
  own_workspace_instead();
  many_shapes(shapes);
  huge_scratch_is_let_go();
  printf("passed, level %s\n", dxdw_simd_level());
  return 0;
}
