# Compiles the host tiles once per instruction set. The program chooses a set at run time, so one binary is fast
# everywhere. src/annulus/CMakeLists.txt includes this file after it has defined the target annulus_kernels. There are
# no host tiles if the default execution space is a GPU, because the GPU's compiler does not accept vector types, and
# host tiles could not read device memory anyway.
if(Kokkos_DEVICES MATCHES "CUDA|HIP|SYCL|OPENMPTARGET")
  return()
endif()

set(host_dir ${CMAKE_CURRENT_LIST_DIR})
file(GLOB host_sources CONFIGURE_DEPENDS ${host_dir}/host_*.cpp)
target_sources(annulus_kernels PRIVATE ${host_sources})
target_compile_definitions(annulus_kernels PUBLIC ANNULUS_HAS_HOST_TILES=1)

# annulus_host_tiles(NAME flag...): compiles tiles.cpp and forward_, backward_ and statistic_tiles.cpp in the namespace
# NAME, with these compiler flags. If NAME begins with amx, compiles the files of amx/ instead. -O3 is used also in a
# build without optimisation, because tests of a debug build should not take minutes. The tiles are arithmetic without
# bounds checks, so a build without optimisation would check nothing more.
function(annulus_host_tiles NAME)
  set(sources ${host_dir}/tiles.cpp ${host_dir}/forward_tiles.cpp ${host_dir}/backward_tiles.cpp
              ${host_dir}/statistic_tiles.cpp)
  if(NAME MATCHES "^amx")
    set(sources ${host_dir}/amx/forward_tiles.cpp ${host_dir}/amx/backward_tiles.cpp
                ${host_dir}/amx/split_forward.cpp ${host_dir}/amx/split_backward.cpp)
  endif()
  add_library(annulus_tiles_${NAME} OBJECT ${sources})
  set_target_properties(annulus_tiles_${NAME} PROPERTIES ANNULUS_TILES ON)  # no stack protector: it slows loops
  target_link_libraries(annulus_tiles_${NAME} PRIVATE annulus_options)
  target_compile_definitions(annulus_tiles_${NAME} PRIVATE ANNULUS_INSTRUCTION_SET=${NAME})
  # Two warnings of GCC are wrong here. One is about arguments that are vectors wider than the machine's, but all
  # functions with such arguments are inlined. The other is about operands that GCC's own AVX-512 intrinsics leave
  # undefined on purpose.
  target_compile_options(annulus_tiles_${NAME} PRIVATE -O3 -fno-exceptions ${ARGN}
    -Wno-psabi $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized;-Wno-maybe-uninitialized>)
  target_sources(annulus_kernels PRIVATE $<TARGET_OBJECTS:annulus_tiles_${NAME}>)
  set_property(GLOBAL APPEND PROPERTY ANNULUS_TILE_OBJECTS $<TARGET_OBJECTS:annulus_tiles_${NAME}>)
endfunction()

annulus_host_tiles(baseline)
# The set amx with vectors instead of the matrix unit. It computes the same bits on every processor.
annulus_host_tiles(amx_baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  annulus_host_tiles(avx2 -mavx2 -mfma -mf16c)
  annulus_host_tiles(avx512 -mavx2 -mfma -mf16c -mavx512f -mavx512dq -mavx512bw -mavx512vl)
  # This set has only the tiles of pairs: those for float and double would have the same bits and the same speed as
  # avx512.
  annulus_host_tiles(avx512_bf16 -mavx2 -mfma -mf16c -mavx512f -mavx512dq -mavx512bw -mavx512vl -mavx512bf16)
  target_compile_definitions(annulus_tiles_avx512_bf16 PRIVATE ANNULUS_ONLY_PAIRS=1)
  target_compile_definitions(annulus_kernels PRIVATE ANNULUS_HAS_X86_TILES=1)
  annulus_host_tiles(amx_avx2 -mavx2 -mfma -mf16c)
  annulus_host_tiles(amx_avx512 -mavx2 -mfma -mf16c -mavx512f -mavx512dq -mavx512bw -mavx512vl)
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-mamx-bf16 annulus_compiler_has_amx)
  if(annulus_compiler_has_amx)
    annulus_host_tiles(amx -mavx2 -mfma -mf16c -mavx512f -mavx512dq -mavx512bw -mavx512vl -mavx512vbmi -mavx512bf16
      -mamx-tile -mamx-bf16)
    target_compile_definitions(annulus_tiles_amx PRIVATE ANNULUS_HAS_AMX=1)
    target_compile_definitions(annulus_kernels PRIVATE ANNULUS_HAS_AMX_TILES=1)
  endif()
endif()
