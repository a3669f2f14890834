// Every function over random sizes, strides, types and options, compared with fp64 references and, where an order of
// sums is promised, to the bit. Guards against wrong tails, strides taken for dense ones, reads and writes outside.
//
//   dxdw_test_parity [cases [seed [first]]]
//
// A failure prints the case's number: `dxdw_test_parity 1 SEED NUMBER` runs it alone.
#include "cases.hpp"

using namespace test;

namespace {

constexpr int64_t kArena = 64 << 20;

Type random_type(Random *random) { return kTypes[random->between(0, 2)]; }

int64_t random_size(Random *random) {
  switch (random->between(0, 9)) {
    case 0: return random->between(1, 4);
    case 1: return random->between(60, 200);
    case 2: return random->one_in(8) ? 0 : random->between(14, 18);
    default: return random->between(1, 70);
  }
}

void product(Random *random, const Memory &memory) {
  ProductCase c;
  c.function = static_cast<int32_t>(random->between(0, 2));
  c.t = random_size(random);
  c.k = random_size(random);
  c.n = random_size(random);
  if (random->one_in(12)) {  // rows of C beyond those for which B is read in place
    int64_t *rows = c.function == DXDW_DW ? &c.k : &c.t;
    *rows = random->between(440, 700);
  } else if (random->one_in(10)) {  // contractions beyond one block
    int64_t *length = c.function == DXDW_Y ? &c.k : c.function == DXDW_DX ? &c.n : &c.t;
    *length = random->between(500, 1600);
  }
  c.in = random_type(random);
  c.out = random->one_in(2) ? c.in : Type::f32;
  for (int i = 0; i < 3; ++i) {
    c.layouts[i] = random_layout(random, 2, i < 2);
    c.places[i] = random_place(random);
  }
  c.accumulate = static_cast<int32_t>(random->between(0, 2));
  c.precision = static_cast<int32_t>(random->between(0, 3));
  if (c.function == DXDW_DW) {
    const int64_t most = c.t < 1 ? 1 : c.t < 9 ? c.t : 9;
    c.split = static_cast<int32_t>(random->between(0, most));
    c.deterministic = static_cast<int32_t>(random->between(0, 1));
  }
  c.own_workspace = random->one_in(2);
  c.through_call = random->one_in(3);
  c.by_offset = random->one_in(3);
  c.seed = random->next();
  run(c, memory);
}

// The last slice is shorter and odd, so it is cut and packed otherwise than the first: scratch sized by the first one
// alone would be overrun, which the guards of a build with the address sanitizer show.
void ragged_slices(const Memory &memory) {
  for (const Type in : {Type::f32, Type::f16, Type::bf16})
    for (const int deterministic : {0, 1}) {
      ProductCase c;
      c.function = DXDW_DW;
      c.in = in;
      c.deterministic = deterministic;
      c.t = 691, c.k = 297, c.n = 93, c.split = 51;
      run(c, memory);
      c.t = 1023, c.k = 200, c.n = 2, c.split = 2;
      run(c, memory);
      // Transposed for the first slice alone.
      c.n = 20;
      run(c, memory);
      // Columns of X side by side in memory: pairs that the first slice reads in place, and the odd one packs.
      c.n = 64;
      for (int i = 0; i < kMostDims; ++i) c.layouts[0].order[i] = i;
      c.layouts[0].pad = 1;
      run(c, memory);
    }
}

// Ways through a product that random sizes seldom take. Guards against steps left out or taken twice where a tile's
// results leave within its last two steps, rows lost between tasks that begin within a micro-tile, a wrong operand
// packed, and edges of wide micro-tiles, of which two share a panel of packed rows.
void chosen_products(const Memory &memory) {
  ProductCase c;
  const auto run_as = [&](Type in, Type out, int64_t t, int64_t k, int64_t n) {
    c.in = in, c.out = out, c.t = t, c.k = k, c.n = n;
    run(c, memory);
  };
  // Contractions of few steps and of odd pairs, columns of whole vectors.
  for (const int32_t accumulate : {DXDW_ASSIGN, DXDW_ADD})
    for (int64_t k = 1; k <= 9; ++k) {
      c.accumulate = accumulate;
      run_as(Type::f32, Type::f32, 31, k, 64);
      run_as(Type::bf16, Type::bf16, 31, k, 64);
      run_as(Type::bf16, Type::f32, 31, k, 64);
    }
  // Results that go past the caches.
  c.accumulate = DXDW_ASSIGN;
  run_as(Type::f32, Type::f32, 33001, 3, 64);
  run_as(Type::bf16, Type::bf16, 66001, 4, 64);
  run_as(Type::f32, Type::f32, 66001, 3, 32);
  // Pairs of which W is the smaller operand, and the larger.
  for (const int64_t t : {99, 440, 450}) run_as(Type::bf16, Type::bf16, t, 70, 98);
  run_as(Type::bf16, Type::bf16, 90, 70, 200);
  // Wide micro-tiles: more rows than B is read in place for, by 0 to 11 more than a panel of A has; columns that leave
  // each number of vectors, whole or not; A in place, and packed.
  const int64_t sizes[][2] = {{1, 33}, {2, 48},  {3, 49},  {8, 64},  {31, 65}, {64, 79}, {1, 96},
                              {2, 97}, {3, 128}, {8, 190}, {31, 48}, {64, 97}, {530, 65}};
  int64_t more = 0;
  for (const int32_t function : {DXDW_Y, DXDW_DW})
    for (const Type in : kTypes)
      for (const auto &[depth, cols] : sizes) {
        c.function = function;
        c.accumulate = more % 2 == 0 ? DXDW_ASSIGN : DXDW_ADD;
        const int64_t rows = 648 + more++ % 12;
        const Type out = more % 3 == 0 ? in : Type::f32;
        function == DXDW_Y ? run_as(in, out, rows, depth, cols) : run_as(in, out, depth, rows, cols);
      }
  // Rows of dW that threads share evenly.
  c.function = DXDW_DW;
  c.accumulate = DXDW_ASSIGN;
  for (const int32_t threads : {2, 3, 16}) {
    CHECK_OK(dxdw_set_threads(threads));
    for (const int64_t rows : {20, 57, 113, 256}) run_as(Type::bf16, Type::f32, 1030, rows, 150);
  }
}

void reduction(Random *random, const Memory &memory) {
  ReduceCase c;
  c.split = random->between(0, 9);
  c.k = random_size(random);
  c.n = random_size(random);
  c.layouts[0] = random_layout(random, 3, true);
  c.layouts[1] = random_layout(random, 2, false);
  for (Place &place : c.places) place = random_place(random);
  c.accumulate = static_cast<int32_t>(random->between(0, 2));
  c.seed = random->next();
  run(c, memory);
}

std::vector<int64_t> random_rows(Random *random) {
  std::vector<int64_t> rows;
  switch (random->between(0, 4)) {
    case 0: return rows;
    case 1: return {random_size(random), random->between(1, 5)};
    case 2: return {random->between(1, 4), random->between(1, 5), random->between(1, 6)};
    case 3: return {random->between(1, 2000)};
    default: return {random_size(random)};
  }
}

void weighted(Random *random, const Memory &memory) {
  WeightedCase c;
  c.backward = random->one_in(2);
  c.rows = random_rows(random);
  c.d = random->one_in(6) ? random->between(500, 3000) : random_size(random);
  int64_t rows = 1;
  for (int64_t size : c.rows) rows *= size;
  if (rows * c.d > 300000) c.d = 33;
  c.in = random_type(random);
  c.out = random->one_in(2) ? c.in : Type::f32;
  const int rank = static_cast<int>(c.rows.size());
  const int ranks[] = {rank + 1, 1, rank, rank + 1, 1};
  for (int i = 0; i < 5; ++i) {
    c.layouts[i] = random_layout(random, ranks[i], i < (c.backward ? 3 : 2));
    c.places[i] = random_place(random);
  }
  c.want_gx = !random->one_in(4);
  c.want_gw = !random->one_in(4);
  c.accumulate = static_cast<int32_t>(random->between(0, 2));
  c.through_call = random->one_in(3);
  c.by_offset = random->one_in(3);
  c.seed = random->next();
  run(c, memory);
}

void copy(Random *random, const Memory &memory) {
  CopyCase c;
  const int64_t rank = random->between(0, 4);
  for (int64_t d = 0; d < rank; ++d) c.shape.push_back(rank < 3 ? random_size(random) : random->between(1, 12));
  c.in = random_type(random);
  c.out = random_type(random);
  c.layouts[0] = random_layout(random, static_cast<int>(rank), true);
  c.layouts[1] = random_layout(random, static_cast<int>(rank), false);
  for (Place &place : c.places) place = random_place(random);
  c.seed = random->next();
  run(c, memory);
}

}  // namespace

int main(int count, char **arguments) {
  const int64_t cases = count > 1 ? atoll(arguments[1]) : 2000;
  const uint64_t seed = count > 2 ? strtoull(arguments[2], nullptr, 10) : 20240607;
  const int64_t first = count > 3 ? atoll(arguments[3]) : 0;
  report_faults();
  const Memory memory(kArena);
  const int32_t threads[] = {0, 1, 2, 3, 16};
  printf("%lld cases, seed %llu, level %s\n", static_cast<long long>(cases), static_cast<unsigned long long>(seed),
         dxdw_simd_level());
  case_name = "ragged slices";
  ragged_slices(memory);
  case_name = "chosen products";
  chosen_products(memory);
  for (int64_t number = first; number < first + cases; ++number) {
    Random random(seed + static_cast<uint64_t>(number) * 0x9E3779B97F4A7C15u);
    case_name = "case " + std::to_string(number) + " of seed " + std::to_string(seed);
    set_context("");
    CHECK_OK(dxdw_set_threads(threads[random.between(0, 4)]));
    switch (random.between(0, 9)) {
      case 0: reduction(&random, memory); break;
      case 1:
      case 2:
      case 3: weighted(&random, memory); break;
      case 4: copy(&random, memory); break;
      default: product(&random, memory); break;
    }
  }
  printf("passed\n");
  return 0;
}
