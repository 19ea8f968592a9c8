# The server, label server: its parts, then the running program.
file(GLOB server_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*_test.cpp)
add_executable(server_parts ${server_tests} $<TARGET_OBJECTS:inflight_server>)
inflight_use_layer(server_parts server)
target_link_libraries(server_parts PRIVATE inflight_static GTest::gtest GTest::gtest_main)
add_test(NAME server_parts COMMAND server_parts)
set_tests_properties(server_parts PROPERTIES LABELS server TIMEOUT 300)
inflight_python_test(server_serve server server/serve_test.py $<TARGET_FILE:inflight>)
inflight_python_test(server_options server server/options_test.py $<TARGET_FILE:inflight>)
inflight_python_test(server_soak server server/soak_test.py $<TARGET_FILE:inflight>)
inflight_python_test(server_page server server/page_test.py $<TARGET_FILE:inflight>)
set_tests_properties(server_page PROPERTIES SKIP_RETURN_CODE 77)
inflight_python_test(server_openai server server/openai_test.py $<TARGET_FILE:inflight>)
find_program(SYSTEM_PYTHON3 python3 PATHS /usr/bin NO_DEFAULT_PATH)  # sees Debian's python3-* packages
add_test(NAME server_structured COMMAND ${SYSTEM_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/server/structured_test.py
  $<TARGET_FILE:inflight>)
set_tests_properties(server_structured PROPERTIES LABELS server SKIP_RETURN_CODE 77 TIMEOUT 300)
set_tests_properties(server_openai PROPERTIES SKIP_RETURN_CODE 77)
inflight_python_test(server_bench_serve server server/bench_serve_test.py $<TARGET_FILE:inflight>)
