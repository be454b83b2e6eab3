# The manual page, made from `annulus --help` if help2man exists and the built program can run here.
find_program(ANNULUS_HELP2MAN help2man)
if(NOT ANNULUS_HELP2MAN OR CMAKE_CROSSCOMPILING)
  return()
endif()
set(page ${PROJECT_BINARY_DIR}/annulus.1)
add_custom_command(OUTPUT ${page}
  # A program with the sanitizer would report memory that MPI never frees, and fail.
  COMMAND ${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0
          ${ANNULUS_HELP2MAN} --no-info --name "dilated ring attention for HPC clusters" --output ${page} $<TARGET_FILE:annulus>
  DEPENDS annulus COMMENT "Writing the manual page" VERBATIM)
add_custom_target(annulus_manual ALL DEPENDS ${page})
install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
