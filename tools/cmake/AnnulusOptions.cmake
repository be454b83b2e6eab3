# annulus_options: what every room compiles with. Kokkos::kokkos brings its own flags (OpenMP, GPU architecture); none of
# those are set here.
add_library(annulus_options INTERFACE)
target_compile_features(annulus_options INTERFACE cxx_std_20)
target_include_directories(annulus_options INTERFACE ${PROJECT_SOURCE_DIR}/src)

# -ffp-contract=off: the same bits whether or not the compiler could fuse; kernels that want a fused multiply-add call it.
# -fno-math-errno: lets exp2 and friends vectorise. Never -ffast-math: it breaks infinities, which LSE uses as a value.
# nvcc_wrapper calls itself GNU and hands host flags on; a bare nvcc would not understand them.
target_compile_options(annulus_options INTERFACE
  $<$<CXX_COMPILER_ID:GNU,Clang,AppleClang,IntelLLVM>:-Wall;-Wextra;-fno-math-errno;-ffp-contract=off>)
# GCC 12 sees an overlap that is not there in  "text" + std::string  (its bug 105651, mended in 13).
target_compile_options(annulus_options INTERFACE
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>)
if(ANNULUS_WERROR)
  target_compile_options(annulus_options INTERFACE $<$<CXX_COMPILER_ID:GNU,Clang,AppleClang,IntelLLVM>:-Werror>)
endif()

# fmt before 10 takes nvcc for a compiler without constexpr, and then contradicts itself under C++20.
if("CUDA" IN_LIST Kokkos_DEVICES)
  target_compile_definitions(annulus_options INTERFACE FMT_USE_CONSTEXPR=1)
  # Kokkos names the driver's library, which nodes without a GPU lack; core/gpu_driver.cpp makes it unneeded.
  target_link_options(annulus_options INTERFACE -Wl,--as-needed)
endif()
