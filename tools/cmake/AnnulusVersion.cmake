# Makes annulus/version.hpp in the build folder, with version and git commit. At every build a small target checks the
# commit and rewrites the header only if the commit has changed. So the version is always right, and nothing is compiled
# again without need.
#
# This file is also the script that the target runs (cmake -P), see the end.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(generated ${PROJECT_BINARY_DIR}/generated)
  set(make_header ${CMAKE_COMMAND} -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
      -DHEADER=${generated}/annulus/version.hpp -P ${CMAKE_CURRENT_LIST_FILE})
  add_custom_target(annulus_version COMMAND ${make_header} BYPRODUCTS ${generated}/annulus/version.hpp
                    COMMENT "Looking at the git commit" VERBATIM)
  add_dependencies(annulus_options annulus_version)
  target_include_directories(annulus_options INTERFACE ${generated})
  return()
endif()

# A copy of annulus inside another repository must not report that repository's commit. So the repository's top folder
# must be the source folder.
set(commit unknown)
set(ENV{GIT_OPTIONAL_LOCKS} 0)
execute_process(COMMAND git rev-parse --show-toplevel WORKING_DIRECTORY ${SOURCE_DIR}
                OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
file(REAL_PATH "${SOURCE_DIR}" source)
if(status EQUAL 0 AND "${top}" STREQUAL "${source}")
  execute_process(COMMAND git describe --always --abbrev=40 --dirty --exclude * WORKING_DIRECTORY ${SOURCE_DIR}
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
  if(status EQUAL 0)
    set(commit ${described})
  endif()
endif()
file(CONFIGURE OUTPUT ${HEADER} @ONLY CONTENT [[
#pragma once
// Made by the build (tools/cmake/AnnulusVersion.cmake).
namespace annulus {
inline constexpr const char* version = "@VERSION@";
inline constexpr const char* git_commit = "@commit@";  // "-dirty" behind it: built from uncommitted changes
}  // namespace annulus
]])
