// What the native tests share: checks, random numbers, conversions written apart from the library's, memory between
// guard pages, strided operands.
#pragma once

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "dxdw.h"

namespace test {

// ---- Checks ----

// What runs just now: told on failure, and when a guard page was hit.
inline char context[2048];
inline std::string case_name;

inline void set_context(const std::string &text) {
  snprintf(context, sizeof context, "%s%s%s", case_name.c_str(), case_name.empty() ? "" : ": ", text.c_str());
}

// Makes a fault of the library (guard page, illegal instruction) tell the context before the process dies of it.
inline void report_faults() {
  struct sigaction action = {};
  action.sa_handler = [](int number) {
    const char text[] = "fatal signal during: ";
    if (write(2, text, sizeof text - 1) < 0 || write(2, context, strlen(context)) < 0 || write(2, "\n", 1) < 0)
      _exit(3);
    signal(number, SIG_DFL);
    raise(number);
  };
  action.sa_flags = SA_NODEFER;
  for (int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) sigaction(number, &action, nullptr);
}

[[noreturn]] __attribute__((format(printf, 3, 4))) inline void fail(const char *file, int line, const char *format,
                                                                    ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "%s:%d: ", file, line);
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\n");
  va_end(arguments);
  if (context[0] != 0) fprintf(stderr, "during: %s\n", context);
  exit(1);
}

#define FAIL(...) ::test::fail(__FILE__, __LINE__, __VA_ARGS__)

#define CHECK(condition, ...)                        \
  do {                                               \
    if (!(condition)) {                              \
      fprintf(stderr, "not true: %s\n", #condition); \
      FAIL(__VA_ARGS__);                             \
    }                                                \
  } while (0)

#define CHECK_OK(expression)                                                                                    \
  do {                                                                                                          \
    const int32_t status_of_check = (expression);                                                               \
    if (status_of_check != DXDW_OK) FAIL("%s: status %d, %s", #expression, status_of_check, dxdw_last_error()); \
  } while (0)

// ---- Random numbers (splitmix64) ----

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  // From low to high, both included.
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }
  bool one_in(int64_t n) { return between(1, n) == 1; }
  // In [-1, 1), a zero now and then.
  float value() {
    const uint64_t bits = next();
    if ((bits & 31) == 0) return 0.0f;
    return static_cast<float>(static_cast<int64_t>(bits >> 40) - (1 << 23)) * (1.0f / (1 << 23));
  }

 private:
  uint64_t state_;
};

// ---- Types ----

enum class Type { f32, f16, bf16, i32 };

// Those that functions compute with.
constexpr Type kTypes[] = {Type::f32, Type::f16, Type::bf16};

inline int64_t size_of(Type type) { return type == Type::f32 || type == Type::i32 ? 4 : 2; }
inline const char *name_of(Type type) {
  constexpr const char *kNames[] = {"float32", "float16", "bfloat16", "int32"};
  return kNames[static_cast<int>(type)];
}
inline uint8_t code_of(Type type) {
  return type == Type::i32 ? DXDW_INT : type == Type::bf16 ? DXDW_BFLOAT : DXDW_FLOAT;
}
inline uint8_t bits_of(Type type) { return static_cast<uint8_t>(8 * size_of(type)); }
// Largest relative error of rounding to the type.
inline double roundoff_of(Type type) { return type == Type::f32 ? 0x1p-24 : type == Type::f16 ? 0x1p-11 : 0x1p-8; }

inline uint32_t bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint16_t bfloat16_of(float value) {
  const uint32_t bits = bits_of_float(value);
  if (isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  const uint32_t rest = bits & 0xFFFF, kept = bits >> 16;
  const bool up = rest > 0x8000 || (rest == 0x8000 && (kept & 1));
  return static_cast<uint16_t>(kept + up);
}

inline uint16_t float16_of(float value) {
  const uint32_t sign = bits_of_float(value) >> 16 & 0x8000;
  if (isnan(value)) return static_cast<uint16_t>(sign | 0x7E00 | (bits_of_float(value) >> 13 & 0x3FF));
  const double size = fabs(static_cast<double>(value));
  if (size >= 65520.0) return static_cast<uint16_t>(sign | 0x7C00);
  if (size < 0x1p-14) return static_cast<uint16_t>(sign | static_cast<uint32_t>(nearbyint(size * 0x1p24)));
  const int exponent = ilogb(size);
  const uint32_t mantissa = static_cast<uint32_t>(nearbyint(ldexp(size, 10 - exponent)));
  return static_cast<uint16_t>(sign | ((static_cast<uint32_t>(exponent + 15) << 10) + mantissa - 1024));
}

inline float float_of_float16(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 0x3FF;
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) {
    if (mantissa == 0) return sign * INFINITY;
    return float_of_bits((static_cast<uint32_t>(bits & 0x8000) << 16) | 0x7FC00000 |
                         (static_cast<uint32_t>(mantissa) << 13));
  }
  if (exponent == 0) return sign * static_cast<float>(ldexp(mantissa, -24));
  return sign * static_cast<float>(ldexp(1024 + mantissa, exponent - 25));
}

inline float load(Type type, const char *address) {
  uint16_t bits;
  float value;
  if (type == Type::f32) {
    memcpy(&value, address, 4);
    return value;
  }
  if (type == Type::i32) {
    int32_t whole;
    memcpy(&whole, address, 4);
    return static_cast<float>(whole);
  }
  memcpy(&bits, address, 2);
  return type == Type::f16 ? float_of_float16(bits) : float_of_bits(static_cast<uint32_t>(bits) << 16);
}

inline void store(Type type, char *address, float value) {
  if (type == Type::f32) {
    memcpy(address, &value, 4);
    return;
  }
  if (type == Type::i32) {
    const int32_t whole = static_cast<int32_t>(value);
    memcpy(address, &whole, 4);
    return;
  }
  const uint16_t bits = type == Type::f16 ? float16_of(value) : bfloat16_of(value);
  memcpy(address, &bits, 2);
}

inline float rounded(Type type, float value) {
  char bytes[4];
  store(type, bytes, value);
  return load(type, bytes);
}

// The same bits, or both NaN.
inline bool same(float a, float b) { return bits_of_float(a) == bits_of_float(b) || (isnan(a) && isnan(b)); }

// ---- Memory between guard pages ----

constexpr int64_t kPage = 4096;

class Arena {
 public:
  explicit Arena(int64_t bytes) {
    bytes = (bytes + kPage - 1) / kPage * kPage;
    void *pages = mmap(nullptr, static_cast<size_t>(bytes + 2 * kPage), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) FAIL("mmap of %lld bytes failed", static_cast<long long>(bytes));
    low_ = static_cast<char *>(pages) + kPage;
    high_ = low_ + bytes;
    if (mprotect(low_, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE) != 0) FAIL("mprotect failed");
  }
  ~Arena() { munmap(low_ - kPage, static_cast<size_t>(high_ - low_ + 2 * kPage)); }
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  char *low() const { return low_; }
  char *high() const { return high_; }

 private:
  char *low_, *high_;
};

// Where an operand lies in its arena: last byte before a guard page, first byte behind one, or in between at an odd
// element.
enum class Place { high, low, middle };

// ---- Strided operands ----

constexpr int kMostDims = 6;

// How a shape becomes strides: dimensions are laid out from the innermost of `order` outwards.
struct Layout {
  int order[kMostDims] = {5, 4, 3, 2, 1, 0};  // entries beyond the rank are skipped
  int64_t step = 1;                           // stride of the innermost dimension
  int64_t pad = 0;                            // elements left free behind each further dimension
  unsigned reversed = 0;                      // bit d: dimension d runs backwards
  unsigned expanded = 0;                      // bit d: dimension d has stride 0 (inputs only)
  bool wild = false;                          // sizes of 1 get a meaningless stride
  bool no_strides = false;                    // strides = NULL (compact only)
};

inline std::string text_of(const int64_t *values, int count) {
  std::string text = "[";
  for (int i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  return text + "]";
}

class Operand {
 public:
  // Lays the operand out, fills the surroundings and the gaps with NaN patterns.
  void place(const Arena &arena, Place place, Type type, const std::vector<int64_t> &shape, const Layout &layout = {}) {
    type_ = type;
    ndim_ = static_cast<int>(shape.size());
    count_ = 1;
    bool empty = false;
    for (int d = 0; d < ndim_; ++d) {
      shape_[d] = shape[static_cast<size_t>(d)];
      count_ *= shape_[d];
      if (shape_[d] == 0) empty = true;
    }
    int64_t unit = layout.step, low = 0, high = 0;
    for (int i = 0; i < kMostDims; ++i) {
      const int d = layout.order[i];
      if (d >= ndim_) continue;
      const bool expanded = layout.expanded >> d & 1;
      strides_[d] = expanded ? 0 : layout.reversed >> d & 1 ? -unit : unit;
      if (!expanded) unit = unit * (shape_[d] == 0 ? 1 : shape_[d]) + layout.pad;
      const int64_t reach = shape_[d] == 0 ? 0 : strides_[d] * (shape_[d] - 1);
      (reach < 0 ? low : high) += reach;
      if (layout.wild && shape_[d] == 1) strides_[d] = d % 2 == 0 ? -7 : 999999999999;
    }
    null_strides_ = layout.no_strides;
    const int64_t item = size_of(type), bytes = empty ? 0 : (high - low + 1) * item;
    if (bytes + 256 > arena.high() - arena.low()) FAIL("arena too small for %lld bytes", static_cast<long long>(bytes));
    char *start = place == Place::high  ? arena.high() - bytes
                  : place == Place::low ? arena.low()
                                        : arena.low() + 64 + 3 * item;
    first_ = start - low * item;
    around_low_ = start - arena.low() > 256 ? start - 256 : arena.low();
    around_high_ = arena.high() - (start + bytes) > 256 ? start + bytes + 256 : arena.high();
    memset(around_low_, 0xFF, static_cast<size_t>(around_high_ - around_low_));
    base_ = start;
  }

  template <typename F>
  void fill(F value) {
    for (int64_t i = 0; i < count_; ++i) store(type_, address(i), value(i));
  }
  void fill_random(Random *random) {
    fill([&](int64_t) { return random->value(); });
  }

  const dxdw_tensor *tensor(bool by_offset = false) {
    tensor_.data = by_offset ? base_ : first_;
    tensor_.byte_offset = by_offset ? static_cast<uint64_t>(first_ - base_) : 0;
    tensor_.device_type = DXDW_CPU;
    tensor_.device_id = 0;
    tensor_.ndim = ndim_;
    tensor_.dtype_code = code_of(type_);
    tensor_.dtype_bits = bits_of(type_);
    tensor_.dtype_lanes = 1;
    tensor_.shape = shape_;
    tensor_.strides = null_strides_ ? nullptr : strides_;
    return &tensor_;
  }

  Type type() const { return type_; }
  int64_t count() const { return count_; }

  // Element number i in row-major order of the shape.
  char *address(int64_t i) const {
    int64_t offset = 0;
    for (int d = ndim_ - 1; d >= 0; --d) {
      if (shape_[d] > 1) offset += i % shape_[d] * strides_[d];
      i /= shape_[d];
    }
    return first_ + offset * size_of(type_);
  }
  float get(int64_t i) const { return load(type_, address(i)); }

  std::vector<float> values() const {
    std::vector<float> all(static_cast<size_t>(count_));
    for (int64_t i = 0; i < count_; ++i) all[static_cast<size_t>(i)] = get(i);
    return all;
  }

  void remember() { before_.assign(around_low_, around_high_); }
  // Nothing changed, gaps and surroundings included.
  bool untouched() const { return memcmp(before_.data(), around_low_, before_.size()) == 0; }
  // Nothing changed but elements.
  bool gaps_untouched() const {
    std::vector<char> expected = before_;
    for (int64_t i = 0; i < count_; ++i) {
      const char *element = address(i);
      memcpy(expected.data() + (element - around_low_), element, static_cast<size_t>(size_of(type_)));
    }
    return memcmp(expected.data(), around_low_, expected.size()) == 0;
  }

  std::string text() const {
    return std::string(name_of(type_)) + text_of(shape_, ndim_) + " strides " +
           (null_strides_ ? "NULL" : text_of(strides_, ndim_)) + " address ..." +
           std::to_string(reinterpret_cast<uintptr_t>(first_) % kPage);
  }

 private:
  dxdw_tensor tensor_ = {};
  Type type_ = Type::f32;
  int ndim_ = 0;
  int64_t count_ = 0;
  int64_t shape_[kMostDims] = {}, strides_[kMostDims] = {};
  bool null_strides_ = false;
  char *first_ = nullptr, *base_ = nullptr, *around_low_ = nullptr, *around_high_ = nullptr;
  std::vector<char> before_;
};

// A tensor over literal values, for tests that need no guards.
class Literal {
 public:
  // `stored` in memory order; strides empty = compact row-major.
  Literal(Type type, std::vector<int64_t> shape, const std::vector<float> &stored, std::vector<int64_t> strides = {},
          int64_t first = 0)
      : type_(type), shape_(std::move(shape)), strides_(std::move(strides)), first_(first) {
    memory_.resize(stored.size() * static_cast<size_t>(size_of(type)) + 8);
    for (size_t i = 0; i < stored.size(); ++i)
      store(type, memory_.data() + i * static_cast<size_t>(size_of(type)), stored[i]);
  }
  // Filled with one value.
  Literal(Type type, std::vector<int64_t> shape, float value)
      : Literal(type, shape, std::vector<float>(static_cast<size_t>(count_of(shape)), value)) {}

  Literal(const Literal &) = delete;
  Literal &operator=(const Literal &) = delete;

  dxdw_tensor *tensor() {
    tensor_ = {memory_.data(),
               DXDW_CPU,
               0,
               static_cast<int32_t>(shape_.size()),
               code_of(type_),
               bits_of(type_),
               1,
               shape_.data(),
               strides_.empty() ? nullptr : strides_.data(),
               static_cast<uint64_t>(first_ * size_of(type_))};
    return &tensor_;
  }
  // Element number i of the memory.
  float stored(int64_t i) const { return load(type_, memory_.data() + i * size_of(type_)); }
  std::vector<float> stored() const {
    std::vector<float> all;
    const int64_t count = (static_cast<int64_t>(memory_.size()) - 8) / size_of(type_);
    for (int64_t i = 0; i < count; ++i) all.push_back(stored(i));
    return all;
  }
  std::vector<char> &memory() { return memory_; }

  static int64_t count_of(const std::vector<int64_t> &shape) {
    int64_t count = 1;
    for (int64_t size : shape) count *= size;
    return count;
  }

 private:
  Type type_;
  std::vector<int64_t> shape_, strides_;
  int64_t first_;
  std::vector<char> memory_;
  dxdw_tensor tensor_ = {};
};

inline dxdw_options options_of(int32_t accumulate, int32_t precision = DXDW_PRECISION_DEFAULT) {
  dxdw_options options = {};
  options.size = sizeof options;
  options.accumulate = accumulate;
  options.precision = precision;
  return options;
}

inline std::string text_of(const std::vector<float> &values) {
  std::string text = "[";
  char number[32];
  for (float value : values) {
    snprintf(number, sizeof number, "%s%.9g", text.size() == 1 ? "" : ", ", static_cast<double>(value));
    text += number;
  }
  return text + "]";
}

// Stops with both lists when they differ in a bit.
inline void expect(const char *what, const std::vector<float> &given, const std::vector<float> &wanted) {
  bool equal = given.size() == wanted.size();
  for (size_t i = 0; equal && i < given.size(); ++i) equal = same(given[i], wanted[i]);
  if (!equal) FAIL("%s: got %s, expected %s", what, text_of(given).c_str(), text_of(wanted).c_str());
}

}  // namespace test
