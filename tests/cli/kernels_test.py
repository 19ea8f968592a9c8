#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`inflight tune` and `inflight bench kernels`: their JSON, their consistency, their errors.    kernels_test.py PROGRAM SOURCE"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv[1]
DEMO = pathlib.Path(sys.argv[2]) / "models/tinyworld/tinyworld-q8_0.gguf"


# environment: variables set on top, None: unset.
def run(*args, **environment):
    variables = {**os.environ, **environment}
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=300,
                          env={name: value for name, value in variables.items() if value is not None})


class Kernels(unittest.TestCase):
    def test_tune_finds_a_right_kernel_and_keeps_it(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("tune", "--json", "--clblast-sets", "1", INFLIGHT_CACHE_DIR=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            found = json.loads(done.stdout)
            states = {entry["kernel"]: entry["state"] for entry in found["linear"]}
            self.assertEqual(states["linear.cl"], "good")
            self.assertEqual(states[found["chosen"]], "good")
            clblast = found.get("clblast")  # absent where it is not installed
            if clblast is not None:
                self.assertEqual((clblast["state"], clblast["sets_tried"], clblast["sets_bad"]), ("good", 1, 0), clblast)
                self.assertEqual(clblast["from_rows"] > 0, clblast["gflops"] > 1.1 * clblast["panel_gflops"])
            bench = run("bench", "kernels", "--json", "--rows", "1,3", "--types", "q4_0", "--depth", "64", "--outputs", "20",
                        "--layers", "0", INFLIGHT_CACHE_DIR=folder)
            self.assertEqual(bench.returncode, 0, bench.stderr)
            self.assertEqual(json.loads(bench.stdout)["kernel"], found["chosen"])

    def test_tune_says_that_nothing_can_be_kept(self):
        done = run("tune", "--clblast-sets", "0", INFLIGHT_CACHE_DIR=__file__)
        self.assertEqual(done.returncode, 1)
        self.assertIn("INFLIGHT_CACHE_DIR", done.stderr.splitlines()[-1])

    def test_kernels_are_compiled_once(self):
        def pocl(**environment):
            devices = json.loads(run("devices", "--json", **environment).stdout)["devices"]
            return next((device for device in devices if device["platform"] == "Portable Computing Language"), None)

        found = pocl()
        if found is None:
            self.skipTest("no device of PoCL")

        def compiled(gigabytes):  # what is there after a run on a machine of so much memory
            of_device = {"POCL_MEMORY_LIMIT": gigabytes, "INFLIGHT_DEVICE": str(found["index"])}
            largest = pocl(**of_device)["allocation_bytes_max"]
            done = run("run", "-m", DEMO, "-p", "Anna", "-n", "3", "--kv-blocks", "64", INFLIGHT_CACHE_DIR=folder,
                       POCL_CACHE_DIR=folder, POCL_WORK_GROUP_SPECIALIZATION=None, **of_device)
            self.assertEqual(done.returncode, 0, done.stderr)
            return largest, set(pathlib.Path(folder).rglob("*.so"))

        with tempfile.TemporaryDirectory() as folder:
            (little, first), (much, second) = compiled("2"), compiled("8")
        self.assertLess(little, much)
        self.assertEqual(second, first)
        self.assertEqual({path.parent.name for path in first}, {"0-0-0"})  # of any size of work-group

    def test_figures_are_consistent(self):
        done = run("bench", "kernels", "--json", "--rows", "1,40", "--repeat", "3", "--depth", "256", "--outputs", "512",
                   "--layers", "2", "--contexts", "70", "--stage-rows", "1,70", "--heads", "4", "--kv-heads", "2",
                   "--head-size", "32")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual([(entry["type"], entry["rows"]) for entry in found["linear"]],
                         [(kind, rows) for kind in ("Q8_0", "Q4_0", "F16") for rows in (1, 40)])
        for entry in found["linear"]:
            seconds = entry["median_us"] * 1e-6
            self.assertAlmostEqual(entry["gflops"] * seconds, 2e-9 * 256 * 512 * entry["rows"], delta=1e-9)
            self.assertGreaterEqual(entry["median_us"], entry["fastest_us"])
            peak = found["peak_fma_gflops"] if entry["type"] == "F16" or not found["peak_int8_gops"] else found["peak_int8_gops"]
            self.assertAlmostEqual(entry["peak_fraction"] * peak, entry["gflops"], delta=1e-6 * peak)
            self.assertLess(entry["peak_fraction"], 10)  # a wrong unit: minutes of a shared machine differ, but not so much
        stages = {(entry["stage"], entry["kv_cache_dtype"], entry["rows"]): entry for entry in found["stages"]}
        self.assertEqual(len(stages), 7 * 3 * 2)
        for kind, head_bytes in (("f16", 64), ("i16", 68), ("q8_0", 34)):
            for rows, pairs in ((1, 70), (70, 70 * 71 / 2)):
                entry = stages["attention", kind, rows]
                seconds = entry["median_us"] * 1e-6
                bytes_moved = 70 * 2 * 2 * head_bytes + rows * 4 * 32 * 8  # K and V of 2 heads; queries and what came out
                self.assertAlmostEqual(entry["gb_per_second"] * seconds * 1e9, bytes_moved, delta=1)
                self.assertAlmostEqual(entry["gflops"] * seconds * 1e9, 4 * 4 * 32 * pairs, delta=1)
                self.assertAlmostEqual(entry["peak_fraction"] * found["peak_fma_gflops"], entry["gflops"], delta=1e-6)

    def test_wrong_use_is_told(self):
        for args, word in ((["--types", "q9_9"], "q9_9"), (["--depth", "33"], "32"), (["--rows", "0"], "rows"),
                           (["--kernel", "nosuch.cl"], "nosuch.cl"), (["--kernel", "rows.cl"], "linear.cl"),
                           (["--types", "Q6_K", "--depth", "32"], "256"), (["--kv-cache-dtypes", "q3"], "q3"),
                           (["--head-size", "48"], "32"),
                           (["--heads", "6", "--kv-heads", "4"], "--kv-heads")):
            done = run("bench", "kernels", *args)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(word, done.stderr)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
