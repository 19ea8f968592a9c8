# The server, label server: its parts, then the running program.
file(GLOB server_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*_test.cpp)
add_executable(server_parts ${server_tests} $<TARGET_OBJECTS:inflight_server>)
inflight_use_layer(server_parts server)
target_link_libraries(server_parts PRIVATE GTest::gtest GTest::gtest_main)
add_test(NAME server_parts COMMAND server_parts)
set_tests_properties(server_parts PROPERTIES LABELS server TIMEOUT 300)
