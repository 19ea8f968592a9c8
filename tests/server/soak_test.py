#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hundreds of streams at once, many of whose clients leave at a random moment: afterwards no block, thread, connection
or memory is held, and the counters are exact.
    soak_test.py PROGRAM [--streams N] [--rounds N] [--seed N]"""
import argparse
import asyncio
import json
import random
import sys

from server_process import Server


async def stream(port, rng, results):
    """One client. It leaves before, while or after its answer comes, or reads all of it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps({"prompt": "Once upon a time " + str(rng.randrange(100)), "max_tokens": rng.randrange(1, 60),
                       "seed": rng.randrange(1, 1 << 30), "ignore_eos": True, "stream": True,
                       "n": rng.choice([1, 1, 1, 2]), "stream_options": {"include_usage": True}})
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
            usage = [line for line in received.decode().split("\n") if '"usage":{' in line][-1]
            results.append(json.loads(usage[len("data: "):])["usage"]["completion_tokens"])
            break
    if rng.random() < 0.5:
        writer.transport.abort()  # a reset instead of an orderly end
    else:
        writer.close()


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
    with Server(flags.program) as server:
        asyncio.run(soak_round(server.port, rng, flags.streams))  # caches and pools fill
        first = server.wait_idle(120)
        threads, memory = server.threads(), server.resident_kilobytes()
        complete = tokens = 0
        for _ in range(flags.rounds):
            results = asyncio.run(soak_round(server.port, rng, flags.streams))
            complete, tokens = complete + len(results), tokens + sum(results)
            last = server.wait_idle(120)
            assert last["inflight_kv_cache_usage_perc"] == 0, last
            while server.metrics()["inflight_http_connections"] > 1:  # ours
                pass
        grown = server.resident_kilobytes() - memory
        made = last["inflight_generation_tokens_total"] - first["inflight_generation_tokens_total"]
        print(f"{flags.rounds} x {flags.streams} streams, seed {flags.seed}: {complete} complete with {tokens} tokens, "
              f"{made:.0f} tokens made, {last['inflight_http_clients_gone_total']:.0f} clients gone, memory +{grown} kB")
        assert server.threads() == threads, (server.threads(), threads)
        assert made >= tokens and complete > 0
        assert grown < 30_000, f"{grown} kB more than before"
        # Afterwards everything works, and is counted exactly.
        results = []
        asyncio.run(asyncio.wait_for(quiet(server.port, results), 120))
        counted = server.wait_idle()["inflight_generation_tokens_total"] - last["inflight_generation_tokens_total"]
        assert counted == sum(results), (counted, results)
    return 0


class Stays(random.Random):
    def choice(self, options):
        return options[-1] if None in options else options[0]


async def quiet(port, results):
    await asyncio.gather(*(stream(port, Stays(i), results) for i in range(50)))


if __name__ == "__main__":
    sys.exit(main())
