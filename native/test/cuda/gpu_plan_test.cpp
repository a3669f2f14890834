// The plan of a product on a GPU is a pure function: these tests need no GPU. They guard against slices that do not
// cover the contraction, workspaces that overlap, kernels that a slice would not share with the whole, idle
// multiprocessors.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <initializer_list>

#include "gpu_plan.hpp"
#include "hopper_layout.hpp"

using namespace dxdw;

namespace {

#define CHECK(condition, ...)                                         \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
      fprintf(stderr, __VA_ARGS__);                                   \
      fprintf(stderr, "\n");                                          \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

constexpr gpu::Chip kH200 = {90, 132};
constexpr gpu::Chip kA100 = {80, 108};

// Row-major operands at lawful addresses that nothing reads.
Product product(int32_t function, DType type, int64_t t, int64_t k, int64_t n, int32_t split = 1, int64_t pad = 0) {
  char *const base = reinterpret_cast<char *>(uintptr_t{1} << 20);
  const Matrix x = {base, type, t, k, k + pad, 1}, dy = {base, type, t, n, n + pad, 1},
               w = {base, type, k, n, n + pad, 1};
  Product p = {};
  if (function == DXDW_Y) {
    p.a = x, p.b = w, p.c = {base, type, t, n, n, 1};
  } else if (function == DXDW_DX) {
    p.a = dy, p.b = w.transposed(), p.c = {base, type, t, k, k, 1};
  } else {
    p.a = x.transposed(), p.b = dy, p.c = {base, DType::f32, k, n, n, 1};
  }
  p.split = split;
  p.deterministic = true;
  return p;
}

void check_consistent(const Product &p, int32_t function, const gpu::Chip &chip) {
  const gpu::ProductPlan plan = gpu::plan_product(p, function, chip);
  const int64_t contraction = p.contraction();
  CHECK(plan.split >= 1 && plan.chunk * plan.split >= contraction, "%s", gpu::explain(plan, chip).text);
  CHECK(plan.chunk == (contraction + plan.split - 1) / plan.split || contraction == 0, "%s",
        gpu::explain(plan, chip).text);
  CHECK(plan.tiles_m * plan.tile_m >= plan.work.c.rows && plan.tiles_n * plan.tile_n >= plan.work.c.cols, "%s",
        gpu::explain(plan, chip).text);
  CHECK((plan.tiles_m - 1) * plan.tile_m < plan.work.c.rows, "%s", gpu::explain(plan, chip).text);
  CHECK(plan.blocks >= 1, "%s", gpu::explain(plan, chip).text);
  CHECK(p.split == 0 || plan.split == p.split, "%s", gpu::explain(plan, chip).text);
  CHECK((plan.combine == gpu::kDirect) == (plan.split == 1 || plan.clustered), "%s", gpu::explain(plan, chip).text);
  if (plan.keeps_columns) {
    CHECK(plan.kernel == gpu::kHopper && plan.split == 1 && plan.blocks % plan.tiles_n == 0 && plan.band == 1,
          "a block changes its columns: %s", gpu::explain(plan, chip).text);
    CHECK(plan.tile_n == 128   ? contraction <= 512
          : plan.tile_n == 256 ? contraction <= 256 && plan.a.contraction_inner && !plan.fetch_old
                               : false,
          "more than a block can keep: %s", gpu::explain(plan, chip).text);
  }
  if (plan.kernel == gpu::kHopper) {
    CHECK(plan.blocks <= chip.multiprocessors, "%d blocks: %s", plan.blocks, gpu::explain(plan, chip).text);
    CHECK(plan.tile_n != 256 || plan.keeps_columns || plan.stores_boxes, "held results leave in boxes only: %s",
          gpu::explain(plan, chip).text);
    CHECK(plan.turned == (plan.tile_n == 160), "%s", gpu::explain(plan, chip).text);
  }
  if (plan.turned)
    CHECK(plan.work.c.row_stride == 1 && plan.work.c.type != DType::f32 && plan.b.contraction_inner &&
              plan.split == 1 && plan.work.c.rows * 2 % 16 == 0 && plan.stores_boxes,
          "%s", gpu::explain(plan, chip).text);
  // Parts of the workspace, in order, do not overlap.
  const uint64_t partial = plan.combine == gpu::kWorkspace
                               ? static_cast<uint64_t>(plan.split * plan.work.c.rows * plan.partial_pitch * 4)
                               : 0;
  CHECK(plan.partials_at + partial <= plan.workspace_bytes, "%s", gpu::explain(plan, chip).text);
  CHECK(plan.partials_at % 256 == 0 && plan.pack_a_at % 256 == 0 && plan.pack_b_at % 256 == 0, "%s",
        gpu::explain(plan, chip).text);
  if (plan.pack_a && plan.pack_b) CHECK(plan.pack_a_at < plan.pack_b_at, "%s", gpu::explain(plan, chip).text);
  if (plan.clustered)
    CHECK(plan.kernel == gpu::kHopper && function == DXDW_DW && plan.blocks == plan.tiles * plan.split &&
              plan.tile_m == 64 && plan.tile_n == 64 && !plan.keeps_columns && !plan.turned && !plan.fetch_old &&
              !plan.a.contraction_inner && !plan.b.contraction_inner && plan.work.c.col_stride == 1 &&
              plan.split <= gpu::kMostClustered && plan.carried == (plan.work.c.rows == 16 || plan.work.c.cols == 16),
          "%s", gpu::explain(plan, chip).text);
  else
    CHECK(!plan.carried, "%s", gpu::explain(plan, chip).text);
  if ((plan.split == 1 || plan.clustered) && !plan.pack_a && !plan.pack_b)
    CHECK(plan.workspace_bytes == 0, "%s", gpu::explain(plan, chip).text);
}

void test_consistency() {
  const int64_t sizes[] = {1, 7, 64, 129, 1000, 4096, 8191, 100000};
  int plans = 0;
  for (int32_t function : {DXDW_Y, DXDW_DX, DXDW_DW})
    for (DType type : {DType::f32, DType::f16, DType::bf16})
      for (int64_t t : sizes)
        for (int64_t k : sizes)
          for (int64_t n : sizes)
            for (int32_t split : {0, 1, 3, 7})
              for (int64_t pad : {int64_t{0}, int64_t{1}})
                for (const gpu::Chip &chip : {kH200, kA100}) {
                  if (function != DXDW_DW && split != 1) continue;
                  if (split > t) continue;
                  check_consistent(product(function, type, t, k, n, split, pad), function, chip);
                  ++plans;
                }
  printf("%d plans are consistent\n", plans);
}

// A slice's own call takes the same kernel as the whole, or the promise of equal bits breaks; and so does a row of Y.
void test_same_kernel() {
  const int64_t sizes[] = {16, 60, 64, 100, 128, 300, 1024};
  for (int64_t k : sizes)
    for (int64_t n : sizes)
      for (int64_t pad : {0, 1, 3, 8}) {
        const auto kernel = [&](int32_t function, int64_t t, int32_t split) {
          return gpu::plan_product(product(function, DType::bf16, t, k, n, split, pad), function, kH200).kernel;
        };
        for (int64_t t : {1, 5, 64, 1000, 65536}) {
          CHECK(kernel(DXDW_DW, t, 1) == kernel(DXDW_DW, 4096, 4), "dW %lld x %lld", (long long)k, (long long)n);
          CHECK(kernel(DXDW_Y, t, 1) == kernel(DXDW_Y, 4096, 1), "Y %lld x %lld", (long long)k, (long long)n);
          CHECK(kernel(DXDW_DX, t, 1) == kernel(DXDW_DX, 4096, 1), "dX %lld x %lld", (long long)k, (long long)n);
        }
      }
  printf("slices and rows share a kernel with the whole\n");
}

// Few tiles and a long contraction are split; many tiles are not.
void test_split() {
  const auto split = [](int64_t t, int64_t k, int64_t n) {
    const gpu::ProductPlan p = gpu::plan_product(product(DXDW_DW, DType::bf16, t, k, n, 0), DXDW_DW, kH200);
    printf("  dW %lld x %lld over %lld: %s\n", (long long)k, (long long)n, (long long)t, gpu::explain(p, kH200).text);
    return p.split;
  };
  CHECK(split(8192, 4096, 14336) == 1, "mlp");
  CHECK(split(8192, 4096, 4096) == 1, "qkv");
  CHECK(split(8192, 8192, 8192) == 1, "square");
  CHECK(split(32768, 1024, 1024) >= 2, "starved");
  CHECK(split(65536, 512, 512) >= 8, "starved");
  CHECK(split(65536, 256, 256) >= 16, "tiny");
  CHECK(split(100, 256, 256) == 1, "short");
  CHECK(split(0, 256, 256) == 1, "empty");
}

// The choices that measurements led to, and that forced ones win.
void test_choices() {
  const auto plan = [](int32_t function, int64_t t, int64_t k, int64_t n, bool add) {
    Product p = product(function, DType::bf16, t, k, n, function == DXDW_DW ? 0 : 1);
    p.add = add;
    return gpu::plan_product(p, function, kH200);
  };
  const gpu::ProductPlan lora = plan(DXDW_DX, 16384, 4096, 64, false), tiny = plan(DXDW_Y, 65536, 256, 256, false);
  CHECK(lora.tile_n == 256 && lora.keeps_columns, "one k-tile, a large result: %s", gpu::explain(lora, kH200).text);
  CHECK(tiny.tile_n == 256 && tiny.keeps_columns, "four k-tiles, many rows: %s", gpu::explain(tiny, kH200).text);
  for (int32_t function : {DXDW_Y, DXDW_DX})
    for (int64_t size : {512, 1024})
      CHECK(plan(function, 32 << 20 >> (size == 512 ? 9 : 10), size, size, false).turned, "a starved product of %lld",
            (long long)size);
  CHECK(plan(DXDW_Y, 16384, 4096, 64, false).tile_n == 64, "64 columns");
  CHECK(plan(DXDW_DW, 65536, 256, 256, true).tile_n == 64, "narrow tiles leave the fewest partial sums");
  CHECK(plan(DXDW_DW, 8192, 4096, 14336, true).tile_n == 256, "large");
  const gpu::ProductPlan adds = plan(DXDW_DW, 512, 4096, 4096, true), assigns = plan(DXDW_DW, 512, 4096, 4096, false);
  CHECK(adds.keeps_columns && adds.fetch_old, "a short contraction that adds: %s", gpu::explain(adds, kH200).text);
  CHECK(!assigns.keeps_columns && !assigns.fetch_old, "nothing to add to: %s", gpu::explain(assigns, kH200).text);
  CHECK(!plan(DXDW_DW, 8192, 4096, 4096, true).fetch_old, "a long contraction");
  // Lines off 64 bytes cost more loads than wide tiles cost padding.
  CHECK(plan(DXDW_DX, 384, 15040, 8104, false).tile_n == 256, "rows that start on 16 bytes");
  CHECK(plan(DXDW_Y, 512, 4096, 4096, false).tile_n == 128, "one wave of 128 columns");
  // Half of the second tile's rows lie outside, and every column of tiles asks for them: few are best.
  CHECK(plan(DXDW_Y, 192, 2240, 12384, false).tile_n == 256, "rows outside an operand");
  // Columns of 130 MB: all five rows of tiles walk over them at once, though eight stand further apart.
  CHECK(plan(DXDW_DW, 2688, 576, 24960, false).band == 8, "columns that no cache keeps");
  CHECK(plan(DXDW_DW, 8192, 256, 1024, false).band == 4, "columns that the cache keeps");
  CHECK(plan(DXDW_DW, 32768, 1024, 1024, true).tile_n == 256, "large: the energy of narrow tiles counts");
  // Short contractions are worth splitting too, where the output has few tiles.
  CHECK(plan(DXDW_DW, 4416, 128, 112, false).split >= 8, "one tile");
  CHECK(plan(DXDW_DW, 3776, 128, 1664, false).split >= 2, "26 tiles, short");
  CHECK(plan(DXDW_DW, 500, 128, 192, false).split == 1, "too short for two slices");
  for (int32_t width : {64, 128, 160, 256}) {
    gpu::forced.tile_n = width;
    const int32_t function = width == 160 ? DXDW_Y : DXDW_DW;
    CHECK(plan(function, 8192, 4096, 4096, width != 160).tile_n == width, "forced to %d columns", width);
    // What a width cannot store takes another.
    const gpu::ProductPlan ragged =
        gpu::plan_product(product(function, DType::bf16, 8192, 4095, 4097, 1, 1), function, kH200);
    CHECK(ragged.tile_n <= 128 && (width > 128 || ragged.tile_n == width), "ragged, %d columns: %s", width,
          gpu::explain(ragged, kH200).text);
  }
  CHECK(lora.early && !gpu::plan_product(product(DXDW_Y, DType::bf16, 512, 512, 512), DXDW_Y, kA100).early,
        "kernels start early where the chip can");
  gpu::forced.early = -1;
  CHECK(!plan(DXDW_Y, 512, 512, 512, false).early, "forced to start late");
  gpu::forced = {256, 0, 1, 0, 0};
  CHECK(plan(DXDW_Y, 1000, 256, 1000, false).keeps_columns, "forced to keep 256 columns");
  CHECK(!plan(DXDW_Y, 1000, 257, 1000, false).keeps_columns, "too long to be kept");
  gpu::forced = {};
}

// Thin products: 16 columns, a long contraction, many rows; or where they are forced, whatever their rows.
void test_thin() {
  const auto plan = [](int64_t t, int64_t k, int64_t n, int32_t thin, int64_t pad = 0) {
    gpu::forced.thin = thin;
    const gpu::ProductPlan made = gpu::plan_product(product(DXDW_Y, DType::bf16, t, k, n, 1, pad), DXDW_Y, kH200);
    gpu::forced = {};
    return made;
  };
  const gpu::ProductPlan lora = plan(16384, 4096, 16, 0);
  CHECK(lora.thin && lora.kernel == gpu::kHopper && lora.blocks == 128 && lora.workspace_bytes == 0 &&
            strcmp(gpu::kernel_name(lora), "hopper_thin_128x16x64") == 0,
        "%s: %s", gpu::kernel_name(lora), gpu::explain(lora, kH200).text);
  CHECK(!plan(16384, 4096, 16, -1).thin && !plan(16384, 4096, 24, 0).thin, "forced off, and 24 columns");
  CHECK(!plan(8000, 4096, 16, 0).thin && !plan(16384, 1024, 16, 0).thin, "few rows, and a shorter contraction");
  CHECK(plan(1, 512, 16, 1).thin && plan(600, 1000, 16, 1, 8).thin, "forced");
  CHECK(!plan(600, 1000, 16, 1, 1).thin && !plan(600, 511, 16, 1).thin, "rows off 16 bytes, few weights");
  // dX of weights that lie transposed has the same form; of others it has not.
  Product dx = product(DXDW_DX, DType::bf16, 16384, 16, 4096);
  CHECK(!gpu::plan_product(dx, DXDW_DX, kH200).thin, "the contraction of w is inner");
  dx.b.row_stride = 16, dx.b.col_stride = 1;
  CHECK(gpu::plan_product(dx, DXDW_DX, kH200).thin, "transposed w");
  dx.precision = DXDW_PRECISION_EXACT;
  CHECK(!gpu::plan_product(dx, DXDW_DX, kH200).thin && !plan(16384, 4096, 32, 1).thin, "exact, and 32 columns");
  // A batch-invariant row of few takes the same kind of kernel, in which all tiles give the same bits.
  CHECK(plan(1, 4096, 16, 0).kernel == gpu::kHopper, "one row");
}

// Clusters: dW of few rows or columns whose tiles and slices nearly fill the chip, or where they are forced.
void test_clustered() {
  const auto plan = [](const Product &p, int32_t clustered) {
    gpu::forced.clustered = clustered;
    const gpu::ProductPlan made = gpu::plan_product(p, DXDW_DW, kH200);
    if (clustered == 0) check_consistent(p, DXDW_DW, kH200);
    gpu::forced = {};
    return made;
  };
  const auto dw = [](int64_t t, int64_t k, int64_t n, int32_t split = 0, int64_t pad = 0) {
    return product(DXDW_DW, DType::bf16, t, k, n, split, pad);
  };
  for (int64_t n : {16, 40, 64})
    for (bool mirrored : {false, true}) {
      Product p = mirrored ? dw(16384, n, 4096) : dw(16384, 4096, n);
      for (bool deterministic : {false, true}) {
        p.deterministic = deterministic;
        const gpu::ProductPlan lora = plan(p, 0);
        gpu::Sentence why = gpu::explain(lora, kH200);
        CHECK(lora.clustered && lora.split == 2 && lora.blocks == 128 && lora.carried == (n == 16) &&
                  lora.workspace_bytes == 0 && lora.combine == gpu::kDirect &&
                  strcmp(gpu::kernel_name(lora), "hopper_cluster_64x64x64") == 0 &&
                  strstr(why.text, "clusters") != nullptr,
              "%s: %s", gpu::kernel_name(lora), why.text);
        CHECK(!plan(p, -1).clustered, "forced off");
      }
    }
  const struct {
    int64_t k;
    int32_t split;  // 0: no clusters
  } sizes[] = {{2048, 0}, {3776, 0}, {3840, 2}, {4224, 2}, {4288, 0}, {7552, 0}, {7616, 1}, {8448, 1}, {8456, 0}};
  for (const auto &size : sizes) {
    const gpu::ProductPlan made = plan(dw(16384, size.k, 64), 0);
    CHECK(made.clustered == (size.split > 0) && (size.split == 0 || made.split == size.split), "%lld: %s",
          (long long)size.k, gpu::explain(made, kH200).text);
  }
  CHECK(!plan(dw(16384, 4096, 32), 0).clustered, "short lines");
  CHECK(plan(dw(4096, 2048, 64), 0).clustered && plan(dw(4096, 5120, 16), 0).clustered, "few tokens");
  CHECK(!plan(dw(4160, 2048, 64), 0).clustered && !plan(dw(4096, 1856, 64), 0).clustered, "more tokens, fewer blocks");
  CHECK(!plan(dw(1024, 4096, 64), 0).clustered, "a short contraction");
  CHECK(plan(dw(16384, 4096, 64, 2), 0).clustered && !plan(dw(16384, 4096, 64, 3), 0).clustered &&
            !plan(dw(16384, 4096, 64, 4), 0).clustered && !plan(dw(16384, 4096, 64, 1), 0).clustered,
        "slices asked for");
  CHECK(!plan(dw(16384, 4096, 72), 0).clustered && !plan(dw(16384, 4096, 72), 2).clustered, "72 columns");
  CHECK(!plan(dw(16384, 4096, 64, 0, 1), 2).clustered, "lines off 16 bytes");
  for (int32_t slices : {1, 2}) {
    CHECK(!plan(dw(100, 600, 17, 0, 7), slices).clustered, "17 columns and 7 more are 16 bytes, 607 rows are not");
    const gpu::ProductPlan forced = plan(dw(5, 1000, 24), slices);
    CHECK(forced.clustered && forced.split == slices, "forced: %s", gpu::explain(forced, kH200).text);
    CHECK(plan(dw(500, 1000, 24, 2), slices).split == 2, "the slices asked for win");
  }
  CHECK(!plan(dw(500, 1000, 24), 3).clustered, "no cluster of 3");
  // The transposed result of row-major operands is computed as its transpose.
  Product column_major = dw(16384, 4096, 64);
  column_major.c.row_stride = 1, column_major.c.col_stride = 4096;
  CHECK(plan(column_major, 0).clustered && plan(column_major, 0).swap, "column-major");
  Product other = dw(16384, 4096, 64);
  other.c.row_stride = 130, other.c.col_stride = 2;
  CHECK(!plan(other, 2).clustered, "no unit stride");
  other = dw(16384, 4096, 64);
  other.c.type = DType::bf16;
  CHECK(!plan(other, 2).clustered, "16-bit results");
  other = dw(16384, 4096, 64);
  other.a.row_stride = 16384, other.a.col_stride = 1;
  CHECK(!plan(other, 2).clustered, "an inner contraction");
  other = dw(16384, 4096, 64);
  other.precision = DXDW_PRECISION_EXACT;
  CHECK(!plan(other, 2).clustered, "exact");
  // Few rows are few columns of the transposed product, where partial sums take its direction.
  Product few = dw(16384, 24, 4096);
  CHECK(plan(few, 0).swap && plan(few, 0).tiles == 32 && plan(few, 0).combine == gpu::kWorkspace, "few rows: %s",
        gpu::explain(plan(few, 0), kH200).text);
  CHECK(!plan(dw(16384, 4096, 24), 0).swap, "few columns");
  few.deterministic = false;
  CHECK(!plan(few, 0).swap, "slices that are added in place");
  gpu::forced.clustered = 2;
  CHECK(!gpu::plan_product(product(DXDW_Y, DType::bf16, 16384, 4096, 64), DXDW_Y, kH200).clustered, "Y");
  CHECK(!gpu::plan_product(dw(16384, 4096, 64), DXDW_DW, kA100).clustered, "capability 8.0");
  gpu::forced = {};
}

// float32 and exact precision never reach the tensor cores.
void test_precision() {
  for (int32_t function : {DXDW_Y, DXDW_DX, DXDW_DW}) {
    Product p = product(function, DType::f32, 512, 512, 512);
    CHECK(gpu::plan_product(p, function, kH200).kernel == gpu::kSimt, "float32");
    p = product(function, DType::bf16, 512, 512, 512);
    CHECK(gpu::plan_product(p, function, kH200).kernel == gpu::kHopper, "bfloat16 on capability 9.0");
    CHECK(gpu::plan_product(p, function, kA100).kernel == gpu::kMma, "bfloat16 on capability 8.0");
    CHECK(gpu::plan_product(p, function, {100, 148}).kernel == gpu::kMma, "a newer chip must not run sm_90a code");
    p.precision = DXDW_PRECISION_EXACT;
    CHECK(gpu::plan_product(p, function, kH200).kernel == gpu::kSimt, "exact");
  }
}

// Precisions by name reach the tensor cores where they are, and only for float32 operands; all others stay float32.
void test_named_precision() {
  for (int32_t function : {DXDW_Y, DXDW_DX, DXDW_DW})
    for (int32_t precision : {DXDW_PRECISION_TF32, DXDW_PRECISION_BF16X3}) {
      Product p = product(function, DType::f32, 500, 300, 700);
      p.precision = precision;
      const gpu::ProductPlan plan = gpu::plan_product(p, function, kH200);
      CHECK(plan.kernel == (precision == DXDW_PRECISION_TF32 ? gpu::kTf32 : gpu::kBf16x3), "precision %d", precision);
      // Both operands stand in the workspace, one behind the other, every part of every line.
      const uint64_t element = precision == DXDW_PRECISION_TF32 ? 4 : 6;
      const uint64_t bytes_a = static_cast<uint64_t>(plan.work.a.rows * plan.split * plan.pack_a_pitch) * element;
      const uint64_t bytes_b = static_cast<uint64_t>(plan.work.b.cols * plan.split * plan.pack_b_pitch) * element;
      CHECK(
          plan.pack_a && plan.pack_b && plan.pack_a_pitch % gpu::kPartsPadding == 0 && plan.pack_a_pitch >= plan.chunk,
          "%s", gpu::explain(plan, kH200).text);
      CHECK(plan.pack_b_at >= plan.pack_a_at + bytes_a && plan.workspace_bytes >= plan.pack_b_at + bytes_b, "%s",
            gpu::explain(plan, kH200).text);
      CHECK(gpu::plan_product(p, function, kA100).kernel == gpu::kSimt, "capability 8.0");
      CHECK(gpu::plan_product(p, function, {100, 148}).kernel == gpu::kSimt, "a newer chip must not run sm_90a code");
      p = product(function, DType::f32, 500, 16, 16);
      p.precision = precision;
      CHECK(gpu::plan_product(p, function, kH200).kernel == gpu::kSimt, "few weights");
      p = product(function, DType::bf16, 500, 300, 700);
      p.precision = precision;
      CHECK(gpu::plan_product(p, function, kH200).kernel == gpu::kHopper, "16-bit operands are as by default");
    }
}

// Small products are spread over many blocks; large ones of float32 take the widest tile that fills the chip.
void test_tiles() {
  const auto name = [](int32_t function, int64_t t, int64_t k, int64_t n) {
    return gpu::kernel_name(gpu::plan_product(product(function, DType::f32, t, k, n), function, kH200));
  };
  CHECK(strcmp(name(DXDW_Y, 8192, 4096, 14336), "simt_fed_128x256x32") == 0, "%s", name(DXDW_Y, 8192, 4096, 14336));
  CHECK(strcmp(name(DXDW_Y, 8400, 40, 1000), "simt_fed_128x256x32") == 0, "%s", name(DXDW_Y, 8400, 40, 1000));
  CHECK(strcmp(name(DXDW_Y, 8400, 40, 1001), "simt_128x256x16") == 0, "%s", name(DXDW_Y, 8400, 40, 1001));
  // What was fastest on an H200.
  const struct {
    int64_t t, k, n;
    const char *y, *dx, *dw;
  } fastest[] = {{512, 512, 512, "simt_64x64x16", "simt_64x64x16", "simt_64x64x16"},
                 {1024, 1024, 1024, "simt_fed_128x64x32", "simt_fed_128x64x32", "simt_fed_128x64x32"},
                 {1408, 1408, 1408, "simt_fed_128x128x32", "simt_fed_128x128x32", "simt_fed_128x128x32"},
                 {2048, 2048, 2048, "simt_fed_128x256x32", "simt_fed_128x256x32", "simt_fed_128x256x32"},
                 {256, 4096, 4096, "simt_fed_128x64x32", "simt_fed_128x64x32", "simt_fed_128x256x32"},
                 {1400, 700, 1400, "simt_fed_128x128x32", "simt_fed_128x64x32", nullptr},
                 {1000, 1500, 1300, "simt_fed_128x128x32", "simt_fed_128x128x32", "simt_fed_128x128x32"}};
  for (const auto &s : fastest)
    for (int32_t function : {DXDW_Y, DXDW_DX, DXDW_DW}) {
      const char *const wanted = function == DXDW_Y ? s.y : function == DXDW_DX ? s.dx : s.dw;
      CHECK(wanted == nullptr || strcmp(name(function, s.t, s.k, s.n), wanted) == 0,
            "function %d of %lld, %lld, %lld: %s", function, (long long)s.t, (long long)s.k, (long long)s.n,
            name(function, s.t, s.k, s.n));
    }
  CHECK(strcmp(name(DXDW_Y, 1400, 700, 1401), "simt_128x128x16") == 0, "%s", name(DXDW_Y, 1400, 700, 1401));
  CHECK(strcmp(name(DXDW_Y, 700, 700, 700), "simt_64x64x16") == 0, "%s", name(DXDW_Y, 700, 700, 700));
  CHECK(strcmp(name(DXDW_Y, 64, 64, 64), "simt_16x16x64") == 0, "%s", name(DXDW_Y, 64, 64, 64));
  for (DType type : {DType::f32, DType::bf16}) {
    const gpu::ProductPlan p = gpu::plan_product(product(DXDW_DW, type, 64, 64, 64), DXDW_DW, kH200);
    CHECK(p.tiles >= 4 && p.workspace_bytes == 0, "%s", gpu::explain(p, kH200).text);
  }
}

// Tiles are loaded by TMA where it is asked for, on the chip that has the kernel, and from operands that TMA can walk.
void test_fed() {
  const auto is_fed = [](const Product &p, int32_t function, const gpu::Chip &chip) {
    const gpu::ProductPlan plan = gpu::plan_product(p, function, chip);
    if (plan.fed) check_consistent(p, function, chip);
    if (plan.fed)
      CHECK(plan.blocks <= (plan.tile_n == 256 ? 1 : 2) * chip.multiprocessors, "%s", gpu::explain(plan, chip).text);
    return plan.fed;
  };
  for (int32_t function : {DXDW_Y, DXDW_DX, DXDW_DW}) {
    CHECK(!is_fed(product(function, DType::f32, 100, 200, 100), function, kH200), "too small to be fed unasked");
    const Product p = product(function, DType::f32, 500, 300, 700);
    const Product large = product(function, DType::f32, 8192, 4096, 4096);
    CHECK(is_fed(large, function, kH200) && !is_fed(large, function, kA100), "large");
    gpu::forced.fed = 1;
    CHECK(is_fed(p, function, kH200), "asked for");
    for (const int32_t tile_n : {64, 128, 256}) {
      gpu::forced.tile_n = tile_n;
      CHECK(is_fed(p, function, kH200) && gpu::plan_product(p, function, kH200).tile_n == tile_n, "%d columns", tile_n);
    }
    gpu::forced.tile_n = 0;
    CHECK(!is_fed(p, function, kA100) && !is_fed(p, function, {100, 148}), "a chip without the kernel");
    CHECK(!is_fed(product(function, DType::f32, 500, 301, 701), function, kH200), "lines that are off 16 bytes");
    Product exact = product(function, DType::bf16, 500, 300, 700);
    exact.precision = DXDW_PRECISION_EXACT;
    CHECK(!is_fed(exact, function, kH200), "16-bit operands");
    gpu::forced = {};
  }
  // TMA reads no step along an inner contraction that starts off 16 bytes.
  for (int64_t split : {1, 4, 5}) {
    Product turned = product(DXDW_DW, DType::f32, 5000, 2048, 2048, split);
    turned.a.row_stride = 5000;
    turned.a.col_stride = 1;
    CHECK(is_fed(turned, DXDW_DW, kH200) == (split != 4), "%lld slices of 5000", static_cast<long long>(split));
  }
}

// More tiles and slices than 32 bits can count must not reach the kernel that counts them so.
void test_huge() {
  Product p = product(DXDW_DW, DType::bf16, 1 << 20, 100000, 100000, 1 << 20);
  p.deterministic = false;
  CHECK(gpu::plan_product(p, DXDW_DW, kH200).kernel == gpu::kMma, "many slices");
  // Expanded operands whose packed copies no 64 bits could count.
  p = product(DXDW_DX, DType::f32, 1 << 30, 128, 1 << 30);
  p.a.row_stride = p.a.col_stride = 0;
  for (int32_t precision : {DXDW_PRECISION_TF32, DXDW_PRECISION_BF16X3}) {
    p.precision = precision;
    CHECK(gpu::plan_product(p, DXDW_DX, kH200).kernel == gpu::kSimt, "expanded");
  }
  p = product(DXDW_Y, DType::bf16, int64_t{1} << 33, 128, 128);
  CHECK(gpu::plan_product(p, DXDW_Y, kH200).kernel == gpu::kMma, "many rows");
}

void test_layout() {
  using namespace cuda::hopper;
  // Each chunk of an atom of eight lines stands once, and lines keep to their own 128 bytes.
  for (uint32_t line = 0; line < 64; ++line) {
    bool seen[8] = {};
    for (uint32_t chunk = 0; chunk < 8; ++chunk) {
      const uint32_t at = swizzled(line, chunk);
      CHECK(at / 128 == line && at % 16 == 0 && !seen[at % 128 / 16], "line %u chunk %u", line, chunk);
      seen[at % 128 / 16] = true;
    }
  }
  CHECK((descriptor(0x12340, true) & 0x3fff) == 0x1234, "address");
  CHECK(descriptor_step(true) == 2 && descriptor_step(false) == 128, "steps");
  for (int tile_n : {64, 128, 160, 256})
    for (bool keeps : {false, true})
      if (!keeps || tile_n == 128)
        CHECK(shared_bytes(tile_n, keeps) <= kMostShared && stage_bytes(tile_n, keeps) % 1024 == 0, "tile %d", tile_n);
  // A block of a cluster receives each of its groups from each other slice, in places of their own.
  for (int slices : {1, 2, 4, 8})
    for (int owner = 0; owner < slices; ++owner) {
      bool taken[kGroups * 8] = {};
      int count = 0;
      for (int slice = 0; slice < slices; ++slice)
        for (int group = 0; group < kGroups; ++group) {
          if (owner_of(slices, group) != owner || slice == owner) continue;
          const int place = place_of(slices, slice, owner, group);
          CHECK(place >= 0 && place % kGroupBytes == 0 && place + kGroupBytes <= received_bytes(slices) &&
                    !taken[place / kGroupBytes],
                "%d slices, block %d: group %d of slice %d at %d", slices, owner, group, slice, place);
          taken[place / kGroupBytes] = true;
          ++count;
        }
      CHECK(count * kGroupBytes == received_bytes(slices), "%d slices, block %d", slices, owner);
    }
}

bool same_plan(const gpu::ProductPlan &a, const gpu::ProductPlan &b, const gpu::Chip &chip) {
  return a.work.a.data == b.work.a.data && a.work.b.data == b.work.b.data && a.work.c.data == b.work.c.data &&
         a.work.add == b.work.add && a.combine == b.combine && a.split == b.split && a.blocks == b.blocks &&
         a.workspace_bytes == b.workspace_bytes && a.pack_a == b.pack_a && a.pack_b == b.pack_b &&
         strcmp(gpu::kernel_name(a), gpu::kernel_name(b)) == 0 &&
         strcmp(gpu::explain(a, chip).text, gpu::explain(b, chip).text) == 0;
}

// Guards against a call that runs by the plan of the one before it, from which it differs in one thing.
void test_remembered() {
  char *const elsewhere = reinterpret_cast<char *>((uintptr_t{1} << 21) + 2);
  const Product base = product(DXDW_DW, DType::bf16, 4096, 1000, 512, 0);
  std::initializer_list<void (*)(Product *)> changes = {
      [](Product *) {},
      [](Product *p) { p->split = 3; },
      [](Product *p) { p->split = 3, p->deterministic = false; },
      [](Product *p) { p->add = true; },
      [](Product *p) { p->precision = DXDW_PRECISION_EXACT; },
      [](Product *p) { p->batch_invariant = true; },
      [](Product *p) { p->a.row_stride = 1, p->a.col_stride = 1004; },
      [](Product *p) { p->b.row_stride = 516; },
      [](Product *p) { p->c.col_stride = 2, p->c.row_stride = 2048; },
      [](Product *p) { p->c.type = DType::bf16; },
      [](Product *p) { p->a.type = p->b.type = DType::f16; },
      [](Product *p) { p->a.rows = p->c.rows = 64; },
      [](Product *p) { p->b.cols = p->c.cols = 65; },
      [](Product *p) { p->a.cols = p->b.rows = 77; },
  };
  for (const auto &before : changes)
    for (const auto &after : changes)
      for (char *address : {base.a.data, elsewhere})
        for (const gpu::Chip &chip : {kH200, kA100})
          for (int32_t tile_n : {0, 64}) {
            Product first = base, second = base;
            before(&first);
            after(&second);
            second.a.data = second.b.data = address;
            gpu::planned_product(first, DXDW_DW, kH200);
            gpu::forced.tile_n = tile_n;
            for (int again = 0; again < 2; ++again)
              CHECK(same_plan(gpu::planned_product(second, DXDW_DW, chip), gpu::plan_product(second, DXDW_DW, chip),
                              chip),
                    "planned %s", gpu::explain(gpu::planned_product(second, DXDW_DW, chip), chip).text);
            gpu::forced.tile_n = 0;
          }
}

void test_rows() {
  for (int64_t rows : {0, 1, 15, 16, 17, 4096, 65536, 1048576})
    for (int64_t features : {1, 100, 128, 8192, 65536, 1000000}) {
      WeightedSumBackward w = {};
      w.rows.count = rows, w.features = features, w.x.type = rows % 2 == 0 ? DType::f32 : DType::bf16;
      const gpu::RowBlocks p = gpu::plan_rows(w);
      CHECK(p.blocks >= 1 && p.blocks <= 2048 && p.blocks * p.rows_per_block >= rows, "%lld x %lld", (long long)rows,
            (long long)features);
      CHECK(p.blocks == 1 || (p.blocks - 1) * p.rows_per_block < rows, "an empty block: %lld x %lld", (long long)rows,
            (long long)features);
    }
  WeightedSumBackward w = {};
  float element = 0;
  w.x.data = w.gx.data = w.gw.data = reinterpret_cast<char *>(&element);
  w.x.type = DType::bf16;
  w.rows.count = 32768, w.features = 1024;
  CHECK(gpu::writes_apart(w), "64 MiB of x");
  w.features = 1016;
  CHECK(!gpu::writes_apart(w), "rows neither long nor short");
  w.rows.count = 131072, w.features = 256;
  CHECK(gpu::writes_apart(w), "short rows, 64 MiB of x");
  w.features = 264;
  CHECK(!gpu::writes_apart(w), "more than a vector a lane");
  w.rows.count = 100, w.features = 1024;
  CHECK(!gpu::writes_apart(w), "small x");
  gpu::forced.apart = 1;
  CHECK(gpu::writes_apart(w), "forced");
  w.gw.data = nullptr;
  CHECK(!gpu::writes_apart(w), "gx alone");
  gpu::forced = {};
}

}  // namespace

int main() {
  test_layout();
  test_rows();
  test_remembered();
  test_precision();
  test_named_precision();
  test_tiles();
  test_fed();
  test_huge();
  test_split();
  test_choices();
  test_thin();
  test_clustered();
  test_same_kernel();
  test_consistency();
  printf("all passed\n");
  return 0;
}
