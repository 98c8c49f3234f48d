# prometheus-cpp's core: metrics and their text, without the server and the client beside it. Its own CMake package asks
# for those libraries' dependencies too, so the core is looked up by itself.
find_path(SLIP_PROMETHEUS_INCLUDE prometheus/registry.h REQUIRED)
find_library(SLIP_PROMETHEUS_CORE prometheus-cpp-core REQUIRED)
add_library(prometheus_core::prometheus_core UNKNOWN IMPORTED)
set_target_properties(prometheus_core::prometheus_core PROPERTIES
  IMPORTED_LOCATION ${SLIP_PROMETHEUS_CORE} INTERFACE_INCLUDE_DIRECTORIES ${SLIP_PROMETHEUS_INCLUDE})
