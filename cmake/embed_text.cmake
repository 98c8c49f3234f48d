# slip_embed_text(ROOM FILE NAME): gives a room the text of a file as `slip::embedded::NAME`, a std::string_view, in
# the header "embedded/NAME.h". One text then has one home, and a program needs no file beside it.
function(slip_embed_text room file name)
  set(source ${PROJECT_SOURCE_DIR}/${file})
  set(folder ${PROJECT_BINARY_DIR}/embedded-text)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  file(READ ${source} text)
  set(header "// Made from ${file} by cmake/embed_text.cmake.\n#pragma once\n\n#include <string_view>\n\n")
  string(APPEND header "namespace slip::embedded {\ninline constexpr std::string_view ${name} = R\"slip_text(")
  string(APPEND header "${text})slip_text\";\n}  // namespace slip::embedded\n")
  file(CONFIGURE OUTPUT ${folder}/embedded/${name}.h CONTENT "@header@" @ONLY)  # written when it differs
  target_include_directories(slip_${room} PRIVATE ${folder})
endfunction()
