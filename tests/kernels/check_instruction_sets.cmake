# No function compiled for one instruction set may serve another: in the objects of the host tiles every symbol that the
# linker may merge with other files' (weak, unique) must lie in the namespace of its instruction set.
# cmake -DNM=<nm> -DOBJECTS=<name=object;...> -P check_instruction_sets.cmake
if(NOT NM OR NOT OBJECTS)
  message(FATAL_ERROR "NM and OBJECTS are needed; got '${NM}', '${OBJECTS}'")
endif()
foreach(entry IN LISTS OBJECTS)
  string(REGEX MATCH "^([^=]+)=(.+)$" matched "${entry}")
  set(name ${CMAKE_MATCH_1})
  execute_process(COMMAND ${NM} --demangle --defined-only ${CMAKE_MATCH_2} OUTPUT_VARIABLE symbols
                  COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE ";" "," symbols "${symbols}")
  string(REGEX MATCHALL "[0-9a-f]+ [VvWwu] [^\n]+" mergeable "${symbols}")
  list(LENGTH mergeable count)
  if(count EQUAL 0)
    message(FATAL_ERROR "${name}: no mergeable symbols at all; the tiles are templates, so nm was misread")
  endif()
  foreach(symbol IN LISTS mergeable)
    if(NOT symbol MATCHES "^[0-9a-f]+ [VvWwu] ([a-z]+ )?annulus::kernels::host::${name}::")
      message(FATAL_ERROR "${name}: the linker may use this function for other processors too: ${symbol}")
    endif()
  endforeach()
  message(STATUS "${name}: ${count} mergeable symbols, all its own")
endforeach()
