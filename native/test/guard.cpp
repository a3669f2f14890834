// Sizes around every tile edge, each operand with its last element at the end of a readable page or its first at the
// start of one, gaps and surroundings full of NaN. Guards against tail tiles that read or write outside, padding that
// is taken for data, and strides that are taken for widths.
//
//   dxdw_test_guard [stride]      every stride-th combination of sizes from 1 to 40; 1 = all
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

}  // namespace

int main(int count, char **arguments) {
  const uint64_t stride = count > 1 ? strtoull(arguments[1], nullptr, 10) : 7;
  report_faults();
  const Memory memory(kArena);
  CHECK_OK(dxdw_set_threads(1));
  uint64_t number = 0, runs = 0;
  for (int64_t t = 1; t <= 40; ++t)
    for (int64_t k = 1; k <= 40; ++k)
      for (int64_t n = 1; n <= 40; ++n)
        if (number++ % stride == 0) products(t, k, n, number, memory), ++runs;
  // Tiles may be wider than 40: pairs of a large and a small size.
  const int64_t large[] = {41, 47, 48, 49, 63, 64, 65, 70, 95, 96, 97, 127, 128, 129, 143, 145, 191, 193, 257};
  const int64_t small[] = {1, 2, 3, 7, 16, 17, 31};
  for (int64_t a : large)
    for (int64_t b : small)
      for (int64_t c : small) {
        products(a, b, c, ++number, memory);
        products(b, a, c, ++number, memory);
        products(b, c, a, ++number, memory);
        products(a, a, c, ++number, memory);
        runs += 4;
      }
  for (int64_t length : {511, 512, 513, 1023, 1024, 1025, 1537}) {
    products(5, length, 17, ++number, memory);
    products(length, 17, 5, ++number, memory);
    products(17, 5, length, ++number, memory);
    runs += 3;
  }
  for (int64_t rows = 1; rows <= 40; ++rows)
    for (int64_t d = 1; d <= 140; d += d < 40 ? 1 : 9) {
      weighted(rows, d, ++number, memory);
      weighted(rows, d, ++number, memory);
      reduce_and_copy(rows, d, ++number, memory);
      runs += 4;
    }
  printf("%llu calls passed, level %s\n", static_cast<unsigned long long>(runs), dxdw_simd_level());
  return 0;
}
