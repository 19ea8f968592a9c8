# SPDX-License-Identifier: Apache-2.0
inflight_python_test(checklist tidy checklist/checklist_test.py ${PROJECT_SOURCE_DIR})
