# Finds all libraries but Kokkos. Appends a line for each missing one to annulus_missing: "NAME: what to do". Used by
# AnnulusDependencies.cmake, and by tools/setup (library_probe) where it may not install packages.

# annulus_find(NAME HOW_TO): a package that ships CMake targets.
macro(annulus_find NAME HOW_TO)
  find_package(${NAME} CONFIG QUIET)
  if(NOT ${NAME}_FOUND)
    list(APPEND annulus_missing "${NAME}: ${HOW_TO}")
  endif()
endmacro()

# tools/setup, which does not define these options, asks for everything.
if(NOT DEFINED ANNULUS_BUILD_PROGRAM)
  set(ANNULUS_BUILD_PROGRAM ON)
  set(ANNULUS_MPI ON)
endif()

# ---- what the library needs ----
find_package(Threads REQUIRED)
annulus_find(fmt "run tools/setup, or set fmt_ROOT")
if(ANNULUS_MPI)
  set(MPI_CXX_SKIP_MPICXX TRUE)
  find_package(MPI QUIET COMPONENTS CXX)
  if(NOT MPI_CXX_FOUND)
    list(APPEND annulus_missing "MPI: run tools/setup, load a module, or set MPI_CXX_COMPILER to the mpicxx to use (or build \
the library for one process: -DANNULUS_MPI=OFF -DANNULUS_BUILD_PROGRAM=OFF)")
  endif()
endif()

# ---- what the program needs in addition ----
if(ANNULUS_BUILD_PROGRAM)
  find_package(HDF5 QUIET COMPONENTS C)  # with or without MPI: annulus does not use parallel HDF5
  if(NOT HDF5_FOUND)
    list(APPEND annulus_missing "HDF5: run tools/setup, load a module, or set HDF5_ROOT")
  endif()
  annulus_find(yaml-cpp "run tools/setup, or set yaml-cpp_ROOT")
  annulus_find(CLI11 "run tools/setup, or set CLI11_ROOT")
  annulus_find(nlohmann_json "run tools/setup, or set nlohmann_json_ROOT")
endif()
if(ANNULUS_BUILD_TESTS)
  annulus_find(GTest "run tools/setup --tests, set GTest_ROOT, or configure with -DANNULUS_BUILD_TESTS=OFF")
endif()
if(ANNULUS_BUILD_BENCHMARKS)
  annulus_find(benchmark "run tools/setup --tests, set benchmark_ROOT, or configure with -DANNULUS_BUILD_BENCHMARKS=OFF")
endif()
