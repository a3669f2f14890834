// C = A . B on the CPU, cut into blocks: plan and run.
#pragma once

#include "backend.hpp"
#include "kernels.hpp"

namespace dxdw {
namespace cpu {

Plan plan_product(const Product &product);
void explain_product(const Product &product, const Plan &plan, dxdw_plan *out);
Status run_product(const Product &product, const Plan &plan, const Context &context);

// The same for a product that is not split, in scratch of the caller's: how much, and the run, which can't fail.
uint64_t product_scratch_bytes(const Product &product, const Plan &plan);
void run_product_in(const Product &product, const Plan &plan, char *scratch);

// dW (+)= sum of partials in order, over threads.
void run_reduction(const Reduction &reduction, int32_t threads);

}  // namespace cpu
}  // namespace dxdw
