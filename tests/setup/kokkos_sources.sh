#!/usr/bin/env bash
# Tests from where tools/setup takes the sources of Kokkos, and how it builds them. apt-get, apt-cache, dpkg-query and
# cmake are scripts that imitate these commands; mirrors have lost archives.
#
#   kokkos_sources.sh REPOSITORY
set -euo pipefail
repository=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch"/{fake,trilinos/packages/kokkos,trilinos/packages/kokkos-kernels}
cp -r "$repository/tools" "$scratch/tools"
export scratch

# ---- the original archive: as in Kokkos 3.4, the sources use uint32_t without the header that declares it ----
for part in kokkos kokkos-kernels; do
  echo 'std::uint32_t flags = 0;' >"$scratch/trilinos/packages/$part/flags.cpp"
done
printf 'set(Kokkos_VERSION_%s)\n' "MAJOR 3" "MINOR 4" "PATCH 01" >"$scratch/trilinos/packages/kokkos/CMakeLists.txt"
tar -czf "$scratch/trilinos.orig.tar.gz" -C "$scratch" trilinos

# ---- imitated commands. $scratch/mirror has a line SUITE VERSION there|lost for each version that is listed ----
cat >"$scratch/fake/apt-get" <<'FAKE'
#!/bin/bash
for word in "$@"; do
  case $word in
    Dir::Etc::sourceparts=*) parts=${word#*=} ;;
    Dir::State::Lists=*) lists=${word#*=} ;;
    update | source) verb=$word ;;
    trilinos=*) version=${word#*=} ;;
  esac
done
case $verb in
  update)
    cat "$parts"/* >>"$scratch/parts_seen"
    grep -hv '^#' "$parts"/* | tr ' ' '\n' | sort -u | join - <(sort "$scratch/mirror") >"$lists/listed"
    [ ! -e "$scratch/unreadable" ] ;;
  source)
    echo "$version" >>"$scratch/tried"
    grep -q " $version there$" "$lists/listed" &&
      cp "$scratch/trilinos.orig.tar.gz" "trilinos_${version%-*}.orig.tar.gz" ;;
esac
FAKE
cat >"$scratch/fake/apt-cache" <<'FAKE'
#!/bin/bash
for word in "$@"; do case $word in Dir::State::Lists=*) lists=${word#*=} ;; esac; done
while read -r _ version _; do printf 'Package: trilinos\nVersion: %s\n\n' "$version"; done <"$lists/listed"
FAKE
cat >"$scratch/fake/cmake" <<'FAKE'
#!/bin/bash
flags= prefix=
for word in "$@"; do
  case $word in
    -DCMAKE_CXX_FLAGS=*) flags=${word#*=} ;;
    -DCMAKE_INSTALL_PREFIX=*) prefix=${word#*=} ;;
  esac
done
case "$1 $2" in
  "-S "*/kokkos_probe) mkdir -p "$4" && echo "no Kokkos found" >"$4/verdict.txt" ;;
  "-S "*) mkdir -p "$4" && echo "$prefix" >"$4/prefix" && c++ -std=c++17 $flags -fsyntax-only "$2"/flags.cpp ;;
  "--install "*)
    name=Kokkos
    case $2 in *kernels) name=KokkosKernels ;; esac
    folder=$DESTDIR$(cat "$2/prefix")/lib/cmake/$name
    mkdir -p "$folder" && touch "$folder/${name}Config.cmake" ;;
esac
FAKE
printf '#!/bin/sh\nprintf installed\n' >"$scratch/fake/dpkg-query"
printf '#!/bin/sh\necho "$1" >>"$scratch/slept"\n' >"$scratch/fake/sleep"
chmod +x "$scratch"/fake/*

failures=0
fail() { printf 'FAILED: %s: %s\n%s\n' "$case" "$1" "$output"; failures=$((failures + 1)); }
expect() { grep -qF -- "$1" <<<"$output" || fail "says nothing of '$1'"; }
expect_not() { ! grep -qF -- "$1" <<<"$output" || fail "says '$1'"; }
expect_tried() {
  local tried
  tried=$(paste -sd' ' "$scratch/tried")
  [ "$tried" = "$1" ] || fail "tried $tried, expected $1"
}
expect_built() {
  [ "$status" -eq 0 ] || fail "status $status, expected 0"
  [ -e "$scratch/cache/kokkos-3.4.01/lib/cmake/KokkosKernels/KokkosKernelsConfig.cmake" ] || fail "built no Kokkos"
}
# machine ID CODENAME: a fresh machine whose apt has sources of that distribution, in both formats, and of a vendor.
machine() {
  local id=$1 codename=$2
  rm -rf "$scratch/etc" "$scratch/cache" "$scratch/unreadable" "$scratch/tried" "$scratch/slept" "$scratch/parts_seen"
  mkdir -p "$scratch/etc/apt/sources.list.d"
  printf 'ID=%s\nVERSION_CODENAME=%s\n' "$id" "$codename" >"$scratch/etc/os-release"
  printf 'Types: deb\nURIs: http://mirror/%s\nSuites: %s %s-updates\nComponents: main\n' "$id" "$codename" "$codename" \
    >"$scratch/etc/apt/sources.list.d/own.sources"
  printf 'deb [arch=amd64] http://mirror/%s %s-security main\n' "$id" "$codename" >"$scratch/etc/apt/sources.list"
  printf 'deb http://vendor/%s %s-tools main\n' "$id" "$codename" >"$scratch/etc/apt/sources.list.d/vendor.list"
  sed -i "s|^etc=/etc |etc=$scratch/etc |" "$scratch"/tools/sources.sh
}
# setup_with_mirror LINE...: runs tools/setup with these lines in $scratch/mirror; sets $status and $output.
setup_with_mirror() {
  printf '%s\n' "$@" >"$scratch/mirror"
  touch "$scratch/tried"
  status=0
  output=$(PATH="$scratch/fake:$PATH" HOME=$scratch ANNULUS_CACHE=$scratch/cache bash "$scratch/tools/setup" \
    2>&1 </dev/null) || status=$?
}

case="all is there"
machine debian trixie
setup_with_mirror "trixie 13.2.0-9 there" "trixie-updates 13.2.0-10 there" "bookworm 13.2.0-4 there"
expect_built
expect_tried "13.2.0-10"
expect "took trilinos 13.2.0-10 of trixie"
expect_not "could not"

case="the sources that apt was given"
output=$(cat "$scratch/parts_seen")
expect "Suites: trixie trixie-updates"
expect "Types: deb-src"
expect "deb-src [arch=amd64] http://mirror/debian trixie-security main"
expect_not "vendor"
expect_not "bookworm"

case="the newest is lost"
machine debian trixie
setup_with_mirror "trixie 13.2.0-4 there" "trixie 13.2.0-6 lost"
expect_built
expect_tried "13.2.0-6 13.2.0-4"
expect "trixie: trilinos 13.2.0-6 is listed, but its archive could not be downloaded"
expect "took trilinos 13.2.0-4 of trixie"

case="the release has lost its archive"
machine debian trixie
setup_with_mirror "trixie 13.2.0-6 lost" "bookworm 13.2.0-4 there"
expect_built
expect_tried "13.2.0-6 13.2.0-4"
expect "trixie: trilinos 13.2.0-6 is listed, but its archive could not be downloaded"
expect "took trilinos 13.2.0-4 of bookworm"
[ ! -e "$scratch/slept" ] || fail "waited before it tried the other release"
output=$(cat "$scratch/parts_seen")
expect "Suites: bookworm bookworm-updates"
expect "deb-src [arch=amd64] http://mirror/debian bookworm-security main"
[ -z "$(grep -rl bookworm "$scratch/etc")" ] || fail "changed the machine's own sources"

case="an older release than the others"
machine debian bookworm
setup_with_mirror "bookworm 13.2.0-4 lost" "trixie 13.2.0-6 there"
expect_built
expect "took trilinos 13.2.0-6 of trixie"

case="a release that does not list the package"
machine debian forky
setup_with_mirror "trixie 13.2.0-6 lost" "bookworm 13.2.0-4 there"
expect_built
expect "forky: no source package trilinos is listed"
expect "took trilinos 13.2.0-4 of bookworm"

case="Ubuntu"
machine ubuntu noble
setup_with_mirror "noble 13.2.0-5 lost" "jammy 13.2.0-1 there" "bookworm 13.2.0-4 there"
expect_built
expect_tried "13.2.0-5 13.2.0-1"
expect "took trilinos 13.2.0-1 of jammy"

case="a machine that calls its release stable"
machine debian bookworm
sed -i 's/^Suites:.*/Suites: stable/' "$scratch/etc/apt/sources.list.d/own.sources"
setup_with_mirror "stable 13.2.0-6 lost" "trixie 13.2.0-7 there"
expect_built
expect "took trilinos 13.2.0-7 of trixie"

case="lists that cannot be read in part"
machine debian bookworm
touch "$scratch/unreadable"
setup_with_mirror "bookworm 13.2.0-4 there"
expect_built
expect "some package lists of bookworm could not be read"

case="nothing is there"
machine debian trixie
setup_with_mirror "trixie 13.2.0-6 lost" "bookworm 13.2.0-4 lost"
[ "$status" -eq 1 ] || fail "status $status, expected 1"
expect_tried "13.2.0-6 13.2.0-4 13.2.0-6 13.2.0-4 13.2.0-6 13.2.0-4"
expect "trixie: trilinos 13.2.0-6 is listed, but"
expect "bookworm: trilinos 13.2.0-4 is listed, but"
expect "error: no original archive of trilinos could be downloaded"
expect "export Kokkos_ROOT="
[ -z "$(ls -d "$scratch"/cache/work.* 2>/dev/null)" ] || fail "left a work folder in the cache"

exit $((failures > 0))
