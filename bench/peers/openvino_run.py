#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One figure of OpenVINO GenAI's continuous batching on the CPU, as JSON: {"tokens_per_second": ...}.

  openvino_run.py MODEL_FOLDER PROMPT_TOKENS OUTPUT_TOKENS BATCH prompt|decode [THREADS]
  openvino_run.py MODEL_FOLDER '[[PROMPT_TOKENS, OUTPUT_TOKENS], ...]' THREADS SEQUENCES

All requests are there at the start, with random token ids, greedy, end tokens ignored. decode: tokens a second of all
sequences after the last first token; prompt: prompt tokens until then. A run of the same size warms up. With a list of
requests: output tokens a second of all, at most SEQUENCES at once.
Needs PyPI's openvino-genai and numpy; MODEL_FOLDER holds an exported model (IR) with its tokenizer.
"""
import json
import pathlib
import random
import sys
import time

import numpy
import openvino
import openvino_genai


def measure(pipeline, vocabulary, requests, first_id):
    rng, handles, batch = random.Random(first_id), [], len(requests)
    begin = time.perf_counter()
    for i, (prompt, output) in enumerate(requests):
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample, config.eos_token_id = output, True, False, 2
        ids = numpy.array([[rng.randrange(300, vocabulary) for _ in range(prompt)]], dtype=numpy.int64)
        handles.append(pipeline.add_request(first_id + i, openvino.Tensor(ids), config))
    made, all_started, at_start = [0] * batch, None, 0
    while pipeline.has_non_finished_requests():
        pipeline.step()
        for i, handle in enumerate(handles):
            if handle.can_read():
                made[i] += sum(len(answer.generated_ids) for answer in handle.read().values())
        if all_started is None and all(made):
            all_started, at_start = time.perf_counter(), sum(made)
    end = time.perf_counter()
    return {"prompt": sum(prompt for prompt, _ in requests) / (all_started - begin),
            "decode": (sum(made) - at_start) / max(end - all_started, 1e-9), "all": sum(made) / (end - begin)}


def main():
    folder = sys.argv[1]
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size, scheduler.max_num_seqs, scheduler.max_num_batched_tokens = 2, 64, 256
    scheduler.enable_prefix_caching = False
    if sys.argv[2].startswith("["):
        requests, kind, threads = json.loads(sys.argv[2]), "all", int(sys.argv[3])
        scheduler.max_num_seqs = int(sys.argv[4])
        warm_up = requests[:4]
    else:
        prompt, output, batch, kind = *map(int, sys.argv[2:5]), sys.argv[5]
        threads = int(sys.argv[6]) if len(sys.argv) > 6 else 2
        requests, warm_up = [(prompt, output)] * batch, [(prompt, min(output, 8))] * batch
    pipeline = openvino_genai.ContinuousBatchingPipeline(folder, scheduler, "CPU", properties={"INFERENCE_NUM_THREADS": threads})
    vocabulary = json.loads((pathlib.Path(folder) / "config.json").read_text())["vocab_size"]
    measure(pipeline, vocabulary, warm_up, 0)
    print(json.dumps({"tokens_per_second": measure(pipeline, vocabulary, requests, len(warm_up))[kind]}))


main()
