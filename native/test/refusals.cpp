// Every bad argument is refused before anything is written, with a message that begins with the argument's name and
// holds both values; what is legal though it looks odd passes. Guards against kernels that run on shapes, types,
// strides, aliases or workspaces which they cannot handle.
#include <algorithm>
#include <functional>

#include "harness.hpp"

using namespace test;

namespace {

constexpr int64_t kT = 6, kK = 5, kN = 4;

// What each function asks for; tests spoil one thing at a time.
struct Asked {
  std::vector<const char *> names;
  std::vector<std::vector<int64_t>> shapes;
  unsigned outputs;       // bit i: operand i is written
  unsigned optional = 0;  // may be absent
  unsigned labels = 0;    // int32
  unsigned f32 = 0;       // float32 alone
  unsigned half = 0;      // 16-bit alone
  unsigned in_place = 0;  // inputs that the output may be
  unsigned numbers = 0;   // float32 scalars: [] or [1]
  std::vector<double> scalars = {};
};

constexpr int kFunctions = DXDW_ADAMW + 1;

const Asked &asked(int32_t function) {
  static const std::vector<int64_t> s = {3, kK}, lead = {3}, none = {};
  static const Asked all[kFunctions] = {
      {{"x", "w", "y"}, {{kT, kK}, {kK, kN}, {kT, kN}}, 4},
      {{"dy", "w", "dx"}, {{kT, kN}, {kK, kN}, {kT, kK}}, 4},
      {{"x", "dy", "dw"}, {{kT, kK}, {kT, kN}, {kK, kN}}, 4},
      {{"partials", "dw"}, {{3, kK, kN}, {kK, kN}}, 2, 0, 0, 3},
      {{"x", "w", "y"}, {{2, 3, kK}, {kK}, {2, 3}}, 4},
      {{"x", "w", "g", "gx", "gw"}, {{2, 3, kK}, {kK}, {2, 3}, {2, 3, kK}, {kK}}, 24, 24},
      {},
      {{"a", "b", "y"}, {s, s, s}, 4, 0, 0, 0, 0, 3},
      {{"x", "y"}, {s, s}, 2, 0, 0, 0, 0, 1},
      {{"x", "g", "gx"}, {s, s, s}, 4, 0, 0, 0, 0, 3},
      {{"x", "y"}, {s, s}, 2, 0, 0, 0, 0, 1},
      {{"x", "g", "gx"}, {s, s, s}, 4, 0, 0, 0, 0, 3},
      {{"g", "gb"}, {s, {kK}}, 2, 0, 0, 2},
      {{"x", "dy", "dw", "db"}, {{kT, kK}, {kT, kN}, {kK, kN}, {kN}}, 12, 0, 0, 8},
      {{"logits", "labels", "loss"}, {s, lead, lead}, 4, 0, 2, 4},
      {{"logits", "labels", "g", "gx"}, {s, lead, lead, s}, 8, 0, 2},
      {{"x", "target", "loss"}, {s, s, lead}, 4, 0, 0, 4},
      {{"x", "target", "g", "gx"}, {s, s, lead, s}, 8},
      {{"x", "norm"}, {s, none}, 2, 0, 0, 2, 0, 0, 2},
      {{"norm", "scale"}, {none, none}, 2, 0, 0, 3, 0, 1, 3, {1}},
      {{"p", "g", "velocity", "copy", "scale"}, {s, s, s, s, none}, 13, 28, 0, 23, 8, 0, 16, {0.1, 0.9, 0.01, 1}},
      {{"p", "g", "m", "v", "copy", "scale"},
       {s, s, s, s, s, none},
       29,
       48,
       0,
       47,
       16,
       0,
       32,
       {0.1, 0.9, 0.99, 1e-8, 0.01, 1}},
  };
  return all[function];
}

// Are they all that one byte?
bool all_of(const char *bytes, size_t count, char byte) {
  return bytes[0] == byte && memcmp(bytes, bytes + 1, count - 1) == 0;
}

bool has(unsigned bits, int operand) { return bits >> operand & 1; }

// Operands of one call, all valid to begin with.
struct Call {
  static constexpr int kMost = 6;
  int32_t function;
  int count;
  int32_t split = 1, deterministic = 1;
  dxdw_options options = options_of(DXDW_ACCUMULATE_DEFAULT);
  const dxdw_options *passed = &options;
  dxdw_tensor tensors[kMost] = {};
  const dxdw_tensor *pointers[kMost] = {};
  int64_t shapes[kMost][DXDW_MAX_NDIM + 1] = {}, strides[kMost][DXDW_MAX_NDIM + 1] = {};
  alignas(64) char memory[kMost][1024];
  alignas(64) char workspace[4096];

  explicit Call(int32_t wanted) : function(wanted) {
    const Asked &what = asked(function);
    count = static_cast<int>(what.shapes.size());
    std::copy(what.scalars.begin(), what.scalars.end(), options.scalars);
    memset(workspace, 0x5A, sizeof workspace);
    for (int i = 0; i < kMost; ++i) {
      // Labels of 0 are a class.
      memset(memory[i], has(what.labels, i) ? 0 : 0x5A, sizeof memory[i]);
      if (i >= count) continue;
      const std::vector<int64_t> &shape = what.shapes[static_cast<size_t>(i)];
      tensors[i] = {memory[i] + 256, DXDW_CPU,   0, static_cast<int32_t>(shape.size()), DXDW_FLOAT, 32, 1,
                    shapes[i],       strides[i], 0};
      if (has(what.labels, i)) set_type(i, Type::i32);
      if (has(what.half, i)) set_type(i, Type::f16);
      int64_t stride = 1;
      for (size_t d = shape.size(); d-- > 0;) {
        shapes[i][d] = shape[d];
        strides[i][d] = stride;
        stride *= shape[d];
      }
      pointers[i] = &tensors[i];
    }
  }
  Call(const Call &) = delete;

  void set_type(int operand, Type type) {
    tensors[operand].dtype_code = code_of(type);
    tensors[operand].dtype_bits = bits_of(type);
  }
  void set_types(Type type) {
    for (int i = 0; i < count; ++i)
      if (!has(asked(function).labels | asked(function).f32 | asked(function).half, i)) set_type(i, type);
  }
  // Operand `a` at `elements` floats behind operand `b`.
  void put(int a, int b, int64_t elements) { tensors[a].data = static_cast<float *>(tensors[b].data) + elements; }

  int32_t run() {
    switch (function) {
      case DXDW_Y: return y_launch(pointers[0], pointers[1], pointers[2], passed);
      case DXDW_DX: return dx_launch(pointers[0], pointers[1], pointers[2], passed);
      case DXDW_DW: return dw_launch(pointers[0], pointers[1], pointers[2], split, deterministic, passed);
      case DXDW_DW_REDUCE: return dw_reduce(pointers[0], pointers[1], passed);
      case DXDW_WEIGHTED_SUM_FWD: return weighted_sum_fwd(pointers[0], pointers[1], pointers[2], passed);
      case DXDW_WEIGHTED_SUM_BWD:
        return weighted_sum_bwd(pointers[0], pointers[1], pointers[2], pointers[3], pointers[4], passed);
      default:
        return dxdw_call(function, tensors, split, deterministic, passed, nullptr, nullptr, nullptr, nullptr, nullptr,
                         nullptr);
    }
  }
  bool untouched() const {
    for (int i = 0; i < kMost; ++i)
      if (!all_of(memory[i], sizeof memory[i], has(asked(function).labels, i) ? 0 : 0x5A)) return false;
    return all_of(workspace, sizeof workspace, 0x5A);
  }
};

const char *name_of_operand(int32_t function, int operand) {
  return asked(function).names[static_cast<size_t>(operand)];
}

bool begins_with_name(const char *message, const char *name) {
  const size_t length = strlen(name);
  return strncmp(message, name, length) == 0 && (message[length] == ':' || message[length] == ' ');
}

// The call, its explanation and its workspace query are all refused for the same reason, and nothing is written.
void refused(const char *what, Call *call, const char *name, std::initializer_list<const char *> parts = {}) {
  const int64_t launches = dxdw_counter(DXDW_COUNTER_LAUNCHES);
  const int32_t status = call->run();
  const std::string message = dxdw_last_error();
  CHECK(status == DXDW_INVALID_ARGUMENT, "function %d, %s: status %d (%s)", call->function, what, status,
        message.c_str());
  CHECK(begins_with_name(message.c_str(), name), "function %d, %s: message does not begin with %s: %s", call->function,
        what, name, message.c_str());
  for (const char *part : parts)
    CHECK(strstr(message.c_str(), part) != nullptr, "function %d, %s: no %s in the message: %s", call->function, what,
          part, message.c_str());
  CHECK(call->untouched(), "function %d, %s: refused, but memory was written", call->function, what);
  CHECK(dxdw_counter(DXDW_COUNTER_LAUNCHES) == launches, "function %d, %s: refused, but a kernel ran", call->function,
        what);
  for (const dxdw_tensor *pointer : call->pointers)
    if (&pointer - call->pointers < call->count && pointer == nullptr) return;
  if (strcmp(name, "workspace") == 0) return;  // asked of a call that brings one, not of queries
  dxdw_plan plan = {};
  plan.size = sizeof plan;
  CHECK(dxdw_explain(call->function, call->tensors, call->split, call->deterministic, call->passed, &plan) ==
                DXDW_INVALID_ARGUMENT &&
            message == dxdw_last_error(),
        "function %d, %s: explain says %s", call->function, what, dxdw_last_error());
  uint64_t bytes;
  CHECK(dxdw_workspace(call->function, call->tensors, call->split, call->deterministic, call->passed, &bytes) ==
                DXDW_INVALID_ARGUMENT &&
            message == dxdw_last_error(),
        "function %d, %s: the workspace query says %s", call->function, what, dxdw_last_error());
  CHECK(dxdw_call(call->function, call->tensors, call->split, call->deterministic, call->passed, nullptr, nullptr,
                  nullptr, nullptr, nullptr, nullptr) == DXDW_INVALID_ARGUMENT &&
            message == dxdw_last_error(),
        "function %d, %s: dxdw_call says %s", call->function, what, dxdw_last_error());
  CHECK(call->untouched(), "function %d, %s: refused, but memory was written", call->function, what);
}

void passes(const char *what, Call *call) {
  const int32_t status = call->run();
  CHECK(status == DXDW_OK, "function %d, %s: status %d (%s)", call->function, what, status, dxdw_last_error());
}

void each_operand_alone(int32_t function) {
  const Asked &what = asked(function);
  const int count = Call(function).count;
  const bool by_pointer = function < DXDW_COPY;
  for (int i = 0; i < count; ++i) {
    const char *name = name_of_operand(function, i);
    const auto spoil = [&](const char *what, std::initializer_list<const char *> parts,
                           const std::function<void(Call *, dxdw_tensor *)> &change) {
      Call call(function);
      change(&call, &call.tensors[i]);
      refused(what, &call, name, parts);
    };
    if (by_pointer && !has(what.optional, i))
      spoil("NULL operand", {"NULL"}, [&](Call *call, dxdw_tensor *) { call->pointers[i] = nullptr; });
    spoil("rank 33", {"33", "32"}, [](Call *, dxdw_tensor *t) { t->ndim = 33; });
    spoil("rank -2", {"-2"}, [](Call *, dxdw_tensor *t) { t->ndim = -2; });
    spoil("device type 7", {"7"}, [](Call *, dxdw_tensor *t) { t->device_type = 7; });
    spoil("device type 0", {"0"}, [](Call *, dxdw_tensor *t) { t->device_type = 0; });
    spoil("CPU 1", {"1"}, [](Call *, dxdw_tensor *t) { t->device_id = 1; });
    spoil("device index -1", {"-1"}, [](Call *, dxdw_tensor *t) { t->device_id = -1; });
    if (!has(what.half, i))
      spoil("ints for floats, or floats for ints", {"int32", "float32"},
            [](Call *, dxdw_tensor *t) { t->dtype_code = t->dtype_code == DXDW_INT ? DXDW_FLOAT : DXDW_INT; });
    spoil("float64", {"64"}, [](Call *, dxdw_tensor *t) { t->dtype_bits = 64; });
    spoil("bfloat of 32 bits", {"4", "32"}, [](Call *, dxdw_tensor *t) {
      t->dtype_code = DXDW_BFLOAT;
      t->dtype_bits = 32;
    });
    spoil("two lanes", {"2"}, [](Call *, dxdw_tensor *t) { t->dtype_lanes = 2; });
    spoil("no lanes", {"0"}, [](Call *, dxdw_tensor *t) { t->dtype_lanes = 0; });
    spoil("NULL data", {"NULL"}, [](Call *, dxdw_tensor *t) { t->data = nullptr; });
    const int64_t item = Call(function).tensors[i].dtype_bits / 8;
    spoil("odd address", {std::to_string(item).c_str()},
          [&](Call *, dxdw_tensor *t) { t->data = static_cast<char *>(t->data) + item / 2; });
    spoil("odd byte offset", {std::to_string(item).c_str()}, [](Call *, dxdw_tensor *t) { t->byte_offset = 1; });
    if (Call(function).tensors[i].ndim > 0) {
      spoil("NULL shape", {"shape"}, [](Call *, dxdw_tensor *t) { t->shape = nullptr; });
      spoil("negative size", {"-3"}, [](Call *, dxdw_tensor *t) { t->shape[0] = -3; });
      spoil("lowest size", {"-9223372036854775808"}, [](Call *, dxdw_tensor *t) { t->shape[0] = INT64_MIN; });
      for (int64_t stride : {INT64_MAX, INT64_MIN, INT64_MIN + 1, INT64_MAX / 4, INT64_MAX / 2})
        spoil("stride beyond 64 bits", {"64-bit"}, [&](Call *, dxdw_tensor *t) { t->strides[0] = stride; });
    }
    // The rank of a weighted sum's x is what the others are measured by.
    const bool leads = function >= DXDW_WEIGHTED_SUM_FWD && i == 0;
    for (int32_t more : {-1, 1}) {
      Call call(function);
      dxdw_tensor *t = &call.tensors[i];
      // What has no rank of its own: a norm's x, the numbers, and what takes its rank from any of the others.
      if (t->ndim + more < 0 || function == DXDW_SQUARED_NORM || has(what.numbers, i)) continue;
      if (function > DXDW_COPY && leads) continue;
      t->shape[t->ndim] = 1;
      t->strides[t->ndim] = 1;
      t->ndim += more;
      refused("wrong rank", &call, leads ? name_of_operand(function, 2) : name, {"rank", "expected"});
    }
    if (has(what.outputs, i) && Call(function).tensors[i].ndim > 0) {
      spoil("expanded output", {"share memory"}, [](Call *, dxdw_tensor *t) { t->strides[0] = 0; });
      if (Call(function).tensors[i].ndim == 2)
        spoil("rows of an output that overlap", {"share memory"}, [](Call *, dxdw_tensor *t) { t->strides[0] -= 1; });
    }
  }
}

void types(int32_t function) {
  const Asked &what = asked(function);
  const Call valid(function);
  for (int i = 0; i < valid.count; ++i) {
    Call call(function);
    if (has(what.labels, i)) continue;
    if (has(what.f32, i)) {
      call.set_type(i, Type::bf16);
      refused("16-bit operand where float32 is asked for", &call, name_of_operand(function, i),
              {"bfloat16", "float32"});
    } else if (has(what.half, i)) {
      call.set_type(i, Type::f32);
      refused("float32 where 16 bits are asked for", &call, name_of_operand(function, i), {"bfloat16", "float32"});
    } else if (has(what.outputs, i) || (name_of_operand(function, i) == std::string("g") && i == 2 &&
                                        i < valid.count - 1 && function > DXDW_COPY)) {
      call.set_types(Type::f16);
      call.set_type(i, Type::bf16);
      refused("output of a third type", &call, name_of_operand(function, i), {"bfloat16", "float16"});
      Call narrow(function);
      narrow.set_type(i, Type::f16);
      refused("16-bit output of float32", &narrow, name_of_operand(function, i), {"float16", "float32"});
    } else if (i > 0) {
      call.set_type(i, Type::f16);
      refused("inputs of two types", &call, name_of_operand(function, i), {"float16", "float32"});
    }
  }
}

// Numbers of a call's own: each out of its range, and none at all.
void scalars(int32_t function) {
  const Asked &what = asked(function);
  if (what.scalars.empty()) return;
  Call none(function);
  none.passed = nullptr;
  refused("no scalars", &none, "options", {"NULL", "scalars"});
  for (size_t i = 0; i < what.scalars.size(); ++i)
    for (double wrong : {-1.0, static_cast<double>(NAN), -static_cast<double>(INFINITY), -1e-300}) {
      Call call(function);
      call.options.scalars[i] = wrong;
      refused("scalar out of range", &call, "scalars", {("number " + std::to_string(i)).c_str()});
    }
  for (int32_t accumulate : {DXDW_ADD, DXDW_ASSIGN}) {
    Call call(function);
    call.options.accumulate = accumulate;
    refused("accumulate where nothing is chosen", &call, "options", {"accumulate"});
  }
  for (int i = 0; i < Call(function).count; ++i)
    if (has(what.numbers, i)) {
      Call call(function);
      call.tensors[i].ndim = 1;
      call.shapes[i][0] = 1;
      passes("a number of shape [1]", &call);
      call.shapes[i][0] = 2;
      Call two(function);
      two.tensors[i].ndim = 1;
      two.shapes[i][0] = 2;
      two.strides[i][0] = 1;
      refused("two numbers", &two, name_of_operand(function, i), {"[2]"});
    }
}

void scalars_of_each() {
  const auto wrong = [](int32_t function, int number, double value, const char *what) {
    Call call(function);
    call.options.scalars[number] = value;
    refused(what, &call, "scalars");
  };
  wrong(DXDW_SGD, 3, 0.5, "half of nesterov");
  wrong(DXDW_SGD, 3, 2, "nesterov twice");
  wrong(DXDW_SGD, 1, 0, "nesterov without momentum");
  wrong(DXDW_SGD, 0, static_cast<double>(INFINITY), "infinite learning rate");
  wrong(DXDW_ADAMW, 1, 1, "beta1 of 1");
  wrong(DXDW_ADAMW, 2, 1, "beta2 of 1");
  wrong(DXDW_ADAMW, 5, 0, "step 0");
  wrong(DXDW_ADAMW, 5, 1.5, "step and a half");
  Call no_velocity(DXDW_SGD);
  no_velocity.tensors[2] = {};
  no_velocity.tensors[2].ndim = -1;
  refused("momentum without a velocity", &no_velocity, "scalars", {"momentum", "0.9"});
  no_velocity.options.scalars[1] = no_velocity.options.scalars[3] = 0;
  passes("no velocity, no momentum", &no_velocity);
  Call bare(DXDW_ADAMW);
  for (int i : {4, 5}) {
    bare.tensors[i] = {};
    bare.tensors[i].ndim = -1;
  }
  passes("AdamW without a copy and a scale", &bare);
  for (int number : {1, 4}) {
    Call steep(DXDW_ADAMW);
    steep.options.scalars[0] = 3e38;
    steep.options.scalars[number] = number == 1 ? 0.9 : 10;
    refused("a step that float32 can't hold", &steep, "scalars", {"lr", "3e+38"});
  }
  Call endless(DXDW_CLIP_FACTOR);
  endless.options.scalars[0] = static_cast<double>(INFINITY);
  passes("any norm", &endless);
}

void sizes(int32_t function) {
  // Each size of each operand but the first, changed by one, contradicts another operand.
  const Call valid(function);
  for (int i = 0; i < valid.count; ++i)
    for (int32_t d = 0; d < valid.tensors[i].ndim; ++d) {
      if (function == DXDW_DW_REDUCE && i == 0 && d == 0) continue;  // any number of partials
      if (function == DXDW_SQUARED_NORM) continue;
      if (function == DXDW_SUM_ROWS && i == 0 && d == 0) continue;
      // Classes and features of a loss stand in one operand alone.
      if (i == 0 && d == 1 && function == DXDW_SOFTMAX_CROSS_ENTROPY_FWD) continue;
      for (int64_t wrong : {int64_t{1}, valid.shapes[i][d] - 1, int64_t{0}}) {
        Call call(function);
        call.shapes[i][d] = wrong;
        const int32_t status = call.run();
        const std::string message = dxdw_last_error();
        CHECK(status == DXDW_INVALID_ARGUMENT && call.untouched(), "function %d, operand %d, size %d = %lld: status %d",
              function, i, d, static_cast<long long>(wrong), status);
        CHECK(strstr(message.c_str(), ("size " + std::to_string(wrong)).c_str()) != nullptr &&
                  strstr(message.c_str(), ("size " + std::to_string(valid.shapes[i][d])).c_str()) != nullptr &&
                  strstr(message.c_str(), "strides") != nullptr,
              "function %d, operand %d, size %d = %lld: message lacks a size or the strides: %s", function, i, d,
              static_cast<long long>(wrong), message.c_str());
      }
    }
}

void devices(int32_t function) {
  const Call valid(function);
  for (int i = 1; i < valid.count; ++i) {
    Call call(function);
    call.tensors[i].device_type = DXDW_CUDA;
    refused("operands on two devices", &call, name_of_operand(function, i), {"device"});
  }
}

void options(int32_t function) {
  const auto spoil = [&](const char *what, std::initializer_list<const char *> parts,
                         const std::function<void(dxdw_options *)> &change) {
    Call call(function);
    change(&call.options);
    refused(what, &call, "options", parts);
  };
  spoil("options of size 0", {"0", "104"}, [](dxdw_options *o) { o->size = 0; });
  spoil("options of version 1", {"40", "104"}, [](dxdw_options *o) { o->size = 40; });
  spoil("accumulate 3", {"3"}, [](dxdw_options *o) { o->accumulate = 3; });
  spoil("accumulate -1", {"-1"}, [](dxdw_options *o) { o->accumulate = -1; });
  spoil("precision 4", {"4"}, [](dxdw_options *o) { o->precision = 4; });
  spoil("precision -1", {"-1"}, [](dxdw_options *o) { o->precision = -1; });
  spoil("flag 2", {"0x2"}, [](dxdw_options *o) { o->flags = 2; });
  spoil("flag of the sign", {"0x80000000"}, [](dxdw_options *o) { o->flags = INT32_MIN; });
  spoil("stream on the CPU", {"stream", "CPU"},
        [](dxdw_options *o) { o->stream = reinterpret_cast<dxdw_stream *>(o); });
  Call none(function);
  none.passed = nullptr;
  if (asked(function).scalars.empty()) passes("no options", &none);
  Call invariant(function);
  invariant.options.flags = DXDW_BATCH_INVARIANT;
  passes("batch invariant", &invariant);
}

void split_and_deterministic() {
  for (int32_t split : {-1, static_cast<int32_t>(kT) + 1, INT32_MIN, INT32_MAX}) {
    Call call(DXDW_DW);
    call.split = split;
    refused("split out of range", &call, "split", {std::to_string(split).c_str(), "6"});
  }
  for (int32_t deterministic : {-1, 2}) {
    Call call(DXDW_DW);
    call.deterministic = deterministic;
    refused("deterministic out of range", &call, "deterministic", {std::to_string(deterministic).c_str()});
  }
  for (int32_t split = 0; split <= kT; ++split) {
    Call call(DXDW_DW);
    call.split = split;
    passes("split in range", &call);
  }
  for (int32_t split : {0, 1}) {
    Call call(DXDW_DW);
    call.shapes[0][0] = call.shapes[1][0] = 0;
    call.split = split;
    passes("split of no tokens", &call);
  }
  Call two(DXDW_DW);
  two.shapes[0][0] = two.shapes[1][0] = 0;
  two.split = 2;
  refused("split 2 of no tokens", &two, "split", {"2", "1"});
  // Elsewhere neither counts.
  Call y_call(DXDW_Y);
  CHECK_OK(dxdw_call(DXDW_Y, y_call.tensors, -5, 77, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr));
}

// Zero sizes are looked at after everything else.
void empty_but_wrong() {
  Call types(DXDW_DW);
  types.shapes[0][0] = types.shapes[1][0] = 0;
  types.set_type(1, Type::bf16);
  refused("types of an empty product", &types, "dy", {"bfloat16", "float32"});
  Call sizes(DXDW_Y);
  sizes.shapes[0][0] = sizes.shapes[2][0] = 0;
  sizes.shapes[1][0] = 3;
  refused("sizes of an empty product", &sizes, "w", {"3", "5"});
  Call aliases(DXDW_Y);
  aliases.shapes[0][1] = aliases.shapes[1][0] = 0;
  aliases.strides[2][0] = 0;
  refused("expanded output of an empty contraction", &aliases, "y", {"share memory"});
  Call null(DXDW_Y);
  null.shapes[0][0] = null.shapes[2][0] = 0;
  null.tensors[0].data = null.tensors[2].data = nullptr;
  null.strides[0][0] = null.strides[2][0] = INT64_MIN;
  passes("NULL data and any strides without elements", &null);
  Call devices(DXDW_DX);
  devices.shapes[0][0] = devices.shapes[2][0] = 0;
  devices.tensors[2].device_type = DXDW_CUDA;
  refused("devices of an empty product", &devices, "dx", {"device"});
}

// Products of sizes beyond 64 bits, and beyond 32 where 64 suffice.
void huge_sizes() {
  Call compact(DXDW_Y);
  compact.tensors[0].strides = nullptr;
  compact.shapes[0][0] = compact.shapes[0][1] = INT64_MAX / 2;
  refused("more elements than 64 bits count", &compact, "x", {"4611686018427387903"});
  Call rows(DXDW_WEIGHTED_SUM_FWD);
  for (int i : {0, 2}) {
    rows.shapes[i][0] = rows.shapes[i][1] = int64_t{1} << 40;
    rows.strides[i][0] = rows.strides[i][1] = 0;
  }
  rows.strides[2][0] = int64_t{1} << 40;
  rows.strides[2][1] = 1;
  CHECK(rows.run() == DXDW_INVALID_ARGUMENT && rows.untouched(), "2^80 rows: %s", dxdw_last_error());
  Call down(DXDW_RELU_FWD);
  down.shapes[0][0] = down.shapes[1][0] = 2;
  down.strides[0][0] = -(int64_t{1} << 61);
  refused("strides to below address 0", &down, "x", {"64-bit addresses"});
  down.strides[0][0] = (int64_t{1} << 61) - 64;
  down.strides[0][1] = -(int64_t{1} << 58);
  refused("a distance beyond 61 bits", &down, "x", {"64-bit addresses"});
  Call plain(DXDW_Y);
  plain.shapes[0][0] = plain.shapes[2][0] = plain.shapes[0][1] = plain.shapes[1][0] = int64_t{1} << 32;
  plain.strides[0][0] = plain.strides[0][1] = 0;
  refused("2^64 elements by strides of 0", &plain, "x", {"4294967296", "more elements than 64 bits"});
  // The partial sums of so many slices take 2^64 bytes, which is 0: with no workspace, memory of others was written.
  for (int64_t cols : {int64_t{65536}, int64_t{65535}, int64_t{1} << 29})
    for (bool by_default : {true, false}) {
      Call slices(DXDW_DW);
      slices.split = 1 << 30;
      slices.passed = by_default ? nullptr : &slices.options;
      slices.tensors[2].data = reinterpret_cast<void *>(uintptr_t{1} << 46);  // nobody writes there
      for (int i : {0, 1}) {
        slices.shapes[i][0] = 1 << 30;
        slices.shapes[i][1] = cols;
        slices.strides[i][0] = slices.strides[i][1] = 0;
      }
      slices.shapes[2][0] = slices.shapes[2][1] = cols;
      slices.strides[2][0] = cols;
      if (cols == 65535) {
        // Just countable.
        uint64_t needed = 0;
        CHECK_OK(dxdw_workspace(DXDW_DW, slices.tensors, slices.split / 4, 1, slices.passed, &needed));
        CHECK(needed >= (uint64_t{1} << 28) * 65535 * 65535 * 4, "%llu bytes for 2^28 slices",
              static_cast<unsigned long long>(needed));
      }
      refused("slices whose bytes 64 bits can't count", &slices, "split", {"1073741824", "dw float32"});
    }
  // 46341 x 46341 elements are more than 2^31: legal, and the plan counts them right.
  Call wide(DXDW_DW);
  static float one[1];
  for (int i : {0, 1}) {
    wide.shapes[i][0] = 1;
    wide.shapes[i][1] = 46341;
    wide.strides[i][0] = wide.strides[i][1] = 0;
    wide.tensors[i].data = one;
  }
  wide.shapes[2][0] = wide.shapes[2][1] = 46341;
  wide.strides[2][0] = 46341;
  dxdw_plan plan = {};
  plan.size = sizeof plan;
  CHECK_OK(dxdw_explain(DXDW_DW, wide.tensors, 1, 1, nullptr, &plan));
  CHECK(plan.tiles > 0, "%lld tiles for 46341 x 46341", static_cast<long long>(plan.tiles));
  uint64_t bytes = 0;
  wide.shapes[0][0] = wide.shapes[1][0] = 4;
  CHECK_OK(dxdw_dw_workspace(&wide.tensors[0], &wide.tensors[1], &wide.tensors[2], 4, 1, nullptr, &bytes));
  CHECK(bytes >= uint64_t{4} * 46341 * 46341 * 4, "workspace of 4 partials of 46341 x 46341 is %llu bytes",
        static_cast<unsigned long long>(bytes));
}

// A tensor without elements is legal, however large its other sizes are: their product is 0.
void huge_but_empty() {
  const int64_t huge = int64_t{1} << 40;
  const std::vector<int64_t> whole = {huge, huge, 0}, middle = {huge, 0, huge}, none = {0};
  const auto check = [](int32_t function, std::initializer_list<std::vector<int64_t>> shapes) {
    for (bool compact : {false, true}) {
      Call call(function);
      int i = 0;
      for (const std::vector<int64_t> &shape : shapes) {
        std::copy(shape.begin(), shape.end(), call.shapes[i]);
        // Rows that are read stand in one element; strides of operands without elements mean nothing.
        const bool empty = std::count(shape.begin(), shape.end(), 0) > 0;
        std::fill_n(call.strides[i], shape.size(), empty ? INT64_MIN : 0);
        if (compact && empty) call.tensors[i].strides = nullptr;
        call.tensors[i++].ndim = static_cast<int32_t>(shape.size());
      }
      passes("huge sizes, but no elements", &call);
      dxdw_plan plan = {};
      plan.size = sizeof plan;
      CHECK_OK(dxdw_explain(function, call.tensors, 1, 1, call.passed, &plan));
      CHECK(call.untouched(), "function %d: written where there are no elements", function);
    }
  };
  for (const std::vector<int64_t> &shape : {whole, middle}) {
    check(DXDW_ADD_FWD, {shape, shape, shape});
    check(DXDW_RELU_FWD, {shape, shape});
    check(DXDW_GELU_BWD, {shape, shape, shape});
    check(DXDW_SQUARED_NORM, {shape, {}});
    check(DXDW_SGD, {shape, shape, shape, shape, {}});
    check(DXDW_ADAMW, {shape, shape, shape, shape, shape, {}});
  }
  check(DXDW_SUM_ROWS, {whole, none});
  // Rows of no features are counted.
  const std::vector<int64_t> rows = {huge, 1 << 22}, features = {huge, 1 << 22, 0};
  check(DXDW_WEIGHTED_SUM_BWD, {features, none, rows, features, none});
  check(DXDW_SOFTMAX_CROSS_ENTROPY_BWD, {features, rows, rows, features});
  check(DXDW_SQUARED_ERROR_BWD, {features, features, rows, features});
  check(DXDW_Y, {{huge, 0}, {0, 0}, {huge, 0}});
  check(DXDW_DX, {{0, 1 << 22}, {huge, 1 << 22}, {0, huge}});
  check(DXDW_DW_REDUCE, {{huge, huge, 0}, {huge, 0}});
  Call pair(DXDW_RELU_FWD);
  for (int i : {0, 1}) {
    std::copy(whole.begin(), whole.end(), pair.shapes[i]);
    pair.tensors[i].ndim = 3;
    pair.tensors[i].strides = nullptr;
  }
  CHECK_OK(dxdw_copy(&pair.tensors[0], &pair.tensors[1], nullptr));
  // Sums of no features are written, and so many can't be.
  Call sums(DXDW_WEIGHTED_SUM_FWD);
  for (int i : {0, 2}) sums.shapes[i][0] = sums.shapes[i][1] = huge + 1;
  sums.shapes[0][2] = sums.shapes[1][0] = 0;
  refused("2^80 sums of no features", &sums, "y", {"more elements than 64 bits"});
}

// ---- Aliases ----

void aliases() {
  for (int32_t function = 0; function < kFunctions; ++function) {
    if (function == DXDW_COPY) continue;
    const Asked &what = asked(function);
    const Call valid(function);
    for (int out = 0; out < valid.count; ++out)
      for (int in = 0; in < valid.count && has(what.outputs, out); ++in) {
        if (in == out) continue;
        // Two outputs are told of once, by the first of them.
        const int told = has(what.outputs, in) && in < out ? in : out;
        Call same(function);
        same.put(out, in, 0);
        if (has(what.in_place, in))
          passes("output that is an input", &same);
        else
          refused("output on another operand", &same, name_of_operand(function, told), {"shares memory"});
        Call shifted(function);
        shifted.put(out, in, 1);
        if (valid.tensors[in].ndim > 0 && !(valid.tensors[in].ndim == 1 && valid.shapes[in][0] == 1))
          refused("output half on another operand", &shifted, name_of_operand(function, told), {"shares memory"});
        Call before(function);
        before.put(out, in, -1);
        if (valid.tensors[out].ndim > 0)
          refused("output that ends in another operand", &before, name_of_operand(function, told), {"shares memory"});
      }
  }
  Call both(DXDW_WEIGHTED_SUM_BWD);
  both.put(4, 3, 0);
  refused("gw on gx", &both, "gx", {"shares memory", "gw"});
  both.pointers[3] = nullptr;
  passes("gw where gx would be, gx not wanted", &both);

  // Inputs may be one and the same memory.
  Call inputs(DXDW_DW);
  inputs.put(1, 0, 0);
  passes("inputs that share memory", &inputs);

  // Left and right halves of one buffer, both ways.
  for (int64_t half : {kN, -kN}) {
    Call halves(DXDW_DW);
    halves.shapes[0][1] = halves.shapes[2][0] = kN;  // x [6,4], dy [6,4], dw [4,4]
    halves.strides[0][0] = halves.strides[2][0] = 2 * kN;
    halves.put(2, 0, half);
    passes("halves of one buffer", &halves);
    halves.put(2, 0, half > 0 ? half - 1 : half + 1);
    Call overlapping(DXDW_DW);
    overlapping.shapes[0][1] = overlapping.shapes[2][0] = kN;
    overlapping.strides[0][0] = overlapping.strides[2][0] = 2 * kN;
    overlapping.put(2, 0, half > 0 ? half - 1 : half + 1);
    refused("halves that overlap by one column", &overlapping, "dw", {"shares memory", "x"});
  }
  // Even and odd columns of one buffer.
  Call columns(DXDW_DX);
  columns.shapes[0][1] = columns.shapes[1][1] = columns.shapes[2][1] = columns.shapes[1][0] = 4;
  columns.strides[0][0] = columns.strides[2][0] = 8;
  columns.strides[0][1] = columns.strides[2][1] = 2;
  columns.put(2, 0, 1);
  passes("even and odd columns of one buffer", &columns);
  Call both_even(DXDW_DX);
  both_even.shapes[0][1] = both_even.shapes[1][1] = both_even.shapes[2][1] = both_even.shapes[1][0] = 4;
  both_even.strides[0][0] = both_even.strides[2][0] = 8;
  both_even.strides[0][1] = both_even.strides[2][1] = 2;
  both_even.put(2, 0, 2);
  refused("even columns twice", &both_even, "dx", {"shares memory", "dy"});
  // Even and odd rows.
  Call rows(DXDW_DX);
  rows.shapes[1][0] = rows.shapes[2][1] = kN;
  rows.strides[0][0] = rows.strides[2][0] = 2 * kN;
  rows.put(2, 0, kN);
  passes("even and odd rows of one buffer", &rows);
  // Upper rows forwards, lower rows backwards.
  Call reversed(DXDW_DX);
  reversed.shapes[1][0] = reversed.shapes[2][1] = kN;
  reversed.strides[2][0] = -kN;
  reversed.put(2, 0, (2 * kT - 1) * kN);
  passes("reversed rows behind the input", &reversed);
  Call reversed_on(DXDW_DX);
  reversed_on.shapes[1][0] = reversed_on.shapes[2][1] = kN;
  reversed_on.strides[2][0] = -kN;
  reversed_on.put(2, 0, (2 * kT - 2) * kN);
  refused("reversed rows that end in the input", &reversed_on, "dx", {"shares memory", "dy"});
  // A transposed output is an output like any other, and so is one with rows closer than columns.
  Call transposed(DXDW_Y);
  transposed.strides[2][0] = 1;
  transposed.strides[2][1] = kT;
  passes("transposed output", &transposed);
  Call interleaved(DXDW_Y);
  interleaved.shapes[0][0] = interleaved.shapes[2][0] = 2;
  interleaved.shapes[1][1] = interleaved.shapes[2][1] = 3;
  interleaved.strides[2][0] = 3;
  interleaved.strides[2][1] = 2;
  // 3 i + 2 j: 0 2 4, 3 5 7: all different.
  passes("output whose rows interleave", &interleaved);
  interleaved.strides[2][0] = 4;
  Call touching(DXDW_Y);
  touching.shapes[0][0] = touching.shapes[2][0] = 2;
  touching.shapes[1][1] = touching.shapes[2][1] = 3;
  touching.strides[2][0] = 4;
  touching.strides[2][1] = 2;
  // 4 i + 2 j: 0 2 4, 4 6 8.
  refused("output whose rows meet", &touching, "y", {"share memory"});
}

// Two views against a count of the elements themselves.
struct Pair {
  Call call{DXDW_DX};
  bool itself = false, meets = false;

  // dy and dx in one buffer, dx `shift` elements behind dy.
  Pair(const int64_t *dy_shape, const int64_t *dy_strides, const int64_t *dx_shape, const int64_t *dx_strides,
       int64_t shift) {
    constexpr int64_t kElements = 1 << 10;
    static float buffer[kElements];
    for (int d = 0; d < 2; ++d) {
      call.shapes[0][d] = dy_shape[d];
      call.shapes[2][d] = dx_shape[d];
      call.strides[0][d] = dy_strides[d];
      call.strides[2][d] = dx_strides[d];
    }
    call.shapes[1][0] = dx_shape[1];
    call.shapes[1][1] = dy_shape[1];
    int used[kElements] = {};
    for (int i : {0, 2}) {
      const int64_t start = kElements / 2 + (i == 2 ? shift : 0);
      call.tensors[i].data = buffer + start;
      for (int64_t r = 0; r < call.shapes[i][0]; ++r)
        for (int64_t c = 0; c < call.shapes[i][1]; ++c) {
          const int64_t at = start + (call.shapes[i][0] > 1 ? r * call.strides[i][0] : 0) +
                             (call.shapes[i][1] > 1 ? c * call.strides[i][1] : 0);
          if (at < 0 || at >= kElements) FAIL("the test reaches outside its own memory");
          if (i == 0) {
            used[at] = 1;
          } else {
            meets = meets || (used[at] & 1);
            itself = itself || (used[at] & 2);
            used[at] |= 2;
          }
        }
    }
  }
  std::string text() const {
    return "dy " + text_of(call.shapes[0], 2) + " strides " + text_of(call.strides[0], 2) + ", dx " +
           text_of(call.shapes[2], 2) + " strides " + text_of(call.strides[2], 2) + " at " +
           std::to_string(static_cast<float *>(call.tensors[2].data) - static_cast<float *>(call.tensors[0].data));
  }
};

// Any strides: shared memory is never let through, and an output alone is judged exactly.
void aliases_at_random() {
  Random random(99);
  int legal = 0, shared = 0;
  for (int round = 0; round < 40000; ++round) {
    const int64_t t = random.between(1, 5);
    const int64_t dy_shape[] = {t, random.between(1, 4)}, dx_shape[] = {t, random.between(1, 5)};
    const int64_t dy_strides[] = {random.between(-7, 9), random.between(-7, 9)};
    const int64_t dx_strides[] = {random.between(-7, 9), random.between(-7, 9)};
    const bool far = random.one_in(3);
    Pair pair(dy_shape, dy_strides, dx_shape, dx_strides, far ? 200 : random.between(-20, 20));
    const int32_t status = pair.call.run();
    if (pair.itself || pair.meets || far)
      CHECK((status == DXDW_OK) == !(pair.itself || pair.meets),
            "%s: shares memory with itself: %d, with dy: %d, but status %d (%s)", pair.text().c_str(), pair.itself,
            pair.meets, status, dxdw_last_error());
    (pair.itself || pair.meets ? shared : legal) += 1;
  }
  CHECK(legal > 1000 && shared > 1000, "too few cases of one kind: %d legal, %d shared", legal, shared);
}

// Slices of one matrix, rows and columns in steps of 1 to 3, forwards or backwards: judged exactly.
void slices_of_one_matrix() {
  Random random(100);
  int legal = 0, shared = 0;
  for (int round = 0; round < 40000; ++round) {
    const int64_t width = 12, t = random.between(1, 3);
    const int64_t step = random.between(1, 3), row_step = random.between(1, 2);
    int64_t shapes[2][2], strides[2][2], start[2];
    for (int i = 0; i < 2; ++i) {
      const int64_t cols = random.between(1, (width + step - 1) / step);
      const int64_t first_col = random.between(0, width - 1 - (cols - 1) * step), first_row = random.between(0, 3);
      shapes[i][0] = t;
      shapes[i][1] = cols;
      strides[i][0] = width * row_step;
      strides[i][1] = step;
      start[i] = first_row * width + first_col;
      if (random.one_in(4)) {
        start[i] += (cols - 1) * step;
        strides[i][1] = -step;
      }
      if (random.one_in(4)) {
        start[i] += (t - 1) * strides[i][0];
        strides[i][0] = -strides[i][0];
      }
    }
    Pair pair(shapes[0], strides[0], shapes[1], strides[1], start[1] - start[0]);
    const int32_t status = pair.call.run();
    CHECK((status == DXDW_OK) == !(pair.itself || pair.meets),
          "%s: shares memory with itself: %d, with dy: %d, but status %d (%s)", pair.text().c_str(), pair.itself,
          pair.meets, status, dxdw_last_error());
    (pair.itself || pair.meets ? shared : legal) += 1;
  }
  CHECK(legal > 1000 && shared > 1000, "too few cases of one kind: %d legal, %d shared", legal, shared);
}

// ---- Workspace ----

void workspaces() {
  for (int32_t split : {2, 4}) {
    Call call(DXDW_DW);
    call.split = split;
    uint64_t bytes = 0;
    CHECK_OK(dxdw_dw_workspace(&call.tensors[0], &call.tensors[1], &call.tensors[2], split, 1, nullptr, &bytes));
    CHECK(bytes >= static_cast<uint64_t>(split * kK * kN * 4) && bytes <= sizeof call.workspace,
          "workspace of %llu bytes", static_cast<unsigned long long>(bytes));
    call.options.workspace = call.workspace;
    call.options.workspace_bytes = bytes - 1;
    refused("workspace one byte too small", &call, "workspace",
            {std::to_string(bytes - 1).c_str(), std::to_string(bytes).c_str()});
    call.options.workspace_bytes = 0;
    refused("workspace of 0 bytes", &call, "workspace", {"0", std::to_string(bytes).c_str()});
    call.options.workspace_bytes = bytes;
    call.options.workspace = call.workspace + 4;
    refused("misaligned workspace", &call, "workspace", {"64"});
    for (int i = 0; i < 3; ++i) {
      Call aliased(DXDW_DW);
      aliased.split = split;
      aliased.options.workspace = aliased.workspace;
      aliased.options.workspace_bytes = bytes;
      aliased.tensors[i].data = aliased.workspace + bytes - 4;
      refused("operand in the workspace", &aliased, "workspace", {name_of_operand(DXDW_DW, i)});
    }
    call.options.workspace = call.workspace;
    passes("workspace of just the bytes", &call);
  }
  Call unneeded(DXDW_Y);
  unneeded.options.workspace = unneeded.workspace + 1;
  unneeded.options.workspace_bytes = 3;
  uint64_t bytes = 1;
  CHECK_OK(dxdw_y_workspace(&unneeded.tensors[0], &unneeded.tensors[1], &unneeded.tensors[2], nullptr, &bytes));
  if (bytes == 0) passes("a workspace that is not needed", &unneeded);
}

// ---- The rest of the interface ----

void rest() {
  const auto refuses = [](int32_t status, const char *name) {
    CHECK(status == DXDW_INVALID_ARGUMENT && begins_with_name(dxdw_last_error(), name), "status %d, expected %s: %s",
          status, name, dxdw_last_error());
  };
  Call call(DXDW_Y);
  dxdw_plan plan = {};
  plan.size = sizeof plan;
  uint64_t bytes;
  for (int32_t function : {-1, DXDW_ADAMW + 1, INT32_MAX, INT32_MIN}) {
    refuses(dxdw_call(function, call.tensors, 1, 1, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr),
            "function");
    refuses(dxdw_explain(function, call.tensors, 1, 1, nullptr, &plan), "function");
    refuses(dxdw_workspace(function, call.tensors, 1, 1, nullptr, &bytes), "function");
  }
  refuses(dxdw_call(DXDW_Y, nullptr, 1, 1, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr), "operands");
  refuses(dxdw_explain(DXDW_Y, call.tensors, 1, 1, nullptr, nullptr), "plan");
  plan.size = 4;
  refuses(dxdw_explain(DXDW_Y, call.tensors, 1, 1, nullptr, &plan), "plan");
  refuses(dxdw_workspace(DXDW_Y, call.tensors, 1, 1, nullptr, nullptr), "bytes");
  refuses(dxdw_set_threads(-1), "threads");
  refuses(dxdw_set_threads(1025), "threads");
  refuses(dxdw_inject_fault(-1, 0), "fault");
  refuses(dxdw_inject_fault(5, 0), "fault");
  refuses(dxdw_inject_fault(0, -2), "skip");
  float single = 1;
  uint16_t half = 0;
  refuses(dxdw_float_to_bfloat16(nullptr, &half, 1), "source");
  refuses(dxdw_float_to_bfloat16(&single, nullptr, 1), "destination");
  refuses(dxdw_float_to_float16(&single, &half, -1), "count");
  CHECK_OK(dxdw_float16_to_float(nullptr, nullptr, 0));
  CHECK(dxdw_counter(-1) == -1 && dxdw_counter(5) == -1, "an unknown counter counts");
  int64_t out[16];
  refuses(dxdw_echo(nullptr, out, 16), "tensor");
  refuses(dxdw_echo(&call.tensors[0], nullptr, 16), "out");
  refuses(dxdw_echo(&call.tensors[0], out, 10), "count");
  CHECK_OK(dxdw_nop());
  CHECK(strlen(dxdw_build_description()) > 0 && strchr(dxdw_build_description(), '\n') == nullptr,
        "build description: %s", dxdw_build_description());
  CHECK(strstr(dxdw_build_description(), dxdw_simd_level()) != nullptr, "no SIMD level in: %s",
        dxdw_build_description());
  CHECK(dxdw_device_count(DXDW_CPU) == 1 && dxdw_device_count(9) == 0, "device counts");
  CHECK(dxdw_device_unavailable(DXDW_CPU, 0)[0] == 0, "the CPU is unavailable: %s",
        dxdw_device_unavailable(DXDW_CPU, 0));
  CHECK(dxdw_device_count(DXDW_CUDA) > 0 || dxdw_device_unavailable(DXDW_CUDA, 0)[0] != 0,
        "no CUDA device, and no reason");
  dxdw_device_info info = {};
  info.size = sizeof info;
  CHECK_OK(dxdw_device_info_get(DXDW_CPU, 0, &info));
  CHECK(info.multiprocessors >= 1 && info.total_bytes >= info.free_bytes && info.name[0] != 0, "CPU info");
  info.size = 1;
  refuses(dxdw_device_info_get(DXDW_CPU, 0, &info), "info");
  const int32_t processors = info.multiprocessors;
  info.size = sizeof info;
  for (int32_t threads : {1, 1024, 0}) {
    CHECK_OK(dxdw_set_threads(threads));
    CHECK_OK(dxdw_device_info_get(DXDW_CPU, 0, &info));
    CHECK(info.multiprocessors == processors, "%d hardware threads, %d once a call may use %d", processors,
          info.multiprocessors, threads);
  }
  CHECK(dxdw_threads() >= 1, "%d threads", dxdw_threads());
  // Copies.
  Call pair(DXDW_Y);
  pair.shapes[1][0] = kT;
  pair.shapes[1][1] = kK;
  pair.strides[1][0] = kK;
  dxdw_tensor *from = &pair.tensors[0], *to = &pair.tensors[1];
  CHECK_OK(dxdw_copy(from, to, nullptr));
  // By way of dxdw_call, where there is no plan and no workspace.
  dxdw_tensor both[] = {*from, *to};
  both[0].data = pair.memory[3];
  CHECK_OK(dxdw_call(DXDW_COPY, both, 0, 0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr));
  plan.size = sizeof plan;
  refuses(dxdw_explain(DXDW_COPY, both, 1, 1, nullptr, &plan), "function");
  refuses(dxdw_workspace(DXDW_COPY, both, 1, 1, nullptr, &bytes), "function");
  both[1].data = both[0].data;
  refuses(dxdw_call(DXDW_COPY, both, 0, 0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr),
          "destination");
  refuses(dxdw_copy(nullptr, to, nullptr), "source");
  refuses(dxdw_copy(from, nullptr, nullptr), "destination");
  refuses(dxdw_copy(from, from, nullptr), "destination");
  pair.strides[1][0] = 0;
  refuses(dxdw_copy(from, to, nullptr), "destination");
  pair.strides[1][0] = kK;
  pair.shapes[1][1] = kK - 1;
  refuses(dxdw_copy(from, to, nullptr), "destination");
  to->ndim = 1;
  refuses(dxdw_copy(from, to, nullptr), "destination");
}

// Whatever bits arrive in the scalar fields, the answer is a status.
void random_bits() {
  Random random(4);
  for (int round = 0; round < 50000; ++round) {
    Call call(static_cast<int32_t>(random.between(0, kFunctions - 2)));
    if (call.function == DXDW_COPY) continue;
    for (int change = 0; change < 2; ++change) {
      dxdw_tensor *t = &call.tensors[random.between(0, call.count - 1)];
      const int64_t odd[] = {0, 1, -1, 2, 7, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, int64_t{1} << 32};
      const int64_t value = odd[random.between(0, 9)];
      switch (random.between(0, 8)) {
        case 0: t->device_type = static_cast<int32_t>(value); break;
        case 1: t->device_id = static_cast<int32_t>(value); break;
        case 2:
          t->ndim =
              static_cast<int32_t>(value) > 4 && static_cast<int32_t>(value) <= 32 ? 33 : static_cast<int32_t>(value);
          break;
        case 3: t->dtype_code = static_cast<uint8_t>(random.next()); break;
        case 4: t->dtype_bits = static_cast<uint8_t>(random.next()); break;
        case 5: t->shape[0] = value; break;
        case 6: call.options.accumulate = static_cast<int32_t>(value); break;
        case 7: call.options.precision = static_cast<int32_t>(value); break;
        default: call.split = static_cast<int32_t>(value); break;
      }
    }
    // Only calls that are refused or explained: one that passes could reach far with such sizes.
    dxdw_plan plan = {};
    plan.size = sizeof plan;
    const int32_t status =
        dxdw_explain(call.function, call.tensors, call.split, call.deterministic, call.passed, &plan);
    CHECK(status == DXDW_OK || status == DXDW_INVALID_ARGUMENT || status == DXDW_DEVICE_UNAVAILABLE, "status %d: %s",
          status, dxdw_last_error());
    if (status == DXDW_INVALID_ARGUMENT) {
      CHECK(dxdw_last_error()[0] != 0, "no message");
      CHECK(call.run() == DXDW_INVALID_ARGUMENT && call.untouched(), "explain refuses, the call runs");
    }
  }
}

}  // namespace

int main() {
  report_faults();
  for (int32_t function = 0; function < kFunctions; ++function) {
    if (function == DXDW_COPY) continue;
    Call valid(function);
    passes("the call that is spoilt below", &valid);
    each_operand_alone(function);
    types(function);
    sizes(function);
    devices(function);
    options(function);
    scalars(function);
  }
  scalars_of_each();
  split_and_deterministic();
  empty_but_wrong();
  huge_sizes();
  huge_but_empty();
  aliases();
  aliases_at_random();
  slices_of_one_matrix();
  workspaces();
  rest();
  random_bits();
  printf("passed\n");
  return 0;
}
