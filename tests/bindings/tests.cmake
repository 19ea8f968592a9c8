# The library from other languages, label abi.
inflight_python_test(bindings abi bindings/bindings_test.py ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})
inflight_python_test(bindings_python_lives abi bindings/python_lives_test.py ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})
