/*
 * A driver that is too old is no failure: the CPU works, and the reason why CUDA devices can't be used names both
 * versions. Runs with old_driver.c in the driver's place. Guards against "not found", or one version alone.
 */
#include <stdio.h>
#include <string.h>

#include "dxdw.h"

int main(void) {
  const char *const expected = "the NVIDIA driver is too old: it supports CUDA 11.4, this library needs ";
  const char *const reason = dxdw_device_unavailable(DXDW_CUDA, 0);
  if (dxdw_device_count(DXDW_CUDA) != 0 || strncmp(reason, expected, strlen(expected)) != 0 ||
      reason[strlen(expected)] < '1' || reason[strlen(expected)] > '9') {
    fprintf(stderr, "%d CUDA devices, unavailable: \"%s\", expected none and \"%s...\"\n", dxdw_device_count(DXDW_CUDA),
            reason, expected);
    return 1;
  }
  float one = 1, w = 2, y = 0;
  int64_t shape[] = {1, 1};
  const dxdw_tensor tensors[] = {{&one, DXDW_CPU, 0, 2, DXDW_FLOAT, 32, 1, shape, NULL, 0},
                                 {&w, DXDW_CPU, 0, 2, DXDW_FLOAT, 32, 1, shape, NULL, 0},
                                 {&y, DXDW_CPU, 0, 2, DXDW_FLOAT, 32, 1, shape, NULL, 0}};
  if (y_launch(&tensors[0], &tensors[1], &tensors[2], NULL) != DXDW_OK || y != 2) {
    fprintf(stderr, "y on the CPU: %g, %s\n", (double)y, dxdw_last_error());
    return 1;
  }
  return 0;
}
