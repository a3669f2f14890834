#!/bin/sh
# Objects of one SIMD level hold no instructions of a higher one, and no function that the linker could pick in place of
# the same function of a lower level. Guards against "illegal instruction" on machines older than the build machine.
#
#   levels.sh [--shared] baseline|avx2|avx512|avx512bf16|neon|neonbf16 object...
#
# --shared: functions that the linker may pick from any of these objects are fine, for all are compiled alike.
# NM and OBJDUMP: the target's tools, where they are not called so.
set -eu
nm=${NM:-nm}
objdump=${OBJDUMP:-objdump}
shared_is_fine=no
if [ "$1" = --shared ]; then
  shared_is_fine=yes
  shift
fi
level=$1
shift
export LC_ALL=C
failed=0
# On Arm the mnemonic follows the colon behind the address: the target of a branch may look like one, as bfc0 does.
case $level in
  baseline) forbidden='%[yz]mm|%xmm(1[6-9]|2[0-9]|3[01])|%k[0-7]|[[:space:]]v[a-z0-9]+[[:space:]].*%xmm' ;;
  avx2) forbidden='%zmm|%[xy]mm(1[6-9]|2[0-9]|3[01])|%k[0-7]' ;;
  neon) forbidden=':[[:space:]](bf[dmc][a-z0-9]*|[su]dot|ld(add|set|clr|eor)[a-z]*|cas[a-z]*|swp[a-z]*|sqrdml[as]h)[[:space:]]' ;;
  avx512 | avx512bf16 | neonbf16) forbidden='' ;;
  *) echo "unknown level $level" >&2; exit 2 ;;
esac
for object in "$@"; do
  if [ -n "$forbidden" ] && "$objdump" -d --no-show-raw-insn "$object" | grep -E -m 3 "$forbidden"; then
    echo "$object: instructions above $level" >&2
    failed=1
  fi
  shared=$("$nm" -C --defined-only "$object" | awk '$2 ~ /^[VWu]$/')
  if [ "$level" != baseline ] && [ $shared_is_fine = no ] && [ -n "$shared" ]; then
    echo "$object: functions that the linker may give to other levels:" "$shared" >&2
    failed=1
  fi
done
exit $failed
