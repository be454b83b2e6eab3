#!/usr/bin/env bash
# An ordinary user runs tools/setup; scripts imitate apt-get, dpkg-query and sudo. What is missing must be named once,
# with ways to provide it; nothing may be tried again, and nothing installed.
#
#   without_root.sh REPOSITORY
set -euo pipefail
repository=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch"/{fake,few,cache}
cp -r "$repository/tools" "$scratch/tools"  # the repository may lie where only root can read
touch "$scratch/calls"

# apt-get and sudo note that they were called, and fail; dpkg-query knows the packages named in $installed.
for name in apt-get sudo; do
  printf '#!/bin/sh\necho "%s $*" >> "%s/calls"\nexit 1\n' "$name" "$scratch" >"$scratch/fake/$name"
done
cat >"$scratch/fake/dpkg-query" <<'FAKE'
#!/bin/bash
case " $installed " in *" ${*: -1} "*) printf installed ;; *) exit 1 ;; esac
FAKE
chmod +x "$scratch"/fake/*
cd "$scratch"  # the user may not enter the old one: compilers of Open MPI 5 complain of that
# A machine with the bare tools of a shell, and no compiler.
for name in bash sh id sed awk grep cat mktemp mkdir rm dirname head tail sort getent cut env sleep; do
  ln -s "$(command -v "$name")" "$scratch/few/$name"
done
as_user=()
if [ "$(id -u)" -eq 0 ]; then
  chown -R 65534:65534 "$scratch"
  as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi

failures=0
fail() { printf 'FAILED: %s: %s\n%s\n' "$case" "$1" "$output"; failures=$((failures + 1)); }
# setup PATH INSTALLED ARGUMENTS...: sets $status and $output.
setup() {
  : >"$scratch/calls"
  local path=$1 installed=$2
  shift 2
  status=0
  output=$("${as_user[@]}" env "PATH=$path" "installed=$installed" "HOME=$scratch" "ANNULUS_CACHE=$scratch/cache" \
    bash "$scratch/tools/setup" "$@" 2>&1 </dev/null) || status=$?
}
expect_status() { [ "$status" -eq "$1" ] || fail "status $status, expected $1"; }
expect() { grep -qF -- "$1" <<<"$output" || fail "says nothing of '$1'"; }
expect_not() { ! grep -qF -- "$1" <<<"$output" || fail "says '$1'"; }
expect_once() { [ "$(grep -cF -- "$1" <<<"$output")" = 1 ] || fail "does not say '$1' in one line"; }
expect_no_tries() {
  expect_not "trying again"
  ! grep -q apt-get "$scratch/calls" || fail "called $(cat "$scratch/calls")"
  [ "$(wc -l <"$scratch/calls")" -le 1 ] || fail "asked sudo $(wc -l <"$scratch/calls") times"
}

libraries="openmpi-bin libopenmpi-dev libhdf5-dev libyaml-cpp-dev libcli11-dev libfmt-dev nlohmann-json3-dev libopenblas-dev"
spack="spack install $(sed -n 's/^spack_specs="\(.*\)"$/\1/p' "$repository/tools/setup")"

case="no root, a bare Debian"
setup "$scratch/fake:$scratch/few" ""
expect_status 1
expect_no_tries
expect_once "apt-get update && apt-get install --no-install-recommends g++ cmake ninja-build $libraries"
for name in libopenmpi-dev libyaml-cpp-dev libopenblas-dev; do expect_once "$name"; done
for name in libgtest-dev libbenchmark-dev iproute2 python3; do expect_not "$name"; done
expect "no root, no sudo"
expect "a C++20 compiler"
expect "module load"
expect "$spack"
expect_not googletest

case="no root, no sudo command"
rm "$scratch/fake/sudo"
setup "$scratch/fake:$scratch/few" ""
expect_status 1
expect_no_tries
expect_not "command not found"

case="no root, tests"
setup "$scratch/fake:$scratch/few" "g++ cmake ninja-build $libraries" --tests
expect_status 1
expect_once "--no-install-recommends libgtest-dev libbenchmark-dev hdf5-tools doxygen iproute2 python3"
expect "$spack googletest benchmark python"

case="no root, a further package"
setup "$scratch/fake:$scratch/few" "g++ cmake ninja-build $libraries" clang-format-14
expect_status 1
expect_once "--no-install-recommends clang-format-14"

case="no apt"
setup "$scratch/few" ""
expect_status 1
expect "this machine has no apt"
expect "CMake >= 3.22"
expect "$spack"
expect_not "administrator"
expect_no_tries

# tools/setup recognizes a Kokkos that it built earlier by the names of two files.
mkdir -p "$scratch"/cache/kokkos-9/lib/cmake/{Kokkos,KokkosKernels}
touch "$scratch"/cache/kokkos-9/lib/cmake/{Kokkos/KokkosConfig,KokkosKernels/KokkosKernelsConfig}.cmake
case="all packages there"
setup "$scratch/fake:$scratch/few" "g++ cmake ninja-build $libraries"
expect_status 0
expect "packages: all there"
expect_no_tries

case="no root, but the libraries come from elsewhere"
setup "$scratch/fake:$PATH" "g++"
expect_status 0
expect "come from this machine"
expect_not "administrator"
expect_no_tries

case="no root, and a library is nowhere"
sed -i 's/^\( *\)annulus_find(CLI11 /\1annulus_find(CLI11_that_is_not_there /' "$scratch/tools/cmake/AnnulusLibraries.cmake"
setup "$scratch/fake:$PATH" "g++"
expect_status 1
expect "    CLI11_that_is_not_there"
expect_not "a C++20 compiler"
expect_not "    fmt"

case="documentation"
output="the Spack line of docs/clusters.md"
grep -qF "$spack" "$repository/docs/clusters.md" || fail "is not the one of tools/setup: $spack"

[ -z "$(ls -d "$scratch"/cache/work.* 2>/dev/null)" ] || { case=scratch output=; fail "left a work folder in the cache"; }
exit $((failures > 0))
