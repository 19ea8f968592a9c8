#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/guard.py on programs whose times are known.    guard_test.py GUARD"""
import os
import stat
import subprocess
import sys
import tempfile
import unittest

GUARD = sys.argv[1]
PROGRAM = """#!{python}
import json, re, sys
pattern = [a.split("=", 1)[1] for a in sys.argv if a.startswith("--benchmark_filter=")][0]
assert "\\\\" not in pattern, "Google Benchmark takes no escaped slash"
times = {times}
count = {folder!r} + "/runs"
open(count, "a").write("x")
runs = len(open(count).read())
print(json.dumps({{"benchmarks": [{{"name": name, "cpu_time": time[min(runs, len(time)) - 1], "time_unit": "us"}}
                                 for name, time in times.items() if re.search(pattern, name)]}}))
"""


class Guard(unittest.TestCase):
    def guard(self, base, change, *args):
        with tempfile.TemporaryDirectory() as folder:
            programs = []
            for name, times in (("base", base), ("change", change)):
                own = os.path.join(folder, name)
                os.mkdir(own)
                path = os.path.join(own, "program")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(PROGRAM.format(python=sys.executable, times=times, folder=own))
                os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
                programs.append(path)
            return subprocess.run([sys.executable, GUARD, "--filter", ".", "--rounds", "2", "--programs", *programs, *args],
                                  capture_output=True, text=True, timeout=60)

    def test_equal_times_pass(self):
        done = self.guard({"BM_A/n:1": [10.0]}, {"BM_A/n:1": [10.4]})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("1.040", done.stdout)

    def test_a_slower_change_fails_and_is_named(self):
        done = self.guard({"BM_A/n:1": [10.0], "BM_B": [5.0]}, {"BM_A/n:1": [10.0], "BM_B": [5.5]})
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual([line for line in done.stdout.splitlines() if "SLOWER" in line],
                         [line for line in done.stdout.splitlines() if line.startswith("BM_B")])

    def test_the_threshold_is_obeyed(self):
        self.assertEqual(self.guard({"BM_B": [5.0]}, {"BM_B": [5.5]}, "--threshold", "1.2").returncode, 0)

    def test_a_disturbed_round_is_measured_again(self):
        # Slow in the first two rounds, fast in those that follow for benchmarks in doubt.
        done = self.guard({"BM_A": [10.0]}, {"BM_A": [20.0, 20.0, 10.0]})
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_nothing_in_common_is_no_success(self):
        done = self.guard({"BM_A": [10.0]}, {"BM_C": [10.0]})
        self.assertEqual(done.returncode, 2)
        self.assertIn("only in the base", done.stdout)
        self.assertIn("only in the change", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
