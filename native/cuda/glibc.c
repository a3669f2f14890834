/*
 * cudart's static library and this one are linked on a host whose C library may be newer than the oldest that the
 * library promises to run on (2.28). Functions that moved into libc.so.6 with 2.34 would bind to that version; the
 * linker's --wrap sends each of them here, and from here to the version that every x86-64 C library has. The libraries
 * that held them before 2.34 are named on the link line.
 *
 * FORWARD(name, version) is used by glibc_functions.h, which CMake reads too, for --wrap.
 */
#define FORWARD(name, version)                        \
  __asm__(".symver old_" #name ", " #name "@" version \
          "\n"                                        \
          ".globl __wrap_" #name                      \
          "\n"                                        \
          ".hidden __wrap_" #name                     \
          "\n"                                        \
          ".type __wrap_" #name                       \
          ", @function\n"                             \
          "__wrap_" #name                             \
          ":\n"                                       \
          "  jmp *old_" #name                         \
          "@GOTPCREL(%rip)\n"                         \
          ".size __wrap_" #name ", . - __wrap_" #name "\n");

__asm__(".text\n");
#include "glibc_functions.h"
