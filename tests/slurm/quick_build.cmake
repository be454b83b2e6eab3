# For a build that must be quick (-DCMAKE_PROJECT_annulus_INCLUDE=...): without optimization. The slowest headers are
# compiled only once for each library.
set(CMAKE_CXX_FLAGS_RELEASE "-O0")
function(annulus_precompile_headers)
  get_property(libraries DIRECTORY ${PROJECT_SOURCE_DIR}/src/annulus PROPERTY BUILDSYSTEM_TARGETS)
  foreach(library IN LISTS libraries)
    get_target_property(type ${library} TYPE)
    if(type STREQUAL STATIC_LIBRARY)
      target_precompile_headers(${library} PRIVATE <Kokkos_Core.hpp> <fmt/format.h> <functional> <map> <memory> <optional>
                                                   <string> <vector>)
    endif()
  endforeach()
endfunction()
cmake_language(DEFER CALL annulus_precompile_headers)
