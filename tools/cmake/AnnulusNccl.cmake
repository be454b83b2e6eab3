# ANNULUS_NCCL: whether builds for NVIDIA GPUs can send rows with NCCL. Only its header is needed: the library is
# loaded when a run asks for it. If it is used, sets ANNULUS_NCCL_INCLUDE and prints a line.
set(ANNULUS_NCCL AUTO CACHE STRING "distribution.transport: nccl in CUDA builds: ON, OFF, or AUTO: where nccl.h is found")
set_property(CACHE ANNULUS_NCCL PROPERTY STRINGS AUTO ON OFF)

set(ANNULUS_NCCL_INCLUDE "")
if(ANNULUS_NCCL AND "CUDA" IN_LIST Kokkos_DEVICES)
  find_path(ANNULUS_NCCL_HEADER nccl.h
            HINTS ${NCCL_ROOT}/include $ENV{NCCL_ROOT}/include $ENV{NCCL_HOME}/include ${CUDAToolkit_INCLUDE_DIRS}
                  $ENV{CUDA_HOME}/include /usr/local/cuda/include)
  if(ANNULUS_NCCL_HEADER)
    set(ANNULUS_NCCL_INCLUDE ${ANNULUS_NCCL_HEADER})
    message(STATUS "  NCCL            ${ANNULUS_NCCL_HEADER}/nccl.h")
  elseif(NOT ANNULUS_NCCL STREQUAL AUTO)
    message(FATAL_ERROR "ANNULUS_NCCL=${ANNULUS_NCCL}, but nccl.h is not there: set NCCL_ROOT, the folder above its include/")
  endif()
elseif(ANNULUS_NCCL AND NOT ANNULUS_NCCL STREQUAL AUTO)
  message(FATAL_ERROR "ANNULUS_NCCL=${ANNULUS_NCCL} needs a Kokkos with CUDA; this one has: ${Kokkos_DEVICES}")
endif()
