#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`inflight bench serve` against a server that plays a script: it knows when it sent what, and that is what must be told.
    bench_serve_test.py PROGRAM [unittest arguments]"""
# Covers: loadgen/load_options.cpp, loadgen/load_run.cpp, loadgen/load_summary.cpp
import asyncio
import json
import math
import subprocess
import sys
import tempfile
import threading
import time
import unittest

PROGRAM = sys.argv.pop(1)


class Fake:
    """An OpenAI-compatible server in a thread. `script(number, body)` gives the pauses before each token, in seconds or to be
    awaited, or an HTTP status. Notes when each token was about to be sent."""

    def __init__(self, script, refusal=b"oops", event={}, host="127.0.0.1"):
        self.refusal, self.more, self.host = refusal, event, host
        self.script, self.bodies, self.sent, self.heads = script, [], {}, []
        self.open = self.most = 0
        ready = threading.Event()
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.run, args=(ready,), daemon=True).start()
        ready.wait()

    def run(self, ready):
        async def begin():
            server = await asyncio.start_server(self.serve, self.host, 0)
            self.port = server.sockets[0].getsockname()[1]
            ready.set()
        self.loop.create_task(begin())
        self.loop.run_forever()

    async def serve(self, reader, writer):
        arrival = time.perf_counter()
        self.open += 1
        self.most = max(self.most, self.open)
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
        body = json.loads(await reader.readexactly(length))
        number = len(self.bodies)
        self.bodies.append(body)
        self.heads.append(head)
        pauses = self.script(number, body)
        if isinstance(pauses, int):
            writer.write(b"HTTP/1.1 %d No\r\nContent-Length: %d\r\n\r\n%b" % (pauses, len(self.refusal), self.refusal))
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            times = self.sent.setdefault(number, [arrival])
            for pause in pauses:
                await (pause() if callable(pause) else asyncio.sleep(pause))
                times.append(time.perf_counter())
                self.event(writer, {"choices": [{"index": 0, "text": "x", "delta": {"content": "x"}}]} | self.more)
            self.event(writer, {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": len(pauses)}})
            writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
        self.open -= 1
        await writer.drain()
        writer.close()

    @staticmethod
    def event(writer, event):
        data = f"data: {json.dumps(event)}\n\n".encode()
        half = len(data) // 2  # in two chunks: events need not come whole
        writer.write(b"%x\r\n%b\r\n%x\r\n%b\r\n" % (half, data[:half], len(data) - half, data[half:]))

    def bench(self, *flags, status=0):
        host = f"[{self.host}]" if ":" in self.host else self.host
        done = subprocess.run([PROGRAM, "bench", "serve", "--base-url", f"http://{host}:{self.port}", *flags],
                              capture_output=True, text=True, timeout=120)
        assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
        return done


def rank(values, percent):
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


class BenchServe(unittest.TestCase):
    def near(self, told_ms, true_s, what, above_ms, below_ms=1e-3):
        self.assertGreater(told_ms, 1000 * true_s - below_ms, what)
        self.assertLess(told_ms, 1000 * true_s + above_ms, what)

    def test_latencies_and_counts_are_the_servers(self):
        fake = Fake(lambda number, _: [0.05 + 0.01 * (number % 3)] + [0.005 + 0.02 * (i == 5) for i in range(9)])
        begin = time.perf_counter()
        result = json.loads(fake.bench("--num-prompts", "24", "--max-concurrency", "6", "--random-input-len", "20",
                                       "--random-output-len", "10", "--json").stdout)
        whole = time.perf_counter() - begin
        self.assertEqual((result["completed"], result["failed"]), (24, 0))
        self.assertEqual((result["total_input_tokens"], result["total_output_tokens"]), (24 * 7, 240))
        self.assertEqual((fake.most, result["max_concurrent_requests"]), (6, 6))
        for body in fake.bodies:
            self.assertEqual((len(body["prompt"]), body["max_tokens"], body["ignore_eos"]), (20, 10, True))
        self.assertTrue(all(10 <= token < 1000 for body in fake.bodies for token in body["prompt"]))
        ways = fake.sent.values()
        ttft, e2e = [way[1] - way[0] for way in ways], [way[-1] - way[0] for way in ways]
        gaps = [b - a for way in ways for a, b in zip(way[1:], way[2:])]
        tpot = [(way[-1] - way[1]) / 9 for way in ways]
        # All have ten tokens, so these hold exactly, however busy the machine is.
        self.assertAlmostEqual(result["mean_e2el_ms"], result["mean_ttft_ms"] + 9 * result["mean_tpot_ms"], places=3)
        self.assertAlmostEqual(result["mean_itl_ms"], result["mean_tpot_ms"], places=3)
        # Six at a time, and all within the program's life.
        self.assertLess(24 * result["mean_e2el_ms"], 6 * 1000 * result["duration"] + 1e-3)
        self.assertLess(result["duration"], whole)
        # The client begins before the server hears of it and has a token after it was sent: what is told is never too little.
        # The way to the server and back comes on top, and gaps between tokens move by it either way: wide bounds.
        for name, values, above, below in (("ttft", ttft, 250, 1e-3), ("itl", gaps, 25, 25), ("tpot", tpot, 25, 25),
                                           ("e2el", e2e, 250, 1e-3)):
            self.near(result[f"mean_{name}_ms"], sum(values) / len(values), name, above, below)
            for percent in (50, 95):
                self.near(result[f"p{percent}_{name}_ms"], rank(values, percent), (name, percent), above, below)
        span = max(way[-1] for way in ways) - min(way[0] for way in ways)
        self.near(1000 * result["duration"], span, "duration", 300)
        self.assertAlmostEqual(result["output_throughput"], 240 / result["duration"], places=6)
        self.assertAlmostEqual(result["request_throughput"], 24 / result["duration"], places=6)

    def test_goodput_counts_who_kept_every_goal(self):
        fake = Fake(lambda number, _: [0.3 if number % 4 == 0 else 0.0] + [0.2 if number % 4 == 1 else 0.0] * 2)
        result = json.loads(fake.bench("--num-prompts", "20", "--max-concurrency", "1", "--goodput", "ttft:150,tpot:100",
                                       "--json").stdout)
        self.assertAlmostEqual(result["request_goodput"] * result["duration"], 10, places=6)
        text = fake.bench("--num-prompts", "4", "--max-concurrency", "1", "--goodput", "e2el:150").stdout
        self.assertIn("2 of 4 kept the goals", text)

    def test_open_loop_keeps_its_rate_whatever_the_server_does(self):
        async def all_are_there():
            while len(fake.bodies) < 40:
                await asyncio.sleep(0.01)

        fake = Fake(lambda *_: [all_are_there])
        result = json.loads(fake.bench("--num-prompts", "40", "--request-rate", "100", "--json").stdout)
        self.assertEqual((result["completed"], fake.most), (40, 40))  # nobody has an answer before all have come
        starts = sorted(way[0] for way in fake.sent.values())
        self.assertGreater(starts[-1] - starts[0], 0.2)
        self.assertLess(starts[-1] - starts[0], 1.2 + 1e-3 * result["client_late_max_ms"])
        self.assertEqual(result["request_rate"], 100)

    def test_a_sweep_is_a_run_for_each_rate(self):
        fake = Fake(lambda *_: [0.01, 0.01])
        with tempfile.NamedTemporaryFile(suffix=".html") as page:
            result = json.loads(fake.bench("--num-prompts", "8", "--request-rate", "40,80,inf", "--json", "--html",
                                           page.name).stdout)
            html = page.read().decode()
        self.assertEqual([run["request_rate"] for run in result["runs"]], [40, 80, "inf"])
        self.assertEqual([run["completed"] for run in result["runs"]], [8, 8, 8])
        self.assertGreater(result["runs"][0]["duration"], result["runs"][2]["duration"])
        self.assertEqual(html.count("<svg"), 5)
        self.assertNotIn("nan", html)
        table = fake.bench("--num-prompts", "2", "--request-rate", "50,inf").stdout.splitlines()
        self.assertEqual(len(table), 4)

    def test_a_sweep_tells_where_latency_leaves_its_flat_part(self):  # checklist 111
        """A server that is slow from its 17th request on, which the third rate sends."""
        fake = Fake(lambda number, _: [0.01, 1.5 if number >= 16 else 0.01])
        table = fake.bench("--num-prompts", "8", "--request-rate", "100,200,400").stdout
        self.assertRegex(table, "p95 of E2E becomes twice that at 100 requests/s between (100 and 200|200 and 400)\n")

    def test_workloads_and_traces_are_sent_as_they_are(self):
        fake = Fake(lambda _, body: [0.0] * body["max_tokens"])
        told = json.loads(fake.bench("--workload", "lengths=5,6,40,8", "--json").stdout)
        self.assertEqual((told["request_rate"], "trace_speed" in told), ("workload", False))
        self.assertEqual(sorted(body["max_tokens"] for body in fake.bodies), [5, 6, 8, 40])
        fake.bodies.clear()
        fake.bench("--workload", "bimodal,requests=30,seed=3", "--json")
        lengths = [body["max_tokens"] for body in fake.bodies]
        self.assertEqual(len(lengths), 30)
        self.assertTrue(all(10 <= n <= 50 or 200 <= n <= 500 for n in lengths) and max(lengths) >= 200)
        contents = []
        for seed in ("1", "1", "2"):
            fake.bodies.clear()
            fake.bench("--num-prompts", "3", "--max-concurrency", "1", "--seed", seed, "--json")
            contents.append([body["prompt"] for body in fake.bodies])
        self.assertEqual(contents[0], contents[1])
        self.assertFalse(any(prompt in contents[0] for prompt in contents[2]))
        self.assertEqual(len({tuple(prompt[:16]) for prompt in contents[0]}), 3)
        fake.bodies.clear()
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as trace:
            trace.write("TIMESTAMP,ContextTokens,GeneratedTokens\n2024-01-01 00:00:00.0,12,3\n2024-01-01 00:00:01.0,34,5\n")
            trace.flush()
            begin = time.monotonic()
            told = json.loads(fake.bench("--trace", trace.name, "--trace-speed", "2", "--json").stdout)
            self.assertEqual((told["request_rate"], told["trace_speed"]), ("trace", 2))
            self.assertGreater(time.monotonic() - begin, 0.5)
        self.assertEqual([(len(body["prompt"]), body["max_tokens"]) for body in fake.bodies], [(12, 3), (34, 5)])

    def test_turns_of_a_conversation_wait_for_each_other(self):
        fake = Fake(lambda *_: [0.02])
        fake.bench("--workload", "multiturn,requests=12,turns=3,think_ms=10,rate=1000", "--json")
        self.assertEqual(len(fake.bodies), 12)
        prompts = [body["prompt"] for body in fake.bodies]
        longer = [p for p in prompts if any(q != p and p[:len(q)] == q for q in prompts)]
        self.assertGreaterEqual(len(longer), 8)  # second and third turns begin with the turn before

    def test_chat_key_and_extra_fields(self):
        fake = Fake(lambda *_: [0.0])
        fake.bench("--endpoint", "/v1/chat/completions", "--num-prompts", "1", "--random-input-len", "9", "--model", "m",
                   "--api-key", "secret", "--extra-body", '{"top_k": 3, "ignore_eos": false}', "--json")
        body = fake.bodies[0]
        self.assertEqual(len(body["messages"][0]["content"].split()), 9)
        self.assertEqual((body["model"], body["top_k"], body["ignore_eos"]), ("m", 3, False))
        self.assertIn("Authorization: Bearer secret\r\n", fake.heads[0])
        self.assertIn("POST /v1/chat/completions HTTP/1.1\r\n", fake.heads[0])

    def test_failures_are_counted_and_said(self):
        fake = Fake(lambda number, _: 500 if number % 2 else [0.0, 0.0])
        done = fake.bench("--num-prompts", "10", "--max-concurrency", "1", "--json", status=1)
        result = json.loads(done.stdout)
        self.assertEqual((result["completed"], result["failed"], result["errors"]), (5, 5, ["HTTP 500: oops"]))
        self.assertIn("5 of 10 requests failed: HTTP 500: oops", done.stderr)
        for status, flags, says in ((2, ["--base-url", "https://x"], "--base-url is 'https://x'"),
                                    (2, ["--request-rate", "0"], "--request-rate is '0'"),
                                    (2, ["--goodput", "ttft"], "--goodput is 'ttft'"),
                                    (2, ["--workload", "what"], "workload 'what'"),
                                    (2, ["--workload", "closed,requests=4", "--num-prompts", "4"],
                                     "--num-prompts is 4 beside --workload 'closed,requests=4'"),
                                    (2, ["--num-prompts", "0x4"], "--num-prompts is '0x4', allowed: a whole number in [1"),
                                    (2, ["--request-rate", "1e-12"], "the last one comes after more than 4000000000 s"),
                                    (2, ["--base-url", "http://x:65536"], "--base-url is 'http://x:65536'"),
                                    (2, ["--base-url", "http://x:0"], "--base-url is 'http://x:0'"),
                                    (2, ["--base-url", "http://[::1"], "--base-url is 'http://[::1'"),
                                    (2, ["--trace-speed", "2"], "--trace"),
                                    (2, ["--trace", "x", "--trace-speed", "-5"], "--trace-speed"),
                                    (2, ["--bogus"], "see: inflight bench serve --help"),
                                    (1, ["--base-url", "http://127.0.0.1:1"], "cannot connect")):
            done = subprocess.run([PROGRAM, "bench", "serve", *flags], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, status, flags)
            self.assertIn(says, done.stderr)

    def test_what_a_server_says_is_one_line_of_valid_text(self):
        fake = Fake(lambda *_: 500, refusal="第一行\n第二行".encode() * 20 + b"\xff")
        done = fake.bench("--num-prompts", "1", "--json", status=1)
        error, = json.loads(done.stdout)["errors"]
        self.assertTrue(error.startswith("HTTP 500: 第一行\\n第二行第"), error)
        self.assertTrue(error.endswith("...") and len(error.encode()) < 250, error)
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_an_error_of_null_is_none(self):
        fake = Fake(lambda *_: [0.0, 0.0], event={"error": None})
        self.assertEqual(json.loads(fake.bench("--num-prompts", "2", "--json").stdout)["completed"], 2)
        fake = Fake(lambda *_: [0.0, 0.0], event={"error": {"message": "no"}})
        self.assertIn('no', json.loads(fake.bench("--num-prompts", "1", "--json", status=1).stdout)["errors"][0])

    def test_a_host_may_be_an_ipv6_address(self):
        try:
            fake = Fake(lambda *_: [0.0], host="::1")
        except OSError:
            self.skipTest("this machine has no IPv6")
        self.assertEqual(json.loads(fake.bench("--num-prompts", "1", "--json").stdout)["completed"], 1)
        self.assertIn(f"\r\nHost: [::1]:{fake.port}\r\n", fake.heads[0])


if __name__ == "__main__":
    unittest.main()
