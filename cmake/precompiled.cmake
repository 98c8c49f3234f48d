# Precompiled headers. Half of a compilation is reading the standard library and nlohmann/json again, so three targets
# read them once and every room takes one over: `slip_common` (what most files include), `slip_json` (with JSON) and
# `slip_testing` (with JSON and GoogleTest). docs/testing.md has the times. Sources still include what they use: the
# presets asan and tsan build without, and so notice a missing line.
option(SLIP_PRECOMPILE "Precompile the headers that most files share" ON)

set(SLIP_COMMON_HEADERS <algorithm> <array> <cmath> <cstdint> <cstring> <filesystem> <functional> <map> <memory> <optional>
    <span> <string> <string_view> <utility> <vector> <fmt/format.h>)
set(SLIP_JSON_HEADERS ${SLIP_COMMON_HEADERS} <nlohmann/json.hpp>)
set(SLIP_TESTING_HEADERS ${SLIP_JSON_HEADERS} <gtest/gtest.h>)

# slip_headers(NAME HEADERS LIBRARY...): the target that holds one precompiled header.
function(slip_headers name headers)
  set(source ${PROJECT_BINARY_DIR}/precompiled/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "// Holds a precompiled header: cmake/precompiled.cmake.\n")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${source})
  target_link_libraries(${name} PRIVATE fmt::fmt Threads::Threads ${ARGN})
  target_precompile_headers(${name} PRIVATE ${${headers}})
endfunction()

if(SLIP_PRECOMPILE)
  # Through ccache a precompiled header needs these allowances; without them it would compile such files anew each time.
  if(CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
        CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # The second one: a target with other macros reads the headers as text and says so.
    slip_cxx_options(-fpch-preprocess -Wno-error=invalid-pch)
  endif()
  slip_headers(slip_common SLIP_COMMON_HEADERS)
  slip_headers(slip_json SLIP_JSON_HEADERS nlohmann_json::nlohmann_json)
  if(BUILD_TESTING)
    slip_headers(slip_testing SLIP_TESTING_HEADERS nlohmann_json::nlohmann_json GTest::gtest)
  endif()
endif()

# slip_precompiled(TARGET NAME): the target reads the precompiled header NAME.
function(slip_precompiled target name)
  if(SLIP_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()
