#!/usr/bin/env bash
# Two ranks write one file through two mounts of one folder, whose caches do not know of each other (mirror.cpp). Needs
# /dev/fuse and root.
#
#   run.sh BUILD MPIEXEC [ROUNDS]
set -euo pipefail
build=$(realpath "$1")/tests/shared_cache
launcher=$2 rounds=${3:-1000}
scratch=$(mktemp -d)
clean_up() {
  for mount in "$scratch"/mount.*; do fusermount3 -u "$mount" 2>/dev/null || true; done
  rm -rf "$scratch"
}
trap clean_up EXIT
mkdir "$scratch/backing"
for rank in 0 1; do
  mkdir "$scratch/mount.$rank"
  "$build/mirror" "$scratch/backing" "$scratch/mount.$rank"
done
# Every rank sees its own mount under one name, as two machines would.
mkdir "$scratch/here"
export scratch build rounds
timeout 3000 "$launcher" -n 1 unshare -m sh -c 'mount --bind "$scratch/mount.0" "$scratch/here" && exec "$build/rounds" "$scratch/here" "$scratch/backing" "$rounds"' \
  : -n 1 unshare -m sh -c 'mount --bind "$scratch/mount.1" "$scratch/here" && exec "$build/rounds" "$scratch/here" "$scratch/backing" "$rounds"'
