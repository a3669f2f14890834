// Tests of the CUDA backend through the C interface, on a GPU. Without one they are skipped (exit code 77) and say why.
//
//   dxdw_test_cuda [full | reduced] [part ...]
//
// reduced: few cases, for running under compute-sanitizer, as native/bench/NOTES.md tells; every call is lent a workspace
// full of NaN then, because initcheck does not see what TMA writes. Parts: see kParts at the end; none named = all.
#include <cuda_runtime_api.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <algorithm>
#include <string>
#include <vector>

#include "dxdw.h"
#include "gpu_plan.hpp"

namespace {

bool reduced = false;
char context[1024];

[[noreturn]] __attribute__((format(printf, 2, 3))) void fail_at(int line, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "cuda_test.cpp:%d: ", line);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fprintf(stderr, "\nduring: %s\n", context);
  exit(1);
}

#define FAIL(...) fail_at(__LINE__, __VA_ARGS__)
#define CHECK(condition, ...)                         \
  do {                                                \
    if (!(condition)) fail_at(__LINE__, __VA_ARGS__); \
  } while (0)
#define OK(expression)                                                                         \
  do {                                                                                         \
    const int32_t status_of_check = (expression);                                              \
    if (status_of_check != DXDW_OK)                                                            \
      fail_at(__LINE__, "%s: status %d, %s", #expression, status_of_check, dxdw_last_error()); \
  } while (0)

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// splitmix64
struct Random {
  uint64_t state;
  uint64_t next() {
    uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }
  bool one_in(int64_t n) { return between(1, n) == 1; }
  float real() { return static_cast<float>(static_cast<int64_t>(next() >> 40) - (1 << 23)) * 0x1p-23f; }
  float integer() { return static_cast<float>(between(-4, 4)); }
};

// ---- Types ----

enum class Type { f32, f16, bf16 };
constexpr Type kTypes[] = {Type::f32, Type::f16, Type::bf16};
int64_t size_of(Type type) { return type == Type::f32 ? 4 : 2; }
const char *name_of(Type type) { return type == Type::f32 ? "f32" : type == Type::f16 ? "f16" : "bf16"; }

float load(Type type, const char *at) {
  float value;
  uint16_t bits;
  if (type == Type::f32) {
    memcpy(&value, at, 4);
  } else {
    memcpy(&bits, at, 2);
    type == Type::f16 ? dxdw_float16_to_float(&bits, &value, 1) : dxdw_bfloat16_to_float(&bits, &value, 1);
  }
  return value;
}

void store(Type type, char *at, float value) {
  uint16_t bits;
  if (type == Type::f32) {
    memcpy(at, &value, 4);
    return;
  }
  type == Type::f16 ? dxdw_float_to_float16(&value, &bits, 1) : dxdw_float_to_bfloat16(&value, &bits, 1);
  memcpy(at, &bits, 2);
}

double roundoff(Type type) { return type == Type::f32 ? 0x1p-24 : type == Type::f16 ? 0x1p-11 : 0x1p-8; }

// ---- Operands: host image and device memory, guards of NaN around and between the elements ----

constexpr int64_t kGuard = 512;

// Do operands that are laid out from now on end with their allocation, which has just their size? Then memcheck sees a
// read beyond them, which a guard behind would hide; with the guard a write there is seen without any tool. Both are wanted
// of every product.
bool nothing_behind = false;

struct NothingBehind {
  explicit NothingBehind(bool wanted) { nothing_behind = wanted; }
  ~NothingBehind() { nothing_behind = false; }
};

struct Operand {
  Type type = Type::f32;
  std::vector<int64_t> shape, strides;
  int64_t lowest = 0;  // byte offset of element 0 in the image
  std::vector<char> image;
  char *device = nullptr;
  bool own_allocation = false;  // from the runtime itself, not from the library's pool

  Operand() = default;
  Operand(const Operand &) = delete;
  ~Operand() {
    if (device == nullptr) return;
    if (own_allocation)
      cudaFree(device);
    else
      dxdw_memory_free(0, device, nullptr);
  }

  int64_t count() const {
    int64_t n = 1;
    for (int64_t s : shape) n *= s;
    return n;
  }
  // Byte offset of the logical element i.
  int64_t offset(int64_t i) const {
    int64_t at = 0;
    for (size_t d = shape.size(); d-- > 0;) {
      at += i % shape[d] * strides[d];
      i /= shape[d];
    }
    return lowest + at * size_of(type);
  }
  float get(int64_t i) const { return load(type, image.data() + offset(i)); }
  void set(int64_t i, float value) { store(type, image.data() + offset(i), value); }

  // shift: elements by which the first element is off 256 bytes.
  void lay_out(Type t, std::vector<int64_t> s, std::vector<int64_t> st, int64_t shift) {
    type = t;
    shape = s;
    strides = st;
    int64_t low = 0, high = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      const int64_t reach = shape[d] > 0 ? (shape[d] - 1) * strides[d] : 0;
      (reach < 0 ? low : high) += reach;
    }
    lowest = kGuard + (shift - low) * size_of(type);
    own_allocation = nothing_behind;
    image.assign(static_cast<size_t>(lowest + (high + 1) * size_of(type) + (own_allocation ? 0 : kGuard)),
                 static_cast<char>(0xFF));
  }
  void fill(Random *random, bool integers) {
    const int64_t n = count();
    for (int64_t i = 0; i < n; ++i) set(i, integers ? random->integer() : random->real());
  }
  void upload() {
    if (device == nullptr) {
      void *made;
      if (own_allocation)
        CHECK(cudaMalloc(&made, image.size()) == cudaSuccess, "cudaMalloc of %zu bytes", image.size());
      else
        OK(dxdw_memory_allocate(0, image.size(), nullptr, &made));
      device = static_cast<char *>(made);
    }
    bytes_copy(image.data(), DXDW_CPU, device, DXDW_CUDA);
  }
  void download() { bytes_copy(device, DXDW_CUDA, image.data(), DXDW_CPU); }

  dxdw_tensor tensor() {
    return {device,
            DXDW_CUDA,
            0,
            static_cast<int32_t>(shape.size()),
            static_cast<uint8_t>(type == Type::bf16 ? DXDW_BFLOAT : DXDW_FLOAT),
            static_cast<uint8_t>(size_of(type) * 8),
            1,
            shape.data(),
            strides.data(),
            static_cast<uint64_t>(lowest)};
  }

 private:
  // Bytes travel as float16 elements where the size is even: bits are carried.
  void bytes_copy(void *from, int32_t from_device, void *to, int32_t to_device) {
    int64_t elements = static_cast<int64_t>(image.size() / 2);
    CHECK(image.size() % 2 == 0, "odd image");
    const dxdw_tensor source = {from, from_device, 0, 1, DXDW_FLOAT, 16, 1, &elements, nullptr, 0};
    const dxdw_tensor target = {to, to_device, 0, 1, DXDW_FLOAT, 16, 1, &elements, nullptr, 0};
    OK(dxdw_copy(&source, &target, nullptr));
  }
};

// What a call may not touch: everything in `after` but the elements equals `before`.
void check_untouched(const Operand &operand, const std::vector<char> &before, bool output, const char *name) {
  std::vector<char> after = operand.image, expected = before;
  if (output)
    for (int64_t i = 0; i < operand.count(); ++i)
      memcpy(&expected[static_cast<size_t>(operand.offset(i))], &after[static_cast<size_t>(operand.offset(i))],
             static_cast<size_t>(size_of(operand.type)));
  for (size_t i = 0; i < after.size(); ++i)
    CHECK(after[i] == expected[i], "%s: byte %zu of %zu (first element at %lld) was touched", name, i, after.size(),
          static_cast<long long>(operand.lowest));
}

// Random layout of a matrix: dense, padded by odd or by vector-friendly amounts, transposed, strided, reversed,
// shifted, expanded (inputs only).
void lay_out_matrix(Operand *o, Random *random, Type type, int64_t rows, int64_t cols, bool input, bool friendly) {
  const bool transposed = random->one_in(3);
  const int64_t inner = transposed ? rows : cols;
  int64_t step = 1, pitch = inner, shift = 0;
  if (friendly) {
    pitch = (inner + 7) / 8 * 8 + 8 * random->between(0, 2);
  } else {
    if (random->one_in(5)) step = random->between(2, 3);
    pitch = inner * step + (random->one_in(2) ? random->between(0, 5) : 0);
    if (random->one_in(3)) shift = random->between(1, 7);
  }
  int64_t row_stride = transposed ? step : pitch, col_stride = transposed ? pitch : step;
  if (!friendly && random->one_in(6)) row_stride = -row_stride;
  if (!friendly && random->one_in(6)) col_stride = -col_stride;
  if (!friendly && input && random->one_in(8)) (random->one_in(2) ? row_stride : col_stride) = 0;
  o->lay_out(type, {rows, cols}, {row_stride, col_stride}, shift);
}

struct ProductCase {
  int32_t function = DXDW_Y;
  int64_t t = 1, k = 1, n = 1;
  Type in = Type::f32, out = Type::f32;
  int32_t accumulate = 0, precision = 0, split = 1, deterministic = 1, flags = 0;
  bool friendly = false, dense = false, integers = false, own_workspace = false;
  bool lines = false;  // both operands row-major, lines on 16 bytes
  uint64_t seed = 1;
};

void describe(const ProductCase &c, const char *what) {
  snprintf(
      context, sizeof context,
      "%s: function %d t %lld k %lld n %lld %s->%s accumulate %d precision %d split %d det %d friendly %d integers %d "
      "seed %llu%s",
      what, c.function, (long long)c.t, (long long)c.k, (long long)c.n, name_of(c.in), name_of(c.out), c.accumulate,
      c.precision, c.split, c.deterministic, c.friendly, c.integers, (unsigned long long)c.seed,
      nothing_behind ? ", nothing behind" : "");
}

struct Products {
  Operand a, b, c;
  std::vector<char> before[3];
  dxdw_plan plan;
};

void sizes_of(const ProductCase &c, int64_t *ar, int64_t *ac, int64_t *br, int64_t *bc, int64_t *cr, int64_t *cc) {
  const bool y = c.function == DXDW_Y, dx = c.function == DXDW_DX;
  *ar = c.t, *ac = dx ? c.n : c.k;
  *br = y || dx ? c.k : c.t, *bc = c.n;
  *cr = y || dx ? c.t : c.k, *cc = dx ? c.k : c.n;
}

void prepare(const ProductCase &c, Products *p) {
  Random random{c.seed};
  int64_t ar, ac, br, bc, cr, cc;
  sizes_of(c, &ar, &ac, &br, &bc, &cr, &cc);
  if (c.dense) {
    p->a.lay_out(c.in, {ar, ac}, {ac, 1}, 0);
    p->b.lay_out(c.in, {br, bc}, {bc, 1}, 0);
    p->c.lay_out(c.out, {cr, cc}, {cc, 1}, 0);
  } else if (c.lines) {
    const auto pitch = [&](int64_t cols) { return (cols + 7) / 8 * 8 + 8 * random.between(0, 2); };
    p->a.lay_out(c.in, {ar, ac}, {pitch(ac), 1}, 0);
    p->b.lay_out(c.in, {br, bc}, {pitch(bc), 1}, 0);
    lay_out_matrix(&p->c, &random, c.out, cr, cc, false, random.one_in(2));
  } else {
    lay_out_matrix(&p->a, &random, c.in, ar, ac, true, c.friendly);
    lay_out_matrix(&p->b, &random, c.in, br, bc, true, c.friendly);
    lay_out_matrix(&p->c, &random, c.out, cr, cc, false, c.friendly && random.one_in(2));
  }
  p->a.fill(&random, c.integers);
  p->b.fill(&random, c.integers);
  const bool adds = c.accumulate == DXDW_ADD || (c.accumulate == 0 && c.function == DXDW_DW);
  if (adds) p->c.fill(&random, c.integers);
  Operand *all[] = {&p->a, &p->b, &p->c};
  for (int i = 0; i < 3; ++i) {
    all[i]->upload();
    p->before[i] = all[i]->image;
  }
}

void call(const ProductCase &c, Products *p, dxdw_stream *stream = nullptr) {
  dxdw_tensor operands[] = {p->a.tensor(), p->b.tensor(), p->c.tensor()};
  dxdw_options options = {};
  options.size = sizeof options;
  options.accumulate = c.accumulate;
  options.precision = c.precision;
  options.flags = c.flags;
  options.stream = stream;
  p->plan = {};
  p->plan.size = sizeof(dxdw_plan);
  OK(dxdw_explain(c.function, operands, c.split, c.deterministic, &options, &p->plan));
  void *workspace = nullptr;
  if ((c.own_workspace || reduced) && p->plan.workspace_bytes > 0) {
    OK(dxdw_memory_allocate(0, p->plan.workspace_bytes, nullptr, &workspace));
    OK(dxdw_memory_set(0, workspace, 0xFF, p->plan.workspace_bytes, nullptr));
    options.workspace = workspace;
    options.workspace_bytes = p->plan.workspace_bytes;
  }
  OK(dxdw_call(c.function, operands, c.split, c.deterministic, &options, 0, 0, 0, 0, 0, 0));
  if (workspace != nullptr) OK(dxdw_memory_free(0, workspace, nullptr));
}

void fetch(Products *p) {
  p->a.download();
  p->b.download();
  p->c.download();
  check_untouched(p->a, p->before[0], false, "first input");
  check_untouched(p->b, p->before[1], false, "second input");
  check_untouched(p->c, p->before[2], true, "output");
}

// Against fp64 on the host, from the rounded operands. The bound follows from the arithmetic: float32 chains err by at
// most C * 2^-24 of the sum of magnitudes; tensor cores cut each block of at least 8 products at 2^-23 of its largest.
void check_against_host(const ProductCase &c, Products *p) {
  int64_t ar, ac, br, bc, cr, cc;
  sizes_of(c, &ar, &ac, &br, &bc, &cr, &cc);
  const int64_t contraction = c.function == DXDW_Y ? c.k : c.function == DXDW_DX ? c.n : c.t;
  Operand old;
  old.lay_out(c.out, p->c.shape, p->c.strides, 0);
  old.lowest = p->c.lowest;
  old.image = p->before[2];
  const bool adds = c.accumulate == DXDW_ADD || (c.accumulate == 0 && c.function == DXDW_DW);
  // Rows of A by k, and k of B by columns.
  std::vector<double> a(static_cast<size_t>(cr * contraction)), b(static_cast<size_t>(contraction * cc));
  for (int64_t i = 0; i < cr; ++i)
    for (int64_t k = 0; k < contraction; ++k)
      a[static_cast<size_t>(i * contraction + k)] = p->a.get(c.function == DXDW_DW ? k * ac + i : i * ac + k);
  for (int64_t k = 0; k < contraction; ++k)
    for (int64_t j = 0; j < cc; ++j)
      b[static_cast<size_t>(k * cc + j)] = p->b.get(c.function == DXDW_DX ? j * bc + k : k * bc + j);
  std::vector<double> sums(static_cast<size_t>(cc)), sizes(static_cast<size_t>(cc));
  for (int64_t i = 0; i < cr; ++i) {
    std::fill(sums.begin(), sums.end(), 0.0);
    std::fill(sizes.begin(), sizes.end(), 0.0);
    for (int64_t k = 0; k < contraction; ++k) {
      const double u = a[static_cast<size_t>(i * contraction + k)], *row = b.data() + k * cc;
      for (int64_t j = 0; j < cc; ++j) {
        sums[static_cast<size_t>(j)] += u * row[j];
        sizes[static_cast<size_t>(j)] += fabs(u * row[j]);
      }
    }
    for (int64_t j = 0; j < cc; ++j) {
      double sum = sums[static_cast<size_t>(j)], size = sizes[static_cast<size_t>(j)];
      if (adds) {
        const double before = old.get(i * cc + j);
        sum += before;
        size += fabs(before);
      }
      const double got = p->c.get(i * cc + j);
      const double slices = p->plan.split;
      // TF32 keeps 10 bits of each operand; of three bfloat16 parts, products below 2^-24 are left out.
      const double by_name = c.in != Type::f32                      ? 0
                             : c.precision == DXDW_PRECISION_TF32   ? 0x1.01p-10
                             : c.precision == DXDW_PRECISION_BF16X3 ? 0x1p-22
                                                                    : 0;
      const double bound = c.integers && c.out == Type::f32
                               ? 0
                               : ((static_cast<double>(contraction) + slices + 2) * 0x1p-23 + by_name) * size +
                                     roundoff(c.out) * fabs(sum) + (c.out == Type::f16 ? 0x1p-25 : 0);
      CHECK(fabs(got - sum) <= bound, "[%lld, %lld]: %.9g, expected %.9g, bound %.3g, kernel %s, %s", (long long)i,
            (long long)j, got, sum, bound, p->plan.kernel, p->plan.why);
    }
  }
}

int64_t edge(Random *random, int64_t most) {
  const int64_t edges[] = {1, 2, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 96, 127, 128, 129, 130, 192, 255, 256, 257, 300};
  for (;;) {
    const int64_t value =
        random->one_in(3) ? random->between(1, 140) : edges[random->between(0, sizeof edges / sizeof edges[0] - 1)];
    if (value <= most) return value;
  }
}

// Each way of the Hopper kernel, forced: tile_n, band, keeps_columns, fetch_old, blocks, so few that each has many tiles;
// and clusters of few columns or rows. The first leaves all to the plan.
constexpr dxdw::gpu::Forced kForced[] = {{0, 0, 0, 0, 0},
                                         {256, 3, -1, 1, 0},
                                         {256, 1, -1, -1, 2},
                                         {128, 5, -1, 1, 3},
                                         {128, 0, 1, 1, 0},
                                         {128, 0, 1, -1, 5},
                                         {64, 2, 0, 1, 3},
                                         {160, 0, 0, 0, 0},
                                         {160, 3, 0, 0, 2},
                                         {256, 0, 1, 0, 3},
                                         {0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};

const dxdw::gpu::Forced &forced_of(int i) {
  return kForced[static_cast<size_t>(i) % (sizeof kForced / sizeof kForced[0])];
}

struct Forcing {
  explicit Forcing(const dxdw::gpu::Forced &forced) { dxdw::gpu::forced = forced; }
  ~Forcing() { dxdw::gpu::forced = {}; }
};

// Runs a case, with the plan's choices forced for the call alone, and holds the result against the host's.
void check_case(const ProductCase &c, const char *what, const dxdw::gpu::Forced &forced, Products *p) {
  describe(c, what);
  prepare(c, p);
  const Forcing forcing(forced);
  call(c, p);
  fetch(p);
  check_against_host(c, p);
}

void part_parity() {
  const int cases = reduced ? 60 : 1500;
  int kernels[5] = {};
  for (int i = 0; i < cases; ++i) {
    Random random{static_cast<uint64_t>(i) * 77 + 5};
    ProductCase c;
    c.function = i % 3;
    const int64_t most = reduced ? 140 : 300;
    c.t = edge(&random, most), c.k = edge(&random, most), c.n = edge(&random, most);
    c.in = kTypes[random.between(0, 2)];
    c.out = random.one_in(2) ? c.in : Type::f32;
    c.accumulate = static_cast<int32_t>(random.between(0, 2));
    c.precision = random.one_in(4) ? DXDW_PRECISION_EXACT : DXDW_PRECISION_DEFAULT;
    if (c.in == Type::f32 && random.one_in(2))
      c.precision = random.one_in(2) ? DXDW_PRECISION_BF16X3 : DXDW_PRECISION_TF32;
    c.friendly = random.one_in(2);
    c.dense = random.one_in(4);
    c.integers = random.one_in(3);
    c.own_workspace = random.one_in(2);
    if (c.function == DXDW_DW) {
      c.split = static_cast<int32_t>(random.one_in(4) ? 0 : random.between(1, c.t < 6 ? c.t : 6));
      c.deterministic = static_cast<int32_t>(random.between(0, 1));
    }
    c.seed = static_cast<uint64_t>(i) + 1;
    dxdw_plan plan = {};
    for (bool nothing : {false, true}) {
      const NothingBehind behind(nothing);
      Products p;
      check_case(c, "parity", forced_of(i / 3), &p);
      plan = p.plan;
    }
    const char *kernel = plan.kernel;
    ++kernels[kernel[0] == 's'                            ? 0
              : kernel[0] == 'm'                          ? 1
              : strncmp(kernel, "hopper_tf32", 11) == 0   ? 3
              : strncmp(kernel, "hopper_bf16x3", 13) == 0 ? 4
                                                          : 2];
  }
  printf("parity: %d cases; simt %d, mma %d, hopper %d, tf32 %d, bf16x3 %d\n", cases, kernels[0], kernels[1],
         kernels[2], kernels[3], kernels[4]);
}

// Small products of 16-bit operands, around the edges of their tiles of 32 x 32 and their stages of 64 k: one whole stage
// goes by way of registers, all else by asynchronous copies or element by element. Whole numbers, so that float32
// results must be exact.
void part_small() {
  const int64_t depths[] = {1, 8, 31, 63, 64, 65, 127, 128, 129, 200, 504, 512};
  const int64_t extents[] = {1, 2, 15, 31, 32, 33, 64, 70};
  const int rounds = reduced ? 1 : 12;
  int cases = 0, whole = 0;
  for (int64_t depth : depths)
    for (int i = 0; i < 3 * rounds; ++i) {
      Random random{static_cast<uint64_t>(depth) * 1000 + static_cast<uint64_t>(i)};
      ProductCase c;
      c.function = i % 3;
      const auto extent = [&] { return extents[random.between(0, sizeof extents / sizeof extents[0] - 1)]; };
      c.t = extent(), c.k = extent(), c.n = extent();
      (c.function == DXDW_Y ? c.k : c.function == DXDW_DX ? c.n : c.t) = depth;
      if (depth == 64 && i % 2 == 0) c.t = c.k = c.n = 64;
      c.in = random.one_in(2) ? Type::f16 : Type::bf16;
      c.out = random.one_in(3) ? c.in : Type::f32;
      c.accumulate = static_cast<int32_t>(random.between(0, 2));
      c.friendly = !random.one_in(3);
      c.integers = true;
      if (c.function == DXDW_DW && random.one_in(2)) {
        c.split = static_cast<int32_t>(random.between(1, c.t < 5 ? c.t : 5));
        c.deterministic = static_cast<int32_t>(random.between(0, 1));
      }
      c.seed = static_cast<uint64_t>(i) + 40;
      for (bool nothing : {false, true}) {
        const NothingBehind behind(nothing);
        Products p;
        check_case(c, "small", {}, &p);
        ++cases;
        whole += strncmp(p.plan.kernel, "mma_32x32", 9) == 0 && depth == 64 && c.t == 64 && c.k == 64 && c.n == 64;
      }
    }
  // Chunks that are not whole, on allocations that are shorter than one.
  for (int32_t function : {DXDW_Y, DXDW_DX, DXDW_DW})
    for (int64_t t : {1, 3})
      for (int64_t n : {1, 2, 7}) {
        const NothingBehind behind(true);
        ProductCase c;
        c.function = function, c.t = t, c.k = 1, c.n = n, c.in = Type::bf16, c.out = Type::f32;
        c.dense = true, c.integers = true;
        Products p;
        check_case(c, "tiny", {}, &p);
        ++cases;
      }
  printf("small: %d cases, %d of whole tiles and one stage\n", cases, whole);
  CHECK(whole > 0, "no small product took the way through registers");
}

// Whole numbers: every product path must equal float32 multiply-add on the device to the bit, at sizes of many tiles
// and many k-tiles. Catches dropped, doubled and misplaced tiles that a tolerance forgives.
void part_exact() {
  const int cases = reduced ? 12 : 120;
  // Many tiles a block, odd numbers of rows of tiles, long walks down the rows.
  const struct {
    int64_t t, k, n;
    dxdw::gpu::Forced forced;
  } large[] = {{1000, 2176, 4096, {0, 0, 0, 0, 0}},    {3072, 512, 4104, {256, 0, -1, 0, 0}},
               {8320, 1032, 2048, {256, 1, -1, 0, 0}}, {3072, 2056, 4104, {128, 0, -1, 0, 0}},
               {2500, 1032, 4104, {160, 0, 0, 0, 0}},  {20000, 256, 520, {256, 0, 1, 0, 0}},
               {20000, 520, 200, {256, 0, 1, 0, 0}}};
  const int all = cases + 3 * static_cast<int>(sizeof large / sizeof large[0]);
  // And for which float32 multiply-add takes its widest: 8400 x 1000 results of steps of 16 products, and of less than one.
  const int64_t wide_simt[][3] = {{8400, 40, 1000}, {8400, 1000, 40}, {40, 8400, 1000},
                                  {8400, 12, 1000}, {8400, 1000, 48}, {31, 8400, 1000}};
  const int wide = static_cast<int>(sizeof wide_simt / sizeof wide_simt[0]);
  int tiles[5] = {}, simt_tiles[5] = {};
  for (int i = 0; i < all + wide; ++i) {
    if (reduced && i >= cases && i < all) continue;
    Random random{static_cast<uint64_t>(i) * 1001 + 3};
    ProductCase c;
    c.function = i % 3;
    const int64_t most = reduced ? 400 : 1400;
    c.t = random.between(1, most), c.k = random.between(64, most), c.n = random.between(64, most);
    if (random.one_in(2)) c.t = (c.t + 63) / 64 * 64, c.k = (c.k + 63) / 64 * 64, c.n = (c.n + 63) / 64 * 64;
    dxdw::gpu::Forced forced = kForced[static_cast<size_t>(i) % (sizeof kForced / sizeof kForced[0])];
    if (i >= all) {
      const int64_t *const size = wide_simt[i - all];
      c.t = size[0], c.k = size[1], c.n = size[2];
    } else if (i >= cases) {
      const auto &one = large[(i - cases) / 3];
      c.t = one.t, c.k = one.k, c.n = one.n, forced = one.forced;
    }
    c.in = random.one_in(2) ? Type::f16 : Type::bf16;
    if (i >= all || (i < cases && random.one_in(3))) {
      c.in = Type::f32;
      c.precision = random.one_in(2) ? DXDW_PRECISION_BF16X3 : DXDW_PRECISION_TF32;
    }
    c.out = random.one_in(2) ? c.in : Type::f32;
    c.accumulate = static_cast<int32_t>(random.between(0, 2));
    c.friendly = !random.one_in(4) || (i >= all && i % 2 == 0);
    // What the widest tiles can store.
    if ((i >= cases && i < all) || random.one_in(3)) {
      c.dense = true;
      if (c.function != DXDW_DW) c.out = c.in, c.accumulate = DXDW_ASSIGN;
    }
    c.integers = true;
    c.own_workspace = random.one_in(2);
    if (c.function == DXDW_DW) {
      c.split = static_cast<int32_t>(random.one_in(3) ? 0 : random.between(1, c.t < 9 ? c.t : 9));
      c.deterministic = static_cast<int32_t>(random.between(0, 1));
    }
    c.seed = static_cast<uint64_t>(i) + 7;
    // Of the two products, each other case one ends with its allocation.
    describe(c, "exact");
    Products fast, plain;
    {
      const NothingBehind behind(i / 3 % 2 == 1);
      prepare(c, &fast);
    }
    {
      const Forcing forcing(forced);
      call(c, &fast);
    }
    fetch(&fast);
    for (int j = 0; j < 4; ++j) {
      const char *names[] = {"hopper_128x64", "hopper_128x128", "hopper_128x160", "hopper_128x256"};
      tiles[j] += strncmp(fast.plan.kernel, names[j], strlen(names[j])) == 0;
    }
    // Columns are kept by tiles of 128 and, in a kernel of its own, of 256.
    tiles[4] +=
        strncmp(fast.plan.kernel, "hopper_128x256", 14) == 0 && strstr(fast.plan.why, "columns kept") != nullptr;
    ProductCase other = c;
    other.precision = DXDW_PRECISION_EXACT;
    other.split = 1;
    {
      const NothingBehind behind(i / 3 % 2 == 0);
      prepare(other, &plain);
    }
    {
      dxdw::gpu::Forced copied = {};
      copied.fed = i % 2 == 0 ? 0 : -1;
      const Forcing forcing(copied);
      call(other, &plain);
    }
    fetch(&plain);
    for (int j = 0; j < 5; ++j) {
      const char *names[] = {"simt_16x16", "simt_64x64", "simt_128x128", "simt_128x256", "simt_fed"};
      simt_tiles[j] += strncmp(plain.plan.kernel, names[j], strlen(names[j])) == 0;
    }
    for (int64_t e = 0; e < fast.c.count(); ++e) {
      const float x = fast.c.get(e), y = plain.c.get(e);
      CHECK(x == y || (isnan(x) && isnan(y)), "element %lld of [%lld, %lld]: %.9g, float32 gives %.9g; %s, %s",
            (long long)e, (long long)fast.c.shape[0], (long long)fast.c.shape[1], x, y, fast.plan.kernel,
            fast.plan.why);
    }
  }
  printf(
      "exact: %d cases; Hopper tiles of 64: %d, 128: %d, 160: %d, 256 columns: %d, of these kept: %d; float32 tiles of "
      "16: %d, 64: %d, 128: %d, 256 columns: %d, these loaded by TMA: %d\n",
      all + wide, tiles[0], tiles[1], tiles[2], tiles[3], tiles[4], simt_tiles[0], simt_tiles[1], simt_tiles[2],
      simt_tiles[3], simt_tiles[4]);
  if (!reduced)
    for (int j = 0; j < (tiles[1] > 0 ? 5 : 4); ++j)
      CHECK(simt_tiles[j] > 0, "a tile of float32 multiply-add was never taken");
  if (!reduced && tiles[1] > 0)
    for (int count : tiles) CHECK(count > 0, "a tile of the Hopper kernel was never taken");
}

// Float32 products whose tiles TMA loads: the bits of those that threads copy, for each is a chain of the same
// multiply-adds in the same order. Guards against stages that are read too early, given back too early or counted wrongly
// from tile to tile, tails of k, elements that change places when a stage is turned, and edges of tiles; in all mixes of
// directions. Slices added in no order are of whole numbers.
void part_fed() {
  const int64_t extents[] = {1, 4, 5, 100, 127, 128, 129, 255, 256, 257, 300, 520};
  const int64_t depths[] = {1, 3, 4, 7, 8, 9, 24, 31, 32, 33, 39, 40, 63, 64, 65, 96, 127, 128, 129, 160, 300, 1000};
  const int cases = reduced ? 60 : 1200;
  int mixes[4] = {}, tiles[3] = {}, fed = 0;
  for (int i = 0; i < cases; ++i) {
    Random random{static_cast<uint64_t>(i) * 31 + 9};
    ProductCase c;
    c.function = i % 3;
    const auto extent = [&] { return extents[random.between(0, sizeof extents / sizeof extents[0] - 1)]; };
    c.t = extent(), c.k = extent(), c.n = extent();
    const int64_t depth = depths[random.between(0, sizeof depths / sizeof depths[0] - 1)];
    (c.function == DXDW_Y ? c.k : c.function == DXDW_DX ? c.n : c.t) = depth;
    c.in = c.out = Type::f32;
    c.accumulate = static_cast<int32_t>(random.between(0, 2));
    c.friendly = true;
    c.own_workspace = random.one_in(2);
    if (c.function == DXDW_DW) {
      c.split = static_cast<int32_t>(random.between(1, depth < 7 ? depth : 7));
      c.deterministic = static_cast<int32_t>(!random.one_in(3));
      c.integers = c.deterministic == 0;
    }
    c.seed = static_cast<uint64_t>(i) + 11;
    const NothingBehind behind(i % 2 == 1);
    describe(c, "fed");
    Products one, other;
    prepare(c, &one);
    prepare(c, &other);
    dxdw::gpu::Forced forced = {};
    const int tile = i / 3 % 3;
    forced.tile_n = 256 >> tile;
    forced.fed = 1;
    forced.blocks = random.one_in(2) ? 0 : static_cast<int32_t>(random.between(1, 5));
    {
      const Forcing forcing(forced);
      call(c, &one);
    }
    forced.fed = -1;
    {
      const Forcing forcing(forced);
      call(c, &other);
    }
    fetch(&one);
    fetch(&other);
    CHECK(strncmp(other.plan.kernel, "simt_fed", 8) != 0, "%s", other.plan.kernel);
    for (int64_t e = 0; e < one.c.count(); ++e) {
      const float x = one.c.get(e), y = other.c.get(e);
      CHECK(memcmp(&x, &y, 4) == 0, "element %lld of [%lld, %lld]: %.9g, %s gives %.9g; %s, %s", (long long)e,
            (long long)one.c.shape[0], (long long)one.c.shape[1], x, other.plan.kernel, y, one.plan.kernel,
            one.plan.why);
    }
    if (strncmp(one.plan.kernel, "simt_fed", 8) != 0) continue;
    ++fed;
    ++tiles[tile];
    // Of a result that is stored by columns the transposed product is computed, so that B alone may be inner here.
    const bool inner_a = one.a.strides[c.function == DXDW_DW ? 0 : 1] == 1;
    const bool inner_b = one.b.strides[c.function == DXDW_DX ? 1 : 0] == 1;
    ++mixes[2 * inner_a + inner_b];
  }
  printf("fed: %d cases, %d of them loaded by TMA: k inner in neither operand %d, in B %d, in A %d, in both %d\n",
         cases, fed, mixes[0], mixes[1], mixes[2], mixes[3]);
  printf("of 256 columns %d, 128 %d, 64 %d\n", tiles[0], tiles[1], tiles[2]);
  if (fed > 0) {
    for (int mix : mixes) CHECK(mix > 0, "a mix of directions was never loaded by TMA");
    for (int tile : tiles) CHECK(tile > 0, "a tile was never loaded by TMA");
  }
}

// How far each precision of float32 operands is from the exact product, as a share of the sum of magnitudes: plain
// float32 multiply-add is the measure that bfloat16 parts must meet, for data of both signs and of one. Guards against
// parts or products of parts that are left out, and sums that the tensor cores cut for too long.
void part_precision() {
  const int64_t contractions[] = {4096, 512};
  for (int64_t contraction : contractions) {
    if (reduced && contraction > 512) continue;
    for (bool positive : {false, true}) {
      const int64_t rows = reduced ? 130 : 200, cols = reduced ? 194 : 230;
      double rms[3] = {}, most[3] = {};
      const int32_t precisions[] = {DXDW_PRECISION_DEFAULT, DXDW_PRECISION_BF16X3, DXDW_PRECISION_TF32};
      std::vector<double> exact, size;
      for (int i = 0; i < 3; ++i) {
        ProductCase c;
        c.function = DXDW_DW, c.t = contraction, c.k = rows, c.n = cols, c.accumulate = DXDW_ASSIGN;
        c.precision = precisions[i];
        describe(c, positive ? "precision, positive" : "precision");
        Products p;
        Random random{17};
        p.a.lay_out(Type::f32, {c.t, c.k}, {c.k, 1}, 0);
        p.b.lay_out(Type::f32, {c.t, c.n}, {c.n, 1}, 0);
        p.c.lay_out(Type::f32, {c.k, c.n}, {c.n, 1}, 0);
        // Sums of four uniform values: near enough to normal.
        const auto value = [&] {
          return positive ? fabsf(random.real()) : random.real() + random.real() + random.real() + random.real();
        };
        for (Operand *o : {&p.a, &p.b})
          for (int64_t e = 0; e < o->count(); ++e) o->set(e, value());
        for (Operand *o : {&p.a, &p.b, &p.c}) o->upload();
        call(c, &p);
        p.c.download();
        if (i == 0) {
          exact.assign(static_cast<size_t>(rows * cols), 0);
          size = exact;
          for (int64_t t = 0; t < c.t; ++t)
            for (int64_t k = 0; k < rows; ++k) {
              const double u = p.a.get(t * rows + k);
              for (int64_t n = 0; n < cols; ++n) {
                const double term = u * p.b.get(t * cols + n);
                exact[static_cast<size_t>(k * cols + n)] += term;
                size[static_cast<size_t>(k * cols + n)] += fabs(term);
              }
            }
        }
        for (int64_t e = 0; e < rows * cols; ++e) {
          const double error = fabs(p.c.get(e) - exact[static_cast<size_t>(e)]) / size[static_cast<size_t>(e)];
          rms[i] += error * error / static_cast<double>(rows * cols);
          if (!(error <= most[i])) most[i] = error;
        }
        rms[i] = sqrt(rms[i]);
        printf("  %lld k, %s: %s rms %.2e, largest %.2e\n", (long long)contraction,
               positive ? "uniform in [0, 1]" : "both signs", p.plan.kernel, rms[i], most[i]);
      }
      CHECK(rms[1] <= 1.5 * rms[0] && most[1] <= 2 * most[0], "bfloat16 parts: %.3g, float32: %.3g", rms[1], rms[0]);
      CHECK(rms[2] <= 0x1p-11, "TF32: %.3g", rms[2]);
    }
  }
  // Values near float32's largest stay finite, and a NaN and an infinity reach no other row or column.
  for (int32_t precision : {DXDW_PRECISION_BF16X3, DXDW_PRECISION_TF32}) {
    ProductCase c;
    c.function = DXDW_Y, c.t = 130, c.k = 160, c.n = 200, c.precision = precision;
    describe(c, "precision of large values");
    Products p;
    p.a.lay_out(Type::f32, {c.t, c.k}, {c.k, 1}, 0);
    p.b.lay_out(Type::f32, {c.k, c.n}, {c.n, 1}, 0);
    p.c.lay_out(Type::f32, {c.t, c.n}, {c.n, 1}, 0);
    for (int64_t e = 0; e < p.a.count(); ++e) p.a.set(e, e % c.k == 3 ? 0x1.fep127f : 0.0f);
    for (int64_t e = 0; e < p.b.count(); ++e) p.b.set(e, 0x1p-20f);
    if (precision == DXDW_PRECISION_BF16X3) p.a.set(5 * c.k + 3, 0x1.fffffep127f);
    p.a.set(7 * c.k + 9, NAN);
    p.b.set(11 * c.n + 13, INFINITY);
    for (Operand *o : {&p.a, &p.b, &p.c}) o->upload();
    call(c, &p);
    p.c.download();
    for (int64_t i = 0; i < c.t; ++i)
      for (int64_t j = 0; j < c.n; ++j) {
        const float got = p.c.get(i * c.n + j);
        if (i == 7 || j == 13)
          CHECK(isnan(got), "[%lld, %lld] is %g", (long long)i, (long long)j, got);  // 0 . infinity
        else
          CHECK(got == (i == 5 && precision == DXDW_PRECISION_BF16X3 ? 0x1.fffffep107f : 0x1.fep107f),
                "[%lld, %lld] is %a", (long long)i, (long long)j, got);
      }
  }
  printf("precision: fine\n");
}

// A deterministic split equals dw_reduce over the partials that each slice's own call assigns, to the bit.
void part_slices() {
  const int cases = reduced ? 6 : 60;
  for (int i = 0; i < cases; ++i) {
    Random random{static_cast<uint64_t>(i) * 31 + 11};
    ProductCase c;
    c.function = DXDW_DW;
    c.t = random.between(2, reduced ? 300 : 3000), c.k = random.between(1, 300), c.n = random.between(1, 300);
    c.in = kTypes[i % 3];
    if (c.in == Type::f32) c.precision = static_cast<int32_t>(random.between(0, DXDW_PRECISION_BF16X3));
    c.accumulate = static_cast<int32_t>(random.between(1, 2));
    c.split = static_cast<int32_t>(random.between(2, c.t < 12 ? c.t : 12));
    c.friendly = random.one_in(2);
    c.seed = static_cast<uint64_t>(i) + 3;
    const NothingBehind behind(i / 3 % 2 == 1);
    describe(c, "slices");
    Products whole;
    prepare(c, &whole);
    {
      const Forcing forcing(forced_of(i));
      call(c, &whole);
    }
    fetch(&whole);
    Operand partials, result;
    partials.lay_out(Type::f32, {c.split, c.k, c.n}, {c.k * c.n, c.n, 1}, 0);
    partials.upload();
    result.lay_out(Type::f32, whole.c.shape, whole.c.strides, 0);
    result.lowest = whole.c.lowest;
    result.image = whole.before[2];
    result.upload();
    const int64_t chunk = (c.t + c.split - 1) / c.split;
    dxdw_options assign = {};
    assign.size = sizeof assign;
    assign.accumulate = DXDW_ASSIGN;
    assign.precision = c.precision;
    for (int64_t s = 0; s < c.split; ++s) {
      const int64_t first = s * chunk < c.t ? s * chunk : c.t, end = first + chunk < c.t ? first + chunk : c.t;
      dxdw_tensor x = whole.a.tensor(), dy = whole.b.tensor(), part = partials.tensor();
      int64_t x_shape[] = {end - first, c.k}, dy_shape[] = {end - first, c.n}, part_shape[] = {c.k, c.n};
      int64_t part_strides[] = {c.n, 1};
      x.shape = x_shape;
      dy.shape = dy_shape;
      x.byte_offset += static_cast<uint64_t>(first * x.strides[0] * size_of(c.in));
      dy.byte_offset += static_cast<uint64_t>(first * dy.strides[0] * size_of(c.in));
      part.ndim = 2;
      part.shape = part_shape;
      part.strides = part_strides;
      part.byte_offset += static_cast<uint64_t>(s * c.k * c.n * 4);
      OK(dw_launch(&x, &dy, &part, 1, 1, &assign));
    }
    dxdw_options options = assign;
    options.accumulate = c.accumulate;
    const dxdw_tensor parts = partials.tensor(), sum = result.tensor();
    OK(dw_reduce(&parts, &sum, &options));
    result.download();
    for (int64_t e = 0; e < result.count(); ++e) {
      const float x = whole.c.get(e), y = result.get(e);
      CHECK(memcmp(&x, &y, 4) == 0, "element %lld: split call %.9g, slices %.9g; %s", (long long)e, x, y,
            whole.plan.kernel);
    }
  }
  printf("slices: %d cases\n", cases);
}

// A second stream that keeps the GPU busy while a test runs.
struct BusyStream {
  dxdw_stream *stream = nullptr;
  Operand x, w, y;
  BusyStream() {
    OK(dxdw_stream_create(0, &stream));
    Random random{99};
    x.lay_out(Type::bf16, {1024, 1024}, {1024, 1}, 0);
    w.lay_out(Type::bf16, {1024, 1024}, {1024, 1}, 0);
    y.lay_out(Type::bf16, {1024, 1024}, {1024, 1}, 0);
    x.fill(&random, false);
    w.fill(&random, false);
    x.upload();
    w.upload();
    y.upload();
  }
  void add(int calls) {
    const dxdw_tensor a = x.tensor(), b = w.tensor(), c = y.tensor();
    dxdw_options options = {};
    options.size = sizeof options;
    options.stream = stream;
    for (int i = 0; i < calls; ++i) OK(y_launch(&a, &b, &c, &options));
  }
  ~BusyStream() { dxdw_stream_destroy(stream); }
};

// One bit pattern over many runs, beside a busy stream, for every kernel and for forced and planned splits.
void part_determinism() {
  const int runs = reduced ? 3 : 100;
  BusyStream busy;
  const struct {
    int64_t t, k, n;
    Type in;
    int32_t split;
    bool friendly;
    int32_t precision = DXDW_PRECISION_DEFAULT;
  } shapes[] = {{4096, 512, 512, Type::bf16, 0, true},
                {3000, 264, 520, Type::bf16, 7, true},
                {2048, 384, 640, Type::f16, 1, true},
                {1500, 257, 131, Type::bf16, 4, false},
                {1000, 120, 50, Type::f16, 3, false},
                {2000, 130, 200, Type::f32, 8, false},
                {3000, 1024, 1024, Type::f32, 4, true},
                {8192, 256, 256, Type::bf16, 32, true},
                {512, 1024, 1024, Type::bf16, 0, true},
                {3000, 264, 520, Type::f32, 0, false, DXDW_PRECISION_BF16X3},
                {2000, 400, 300, Type::f32, 5, true, DXDW_PRECISION_TF32}};
  for (const auto &s : shapes) {
    ProductCase c;
    c.function = DXDW_DW;
    c.t = reduced ? s.t / 8 : s.t, c.k = s.k, c.n = s.n, c.in = s.in, c.split = s.split, c.friendly = s.friendly;
    c.accumulate = DXDW_ADD;
    c.precision = s.precision;
    describe(c, "determinism");
    Products p;
    prepare(c, &p);
    std::vector<char> first;
    for (int run = 0; run < runs; ++run) {
      p.c.image = p.before[2];
      p.c.upload();
      busy.add(run % 4);
      call(c, &p);
      p.c.download();
      if (run == 0) first = p.c.image;
      CHECK(first == p.c.image, "run %d differs; %s", run, p.plan.kernel);
    }
  }
  // Backward of the weighted sum.
  Operand x, w, g, gx, gw;
  Random random{5};
  const int64_t rows = reduced ? 9000 : 20000, d = 264;
  x.lay_out(Type::bf16, {rows, d}, {d, 1}, 0);
  w.lay_out(Type::bf16, {d}, {1}, 0);
  g.lay_out(Type::bf16, {rows}, {1}, 0);
  gx.lay_out(Type::bf16, {rows, d}, {d, 1}, 0);
  gw.lay_out(Type::f32, {d}, {1}, 0);
  for (Operand *o : {&x, &w, &g}) o->fill(&random, false);
  for (Operand *o : {&x, &w, &g, &gx, &gw}) o->upload();
  const dxdw_tensor t[] = {x.tensor(), w.tensor(), g.tensor(), gx.tensor(), gw.tensor()};
  dxdw_options options = {};
  options.size = sizeof options;
  options.accumulate = DXDW_ASSIGN;
  std::vector<char> first;
  snprintf(context, sizeof context, "determinism of the weighted sum's backward");
  for (int run = 0; run < runs; ++run) {
    busy.add(run % 3);
    OK(weighted_sum_bwd(&t[0], &t[1], &t[2], &t[3], &t[4], &options));
    gw.download();
    if (run == 0) first = gw.image;
    CHECK(first == gw.image, "run %d differs", run);
  }
  printf("determinism: %d runs each\n", runs);
}

// One bit pattern over many repeats beside a busy stream: slices of every tile width and in clusters, one slice
// that is added in place.
void part_repeats() {
  const int runs = reduced ? 3 : 1000;
  BusyStream busy;
  const int64_t shapes[][3] = {{8192, 512, 512},  {8192, 256, 256}, {4096, 1024, 64}, {2048, 1032, 520},
                               {512, 1024, 1024}, {4096, 4096, 64}, {4096, 40, 8192}};
  for (const auto &s : shapes) {
    ProductCase c;
    c.function = DXDW_DW;
    c.t = reduced ? s[0] / 8 : s[0], c.k = s[1], c.n = s[2], c.in = Type::bf16, c.split = 0, c.friendly = true;
    c.accumulate = DXDW_ASSIGN;
    c.dense = std::min(c.k, c.n) <= 64;  // for clusters
    describe(c, "repeats");
    Products p;
    prepare(c, &p);
    std::vector<char> first;
    for (int run = 0; run < runs; ++run) {
      busy.add(1 + run % 3);
      call(c, &p);
      p.c.download();
      if (run == 0) first = p.c.image;
      CHECK(first == p.c.image, "run %d differs; %s", run, p.plan.kernel);
    }
  }
  printf("repeats: %d runs of seven shapes beside a busy stream\n", runs);
}

// Products of 16 columns by the kernel that is theirs, forced: around the edges of its rows, steps and rings, steps that are
// asked for ahead and such that are not, more tiles than blocks. Whole numbers, so that float32 results must be exact.
void part_thin() {
  const int64_t depths[] = {512, 513, 520, 575, 576, 577, 640, 1023, 1024, 1025, 1088, 1544, 1600, 3000};
  const int64_t extents[] = {1, 8, 63, 65, 127, 128, 129, 192, 255, 256, 257, 600, 900, 1100};
  const int rounds = reduced ? 4 : 24;
  int cases = 0, taken[2] = {};
  for (int64_t depth : depths)
    for (int i = 0; i < rounds; ++i) {
      Random random{static_cast<uint64_t>(depth) * 1000 + static_cast<uint64_t>(i)};
      ProductCase c;
      c.function = i % 2 == 0 ? DXDW_Y : DXDW_DX;
      c.t = extents[random.between(0, sizeof extents / sizeof extents[0] - 1)];
      c.k = c.function == DXDW_Y ? depth : 16, c.n = c.function == DXDW_Y ? 16 : depth;
      c.in = random.one_in(2) ? Type::f16 : Type::bf16;
      c.out = random.one_in(2) ? c.in : Type::f32;
      c.accumulate = static_cast<int32_t>(random.between(0, 2));
      c.friendly = !random.one_in(8);
      c.dense = c.function == DXDW_Y && random.one_in(4);
      c.integers = true;
      c.seed = static_cast<uint64_t>(depth * 100 + i);
      dxdw::gpu::Forced forced = {};
      forced.thin = 1;
      const int32_t blocks[] = {0, 0, 1, 2, 3};
      forced.blocks = blocks[random.between(0, 4)];
      const NothingBehind behind(random.one_in(2));
      Products p;
      check_case(c, "thin", forced, &p);
      ++cases;
      taken[i % 2] += strncmp(p.plan.kernel, "hopper_thin_128x16", 18) == 0;
    }
  printf("thin: %d cases, of which Y %d, dX %d by the thin kernel\n", cases, taken[0], taken[1]);
  CHECK(taken[0] > 0 && taken[1] > 0, "the thin kernel was not taken");

  // Row i has the same bits for every number of rows, be they many enough for the thin kernel or not.
  const struct {
    int64_t t;
    int32_t thin;
  } arms[] = {{300, -1}, {300, 1}, {129, 1}, {16, 1}, {1, 1}, {1, -1}, {8200, 0}};
  constexpr int64_t kDepth = 2048;
  std::vector<float> rows;
  for (const auto &arm : arms) {
    if (reduced && arm.t > 300) continue;
    snprintf(context, sizeof context, "thin: %lld rows, forced %d", (long long)arm.t, arm.thin);
    ProductCase c;
    c.t = arm.t, c.k = kDepth, c.n = 16, c.in = Type::bf16, c.out = Type::f32;
    c.flags = DXDW_BATCH_INVARIANT;
    Products p;
    Random random{4};
    p.a.lay_out(c.in, {c.t, c.k}, {c.k, 1}, 0);
    p.b.lay_out(c.in, {c.k, c.n}, {c.n, 1}, 0);
    p.c.lay_out(c.out, {c.t, c.n}, {c.n, 1}, 0);
    // Values that depend on (row, column) alone.
    for (int64_t e = 0; e < p.a.count(); ++e) {
      Random value{static_cast<uint64_t>(e)};
      p.a.set(e, value.real());
    }
    p.b.fill(&random, false);
    for (Operand *o : {&p.a, &p.b, &p.c}) o->upload();
    dxdw::gpu::Forced forced = {};
    forced.thin = arm.thin;
    const Forcing forcing(forced);
    call(c, &p);
    p.c.download();
    CHECK((strncmp(p.plan.kernel, "hopper_thin", 11) == 0) == (arm.thin >= 0), "%s", p.plan.kernel);
    for (int64_t e = 0; e < std::min<int64_t>(p.c.count(), 300 * c.n); ++e) {
      const float value = p.c.get(e);
      if (rows.size() < static_cast<size_t>(300 * c.n))
        rows.push_back(value);
      else
        CHECK(memcmp(&rows[static_cast<size_t>(e)], &value, 4) == 0, "row %lld: %.9g, %.9g with other rows",
              (long long)(e / c.n), value, rows[static_cast<size_t>(e)]);
    }
  }
}

// dW of few columns or rows by clusters, forced: around the edges of tiles of 64, of steps and the ring of k, slices that
// are short, rows of every pitch. Guards against sums that are read before they are there, or from another slice's place,
// and elements that are stored twice, elsewhere or not at all. Whole numbers must be exact, any numbers have the bits of
// as many slices that go through the workspace. And more clusters than run at once.
void part_clusters() {
  const int64_t depths[] = {2,   3,   5,   7,   8,   9,   15,  16,  17,  63,  64,  65,  127,  128,  129, 200,
                            255, 256, 257, 384, 385, 511, 512, 513, 767, 768, 769, 833, 1000, 1537, 2100};
  const int64_t narrow[] = {16, 16, 17, 24, 31, 32, 32, 33, 63, 64}, more[] = {0, 1, 8, 63, 64, 65, 130};
  const int32_t sizes[] = {1, 2};
  const int rounds = reduced ? 1 : 5;
  int cases = 0, taken[2] = {}, mirrored = 0, swapped = 0, carried[2] = {};
  for (int64_t depth : depths)
    for (int size = 0; size < 2; ++size)
      for (int i = 0; i < rounds; ++i) {
        Random random{static_cast<uint64_t>(depth) * 1000 + static_cast<uint64_t>(4 * i + size)};
        ProductCase c;
        c.function = DXDW_DW;
        c.t = depth;
        c.n = narrow[random.between(0, sizeof narrow / sizeof narrow[0] - 1)];
        c.k = (128 * 64 + c.n - 1) / c.n + more[random.between(0, sizeof more / sizeof more[0] - 1)];
        if (random.one_in(2)) std::swap(c.k, c.n);
        c.in = random.one_in(2) ? Type::f16 : Type::bf16;
        c.out = Type::f32;
        c.accumulate = static_cast<int32_t>(random.between(0, 2));
        c.lines = true;
        c.integers = random.one_in(2);
        c.split = random.one_in(2) ? 0 : sizes[size];
        c.deterministic = static_cast<int32_t>(random.between(0, 1));
        c.seed = static_cast<uint64_t>(depth * 100 + 4 * i + size);
        dxdw::gpu::Forced forced = {};
        forced.clustered = sizes[size];
        const NothingBehind behind(random.one_in(2));
        Products p;
        check_case(c, "clusters", forced, &p);
        ++cases;
        if (strncmp(p.plan.kernel, "hopper_cluster_64x64", 20) != 0) continue;
        CHECK(p.plan.split == sizes[size] && p.plan.workspace_bytes == 0, "%d slices, %s", p.plan.split, p.plan.why);
        ++taken[size];
        mirrored += c.k < c.n;
        if (std::min(c.k, c.n) == 16) ++carried[c.k < c.n];
        swapped += p.c.strides[0] == 1;
        const std::vector<char> image = p.c.image;
        p.c.image = p.before[2];
        p.c.upload();
        c.split = sizes[size];
        c.deterministic = 1;
        forced = {};
        forced.clustered = -1;
        const Forcing forcing(forced);
        call(c, &p);
        fetch(&p);
        CHECK(strncmp(p.plan.kernel, "hopper_cluster", 14) != 0, "%s", p.plan.kernel);
        CHECK(p.c.image == image, "clusters and %s differ", p.plan.kernel);
      }
  printf("clusters: %d cases; of 1: %d, of 2: %d; of these few rows %d, column-major %d, carried rows %d, columns %d\n",
         cases, taken[0], taken[1], mirrored, swapped, carried[1], carried[0]);
  if (taken[0] == 0) return;  // a chip without the kernel
  for (int count : taken) CHECK(count > 0, "a size of clusters was never taken");
  CHECK(mirrored > 0 && swapped > 0 && carried[0] > 0 && carried[1] > 0, "a kind of result was never taken");

  // More clusters than run at once, and rings that go round many times, one behind another on the same operands.
  const int64_t large[][3] = {{700, 9000, 16}, {600, 64, 9000}, {10000, 512, 32}, {12000, 16, 512}};
  for (const auto &shape : large) {
    if (reduced) continue;
    ProductCase c;
    c.function = DXDW_DW, c.t = shape[0], c.k = shape[1], c.n = shape[2], c.in = Type::bf16, c.out = Type::f32;
    c.accumulate = DXDW_ASSIGN, c.dense = true;
    describe(c, "clusters, many");
    Products p;
    prepare(c, &p);
    for (int32_t size : sizes) {
      c.split = size;
      std::vector<char> first;
      for (int32_t clustered : {-1, 1}) {
        dxdw::gpu::Forced forced = {};
        forced.clustered = clustered;
        const Forcing forcing(forced);
        call(c, &p);
        p.c.download();
        CHECK((strncmp(p.plan.kernel, "hopper_cluster", 14) == 0) == (clustered == 1), "%s", p.plan.kernel);
        if (first.empty()) first = p.c.image;
        CHECK(p.c.image == first, "%s, %d slices differ", p.plan.kernel, size);
      }
    }
  }
}

// Products that read what the one before them wrote, and write what it read, one behind another on a stream and in a graph:
// kernels that start while the one before them ends must wait for it. Each way gives the bits of kernels that start alone.
void part_chain() {
  const int rounds = reduced ? 3 : 30;
  const dxdw::gpu::Forced ways[] = {{0, 0, 0, 0, 0, 0, 0, -1},
                                    {},
                                    {64},
                                    {128, 0, -1},
                                    {128, 0, 1},
                                    {160},
                                    {256, 0, -1},
                                    {256, 0, 1},
                                    {0, 0, 0, 0, 7},
                                    {0, 0, 0, 0, 0, 0, 0, 0, 1},
                                    {0, 0, 0, 0, 0, 0, 0, -1, 1},
                                    {0, 0, 0, 0, 0, 0, 0, 0, 0, 2},
                                    {0, 0, 0, 0, 0, 0, 0, 0, 0, -1}};
  const size_t count = sizeof ways / sizeof ways[0];
  const char *names[] = {"x", "y", "z", "dw", "dv"};
  const int64_t sizes[][2] = {{256, 32}, {512, 16}};
  for (const auto &size : sizes) {
    const int64_t t = reduced ? 640 : 4096, d = size[0], n = size[1];
    std::vector<char> expected[5];
    // The last way is the plan's, recorded into a graph.
    for (size_t way = 0; way <= count; ++way) {
      snprintf(context, sizeof context, "chain of [%lld, %lld], way %zu", (long long)t, (long long)d, way);
      Operand x, y, w, v, z, dw, dv;
      Random random{11};
      x.lay_out(Type::bf16, {t, d}, {d, 1}, 0);
      y.lay_out(Type::bf16, {t, d}, {d, 1}, 0);
      z.lay_out(Type::bf16, {t, n}, {n, 1}, 0);
      w.lay_out(Type::bf16, {d, d}, {d, 1}, 0);
      v.lay_out(Type::bf16, {d, n}, {n, 1}, 0);
      dw.lay_out(Type::f32, {d, d}, {d, 1}, 0);
      dv.lay_out(Type::f32, {d, n}, {n, 1}, 0);
      for (Operand *o : {&x, &y, &z, &w, &v, &dw, &dv}) {
        o->fill(&random, false);
        // Results of the size of what they come from.
        for (int64_t i = 0; o == &w && i < o->count(); ++i) o->set(i, o->get(i) / 16);
        o->upload();
      }
      dxdw_stream *stream;
      OK(dxdw_stream_create(0, &stream));
      dxdw_options options = {};
      options.size = sizeof options;
      options.stream = stream;
      const auto product = [&](int32_t function, Operand *a, Operand *b, Operand *c, int32_t split) {
        const dxdw_tensor operands[] = {a->tensor(), b->tensor(), c->tensor()};
        OK(dxdw_call(function, operands, split, 1, &options, 0, 0, 0, 0, 0, 0));
      };
      const auto round = [&] {
        product(DXDW_Y, &x, &w, &y, 1);
        product(DXDW_DW, &x, &y, &dw, 3);
        product(DXDW_DX, &y, &w, &x, 1);
        product(DXDW_Y, &x, &v, &z, 1);
        product(DXDW_DW, &x, &z, &dv, 2);
      };
      const Forcing forcing(way < count ? ways[way] : dxdw::gpu::Forced{});
      if (way < count) {
        for (int i = 0; i < rounds; ++i) round();
        OK(dxdw_stream_synchronize(stream));
      } else {
        void *workspace;
        options.workspace_bytes = static_cast<uint64_t>(3 * d * d * 4);
        OK(dxdw_memory_allocate(0, options.workspace_bytes, nullptr, &workspace));
        options.workspace = workspace;
        dxdw_graph *graph;
        OK(dxdw_graph_begin(stream));
        round();
        OK(dxdw_graph_end(stream, &graph));
        for (int i = 0; i < rounds; ++i) OK(dxdw_graph_launch(graph, stream));
        OK(dxdw_stream_synchronize(stream));
        OK(dxdw_graph_destroy(graph));
        OK(dxdw_memory_free(0, workspace, nullptr));
      }
      OK(dxdw_stream_destroy(stream));
      Operand *const results[] = {&x, &y, &z, &dw, &dv};
      for (int i = 0; i < 5; ++i) {
        results[i]->download();
        if (way == 0) expected[i] = results[i]->image;
        CHECK(results[i]->image == expected[i], "%s differs", names[i]);
      }
    }
  }
  printf("chain: same bits in %zu ways and a graph, %d rounds\n", count, rounds);
}

// Row i of Y has the same bits for every number of rows.
void part_batch() {
  const struct {
    Type type;
    int32_t precision;
  } arms[] = {{Type::f32, DXDW_PRECISION_DEFAULT},
              {Type::f32, DXDW_PRECISION_TF32},
              {Type::f32, DXDW_PRECISION_BF16X3},
              {Type::f16, DXDW_PRECISION_DEFAULT},
              {Type::bf16, DXDW_PRECISION_DEFAULT}};
  for (const auto &arm : arms) {
    const Type type = arm.type;
    const int64_t counts[] = {300, 1, 2, 16, 129};
    std::vector<float> rows;
    for (int64_t t : counts) {
      for (int32_t function : {DXDW_Y, DXDW_DX}) {
        ProductCase c;
        c.function = function, c.t = t, c.k = 264, c.n = 520, c.in = type, c.out = Type::f32, c.friendly = true;
        c.flags = DXDW_BATCH_INVARIANT;
        c.precision = arm.precision;
        describe(c, "batch");
        Products p;
        Random random{4};
        const int64_t inner = function == DXDW_Y ? c.k : c.n, outer = function == DXDW_Y ? c.n : c.k;
        // Values that depend on (row, column) alone.
        p.a.lay_out(type, {t, inner}, {inner, 1}, 0);
        p.b.lay_out(type, {c.k, c.n}, {c.n, 1}, 0);
        p.c.lay_out(Type::f32, {t, outer}, {outer, 1}, 0);
        for (int64_t i = 0; i < p.a.count(); ++i) {
          Random value{static_cast<uint64_t>(i)};
          p.a.set(i, value.real());
        }
        p.b.fill(&random, false);
        p.a.upload();
        p.b.upload();
        p.c.upload();
        call(c, &p);
        p.c.download();
        const int64_t at = function == DXDW_Y ? 0 : 300 * 520;
        rows.resize(300 * 520 + 300 * 264);
        for (int64_t i = 0; i < p.c.count(); ++i) {
          const float value = p.c.get(i);
          if (t == 300)
            rows[static_cast<size_t>(at + i)] = value;
          else
            CHECK(memcmp(&rows[static_cast<size_t>(at + i)], &value, 4) == 0, "row %lld differs with %lld rows",
                  (long long)(i / outer), (long long)t);
        }
      }
    }
  }
  printf("batch: same bits for 1, 2, 16, 129, 300 rows\n");
  // T may change a product's tiles, and whose rows they are: every way of the Hopper kernel gives the same bits.
  for (Type type : {Type::f16, Type::bf16})
    for (int32_t function : {DXDW_Y, DXDW_DX, DXDW_DW}) {
      ProductCase c;
      c.function = function, c.t = 600, c.k = 256, c.n = 248, c.in = type,
      c.out = function == DXDW_DW ? Type::f32 : type;
      c.accumulate = DXDW_ASSIGN, c.dense = true, c.seed = 9;
      describe(c, "ways");
      std::vector<float> first;
      for (size_t way = 0; way < sizeof kForced / sizeof kForced[0]; ++way) {
        const NothingBehind behind(way % 2 == 1);
        Products p;
        prepare(c, &p);
        const Forcing forcing(kForced[way]);
        call(c, &p);
        fetch(&p);
        for (int64_t e = 0; e < p.c.count(); ++e) {
          const float value = p.c.get(e);
          if (way == 0)
            first.push_back(value);
          else
            CHECK(memcmp(&first[static_cast<size_t>(e)], &value, 4) == 0, "element %lld: %.9g, way %zu gives %.9g; %s",
                  (long long)e, first[static_cast<size_t>(e)], way, value, p.plan.kernel);
        }
      }
    }
  printf("ways: same bits in every way of the Hopper kernel\n");
}

void part_weighted() {
  const int cases = reduced ? 40 : 600;
  for (int i = 0; i < cases; ++i) {
    Random random{static_cast<uint64_t>(i) * 13 + 1};
    // Every tenth case is dense, with rows enough for every block and vectors of columns that fill a slab or do not.
    const bool large = i % 10 == 9;
    const Type in = kTypes[i % 3], out = large || random.one_in(2) ? in : Type::f32;
    const bool backward = random.one_in(2), friendly = large || random.one_in(2);
    const int64_t sizes[] = {1, 3, 8, 64, 127, 128, 256, 1000, 2056, 4096};
    const int64_t large_sizes[] = {24, 64, 128, 256, 264, 1000, 1504, 2056, 4096, 8192, 20000};
    const int64_t d = large              ? large_sizes[i / 10 % 11]
                      : random.one_in(3) ? random.between(1, 700)
                                         : sizes[random.between(0, 9)];
    const int64_t unit = 16 / size_of(in);
    const int64_t outer = large ? 1 : random.between(1, 5),
                  rows = large ? (int64_t{1} << 22) / (d * size_of(in)) + random.between(1, 40)
                               : random.between(1, reduced || d > 1000 ? 20 : 150);
    const int64_t pitch = large      ? d + unit * random.between(0, 1)
                          : friendly ? (d + unit - 1) / unit * unit
                                     : d + random.between(0, 3);
    const int64_t step = friendly ? 1 : random.between(1, 2);
    snprintf(context, sizeof context, "weighted: case %d, %s->%s %s, [%lld, %lld, %lld]", i, name_of(in), name_of(out),
             backward ? "backward" : "forward", (long long)outer, (long long)rows, (long long)d);
    const NothingBehind behind(i / 3 % 2 == 1);
    Operand x, w, g, gx, gw;
    const int64_t shift = friendly ? 0 : random.between(0, 3);
    x.lay_out(in, {outer, rows, d}, {rows * pitch * step + (random.one_in(2) ? 0 : unit), pitch * step, step}, shift);
    w.lay_out(in, {d}, {friendly ? 1 : random.between(-2, 2)}, 0);
    g.lay_out(backward ? in : out, {outer, rows}, {rows * 2, 2}, 1);
    gx.lay_out(out, {outer, rows, d}, {rows * pitch, pitch, 1}, shift);
    gw.lay_out(out, {d}, {random.one_in(2) ? 1 : 3}, 0);
    const bool integers = random.one_in(3);
    for (Operand *o : {&x, &w}) o->fill(&random, integers);
    dxdw_options options = {};
    options.size = sizeof options;
    options.accumulate = static_cast<int32_t>(large ? 2 * random.between(0, 1) : random.between(0, 2));
    const bool adds = options.accumulate == DXDW_ADD;
    const bool gw_adds = options.accumulate != DXDW_ASSIGN;
    if (backward || adds) g.fill(&random, integers);
    if (adds) gx.fill(&random, integers);
    if (gw_adds) gw.fill(&random, integers);
    const bool want_gx = large || !random.one_in(4), want_gw = large || !want_gx || !random.one_in(4);
    Operand *all[] = {&x, &w, &g, &gx, &gw};
    std::vector<char> before[5];
    for (int j = 0; j < 5; ++j) {
      all[j]->upload();
      before[j] = all[j]->image;
    }
    const dxdw_tensor t[] = {x.tensor(), w.tensor(), g.tensor(), gx.tensor(), gw.tensor()};
    dxdw::gpu::Forced forced = {};
    forced.apart = static_cast<int32_t>(random.between(-1, 1));
    const Forcing forcing(forced);
    if (backward)
      OK(weighted_sum_bwd(&t[0], &t[1], &t[2], want_gx ? &t[3] : nullptr, want_gw ? &t[4] : nullptr, &options));
    else
      OK(weighted_sum_fwd(&t[0], &t[1], &t[2], &options));
    for (int j = 0; j < 5; ++j) {
      all[j]->download();
      const bool output = backward ? (j == 3 && want_gx) || (j == 4 && want_gw) : j == 2;
      check_untouched(*all[j], before[j], output, "operand");
    }
    const auto old = [&](Operand *o, int index, int64_t e) {
      return load(o->type, before[index].data() + o->offset(e));
    };
    const auto compare = [&](double got, double sum, double size, double terms, const char *what, int64_t at) {
      const double bound = (terms + 2) * 0x1p-23 * size + roundoff(out) * fabs(sum) + (out == Type::f16 ? 0x1p-25 : 0);
      CHECK(fabs(got - sum) <= bound, "%s at %lld: %.9g, expected %.9g", what, (long long)at, got, sum);
    };
    const int64_t n = outer * rows;
    if (!backward) {
      for (int64_t r = 0; r < n; ++r) {
        double sum = 0, size = 0;
        for (int64_t e = 0; e < d; ++e) {
          const double term = static_cast<double>(x.get(r * d + e)) * w.get(e);
          sum += term;
          size += fabs(term);
        }
        if (adds) sum += old(&g, 2, r), size += fabs(old(&g, 2, r));
        compare(g.get(r), sum, size, static_cast<double>(d), "y", r);
      }
    } else {
      for (int64_t e = 0; want_gw && e < d; ++e) {
        double sum = 0, size = 0;
        for (int64_t r = 0; r < n; ++r) {
          const double term = static_cast<double>(x.get(r * d + e)) * g.get(r);
          sum += term;
          size += fabs(term);
        }
        if (gw_adds) sum += old(&gw, 4, e), size += fabs(old(&gw, 4, e));
        compare(gw.get(e), sum, size, static_cast<double>(n), "gw", e);
      }
      for (int64_t r = 0; want_gx && r < n; ++r)
        for (int64_t e = 0; e < d; ++e) {
          double sum = static_cast<double>(g.get(r)) * w.get(e), size = fabs(sum);
          if (adds) sum += old(&gx, 3, r * d + e), size += fabs(old(&gx, 3, r * d + e));
          compare(gx.get(r * d + e), sum, size, 1, "gx", r * d + e);
        }
    }
  }
  printf("weighted: %d cases\n", cases);
}

// Copies between host and device over random strides and types: the same as the CPU's own copy.
void part_copies() {
  const int cases = reduced ? 40 : 600;
  for (int i = 0; i < cases; ++i) {
    Random random{static_cast<uint64_t>(i) * 17 + 9};
    const Type from = kTypes[random.between(0, 2)], to = kTypes[random.between(0, 2)];
    const int64_t rows = random.between(1, 60), cols = random.between(1, 60);
    snprintf(context, sizeof context, "copies: case %d, %s->%s [%lld, %lld]", i, name_of(from), name_of(to),
             (long long)rows, (long long)cols);
    const NothingBehind behind(i / 3 % 2 == 1);
    Operand source, target;
    lay_out_matrix(&source, &random, from, rows, cols, true, false);
    lay_out_matrix(&target, &random, to, rows, cols, false, random.one_in(3));
    source.fill(&random, false);
    const std::vector<char> before = target.image;
    const int way = i % 3;  // host to device, device to host, device to device
    source.upload();
    target.upload();
    dxdw_tensor s = source.tensor(), t = target.tensor();
    if (way == 0) s.data = source.image.data(), s.device_type = DXDW_CPU;
    if (way == 1) t.data = target.image.data(), t.device_type = DXDW_CPU;
    OK(dxdw_copy(&s, &t, nullptr));
    if (way != 1) target.download();
    check_untouched(target, before, true, "destination");
    for (int64_t e = 0; e < target.count(); ++e) {
      char rounded[4];
      store(to, rounded, source.get(e));
      CHECK(load(to, rounded) == target.get(e), "element %lld: %.9g, expected %.9g", (long long)e, target.get(e),
            load(to, rounded));
    }
  }
  // int32, which is moved and never converted, into a reversed column.
  const int32_t labels[] = {0, 4, 70000, -1};
  int64_t shape[] = {4}, forwards[] = {1}, backwards[] = {-1};
  char *memory;
  snprintf(context, sizeof context, "copies: int32");
  OK(dxdw_memory_allocate(0, 2 * sizeof labels, nullptr, reinterpret_cast<void **>(&memory)));
  const auto vector = [&](void *data, int32_t device, int64_t *strides, uint64_t offset) {
    return dxdw_tensor{data, device, 0, 1, DXDW_INT, 32, 1, shape, strides, offset};
  };
  int32_t found[4] = {};
  const dxdw_tensor host = vector(const_cast<int32_t *>(labels), DXDW_CPU, forwards, 0);
  const dxdw_tensor compact = vector(memory, DXDW_CUDA, forwards, 0);
  const dxdw_tensor reversed = vector(memory, DXDW_CUDA, backwards, sizeof labels + 3 * sizeof(int32_t));
  const dxdw_tensor back = vector(found, DXDW_CPU, forwards, 0);
  OK(dxdw_copy(&host, &compact, nullptr));
  OK(dxdw_copy(&compact, &reversed, nullptr));
  OK(dxdw_copy(&reversed, &back, nullptr));
  for (int i = 0; i < 4; ++i) CHECK(found[i] == labels[i], "element %d: %d, expected %d", i, found[i], labels[i]);
  OK(dxdw_memory_free(0, memory, nullptr));
  printf("copies: %d cases\n", cases);
}

// Empty sizes, NaN and infinity, cancelling halves in different slices, overwritten garbage.
void part_values() {
  snprintf(context, sizeof context, "values");
  // initcheck does not see what TMA writes: under it, workspaces hold NaN from the start, as they do in other parts.
  Operand poison;
  if (reduced) {
    poison.lay_out(Type::f32, {1 << 20}, {1}, 0);
    poison.upload();
  }
  const auto lend = [&](dxdw_options *options) {
    if (!reduced) return;
    options->workspace = poison.device;
    options->workspace_bytes = 4 << 20;
  };
  for (Type type : kTypes) {
    for (int32_t accumulate : {DXDW_ASSIGN, DXDW_ADD}) {
      Operand x, dy, dw;
      x.lay_out(type, {0, 5}, {5, 1}, 0);
      dy.lay_out(type, {0, 3}, {3, 1}, 0);
      dw.lay_out(Type::f32, {5, 3}, {3, 1}, 0);
      x.upload();
      dy.upload();
      dw.upload();
      dxdw_options options = {};
      options.size = sizeof options;
      options.accumulate = accumulate;
      const dxdw_tensor a = x.tensor(), b = dy.tensor(), c = dw.tensor();
      OK(dw_launch(&a, &b, &c, 0, 1, &options));
      dw.download();
      for (int64_t i = 0; i < 15; ++i) {
        const float value = dw.get(i);
        if (accumulate == DXDW_ASSIGN)
          CHECK(value == 0 && !signbit(value), "assigned %g", value);
        else
          CHECK(isnan(value), "an add of nothing wrote %g", value);
      }
    }
  }
  // Slices whose sums cancel: partials below float32 would lose the 1.
  for (Type type : {Type::bf16, Type::f16})
    for (int64_t width : {int64_t{1}, int64_t{256}})
      for (int32_t split : {1, 2, 3, 8})
        for (int32_t deterministic : {0, 1}) {
          Operand x, dy, dw;
          x.lay_out(type, {1024, width}, {width, 1}, 0);
          dy.lay_out(type, {1024, width}, {width, 1}, 0);
          dw.lay_out(Type::f32, {width, width}, {width, 1}, 0);
          for (int64_t t = 0; t < 1024; ++t)
            for (int64_t i = 0; i < width; ++i) {
              x.set(t * width + i, t < 257 ? 1.0f : t >= 768 ? -1.0f : 0.0f);
              dy.set(t * width + i, 1.0f);
            }
          x.upload();
          dy.upload();
          dw.upload();
          dxdw_options options = {};
          options.size = sizeof options;
          options.accumulate = DXDW_ASSIGN;
          lend(&options);
          const dxdw_tensor a = x.tensor(), b = dy.tensor(), c = dw.tensor();
          OK(dw_launch(&a, &b, &c, split, deterministic, &options));
          dw.download();
          for (int64_t i = 0; i < width * width; ++i)
            CHECK(dw.get(i) == 1.0f, "split %d det %d width %lld: %g", split, deterministic, (long long)width,
                  dw.get(i));
        }
  // A NaN and an infinity reach their row and column, opposite zeros too; nothing else.
  for (Type type : kTypes)
    for (int64_t n : {int64_t{40}, int64_t{256}}) {
      Operand x, dy, dw;
      const int64_t t = 200, k = n;
      x.lay_out(type, {t, k}, {k, 1}, 0);
      dy.lay_out(type, {t, n}, {n, 1}, 0);
      dw.lay_out(Type::f32, {k, n}, {n, 1}, 0);
      for (int64_t i = 0; i < x.count(); ++i) x.set(i, 0.0f);
      for (int64_t i = 0; i < dy.count(); ++i) dy.set(i, 1.0f);
      dy.set(150 * n + 7, INFINITY);
      x.set(20 * k + 9, NAN);
      x.upload();
      dy.upload();
      dw.upload();
      dxdw_options options = {};
      options.size = sizeof options;
      options.accumulate = DXDW_ASSIGN;
      lend(&options);
      const dxdw_tensor a = x.tensor(), b = dy.tensor(), c = dw.tensor();
      for (int32_t split : {1, 3}) {
        OK(dw_launch(&a, &b, &c, split, 1, &options));
        dw.download();
        for (int64_t i = 0; i < k; ++i)
          for (int64_t j = 0; j < n; ++j)
            CHECK(isnan(dw.get(i * n + j)) == (i == 9 || j == 7), "[%lld, %lld] is %g with split %d", (long long)i,
                  (long long)j, dw.get(i * n + j), split);
      }
    }
  // float32 is float32: TF32 would give 1024 or 1025.
  Operand dy, w, dx;
  dy.lay_out(Type::f32, {1, 1}, {1, 1}, 0);
  w.lay_out(Type::f32, {1, 1}, {1, 1}, 0);
  dx.lay_out(Type::f32, {1, 1}, {1, 1}, 0);
  dy.set(0, 1024.5f);
  w.set(0, 1.0f);
  for (Operand *o : {&dy, &w, &dx}) o->upload();
  const dxdw_tensor a = dy.tensor(), b = w.tensor(), c = dx.tensor();
  OK(dx_launch(&a, &b, &c, nullptr));
  dx.download();
  CHECK(dx.get(0) == 1024.5f, "float32 product gave %.9g", dx.get(0));
  printf("values: fine\n");
}

// More than 2^31 elements: one-hot rows of dY pick the last row of X.
void part_large() {
  if (reduced) return;
  snprintf(context, sizeof context, "large");
  int64_t t = 33000, k = 66000, n = 16;
  void *x, *dy, *dw;
  OK(dxdw_memory_allocate(0, static_cast<uint64_t>(t * k * 2), nullptr, &x));
  OK(dxdw_memory_allocate(0, static_cast<uint64_t>(t * n * 2), nullptr, &dy));
  OK(dxdw_memory_allocate(0, static_cast<uint64_t>(k * n * 4), nullptr, &dw));
  OK(dxdw_memory_set(0, x, 0, static_cast<uint64_t>(t * k * 2), nullptr));
  OK(dxdw_memory_set(0, dy, 0, static_cast<uint64_t>(t * n * 2), nullptr));
  const uint16_t one = 0x3F80;
  std::vector<uint16_t> row(static_cast<size_t>(k));
  for (int64_t i = 0; i < k; ++i) row[static_cast<size_t>(i)] = static_cast<uint16_t>(i % 2 == 0 ? 0x4000 : 0x4040);
  const auto put = [](const void *from, void *to, int64_t count, int64_t at) {
    const dxdw_tensor s = {const_cast<void *>(from), DXDW_CPU, 0, 1, DXDW_BFLOAT, 16, 1, &count, nullptr, 0};
    const dxdw_tensor d = {to, DXDW_CUDA, 0, 1, DXDW_BFLOAT, 16, 1, &count, nullptr, static_cast<uint64_t>(at * 2)};
    OK(dxdw_copy(&s, &d, nullptr));
  };
  put(row.data(), x, k, (t - 1) * k);
  put(&one, dy, 1, t * n - 1);
  int64_t x_shape[] = {t, k}, dy_shape[] = {t, n}, dw_shape[] = {k, n};
  const dxdw_tensor tx = {x, DXDW_CUDA, 0, 2, DXDW_BFLOAT, 16, 1, x_shape, nullptr, 0};
  const dxdw_tensor tdy = {dy, DXDW_CUDA, 0, 2, DXDW_BFLOAT, 16, 1, dy_shape, nullptr, 0};
  const dxdw_tensor tdw = {dw, DXDW_CUDA, 0, 2, DXDW_FLOAT, 32, 1, dw_shape, nullptr, 0};
  std::vector<float> result(static_cast<size_t>(k * n));
  const dxdw_tensor host = {result.data(), DXDW_CPU, 0, 2, DXDW_FLOAT, 32, 1, dw_shape, nullptr, 0};
  for (int32_t precision : {DXDW_PRECISION_DEFAULT, DXDW_PRECISION_EXACT}) {
    dxdw_options options = {};
    options.size = sizeof options;
    options.accumulate = DXDW_ASSIGN;
    options.precision = precision;
    OK(dw_launch(&tx, &tdy, &tdw, 0, 1, &options));
    OK(dxdw_copy(&tdw, &host, nullptr));
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const float expected = j == n - 1 ? (i % 2 == 0 ? 2.0f : 3.0f) : 0.0f;
        CHECK(result[static_cast<size_t>(i * n + j)] == expected, "precision %d [%lld, %lld] is %g", precision,
              (long long)i, (long long)j, result[static_cast<size_t>(i * n + j)]);
      }
  }
  // The weighted sum over the same X: the last row alone is not 0.
  int64_t w_shape[] = {k}, y_shape[] = {t};
  put(row.data(), dw, k, 0);
  const dxdw_tensor tw = {dw, DXDW_CUDA, 0, 1, DXDW_BFLOAT, 16, 1, w_shape, nullptr, 0};
  const dxdw_tensor ty = {dy, DXDW_CUDA, 0, 1, DXDW_FLOAT, 32, 1, y_shape, nullptr, 0};
  std::vector<float> y(static_cast<size_t>(t));
  const dxdw_tensor host_y = {y.data(), DXDW_CPU, 0, 1, DXDW_FLOAT, 32, 1, y_shape, nullptr, 0};
  OK(weighted_sum_fwd(&tx, &tw, &ty, nullptr));
  OK(dxdw_copy(&ty, &host_y, nullptr));
  CHECK(y[static_cast<size_t>(t - 2)] == 0 && y[static_cast<size_t>(t - 1)] == 6.5f * static_cast<float>(k),
        "weighted sum gave %g, %g", y[static_cast<size_t>(t - 2)], y[static_cast<size_t>(t - 1)]);
  for (void *m : {x, dy, dw}) OK(dxdw_memory_free(0, m, nullptr));
  printf("large: 2.18e9 elements\n");
}

void part_faults() {
  snprintf(context, sizeof context, "faults");
  ProductCase c;
  c.function = DXDW_DW, c.t = 600, c.k = 256, c.n = 256, c.in = Type::bf16, c.split = 2, c.friendly = true;
  Products p;
  prepare(c, &p);
  dxdw_tensor a = p.a.tensor(), b = p.b.tensor(), o = p.c.tensor();
  const auto expect = [&](int32_t fault, int32_t status, const char *text) {
    OK(dxdw_inject_fault(fault, 0));
    const int32_t got = dw_launch(&a, &b, &o, 2, 1, nullptr);
    CHECK(got == status && strstr(dxdw_last_error(), text) != nullptr, "fault %d: status %d, \"%s\"", fault, got,
          dxdw_last_error());
    printf("  %s\n", dxdw_last_error());
    OK(dxdw_inject_fault(fault, -1));
    OK(dw_launch(&a, &b, &o, 2, 1, nullptr));
  };
  expect(DXDW_FAULT_ALLOCATE, DXDW_OUT_OF_MEMORY, "free");
  expect(DXDW_FAULT_LAUNCH, DXDW_DEVICE_ERROR, "cudaErrorInvalid");
  expect(DXDW_FAULT_SYNCHRONIZE, DXDW_DEVICE_ERROR, "cudaStreamSynchronize");
  expect(DXDW_FAULT_STICKY, DXDW_DEVICE_LOST, "lost");
  OK(dxdw_inject_fault(DXDW_FAULT_COPY, 0));
  float value = 1;
  int64_t one = 1;
  const dxdw_tensor s = {&value, DXDW_CPU, 0, 1, DXDW_FLOAT, 32, 1, &one, nullptr, 0};
  const dxdw_tensor d = {p.c.device, DXDW_CUDA, 0, 1, DXDW_FLOAT, 32, 1, &one, nullptr, 0};
  CHECK(dxdw_copy(&s, &d, nullptr) == DXDW_DEVICE_ERROR, "an injected copy fault passed");
  printf("  %s\n", dxdw_last_error());
  OK(dxdw_inject_fault(DXDW_FAULT_COPY, -1));
  // 10 TB.
  void *huge;
  CHECK(dxdw_memory_allocate(0, uint64_t{10} << 40, nullptr, &huge) == DXDW_OUT_OF_MEMORY && huge == nullptr,
        "10 TB were granted");
  printf("  %s\n", dxdw_last_error());
  CHECK(dxdw_memory_free(0, &value, nullptr) == DXDW_INVALID_ARGUMENT, "a foreign address was freed");
  const char *why = dxdw_device_unavailable(DXDW_CUDA, 63);
  CHECK(why[0] != 0, "device 63 exists");
  printf("  %s\n", why);
  OK(dw_launch(&a, &b, &o, 2, 1, nullptr));
  printf("faults: told and survived\n");
}

void part_streams() {
  snprintf(context, sizeof context, "streams");
  dxdw_stream *stream;
  dxdw_event *start, *end;
  OK(dxdw_stream_create(0, &stream));
  OK(dxdw_event_create(0, &start));
  OK(dxdw_event_create(0, &end));
  ProductCase c;
  c.function = DXDW_DW, c.t = 64, c.k = 64, c.n = 64, c.in = Type::bf16, c.integers = true, c.friendly = true;
  c.accumulate = DXDW_ASSIGN;
  Products p;
  prepare(c, &p);
  call(c, &p);
  p.c.download();
  const std::vector<float> once = [&] {
    std::vector<float> values;
    for (int64_t i = 0; i < p.c.count(); ++i) values.push_back(p.c.get(i));
    return values;
  }();
  dxdw_tensor a = p.a.tensor(), b = p.b.tensor(), o = p.c.tensor();
  dxdw_options options = {};
  options.size = sizeof options;
  options.stream = stream;
  // A graph of 100 additions, replayed twice.
  dxdw_graph *graph;
  OK(dxdw_graph_begin(stream));
  for (int i = 0; i < 100; ++i) OK(dw_launch(&a, &b, &o, 1, 1, &options));
  const int32_t refused = dw_launch(&a, &b, &o, 2, 1, &options);
  CHECK(refused == DXDW_UNSUPPORTED, "a call that needs workspace was recorded without one: %d", refused);
  OK(dxdw_graph_end(stream, &graph));
  OK(dxdw_graph_launch(graph, stream));
  OK(dxdw_graph_launch(graph, stream));
  OK(dxdw_stream_synchronize(stream));
  p.c.download();
  for (int64_t i = 0; i < p.c.count(); ++i)
    CHECK(p.c.get(i) == 201 * once[static_cast<size_t>(i)], "element %lld: %g, expected %g", (long long)i, p.c.get(i),
          201 * once[static_cast<size_t>(i)]);
  // What a launch costs the host, and a replay of 100.
  const int launches = reduced ? 10 : 2000;
  for (int round = 0; round < 2; ++round) {
    const double t0 = now();
    for (int i = 0; i < launches; ++i) OK(dw_launch(&a, &b, &o, 1, 1, &options));
    const double t1 = now();
    OK(dxdw_stream_synchronize(stream));
    if (round == 1) printf("  host time a launch: %.2f us\n", (t1 - t0) / launches * 1e6);
  }
  OK(dxdw_event_record(start, stream));
  for (int i = 0; i < 20; ++i) OK(dxdw_graph_launch(graph, stream));
  OK(dxdw_event_record(end, stream));
  OK(dxdw_event_synchronize(end));
  double milliseconds;
  OK(dxdw_event_elapsed(start, end, &milliseconds));
  printf("  graph of 100 launches: %.2f us a launch\n", milliseconds / 20 / 100 * 1e3);
  // Two streams, one event: the second sees what the first wrote.
  dxdw_stream *second;
  OK(dxdw_stream_create(0, &second));
  OK(dxdw_memory_set(0, p.c.device, 0, p.c.image.size(), stream));
  OK(dw_launch(&a, &b, &o, 1, 1, &options));
  OK(dxdw_event_record(end, stream));
  OK(dxdw_event_wait(end, second));
  options.stream = second;
  OK(dw_launch(&a, &b, &o, 1, 1, &options));
  OK(dxdw_stream_synchronize(second));
  p.c.download();
  for (int64_t i = 0; i < p.c.count(); ++i)
    CHECK(p.c.get(i) == 2 * once[static_cast<size_t>(i)], "element %lld", (long long)i);
  // Memory freed while a stream still uses it, then given to somebody else.
  for (int i = 0; i < (reduced ? 3 : 50); ++i) {
    void *x;
    OK(dxdw_memory_allocate(0, 64 * 64 * 2, nullptr, &x));
    OK(dxdw_memory_set(0, x, 0, 64 * 64 * 2, second));
    dxdw_tensor t = a;
    t.data = x;
    t.byte_offset = 0;
    t.strides = nullptr;
    OK(dw_launch(&t, &b, &o, 1, 1, &options));
    OK(dxdw_memory_free(0, x, nullptr));
    void *other;
    OK(dxdw_memory_allocate(0, 64 * 64 * 2, nullptr, &other));
    OK(dxdw_memory_set(0, other, 0x7F, 64 * 64 * 2, nullptr));
    OK(dxdw_memory_free(0, other, nullptr));
  }
  OK(dxdw_stream_synchronize(second));
  p.c.download();
  for (int64_t i = 0; i < p.c.count(); ++i)
    CHECK(p.c.get(i) == 2 * once[static_cast<size_t>(i)], "freed memory was reused too early: element %lld",
          (long long)i);
  OK(dxdw_graph_destroy(graph));
  OK(dxdw_event_destroy(start));
  OK(dxdw_event_destroy(end));
  OK(dxdw_stream_destroy(stream));
  OK(dxdw_stream_destroy(second));
  printf("streams: fine\n");
}

// Threads that share a device and a shape but no data: workspaces must not be shared.
void *thread_main(void *argument) {
  const int id = static_cast<int>(reinterpret_cast<intptr_t>(argument));
  ProductCase c;
  c.function = DXDW_DW, c.t = 900, c.k = 200, c.n = 264, c.in = Type::bf16, c.split = 5, c.friendly = true;
  c.accumulate = DXDW_ASSIGN;
  c.seed = 7;
  Products p;
  prepare(c, &p);
  Random random{static_cast<uint64_t>(id)};
  p.a.fill(&random, false);
  p.a.upload();
  dxdw_stream *stream;
  OK(dxdw_stream_create(0, &stream));
  dxdw_tensor a = p.a.tensor(), b = p.b.tensor(), o = p.c.tensor();
  dxdw_options options = {};
  options.size = sizeof options;
  options.accumulate = DXDW_ASSIGN;
  options.stream = id % 2 == 0 ? stream : nullptr;
  std::vector<char> first;
  for (int i = 0; i < (reduced ? 3 : 100); ++i) {
    OK(dw_launch(&a, &b, &o, 5, 1, &options));
    OK(dxdw_stream_synchronize(stream));
    p.c.download();
    if (i == 0) first = p.c.image;
    CHECK(first == p.c.image, "thread %d, round %d differs", id, i);
  }
  OK(dxdw_stream_destroy(stream));
  return nullptr;
}

// The first that a thread does on the device is a product whose operands TMA loads: guards against a missing context.
void *first_use(void *argument) {
  const auto *t = static_cast<const dxdw_tensor *>(argument);
  OK(y_launch(&t[0], &t[1], &t[2], nullptr));
  return nullptr;
}

void part_first_use() {
  for (Type type : {Type::bf16, Type::f32}) {
    snprintf(context, sizeof context, "first use of the device by a thread: %s", name_of(type));
    Operand x, w, y;
    Random random{3};
    x.lay_out(type, {8400, 64}, {64, 1}, 0);
    w.lay_out(type, {64, 1000}, {1000, 1}, 0);
    y.lay_out(type, {8400, 1000}, {1000, 1}, 0);
    for (Operand *o : {&x, &w, &y}) {
      o->fill(&random, true);
      o->upload();
    }
    dxdw_tensor t[] = {x.tensor(), w.tensor(), y.tensor()};
    std::vector<char> expected;
    for (int round = 0; round < 2; ++round) {
      pthread_t thread;
      if (round == 0) {
        first_use(t);
      } else {
        pthread_create(&thread, nullptr, first_use, t);
        pthread_join(thread, nullptr);
      }
      y.download();
      if (round == 0) expected = y.image;
      CHECK(y.image == expected, "another result");
    }
  }
  printf("first use: fine\n");
}

void part_threads() {
  snprintf(context, sizeof context, "threads");
  pthread_t threads[8];
  const int count = reduced ? 2 : 8;
  for (int i = 0; i < count; ++i)
    pthread_create(&threads[i], nullptr, thread_main, reinterpret_cast<void *>(static_cast<intptr_t>(i)));
  for (int i = 0; i < count; ++i) pthread_join(threads[i], nullptr);
  printf("threads: %d\n", count);
}

// Without a GPU every call says so, and an injected loss of the device is told as one; nothing crashes, the CPU goes
// on.
void check_without_gpu(const char *why) {
  snprintf(context, sizeof context, "no GPU");
  CHECK(dxdw_device_count(DXDW_CUDA) == 0, "devices: %d", dxdw_device_count(DXDW_CUDA));
  void *address = &address;
  CHECK(dxdw_memory_allocate(0, 64, nullptr, &address) == DXDW_DEVICE_UNAVAILABLE && address == nullptr, "allocated");
  CHECK(strstr(dxdw_last_error(), why) != nullptr, "\"%s\" does not tell \"%s\"", dxdw_last_error(), why);
  dxdw_stream *stream = nullptr;
  CHECK(dxdw_stream_create(0, &stream) == DXDW_DEVICE_UNAVAILABLE, "made a stream");
  CHECK(dxdw_pinned_allocate(64, &address) == DXDW_DEVICE_UNAVAILABLE, "pinned memory");
  OK(dxdw_inject_fault(DXDW_FAULT_STICKY, 0));
  for (int i = 0; i < 3; ++i)
    CHECK(dxdw_stream_create(0, &stream) == DXDW_DEVICE_LOST, "an injected loss was told as: %s", dxdw_last_error());
  float values[] = {1, 2, 3, 4}, sum[] = {0, 0, 0, 0};
  int64_t shape[] = {2, 2};
  const dxdw_tensor x = {values, DXDW_CPU, 0, 2, DXDW_FLOAT, 32, 1, shape, nullptr, 0};
  const dxdw_tensor y = {sum, DXDW_CPU, 0, 2, DXDW_FLOAT, 32, 1, shape, nullptr, 0};
  OK(y_launch(&x, &x, &y, nullptr));
  CHECK(sum[0] == 7 && sum[3] == 22, "the CPU gave %g, %g", sum[0], sum[3]);
  OK(dxdw_inject_fault(DXDW_FAULT_STICKY, -1));
  CHECK(dxdw_stream_create(0, &stream) == DXDW_DEVICE_UNAVAILABLE, "the injected loss stayed");
}

struct Part {
  const char *name;
  void (*run)();
};

constexpr Part kParts[] = {{"values", part_values},     {"copies", part_copies},
                           {"parity", part_parity},     {"small", part_small},
                           {"thin", part_thin},         {"clusters", part_clusters},
                           {"chain", part_chain},       {"exact", part_exact},
                           {"fed", part_fed},           {"precision", part_precision},
                           {"slices", part_slices},     {"batch", part_batch},
                           {"weighted", part_weighted}, {"faults", part_faults},
                           {"streams", part_streams},   {"determinism", part_determinism},
                           {"repeats", part_repeats},   {"first", part_first_use},
                           {"threads", part_threads},   {"large", part_large}};

}  // namespace

int main(int count, char **arguments) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const char *why = dxdw_device_unavailable(DXDW_CUDA, 0);
  if (why[0] != 0) {
    if (dxdw_device_count(DXDW_CUDA) == 0) check_without_gpu(why);
    printf("skipped: cuda:0 cannot be used: %s\n", why);
    return 77;
  }
  int named = 1;
  if (count > 1 && (strcmp(arguments[1], "full") == 0 || strcmp(arguments[1], "reduced") == 0)) {
    reduced = strcmp(arguments[1], "reduced") == 0;
    named = 2;
  }
  dxdw_device_info info = {};
  info.size = sizeof info;
  OK(dxdw_device_info_get(DXDW_CUDA, 0, &info));
  printf("%s, capability %d.%d, %d multiprocessors; %s\n", info.name, info.capability_major, info.capability_minor,
         info.multiprocessors, dxdw_build_description());
  for (const Part &part : kParts) {
    bool wanted = named >= count;
    for (int i = named; i < count; ++i) wanted = wanted || strcmp(arguments[i], part.name) == 0;
    if (!wanted) continue;
    const double start = now();
    part.run();
    printf("[%s] %.1f s\n", part.name, now() - start);
  }
  printf("all passed\n");
  return 0;
}
