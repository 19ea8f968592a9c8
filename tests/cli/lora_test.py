#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""LoRA adapters on the command line: answers change, a recorded run with adapters replays, mistakes are named in one line.
    lora_test.py PROGRAM SOURCE"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
MODEL = SOURCE / "models/tinyworld/tinyworld-f16.gguf"
sys.path.insert(0, str(SOURCE / "tests/support"))
sys.dont_write_bytecode = True
from write_adapter import write_adapter  # noqa: E402


def run(*args):
    return subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, timeout=300)


class Lora(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.files = [pathlib.Path(cls.folder.name, name) for name in ("a.gguf", "b.gguf")]
        write_adapter(PROGRAM, MODEL, cls.files[0], rank=4, seed=1)
        write_adapter(PROGRAM, MODEL, cls.files[1], rank=20, seed=2)

    def answer(self, *args):
        done = run("run", "-m", MODEL, "--prompt-ids", "1,50,60,70", "-n", "16", "--ignore-eos", "--json", *args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["outputs"][0]["token_ids"]

    def test_run(self):
        a, b = self.files
        plain, one, other = self.answer(), self.answer("--lora", f"a={a}"), self.answer("--lora", f"b={b}")
        self.assertEqual(len({tuple(plain), tuple(one), tuple(other)}), 3)
        both = ("--lora", f"a={a}", "--lora", f"b={b}")
        self.assertEqual(self.answer(*both), plain)
        self.assertEqual(self.answer(*both, "--lora-name", "b"), other)

    def bad(self, text, *args):
        done = run("run", "-m", MODEL, "-p", "x", *args)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(text, done.stderr)

    def test_mistakes_are_named(self):
        a, b = self.files
        self.bad("lora_modules has 'a.gguf', allowed: NAME=FILE", "--lora", "a.gguf")
        self.bad("nowhere.gguf", "--lora", "a=nowhere.gguf")
        self.bad("key 'general.type' is missing", "--lora", f"a={MODEL}")
        self.bad("has rank 20, allowed: 1 to 8 (max_lora_rank)", "--lora", f"b={b}", "--max-lora-rank", "8")
        self.bad("adapter 'a' is loaded already", "--lora", f"a={a}", "--lora", f"a={b}")
        self.bad("there is no adapter 'c', loaded: a", "--lora", f"a={a}", "--lora-name", "c")
        self.bad("--lora-name is 'c', allowed: the NAME of a --lora NAME=FILE, found none", "--lora-name", "c")

    # A recording carries who runs with what: the gate decides the same way in the replay.
    def test_a_recorded_run_replays(self):
        a, b = self.files
        trace = pathlib.Path(self.folder.name, "run.trace")
        done = run("bench", "workload", "-m", MODEL, "--workload", "poisson,requests=24,adapters=2,rate=1000,prompt=30,output=10",
                   "--lora", f"a={a}", "--lora", f"b={b}", "--max-loras", "1", "--record", trace)
        self.assertEqual(done.returncode, 0, done.stderr)
        replayed = run("replay", trace)
        self.assertEqual(replayed.returncode, 0, replayed.stdout + replayed.stderr)
        reasons = "".join(run("explain", trace, request).stdout for request in range(1, 25))
        self.assertIn("NO_ADAPTER: max_loras other adapters run", reasons)
        none = run("bench", "workload", "-m", MODEL, "--workload", "poisson,requests=4,adapters=2,prompt=30,output=10")
        self.assertNotEqual(none.returncode, 0)
        self.assertIn("but none is loaded: --lora NAME=FILE", none.stderr)


unittest.main()
