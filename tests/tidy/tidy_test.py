#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that tidy.py bites: a clean little tree passes, and planted violations of each rule are found by name: those of a table
in every folder where they hold."""
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
    "tests/unit/sched/scheduler_test.cpp": SPDX + "namespace {\nint helper() { return 1; }\n}  // namespace\nint shown();\n",
    "tests/unit/sched/same_test.cpp": SPDX + "namespace {\nusing Json = nlohmann::json;\n}\n",
    "tests/unit/sched/alias_test.cpp": SPDX + "namespace {\nusing Json = nlohmann::json;\n}\n",
    "docs/PAGE.md": "# One\n",
}
PLANTED = [  # file, content, a part of the finding
    ("src/core/up.h", SPDX + '#include "sched/scheduler.h"\n', "may include only"),
    ("src/sched/sideways.h", SPDX + '#include "device/queue.h"\n', "may include only"),
    ("src/sched/raw.h", SPDX + "#include <CL/cl.h>\n", "only src/device/cl.h"),
    ("src/base/no_licence.h", "int x;\n", "SPDX"),
    ("src/base/long_file.h", SPDX + "\n" * 700, "lines, at most"),
    ("src/base/wide.h", SPDX + "//" + "x" * 200 + "\n", "columns, at most"),
    ("src/nowhere/x.h", SPDX, "no row in cmake/layers.txt"),
    ("src/base/later.h", SPDX + "// TODO: later\n", "leftover"),
    ("src/base/untested.cpp", SPDX, "untested_test.cpp"),
    ("src/core/error.h", SPDX, "same file name"),
    ("src/base/long_function.cpp", SPDX + "// Covers itself\nvoid f() {\n" + "  ;\n" * 120 + "}\n", "function at line"),
    ("src/base/wrapped.cpp", SPDX + "template <typename T>\nvoid f(T a,\n       T b) {\n" + "  ;\n" * 120 + "}\n",
     "function at line 3"),
    ("src/base/wrapped.cpp", SPDX + "F::F(int a)\n    : a_(a) {\n" + "  ;\n" * 120 + "}\n", "function at line 2"),
    ("tests/unit/sched/za_test.cpp", SPDX + "namespace {\nconst char* helper(int) {\n}\n}\n", "helper is a name in"),
    ("tests/unit/sched/zb_test.cpp", SPDX + "namespace {\nconstexpr int helper[2] = {};\n}\n", "helper is a name in"),
    ("tests/unit/sched/zd_test.cpp", SPDX + "namespace {\nusing helper = int;\n}\n", "helper is a name in"),
    ("tests/unit/sched/zc_test.cpp", SPDX + "namespace {\nstruct helper {\n};\n}\n", "helper is a name in"),
    ("include/inflight/x.h", SPDX + "#include <vector>\n", "public header includes"),
    ("docs/TWO.md", "# One\n# Two\n", "exactly one H1"),
    ("scripts/run", "#!/bin/sh\n", "not executable"),
    ("docs2/blob.bin", "x" * 300_000, "bytes, at most"),
]
# What breaks each rule of tidy.BANNED, in their order: one line for each thing that is banned.
BANNED_LINES = [
    ["std::shared_ptr<int> p;"],
    ["std::regex r;"],
    ['fmt::print(stderr, "a");'],
    ["#include <iostream>"],
    ["auto s = std::format(f);"],
    ['printf("x");'],
    ["int r = std::rand();", "srand(0);", "time(nullptr);"],
    ["auto t = std::chrono::steady_clock::now();", "auto t = std::chrono::system_clock::now();"],
    ["using namespace std;"],
    ["int i = atoi(s);", "double d = std::atof(s);", "long l = strtol(s, e, 10);", "double d = strtod(s, e);"],
]


def violations_of_the_tables():
    """(file, content, a part of the finding)"""
    for (_, instead, where), lines in zip(tidy.BANNED, BANNED_LINES, strict=True):
        for folder in where:
            for line in lines:
                yield f"{folder.rstrip('/')}/planted.h", f"{SPDX}{line}\n", f"use {instead}"
    for pattern, instead in tidy.SYNONYMS:
        for word in pattern.replace(r"\b", "").split("|"):
            for spelled in {word.replace("_?", "_"), word.replace("_?", "")}:
                yield "src/base/planted.h", f"{SPDX}int {spelled};\n", f"the project's word is {instead}"


def findings(extra=None, clean=None, rule=tidy.check):
    root = pathlib.Path(tempfile.mkdtemp())
    try:
        for name, content in {**(CLEAN if clean is None else clean), **(extra or {})}.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        return [f"{n}: {m}" for n, _, m in rule(root)]
    finally:
        shutil.rmtree(root)


def check_format():
    """The repository's style; whether it was looked at."""
    clean = {".clang-format": (pathlib.Path(__file__).parents[2] / ".clang-format").read_text(), "src/a.cpp": "int a;\n"}
    if shutil.which(tidy.FORMATTER) is None:
        print(f"skipped: {tidy.FORMATTER} is not installed", file=sys.stderr)
        return 0
    assert findings(clean=clean, rule=tidy.check_format) == []
    found = findings({"src/b.cpp": "int  b ;\n", "include/by_hand.h": "int  b ;\n"}, clean, tidy.check_format)
    assert found == [f"src/b.cpp: not formatted: {tidy.FORMATTER} -i"], found
    return 1


def main():
    assert findings() == [], findings()
    planted = [*PLANTED, *violations_of_the_tables()]
    for name, content, part in planted:
        found = findings({name: content})
        assert any(f.startswith(name) and part in f for f in found), f"{name}: {content!r}: expected {part!r}, got {found}"
    for line in sum(BANNED_LINES, []):  # they are banned in these folders, not everywhere
        assert findings({"tests/planted.h": f"{SPDX}{line}\n"}) == [], line
    print(f"tidy finds each of {len(planted) + check_format()} planted violations and nothing in a clean tree")


if __name__ == "__main__":
    main()
