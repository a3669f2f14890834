// The weighted sum and its backward on the CPU: plan and run.
#pragma once

#include "backend.hpp"

namespace dxdw {
namespace cpu {

Plan plan_forward(const WeightedSum &forward);
Status run_forward(const WeightedSum &forward, const Plan &plan);

Plan plan_backward(const WeightedSumBackward &backward);
Status run_backward(const WeightedSumBackward &backward, const Plan &plan, const Context &context);

// Its second stage: partial sums, one for each of the plan's tiles, into gw.
void finish_backward(const WeightedSumBackward &backward, const float *partials, int32_t threads);
// Rows that a partial sum holds.
int64_t rows_per_block(const WeightedSumBackward &backward);

}  // namespace cpu
}  // namespace dxdw
