// The constants of optimizer steps. Free of functions: the SIMD kernels include it.
#pragma once

namespace dxdw {

// What the steps compute with: float32 values of what the caller gave in float64.
struct SgdNumbers {
  float lr, momentum, decay;
  bool nesterov;
};
struct AdamWNumbers {
  float keep;          // 1 - lr . weight decay
  float beta1, rest1;  // rest = 1 - beta
  float beta2, rest2;
  float step;          // lr / (1 - beta1^t)
  float inverse_root;  // 1 / sqrt(1 - beta2^t)
  float eps;
};

}  // namespace dxdw
