# Sourced by the scripts beside it: what more than one of them needs.

# annulus_cache: the folder for what tools/setup builds. HOME may be unset (CI, containers): then the account's own home.
# tools/cmake/AnnulusDependencies.cmake looks in the same place.
annulus_cache() {
  local home=${HOME:-$(getent passwd "$(id -u)" 2>/dev/null | cut -d: -f6)}
  echo "${ANNULUS_CACHE:-${XDG_CACHE_HOME:-${home:-/tmp}/.cache}/annulus}"
}
