# `cmake --install`: the program, and the library with its headers for find_package(annulus).
include(CMakePackageConfigHelpers)

# The rooms that the library is made of, as one file: libannulus.a, or .so with -DBUILD_SHARED_LIBS=ON.
get_property(objects GLOBAL PROPERTY ANNULUS_TILE_OBJECTS)
foreach(room core pattern kernels comm strategies planner library)
  list(APPEND objects $<TARGET_OBJECTS:annulus_${room}>)
endforeach()
add_library(annulus_whole ${objects})
add_library(annulus::annulus ALIAS annulus_whole)
set_target_properties(annulus_whole PROPERTIES OUTPUT_NAME annulus EXPORT_NAME annulus LINKER_LANGUAGE CXX
                      VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_compile_features(annulus_whole PUBLIC cxx_std_20)
target_compile_definitions(annulus_whole PUBLIC ANNULUS_HAS_MPI=$<BOOL:${ANNULUS_MPI}>)
target_include_directories(annulus_whole PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(annulus_whole PUBLIC Kokkos::kokkos PRIVATE fmt::fmt ${CMAKE_DL_LIBS})
target_link_options(annulus_whole PRIVATE ${annulus_hardened_link})
if(ANNULUS_MPI)
  target_link_libraries(annulus_whole PUBLIC MPI::MPI_CXX)
endif()

# This is checked before anything is copied, because a build of `--target annulus` alone (tools/quickstart) has no
# library and no manual page.
set(to_install $<TARGET_FILE:annulus_whole>)
if(ANNULUS_BUILD_PROGRAM)
  list(APPEND to_install $<TARGET_FILE:annulus>)
endif()
install(CODE "foreach(file IN ITEMS ${to_install})
  if(NOT EXISTS \"\${file}\")
    message(FATAL_ERROR \"annulus: \${file} is not built yet, nothing was installed. Build all first: \"
                        \"cmake --build ${PROJECT_BINARY_DIR}\")
  endif()
endforeach()")

# Only what a program may include: the public headers of the library, and the few headers of core that they include.
set(headers annulus.hpp library/attention.hpp library/communicator.hpp library/passes.hpp library/plan.hpp
            library/reference.hpp library/tensor.hpp library/threads.hpp library/version.hpp core/exception.hpp core/storage.hpp core/types.hpp)
foreach(header IN LISTS headers)
  get_filename_component(folder annulus/${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/src/annulus/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
endforeach()

install(TARGETS annulus_whole EXPORT annulusTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(ANNULUS_BUILD_PROGRAM)
  install(TARGETS annulus RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  include(AnnulusManual)
endif()
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/annulus)
install(EXPORT annulusTargets NAMESPACE annulus:: DESTINATION ${package})
# With this file find_package() also accepts a build folder.
export(EXPORT annulusTargets NAMESPACE annulus:: FILE ${PROJECT_BINARY_DIR}/annulusTargets.cmake)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/annulusConfig.cmake.in ${PROJECT_BINARY_DIR}/annulusConfig.cmake
                              INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/annulusConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/annulusConfig.cmake ${PROJECT_BINARY_DIR}/annulusConfigVersion.cmake
        DESTINATION ${package})
