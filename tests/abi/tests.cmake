# The library as embedding programs meet it.
inflight_python_test(abi abi abi/abi_test.py ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})
