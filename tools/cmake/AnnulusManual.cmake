# The manual page, made of `annulus --help` where there is help2man and the built program can be run.
find_program(ANNULUS_HELP2MAN help2man)
if(NOT ANNULUS_HELP2MAN OR CMAKE_CROSSCOMPILING)
  return()
endif()
set(page ${PROJECT_BINARY_DIR}/annulus.1)
add_custom_command(OUTPUT ${page}
  # A sanitized program would tell of what MPI never frees, and fail.
  COMMAND ${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0
          ${ANNULUS_HELP2MAN} --no-info --name "dilated ring attention for HPC clusters" --output ${page} $<TARGET_FILE:annulus>
  DEPENDS annulus COMMENT "Writing the manual page" VERBATIM)
add_custom_target(annulus_manual ALL DEPENDS ${page})
install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
