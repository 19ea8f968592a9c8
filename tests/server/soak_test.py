#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hundreds of streams at once, many of whose clients leave at a random moment: afterwards no block, thread, file or
memory is held, and the counters are exact: what clients counted, what they were told, what /metrics says.
    soak_test.py PROGRAM [--streams N] [--rounds N] [--seed N]"""
import argparse
import asyncio
import json
import random
import sys
import time

from server_process import Server

KV_BLOCKS = 640  # few: blocks must be taken from each other
GROWTH_KILOBYTES_MAX = 12_000  # beyond a filled KV cache; the last steps' recording takes most of it


async def stream(port, rng, results):
    """One client. It leaves before, while or after its answer comes, or reads all of it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps({"prompt": "Once upon a time " + str(rng.randrange(100)), "max_tokens": rng.randrange(1, 60),
                       "seed": rng.randrange(1, 1 << 30), "ignore_eos": True, "stream": True,
                       "n": rng.choice([1, 1, 1, 2]), "logprobs": 0, "stream_options": {"include_usage": True}})
    writer.write(f"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
                 f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
    leaves_after = rng.choice([0, rng.randrange(1, 4000), None, None])  # bytes; None: stays
    received = b""
    while leaves_after is None or len(received) < leaves_after:
        part = await reader.read(4096)
        if not part:
            raise AssertionError(f"the server closed: {received[-300:]}")
        received += part
        if received.endswith(b"0\r\n\r\n"):
            results.append(tally(received))
            break
    if rng.random() < 0.5:
        writer.transport.abort()  # a reset instead of an orderly end
    else:
        writer.close()


def tally(received):
    """(answers, prompt tokens, tokens) of a whole stream."""
    events = [json.loads(line[6:]) for line in received.decode().split("\n") if line.startswith("data: {")]
    usage = events.pop()["usage"]
    choices = [choice for event in events for choice in event["choices"]]
    counted = sum(len(choice["logprobs"]["tokens"]) for choice in choices if choice["logprobs"])
    assert counted == usage["completion_tokens"], (counted, usage)
    return len({choice["index"] for choice in choices}), usage["prompt_tokens"], counted


async def soak_round(port, rng, streams):
    results = []
    await asyncio.gather(*(stream(port, random.Random(rng.random()), results) for _ in range(streams)))
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()
    rng = random.Random(flags.seed)
    with Server(flags.program, "--kv-blocks", str(KV_BLOCKS)) as server:
        files = server.open_files()
        first = fill(server, rng, flags.streams)
        threads, memory = server.threads(), server.resident_kilobytes()
        complete = tokens = 0
        for _ in range(flags.rounds):
            results = asyncio.run(soak_round(server.port, rng, flags.streams))
            complete, tokens = complete + len(results), tokens + sum(result[2] for result in results)
            last = settle(server)
        grown = server.resident_kilobytes() - memory
        made = last["inflight_generation_tokens_total"] - first["inflight_generation_tokens_total"]
        print(f"{flags.rounds} x {flags.streams} streams, seed {flags.seed}: {complete} complete with {tokens} tokens, "
              f"{made:.0f} tokens made, {last['inflight_http_clients_gone_total']:.0f} clients gone, memory +{grown} kB")
        assert server.threads() == threads, (server.threads(), threads)
        end = time.monotonic() + 10  # a closed connection lingers a moment
        while server.open_files() > files:
            assert time.monotonic() < end, (server.open_files(), files)
        assert made >= tokens and complete > 0
        assert grown < GROWTH_KILOBYTES_MAX, f"{grown} kB more than before"
        # Afterwards everything works, and is counted exactly.
        results = []
        asyncio.run(asyncio.wait_for(quiet(server.port, results), 120))
        now = settle(server)
        answers, prompt, tokens = (sum(column) for column in zip(*results))
        expected = {"inflight_generation_tokens_total": tokens, "inflight_prompt_tokens_total": prompt,
                    "inflight_num_requests_total": len(results), "inflight_time_to_first_token_seconds_count": answers,
                    "inflight_e2e_request_latency_seconds_count": answers,
                    "inflight_inter_token_latency_seconds_count": tokens - answers,
                    "inflight_http_clients_gone_total": 0}
        counted = {name: now[name] - last[name] for name in expected}
        assert counted == expected, (counted, expected)
    return 0


def fill(server, rng, streams):
    """Runs until every KV block has been used and taken again: the system hands out memory when it is first written to,
    so before that a server grows by the whole KV cache."""
    while True:
        asyncio.run(soak_round(server.port, rng, streams))
        metrics = settle(server)
        if metrics["inflight_kv_blocks_evicted_total"] > KV_BLOCKS:
            return metrics


def settle(server):
    """Waits until nothing is held; the metrics then."""
    metrics = server.wait_idle(120)
    while metrics["inflight_http_connections_open"] > 1:  # ours
        metrics = server.metrics()
    held = server.labelled("inflight_kv_blocks", "state")
    assert held["referenced"] == 0 and held["free"] + held["stored"] == KV_BLOCKS, held
    return metrics


class Stays(random.Random):
    def choice(self, options):
        return options[-1] if None in options else options[0]


async def quiet(port, results):
    await asyncio.gather(*(stream(port, Stays(i), results) for i in range(50)))


if __name__ == "__main__":
    sys.exit(main())
