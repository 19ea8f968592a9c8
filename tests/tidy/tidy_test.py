#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that tidy.py bites: a clean little tree passes, and one planted violation of each rule is found by name."""
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tidy  # noqa: E402

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
CLEAN = {
    "cmake/layers.txt": "base : | fmt\ncore : base |\nsched : base core |\ndevice : base | opencl\n",
    "src/base/error.h": SPDX,
    "src/core/plan.h": SPDX + '#include "base/error.h"\n',
    "src/sched/scheduler.cpp": SPDX + '#include "core/plan.h"\nvoid f() {\n}\n',
    "tests/unit/sched/scheduler_test.cpp": SPDX,
    "docs/PAGE.md": "# One\n",
}
PLANTED = [  # file, content, a part of the finding
    ("src/core/up.h", SPDX + '#include "sched/scheduler.h"\n', "may include only"),
    ("src/sched/sideways.h", SPDX + '#include "device/queue.h"\n', "may include only"),
    ("src/sched/raw.h", SPDX + "#include <CL/cl.h>\n", "only src/device/cl.h"),
    ("src/base/no_licence.h", "int x;\n", "SPDX"),
    ("src/base/long_file.h", SPDX + "\n" * 700, "lines, at most"),
    ("src/base/wide.h", SPDX + "//" + "x" * 200 + "\n", "columns, at most"),
    ("src/base/clock_user.h", SPDX + "std::shared_ptr<int> p;\n", "unique ownership"),
    ("src/sched/time_user.h", SPDX + "auto t = std::chrono::steady_clock::now();\n", "the Clock"),
    ("src/base/word.h", SPDX + "int n_past;\n", "computed_token_count"),
    ("src/base/later.h", SPDX + "// TODO: later\n", "leftover"),
    ("src/base/untested.cpp", SPDX, "untested_test.cpp"),
    ("src/core/error.h", SPDX, "same file name"),
    ("src/base/long_function.cpp", SPDX + "// Covers itself\nvoid f() {\n" + "  ;\n" * 120 + "}\n", "function at line"),
    ("include/inflight/x.h", SPDX + "#include <vector>\n", "public header includes"),
    ("docs/TWO.md", "# One\n# Two\n", "exactly one H1"),
    ("scripts/run", "#!/bin/sh\n", "not executable"),
    ("docs2/blob.bin", "x" * 300_000, "bytes, at most"),
]


def findings(extra=None):
    root = pathlib.Path(tempfile.mkdtemp())
    try:
        for name, content in {**CLEAN, **(extra or {})}.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        return [f"{n}: {m}" for n, _, m in tidy.check(root)]
    finally:
        shutil.rmtree(root)


def main():
    assert findings() == [], findings()
    for name, content, part in PLANTED:
        found = findings({name: content})
        assert any(f.startswith(name) and part in f for f in found), f"{name}: expected {part!r}, got {found}"
    print(f"tidy finds each of {len(PLANTED)} planted violations and nothing in a clean tree")


if __name__ == "__main__":
    main()
