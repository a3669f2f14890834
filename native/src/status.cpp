#include "status.hpp"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>

namespace dxdw {

namespace {

thread_local char message[1024];

// Of the C library itself: nothing to free. Should there be none, texts are in the locale of the process.
const locale_t kPlain = newlocale(LC_ALL_MASK, "C", nullptr);

void write(char *to, size_t size, const char *format, va_list arguments) {
  const locale_t before = uselocale(kPlain);
  vsnprintf(to, size, format, arguments);
  uselocale(before);
}

}  // namespace

Status fail(Status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write(message, sizeof message, format, arguments);
  va_end(arguments);
  return status;
}

void write_text(char *to, size_t size, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write(to, size, format, arguments);
  va_end(arguments);
}

const char *last_error() { return message; }

}  // namespace dxdw
