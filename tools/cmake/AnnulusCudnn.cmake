# ANNULUS_CUDNN: whether builds for NVIDIA GPUs can leave attention to cuDNN (compute.backend: cudnn). It needs only the
# headers of cuDNN and cudnn-frontend: the library is loaded when a run asks for it. If the headers are used, sets
# ANNULUS_CUDNN_INCLUDE and prints a line.
set(ANNULUS_CUDNN AUTO CACHE STRING
    "compute.backend: cudnn in CUDA builds: ON, OFF, or AUTO: where cudnn_graph.h and cudnn_frontend.h are found")
set_property(CACHE ANNULUS_CUDNN PROPERTY STRINGS AUTO ON OFF)

# The version in a header's NAME_MAJOR and NAME_MINOR: "9.19"; "0.0" if it has none.
function(annulus_version_in header major minor into)
  set(found 0 0)
  if(EXISTS ${header})
    file(STRINGS ${header} lines REGEX "define +(${major}|${minor}) +[0-9]")
    string(REGEX REPLACE ".*${major} +([0-9]+).*" "\\1" first "${lines}")
    string(REGEX REPLACE ".*${minor} +([0-9]+).*" "\\1" second "${lines}")
    set(found ${first} ${second})
  endif()
  list(JOIN found . found)
  set(${into} ${found} PARENT_SCOPE)
endfunction()

set(ANNULUS_CUDNN_INCLUDE "")
if(ANNULUS_CUDNN AND "CUDA" IN_LIST Kokkos_DEVICES)
  find_path(ANNULUS_CUDNN_HEADER cudnn_graph.h
            HINTS ${CUDNN_ROOT}/include $ENV{CUDNN_ROOT}/include $ENV{CUDNN_PATH}/include ${CUDAToolkit_INCLUDE_DIRS}
                  $ENV{CUDA_HOME}/include /usr/local/cuda/include)
  find_path(ANNULUS_CUDNN_FRONTEND_HEADER cudnn_frontend.h
            HINTS ${CUDNN_FRONTEND_ROOT}/include $ENV{CUDNN_FRONTEND_ROOT}/include ${CUDNN_ROOT}/include
                  $ENV{CUDNN_ROOT}/include $ENV{CUDNN_PATH}/include $ENV{CUDA_HOME}/include /usr/local/cuda/include)
  annulus_version_in("${ANNULUS_CUDNN_HEADER}/cudnn_version.h" CUDNN_MAJOR CUDNN_MINOR library)
  annulus_version_in("${ANNULUS_CUDNN_FRONTEND_HEADER}/cudnn_frontend_version.h" CUDNN_FRONTEND_MAJOR_VERSION
                     CUDNN_FRONTEND_MINOR_VERSION frontend)
  set(lacking "")
  if(NOT ANNULUS_CUDNN_HEADER OR NOT ANNULUS_CUDNN_FRONTEND_HEADER)
    set(lacking "cudnn_graph.h or cudnn_frontend.h not found")
  elseif(library VERSION_LESS 9.8 OR frontend VERSION_LESS 1.32)
    set(lacking "${ANNULUS_CUDNN_HEADER} has cuDNN ${library}, ")
    string(APPEND lacking "${ANNULUS_CUDNN_FRONTEND_HEADER} cudnn-frontend ${frontend}; needed are 9.8 and 1.32, or newer")
  endif()
  if(NOT lacking)
    set(ANNULUS_CUDNN_INCLUDE ${ANNULUS_CUDNN_HEADER} ${ANNULUS_CUDNN_FRONTEND_HEADER})
    message(STATUS "  cuDNN           ${library} in ${ANNULUS_CUDNN_HEADER}, "
                   "its frontend ${frontend} in ${ANNULUS_CUDNN_FRONTEND_HEADER}")
  elseif(NOT ANNULUS_CUDNN STREQUAL AUTO)
    message(FATAL_ERROR "ANNULUS_CUDNN=${ANNULUS_CUDNN}, but ${lacking}; set CUDNN_ROOT and CUDNN_FRONTEND_ROOT, the "
                        "folders above their include/")
  else()
    message(STATUS "  cuDNN           none: ${lacking} (CUDNN_ROOT, CUDNN_FRONTEND_ROOT)")
  endif()
elseif(ANNULUS_CUDNN AND NOT ANNULUS_CUDNN STREQUAL AUTO)
  message(FATAL_ERROR "ANNULUS_CUDNN=${ANNULUS_CUDNN} needs a Kokkos with CUDA; this one has: ${Kokkos_DEVICES}")
endif()
