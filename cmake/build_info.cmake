# Tells src/session/build_info.cpp what it was built from. The commit is looked up on every build, not at configure time,
# and its header is rewritten only when it differs.
set(SLIP_BUILD_TEXT "${CMAKE_BUILD_TYPE}")
if(SLIP_SANITIZE)
  string(APPEND SLIP_BUILD_TEXT " with sanitizers ${SLIP_SANITIZE}")
endif()
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/session/build_info.cpp PROPERTIES COMPILE_DEFINITIONS
  "SLIP_VERSION=\"${PROJECT_VERSION}\";SLIP_BUILD_TYPE=\"${SLIP_BUILD_TEXT}\"")
# Where the source tree is, seen from the program; src/session/default_model.cpp looks for models there.
file(RELATIVE_PATH source_from_build ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/session/default_model.cpp PROPERTIES COMPILE_DEFINITIONS
  "SLIP_SOURCE_FROM_BUILD=\"${source_from_build}\"")
add_custom_target(slip_git_commit
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUTPUT=${PROJECT_BINARY_DIR}/generated/slip_git_commit.h
          -P ${PROJECT_SOURCE_DIR}/cmake/git_commit.cmake
  BYPRODUCTS ${PROJECT_BINARY_DIR}/generated/slip_git_commit.h
  VERBATIM)
add_dependencies(slip_session slip_git_commit)
target_include_directories(slip_session PRIVATE ${PROJECT_BINARY_DIR}/generated)
