/*
 * Guards against a header that only a C++ compiler, or only one with other headers before it, accepts, and against a
 * structure whose layout drifts away from DLPack's DLTensor: bindings and DLPack producers would pass shifted fields.
 */
#include "dxdw.h"

#define AT(type, field, bytes) _Static_assert(__builtin_offsetof(type, field) == (bytes), #type "." #field " moved")

_Static_assert(sizeof(void *) == 8, "the layout below is that of a 64-bit machine");

_Static_assert(sizeof(dxdw_tensor) == 48, "DLTensor has 48 bytes");
AT(dxdw_tensor, data, 0);
AT(dxdw_tensor, device_type, 8);
AT(dxdw_tensor, device_id, 12);
AT(dxdw_tensor, ndim, 16);
AT(dxdw_tensor, dtype_code, 20);
AT(dxdw_tensor, dtype_bits, 21);
AT(dxdw_tensor, dtype_lanes, 22);
AT(dxdw_tensor, shape, 24);
AT(dxdw_tensor, strides, 32);
AT(dxdw_tensor, byte_offset, 40);

_Static_assert(sizeof(dxdw_options) == 104, "dxdw_options is part of the ABI");
AT(dxdw_options, size, 0);
AT(dxdw_options, accumulate, 4);
AT(dxdw_options, precision, 8);
AT(dxdw_options, flags, 12);
AT(dxdw_options, stream, 16);
AT(dxdw_options, workspace, 24);
AT(dxdw_options, workspace_bytes, 32);

_Static_assert(sizeof(dxdw_plan) == 384, "dxdw_plan is part of the ABI");
AT(dxdw_plan, split, 4);
AT(dxdw_plan, threads, 8);
AT(dxdw_plan, tiles, 16);
AT(dxdw_plan, workspace_bytes, 24);
AT(dxdw_plan, kernel, 32);
AT(dxdw_plan, level, 96);
AT(dxdw_plan, why, 128);

_Static_assert(sizeof(dxdw_device_info) == 160, "dxdw_device_info is part of the ABI");
AT(dxdw_device_info, total_bytes, 16);
AT(dxdw_device_info, free_bytes, 24);
AT(dxdw_device_info, name, 32);

_Static_assert(DXDW_CPU == 1 && DXDW_CUDA == 2, "DLPack's device types");
_Static_assert(DXDW_FLOAT == 2 && DXDW_BFLOAT == 4, "DLPack's type codes");

int main(void) { return dxdw_abi_version() == DXDW_ABI_VERSION ? 0 : 1; }
