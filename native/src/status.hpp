// Status of an operation inside the library, and the message that goes with a failure.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "dxdw.h"

namespace dxdw {

using Status = int32_t;

// Stores the message for the calling thread and returns `status`.
__attribute__((format(printf, 2, 3))) Status fail(Status status, const char *format, ...);

const char *last_error();

// Writes text as snprintf does, but numbers with a point whatever the locale of the process is: a JVM sets the user's.
__attribute__((format(printf, 3, 4))) void write_text(char *to, size_t size, const char *format, ...);

}  // namespace dxdw

// Leaves the enclosing function with the status of `expression` unless it is DXDW_OK.
#define DXDW_TRY(expression)                            \
  do {                                                  \
    const ::dxdw::Status status_of_try = (expression);  \
    if (status_of_try != DXDW_OK) return status_of_try; \
  } while (0)
