# The library as it is installed: one archive of the rooms below the command line, the headers in include/, a CMake
# package (find_package(Slipstream)) and a pkg-config file.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(SLIP_LIBRARY_ROOMS base media net tensor model checkpoint hub kv backend text sample speculate engine session)
add_library(slipstream_library STATIC)
set_target_properties(slipstream_library PROPERTIES OUTPUT_NAME slipstream EXPORT_NAME slipstream LINKER_LANGUAGE CXX)
foreach(room IN LISTS SLIP_LIBRARY_ROOMS)
  target_sources(slipstream_library PRIVATE $<TARGET_OBJECTS:slip_${room}>)
endforeach()
target_link_libraries(slipstream_library PUBLIC fmt::fmt hwy::hwy Threads::Threads CURL::libcurl OpenSSL::Crypto)
if(SLIP_HAVE_CUDA)
  target_sources(slipstream_library PRIVATE $<TARGET_OBJECTS:slip_cuda>)
  target_link_libraries(slipstream_library PUBLIC CUDA::cudart_static)
endif()
target_include_directories(slipstream_library PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                     $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(slipstream_library PUBLIC cxx_std_20)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Slipstream)
install(TARGETS slipstream_library EXPORT SlipstreamTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/slipstream DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT SlipstreamTargets NAMESPACE Slipstream:: DESTINATION ${package_folder})
configure_package_config_file(cmake/SlipstreamConfig.cmake.in ${PROJECT_BINARY_DIR}/SlipstreamConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/SlipstreamConfigVersion.cmake COMPATIBILITY SameMinorVersion)
# Relative, so that an installed tree may be moved.
file(RELATIVE_PATH SLIP_PREFIX_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/slipstream.pc.in ${PROJECT_BINARY_DIR}/slipstream.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/SlipstreamConfig.cmake ${PROJECT_BINARY_DIR}/SlipstreamConfigVersion.cmake
        DESTINATION ${package_folder})
install(FILES ${PROJECT_BINARY_DIR}/slipstream.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
