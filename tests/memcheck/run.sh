#!/usr/bin/env bash
# Runs every strategy with gradients on two ranks under Valgrind's memcheck. It finds reads of memory that was never
# written or is not allocated, in annulus and in the libraries below. AVX2, because Valgrind knows no AVX-512.
#
#   tests/memcheck/run.sh PROGRAM LAUNCHER [STRATEGY...]
set -euo pipefail
program=$(realpath "$1") launcher=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
shift 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
if [ $# -eq 0 ]; then
  mapfile -t strategies < <("$program" list | sed -n '/^strategies/,/^[^ ]/s/^  \([a-z_]*\) .*/\1/p' | grep -vx auto)
else
  strategies=("$@")
fi
[ ${#strategies[@]} -gt 0 ] || { echo "memcheck: $program lists no strategies" >&2; exit 1; }

export ANNULUS_INSTRUCTION_SET=avx2 OMP_NUM_THREADS=1 ANNULUS_STALL_TIMEOUT=3000
suppressions=("--suppressions=$here/libraries.supp")
known=/usr/share/openmpi/openmpi-valgrind.supp  # Debian's Open MPI lists its own known faults here
if [ -f "$known" ]; then suppressions+=("--suppressions=$known"); fi
"$program" generate --output in.h5 --sequence 96 --heads 2 --head-dim 8 --dout >generate.txt
failed=()
for strategy in "${strategies[@]}"; do
  cat >run.yaml <<YAML
input: {file: in.h5}
attention: {segments: [16, 48, all], dilations: [1, 2, 4]}
compute: {backward: true}
distribution: {strategy: $strategy, stall_timeout: 3000}
output: {file: out.h5, overwrite: true}
YAML
  if "$launcher" -n 2 valgrind -q --error-exitcode=9 --leak-check=no --num-callers=20 --log-file="log.%p" \
    "${suppressions[@]}" "$program" run run.yaml >out.txt 2>&1 && ! grep -q . log.*; then
    echo "memcheck: $strategy: no error"
  else
    failed+=("$strategy")
    echo "memcheck: $strategy: FAULT"
    grep '^annulus' out.txt | tail -n 5 || true
    cat log.* | head -n 60
  fi
  rm -f log.*
done
[ ${#failed[@]} -eq 0 ]
