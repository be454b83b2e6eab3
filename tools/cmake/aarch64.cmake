# CMake's toolchain file to build for 64-bit Arm on another machine: Debian's cross compiler, and qemu to run the
# programs that it makes. tools/setup --aarch64 installs both, and puts the libraries into its cache.
#
#   cmake -S . -B build/aarch64 -G Ninja -DCMAKE_TOOLCHAIN_FILE=tools/cmake/aarch64.cmake -DANNULUS_BUILD_PROGRAM=OFF
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)

# Libraries and headers of this machine cannot be used, so CMake looks for Arm's only.
execute_process(COMMAND bash -c ". '${CMAKE_CURRENT_LIST_DIR}/../lib.sh' && annulus_cache"
                OUTPUT_VARIABLE cache OUTPUT_STRIP_TRAILING_WHITESPACE)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
list(APPEND CMAKE_PREFIX_PATH ${cache}/aarch64)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
