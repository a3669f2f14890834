#include "status.hpp"

#include <stdarg.h>
#include <stdio.h>

namespace dxdw {

static thread_local char message[1024];

Status fail(Status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  return status;
}

const char *last_error() { return message; }

}  // namespace dxdw
