# SPDX-License-Identifier: Apache-2.0
"""What the experiments share: running the program, tables, pictures, the page that collects the results."""

import json
import math
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("INFLIGHT", str(ROOT / "build/release/bin/inflight"))
TRACES = pathlib.Path(os.environ.get("INFLIGHT_TRACES", ROOT.parent / "shared/data/traces"))
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]


def call(*arguments):
    """One run of the program; its JSON, and the most memory it held (peak_memory_mb)."""
    command = [PROGRAM, *map(str, arguments), "--json"]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=out, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        if process.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: {errors.read().strip()}")
        return {**json.load(out), "peak_memory_mb": usage.ru_maxrss / 1024}


def sim(workload=None, **keys):
    """inflight sim with these options; underscores become dashes."""
    arguments = ["sim"] + (["--workload", workload] if workload else [])
    for key, value in keys.items():
        arguments += ["--" + key.replace("_", "-"), str(value)]
    return call(*arguments)


def live(workload, *model, **keys):
    """The same on the live engine: the demo model, or the flags in `model`."""
    options = [text for key, value in keys.items() for text in ("--" + key.replace("_", "-"), str(value))]
    return call("bench", "workload", "--workload", workload, *model, *options)


def plugin(name):
    """A policy of this folder, compiled with nothing but the public header."""
    path = pathlib.Path(tempfile.mkdtemp()) / f"{name}.ifp.so"
    source = ROOT / f"bench/experiments/{name}.c"
    subprocess.run(
        ["cc", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", f"-I{ROOT}/include", source, "-o", path], check=True
    )
    return path


def capacity(run, low, high, steps=9):
    """The largest rate in [low, high] at which run(rate) is true, by bisection of the logarithm; 0: not even `low`."""
    if not run(low):
        return 0.0
    if run(high):
        return high
    for _ in range(steps):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if run(middle) else (low, middle)
    return low


def lengths_file(lengths):
    """A file for output=file:PATH."""
    handle, path = tempfile.mkstemp(suffix=".txt")
    os.write(handle, ("\n".join(map(str, lengths)) + "\n").encode())
    os.close(handle)
    return path


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def ticks(low, high):
    """[(value, text)] at round distances, about five."""
    power = 10 ** math.floor(math.log10((high - low) / 5))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= (high - low) / 5 * 0.999)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [(i * step, f"{i * step:,.{digits}f}") for i in range(first, math.floor(high / step + 1e-9) + 1)]


def plot(name, title, x_label, y_label, series):
    """series: [(name, [x], [y])]. Writes docs/results/NAME.svg and returns the Markdown that shows it."""
    width, height, left, bottom, top, right = 560, 300, 64, 46, 28, 150
    xs = [x for _, values, _ in series for x in values]
    ys = [y for _, _, values in series for y in values]
    x_low, x_high, y_high = min(xs), max(max(xs), min(xs) + 1e-9), max(max(ys), 1e-9) * 1.08

    def at(x, y):
        return (
            left + (x - x_low) / (x_high - x_low) * (width - left - right),
            height - bottom - y / y_high * (height - bottom - top),
        )

    out = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' font-family='sans-serif' font-size='11'>",
        f"<rect width='{width}' height='{height}' fill='white'/><text x='{left}' y='17' font-size='13'>{title}</text>",
    ]
    for x, text in ticks(x_low, x_high):
        out.append(f"<text x='{at(x, 0)[0]:.1f}' y='{height - bottom + 15}' text-anchor='middle'>{text}</text>")
    for y, text in ticks(0, y_high):
        py = at(x_low, y)[1]
        out.append(
            f"<line x1='{left}' x2='{width - right}' y1='{py:.1f}' y2='{py:.1f}' stroke='#ddd'/>"
            f"<text x='{left - 5}' y='{py + 4:.1f}' text-anchor='end'>{text}</text>"
        )
    out.append(f"<text x='{(left + width - right) / 2}' y='{height - 10}' text-anchor='middle'>{x_label}</text>")
    out.append(f"<text transform='translate(13,{height / 2}) rotate(-90)' text-anchor='middle'>{y_label}</text>")
    for i, (label, x_values, y_values) in enumerate(series):
        points = " ".join("%.1f,%.1f" % at(x, y) for x, y in zip(x_values, y_values))
        colour = COLOURS[i % len(COLOURS)]
        out.append(f"<polyline points='{points}' fill='none' stroke='{colour}' stroke-width='2'/>")
        out.append(
            f"<rect x='{width - right + 12}' y='{top + 18 * i}' width='12' height='4' fill='{colour}'/>"
            f"<text x='{width - right + 28}' y='{top + 6 + 18 * i}'>{label}</text>"
        )
    folder = ROOT / "docs/results"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.svg").write_text("\n".join(out) + "\n</svg>\n")
    return f"![{title}](results/{name}.svg)"


CHOSEN_LATER = (
    " The setting (workload, device, limits) was chosen after first results had been seen: this says that the effect is"
    " there, not how often."
)


def verdict(holds, sentence):
    return ("**Holds.** " if holds else "**Does not hold here.** ") + sentence
