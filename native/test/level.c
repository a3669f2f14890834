// Which SIMD level the library chooses, as a test of its own for processors that lack the better ones.
//
//   dxdw_test_level LEVEL      succeeds when the library chose that one and multiplies with it
#include <stdio.h>
#include <string.h>

#include "dxdw.h"

static dxdw_tensor matrix(float *data, int64_t *shape) {
  dxdw_tensor tensor = {0};
  tensor.data = data;
  tensor.device_type = DXDW_CPU;
  tensor.ndim = 2;
  tensor.dtype_code = DXDW_FLOAT;
  tensor.dtype_bits = 32;
  tensor.dtype_lanes = 1;
  tensor.shape = shape;
  return tensor;
}

int main(int argc, char **argv) {
  int64_t shape[2] = {2, 2};
  float x[4] = {1, 2, 3, 4}, y[4] = {0};
  const dxdw_tensor operand = matrix(x, shape), result = matrix(y, shape);
  if (argc != 2 || strcmp(dxdw_simd_level(), argv[1]) != 0) {
    fprintf(stderr, "level %s, expected %s\n", dxdw_simd_level(), argc == 2 ? argv[1] : "one argument");
    return 1;
  }
  if (y_launch(&operand, &operand, &result, NULL) != DXDW_OK || y[3] != 22) {
    fprintf(stderr, "y[1, 1] = %g, expected 22: %s\n", y[3], dxdw_last_error());
    return 1;
  }
  return 0;
}
