# Text against Python's own tools; they skip (77) where those are missing.
find_program(SYSTEM_PYTHON3 python3 PATHS /usr/bin NO_DEFAULT_PATH)  # sees Debian's python3-* packages
add_executable(render_chat python_text/render_chat.cpp)
target_link_libraries(render_chat PRIVATE inflight_static inflight_options)
add_test(NAME python_jinja COMMAND ${SYSTEM_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/python_text/jinja_test.py
  $<TARGET_FILE:render_chat> ${INFLIGHT_SHARED_DATA})
set_tests_properties(python_jinja PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
add_executable(follow_grammar python_text/follow_grammar.cpp)
target_link_libraries(follow_grammar PRIVATE inflight_static inflight_options)
add_test(NAME python_schema COMMAND ${SYSTEM_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/python_text/schema_test.py
  $<TARGET_FILE:follow_grammar> ${PROJECT_SOURCE_DIR}/models/tinyworld/tinyworld-f16.gguf)
set_tests_properties(python_schema PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
add_test(NAME python_schema_suite COMMAND ${SYSTEM_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/python_text/schema_suite_test.py
  $<TARGET_FILE:follow_grammar> ${PROJECT_SOURCE_DIR}/models/tinyworld/tinyworld-f16.gguf)
set_tests_properties(python_schema_suite PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
add_test(NAME python_tool_calls COMMAND ${SYSTEM_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/python_text/tool_calls_test.py
  $<TARGET_FILE:render_chat> $<TARGET_FILE:follow_grammar> ${PROJECT_SOURCE_DIR}/models/tinyworld/tinyworld-f16.gguf
  ${INFLIGHT_SHARED_DATA})
set_tests_properties(python_tool_calls PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
