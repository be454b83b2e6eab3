# annulus_options: what every room compiles with. Kokkos::kokkos brings its own flags (OpenMP, GPU architecture), which
# are not set here.
add_library(annulus_options INTERFACE)
target_compile_features(annulus_options INTERFACE cxx_std_20)
target_include_directories(annulus_options INTERFACE ${PROJECT_SOURCE_DIR}/src)

# -ffp-contract=off: the compiler fuses no multiply-add, so it does not decide bits; kernels that want one call it.
# -fno-math-errno: lets exp2 and the like vectorise. Never -ffast-math: it breaks infinities, which LSE uses as a value.
# nvcc_wrapper has the compiler id GNU and passes host flags on; nvcc alone would not understand them.
target_compile_options(annulus_options INTERFACE
  $<$<CXX_COMPILER_ID:GNU,Clang,AppleClang,IntelLLVM>:-Wall;-Wextra;-fno-math-errno;-ffp-contract=off>)
# GCC 12 warns wrongly of an overlap in "text" + std::string (its bug 105651, fixed in 13).
target_compile_options(annulus_options INTERFACE
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>)
if(ANNULUS_WERROR)
  target_compile_options(annulus_options INTERFACE $<$<CXX_COMPILER_ID:GNU,Clang,AppleClang,IntelLLVM>:-Werror>)
endif()

# The options below are set only in optimized builds without nvcc, because they were tried only there.
set(annulus_hardened_link "")
if(NOT "CUDA" IN_LIST Kokkos_DEVICES)
  set(optimized $<AND:$<CXX_COMPILER_ID:GNU,Clang>,$<CONFIG:Release,RelWithDebInfo,MinSizeRel>>)
  # Binaries contain no folder names of this machine, so a commit makes the same bytes in every folder
  # (tools/reproduce).
  target_compile_options(annulus_options INTERFACE
    $<${optimized}:-ffile-prefix-map=${PROJECT_SOURCE_DIR}=.;-ffile-prefix-map=${PROJECT_BINARY_DIR}=build>)
  if(ANNULUS_HARDENING)
    # A copy beyond the end of a buffer, or a return address that was overwritten, ends the program (SIGABRT), and the
    # table of imported functions is read-only. Level 3 also checks computed sizes. Kernels' tiles have no such checks
    # (kernels/host/instruction_sets.cmake). Not -fcf-protection: the C library and Kokkos would need it, too.
    set(level 2)
    if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12)
      set(level 3)
    endif()
    target_compile_options(annulus_options INTERFACE $<${optimized}:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=${level}>
      $<$<AND:${optimized},$<NOT:$<BOOL:$<TARGET_PROPERTY:ANNULUS_TILES>>>>:-fstack-protector-strong>)
    set(annulus_hardened_link $<$<AND:${optimized},$<PLATFORM_ID:Linux>>:LINKER:-z,relro,-z,now>)
    target_link_options(annulus_options INTERFACE ${annulus_hardened_link})
  endif()
endif()

# fmt before 10 assumes that nvcc has no constexpr, and then does not compile as C++20.
if("CUDA" IN_LIST Kokkos_DEVICES)
  target_compile_definitions(annulus_options INTERFACE FMT_USE_CONSTEXPR=1)
  # Kokkos names the driver's library, which nodes without a GPU lack; core/gpu_driver.cpp makes it unneeded.
  target_link_options(annulus_options INTERFACE -Wl,--as-needed)
endif()
