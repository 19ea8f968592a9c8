#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What docs/TUNING.md, PLUGINS.md and the README say about flags, defaults, the environment and policies, against the program,
the C header and the sources.    manual_test.py PROGRAM SOURCE"""
import json
import pathlib
import re
import subprocess
import sys
import unittest

PROGRAM, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
MANUAL = (SOURCE / "docs/TUNING.md").read_text()
WITH_ENGINE = ("run", "serve", "bench latency", "bench throughput", "bench workload", "calibrate")


def run(*args):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, check=True, timeout=60).stdout


def options_of(text):
    """{option: its lines} of a --help, short names too."""
    found = {}
    for names, rest in re.findall(r"^  (-[^ \n]+)(.*(?:\n {20,}.*)*)", text, re.M):
        found.update(dict.fromkeys(names.split(","), rest))
    return found


def table_below(heading, page=MANUAL):
    """The cells of each row of the first table behind a line."""
    table = re.search(r"^\|---.*\n((?:\|.*\n)+)", page[page.index(heading):], re.M)[1]
    return [[cell.strip() for cell in line[1:-1].split(" | ")] for line in table.splitlines()]


def quoted(cell, pattern):
    return set(re.findall(rf"`({pattern})`", cell))


class Knobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rows = table_below("# Tuning")
        cls.flags = set().union(*(quoted(row[1], "--?[a-z-]+") for row in cls.rows))

    def test_the_flags_are_those_of_every_command_with_an_engine(self):
        text = run("serve", "--help")
        engine = {name for group in ("Engine", "Scheduling", "Service")
                  for name in options_of(re.search(rf"^{group}:\n(.*?)\n\n", text + "\n", re.M | re.S)[1])}
        self.assertGreater(len(engine), 40)
        self.assertEqual(self.flags, engine)
        for command in WITH_ENGINE:
            self.assertEqual(engine - options_of(run(*command.split(), "--help")).keys(), set(), command)
            self.assertIn(f"`{command}`", MANUAL)

    def test_the_knobs_are_the_fields_of_the_c_header(self):
        header = (SOURCE / "include/inflight/inflight.h").read_text()
        struct = re.search(r"typedef struct inflight_engine_params \{(.*?)\} inflight_engine_params_t;", header, re.S)[1]
        struct = re.sub(r"/\*.*?\*/", "", struct, flags=re.S)
        fields = [name for name in re.findall(r"(\w+)(?:\[\d+\])?;", struct) if not re.match(r"struct_size|reserved", name)]
        knobs = [name for row in self.rows for name in re.findall(r"`(\w+)`", row[0].split("[")[0])]
        self.assertEqual(sorted(knobs), sorted(fields))

    def test_every_flag_is_its_knobs(self):
        """So many letters of the knob's name as the flag has, where it is no short name of vLLM, SGLang or this program."""
        other = {"-m", "--chunk", "--chunked-prefill-size", "--evict", "--lora", "--policy", "--max-queued-requests", "--record"}
        for knob, flags, *_ in self.rows:
            for flag in quoted(flags, "--?[a-z-]+") - other:
                self.assertIn(flag[2:].replace("-", "_"), knob)

    def test_the_simulators_defaults(self):
        options = options_of(run("sim", "--help"))
        for knob, flags, simulated, *_ in self.rows:
            own = [options[flag] for flag in quoted(flags, "--[a-z-]+") if flag in options]
            if simulated.startswith(("-", "another meaning")) or flags == "`--record`":
                self.assertFalse(own and simulated.startswith("-"), (knob, own))
                continue
            self.assertTrue(own, knob)
            default = re.search(r"\[([^\[\]]*)\]\s*$", own[0])
            self.assertEqual(re.split("[;:]", simulated)[0], default[1] if default else "none", knob)

    def test_every_option_of_the_simulators_runs_stands_on_the_page(self):
        keys = options_of(run("sim", "--help")).keys() & options_of(run("tune-limits", "--help")).keys()
        named = set(re.findall(r"`(--[a-z-]+)`", MANUAL))
        self.assertEqual(keys - named, {"-h", "--help", "--json"})


class Answers(unittest.TestCase):
    def test_every_option_of_an_answer_stands_on_the_page(self):
        answer = options_of(re.search(r"^Answer:\n(.*)", run("run", "--help"), re.M | re.S)[1]).keys()
        self.assertGreater(len(answer), 30)
        told = set().union(*(quoted(row[0], "--?[a-z-]+") for row in table_below("## A request's own options")))
        self.assertEqual(told, answer)


class Environment(unittest.TestCase):
    def test_the_variables_are_those_that_are_read_or_set(self):
        files = [path for folder in ("src", "bindings_c") for path in (SOURCE / folder).rglob("*")]
        read = {name for path in files if path.suffix in {".cpp", ".py"}
                for name in re.findall(r'(?:(?:getenv|(?<!un)setenv|variable|envname|environ\.get)\(|Variable = )"([A-Z_]+)"',
                                       path.read_text())}
        told = set().union(*(quoted(row[0], "[A-Z_]+") for row in table_below("## The environment")))
        self.assertGreater(len(read), 10)
        self.assertEqual(told - {"POCL_CACHE_DIR", "PATH"}, read)


class Policies(unittest.TestCase):
    def test_those_that_ship_are_told(self):
        shipped = [entry for entry in json.loads(run("plugin", "list", "--json"))["policies"] if entry["origin"] == "built in"]
        page = (SOURCE / "docs/PLUGINS.md").read_text()
        told = [table_below(heading, page) for heading in ("Scheduling policies:", "Eviction strategies:")]
        for kind, rows in zip(("sched", "evict"), told):
            self.assertEqual(rows, [[f"`{entry['name']}`", entry["summary"],
                                     ", ".join(f"`{one['key']}` [{one['default']}]" for one in entry["parameters"])]
                                    for entry in shipped if entry["kind"] == kind])
        told = re.search(r"(\d+)\s+ship with it", (SOURCE / "README.md").read_text())
        self.assertEqual(int(told[1]), len(shipped))
        self.assertEqual(len(shipped), len(list((SOURCE / "plugins").glob("*.c*"))) - 1)  # builtin_policies.cpp.in


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
