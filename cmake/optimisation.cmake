# Rooms whose work is done before the first token and after the last are compiled with -O1 in place of -O3, which saves a
# third of the time of a file that is mostly JSON or text. The files named after KEEP stay at -O3. Results do not depend
# on it: no operation is contracted or reordered at any level.
function(slip_less_optimised room)
  cmake_parse_arguments(ARG "" "" "KEEP" ${ARGN})
  if(NOT TARGET slip_${room})
    return()
  endif()
  target_compile_options(slip_${room} PRIVATE $<$<CONFIG:Release>:-O1>)
  foreach(name IN LISTS ARG_KEEP)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/${room}/${name}.cpp PROPERTIES
                                COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
  endforeach()
endfunction()

slip_less_optimised(checkpoint)
file(GLOB templates RELATIVE ${PROJECT_SOURCE_DIR}/src/text ${PROJECT_SOURCE_DIR}/src/text/jinja/*.cpp)
list(TRANSFORM templates REPLACE "\\.cpp$" "")
slip_less_optimised(text KEEP ${templates} rendered added_tokens bpe detokenizer merge_table tokenizer utf8 vocabulary)
slip_less_optimised(synth KEEP synthetic_code synthetic_pattern synthetic_tensor)
slip_less_optimised(net)
slip_less_optimised(hub)
slip_less_optimised(session)
slip_less_optimised(server)
slip_less_optimised(conformance)
slip_less_optimised(cli)
