#!/usr/bin/env bash
# A program must have all that ANNULUS_HARDENING asks for, and name no folder of this machine. A small program that is
# built without any of this must lack each point, which shows that the checks can fail.
#
#   hardened.sh PROGRAM SOURCES CXX
set -euo pipefail
program=$1 sources=$2 cxx=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

# lacks FILE: prints each point that FILE lacks, a line each. $scratch/elf has the output of readelf, text all strings.
lacks() {
  readelf -WhldsV "$1" >"$scratch/elf"
  strings -a "$1" >"$scratch/text"
  has() { grep -qE "$2" "$scratch/elf" || echo "$1"; }
  has "addresses that change (PIE)" 'FLAGS_1\).*\bPIE\b'
  has "a read-only table of functions (RELRO)" 'GNU_RELRO'
  has "all functions bound at start (BIND_NOW)" '\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*\bNOW\b'
  has "a stack without code" 'GNU_STACK +.* RW +0x'
  has "stack protectors" '__stack_chk_fail'
  has "copies that know the size of a buffer (FORTIFY)" '__mem(cpy|move|set)_chk'
  if grep -qF "$sources/" "$scratch/text"; then echo "names without $sources"; fi
}

cat >bare.cpp <<'CPP'
#include <cstdio>
int main() { std::puts(__FILE__); }
CPP
mkdir -p "$scratch$sources"
cp bare.cpp "$scratch$sources/"
"$cxx" -U_FORTIFY_SOURCE -fno-stack-protector -no-pie -Wl,-z,norelro,-z,lazy,-z,execstack \
  "-fmacro-prefix-map=$scratch=" -o bare "$scratch$sources/bare.cpp"
lacks bare >bare.txt
[ "$(wc -l <bare.txt)" -eq 7 ] || { echo "a program without any of this lacks only:"; cat bare.txt; exit 1; } >&2

missing=$(lacks "$program")
[ -z "$missing" ] || { printf '%s lacks:\n%s\n' "$program" "$missing" >&2; exit 1; }
echo "$program has all that ANNULUS_HARDENING asks for"
