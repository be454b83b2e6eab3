# shellcheck shell=bash
# The parts of --full, for tools/test, which sources this file. tools/full_suite.py says what each part covers.

# rooms_of GROUP: prints the folders below tests/ of a group of rooms.
rooms_of() {
  case $1 in
    rooms) echo core pattern comm planner runfile store report verify layer ;;
    kernels) echo kernels ;;
    strategies) echo strategies library ;;
    program) echo app end_to_end ;;
  esac
}

# check_rooms NAME GROUP CMAKE-OPTIONS...: builds in build/NAME only the tests of a group of rooms, and runs them.
check_rooms() {
  local name=$1 group=$2 room targets=()
  shift 2
  for room in $(rooms_of "$group"); do targets+=("tests/$room/all"); done
  phase "$name: configure" cmake -S . -B "build/$name" -G Ninja -DANNULUS_BUILD_TESTS=ON "$@"
  phase "$name: build" cmake --build "build/$name" --parallel "$(build_jobs)" --target "${targets[@]}"
  for room in $(rooms_of "$group"); do
    # The test library_installed is left out, because it builds users' programs without sanitizers.
    phase "$name: $room" run_tests "build/$name/tests/$room" 2 -E library_installed
  done
}

# tidy_files REGEX: runs clang-tidy on the files that REGEX matches and the build in build/test compiles.
tidy_files() {
  command -v clang-tidy-16 >/dev/null || cannot "clang-tidy, without version 16"
  phase "tidy: configure" cmake -S . -B build/test -G Ninja -DCMAKE_BUILD_TYPE=Release -DANNULUS_BUILD_TESTS=ON
  phase "tidy: generated" cmake --build build/test --target annulus_version
  phase tidy ./tools/tidy --all "$1"
}

# build_release TARGET: builds TARGET in build/test, and leaves other options of that build as they are.
build_release() {
  phase "test: configure" cmake -S . -B build/test -G Ninja -DCMAKE_BUILD_TYPE=Release -DANNULUS_BUILD_TESTS=ON
  phase "test: build" cmake --build build/test --target "$1" --parallel "$(build_jobs)"
}

cannot() { echo "not tried here: $1"; exit 3; }  # for status 3 run_parts records no result
is_root() { [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; }

# run_part NAME: runs a part; if a phase fails, ends this script with a status other than 0.
run_part() {
  case $1 in
    soak)
      build_release all
      ANNULUS_SOAK_SECONDS=120 phase soak run_tests build/test 1 -L soak ;;
    tidy-rooms) tidy_files '^src/annulus/(?!kernels|strategies)' ;;
    tidy-kernels) tidy_files '^src/annulus/(kernels|strategies)' ;;
    tidy-tests) tidy_files '^tests/(?!strategies)' ;;
    tidy-strategies) tidy_files '^tests/strategies' ;;
    without-mpi)
      build_release annulus  # tools/python/test needs the program
      phase "without mpi" test_without_mpi ;;
    # One rank is late whenever it opens a file, so that tests fail if ranks do not wait for each other where they must.
    slow-ranks)
      build_release all
      for rank in 1 0; do
        SLOW_CALL=open SLOW_NUMBER=all SLOW_SECONDS=0.02 SLOW_RANK=$rank \
          LD_PRELOAD=$PWD/build/test/tests/end_to_end/libslow_calls.so \
          phase "slow rank $rank" run_tests build/test 6 -R '^(app|report|store)_'
      done ;;
    faults)
      is_root || cannot "faults, without apt or root"
      build_release all
      phase "faults: setup" setup_faults
      phase faults test_faults ;;  # all faults; the ctest of this name makes only those that take seconds
    mutations) phase mutations test_mutations ;;  # the ctest mutations_apply only checks that they fit the source
    peers)
      for tables in "" --field --training; do phase "peers $tables" ./tools/peers/run --quick ${tables:+"$tables"}; done ;;
    caches)
      { [ -c /dev/fuse ] && is_root; } || cannot "two caches of one file, without /dev/fuse, apt or root"
      phase "caches: setup" ./tools/setup libfuse3-dev fuse3
      phase caches test_shared_caches ;;
    memcheck)
      command -v valgrind >/dev/null || phase "memcheck: setup" ./tools/setup valgrind
      build_release annulus
      mpi_for_one_machine
      phase memcheck tests/memcheck/run.sh build/test/annulus "$(cmake_cache_entry build/test MPIEXEC_EXECUTABLE)" ;;
    tsan)
      # The sanitizer does not know libgomp. Clang's OpenMP reports to it, by libarcher, which thread waits for which.
      phase "tsan: setup" ./tools/setup clang-16 libclang-rt-16-dev libomp-16-dev
      phase "tsan: configure" cmake -S . -B build/tsan -G Ninja -DANNULUS_BUILD_TESTS=ON -DCMAKE_BUILD_TYPE=Debug \
        -DCMAKE_C_COMPILER=clang-16 -DCMAKE_CXX_COMPILER=clang++-16 "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g -fsanitize=thread"
      phase "tsan: build" cmake --build build/tsan --target tests/core/all tests/comm/all --parallel "$(build_jobs)"
      export TSAN_OPTIONS="ignore_noninstrumented_modules=1 halt_on_error=1 allocator_may_return_null=1"
      phase "tsan: core" run_tests build/tsan/tests/core 2
      phase "tsan: comm" run_tests build/tsan/tests/comm 1 -E '\.np[3-8]' ;;
    debug-*) check_rooms debug "${1#debug-}" --preset debug -DANNULUS_WERROR=ON ;;
    # This build inlines nothing. The kernels' tests would take hours in it, so only asan-kernels has them.
    asan-O0)
      check_build asan-O0 2 --preset asan-O0 -- \
        -R '^core|^(app|report|runfile|store|pattern|planner|verify)_|^program_(bench|files|numbers|runs)' ;;
    asan-*) check_rooms asan "${1#asan-}" --preset asan -DANNULUS_WERROR=ON ;;
    # Tests the library for one process with NEON's vectors. The emulated processor is some twenty times as slow as a
    # real one, so kernels for GPUs are left out. Tests with several threads are left out because the emulator orders
    # stores as x86 does, and a test of ulimit -v because the emulator does not have it.
    aarch64)
      { [ "$(uname -m)" != aarch64 ] && command -v apt-get >/dev/null; } || cannot "an emulated Arm, on Arm or without apt"
      phase "aarch64: setup" ./tools/setup --aarch64
      GTEST_FILTER='-MemoryBound.OfThisVeryProcess' \
        check_build aarch64 2 -DCMAKE_BUILD_TYPE=Release -DCMAKE_TOOLCHAIN_FILE=tools/cmake/aarch64.cmake \
        -DANNULUS_BUILD_PROGRAM=OFF -DANNULUS_MPI=OFF -- -E 'kernels_(device|cuda)|_threads' ;;
    # Tests with another MPI than the default one. MPICH spins while it waits, so there are two ranks at most, one per
    # core. One-sided messages of Debian's MPICH lose rows, so `onesided` is refused there (comm/window.cpp) and not
    # tested.
    mpich)
      export GTEST_FILTER='-Auto.LeavesOutWindows*:Limits.OfSharedMemory*'
      phase "mpich: setup" ./tools/setup mpich libmpich-dev
      check_build mpich 1 -DCMAKE_BUILD_TYPE=Release -DMPI_C_COMPILER=mpicc.mpich -DMPI_CXX_COMPILER=mpicxx.mpich \
        -DMPIEXEC_EXECUTABLE="$(command -v mpiexec.mpich)" -- -LE 'style|window' -E '\.np[3-8]'
      command -v slurmctld >/dev/null || return 0
      phase "mpich: slurm" test_slurm build/mpich test_scripts.Scripts.test_cpu test_interruptions.Warned ;;
    *) echo "tools/test: there is no part $1; ./tools/test --full --list names them" >&2; exit 2 ;;
  esac
}

# run_parts NAME...: runs each part in its own process, also after a part that fails; results go to docs/full-suite.md.
run_parts() {
  local part start status failed=()
  for part in "$@"; do
    start=$SECONDS status=0
    printf '\n==== part %s\n' "$part"
    ./tools/test --part "$part" || status=$?
    case $status in
      2 | 3) ;;
      *) python3 -B tools/full_suite.py record "$part" $((SECONDS - start)) "$status" || echo "not written down: $part" ;;
    esac
    case $status in 0 | 3) ;; *) failed+=("$part") ;; esac
  done
  [ ${#failed[@]} -eq 0 ] || { printf '\n== FAILED parts: %s\n' "${failed[*]}" >&2; exit 1; }
  printf '\n== parts that passed, or cannot be tried here: %s\n' "${*:-none was asked for}"
}
