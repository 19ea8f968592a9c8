#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/SERVER.md and the Grafana board against a running server: the curl lines work, the metrics exist.
    docs_test.py PROGRAM SOURCE"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from server_process import Server

PROGRAM, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
MANUAL = (SOURCE / "docs/SERVER.md").read_text()


def setUpModule():
    global server
    server = Server(PROGRAM, "--classifier-from-token", "he,yes")


def tearDownModule():
    server.__exit__()


class Manual(unittest.TestCase):
    def test_curl_lines(self):
        if shutil.which("curl") is None:
            self.skipTest("curl is not installed")
        blocks = re.findall(r"```sh\n(.*?)```", MANUAL, re.S)
        lines = [line for block in blocks for line in re.split(r"\n(?=curl)", block.strip()) if line.startswith("curl")]
        self.assertGreater(len(lines), 12)
        for line in lines:
            command = line.replace("127.0.0.1:8000", f"127.0.0.1:{server.port}")
            command = command.replace("curl ", "curl --silent --show-error --fail-with-body ", 1)
            done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, (line, done.stdout, done.stderr))
            if "-N" in line:
                self.assertTrue(done.stdout.endswith("data: [DONE]\n\n"), line)
            elif "/metrics" not in line:
                json.loads(done.stdout)

    def test_every_endpoint_is_described(self):
        _, _, description = server.request("GET", "/openapi.json")
        for path in description["paths"]:
            self.assertRegex(MANUAL, rf"`(GET|POST) {re.escape(path)}[`?/]", path)

    def test_every_option_exists(self):
        known = subprocess.run([PROGRAM, "serve", "--help"], capture_output=True, text=True, check=True).stdout
        table = re.search(r"## Options\n(.*?)\n## ", MANUAL, re.S)[1]
        named = set(re.findall(r"`(--[a-z-]+)`", table))
        for option in named:
            self.assertRegex(known, rf"{option}[\s,]")
        own = re.search(r"Server:\n(.*?)\n\n", known, re.S)[1]
        self.assertEqual(set(re.findall(r"^  (--[a-z-]+)", own, re.M)) - named, set())


class Grafana(unittest.TestCase):
    def test_its_metrics_exist(self):
        server.post("/v1/completions", {"prompt": "Once", "max_tokens": 4})
        _, _, text = server.request("GET", "/metrics")
        samples = set(re.findall(r"^([a-z0-9_:]+)[{ ]", text.decode(), re.M))
        board = json.loads((SOURCE / "docs/grafana/inflight.json").read_text())
        expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
        self.assertGreater(len(expressions), 20)
        for expression in expressions:
            names = re.findall(r"inflight_[a-z_0-9]+", expression)
            self.assertTrue(names, expression)
            for name in names:
                self.assertIn(name, samples, expression)
            for label in re.findall(r"by \(([a-z_]+)\)", expression):
                self.assertRegex(text.decode(), rf'{names[0]}\{{[^}}]*\b{label}="')

    def test_its_panels_do_not_overlap(self):
        board = json.loads((SOURCE / "docs/grafana/inflight.json").read_text())
        taken = set()
        for panel in board["panels"]:
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            self.assertFalse(cells & taken, panel["title"])
            self.assertLessEqual(at["x"] + at["w"], 24)
            taken |= cells


if __name__ == "__main__":
    unittest.main(verbosity=2)
