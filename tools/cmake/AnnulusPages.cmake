# The manual page and what bash and zsh complete: printed by the built program from the table behind its --help, and put
# where man and the shells look. Where the program cannot be run because it is for another machine there are none.
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  message(STATUS "annulus: no manual page and no shell completion: the program cannot be run here")
  return()
endif()
set(pages ${PROJECT_BINARY_DIR}/pages)
file(MAKE_DIRECTORY ${pages})
add_custom_command(OUTPUT ${pages}/annulus.1 ${pages}/annulus ${pages}/_annulus
  COMMAND annulus --manual > ${pages}/annulus.1
  COMMAND annulus --completion bash > ${pages}/annulus
  COMMAND annulus --completion zsh > ${pages}/_annulus
  DEPENDS annulus COMMENT "Writing the manual page and shell completion" VERBATIM)
add_custom_target(annulus_pages ALL DEPENDS ${pages}/annulus.1)
install(FILES ${pages}/annulus.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${pages}/annulus DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${pages}/_annulus DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
