#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One figure of OpenVINO GenAI's continuous batching on the CPU, as JSON: {"tokens_per_second": ...}.

  openvino_run.py MODEL_FOLDER PROMPT_TOKENS OUTPUT_TOKENS BATCH prompt|decode [THREADS]

All requests are there at the start, with random token ids, greedy, end tokens ignored. decode: tokens a second of all
sequences after the last first token; prompt: prompt tokens until then. A run of the same size warms up.
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


def measure(pipeline, vocabulary, prompt, output, batch, first_id):
    rng, handles = random.Random(first_id), []
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens, config.ignore_eos, config.do_sample, config.eos_token_id = output, True, False, 2
    begin = time.perf_counter()
    for i in range(batch):
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
    return {"prompt": prompt * batch / (all_started - begin), "decode": (sum(made) - at_start) / max(end - all_started, 1e-9)}


def main():
    folder, prompt, output, batch, kind = sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5]
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size, scheduler.max_num_seqs, scheduler.max_num_batched_tokens = 2, 64, 256
    scheduler.enable_prefix_caching = False
    threads = int(sys.argv[6]) if len(sys.argv) > 6 else 2
    pipeline = openvino_genai.ContinuousBatchingPipeline(folder, scheduler, "CPU", properties={"INFERENCE_NUM_THREADS": threads})
    vocabulary = json.loads((pathlib.Path(folder) / "config.json").read_text())["vocab_size"]
    measure(pipeline, vocabulary, prompt, min(output, 8), batch, 0)
    print(json.dumps({"tokens_per_second": measure(pipeline, vocabulary, prompt, output, batch, batch)[kind]}))


main()
