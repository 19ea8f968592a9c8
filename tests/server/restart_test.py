#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`inflight serve` when the driver never comes back, and on a socket that somebody else opened.
    restart_test.py PROGRAM HANGING_DRIVER [unittest arguments]"""
import http.client
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from server_process import Server

PROGRAM, HANGING_DRIVER = sys.argv.pop(1), sys.argv.pop(1)
STORY = {"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}
ENDLESS = {**STORY, "max_tokens": 450, "ignore_eos": True}


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class Restart(InFolder):
    def serve(self, *flags):
        self.hang = self.folder / "hang"
        return Server(PROGRAM, "--watchdog-timeout", "1", *flags,
                      environment={"LD_PRELOAD": HANGING_DRIVER, "HANG": str(self.hang)})

    # checklist 112: a driver's call that never returns: every request ends with an error, the next ones are served.
    def test_requests_end_and_the_same_process_serves_again(self):
        record = self.folder / "run.trace"
        answers = {}
        hangs = threading.Event()

        def ask(stream):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
            connection.request("POST", "/v1/completions", json.dumps({**ENDLESS, "stream": stream}),
                               {"Content-Type": "application/json"})
            answer = connection.getresponse()
            first = answer.readline() if stream else b""
            if stream:
                self.hang.touch()
                hangs.set()
            answers[stream] = (answer.status, first + answer.read())

        def reset():  # waits for the engine's thread, which hangs
            hangs.wait()
            time.sleep(0.2)
            answers["reset"] = server.request("POST", "/reset_prefix_cache", {})[0]

        with self.serve("--restart-on-failure", "--record", str(record)) as server:
            before = server.post("/v1/completions", STORY)["choices"][0]["text"]
            askers = [threading.Thread(target=ask, args=(stream,)) for stream in (False, True)]
            askers.append(threading.Thread(target=reset))
            for asker in askers:
                asker.start()
            for asker in askers:
                asker.join()
            status, body = answers[False]
            self.assertEqual((status, json.loads(body)["error"]["code"]), (503, "engine_failed"))
            status, body = answers[True]
            events = [line[6:] for line in body.decode().split("\n") if line.startswith("data: ")]
            self.assertEqual((status, json.loads(events[-1])["error"]["code"]), (200, "engine_failed"))
            self.assertEqual(answers["reset"], 503)
            # Nobody is turned away meanwhile: the connection waits in the socket's queue.
            self.assertEqual(server.post("/v1/completions", STORY)["choices"][0]["text"], before)
            self.assertEqual(server.request("GET", "/health")[0], 200)
            self.assertEqual(server.metrics()["inflight_num_requests_total"], 1)  # a fresh engine
            self.assertTrue(record.exists())
            self.assertGreater((self.folder / "run.trace.failed").stat().st_size, 0)
            server.terminate()
            self.assertEqual(server.wait(), 0)
        told = "".join(server.lines)
        self.assertIn("a step of the engine hangs: 2 requests end with an error", told)
        self.assertEqual(told.count(f"serving on http://127.0.0.1:{server.port}"), 2)
        self.assertIn("run.trace.failed", told)

    def test_without_the_option_health_says_so(self):
        with self.serve() as server:
            self.hang.touch()
            connection = http.client.HTTPConnection("127.0.0.1", server.port)
            connection.request("POST", "/v1/completions", json.dumps(ENDLESS), {"Content-Type": "application/json"})
            while (found := server.request("GET", "/health"))[0] == 200:
                time.sleep(0.05)
            self.assertEqual(found[2]["error"]["code"], "hung")
            server.process.kill()
            connection.close()

    def test_a_failed_engine_is_told_alike_by_all(self):
        broken = self.folder / "broken"
        with Server(PROGRAM, environment={"LD_PRELOAD": HANGING_DRIVER, "BREAK": str(broken)}) as server:
            broken.touch()
            self.assertEqual(server.request("POST", "/v1/completions", STORY)[2]["error"]["code"], "engine_failed")
            for path, body in (("/v1/completions", STORY), ("/reset_prefix_cache", {})):
                status, fields, answer = server.request("POST", path, body)
                self.assertEqual((status, answer["error"]["code"]), (503, "engine_failed"), (path, answer))
                self.assertIn("Retry-After", fields)


class Inherited(InFolder):
    """The program is started as systemd does it; the socket comes in as standard input here and becomes number 3."""

    def script(self, sockets):
        path = self.folder / "inflight"
        path.write_text(f'#!/bin/sh\nLISTEN_PID=$$ LISTEN_FDS={sockets} exec "{PROGRAM}" "$@" 3<&0\n')
        path.chmod(0o755)
        return str(path)

    def test_serves_on_the_socket(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            with Server(self.script(1), stdin=listener) as server:
                self.assertEqual(server.port, port)  # --port 0 was not looked at
                self.assertEqual(len(server.post("/v1/completions", STORY)["choices"]), 1)

    def test_what_is_wrong_with_the_socket_is_one_line(self):
        with socket.socket() as deaf:
            for sockets, expected in ((1, "file descriptor 3 is no socket that listens"),
                                      (2, "$LISTEN_FDS is '2', allowed: one socket")):
                done = subprocess.run([self.script(sockets), "serve"], stdin=deaf, capture_output=True, text=True,
                                      timeout=120)
                self.assertNotEqual(done.returncode, 0)
                self.assertEqual(done.stderr.strip().split("\n")[-1].count(expected), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
