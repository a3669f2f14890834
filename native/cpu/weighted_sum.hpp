// The weighted sum and its backward on the CPU: plan and run.
#pragma once

#include "backend.hpp"

namespace dxdw {
namespace cpu {

Plan plan_forward(const WeightedSum &forward);
Status run_forward(const WeightedSum &forward, const Plan &plan);

Plan plan_backward(const WeightedSumBackward &backward);
Status run_backward(const WeightedSumBackward &backward, const Plan &plan, const Context &context);

}  // namespace cpu
}  // namespace dxdw
