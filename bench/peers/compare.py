#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""inflight beside llama.cpp on the same GGUF files: both sides take turns, so that a busy machine slows both.

  compare.py --inflight PROGRAM --llama FOLDER MODEL.gguf... [--rounds 3] [--tests decode,prompt,8,16,32] [--threads 2]
             [--json FILE] [--svg FILE] [--markdown FILE]

FOLDER holds llama-bench and llama-batched-bench (build_llama.sh makes them). Tests: decode = one stream, 64 tokens;
prompt = 512 tokens; a number = that many sequences decoding at once after prompts of 128 tokens. A figure is tokens a
second, median (least - most) of the rounds; a ratio is taken within each round, then its median and range.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

DECODE_TOKENS, PROMPT_TOKENS, BATCH_PROMPT_TOKENS, BATCH_OUTPUT_TOKENS = 64, 512, 128, 32


def output_of(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"compare.py: {command[0]}: {done.stderr.strip().splitlines()[-1:] or done.returncode}")
    return done.stdout


def llama(options, model, test):
    if test in ("decode", "prompt"):
        counts = ("-p", 0, "-n", DECODE_TOKENS) if test == "decode" else ("-p", PROMPT_TOKENS, "-n", 0)
        runs = json.loads(output_of(options.llama / "llama-bench", "-m", model, "-t", options.threads, "-r", 1, "-o", "json",
                                    *counts))
        return runs[0]["avg_ts"]
    batch = int(test)
    context = batch * (BATCH_PROMPT_TOKENS + BATCH_OUTPUT_TOKENS)
    text = output_of(options.llama / "llama-batched-bench", "-m", model, "-t", options.threads, "-c", context, "-npp",
                     BATCH_PROMPT_TOKENS, "-ntg", BATCH_OUTPUT_TOKENS, "-npl", batch, "--output-format", "jsonl")
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")][-1]["speed_tg"]


def inflight(options, model, test):
    bench = [options.inflight, "bench"]
    if test == "decode":
        bench += ["latency", "--prompt-tokens", 1, "--output-tokens", DECODE_TOKENS]
    elif test == "prompt":
        bench += ["latency", "--prompt-tokens", PROMPT_TOKENS, "--output-tokens", 2]
    else:
        bench += ["throughput", "--batch", test, "--prompt-tokens", BATCH_PROMPT_TOKENS, "--output-tokens", BATCH_OUTPUT_TOKENS]
    found = json.loads(output_of(*bench, "-m", model, "--repeat", 1, "--json"))
    return found["prefill_tokens_per_second" if test == "prompt" else "decode_tokens_per_second"]


def summary(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def measure(options):
    rows = []
    for model in options.models:
        for test in options.tests:
            pairs = [(inflight(options, model, test), llama(options, model, test)) for _ in range(options.rounds)]
            rows.append({"model": model.stem, "test": test,
                         "inflight_tokens_per_second": summary([ours for ours, _ in pairs]),
                         "llama_tokens_per_second": summary([theirs for _, theirs in pairs]),
                         "ratio": summary([ours / theirs for ours, theirs in pairs])})
            print(line_of(rows[-1]), flush=True)
    return rows


def text_of(value, digits):
    return f"{value['median']:.{digits}f} ({value['least']:.{digits}f} - {value['most']:.{digits}f})"


def line_of(row):
    return (f"| {row['model']} | {row['test']} | {text_of(row['inflight_tokens_per_second'], 0)} | "
            f"{text_of(row['llama_tokens_per_second'], 0)} | {text_of(row['ratio'], 2)} |")


HEADER = "| model | test | inflight, tokens/s | llama.cpp, tokens/s | ratio |\n|---|---|---|---|---|"


def plot(rows):
    """Bars of the ratios with their range; the line is llama.cpp."""
    width, left, height = 720, 250, 22
    most = max([1.5] + [row["ratio"]["most"] for row in rows])
    scale = (width - left - 60) / most
    parts = []
    for i, row in enumerate(rows):
        y, ratio = 30 + i * height, row["ratio"]
        middle = y + height / 2 - 2
        parts.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{row["model"]} {row["test"]}</text>'
                     f'<rect x="{left}" y="{y}" width="{ratio["median"] * scale:.1f}" height="{height - 6}" fill="#4a7fb5"/>'
                     f'<path d="M{left + ratio["least"] * scale:.1f} {middle}H{left + ratio["most"] * scale:.1f}" stroke="#222"/>'
                     f'<text x="{left + ratio["most"] * scale + 6:.1f}" y="{y + 13}">{ratio["median"]:.2f}</text>')
    bottom = 30 + len(rows) * height
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{bottom + 10}" font-family="sans-serif" '
            'font-size="12">'
            f'<rect width="100%" height="100%" fill="#fff"/><text x="{left}" y="18">tokens/s relative to llama.cpp</text>'
            f'{"".join(parts)}<path d="M{left + scale:.1f} 24V{bottom}" stroke="#b33" stroke-dasharray="4 3"/></svg>\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--inflight", required=True, type=pathlib.Path)
    parser.add_argument("--llama", required=True, type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2, help="of llama.cpp; inflight takes all compute units")
    parser.add_argument("--tests", default="decode,8,16,32,prompt", type=lambda text: text.split(","))
    for name in ("json", "svg", "markdown"):
        parser.add_argument("--" + name, type=pathlib.Path)
    options = parser.parse_args()
    print(HEADER)
    rows = measure(options)
    if options.json:
        found = {"rounds": options.rounds, "threads": options.threads, "results": rows}
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    if options.svg:
        options.svg.write_text(plot(rows))
    if options.markdown:
        options.markdown.write_text("\n".join([HEADER] + [line_of(row) for row in rows]) + "\n")


if __name__ == "__main__":
    main()
