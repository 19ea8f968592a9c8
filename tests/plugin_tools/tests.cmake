# Policies written, built and used out of the tree.
inflight_python_test(plugin_tools cli plugin_tools/plugin_tools_test.py $<TARGET_FILE:inflight> ${PROJECT_BINARY_DIR} ${CMAKE_COMMAND})
