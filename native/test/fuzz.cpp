// Random descriptors, options and numbers for every function that takes tensors. Guards against crashes, writes outside of
// outputs, writes by a call that fails, and failures without a message.
//
//   dxdw_test_fuzz [runs [seed]]     pseudo-random inputs, the same ones for a seed
//   dxdw_fuzz [libFuzzer options]    inputs that libFuzzer develops by what they reach (CMake option DXDW_FUZZ)
//
// Addresses are the caller's promise, so a call is made only where all elements of its operands lie in the memory here, or
// where dxdw_explain, which reads no memory, refuses it for the same reasons.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dxdw.h"

namespace {

constexpr int64_t kBytes = 1 << 14;
constexpr int kMostOperands = 6;
constexpr double kMostWork = 1e6;  // steps that a call may need, so that inputs stay fast

char *memory;    // what operands lie in, with redzones of a sanitizer around it
char *before;    // its contents before a call
char *writable;  // which bytes outputs cover

// Choices, read from the input; zeros once it is used up.
struct Input {
  const uint8_t *data;
  size_t size;

  uint8_t byte() { return size == 0 ? 0 : (--size, *data++); }
  bool rarely() { return byte() % 32 == 31; }
  int64_t below(int64_t bound) { return byte() % bound; }
  uint64_t word() {
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }
};

struct Function {
  int32_t code;
  const char *shapes;  // one letter for each dimension, a space between operands
  uint32_t outputs;    // bit i: operand i is written
  uint32_t labels;     // bit i: operand i holds int32
};

constexpr Function kFunctions[] = {
    {DXDW_Y, "tk kn tn", 4, 0},
    {DXDW_DX, "tn kn tk", 4, 0},
    {DXDW_DW, "tk tn kn", 4, 0},
    {DXDW_DW_REDUCE, "skn kn", 2, 0},
    {DXDW_WEIGHTED_SUM_FWD, "stk k st", 4, 0},
    {DXDW_WEIGHTED_SUM_BWD, "stk k st stk k", 24, 0},
    {DXDW_COPY, "stk stk", 2, 0},
    {DXDW_ADD_FWD, "stk stk stk", 4, 0},
    {DXDW_RELU_FWD, "stk stk", 2, 0},
    {DXDW_RELU_BWD, "stk stk stk", 4, 0},
    {DXDW_GELU_FWD, "stk stk", 2, 0},
    {DXDW_GELU_BWD, "stk stk stk", 4, 0},
    {DXDW_SUM_ROWS, "stk k", 2, 0},
    {DXDW_DW_BIAS, "tk tn kn n", 12, 0},
    {DXDW_SOFTMAX_CROSS_ENTROPY_FWD, "tk t t", 4, 2},
    {DXDW_SOFTMAX_CROSS_ENTROPY_BWD, "tk t t tk", 8, 2},
    {DXDW_SQUARED_ERROR_FWD, "stk stk st", 4, 0},
    {DXDW_SQUARED_ERROR_BWD, "stk stk st stk", 8, 0},
    {DXDW_SQUARED_NORM, "stk ", 2, 0},
    {DXDW_CLIP_FACTOR, " ", 2, 0},
    {DXDW_SGD, "tk tk tk tk ", 13, 0},
    {DXDW_ADAMW, "tk tk tk tk tk ", 29, 0},
};
constexpr int kFunctionCount = sizeof kFunctions / sizeof kFunctions[0];

struct Operand {
  dxdw_tensor tensor;
  int64_t shape[40], strides[40];
};

// a . b, whatever becomes of it beyond 64 bits.
int64_t times(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

int64_t odd_number(Input *in) {
  switch (in->byte() % 10) {
    case 0: return 0;
    case 1: return -1;
    case 2: return INT64_MAX;
    case 3: return INT64_MIN;
    case 4: return INT64_C(1) << (20 + in->byte() % 43);
    case 5: return static_cast<int64_t>(in->word());
    case 6: return -in->below(8);
    default: return in->below(8);
  }
}

void choose_type(Input *in, bool labels, uint8_t usual, dxdw_tensor *tensor) {
  const uint8_t choice = in->rarely() ? static_cast<uint8_t>(in->byte() % 6) : labels ? 3 : usual;
  static constexpr uint8_t kCodes[] = {DXDW_FLOAT, DXDW_FLOAT, DXDW_BFLOAT, DXDW_INT, 1, 5};
  static constexpr uint8_t kBits[] = {32, 16, 16, 32, 8, 64};
  tensor->dtype_code = kCodes[choice];
  tensor->dtype_bits = in->rarely() ? in->byte() : kBits[choice];
  tensor->dtype_lanes = in->rarely() ? in->byte() : 1;
}

void choose_layout(Input *in, Operand *o) {
  dxdw_tensor *t = &o->tensor;
  const int32_t ndim = t->ndim < 0 ? 0 : t->ndim > 33 ? 33 : t->ndim;
  int64_t stride = 1;
  for (int32_t d = ndim - 1; d >= 0; --d) {
    o->strides[d] = stride;
    stride = times(stride, o->shape[d] > 0 ? o->shape[d] : 1);
  }
  t->strides = o->strides;
  const uint8_t kind = in->byte() % 16;
  const int32_t at = ndim == 0 ? 0 : static_cast<int32_t>(in->below(ndim));
  switch (kind) {
    case 0: t->strides = nullptr; break;
    case 1:  // transposed
      if (ndim >= 2) {
        o->strides[ndim - 2] = 1;
        o->strides[ndim - 1] = o->shape[ndim - 2] > 0 ? o->shape[ndim - 2] : 1;
      }
      break;
    case 2: o->strides[at] = 0; break;
    case 3:  // reversed
      t->byte_offset += 4 * static_cast<uint64_t>(times(o->shape[at] - (o->shape[at] > 0), o->strides[at]));
      o->strides[at] = times(o->strides[at], -1);
      break;
    case 4:
      for (int32_t d = 0; d < at; ++d) o->strides[d] = times(o->strides[d], 1 + in->below(2));
      break;
    case 5: o->strides[at] = times(o->strides[at], 2); break;
    case 6: o->strides[at] = odd_number(in); break;
    case 7:
      for (int32_t d = 0; d < ndim; ++d) o->strides[d] = in->below(6) - 1;
      break;
    default: break;
  }
}

void choose_operand(Input *in, const char *letters, int index, bool labels, const int64_t *sizes, uint8_t usual,
                    Operand *o) {
  *o = {};
  dxdw_tensor *t = &o->tensor;
  t->device_type = in->rarely() ? static_cast<int32_t>(in->byte()) : static_cast<int32_t>(DXDW_CPU);
  t->device_id = in->rarely() ? static_cast<int32_t>(in->word()) : 0;
  t->shape = o->shape;
  t->ndim = 0;
  for (; *letters > ' '; ++letters)
    o->shape[t->ndim++] = sizes[*letters == 't' ? 0 : *letters == 'k' ? 1 : *letters == 'n' ? 2 : 3];
  if (in->rarely() && t->ndim > 0) o->shape[in->below(t->ndim)] = odd_number(in);
  if (in->rarely()) t->ndim = static_cast<int32_t>(in->below(5)) - 1;
  if (in->rarely() && in->rarely()) t->ndim = static_cast<int32_t>(in->word());
  if (in->rarely()) t->shape = nullptr;
  choose_type(in, labels, usual, t);
  t->data = memory + 2048 * index;
  choose_layout(in, o);
  switch (in->byte() % 32) {
    case 0: t->byte_offset += in->byte(); break;
    case 1: t->byte_offset += 2u * in->byte(); break;
    case 2: t->data = memory + 2048 * in->below(8); break;
    case 3: t->byte_offset = in->word(); break;
    case 4: t->data = nullptr; break;
    case 5: t->data = nullptr, t->ndim = -1; break;
    default: break;
  }
}

// Do all elements lie in the memory here? Where the answer is no, the address means nothing.
bool lies_here(const dxdw_tensor &t) {
  if (t.ndim == -1 && t.data == nullptr) return true;
  if (t.data == nullptr || t.shape == nullptr || t.ndim < 0 || t.ndim > DXDW_MAX_NDIM) return false;
  for (int32_t d = 0; d < t.ndim; ++d)
    if (t.shape[d] < 0) return false;
  for (int32_t d = 0; d < t.ndim; ++d)
    if (t.shape[d] == 0) return true;
  __int128 low = 0, high = 0;
  for (int32_t d = 0; d < t.ndim; ++d) {
    __int128 stride = t.strides == nullptr ? 1 : t.strides[d];
    if (t.strides == nullptr)
      for (int32_t e = d + 1; e < t.ndim && stride < kBytes; ++e) stride *= t.shape[e];
    if (t.shape[d] == 1) continue;
    // Not multiplied before it is known to be small: two such sizes have a product that no 128 bits hold.
    if (stride > kBytes || stride < -kBytes) return false;
    const __int128 reach = (t.shape[d] - 1) * stride;
    if (reach > kBytes || reach < -kBytes) return false;
    (reach < 0 ? low : high) += reach;
  }
  const __int128 item = t.dtype_bits / 8;
  const __int128 first = static_cast<char *>(t.data) - memory + static_cast<__int128>(t.byte_offset);
  return first + low * item >= 0 && first + (high + 1) * item <= kBytes;
}

// Steps that a call may need: elements of one operand times sizes of another.
double work(const Operand *operands, int count) {
  double most = 1;
  for (int i = 0; i < count; ++i) {
    double elements = 1;
    const dxdw_tensor &t = operands[i].tensor;
    if (t.shape == nullptr || t.ndim < 0 || t.ndim > DXDW_MAX_NDIM) continue;
    for (int32_t d = 0; d < t.ndim; ++d) elements *= static_cast<double>(t.shape[d] > 0 ? t.shape[d] : 1);
    most *= elements;
  }
  return most;
}

bool has_elements(const dxdw_tensor &t) {
  for (int32_t d = 0; d < t.ndim; ++d)
    if (t.shape[d] == 0) return false;
  return t.ndim >= 0 && t.data != nullptr;
}

void mark(const dxdw_tensor &t, int32_t d, int64_t element) {
  if (d == t.ndim) {
    const int64_t item = t.dtype_bits / 8;
    memset(writable + (static_cast<char *>(t.data) - memory) + static_cast<int64_t>(t.byte_offset) + element * item, 1,
           static_cast<size_t>(item));
    return;
  }
  int64_t stride = 1;
  if (t.strides != nullptr)
    stride = t.strides[d];
  else
    for (int32_t e = d + 1; e < t.ndim; ++e) stride *= t.shape[e];
  for (int64_t i = 0; i < t.shape[d]; ++i) mark(t, d + 1, element + i * stride);
}

void show(const Operand *operands, int count) {
  for (int i = 0; i < count; ++i) {
    const dxdw_tensor &t = operands[i].tensor;
    fprintf(stderr, "operand %d: data %+lld, byte_offset %lld, type (%d, %d, %d), device %d:%d, ndim %d", i,
            t.data == nullptr ? -1LL : static_cast<long long>(static_cast<char *>(t.data) - memory),
            static_cast<long long>(t.byte_offset), t.dtype_code, t.dtype_bits, t.dtype_lanes, t.device_type,
            t.device_id, t.ndim);
    for (int32_t d = 0; d < t.ndim && d < 8 && t.shape != nullptr; ++d)
      fprintf(stderr, ", %lld by %lld", static_cast<long long>(t.shape[d]),
              t.strides == nullptr ? 0LL : static_cast<long long>(t.strides[d]));
    fprintf(stderr, "\n");
  }
}

[[noreturn]] void found(const char *what, int32_t function, int32_t status) {
  fprintf(stderr, "function %d, status %d (%s): %s\n", function, status, dxdw_last_error(), what);
  abort();
}

void check_status(int32_t function, int32_t status) {
  if (status < DXDW_OK || status > DXDW_DEVICE_LOST) found("unknown status", function, status);
  if (status != DXDW_OK && dxdw_last_error()[0] == 0) found("no message", function, status);
}

void fill_memory(Input *in) {
  uint64_t state = in->word() | 1;
  for (int64_t i = 0; i < kBytes; i += 8) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    memcpy(memory + i, &state, 8);
  }
  if (in->byte() % 4 != 0)  // small integers in float32: labels, and sums that stay finite
    for (int64_t i = 0; i < kBytes; i += 4) {
      const float value = static_cast<float>(memory[i] & 7);
      const int32_t label = memory[i] & 3;
      if (in->size % 2 == 0)
        memcpy(memory + i, &value, 4);
      else
        memcpy(memory + i, &label, 4);
    }
  memcpy(before, memory, kBytes);
}

void compare_memory(const Function &f, int32_t status, const Operand *operands, int count,
                    const dxdw_options *options) {
  memset(writable, 0, kBytes);
  if (status == DXDW_OK)
    for (int i = 0; i < count; ++i)
      if ((f.outputs >> i & 1) != 0 && has_elements(operands[i].tensor)) mark(operands[i].tensor, 0, 0);
  if (status != DXDW_INVALID_ARGUMENT && options != nullptr && options->workspace != nullptr)
    memset(writable + (static_cast<char *>(options->workspace) - memory), 1, options->workspace_bytes);
  for (int64_t i = 0; i < kBytes; ++i)
    if (memory[i] != before[i] && !writable[i]) {
      fprintf(stderr, "byte %lld\n", static_cast<long long>(i));
      show(operands, count);
      found(status == DXDW_OK ? "wrote outside of the outputs" : "wrote, and failed", f.code, status);
    }
}

double choose_double(Input *in) {
  const uint64_t bits = in->word();
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

void choose_options(Input *in, dxdw_options *options) {
  *options = {};
  options->size = in->rarely() ? in->byte() : static_cast<uint32_t>(sizeof *options);
  options->accumulate = in->rarely() ? static_cast<int32_t>(in->word()) : static_cast<int32_t>(in->below(3));
  options->precision = in->rarely() ? static_cast<int32_t>(in->word()) : static_cast<int32_t>(in->below(4));
  options->flags = in->rarely() ? static_cast<int32_t>(in->word()) : static_cast<int32_t>(in->below(2));
  for (double &scalar : options->scalars) scalar = in->rarely() ? choose_double(in) : in->byte() / 255.0;
  if (in->rarely()) options->stream = reinterpret_cast<dxdw_stream *>(memory);
  if (in->byte() % 4 == 0) {
    options->workspace = memory + kBytes / 2 + (in->rarely() ? in->byte() : 0);
    options->workspace_bytes = static_cast<uint64_t>(in->below(64)) * 64;
  }
}

// The small functions beside the calls.
void ask(Input *in) {
  int64_t numbers[80];
  Operand operand;
  const int64_t sizes[] = {2, 3, 4, 5};
  switch (in->byte() % 8) {
    case 0: check_status(-1, dxdw_set_threads(static_cast<int32_t>(odd_number(in)))); break;
    case 1: dxdw_counter(static_cast<int32_t>(odd_number(in))); break;
    case 2:
      choose_operand(in, "tk", 0, false, sizes, 0, &operand);
      check_status(
          -2, dxdw_echo(in->rarely() ? nullptr : &operand.tensor, in->rarely() ? nullptr : numbers, in->below(81)));
      break;
    case 3: {
      dxdw_device_info info;
      info.size = in->rarely() ? 0 : static_cast<uint32_t>(sizeof info);
      check_status(-3, dxdw_device_info_get(static_cast<int32_t>(in->below(4)), in->rarely() ? 1 : 0, &info));
      break;
    }
    case 4: dxdw_device_unavailable(static_cast<int32_t>(odd_number(in)), static_cast<int32_t>(odd_number(in))); break;
    case 5: check_status(-5, dxdw_inject_fault(static_cast<int32_t>(in->below(7)) - 1, -1)); break;
    case 6: {
      uint16_t halves[8];
      float floats[8] = {0};
      const int64_t count = in->rarely() ? odd_number(in) : in->below(9);
      if (count <= 8) check_status(-6, dxdw_float_to_bfloat16(in->rarely() ? nullptr : floats, halves, count));
      if (count <= 8)
        check_status(-6, dxdw_float16_to_float(in->rarely() ? nullptr : halves, floats, count < 0 ? count : 0));
      break;
    }
    default: {
      void *address = nullptr;
      check_status(-7, dxdw_memory_allocate(static_cast<int32_t>(in->below(3)), in->word(), nullptr, &address));
      check_status(-7, dxdw_memory_free(0, address, nullptr));
      check_status(-7, dxdw_stream_synchronize(nullptr));
      break;
    }
  }
}

void one(Input *in) {
  if (in->byte() % 16 == 15) return ask(in);
  Function f = kFunctions[in->byte() % kFunctionCount];
  if (in->rarely()) f.code = in->byte() % 2 == 0 ? -1 : 100 + in->byte();  // none that there is
  int64_t sizes[4];
  // Now and then sizes beyond any memory, which strides of 0 allow: such calls are planned, not made.
  const bool huge = in->byte() % 8 == 7, on_gpu = huge && in->byte() % 2 == 0;
  for (int64_t &size : sizes) size = huge ? (INT64_C(1) << in->below(63)) - in->below(2) : in->below(9);
  const uint8_t usual = static_cast<uint8_t>(in->byte() % 3);
  Operand operands[kMostOperands];
  dxdw_tensor tensors[kMostOperands + 2] = {};
  int count = 0;
  for (const char *letters = f.shapes; letters != nullptr; ++count) {
    const bool output = (f.outputs >> count & 1) != 0;
    choose_operand(in, letters, count, (f.labels >> count & 1) != 0, sizes, output && in->byte() % 2 == 0 ? 0 : usual,
                   &operands[count]);
    if (on_gpu) operands[count].tensor.device_type = DXDW_CUDA;
    if (huge && !output)
      for (int64_t &stride : operands[count].strides) stride = in->byte() % 4 == 0 ? stride : in->below(2);
    tensors[count] = operands[count].tensor;
    letters = strchr(letters, ' ');
    if (letters != nullptr) ++letters;
  }
  dxdw_options options;
  choose_options(in, &options);
  const dxdw_options *const chosen = in->byte() % 3 == 0 ? nullptr : &options;
  const int32_t split = in->rarely() ? static_cast<int32_t>(odd_number(in)) : static_cast<int32_t>(in->below(4));
  const int32_t deterministic =
      in->rarely() ? static_cast<int32_t>(odd_number(in)) : static_cast<int32_t>(in->below(2));
  const int64_t failing = in->byte() % 8 == 0 ? in->below(3) : -1;

  bool here = true;
  for (int i = 0; i < count; ++i) here &= lies_here(tensors[i]);
  fill_memory(in);

  dxdw_plan plan;
  plan.size = in->rarely() ? in->byte() : static_cast<uint32_t>(sizeof plan);
  const int32_t explained = dxdw_explain(f.code, tensors, split, deterministic, chosen, &plan);
  check_status(f.code, explained);
  uint64_t bytes = 0;
  check_status(f.code, dxdw_workspace(f.code, tensors, split, deterministic, chosen, &bytes));
  check_status(f.code, dxdw_plan_for_chip(f.code, tensors, split, deterministic, chosen,
                                          in->rarely() ? static_cast<int32_t>(odd_number(in)) : 90,
                                          in->rarely() ? static_cast<int32_t>(odd_number(in)) : 132, &plan));
  compare_memory(f, DXDW_INVALID_ARGUMENT, operands, count, chosen);
  // The plan's own size may be what was refused: then nothing is known of the operands. Copies have no plan.
  const bool refused = explained == DXDW_INVALID_ARGUMENT && plan.size == sizeof plan && f.code != DXDW_COPY;
  if (!refused && (!here || work(operands, count) > kMostWork)) return;
  check_status(f.code, dxdw_inject_fault(DXDW_FAULT_ALLOCATE, failing));
  const int32_t status =
      dxdw_call(f.code, tensors, split, deterministic, chosen, memory, memory, memory, memory, memory, memory);
  check_status(f.code, status);
  check_status(f.code, dxdw_inject_fault(DXDW_FAULT_ALLOCATE, -1));
  if (refused && status != DXDW_INVALID_ARGUMENT) found("the call takes what explaining refuses", f.code, status);
  compare_memory(f, status, operands, count, chosen);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (memory == nullptr) {
    memory = static_cast<char *>(aligned_alloc(64, kBytes));
    before = static_cast<char *>(malloc(kBytes));
    writable = static_cast<char *>(malloc(kBytes));
    if (memory == nullptr || before == nullptr || writable == nullptr) abort();
  }
  Input in = {data, size};
  one(&in);
  return 0;
}

#ifndef DXDW_FUZZ
int main(int count, char **arguments) {
  const long runs = count > 1 ? atol(arguments[1]) : 100000;
  uint64_t state = count > 2 ? strtoull(arguments[2], nullptr, 0) : 1;
  uint8_t input[400];
  for (long run = 0; run < runs; ++run) {
    for (uint8_t &byte : input) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      byte = static_cast<uint8_t>(state >> 56);
    }
    LLVMFuzzerTestOneInput(input, sizeof input);
  }
  printf("%ld inputs, %lld launches, level %s\n", runs, static_cast<long long>(dxdw_counter(DXDW_COUNTER_LAUNCHES)),
         dxdw_simd_level());
  return 0;
}
#endif
