// The Hopper kernel for __half operands: a file of its own, because its variants take long to compile.
#include "product_hopper.cuh"

namespace dxdw {
namespace cuda {

cudaError_t product_hopper_f16(const gpu::ProductPlan &p, const TiledOperand &a, const TiledOperand &b,
                               const Target &target, cudaStream_t stream) {
  return hopper::product<__half>(p, a, b, target, stream);
}

}  // namespace cuda
}  // namespace dxdw
