#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""inflight beside llama.cpp and OpenVINO GenAI: all sides take turns, so that a busy machine slows all.

  compare.py --inflight PROGRAM --llama FOLDER MODEL.gguf... [--openvino PYTHON --openvino-model GGUF=FOLDER...]
             [--rounds 3] [--tests decode,prompt,8,16,32,4096,cold,bimodal,load,structured,draft] [--azure FILE]
             [--draft-model FILE] [--threads 2] [--json FILE] [--svg FILE] [--markdown FILE]

FOLDER holds llama-bench, llama-batched-bench, llama-completion and llama-server (build_llama.sh makes them). PYTHON is the
interpreter of an environment with openvino-genai, GGUF the file's name without ending, its FOLDER a model of the same
shape for OpenVINO.
Tests: decode = one stream, 64 tokens; prompt = 512 tokens; a number up to 256 = that many sequences decoding at once after
prompts of 128 tokens; a larger number = one stream, 32 tokens behind a context of so many; cold = starts a second of a
program that loads the model, with room for 2,048 tokens, and gives one token, its caches warm ("kept weights": inflight
with --cache-weights); bimodal = 64 requests at once, 128 prompt tokens, 51 with 16 and 13 with 200 output tokens; load =
these one a second on average (Poisson), for the latencies at equal load; structured = 32 requests at once, 128 prompt and 64
output tokens, that follow a JSON schema, at temperature 0.8 with llama.cpp's default filters (top-k 40, top-p 0.95, min-p
0.05); draft = 4 requests one after the other, 16 prompt and 128 output tokens, greedy, with 8 guesses of --draft-model at a
time (draft_pair.py makes one that is always right), "without" it, too; azure = the first 32 requests of the trace --azure
with at most 1024 prompt and 256 output tokens, at once.
Those five are served over HTTP by inflight and llama.cpp with 16 sequences (`inflight bench serve` sends them); bimodal and
azure OpenVINO GenAI runs in process; "in process" inflight runs them like that, too (`inflight bench workload`). Beside their
tokens a second stands what a stream gets between its 95 % slowest pair of tokens ("p95": 1 / inter-token latency). llama.cpp
runs with flash attention off and on, the better counts; llama-server and cold starts as it chooses itself. A figure is
tokens a second, median (least - most) of the rounds; a ratio is taken within each round, then its median and range. Results
of other models and tests that the --json file has already are kept.
"""
import argparse
import contextlib
import csv
import json
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

BATCHED_MOST = 256
# prompt tokens, output tokens, sequences, what is counted
SHAPES = {"decode": (1, 64, 1, "decode"), "prompt": (512, 3, 1, "prompt")}
SERVED = {"bimodal", "azure", "load", "structured", "draft"}
GUESSES = 8
ALONE = {"bimodal", "azure"}  # of these, also in process
SLOTS, VOCABULARY = 16, 1000  # sequences at once of a server; token ids of served prompts
TEXT, FILTERS = {"type": "string"}, {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}
PERSON = {"name": TEXT, "age": {"type": "integer"}, "email": TEXT, "tags": {"type": "array", "items": TEXT}}
PERSONS = {"type": "array", "minItems": 50, "items": {"type": "object", "properties": PERSON, "required": list(PERSON)}}
COLD_CONTEXT = 2048  # tokens; by itself llama.cpp makes KV for all that the model can, 15 GB with Llama 3.2's shape


def shape_of(test):
    if test in SHAPES:
        return SHAPES[test]
    return (128, 32, int(test), "decode") if int(test) <= BATCHED_MOST else (int(test), 32, 1, "decode")


def output_of(*command, **environment):
    done = subprocess.run([str(word) for word in command], capture_output=True, encoding="utf-8", errors="replace",
                          env={**os.environ, **environment})
    if done.returncode != 0:
        sys.exit(f"compare.py: {command[0]}: {done.stderr.strip().splitlines()[-1:] or done.returncode}")
    return done.stdout


def requests_of(options, test):
    """(prompt tokens, output tokens) of each request."""
    if test in ("bimodal", "load"):
        return [(128, 200 if i % 5 == 4 or i == 0 else 16) for i in range(64)]
    if test == "structured":
        return [(128, 64)] * 32
    if test == "draft":
        return [(16, 128)] * 4
    with open(options.azure, newline="", encoding="utf-8") as file:
        rows = [(int(row["ContextTokens"]), int(row["GeneratedTokens"])) for row in csv.DictReader(file)]
    return [(prompt, output) for prompt, output in rows if prompt <= 1024 and 2 <= output <= 256][:32]


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextlib.contextmanager
def trace_of(options, test):
    """The flags for its requests as a trace, all at the begin or one a second."""
    arrivals, now = random.Random(1), 0.0
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as trace:
        trace.write("TIMESTAMP,ContextTokens,GeneratedTokens\n")
        for prompt, output in requests_of(options, test):
            trace.write(f"2023-11-16 18:{int(now) // 60:02}:{now % 60:010.7f},{prompt},{output}\n")
            now += arrivals.expovariate(1.0)
        trace.flush()
        yield "--trace", trace.name, "--trace-speed", int(test == "load")


def served(options, test, schema, port, *server):
    """Tokens a second, and 1 / p95 inter-token latency, of a server that is started for it.   schema: how it is told one."""
    url = f"http://127.0.0.1:{port}"
    body = ["--extra-body", json.dumps({**FILTERS, **schema})] if test == "structured" else []
    if test == "draft":
        body = ["--extra-body", json.dumps({"temperature": 0}), "--max-concurrency", 1]
    with trace_of(options, test) as trace:
        process = subprocess.Popen([str(word) for word in server], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(600):
                try:
                    urllib.request.urlopen(url + "/health", timeout=5).close()
                    break
                except OSError:
                    time.sleep(0.1)
            found = json.loads(output_of(options.inflight, "bench", "serve", "--base-url", url, *trace, "--vocab-size",
                                         VOCABULARY, "--json", *body))
        finally:
            process.terminate()
            process.wait()
    if found["failed"]:
        sys.exit(f"compare.py: {server[0]}: {found['failed']} requests failed")
    return {"": found["output_throughput"], " p95": 1000 / found["p95_itl_ms"]}


def with_and_without(test, drafts, run):
    """What run() finds; of the test draft with the words for a draft model, and without."""
    if test != "draft":
        return run()
    return {"": run(*drafts)[""], " without": run()[""]}


def cold(*command, **environment):
    """Starts a second, the median of 5; one before them fills the caches of files and kernels, and of weights where kept."""
    seconds = []
    for _ in range(6):
        begin = time.perf_counter()
        output_of(*command, **environment)
        seconds.append(time.perf_counter() - begin)
    return 1 / statistics.median(seconds[1:])


def context_of(options, test):
    return -(-max(sum(request) for request in requests_of(options, test)) // 64) * 64 + 64


def llama(options, model, test):
    if test == "cold":
        found = cold(options.llama / "llama-completion", "-m", model, "-t", options.threads, "-p", "Hello", "-n", 1, "-no-cnv",
                     "--no-warmup", "-c", COLD_CONTEXT)
        return {"": found, " kept weights": found}
    if test in SERVED:
        port = free_port()
        server = (options.llama / "llama-server", "-m", model, "-t", options.threads, "-np", SLOTS, "-c",
                  SLOTS * context_of(options, test), "--port", port)
        drafts = ("--spec-type", "draft-simple", "--spec-draft-model", options.draft_model, "--spec-draft-n-max", GUESSES)
        return with_and_without(test, drafts,
                                lambda *words: served(options, test, {"json_schema": PERSONS}, port, *server, *words))
    prompt, output, batch, kind = shape_of(test)
    if batch > 1:
        found = []
        for flash_attention in ("off", "on"):
            text = output_of(options.llama / "llama-batched-bench", "-m", model, "-t", options.threads, "-c",
                             batch * (prompt + output), "-npp", prompt, "-ntg", output, "-npl", batch, "-fa", flash_attention,
                             "--output-format", "jsonl")
            found += [json.loads(line)["speed_tg"] for line in text.splitlines() if line.startswith("{")]
        return {"": max(found)} if found else {}
    counts = ("-p", prompt, "-n", 0) if kind == "prompt" else ("-p", 0, "-n", output, "-d", prompt - 1)
    runs = json.loads(output_of(options.llama / "llama-bench", "-m", model, "-t", options.threads, "-r", 3, "-fa", "0,1",
                                "-o", "json", *counts))
    return {"": max(run["avg_ts"] for run in runs)}


def openvino(options, model, test):
    script, folder = pathlib.Path(__file__).with_name("openvino_run.py"), options.openvino_model[model.stem]
    if test == "cold" or test in SERVED - ALONE:
        return {}
    if test in ALONE:
        text = output_of(options.openvino, script, folder, json.dumps(requests_of(options, test)), options.threads, SLOTS)
        found = json.loads(text.splitlines()[-1])["tokens_per_second"]
        return {"": found, " in process": found}
    prompt, output, batch, kind = shape_of(test)
    text = output_of(options.openvino, script, folder, max(prompt, 16), output, batch, kind, options.threads)
    return {"": json.loads(text.splitlines()[-1])["tokens_per_second"]}


def inflight(options, model, test):
    if test == "cold":
        start = (options.inflight, "run", "-m", model, "-p", "Hello", "-n", 1, "--json", "--max-model-len", COLD_CONTEXT)
        with tempfile.TemporaryDirectory() as folder:
            return {"": cold(*start), " kept weights": cold(*start, "--cache-weights", INFLIGHT_CACHE_DIR=folder)}
    if test in SERVED:
        port, limits = free_port(), ("-m", model, "--max-num-seqs", SLOTS, "--max-model-len", context_of(options, test))
        drafts = ("--speculative-config", json.dumps({"model": str(options.draft_model), "num_speculative_tokens": GUESSES}))
        schema = {"structured_outputs": {"json": PERSONS}}
        found = with_and_without(test, drafts, lambda *words: served(options, test, schema, port, options.inflight, "serve",
                                                                     "--port", port, *limits, *words))
        if test in ALONE:
            with trace_of(options, test) as trace:
                alone = json.loads(output_of(options.inflight, "bench", "workload", *trace, *limits, "--json"))
            found[" in process"] = alone["output_tokens_per_second"]
        return found
    prompt, output, batch, kind = shape_of(test)
    # Prompts come in before the first answer ends, whatever the device's default is.
    bench = ["throughput", "--batch", batch, "--max-num-batched-tokens", 256] if batch > 1 else ["latency"]
    found = json.loads(output_of(options.inflight, "bench", *bench, "--prompt-tokens", prompt, "--output-tokens", output, "-m",
                                 model, "--repeat", 3, "--json"))
    return {"": found["prefill_tokens_per_second" if kind == "prompt" else "decode_tokens_per_second"]}


def peers_of(options, model):
    peers = {"llama.cpp": llama}
    if options.openvino and model.stem in options.openvino_model:
        peers["OpenVINO GenAI"] = openvino
    return peers


def summary(values):
    return {"rounds": len(values), "median": statistics.median(values), "least": min(values), "most": max(values)}


def measure(options):
    rows = []
    for model in options.models:
        peers = peers_of(options, model)
        for test in options.tests:
            rounds = [(inflight(options, model, test), {name: run(options, model, test) for name, run in peers.items()})
                      for _ in range(options.rounds)]
            for name in peers:
                for figure in ("", " p95", " in process", " kept weights", " without"):
                    pairs = [(ours[figure], theirs[name][figure]) for ours, theirs in rounds if figure in theirs[name]]
                    if not pairs:
                        continue
                    rows.append({"model": model.stem, "test": test + figure, "peer": name,
                                 "inflight_tokens_per_second": summary([ours for ours, _ in pairs]),
                                 "peer_tokens_per_second": summary([theirs for _, theirs in pairs]),
                                 "ratio": summary([ours / theirs for ours, theirs in pairs])})
                    print(line_of(rows[-1]), flush=True)
    return rows


def text_of(value, digits):
    text = f"{value['median']:.{digits}f}"
    return text if value["rounds"] == 1 else f"{text} ({value['least']:.{digits}f} - {value['most']:.{digits}f})"


def line_of(row):
    digits = 0 if row["peer_tokens_per_second"]["median"] >= 10 else 2
    return (f"| {row['model']} | {row['test']} | {text_of(row['inflight_tokens_per_second'], digits)} | {row['peer']} | "
            f"{text_of(row['peer_tokens_per_second'], digits)} | {text_of(row['ratio'], 2)} | {row['ratio']['rounds']} |")


HEADER = "| model | test | inflight, tokens/s | peer | peer, tokens/s | ratio | rounds |\n|---|---|---|---|---|---|---|"
COLOURS = {"llama.cpp": "#4a7fb5", "OpenVINO GenAI": "#d9a441"}


def plot(rows):
    """Bars of the ratios with their range; the dashed line is the peer."""
    width, left, height = 800, 340, 20
    most = max([1.5] + [row["ratio"]["most"] for row in rows])
    scale = (width - left - 60) / most
    parts = []
    for i, row in enumerate(rows):
        y, ratio = 30 + i * height, row["ratio"]
        middle = y + height / 2 - 2
        label = f'{row["model"]} {row["test"]} / {row["peer"]}'
        parts.append(f'<text x="{left - 8}" y="{y + 12}" text-anchor="end">{label}</text>'
                     f'<rect x="{left}" y="{y}" width="{ratio["median"] * scale:.1f}" height="{height - 5}" '
                     f'fill="{COLOURS[row["peer"]]}"/>'
                     f'<path d="M{left + ratio["least"] * scale:.1f} {middle}H{left + ratio["most"] * scale:.1f}" stroke="#222"/>'
                     f'<text x="{left + ratio["most"] * scale + 6:.1f}" y="{y + 12}">{ratio["median"]:.2f}</text>')
    bottom = 30 + len(rows) * height
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{bottom + 10}" font-family="sans-serif" '
            'font-size="11">'
            f'<rect width="100%" height="100%" fill="#fff"/><text x="{left}" y="18">tokens/s of inflight as a multiple of '
            f'the peer\'s</text>{"".join(parts)}<path d="M{left + scale:.1f} 24V{bottom}" stroke="#b33" '
            'stroke-dasharray="4 3"/></svg>\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    absolute = lambda text: pathlib.Path(text).absolute()
    parser.add_argument("models", nargs="+", type=absolute)
    parser.add_argument("--inflight", required=True, type=absolute)
    parser.add_argument("--llama", required=True, type=absolute)
    parser.add_argument("--openvino", type=absolute)
    parser.add_argument("--openvino-model", action="extend", nargs="*", default=[], metavar="GGUF=FOLDER")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2, help="of the peers; inflight takes all compute units")
    parser.add_argument("--draft-model", type=absolute, metavar="FILE")
    parser.add_argument("--azure", type=absolute, help="the Azure LLM trace of 2023, conversation or code (CSV)")
    parser.add_argument("--tests", default="decode,8,16,32,prompt", type=lambda text: text.split(","))
    for name in ("json", "svg", "markdown"):
        parser.add_argument("--" + name, type=pathlib.Path)
    options = parser.parse_args()
    if "azure" in options.tests and not options.azure:
        parser.error("the test azure needs --azure FILE")
    if "draft" in options.tests and not options.draft_model:
        parser.error("the test draft needs --draft-model FILE")
    names = [model.stem for model in options.models]
    for pair in options.openvino_model:
        if pair.partition("=")[0] not in names or "=" not in pair:
            parser.error(f"--openvino-model is {pair}, allowed: NAME=FOLDER with a NAME of {', '.join(names)}")
    options.openvino_model = dict(pair.split("=", 1) for pair in options.openvino_model)
    print(HEADER)
    rows = measure(options)
    if options.json and options.json.exists():
        done = {(row["model"], row["test"], row["peer"]) for row in rows}
        kept = json.loads(options.json.read_text())["results"]
        rows = [row for row in kept if (row["model"], row["test"], row["peer"]) not in done] + rows
    if options.json:
        found = {"threads": options.threads, "results": rows}
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    if options.svg:
        options.svg.write_text(plot(rows))
    if options.markdown:
        options.markdown.write_text("\n".join([HEADER] + [line_of(row) for row in rows]) + "\n")


if __name__ == "__main__":
    main()
