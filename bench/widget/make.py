#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The interactive page, static against continuous batching and four more panes:  make.py OUTPUT.html

Every position of the sliders is a run of the real scheduler (`inflight sim`); the page holds the results and needs nothing
else. INFLIGHT names the program, else build/release/bin/inflight."""

import concurrent.futures
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = os.environ.get("INFLIGHT", str(HERE.parents[1] / "build/release/bin/inflight"))
KEPT = (
    "steps",
    "useful_slot_share",
    "static_efficiency",
    "static_cycles",
    "makespan_s",
    "output_tokens_per_second",
    "ttft_ms",
    "itl_ms",
    "e2e_ms",
    "preemptions",
    "recompute_tax",
    "prefix_hit_rate",
    "kv_usage_mean",
    "fairness",
    "backlog_slot_share",
)


def run(options, timeline=False):
    """The result's figures, and [row, begin, end] of each sequence in steps of 1 ms."""
    command = [PROGRAM, "sim", "--json"]
    for key, value in options.items():
        command += ["--" + key, str(value)]
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/trace.json"
        if timeline:
            command += ["--chrome-trace", path]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
        result = json.loads(done.stdout)
        kept = {key: result[key] for key in KEPT}
        for key, value in kept.items():
            if isinstance(value, dict):
                kept[key] = {name: round(number, 2) for name, number in value.items()}
            elif isinstance(value, float):
                kept[key] = round(value, 5)
        if timeline:
            events = json.load(open(path))["traceEvents"]
            kept["rows"] = [
                [e["tid"], round(e["ts"] / 1000), round((e["ts"] + e["dur"]) / 1000)]
                for e in events
                if e.get("pid") == 1 and e["ph"] == "X"
            ]
        return kept


# A pane: its sliders (key, label, values), and the options of one position.
def batching(position):
    share, longest, slots, rate, mode = position
    arrivals = "" if rate == "all at once" else f",arrivals=poisson,rate={rate}"
    return {
        "workload": (
            f"lengths=1,requests=48,prompt=8,output=mix:{1 - share / 100}:10-50:{longest // 2}-{longest}{arrivals}".replace(
                "lengths=1,", "closed,"
            )
        ),
        "device": "unit",
        "max-num-seqs": slots,
        "max-num-batched-tokens": 512,
        "batching": mode,
        "overlap": "off",
    }


PANES = {
    "batching": {
        "sliders": [
            ("share", "long answers, %", [0, 5, 10, 20, 35, 50, 100]),
            ("longest", "longest answer, tokens", [100, 200, 500]),
            ("slots", "slots", [4, 8, 16]),
            ("rate", "arrivals a second", ["all at once", 40, 15]),
        ],
        "modes": ["static", "continuous"],
        "options": batching,
        "timeline": True,
    },
    "chunks": {
        "sliders": [("budget", "tokens of a step", [64, 128, 256, 512, 1024, 2048, 4096, 8192])],
        "modes": ["continuous", "prefill_first"],
        "options": lambda p: {
            "workload": "poisson,requests=120,rate=2,prompt=lognormal:1500:0.8,output=150",
            "device": "gpu-7b",
            "max-num-seqs": 64,
            "max-num-batched-tokens": p[0],
            "batching": p[1],
        },
    },
    "prefixes": {
        "sliders": [("blocks", "KV blocks", [400, 800, 1600, 3200, 6400]), ("cache", "prefix cache", ["on", "off"])],
        "modes": ["fcfs", "lpm", "dfs-weight"],
        "options": lambda p: {
            "workload": "closed,requests=400,prefix=1024,prefix_groups=32,prompt=64,output=16",
            "device": "gpu-7b",
            "kv-blocks": p[0],
            "prefix-caching": p[1],
            "max-num-seqs": 16,
            "max-num-batched-tokens": 2048,
            "policy": p[2],
        },
    },
    "preemption": {
        "sliders": [("blocks", "KV blocks", [300, 400, 500, 700, 1000, 2000])],
        "modes": ["last_admitted", "fewest_output", "cheapest"],
        "options": lambda p: {
            "workload": "closed,requests=120,prompt=lognormal:100:0.9,output=lognormal:200:0.6",
            "device": "pocl-135m",
            "kv-blocks": p[0],
            "preempt-victim": p[1],
            "policy": "lpm",
            "max-model-len": 0,
        },
    },
    "policies": {
        "sliders": [("rate", "requests a second", [4, 8, 10, 12, 14])],
        "modes": ["fcfs", "sjf", "hrrn", "vtc", "priority", "edf"],
        "options": lambda p: {
            "workload": (
                f"poisson,requests=300,rate={p[0]},prompt=64,output=lognormal:100:1,predict=oracle,tenants=4,tenant_skew=1,"
                "priorities=3,ttft_ms=4000"
            ),
            "device": "pocl-135m",
            "max-num-seqs": 16,
            "policy": p[1],
        },
    },
}


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    data = {}
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for name, pane in PANES.items():
            positions = list(itertools.product(*(values for _, _, values in pane["sliders"]), pane["modes"]))
            runs = pool.map(lambda position: run(pane["options"](position), pane.get("timeline", False)), positions)
            data[name] = {
                "sliders": pane["sliders"],
                "modes": pane["modes"],
                "runs": {"|".join(map(str, position)): result for position, result in zip(positions, runs)},
            }
            print(f"{name}: {len(positions)} runs", file=sys.stderr)
    page = (HERE / "page.html").read_text().replace("/*DATA*/null", json.dumps(data, separators=(",", ":")))
    pathlib.Path(sys.argv[1]).write_text(page)


if __name__ == "__main__":
    main()
