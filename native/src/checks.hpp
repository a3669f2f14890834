// The one place where arguments are checked: from dxdw_tensors to a Call that a kernel may trust.
#pragma once

#include "problem.hpp"
#include "status.hpp"

namespace dxdw {

// operands: as many pointers as the function has operands, in dxdw_function's order. Writes *call only on DXDW_OK.
Status check_call(int32_t function, const dxdw_tensor *const *operands, int32_t split, int32_t deterministic,
                  const dxdw_options *options, Call *call);

// The short way for Y, dX and dW without options: true, and *product is what a kernel may trust, where all is plainly right
// and on the CPU. Otherwise check_call has to look.
bool plain_product(int32_t function, const dxdw_tensor *first, const dxdw_tensor *second, const dxdw_tensor *out,
                   int32_t split, int32_t deterministic, Product *product);

Status check_copy(const dxdw_tensor *source, const dxdw_tensor *destination, const dxdw_options *options, Copy *copy,
                  Context *context);

// Second half of the checks, for a call that brings a workspace, when the plan is known: it must hold `needed` bytes,
// be aligned, and be clear of every operand.
Status check_workspace(const Call &call, const dxdw_tensor *const *operands, uint64_t needed);

// Number of operands of a dxdw_function; 0 for an unknown one.
int operand_count(int32_t function);

}  // namespace dxdw
