#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How the cost of a step grows with the batch, the context and the size of the model.

  growth.py MODEL.gguf... [--rounds 3] [--batches 1,2,4,...] [--contexts 128,512,...] [--prompts 64,256,...]

All points take turns within a round, so that a slow minute slows all. Prints tables (medians of the rounds) and writes
docs/results/growth-*.svg. $INFLIGHT names the program (default: build/release/bin/inflight).
"""
import argparse
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "experiments"))
from lab import call, plot, table  # noqa: E402


def batch_ms(model, batch):
    """A step in which so many sequences decode, behind 128 tokens each."""
    answers = 24 + 2 * batch  # long enough that the first still decodes when the last one starts
    found = call("bench", "throughput", "-m", model, "--batch", batch, "--prompt-tokens", 128, "--output-tokens", answers,
                 "--repeat", 1)
    return 1000 * batch / found["decode_tokens_per_second"]


def context_ms(model, context):
    """A step in which one sequence decodes behind so many tokens."""
    found = call("bench", "latency", "-m", model, "--prompt-tokens", context, "--output-tokens", 24, "--repeat", 1)
    return 1000 / found["decode_tokens_per_second"]


def prompt_ms(model, tokens):
    """A whole prompt of so many tokens."""
    found = call("bench", "latency", "-m", model, "--prompt-tokens", tokens, "--output-tokens", 3, "--repeat", 2)
    return 1000 * tokens / found["prefill_tokens_per_second"]


def numbers(text):
    return [int(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=lambda text: pathlib.Path(text).absolute())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=numbers, default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--contexts", type=numbers, default=[128, 512, 1024, 2048, 4096])
    parser.add_argument("--prompts", type=numbers, default=[16, 64, 256, 1024, 2048])
    options = parser.parse_args()
    tests = [
        ("batch", batch_ms, options.batches, "sequences", "a decode step, ms", " (a sequence)"),
        ("context", context_ms, options.contexts, "tokens of context", "a decode step of one sequence, ms", ""),
        ("prompt", prompt_ms, options.prompts, "tokens of a prompt", "the prompt, ms", " (a token)"),
    ]
    found = {(name, model, x): [] for name, _, xs, *_ in tests for model in options.models for x in xs}
    for _ in range(options.rounds):
        for name, measure, xs, *_ in tests:
            for x in xs:
                for model in options.models:
                    found[name, model, x].append(measure(model, x))
    for name, _, xs, x_label, y_label, per in tests:
        medians = {model: [statistics.median(found[name, model, x]) for x in xs] for model in options.models}
        print(plot(f"growth-{name}", f"{y_label[0].upper()}{y_label[1:]}", x_label, "ms",
                   [(model.stem, xs, medians[model]) for model in options.models]) + "\n")
        rows = [
            (model.stem, *(f"{ms:.3g}" + (f" ({ms / x:.2g})" if per else "") for x, ms in zip(xs, medians[model])))
            for model in options.models
        ]
        print(table([f"{y_label}{per}; {x_label}:", *(f"{x:,}" for x in xs)], rows) + "\n", flush=True)


if __name__ == "__main__":
    main()
