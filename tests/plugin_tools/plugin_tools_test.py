#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A policy from `inflight plugin new` to a run, by somebody who has nothing but what is installed: a temporary prefix with
the header, inflight-plugin.pc and the CMake package; built both ways, in C and C++, of both kinds.
plugin_tools_test.py PROGRAM BUILD_FOLDER CMAKE"""
import csv
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import unittest

PROGRAM, BUILD, CMAKE = sys.argv[1:4]
REJECTS_LONG_PROMPTS = """
#include "inflight/plugin.hpp"
struct Short {
  static constexpr inflight::Policy kPolicy =
      inflight::sched_policy("test.short", "rejects prompts of more than 40 tokens")
          .by("tests", "1", "Apache-2.0")
          .reads(INFLIGHT_COLUMN_LENGTHS)
          .can(INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_REJECT);
  explicit Short(const inflight::SchedSetup&) {}
  inflight_plugin_status_t admit(const inflight_step_t& step, const inflight_candidate_t& candidate,
                                 inflight_admission_t& admission) {
    if (step.waiting->prompt_tokens[candidate.index] > 40) admission.decision = INFLIGHT_ADMIT_REJECT;
    return 0;
  }
};
INFLIGHT_EXPORT_POLICY(Short)
"""
VARIANTS = [(lang, kind) for lang in ("c", "cpp") for kind in ("schedule", "evict")]


def run(*command, cwd=None, **environment):
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=cwd, env={**os.environ, **environment})


class PluginTools(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.temporary.name)
        cls.prefix = cls.root / "prefix"
        done = run(CMAKE, "--install", BUILD, "--component", "plugin", "--prefix", str(cls.prefix))
        assert done.returncode == 0, done.stderr
        cls.pkg_config_path = str(next(cls.prefix.rglob("inflight-plugin.pc")).parent)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def good(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def new(self, name, lang, kind, into):
        self.good(run(PROGRAM, "plugin", "new", name, "--lang", lang, "--kind", kind, "--into", str(into)))
        left = [path.name for path in into.iterdir() if re.search(r"@\w+@", path.read_text())]
        self.assertEqual(left, [], "unfilled marks")

    def simulate(self, kind, plugin):
        option = "--evict" if kind == "evict" else "--policy"
        return json.loads(self.good(run(PROGRAM, "sim", option, str(plugin), "--workload", "multiturn,requests=60",
                                        "--kv-blocks", "400", "--json")))

    def test_every_variant_builds_with_make_and_runs(self):
        for lang, kind in VARIANTS:
            with self.subTest(lang=lang, kind=kind):
                name = f"made-{lang}-{kind}"
                folder = self.root / name
                self.new(name, lang, kind, folder)
                flags = "CFLAGS" if lang == "c" else "CXXFLAGS"
                built = self.good(run("make", f"{flags}=-O2 -Wall -Wextra -Werror", cwd=folder,
                                      PKG_CONFIG_PATH=self.pkg_config_path))
                self.assertIn("inflight-plugin", built)
                plugin = folder / f"{name}.ifp.so"
                self.assertEqual(self.simulate(kind, plugin)["requests"], 60)
                report = json.loads(self.good(run(PROGRAM, "plugin", "check", str(plugin), "--calls", "300", "--json")))
                self.assertEqual(report["failed"], 0)
                self.assertEqual({check["group"] for check in report["checks"]},
                                 {"file", "query", "create", "ops", "determinism", "time", "state", "liveness"})
                listed = self.good(run(PROGRAM, "plugin", "list", "--json", INFLIGHT_PLUGIN_PATH=str(folder)))
                entry = next(e for e in json.loads(listed)["policies"] if e["id"] == f"org.example.{name}")
                self.assertEqual(entry["kind"], "sched" if kind == "schedule" else "evict")
                self.assertEqual(pathlib.Path(entry["origin"]), plugin)

    def test_cmake_package_builds_and_installs(self):
        folder = self.root / "with-cmake"
        self.new("with-cmake", "cpp", "schedule", folder)
        build, target = folder / "build", self.root / "target"
        self.good(run(CMAKE, "-S", str(folder), "-B", str(build), f"-DCMAKE_PREFIX_PATH={self.prefix}",
                      "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror"))
        self.good(run(CMAKE, "--build", str(build)))
        self.good(run(CMAKE, "--install", str(build), "--prefix", str(target)))
        installed = list(target.rglob("with-cmake.ifp.so"))
        self.assertEqual(len(installed), 1)
        self.assertEqual(installed[0].parent.name, "plugins-1")
        self.simulate("schedule", installed[0])

    def test_pc_file_names_the_abi_and_moves_with_its_prefix(self):
        def variable(name):
            return self.good(run("pkg-config", f"--variable={name}", "inflight-plugin",
                                 PKG_CONFIG_PATH=self.pkg_config_path)).strip()

        header = (self.prefix / "include/inflight/plugin.h").read_text()
        for part in ("major", "minor"):
            self.assertEqual(variable(f"abi_{part}"), re.search(rf"ABI_{part.upper()} (\d+)u", header)[1])
        self.assertTrue(variable("plugindir").endswith("/inflight/plugins-1"))
        self.assertEqual(os.path.realpath(variable("includedir")), os.path.realpath(self.prefix / "include"))

    def test_new_refuses_what_it_cannot_name_or_would_overwrite(self):
        for name in ("", "My-Policy", "-x", "x-", "9x", "a" * 65, "a/b"):
            done = run(PROGRAM, "plugin", "new", name, cwd=self.root)
            self.assertEqual(done.returncode, 2, name)
            self.assertEqual(len(done.stderr.splitlines()), 1)
        (self.root / "taken").mkdir()
        done = run(PROGRAM, "plugin", "new", "taken", cwd=self.root)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is there already", done.stderr)

    def test_replay_compares_call_by_call(self):
        recording = self.root / "run.rec"
        self.good(run(PROGRAM, "sim", "--workload", "poisson,requests=300,rate=40", "--policy", "fcfs",
                      "--max-num-seqs", "4", "--record", str(recording)))
        own = json.loads(self.good(run(PROGRAM, "plugin", "replay", "fcfs", str(recording), "--json")))
        self.assertTrue(own["identical"])
        self.assertGreater(own["order"]["decisions"], 10)
        self.assertEqual(own["order"]["differing"], 0)
        other = json.loads(self.good(run(PROGRAM, "plugin", "replay", "random", str(recording), "--json")))
        self.assertTrue(other["identical"])  # it only watches
        self.assertGreater(other["order"]["differing"], 0)
        self.assertEqual(other["strikes"], 0)
        applied = json.loads(self.good(run(PROGRAM, "plugin", "replay", "random", str(recording), "--apply", "--json")))
        self.assertIn("difference", applied)
        hostile = str(pathlib.Path(BUILD) / "test-plugins" / "hostile.ifp.so")
        broken = json.loads(self.good(run(PROGRAM, "plugin", "replay", hostile + ":fault=segv,from=1", str(recording),
                                          "--json", INFLIGHT_REPORT_DIR=str(self.root))))
        self.assertIn("crashed with SIGSEGV", broken["fault"])
        self.assertTrue(broken["identical"])

    def test_rejected_requests_are_counted(self):
        """Who is rejected has ended, even where nobody else is left; simulated and live runs count alike."""
        source, plugin = self.root / "short.cpp", self.root / "short.ifp.so"
        source.write_text(REJECTS_LONG_PROMPTS)
        self.good(run("c++", "-std=c++17", "-shared", "-fPIC", "-fvisibility=hidden", "-I", str(self.prefix / "include"),
                      "-o", str(plugin), str(source)))
        self.good(run(PROGRAM, "plugin", "check", str(plugin), "--calls", "300"))
        table = self.root / "short.csv"
        for lengths, workload in (("10-80", "uniform,requests=40,output=5"), ("41", "poisson,rate=50,requests=5,output=5")):
            given = ["--workload", f"{workload},prompt={lengths}", "--policy", str(plugin), "--json"]
            simulated = json.loads(self.good(run(PROGRAM, "sim", *given, "--csv", str(table))))
            lines = list(csv.DictReader(table.read_text().splitlines()))
            for line in lines:
                self.assertEqual(line["finish_reason"] == "error", int(line["prompt_tokens"]) > 40)
            rejected = sum(line["finish_reason"] == "error" for line in lines)
            live = json.loads(self.good(run(PROGRAM, "bench", "workload", *given)))
            for counted in simulated, live:
                self.assertEqual((counted["requests"], counted["requests_rejected"]), (len(lines) - rejected, rejected))

    def test_an_op_that_would_be_left_out_does_not_compile(self):
        source, op = self.root / "twice.cpp", "  inflight_plugin_status_t admit("
        self.assertIn(op, REJECTS_LONG_PROMPTS)
        for other in ("  void admit(int) {}\n", " private:\n"):
            source.write_text(REJECTS_LONG_PROMPTS.replace(op, other + op))
            done = run("c++", "-std=c++17", "-fsyntax-only", "-I", str(self.prefix / "include"), str(source))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("the policy's admit is not one public function of that name", done.stderr)

    def test_check_fails_with_one_line_a_check(self):
        plugin = pathlib.Path(BUILD) / "test-plugins" / "hostile.ifp.so"
        done = run(PROGRAM, "plugin", "check", f"{plugin}:fault=segv", "--only", "ops", "--calls", "50")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"(?m)^FAILED  ops .*test.hostile: score\(\), call \d+: crashed with SIGSEGV$")
        self.assertEqual(len(done.stdout.splitlines()), 3)
        self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_check_takes_groups_and_a_member(self):
        plugin = pathlib.Path(BUILD) / "test-plugins" / "faulty_evict.ifp.so"
        for given in ([plugin, "--only", "file,state"], ["--only", "file,state", plugin, "--seed", "1"],
                      [plugin, "--only", "file", "--only", "state"]):
            report = json.loads(self.good(run(PROGRAM, "plugin", "check", "--json", *map(str, given))))
            self.assertEqual([check["group"] for check in report["checks"]], ["file", "file", "file", "state"])
        one = json.loads(self.good(run(PROGRAM, "plugin", "check", f"{plugin}#faulty-pick:fault=unwritten", "--only", "ops",
                                       "--calls", "50", "--json")))
        self.assertEqual(one["checks"][0]["message"], "50 steps, seed 1")
        done = run(PROGRAM, "plugin", "check", f"{plugin}#nosuch")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^\S*: .*faulty_evict.ifp.so holds no policy 'nosuch', but: faulty-rank, faulty-pick\n$")
        done = run(PROGRAM, "sim", "--workload", "closed", "--policy", str(plugin))
        self.assertTrue(done.stderr.endswith("faulty_evict.ifp.so holds no scheduling policy\n"), done.stderr)

    def test_a_full_disk_leaves_no_folder(self):
        folder = self.root / "full"

        def small_disk():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        done = subprocess.run([PROGRAM, "plugin", "new", "full", "--into", folder], capture_output=True, text=True, check=False,
                              preexec_fn=small_disk, restore_signals=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, f"inflight: {folder}/full.cpp: File too large\n")
        self.assertFalse(folder.exists())

    def test_lock_pins_files(self):
        folder = self.root / "locked"
        self.new("locked", "c", "schedule", folder)
        self.good(run("make", cwd=folder, PKG_CONFIG_PATH=self.pkg_config_path))
        plugin = folder / "locked.ifp.so"
        lock = self.root / "plugins.lock"
        line = self.good(run(PROGRAM, "plugin", "lock", str(plugin)))
        self.assertEqual(line.split(), [run("sha256sum", str(plugin)).stdout.split()[0], "org.example.locked"])
        others = [str(pathlib.Path(BUILD) / "plugins-1" / f"{name}.ifp.so") for name in ("fcfs", "lru")]
        lines = self.good(run(PROGRAM, "plugin", "lock", *others, str(plugin))).splitlines()
        self.assertEqual([each.split()[1] for each in lines], ["org.inflight.fcfs", "org.inflight.lru", "org.example.locked"])
        lock.write_text("require_lock = true\n" + line)
        simulate = (PROGRAM, "sim", "--policy", str(plugin), "--workload", "closed,requests=4")
        self.good(run(*simulate, INFLIGHT_PLUGINS_LOCK=str(lock)))
        self.good(run("make", "clean", cwd=folder))
        self.good(run("make", "CFLAGS=-O0 -DOTHER", cwd=folder, PKG_CONFIG_PATH=self.pkg_config_path))
        done = run(*simulate, INFLIGHT_PLUGINS_LOCK=str(lock))
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not what plugins.lock lists", done.stderr)


unittest.main(argv=sys.argv[:1], verbosity=2)
