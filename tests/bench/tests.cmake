# The guard that compares a change with its base (bench/guard.py), on programs whose times are known.
inflight_python_test(bench_guard cli bench/guard_test.py ${PROJECT_SOURCE_DIR}/bench/guard.py)
