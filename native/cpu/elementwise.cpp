// out = f(a, b) element by element; optimizer steps; norm = sum of x^2.
//
// All of it is bound by memory, so each operand is read and written once, in tiles that pass through the first-level
// cache where types or strides ask for a detour.
#include "counters.hpp"
#include "scratch.hpp"
#include "tiles.hpp"
#include "training.hpp"

namespace dxdw {
namespace cpu {

namespace {

// An output from this size on would only push other data out of the caches.
constexpr int64_t kStreamBytes = 8 << 20;

ElementwiseKernel kernel_of(int32_t function) {
  switch (function) {
    case DXDW_ADD_FWD: return kAdd;
    case DXDW_RELU_FWD: return kRelu;
    case DXDW_RELU_BWD: return kReluBackward;
    case DXDW_GELU_FWD: return kGelu;
    default: return kGeluBackward;
  }
}

struct ElementwiseRun {
  const Elementwise *e;
  Tiles tiles;
  ElementwiseKernel kernel;
  bool half;  // 16-bit operands of one type: where they stand side by side, kernels convert on the way
  bool stream;
};

void elementwise_task(void *context, int64_t index, int32_t) {
  const ElementwiseRun &run = *static_cast<const ElementwiseRun *>(context);
  const Elementwise &e = *run.e;
  const Tiles &tiles = run.tiles;
  float a[kTile], b[kTile], result[kTile], old[kTile];
  const int64_t end = std::min(tiles.count(), (index + 1) * tiles.per_task());
  for (int64_t i = index * tiles.per_task(); i < end; ++i) {
    const Tile2 tile = tiles.at(i);
    Stretch s = {};
    if (run.half && tiles.side_by_side(e.in[0], tile) && tiles.side_by_side(e.out, tile) &&
        (e.in[1].data == nullptr || tiles.side_by_side(e.in[1], tile))) {
      s.a = tiles.address(e.in[0], tile);
      s.b = e.in[1].data == nullptr ? nullptr : tiles.address(e.in[1], tile);
      s.out = tiles.address(e.out, tile);
      s.count = tile.count();
      s.stream = run.stream;
      s.type = e.out.type;
      kernels().elementwise[run.kernel](s);
      continue;
    }
    s.a = tiles.load(e.in[0], tile, a);
    s.b = e.in[1].data == nullptr ? nullptr : tiles.load(e.in[1], tile, b);
    float *const to = e.add ? result : tiles.room(e.out, tile, result);
    s.out = to;
    s.count = tile.count();
    s.stream = run.stream && to != result;
    kernels().elementwise[run.kernel](s);
    if (!e.add) {
      tiles.store(e.out, tile, to);
      continue;
    }
    float *const sum = tiles.room(e.out, tile, result);
    kernels().elementwise[kAdd]({tiles.load(e.out, tile, old), result, sum, tile.count(), false, {}});
    tiles.store(e.out, tile, sum);
  }
  if (run.stream) kernels().fence();
}

}  // namespace

Plan plan_elementwise(const Elementwise &e) { return {1, threads_for_elements(e.grid.count), 0, 1, 0}; }

Status run_elementwise(const Elementwise &e, int32_t function, const Plan &plan) {
  count_launch();
  ElementwiseRun run = {&e, Tiles(e.grid), kernel_of(function), false, false};
  run.half = !e.add && e.out.type != DType::f32;
  run.stream = !e.add && e.grid.count * size_of(e.out.type) >= kStreamBytes && e.out.data != e.in[0].data &&
               e.out.data != e.in[1].data;
  parallel_for(ceil_div(run.tiles.count(), run.tiles.per_task()), plan.threads, elementwise_task, &run);
  return DXDW_OK;
}

// ---- Optimizer steps ----

namespace {

struct StepRun {
  const OptimizerStep *step;
  Tiles tiles;
  float scale;
  void (*kernel)(const StepStretch &);
};

void step_task(void *context, int64_t index, int32_t) {
  const StepRun &run = *static_cast<const StepRun *>(context);
  const OptimizerStep &step = *run.step;
  const Tiles &tiles = run.tiles;
  float p[kTile], g[kTile], state[2][kTile];
  const int64_t end = std::min(tiles.count(), (index + 1) * tiles.per_task());
  for (int64_t i = index * tiles.per_task(); i < end; ++i) {
    const Tile2 tile = tiles.at(i);
    StepStretch s = {tiles.load(step.p, tile, p),
                     tiles.load(step.g, tile, g),
                     {nullptr, nullptr},
                     tile.count(),
                     run.scale,
                     step.sgd,
                     step.adamw};
    for (int k = 0; k < 2; ++k)
      if (step.state[k].data != nullptr) s.state[k] = tiles.load(step.state[k], tile, state[k]);
    run.kernel(s);
    tiles.store(step.p, tile, s.p);
    for (int k = 0; k < 2; ++k)
      if (step.state[k].data != nullptr) tiles.store(step.state[k], tile, s.state[k]);
    if (step.copy.data != nullptr) tiles.store(step.copy, tile, s.p);
  }
}

}  // namespace

Plan plan_step(const OptimizerStep &step) { return {1, threads_for_elements(step.grid.count), 0, 1, 0}; }

Status run_step(const OptimizerStep &step, int32_t function, const Plan &plan) {
  count_launch();
  const float scale = step.scale == nullptr ? 1.0f : *reinterpret_cast<const float *>(step.scale);
  StepRun run = {&step, Tiles(step.grid), scale, function == DXDW_SGD ? kernels().sgd : kernels().adamw};
  parallel_for(ceil_div(run.tiles.count(), run.tiles.per_task()), plan.threads, step_task, &run);
  return DXDW_OK;
}

// ---- Norms ----

namespace {

// Elements, in row-major order, are cut into blocks of a size that their number alone sets; a block is summed in pieces
// of kTile, pieces and blocks are added in rising order.
constexpr int64_t kMostBlocks = 512;

int64_t norm_block(const SquaredNorm &n) {
  return std::max<int64_t>(16, ceil_div(ceil_div(n.grid.count, kMostBlocks), kTile)) * kTile;
}

struct NormRun {
  const SquaredNorm *norm;
  float *sums;
};

// Elements [from, from + count) in row-major order, as floats side by side.
const float *elements(const SquaredNorm &n, int64_t from, int64_t count, float *buffer) {
  const Rows &grid = n.grid;
  const int32_t last = grid.ndim - 1;
  const int64_t line = grid.shape[last], stride = n.x.row_strides[last];
  if (grid.ndim == 1 && n.x.type == DType::f32 && (stride == 1 || line == 1))
    return reinterpret_cast<const float *>(n.x.data) + from;
  for (int64_t done = 0; done < count;) {
    const int64_t at = from + done, col = at % line, now = std::min(count - done, line - col);
    int64_t offset = col * stride, rest = at / line;
    for (int32_t d = last - 1; d >= 0; --d) {
      offset += rest % grid.shape[d] * n.x.row_strides[d];
      rest /= grid.shape[d];
    }
    convert(n.x.data + offset * size_of(n.x.type), n.x.type, stride, reinterpret_cast<char *>(buffer + done),
            DType::f32, 1, now);
    done += now;
  }
  return buffer;
}

void norm_task(void *context, int64_t index, int32_t) {
  const NormRun &run = *static_cast<const NormRun *>(context);
  const int64_t block = norm_block(*run.norm), end = std::min(run.norm->grid.count, (index + 1) * block);
  float buffer[kTile], sum = 0.0f;
  for (int64_t at = index * block; at < end; at += kTile) {
    const int64_t count = std::min(kTile, end - at);
    sum += kernels().squared_sum(elements(*run.norm, at, count, buffer), count);
  }
  run.sums[index] = sum;
}

}  // namespace

Plan plan_squared_norm(const SquaredNorm &n) {
  return {1, threads_for_elements(n.grid.count), 0, ceil_div(n.grid.count, norm_block(n)), 0};
}

Status run_squared_norm(const SquaredNorm &n, const Plan &plan) {
  count_launch();
  float sums[kMostBlocks], sum = 0.0f;
  NormRun run = {&n, sums};
  parallel_for(plan.tiles, plan.threads, norm_task, &run);
  for (int64_t i = 0; i < plan.tiles; ++i) sum += sums[i];
  float *const norm = reinterpret_cast<float *>(n.norm);
  *norm = n.add ? *norm + sum : sum;
  return DXDW_OK;
}

Status run_clip_factor(const ClipFactor &clip) {
  count_launch();
  const float norm = *reinterpret_cast<const float *>(clip.norm);
  const float factor = clip.most / __builtin_sqrtf(norm);
  // A norm of 0 asks for no scaling, also where 0 is the most that is allowed.
  *reinterpret_cast<float *>(clip.scale) = norm == 0.0f || factor > 1.0f ? 1.0f : factor;
  return DXDW_OK;
}

}  // namespace cpu
}  // namespace dxdw
