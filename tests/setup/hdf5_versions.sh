#!/usr/bin/env bash
# What CMake takes for a parallel HDF5: up to HDF5 1.14 it says HDF5_IS_PARALLEL, from 2.0 on HDF5_PROVIDES_PARALLEL.
# Each is played by a FindHDF5 of our own.
#
#   hdf5_versions.sh REPOSITORY
set -euo pipefail
probe=$1/tools/cmake/library_probe
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# expect MISSING LINE...: what library_probe calls missing, "" or "HDF5 (parallel)", where HDF5 sets these variables.
expect() {
  local missing=$1 found
  shift
  { echo "set(HDF5_FOUND TRUE)"; printf 'set(%s)\n' "$@"; } >"$scratch/FindHDF5.cmake"
  rm -rf "$scratch/build"
  cmake -S "$probe" -B "$scratch/build" "-DCMAKE_MODULE_PATH=$scratch" >"$scratch/log" 2>&1 ||
    { cat "$scratch/log"; exit 1; }
  found=$(grep HDF5 "$scratch/build/missing.txt" || true)
  [ "$found" = "$missing" ] || { echo "FAILED: $*: missing is '$found', expected '$missing'"; exit 1; }
}
expect "" "HDF5_IS_PARALLEL TRUE"
expect "" "HDF5_PROVIDES_PARALLEL TRUE"
expect "" "HDF5_PROVIDES_PARALLEL ON" "HDF5_IS_PARALLEL FALSE"
expect "HDF5 (parallel)" "HDF5_PROVIDES_PARALLEL OFF"
expect "HDF5 (parallel)" "HDF5_IS_PARALLEL FALSE"
