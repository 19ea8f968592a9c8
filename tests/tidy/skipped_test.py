#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/skipped after a ctest of programs that skip as GoogleTest, unittest and exit code 77 do.    skipped_test.py SOURCE"""
import pathlib
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(sys.argv[1]) / "scripts/skipped"
GOOGLETEST = """\
[ RUN      ] A.Passes
[       OK ] A.Passes (0 ms)
[ RUN      ] A.NeedsAFile
a_test.cpp:12: Skipped
needs a.gguf (set -DX)

[  SKIPPED ] A.NeedsAFile (0 ms)
[ RUN      ] All/B.Silent/0
a_test.cpp:20: Skipped

[  SKIPPED ] All/B.Silent/0 (1 ms)
[ RUN      ] All/B.NeedsAFile/1
a_test.cpp:12: Skipped
needs a.gguf (set -DX)

[  SKIPPED ] All/B.NeedsAFile/1 (0 ms)
[  PASSED  ] 1 test.
[  SKIPPED ] 3 tests, listed below:
[  SKIPPED ] A.NeedsAFile
[  SKIPPED ] All/B.Silent/0
[  SKIPPED ] All/B.NeedsAFile/1
"""
UNITTEST = """\
import unittest
class Tests(unittest.TestCase):
    def test_passes(self): pass
    def test_skips(self):
        "Its first line."
        self.skipTest("it isn't here")
    def test_needs(self): self.skipTest("needs a.gguf (set -DX)")
unittest.main(verbosity=2)
"""


def after(*tests):
    """What the script prints after a ctest of (name, interpreter, text of the program)."""
    with tempfile.TemporaryDirectory() as name:
        lines = []
        for number, (test, interpreter, text) in enumerate(tests):
            program = pathlib.Path(name, f"program{number}")
            program.write_text(text)
            lines += [f'add_test({test} "{interpreter}" "{program}")',
                      f"set_tests_properties({test} PROPERTIES SKIP_RETURN_CODE 77)"]
        pathlib.Path(name, "CTestTestfile.cmake").write_text("\n".join(lines) + "\n")
        subprocess.run(["ctest"], cwd=name, check=True, capture_output=True, timeout=60)
        return subprocess.run([SCRIPT, name], check=True, capture_output=True, text=True, timeout=60).stdout.splitlines()


def main():
    shell = f"cat <<'END'\n{GOOGLETEST}END\n"
    told = after(("unit", "/bin/sh", shell), ("python", sys.executable, UNITTEST),
                 ("whole", "/bin/sh", "echo 'skipped: no browser'; exit 77"), ("good", "/bin/sh", "echo fine"))
    assert told[0] == "6 tests skipped:", told
    assert told[1] == "    3 unit, python: needs a.gguf (set -DX)", told
    assert sorted(told[2:]) == ["    1 python: it isn't here", "    1 unit: no reason given", "    1 whole: no browser"], told
    assert after(("good", "/bin/sh", "echo fine")) == ["0 tests skipped"]
    never = subprocess.run([SCRIPT, "/nowhere"], capture_output=True, text=True, timeout=60)
    assert (never.returncode, never.stderr) == (
        1, "/nowhere/Testing/Temporary/LastTest.log: No such file or directory; ctest writes it\n"), never
    assert "usage: " in subprocess.run([SCRIPT, "--help"], check=True, capture_output=True, text=True, timeout=60).stdout


if __name__ == "__main__":
    main()
