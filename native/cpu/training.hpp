// What stands around products on the CPU: activations, sums, losses, norms, optimizer steps. Plans depend on shapes
// and types alone.
#pragma once

#include "backend.hpp"

namespace dxdw {
namespace cpu {

// y = f(a, b), element by element.
Plan plan_elementwise(const Elementwise &e);
Status run_elementwise(const Elementwise &e, int32_t function, const Plan &plan);

// One pass over p, g, the state and the copy.
Plan plan_step(const OptimizerStep &step);
Status run_step(const OptimizerStep &step, int32_t function, const Plan &plan);

Plan plan_squared_norm(const SquaredNorm &norm);
Status run_squared_norm(const SquaredNorm &norm, const Plan &plan);

Status run_clip_factor(const ClipFactor &clip);

// Softmax cross entropy and squared error, forward and backward.
Plan plan_row_loss(const RowLoss &loss);
Status run_row_loss(const RowLoss &loss, int32_t function, const Plan &plan);

// dW and db in one go where dW allows it.
Plan plan_product_bias(const ProductBias &p);
void explain_product_bias(const ProductBias &p, const Plan &plan, dxdw_plan *out);
Status run_product_bias(const ProductBias &p, const Plan &plan, const Context &context);

}  // namespace cpu
}  // namespace dxdw
