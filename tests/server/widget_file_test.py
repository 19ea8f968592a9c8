#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""checklist 140: the page of what batching does as one file with the simulator in it (bench/widget): opened from disk,
without a server, it answers what `inflight sim` of this machine answers, every figure and every decision.
    widget_file_test.py PROGRAM WIDGET_HTML [unittest arguments];  exit 77 where Chromium or the file is absent."""
import json
import pathlib
import subprocess
import sys
import unittest

import chromium

PAGE = None  # set below
PANES = ("batching", "chunks", "prefixes", "preemption", "policies")
BATCH = {"workload": "lengths=50,60,400,80", "device": "unit", "max_num_seqs": 4}
BIMODAL = {"workload": "bimodal,requests=400,seed=7", "device": "unit", "max_num_seqs": 8, "timeline": "on"}
SPECS = [
    {**BATCH, "batching": "static"},
    {**BATCH, "batching": "continuous", "overlap": "off"},
    {**BIMODAL, "batching": "static"},
    {**BIMODAL, "batching": "continuous"},
    {"workload": "closed,requests=60,prompt=lognormal:100:0.6,output=lognormal:200:0.5", "device": "pocl-135m", "kv_blocks": 200,
     "max_num_seqs": 16, "policy": "lpm", "preempt_victim": "cheapest", "timeline": "on"},
    {"workload": "poisson,requests=300,rate=10,prompt=64,output=lognormal:100:1.0,tenants=4,tenant_skew=1", "device": "pocl-135m",
     "max_num_seqs": 16, "policy": "vtc", "evict": "s3fifo"},
]


class WidgetFile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = chromium.Chromium()
        cls.addClassCleanup(cls.browser.__exit__)

    def page_of(self, width=1180, dark=False):
        page = self.browser.open(PAGE.as_uri(), width, 2600, dark)
        page.wait(f"[...document.querySelectorAll('section')].filter(s => s.dataset.drawn).length === {len(PANES)}")
        return page

    def answer(self, page, spec):
        return json.loads(page.run(f"simulate({json.dumps(spec)}).then(JSON.stringify)"))

    def test_it_answers_what_the_program_answers(self):
        page = self.page_of()
        for spec in SPECS:
            flags = [text for key, value in spec.items() for text in ("--" + key.replace("_", "-"), str(value))]
            command = [chromium.PageTest.program, "sim", *flags, "--json"]
            native = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
            here = self.answer(page, spec)
            for answer in (native, here):  # of the clock, not of the run
                del answer["wall_s"], answer["simulated_requests_per_wall_second"]
            self.assertEqual(here, native, spec)
        fixed, continuous = (self.answer(page, {**BATCH, "batching": mode}) for mode in ("static", "continuous"))
        self.assertEqual((fixed["steps"], fixed["static_efficiency"]), (400, 0.36875))
        self.assertEqual(continuous["requests"], 4)

    def test_nothing_comes_from_elsewhere(self):
        page = self.page_of()
        self.assertEqual({url.split(":")[0] for url in page.requested()} - {"file", "blob", "data"}, set())
        self.assertEqual(page.complaints(), [])
        self.assertEqual(page.run("document.getElementById('where').textContent"), "in your browser")

    def test_what_is_wrong_is_said_and_the_next_run_works(self):
        page = self.page_of()
        message = page.run("simulate({workload: 'lengths=0'}).then(() => 'none', error => error.message)")
        flags = [chromium.PageTest.program, "sim", "--workload", "lengths=0"]
        self.assertIn(message, subprocess.run(flags, capture_output=True, text=True, check=False).stderr)
        self.assertEqual(self.answer(page, BATCH)["requests"], 4)


if __name__ == "__main__":
    if chromium.PROGRAM is None:
        print("skipped: no chromium on this machine (Debian: apt install chromium)")
        sys.exit(77)
    PAGE = pathlib.Path(sys.argv.pop(2)).resolve()
    if not PAGE.exists():
        print(f"skipped: {PAGE.name} is not built (cmake -DINFLIGHT_WIDGET=ON; scripts/packages.txt names the packages)")
        sys.exit(77)
    chromium.main()
