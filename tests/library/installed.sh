#!/usr/bin/env bash
# Builds and runs the examples with an installed copy of annulus, which must not need the build folder.
#
#   installed.sh BUILD EXAMPLES MPIEXEC [FLAG...]
set -euo pipefail
build=$1 examples=$2
shift 2
scratch=$(mktemp -d "${TMPDIR:-/tmp}/annulus-XXXXXX")
trap 'rm -rf "$scratch"' EXIT

# If only a part is built, as by tools/quickstart, nothing is installed, and a message says what to do.
sed "s|$build/libannulus|$scratch/not_built/libannulus|g" "$build/cmake_install.cmake" >"$scratch/early.cmake"
if cmake "-DCMAKE_INSTALL_PREFIX=$scratch/early" -P "$scratch/early.cmake" >"$scratch/early.log" 2>&1; then
  echo "a part was installed as if it were the whole" >&2
  exit 1
fi
tr -s '\n ' ' ' <"$scratch/early.log" >"$scratch/early.words"  # CMake wraps lines
grep -qF "is not built yet, nothing was installed. Build all first: cmake --build $build" "$scratch/early.words" ||
  { cat "$scratch/early.log" >&2; exit 1; }
[ ! -e "$scratch/early" ] || { echo "installed although a part is missing: $(ls "$scratch/early")" >&2; exit 1; }

# Packagers first install into a staging folder; a user then moves all of it.
DESTDIR=$scratch/stage cmake --install "$build" --prefix /opt/annulus >"$scratch/install.log"
mv "$scratch/stage/opt/annulus" "$scratch/moved"
if grep -rlF "$build" "$scratch/moved/lib/cmake" "$scratch/moved/include"; then
  echo "these name the build folder" >&2
  exit 1
fi
"$scratch/moved/bin/annulus" list >/dev/null
if grep -q '^ANNULUS_HELP2MAN:FILEPATH=/' "$build/CMakeCache.txt"; then
  grep -q '^\.TH ANNULUS' "$scratch/moved/share/man/man1/annulus.1"
fi

cmake -S "$examples" -B "$scratch/build" -DCMAKE_PREFIX_PATH="$scratch/moved" -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror"
cmake --build "$scratch/build" --parallel 2
"$scratch/build/dilated_gradients" 300
for ranks in 1 2 3; do
  "$@" -n $ranks "$scratch/build/dense_ring" 500 | tee "$scratch/ring.log"
  grep -q "^500 rows on $ranks ranks" "$scratch/ring.log"
done
# A version that is not installed must not be found.
sed 's/find_package(annulus 0.1/find_package(annulus 0.99/' "$examples/CMakeLists.txt" >"$scratch/CMakeLists.txt"
if cmake -S "$scratch" -B "$scratch/other" -DCMAKE_PREFIX_PATH="$scratch/moved" >"$scratch/other.log" 2>&1; then
  echo "version 0.99 was found" >&2
  exit 1
fi
grep -q 'compatible with requested version "0.99"' "$scratch/other.log"
