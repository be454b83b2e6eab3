# Functions that several scripts of this folder need. The scripts source this file.

# annulus_cache: prints the folder for what tools/setup builds; without HOME (CI, containers) it is in the account's
# home. tools/cmake/AnnulusDependencies.cmake calls this function, too.
annulus_cache() {
  local home=${HOME:-$(getent passwd "$(id -u)" 2>/dev/null | cut -d: -f6)}
  echo "${ANNULUS_CACHE:-${XDG_CACHE_HOME:-${home:-/tmp}/.cache}/annulus}"
}

# mpi_for_one_machine: sets variables that let Open MPI run as root (containers) and with more ranks than cores. Other
# MPIs ignore them.
mpi_for_one_machine() {
  if [ "$(id -u)" -eq 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
  export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
  export OMPI_MCA_hwloc_base_binding_policy=none
  export OMPI_MCA_pml=ob1  # other values look for network cards, which takes 0.2 s a launch
  export OMPI_MCA_orte_allowed_exit_without_sync=1  # Open MPI 4.1 may fail without it on a busy machine: docs/README.md
}

# build_jobs: prints how many compilers to run: one per core, but no more than one per 2 GiB of memory.
build_jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable:/ {print int($2 / 2097152)}' /proc/meminfo)
  [ "$memory" -ge 1 ] || memory=1
  echo $((cores < memory ? cores : memory))
}

# cmake_cache_entry FOLDER NAME: prints a value that CMake found when FOLDER was configured.
cmake_cache_entry() { sed -n "s|^$2:[A-Z]*=||p" "$1/CMakeCache.txt"; }
