#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--config and --print-config: where each value comes from, a printed file gives the same values again, one clear line for
every mistake, and the engine runs with what the file says.    config_test.py PROGRAM"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import tomllib
import unittest

PROGRAM = sys.argv[1]


def run(*args, **environment):
    return subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **environment})


class Config(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name, "serve.toml")

    def printed(self, *args, **environment):
        """{option: (value or None, source)}"""
        done = run("serve", *args, "--print-config", **environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        settings, source = {}, ""
        for line in done.stdout.splitlines()[1:]:
            if line.startswith("# ") and " = " in line:
                settings[line[2:].split(" = ")[0]] = (None, line.rsplit("# ", 1)[1])
            elif line.startswith("# "):
                source = line[2:]
            else:
                settings[line.split(" = ")[0]] = (*tomllib.loads(line).values(), source)
        return settings, done.stdout

    def bad(self, text, *args):
        done = run("run", "-p", "x", *args)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(text, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    # checklist 142
    def test_every_value_says_where_it_comes_from(self):
        self.path.write_text('# ours\nmax-num-seqs = 8\npolicy = "lpm"\ncors-origin = ["http://a", "http://b"]\n'
                             'enable-mixed-chunk = true\nport = 9000\n')
        settings, text = self.printed("--config", self.path, "--port", 9001, "--api-key", "hush", INFLIGHT_DEVICE="0")
        self.assertEqual(settings["max-num-seqs"], (8, "file"))
        self.assertEqual(settings["policy"], ("lpm", "file"))
        self.assertEqual(settings["cors-origin"], (["http://a", "http://b"], "file"))
        self.assertEqual(settings["enable-mixed-chunk"], (True, "file"))
        self.assertEqual(settings["port"], (9001, "flag"))
        self.assertEqual(settings["device"], (0, "env"))
        self.assertEqual(settings["block-size"], (None, "default since 0.1.0"))
        self.assertNotIn("hush", text)

    def test_a_key_is_told_of_but_not_shown(self):
        self.path.write_text('api-key = ["hush", "hash"]\n')
        for source, arguments, environment in (("env", (), {"INFLIGHT_API_KEY": "hush, hash"}),
                                               ("env", ("--config", self.path), {"INFLIGHT_API_KEY": "hush"}),
                                               ("flag", ("--api-key", "hush"), {"INFLIGHT_API_KEY": "hash"}),
                                               ("file", ("--config", self.path), {})):
            _, text = self.printed(*arguments, **environment)
            self.assertIn(f"# api-key is given by {source}, not shown\n", text)
            self.assertNotIn("ush", text)
        self.assertEqual(self.printed(INFLIGHT_API_KEY="")[0]["api-key"], (None, "default since 0.1.0"))

    def test_what_is_printed_can_be_read_again(self):
        arguments = ("--max-num-seqs", 5, "--policy", "hrrn", "--cors-origin", "*", "--kv-headroom", 0.25, "--overlap", "off",
                     "--served-model-name", 'a "b" \\c')
        settings, text = self.printed(*arguments)
        self.path.write_text(text)
        again, _ = self.printed("--config", self.path)
        self.assertEqual({name: value for name, (value, _) in again.items()},
                         {name: value for name, (value, _) in settings.items()})

    def test_texts_are_what_stands_between_the_quotes(self):
        self.path.write_text('served-model-name = ["a#1", "[b,c]", \'d"\\\']\n'
                             'cors-origin = [\n  "http://a",  # ours\n  "http://b",\n]\n')
        settings, _ = self.printed("--config", self.path)
        self.assertEqual(settings["cors-origin"], (["http://a", "http://b"], "file"))
        self.assertEqual(settings["served-model-name"][0], ["a#1", "[b,c]", 'd"\\'])

    def test_other_names_and_a_switch_alone(self):
        settings, _ = self.printed("--chunk", 64, "--max-queued-requests", 3, "--overlap", "--enable-prefix-caching", "off",
                                   "--deterministic")
        self.assertEqual(settings["max-prefill-tokens"], (64, "flag"))
        self.assertEqual(settings["max-num-queued-reqs"], (3, "flag"))
        self.assertEqual(settings["overlap"], ("on", "flag"))
        self.assertEqual(settings["prefix-caching"], ("off", "flag"))
        self.assertEqual(settings["deterministic"], ("on", "flag"))
        self.bad("--overlap", "--overlap", "sometimes")

    def test_true_and_false_are_on_and_off_of_what_is_one_of_these(self):
        self.path.write_text("overlap = false\nprefix-caching = true\nenable-mixed-chunk = true\n")
        settings, _ = self.printed("--config", self.path)
        self.assertEqual([settings[name][0] for name in ("overlap", "prefix-caching", "enable-mixed-chunk")], ["off", "on", True])

    def test_a_command_of_a_command_is_told_whole(self):
        self.assertRegex(run("bench", "latency", "--print-config").stdout, "^# inflight bench latency ")
        self.path.write_text("colour = 1\n")
        self.assertIn("see: inflight bench latency --print-config\n", run("bench", "latency", "--config", self.path).stderr)

    def test_the_engine_runs_with_what_the_file_says(self):
        self.path.write_text("max-model-len = 16\n")
        ask = ("run", "--config", self.path, "-p", "Once", "-n", 20, "--ignore-eos", "--json")
        short, whole = (json.loads(run(*arguments).stdout)["outputs"][0] for arguments in (ask, (*ask, "--max-model-len", 64)))
        self.assertEqual(short["prompt_tokens"] + len(short["token_ids"]), 16)
        self.assertEqual(len(whole["token_ids"]), 20)

    def test_mistakes_get_one_line(self):
        for text, message in [("max_num_seqs = 8\n", "'max_num_seqs' is no option of run"),
                              ("[run]\nmax-num-seqs = 8\n", "is no option of run"),
                              ('max-num-seqs = "many"\n', "max-num-seqs"), ('overlap = "maybe"\n', "overlap"),
                              ("max-num-seqs = [1, 2]\n", "max-num-seqs: At Most 1"),
                              ("max-num-seqs = 1\nmax-num-seqs = 2\n", "redefine existing integer 'max-num-seqs'"),
                              ("max-num-seqs = 1979-05-27\n", "max-num-seqs is no text, number, true or false"),
                              ('config = "x"\n', "'config' is no option"), ("block-size\n", "serve.toml:1: no TOML"),
                              ("overlap = on\n", "texts stand in quotes"), ('overlap = "on\n', "serve.toml:1: no TOML")]:
            self.path.write_text(text)
            with self.subTest(text=text):
                self.bad(message, "--config", self.path)
        for path, message in (("nowhere.toml", "No such file or directory"), (self.folder.name, "Is a directory")):
            done = run("serve", "--config", path, "--port", 0)
            self.assertEqual((done.returncode, done.stderr), (1, f"inflight: {path}: {message}\n"))

    def test_an_empty_text_is_not_the_default(self):
        for command, option in (("serve", "--host"), ("serve", "--uds"), ("run", "--model"), ("run", "--device"),
                                ("run", "--policy"), ("run", "--evict")):
            done = run(command, option, "")
            self.assertEqual(done.returncode, 2, option)
            self.assertIn(f"{option}: is empty", done.stderr.replace("--policy,--schedule-policy", "--policy"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
