# The tests of src/hub: their fake hub as a library, as a program, and a program that pulls.
add_library(fake_hub STATIC ${CMAKE_CURRENT_LIST_DIR}/fake_hub.cpp ${CMAKE_CURRENT_LIST_DIR}/fake_tls.cpp)
target_include_directories(fake_hub PUBLIC ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(fake_hub PUBLIC fmt::fmt nlohmann_json::nlohmann_json OpenSSL::SSL OpenSSL::Crypto Threads::Threads)

add_executable(fake_hub_server ${CMAKE_CURRENT_LIST_DIR}/serve.cpp)
target_link_libraries(fake_hub_server PRIVATE fake_hub)
add_executable(pull_tool ${CMAKE_CURRENT_LIST_DIR}/pull_tool.cpp)
target_link_libraries(pull_tool PRIVATE slip_hub)

slip_room_tests(net)
target_link_libraries(net_tests PRIVATE fake_hub)
slip_room_tests(hub APART soak *Interruptions*)
set_tests_properties(hub_soak PROPERTIES PROCESSORS 2 TIMEOUT 7200)  # 200 downloads of 1 GB in .ci/long
target_link_libraries(hub_tests PRIVATE fake_hub)
add_dependencies(hub_tests pull_tool fake_hub_server)
target_compile_definitions(hub_tests PRIVATE SLIP_PULL_TOOL="$<TARGET_FILE:pull_tool>"
                           SLIP_MODELS_PAGE="${PROJECT_SOURCE_DIR}/docs/models.md")

# Our cache as Hugging Face's own client for JavaScript sees it. It needs npm's registry once, so it is asked for
# by name: ctest -C npm -L npm.
add_test(NAME hub_npm CONFIGURATIONS npm
         COMMAND ${CMAKE_CURRENT_LIST_DIR}/npm/run.sh $<TARGET_FILE:fake_hub_server> $<TARGET_FILE:pull_tool>
                 ${CMAKE_BINARY_DIR}/hub_npm)
set_tests_properties(hub_npm PROPERTIES LABELS npm TIMEOUT 300)
