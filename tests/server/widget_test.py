#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page /widget in a real browser: sliders are moved, what is drawn is what `inflight sim` says for that position.
    widget_test.py PROGRAM [unittest arguments];  INFLIGHT_REPORT_DIR: screenshots go there. Exit 77 where Chromium is absent."""
import json
import re
import subprocess

import chromium

PANES = ("batching", "chunks", "prefixes", "preemption", "policies")
MOVE = "Object.assign(document.getElementById('{0}'), {{value: {1}}}).dispatchEvent(new Event('input'))"


def move(page, slider, value):
    """Moves a slider and waits until its pane is drawn again."""
    pane = slider.split("-")[0]
    drawn = page.run(f"Number(document.getElementById('{pane}').dataset.drawn)")
    page.run(MOVE.format(slider, value))
    page.wait(f"document.getElementById('{pane}').dataset.drawn > {drawn} && !document.querySelector('#{pane}.busy')")


def sim(*arguments):
    command = [chromium.PageTest.program, "sim", *map(str, arguments), "--json"]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


WRONG = "[...document.querySelectorAll('.wrong')].map(e => e.textContent).join('')"


class Widget(chromium.PageTest):
    def page_of(self, dark=False):
        """A page with every pane drawn; that nothing went wrong on it is checked here and when the test ends."""
        page = self.browser.open(f"http://127.0.0.1:{self.server.port}/widget", 1180, 2600, dark)
        page.wait(f"[...document.querySelectorAll('section')].filter(s => s.dataset.drawn).length === {len(PANES)} || {WRONG}")
        self.check(page)
        self.addCleanup(self.check, page)
        return page

    def check(self, page):
        self.assertEqual((page.run(WRONG), page.complaints()), ("", []))

    def test_it_loads_nothing_else(self):
        status, fields, body = self.server.request("GET", "/widget")
        self.assertEqual((status, fields.get_content_type()), (200, "text/html"))
        self.assertIn("default-src 'none'", fields["Content-Security-Policy"])
        self.assertEqual(re.findall(rb'(?:src|href)="(?!data:,")[^"]*"', body), [])
        self.page_of()

    def test_static_against_continuous_is_what_sim_says(self):
        page = self.page_of()
        for values in ({"share": 40, "slots": 4}, {"share": 0, "slots": 16}, {"share": 100, "requests": 16}):
            now = {"share": 20, "short": 50, "long": 400, "slots": 8, "requests": 48, **values}
            for key, value in now.items():
                page.run(MOVE.format("batching-" + key, value))
            move(page, "batching-rate", 0)
            shown = dict(zip(page.run("[...document.querySelectorAll('#batching .kpis span')].map(e => e.textContent)"),
                             page.run("[...document.querySelectorAll('#batching .kpis b')].map(e => e.textContent)")))
            work = f"closed,requests={now['requests']},prompt=8,output=mix:{1 - now['share'] / 100}:10-50:200-400"
            common = ("--workload", work, "--device", "unit", "--max-num-seqs", now["slots"], "--max-num-batched-tokens", 512,
                      "--max-batch-delay-ms", 1, "--overlap", "off")
            fixed, continuous = (sim(*common, "--batching", mode) for mode in ("static", "continuous"))
            self.assertEqual(shown["static cycles"], f"{fixed['steps']:,}")
            self.assertEqual(shown["continuous cycles"], f"{continuous['steps']:,}")
            self.assertEqual(shown["fill rate, continuous"], f"{100 * continuous['useful_slot_share']:.1f} %")
            self.assertEqual(shown["static η = mean/max"], f"{100 * fixed['static_efficiency']:.1f} %")
            self.assertEqual(shown["speedup"], f"{fixed['makespan_s'] / continuous['makespan_s']:.2f} ×")
            bars = page.run("[...document.querySelectorAll('#batching svg')].map(s => s.querySelectorAll('.held').length)")
            self.assertEqual(bars, [now["requests"]] * 2)

    def test_each_pane_follows_its_sliders(self):
        page = self.page_of()
        page.report("widget-light")
        cell = "Number(document.querySelector('#{0} tr:nth-child({1}) td:nth-child({2})').textContent.replaceAll(',', ''))"
        move(page, "chunks-budget", 0)
        small = page.run(cell.format("chunks", 2, 5))
        move(page, "chunks-budget", 6)
        self.assertGreater(page.run(cell.format("chunks", 2, 5)), 3 * small)  # p99 ITL, 64 against 4,096 tokens a step
        move(page, "prefixes-blocks", 0)
        hits = page.run(cell.format("prefixes", 3, 2))
        move(page, "prefixes-blocks", 4)
        self.assertGreater(page.run(cell.format("prefixes", 3, 2)), hits)
        move(page, "preemption-blocks", 150)
        self.assertGreater(page.run(cell.format("preemption", 2, 2)), 0)
        self.assertGreater(page.run("document.querySelectorAll('#preemption .thrown').length"), 0)
        move(page, "preemption-blocks", 1000)
        self.assertEqual(page.run(cell.format("preemption", 2, 2)), 0)
        move(page, "policies-rate", 14)
        fcfs, sjf = (page.run(cell.format("policies", row, 2)) for row in (2, 3))
        self.assertGreater(fcfs, sjf)
        self.page_of(dark=True).report("widget-dark")


if __name__ == "__main__":
    chromium.main()
