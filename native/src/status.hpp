// Status of an operation inside the library, and the message that goes with a failure.
#pragma once

#include <stdint.h>

#include "dxdw.h"

namespace dxdw {

using Status = int32_t;

// Stores the message for the calling thread and returns `status`.
__attribute__((format(printf, 2, 3))) Status fail(Status status, const char *format, ...);

const char *last_error();

}  // namespace dxdw

// Leaves the enclosing function with the status of `expression` unless it is DXDW_OK.
#define DXDW_TRY(expression)                            \
  do {                                                  \
    const ::dxdw::Status status_of_try = (expression);  \
    if (status_of_try != DXDW_OK) return status_of_try; \
  } while (0)
