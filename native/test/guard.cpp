// Sizes around every tile edge, each operand with its last element at the end of a readable page or its first at the
// start of one, gaps and surroundings full of NaN. Guards against tail tiles that read or write outside, padding that
// is taken for data, and strides that are taken for widths.
//
//   dxdw_test_guard [stride]
//
// stride: every so many-th combination of sizes from 1 to 40, 1 = all. Above 7, fewer others too, and no elements far
// apart: emulators of other processors keep a record of each page in between.
#include "cases.hpp"

using namespace test;

namespace {

constexpr int64_t kArena = 16 << 20;

// The layouts that a call rotates through: dense, padded rows (width + 3), transposed, transposed and padded, every
// second column, reversed rows and columns, expanded (inputs).
Layout layout_number(uint64_t number, bool input) {
  Layout layout;
  switch (number % (input ? 8 : 7)) {
    case 0: layout.no_strides = true; break;
    case 1: layout.pad = 3; break;
    case 2:
      layout.order[kMostDims - 2] = 1;
      layout.order[kMostDims - 1] = 0;
      for (int i = 0; i < kMostDims; ++i) layout.order[i] = i;
      break;
    case 3:
      for (int i = 0; i < kMostDims; ++i) layout.order[i] = i;
      layout.pad = 3;
      break;
    case 4: layout.step = 2; break;
    case 5: layout.reversed = 3; break;
    case 6:
      layout.pad = 3;
      layout.wild = true;
      break;
    default: layout.expanded = 1u << (number / 8 % 2); break;
  }
  return layout;
}

void products(int64_t t, int64_t k, int64_t n, uint64_t number, const Memory &memory) {
  ProductCase c;
  Random random(number);
  c.function = static_cast<int32_t>(number % 3);
  c.t = t;
  c.k = k;
  c.n = n;
  c.in = kTypes[random.between(0, 2)];
  c.out = random.one_in(2) ? c.in : Type::f32;
  for (int i = 0; i < 3; ++i) {
    c.layouts[i] = layout_number(random.next() >> 8, i < 2);
    c.places[i] = random.one_in(2) ? Place::high : Place::low;
  }
  c.accumulate = static_cast<int32_t>(random.between(0, 2));
  c.precision = static_cast<int32_t>(random.between(0, 1));
  if (c.function == DXDW_DW && random.one_in(3)) c.split = static_cast<int32_t>(random.between(0, t < 4 ? t : 4));
  c.own_workspace = true;
  c.seed = number;
  run(c, memory);
}

void weighted(int64_t rows, int64_t d, uint64_t number, const Memory &memory) {
  WeightedCase c;
  Random random(number);
  c.backward = number % 2 == 0;
  c.rows = {rows};
  c.d = d;
  c.in = kTypes[random.between(0, 2)];
  c.out = random.one_in(2) ? c.in : Type::f32;
  for (int i = 0; i < 5; ++i) {
    c.layouts[i] = layout_number(random.next() >> 8, i < (c.backward ? 3 : 2));
    c.places[i] = random.one_in(2) ? Place::high : Place::low;
  }
  c.accumulate = static_cast<int32_t>(random.between(0, 2));
  c.seed = number;
  run(c, memory);
}

void reduce_and_copy(int64_t k, int64_t n, uint64_t number, const Memory &memory) {
  Random random(number);
  ReduceCase r;
  r.split = random.between(1, 5);
  r.k = k;
  r.n = n;
  CopyCase c;
  c.shape = {k, n};
  c.in = kTypes[random.between(0, 2)];
  c.out = kTypes[random.between(0, 2)];
  for (int i = 0; i < 2; ++i) {
    r.layouts[i] = layout_number(random.next() >> 8, i == 0);
    c.layouts[i] = layout_number(random.next() >> 8, i == 0);
    r.places[i] = random.one_in(2) ? Place::high : Place::low;
    c.places[i] = random.one_in(2) ? Place::high : Place::low;
  }
  r.seed = c.seed = number;
  run(r, memory);
  run(c, memory);
}

// Rows and columns more than 2^32 elements apart: every offset takes 64 bits. Only the pages of the elements exist.
struct Sparse {
  static constexpr int64_t kStride = (int64_t{1} << 32) + 7;
  char *memory;
  int64_t bytes, shape[2], strides[2];
  Type type;
  dxdw_tensor tensor;

  Sparse(Type given, int64_t rows, int64_t cols, bool far_rows)
      : shape{rows, cols}, strides{far_rows ? kStride : 1, far_rows ? 1 : kStride}, type(given) {
    bytes = (kStride * ((far_rows ? rows : cols) - 1) + 64) * size_of(type);
    void *pages = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) FAIL("mmap of %lld bytes of address space failed", static_cast<long long>(bytes));
    memory = static_cast<char *>(pages);
    tensor = {memory, DXDW_CPU, 0, 2, code_of(type), bits_of(type), 1, shape, strides, 0};
  }
  ~Sparse() { munmap(memory, static_cast<size_t>(bytes)); }
  Sparse(const Sparse &) = delete;

  char *at(int64_t r, int64_t c) const { return memory + (r * strides[0] + c * strides[1]) * size_of(type); }
};

void distant_elements() {
  for (Type type : kTypes)
    for (int which = 0; which < 8; ++which) {
      Sparse x(type, 3, 2, which & 1), w(type, 2, 3, which & 2), y(Type::f32, 3, 3, which & 4);
      for (int64_t r = 0; r < 3; ++r)
        for (int64_t c = 0; c < 2; ++c) {
          store(type, x.at(r, c), static_cast<float>(1 + r + 10 * c));
          store(type, w.at(c, r), static_cast<float>(2 + r - 3 * c));
        }
      set_context("elements far apart, " + std::to_string(which) + ", " + name_of(type));
      CHECK_OK(y_launch(&x.tensor, &w.tensor, &y.tensor, nullptr));
      for (int64_t r = 0; r < 3; ++r)
        for (int64_t c = 0; c < 3; ++c) {
          const float wanted = static_cast<float>((1 + r) * (2 + c) + (11 + r) * (c - 1));
          CHECK(load(Type::f32, y.at(r, c)) == wanted, "y[%lld, %lld] is %g, expected %g", static_cast<long long>(r),
                static_cast<long long>(c), static_cast<double>(load(Type::f32, y.at(r, c))),
                static_cast<double>(wanted));
        }
      // gx[i,d] = g[i] . w[d] over the same far memory, g and w from the near ends of x and w.
      Sparse gx(type, 3, 3, which & 4);
      dxdw_tensor g = x.tensor, feature = w.tensor;
      int64_t three = 3, g_stride = x.strides[0], feature_stride = w.strides[1];
      g.ndim = feature.ndim = 1;
      g.shape = feature.shape = &three;
      g.strides = &g_stride;
      feature.strides = &feature_stride;
      Sparse input(type, 3, 3, which & 4);
      CHECK_OK(weighted_sum_bwd(&input.tensor, &feature, &g, &gx.tensor, nullptr, nullptr));
      CHECK_OK(dxdw_copy(&gx.tensor, &y.tensor, nullptr));
      for (int64_t r = 0; r < 3; ++r)
        for (int64_t c = 0; c < 3; ++c)
          CHECK(load(Type::f32, y.at(r, c)) == static_cast<float>((1 + r) * (2 + c)), "gx[%lld, %lld] is %g",
                static_cast<long long>(r), static_cast<long long>(c), static_cast<double>(load(Type::f32, y.at(r, c))));
    }
}

}  // namespace

int main(int count, char **arguments) {
  const uint64_t stride = count > 1 ? strtoull(arguments[1], nullptr, 10) : 7;
  report_faults();
  const Memory memory(kArena);
  CHECK_OK(dxdw_set_threads(1));
  if (stride <= 7) distant_elements();
  uint64_t number = 0, runs = 0;
  for (int64_t t = 1; t <= 40; ++t)
    for (int64_t k = 1; k <= 40; ++k)
      for (int64_t n = 1; n <= 40; ++n)
        if (number++ % stride == 0) products(t, k, n, number, memory), ++runs;
  // Tiles may be wider than 40: pairs of a large and a small size. Strides beyond 7 thin these out too.
  const uint64_t thin = stride < 7 ? 1 : stride / 7;
  const auto chosen = [&] { return ++number % thin == 0 && ++runs; };
  const int64_t large[] = {41, 47, 48, 49, 63, 64, 65, 70, 95, 96, 97, 127, 128, 129, 143, 145, 191, 193, 257};
  const int64_t small[] = {1, 2, 3, 7, 16, 17, 31};
  for (int64_t a : large)
    for (int64_t b : small)
      for (int64_t c : small) {
        if (chosen()) products(a, b, c, number, memory);
        if (chosen()) products(b, a, c, number, memory);
        if (chosen()) products(b, c, a, number, memory);
        if (chosen()) products(a, a, c, number, memory);
      }
  for (int64_t length : {511, 512, 513, 1023, 1024, 1025, 1537}) {
    products(5, length, 17, ++number, memory);
    products(length, 17, 5, ++number, memory);
    products(17, 5, length, ++number, memory);
    runs += 3;
  }
  for (int64_t rows = 1; rows <= 40; ++rows)
    for (int64_t d = 1; d <= 140; d += d < 40 ? 1 : 9) {
      if (chosen()) weighted(rows, d, number, memory);
      if (chosen()) weighted(rows, d, number, memory);
      if (chosen()) reduce_and_copy(rows, d, number, memory);
    }
  printf("%llu calls passed, level %s\n", static_cast<unsigned long long>(runs), dxdw_simd_level());
  return 0;
}
