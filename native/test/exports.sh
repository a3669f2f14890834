#!/bin/sh
# What the library shows and what it asks for. Guards against names that leak out of it or are missing, calls that end or
# write to the caller's process, libraries and glibc versions that a user's machine may lack, and an executable stack.
#
#   exports.sh path/to/libdxdw.so path/to/dxdw.h [path/to/libcudart_static.a]
#
# With CUDA, names that its static library asks for are not counted against ours. NM, OBJDUMP and READELF: the target's
# tools, where they are not called so.
set -eu
nm=${NM:-nm}
objdump=${OBJDUMP:-objdump}
readelf=${READELF:-readelf}
library=$1
header=$2
export LC_ALL=C
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() {
  echo "$*" >&2
  failed=1
}

# Every function of the header, and nothing else.
sed -n 's/^[a-z].*[ *]\([a-z_0-9]*\)(.*/\1/p' "$header" | sort -u >"$work/declared"
"$nm" -D --defined-only --format=posix "$library" | awk '$2 != "A" { sub(/@.*/, "", $1); print $1 }' | sort -u >"$work/exported"
[ "$(wc -l <"$work/declared")" -ge 40 ] || fail "only $(wc -l <"$work/declared") functions found in the header"
comm -23 "$work/declared" "$work/exported" | while read -r name; do echo "declared, not exported: $name"; done >"$work/problems"
comm -13 "$work/declared" "$work/exported" | while read -r name; do echo "exported, not declared: $name"; done >>"$work/problems"
for name in y_launch dx_launch dw_launch dw_reduce weighted_sum_fwd weighted_sum_bwd; do
  grep -qx "$name" "$work/exported" || echo "missing: $name" >>"$work/problems"
done
grep -v '^dxdw_' "$work/exported" | grep -vx -e y_launch -e dx_launch -e dw_launch -e dw_reduce -e weighted_sum_fwd \
  -e weighted_sum_bwd | while read -r name; do echo "neither a design name nor dxdw_: $name"; done >>"$work/problems"

# Nothing of ours may end the process, print, or touch its environment and signals.
"$nm" -D --undefined-only --format=posix "$library" | awk '{ sub(/@.*/, "", $1); print $1 }' | sort -u >"$work/undefined"
if [ $# -gt 2 ]; then
  "$nm" --undefined-only --format=posix "$3" 2>/dev/null | awk '{ print $1 }' | sort -u >"$work/cudart"
  comm -23 "$work/undefined" "$work/cudart" >"$work/ours"
else
  cp "$work/undefined" "$work/ours"
fi
for name in exit _exit _Exit quick_exit abort __assert_fail __assert raise kill printf __printf_chk puts putchar putc fputs fputc \
  fwrite fprintf __fprintf_chk vprintf vfprintf __vfprintf_chk perror psignal stdout stderr write syslog setenv putenv unsetenv \
  signal sigaction atexit __cxa_atexit system popen fork execve __cxa_throw __cxa_allocate_exception _Unwind_Resume \
  fesetround fesetenv feenableexcept mlockall setlocale; do
  grep -qx "$name" "$work/ours" && echo "asks for $name" >>"$work/problems"
done

# Needed libraries.
"$objdump" -p "$library" | awk '$1 == "NEEDED" { print $2 }' | while read -r name; do
  case $name in
    libc.so.6 | libm.so.6 | libpthread.so.0 | libdl.so.2 | librt.so.1 | ld-linux-x86-64.so.2 | ld-linux-aarch64.so.1) ;;
    *) echo "needs $name" ;;
  esac
done >>"$work/problems"
"$objdump" -p "$library" | grep -E 'RPATH|RUNPATH|TEXTREL' | while read -r line; do echo "has $line"; done >>"$work/problems" || true

# glibc symbols no newer than 2.28.
"$objdump" -T "$library" | sed -n 's/.*GLIBC_\([0-9]*\)\.\([0-9]*\).*/\1 \2/p' | sort -u | while read -r major minor; do
  if [ "$major" -gt 2 ] || [ "$minor" -gt 28 ]; then echo "needs glibc $major.$minor"; fi
done >>"$work/problems"

"$readelf" -lW "$library" | grep GNU_STACK | grep -q RWE && echo "has an executable stack" >>"$work/problems"

while read -r line; do fail "$line"; done <"$work/problems"
[ $failed = 0 ] && echo "$(wc -l <"$work/exported") names exported, $(wc -l <"$work/undefined") asked for"
exit $failed
