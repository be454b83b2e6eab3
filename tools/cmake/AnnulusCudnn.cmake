# ANNULUS_CUDNN: whether builds for NVIDIA GPUs can leave attention to cuDNN (compute.backend: cudnn). It takes cuDNN's
# headers and those of cudnn-frontend (both headers alone: the library is loaded when a run asks for it). Sets
# ANNULUS_CUDNN_INCLUDE where they are taken, and says so.
set(ANNULUS_CUDNN AUTO CACHE STRING
    "compute.backend: cudnn in CUDA builds: ON, OFF, or AUTO: where cudnn.h and cudnn_frontend.h are found")
set_property(CACHE ANNULUS_CUDNN PROPERTY STRINGS AUTO ON OFF)

set(ANNULUS_CUDNN_INCLUDE "")
if(ANNULUS_CUDNN AND "CUDA" IN_LIST Kokkos_DEVICES)
  find_path(ANNULUS_CUDNN_HEADER cudnn_graph.h
            HINTS ${CUDNN_ROOT}/include $ENV{CUDNN_ROOT}/include $ENV{CUDNN_PATH}/include ${CUDAToolkit_INCLUDE_DIRS}
                  $ENV{CUDA_HOME}/include /usr/local/cuda/include)
  find_path(ANNULUS_CUDNN_FRONTEND_HEADER cudnn_frontend.h
            HINTS ${CUDNN_FRONTEND_ROOT}/include $ENV{CUDNN_FRONTEND_ROOT}/include ${CUDNN_ROOT}/include
                  $ENV{CUDNN_ROOT}/include $ENV{CUDNN_PATH}/include $ENV{CUDA_HOME}/include /usr/local/cuda/include)
  if(ANNULUS_CUDNN_HEADER AND ANNULUS_CUDNN_FRONTEND_HEADER)
    set(ANNULUS_CUDNN_INCLUDE ${ANNULUS_CUDNN_HEADER} ${ANNULUS_CUDNN_FRONTEND_HEADER})
    message(STATUS "  cuDNN           ${ANNULUS_CUDNN_HEADER}/cudnn.h, ${ANNULUS_CUDNN_FRONTEND_HEADER}/cudnn_frontend.h")
  elseif(NOT ANNULUS_CUDNN STREQUAL AUTO)
    message(FATAL_ERROR "ANNULUS_CUDNN=${ANNULUS_CUDNN}, but cudnn.h (9.8 or newer) or cudnn_frontend.h is not there: "
                        "set CUDNN_ROOT and CUDNN_FRONTEND_ROOT, the folders above their include/")
  else()
    message(STATUS "  cuDNN           none: cudnn.h or cudnn_frontend.h not found (CUDNN_ROOT, CUDNN_FRONTEND_ROOT)")
  endif()
elseif(ANNULUS_CUDNN AND NOT ANNULUS_CUDNN STREQUAL AUTO)
  message(FATAL_ERROR "ANNULUS_CUDNN=${ANNULUS_CUDNN} needs a Kokkos with CUDA; this one has: ${Kokkos_DEVICES}")
endif()
