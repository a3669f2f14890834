// One call of each function, compared with references: fp64 within the error that types and contraction length allow,
// and, where the header promises an order of sums, to the bit.
#pragma once

#include "harness.hpp"

namespace test {

// Arenas for all operands of a call and a workspace, used again from case to case.
struct Memory {
  explicit Memory(int64_t bytes) : operands{Arena(bytes), Arena(bytes), Arena(bytes), Arena(bytes), Arena(bytes)} {}
  Arena operands[5];
};

// Does this SIMD level promise the order of sums of the header?
bool level_has_fma();

struct ProductCase {
  int32_t function = DXDW_Y;  // DXDW_Y, DXDW_DX or DXDW_DW
  int64_t t = 1, k = 1, n = 1;
  Type in = Type::f32, out = Type::f32;
  Layout layouts[3];
  Place places[3] = {Place::middle, Place::middle, Place::middle};
  int32_t accumulate = DXDW_ACCUMULATE_DEFAULT, precision = DXDW_PRECISION_DEFAULT;
  int32_t split = 1, deterministic = 1;
  bool own_workspace = false, through_call = false, by_offset = false;
  uint64_t seed = 1;
};

void run(const ProductCase &c, const Memory &memory);

struct ReduceCase {
  int64_t split = 1, k = 1, n = 1;
  Layout layouts[2];
  Place places[2] = {Place::middle, Place::middle};
  int32_t accumulate = DXDW_ACCUMULATE_DEFAULT;
  uint64_t seed = 1;
};

void run(const ReduceCase &c, const Memory &memory);

struct WeightedCase {
  bool backward = false, want_gx = true, want_gw = true;
  std::vector<int64_t> rows;  // leading dimensions
  int64_t d = 1;
  Type in = Type::f32, out = Type::f32;  // out: of y, or of gx and gw
  Layout layouts[5];                     // x, w, y or g, gx, gw
  Place places[5] = {Place::middle, Place::middle, Place::middle, Place::middle, Place::middle};
  int32_t accumulate = DXDW_ACCUMULATE_DEFAULT;
  bool through_call = false, by_offset = false;
  uint64_t seed = 1;
};

void run(const WeightedCase &c, const Memory &memory);

struct CopyCase {
  std::vector<int64_t> shape;
  Type in = Type::f32, out = Type::f32;
  Layout layouts[2];
  Place places[2] = {Place::middle, Place::middle};
  uint64_t seed = 1;
};

void run(const CopyCase &c, const Memory &memory);

// A random layout for the rank; inputs may be expanded.
Layout random_layout(Random *random, int ndim, bool input);
Place random_place(Random *random);

}  // namespace test
