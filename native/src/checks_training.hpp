// What the functions around a product ask of their operands: activations, sums, losses, norms, optimizer steps.
#pragma once

#include "operands.hpp"

namespace dxdw {

Status check_elementwise(const Asked &asked, Operand *operands, Call *call);
Status check_sum_rows(const Asked &asked, Operand *operands, Call *call);
Status check_product_bias(const Asked &asked, Operand *operands, Call *call);
Status check_row_loss(const Asked &asked, Operand *operands, Call *call);
Status check_squared_norm(const Asked &asked, Operand *operands, Call *call);
Status check_clip_factor(const Asked &asked, Operand *operands, Call *call);
Status check_sgd(const Asked &asked, Operand *operands, Call *call);
Status check_adamw(const Asked &asked, Operand *operands, Call *call);

}  // namespace dxdw
