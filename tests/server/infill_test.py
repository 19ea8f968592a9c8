#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Insertions (fill in the middle): 'suffix' of /v1/completions and `inflight run --suffix`. The demo model gets the marks that
Qwen 2.5 Coder has, by name; the truth is what the same server says to the prompt with the marks written out.
    infill_test.py PROGRAM [unittest arguments]"""
import contextlib
import json
import subprocess
import sys
import tempfile
import unittest

from control_tokens import DEMO, with_control_tokens
from server_process import Server

PROGRAM = sys.argv.pop(1)
MARKS = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"]
BEFORE, BEHIND = "One day, a little girl named ", " was happy. The end."
GREEDY = {"max_tokens": 12, "temperature": 0, "ignore_eos": True, "return_token_ids": True}


def written_out(before, behind):
    return MARKS[0] + before + MARKS[1] + behind + MARKS[2]


class Infill(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        data, cls.ids = with_control_tokens(MARKS)
        kept = contextlib.ExitStack()
        cls.addClassCleanup(kept.close)
        cls.file = kept.enter_context(tempfile.NamedTemporaryFile(suffix=".gguf"))
        cls.file.write(data)
        cls.file.flush()
        cls.server = kept.enter_context(Server(PROGRAM, "-m", cls.file.name))
        cls.server.expect_described()

    def complete(self, prompt, **more):
        answer = self.server.post("/v1/completions", {"prompt": prompt, **GREEDY, **more})
        return answer["choices"]

    def test_the_marks_stand_around_the_texts(self):
        for before, behind in ((BEFORE, BEHIND), ("", BEHIND), (BEFORE, ""), ("", ""), ("\u00e9\n", "\t\u4e16")):
            inserted, = self.complete(before, suffix=behind)
            plain, = self.complete(written_out(before, behind))
            self.assertEqual([token for token in inserted["prompt_token_ids"] if token in self.ids.values()],
                             list(self.ids.values()))
            self.assertEqual(inserted, plain)
        self.assertNotEqual(self.complete(BEFORE, suffix=BEHIND)[0]["token_ids"], self.complete(BEFORE)[0]["token_ids"])

    def test_several_prompts_share_a_suffix(self):
        prompts = [BEFORE, "Once upon a time"]
        choices = self.complete(prompts, suffix=BEHIND)
        self.assertEqual([choice["text"] for choice in choices],
                         [self.complete(prompt, suffix=BEHIND)[0]["text"] for prompt in prompts])
        echoed = self.complete(BEFORE, suffix=BEHIND, echo=True)[0]
        self.assertEqual(echoed["text"], BEFORE + choices[0]["text"])
        events = self.server.stream("/v1/completions", {"prompt": BEFORE, "suffix": BEHIND, **GREEDY})
        self.assertEqual("".join(choice["text"] for event in events for choice in event["choices"]), choices[0]["text"])

    def test_texts_have_no_marks_of_their_own(self):
        for text in ("x = '<|im_end|>'", MARKS[2]):
            ids = self.complete(text, suffix=text)[0]["prompt_token_ids"]
            self.assertEqual([token for token in ids if token in (*self.ids.values(), 0, 1, 2)], list(self.ids.values()))

    def test_the_command(self):
        inserted = self.complete(BEFORE, suffix=BEHIND)[0]
        run = [PROGRAM, "run", "-m", self.file.name, "-p", BEFORE, "--suffix", BEHIND, "--max-tokens", "12", "--temperature",
               "0", "--ignore-eos"]
        told = subprocess.run([*run, "--json"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(json.loads(told)["outputs"][0]["token_ids"], inserted["token_ids"])
        shown = subprocess.run(run, capture_output=True, text=True, check=True).stdout
        self.assertEqual(shown, BEFORE + inserted["text"] + BEHIND + "\n")

    def test_models_without_marks(self):
        with Server(PROGRAM, "-m", str(DEMO)) as server:
            status, _, answer = server.request("POST", "/v1/completions", {"prompt": "x", "suffix": "y"})
        self.assertEqual((status, answer["error"]["param"]), (400, "suffix"))
        self.assertEqual(answer["error"]["message"],
                         "the model's vocabulary has no tokens that mark an insertion (fim_prefix)")
        run = subprocess.run([PROGRAM, "run", "-p", "x", "--suffix", "y"], capture_output=True, text=True)
        self.assertEqual((run.returncode != 0, run.stdout), (True, ""))
        self.assertIn("no tokens that mark an insertion", run.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
