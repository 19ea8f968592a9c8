#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`inflight tokenize` as a user meets it: texts from the command line and standard input, published vocabularies, errors.
tokenize_test.py PROGRAM SOURCE_DIR SHARED_DATA"""
import json
import pathlib
import subprocess
import sys
import unittest

PROGRAM, SOURCE, DATA = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
GOLDEN = json.loads((SOURCE / "models/tinyworld/golden.json").read_text())


def run(*args, text=b""):
    return subprocess.run([PROGRAM, "tokenize", *map(str, args)], input=text, capture_output=True, timeout=120, check=False)


class Tokenize(unittest.TestCase):
    def json_of(self, *args, text=b""):
        done = run("--json", *args, text=text)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return json.loads(done.stdout)

    def bad(self, status, text, *args):
        done = run(*args)
        message = done.stderr.decode()
        self.assertEqual(done.returncode, status, message)
        self.assertRegex(message, r"\Ainflight: [^\n]+\n\Z")
        self.assertIn(text, message)

    def test_demo_model_is_the_default(self):
        for case in GOLDEN["cases"]:
            answer = self.json_of(text=case["prompt"].encode())
            self.assertEqual(answer["ids"], case["prompt_ids"])
            self.assertEqual(self.json_of("--", case["prompt"]), answer)
        self.assertEqual(self.json_of("Once upon")["pieces"], ["Once", " upon"])
        self.assertEqual(self.json_of(text=b""), {"ids": [], "pieces": []})

    def test_text_output(self):
        self.assertEqual(run("Once upon").stdout.decode(), '    466  "Once"\n    515  " upon"\n')

    def test_special_tokens(self):
        self.assertEqual(self.json_of("<|im_end|>")["ids"], [2])
        self.assertEqual("".join(self.json_of("<|im_end|>", "--no-parse-special")["pieces"]), "<|im_end|>")
        self.assertGreater(len(self.json_of("<|im_end|>", "--no-parse-special")["ids"]), 1)

    def test_any_bytes(self):
        answer = self.json_of(text=b"a\0\xff\xe5\x8a")
        self.assertEqual(answer["pieces"][1], "\0")
        self.assertIn("\ufffd", answer["pieces"])

    def test_published_vocabularies(self):
        if not (DATA / "vocab").exists():
            self.skipTest(f"needs {DATA}/vocab (set -DINFLIGHT_SHARED_DATA to its folder)")
        for name in ("gpt-2", "llama-spm", "falcon"):
            cases = (DATA / f"vocab/{name}.inp").read_bytes().split(b"\n__ggml_vocab_test__\n")
            expected = (DATA / f"vocab/{name}.out").read_text().splitlines()
            for case, line in list(zip(cases, expected))[-8:]:
                answer = self.json_of("-m", DATA / f"vocab/{name}.gguf", "--no-special", text=case)
                self.assertEqual(answer["ids"], [int(word) for word in line.split()], (name, case))
        self.assertEqual(self.json_of("-m", DATA / "vocab/llama-spm.gguf", "Hello")["ids"], [1, 15043])

    def test_errors(self):
        self.bad(1, "none.gguf: cannot open", "-m", "none.gguf", "x")
        self.bad(2, "see: inflight tokenize --help", "--frobnicate", "x")
        self.bad(2, "see: inflight tokenize --help", "x", "y")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
