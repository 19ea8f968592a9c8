#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same greedy tokens as llama.cpp, and the memory of both programs beside what they hold.

  greedy.py --inflight PROGRAM --llama FOLDER MODEL.gguf... [--prompts 8] [--prompt-tokens 24] [--output-tokens 16]
            [--margin 0.1] [--threads 2] [--json FILE] [--markdown FILE]

FOLDER holds llama-server (build_llama.sh makes it). Random prompts of token ids, both sides greedy, end tokens
ignored on both. Answers are compared up to their first difference; there, llama.cpp's log probabilities tell by
how much it preferred its own token. Below --margin that is rounding: the two add in different orders, and quantise
activations alike but not in the same places. Above it the programs disagree, and the exit status is 1.
Memory: the most that a process held (its peak resident set), as a share of file + KV cache of the tokens it was made for.
"""
import argparse
import json
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

CONTEXT_MAX = 2048  # tokens of KV cache on both sides, fewer where the model is made for fewer


def prompts_of(options, report):
    tokens = min(report["spec"]["vocabulary_size"], 30000)
    rng = random.Random(1)
    return [[rng.randrange(300, tokens) for _ in range(options.prompt_tokens)] for _ in range(options.prompts)]


def run_inflight(options, model, context, prompts):
    """(answers, peak bytes)"""
    command = [options.inflight, "run", "-m", model, "-n", options.output_tokens, "--json", "--kv-blocks", context // 16,
               "--max-model-len", context, "--ignore-eos"]
    for ids in prompts:
        command += ["--prompt-ids", ",".join(map(str, ids))]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([str(word) for word in command], stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            sys.exit(f"greedy.py: {options.inflight} failed on {model}")
        output.seek(0)
        answers = json.load(output)["outputs"]
    return [output["token_ids"] for output in answers], usage.ru_maxrss * 1024


class LlamaServer:
    def __init__(self, options, model, context):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen([str(options.llama / "llama-server"), "-m", str(model), "-t", str(options.threads),
                                         "-c", str(context), "-np", "1", "--port", str(port)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                urllib.request.urlopen(self.url + "/health").read()
                return
            except OSError:
                time.sleep(0.1)
        sys.exit("greedy.py: llama-server does not answer")

    def complete(self, ids, count):
        """[(token, [(id, log probability) of the likeliest])]"""
        body = {"prompt": ids, "n_predict": count, "temperature": 0, "n_probs": 8, "cache_prompt": False, "ignore_eos": True}
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + "/completion", json.dumps(body).encode(), headers)
        found = json.loads(urllib.request.urlopen(request).read())["completion_probabilities"]
        return [(step["id"], [(top["id"], top["logprob"]) for top in step["top_logprobs"]]) for step in found]

    def close(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        self.process.terminate()
        self.process.wait()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024


def margin_of(tops, theirs, ours):
    """By how much llama.cpp prefers its token; infinite when ours is not among its likeliest."""
    likely = dict(tops)
    return likely[theirs] - likely[ours] if ours in likely else float("inf")


def compare(options, model):
    report = json.loads(subprocess.run([str(options.inflight), "inspect", str(model), "--json"], capture_output=True,
                                       text=True, check=True).stdout)
    prompts = prompts_of(options, report)
    context = min(report["spec"]["context_length"], CONTEXT_MAX)
    ours, our_peak = run_inflight(options, model, context, prompts)
    server = LlamaServer(options, model, context)
    equal, near, wrong = 0, [], []
    for ids, answer in zip(prompts, ours):
        for token, (theirs, tops) in zip(answer, server.complete(ids, options.output_tokens)):
            if token == theirs:
                equal += 1
                continue
            margin = margin_of(tops, theirs, token)
            (near if margin <= options.margin else wrong).append(margin)
            break
    their_peak = server.close()
    held = model.stat().st_size + report["memory"]["kv_f16"]["token_bytes"] * context
    return {"model": model.stem, "prompts": len(prompts), "equal_tokens": equal, "near_ties": len(near), "largest_tie_margin":
            max(near, default=0.0), "disagreements": len(wrong), "inflight_peak_bytes": our_peak,
            "llama_peak_bytes": their_peak, "file_and_kv_bytes": held}


HEADER = ("| model | equal tokens | differences within rounding (largest) | disagreements | inflight, MiB | llama.cpp, MiB | "
          "file + KV, MiB | inflight / (file + KV) |\n|---|---|---|---|---|---|---|---|")


def line_of(row):
    mib = 2**20
    return (f"| {row['model']} | {row['equal_tokens']} | {row['near_ties']} ({row['largest_tie_margin']:.3f}) | "
            f"{row['disagreements']} | {row['inflight_peak_bytes'] / mib:.0f} | {row['llama_peak_bytes'] / mib:.0f} | "
            f"{row['file_and_kv_bytes'] / mib:.0f} | {row['inflight_peak_bytes'] / row['file_and_kv_bytes']:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--inflight", required=True, type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--llama", required=True, type=pathlib.Path)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--prompt-tokens", type=int, default=24)
    parser.add_argument("--output-tokens", type=int, default=16)
    parser.add_argument("--margin", type=float, default=0.1, help="difference of log probabilities that counts as rounding")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    options = parser.parse_args()
    print(HEADER)
    rows = []
    for model in options.models:
        rows.append(compare(options, model))
        print(line_of(rows[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    if options.markdown:
        options.markdown.write_text("\n".join([HEADER] + [line_of(row) for row in rows]) + "\n")
    sys.exit(any(row["disagreements"] for row in rows))


if __name__ == "__main__":
    main()
