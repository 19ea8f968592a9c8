# The program as its users meet it.
inflight_python_test(cli_model_tools cli cli/model_tools_test.py $<TARGET_FILE:inflight> ${PROJECT_SOURCE_DIR})
inflight_python_test(cli_tokenize cli cli/tokenize_test.py $<TARGET_FILE:inflight> ${PROJECT_SOURCE_DIR} ${INFLIGHT_SHARED_DATA})
inflight_python_test(cli_devices cli cli/devices_test.py $<TARGET_FILE:inflight>)
inflight_python_test(cli_run cli cli/run_test.py $<TARGET_FILE:inflight> ${PROJECT_SOURCE_DIR})
inflight_python_test(cli_lora cli cli/lora_test.py $<TARGET_FILE:inflight> ${PROJECT_SOURCE_DIR})
inflight_python_test(cli_config cli cli/config_test.py $<TARGET_FILE:inflight>)
inflight_python_test(cli_kernels cli cli/kernels_test.py $<TARGET_FILE:inflight> ${PROJECT_SOURCE_DIR})
inflight_python_test(cli_manual cli cli/manual_test.py $<TARGET_FILE:inflight> ${PROJECT_SOURCE_DIR})
