#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What one client may not do to the others, and what a web page may not make a browser send: `inflight serve` with the demo
model answers each attempt with one clear error, and the next request as if nothing had been.
    attack_test.py PROGRAM SOURCE [unittest arguments]"""
import http.client
import json
import pathlib
import re
import socket
import sys
import tempfile
import threading
import unittest

from server_process import Server

PROGRAM, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
STORY = {"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}
CHAT = {"messages": [{"role": "user", "content": "Tell me a story."}]}


def setUpModule():
    global server
    server = Server(PROGRAM, "--cors-origin", "http://page.example")


def tearDownModule():
    server.__exit__()


class Simulator(unittest.TestCase):
    def test_it_is_held_within_bounds(self):
        for spec, message in (
            ({"workload": "closed,requests=1001"}, "requests is '1001', allowed: 1 to 1000"),
            ({"workload": "closed,requests=5e7"}, "requests is '5e7', allowed: 1 to 1000"),
            ({"workload": "closed,requests=.5e8"}, "requests is '.5e8', allowed: 1 to 1000"),
            ({"workload": "prefix,prefix_groups=1e7"}, "prefix_groups is '1e7', allowed: 1 to 1000"),
            ({"workload": "closed,requests=1000,prompt=2000,output=2000"}, "too many tokens in prompts and outputs, allowed: 20"),
            ({"workload": "multiturn,requests=1000,turns=1000,prompt=1e7"}, "too many tokens in prompts and outputs"),
            ({"workload": "closed,output=file:/etc/passwd"}, "'workload' names a file, allowed here: none"),
            ({"workload": "closed,prompt=99999999999999"}, "prompt is '99999999999999', allowed: "),
            ({"workload": "closed,requests=9,prompt=1.5e4,output=1.5e4"}, "max_model_len"),
            ({"workload": 7}, "'workload' is 7, a text of at most 500 bytes is expected"),
            ({"workload": "closed", "device": "/tmp/a.json"}, "'device' is \"/tmp/a.json\", a name is expected"),
            ({"workload": "closed", "policy": "./evil.so"}, "'policy' is \"./evil.so\", a name is expected"),
            ({"trace": "/etc/passwd"}, "unknown field 'trace', allowed: workload, device"),
            ({"workload": "closed", "replicas": 64}, "unknown field 'replicas', allowed: workload, device"),
            ({"workload": "closed", "max_num_seqs": "8"}, "'max_num_seqs' is \"8\", an integer between 1 and 1024 is expected"),
            ({"workload": "closed", "max_num_seqs": 65536}, "'max_num_seqs' is 65536, an integer between 1 and 1024 is expected"),
            ({"workload": "closed", "max_num_seqs": 0}, "'max_num_seqs' is 0, an integer between 1 and 1024 is expected"),
            ({"workload": "closed", "max_num_seqs": -1}, "'max_num_seqs' is -1, an integer between 1 and 1024 is expected"),
            ({"workload": "closed", "max_num_seqs": 1.5}, "'max_num_seqs' is 1.5, an integer between 1 and 1024 is expected"),
            ({"workload": "closed", "max_num_batched_tokens": 0}, "'max_num_batched_tokens' is 0, an integer between 1"),
            ({"workload": "closed", "max_batch_delay_ms": -1}, "'max_batch_delay_ms' is -1, a number between 0 and 3600000"),
            ({"workload": "closed", "kv_blocks": 268435456}, "'kv_blocks' is 268435456, an integer between 0 and 65536"),
            ({"workload": "closed", "policy": "nobody"}, "nobody"),
        ):
            status, _, body = server.request("POST", "/inflight/simulate", spec)
            self.assertEqual(status, 404 if message == "nobody" else 400, (spec, body))
            self.assertIn(message, body["error"]["message"])
            if "expected" in message:
                self.assertEqual(body["error"]["param"], list(spec)[-1])
        for spec in ({"workload": "closed", "max_num_seqs": 8.0},
                     {"workload": "closed,requests=1e3,prompt=16,output=16"}, {"workload": "closed", "kv_blocks": 900}):
            self.assertIn("makespan_s", server.post("/inflight/simulate", spec))

    def test_the_manual_lists_its_keys(self):
        _, _, refused = server.request("POST", "/inflight/simulate", {"trace": ""})
        allowed = refused["error"]["message"].split("allowed: ")[1].split(", ")
        self.assertGreater(len(allowed), 10)
        manual = (SOURCE / "docs/SERVER.md").read_text()
        listed = re.search(r"`POST /inflight/simulate` takes (.*?)\.\s", manual, re.S)[1]
        self.assertEqual(re.findall(r"`([a-z_]+)`", listed), allowed)


def on_its_way(port):
    """Bytes for the server that it has not read."""
    count = 0
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, queues = line.split()[:5]
        sent, received = (int(text, 16) for text in queues.split(":"))
        listens = state == "0A"
        count += received if int(local[9:], 16) == port and not listens else sent if int(remote[9:], 16) == port else 0
    return count


class Strangers(unittest.TestCase):
    def test_a_body_is_read_only_of_those_who_have_a_key(self):
        size = 16 << 20  # of each of sixteen: all that there is for bodies
        with Server(PROGRAM, "--api-key", "secret") as guarded:
            def attack(stranger):
                try:
                    stranger.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                     b"Content-Length: %d\r\n\r\n" % size + b" " * (size - 1))
                except OSError:
                    pass  # that is what it should hear
            strangers = [socket.create_connection(("127.0.0.1", guarded.port)) for _ in range(16)]
            threads = [threading.Thread(target=attack, args=(stranger,)) for stranger in strangers]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            while on_its_way(guarded.port):
                pass
            guarded.post("/v1/completions", STORY, Authorization="Bearer secret")
            for stranger in strangers:
                stranger.close()

    def test_refusals_that_need_no_body_do_not_wait_for_it(self):
        with Server(PROGRAM, "--api-key", "secret") as guarded:
            for path, more, status in (("/v1/chat/completions", "", 401), ("/v1/other", "", 404), ("/health", "", 405),
                                       ("/tokenize", "Authorization: Bearer secret\r\nContent-Type: text/plain\r\n", 415),
                                       ("/tokenize", "X-Api-Key: secret\r\nOrigin: http://evil.example\r\n", 403)):
                stranger = socket.create_connection(("127.0.0.1", guarded.port), timeout=60)
                stranger.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n{more}"
                                 "Content-Length: 1000\r\n\r\n".encode())
                answer = stranger.makefile("rb").read().decode()
                self.assertTrue(answer.startswith(f"HTTP/1.1 {status} "), (path, answer))
                self.assertEqual("WWW-Authenticate: Bearer" in answer, status == 401, answer)
                stranger.close()


class LongWork(unittest.TestCase):
    def test_a_long_answer_is_written_beside_the_others(self):
        """Between the last token and the first byte the server answers others: it did not while it wrote hundreds of MB."""
        body = {**CHAT, "n": 64, "max_tokens": 400, "ignore_eos": True, "logprobs": True, "top_logprobs": 20}
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        answers = []
        reader = threading.Thread(target=lambda: answers.append(connection.getresponse()))
        reader.start()
        while server.metrics()["inflight_num_requests_running"] == 0:
            pass
        while server.metrics()["inflight_num_requests_running"] > 0:
            pass
        beside = 0
        while not answers:
            self.assertEqual(server.request("GET", "/health")[0], 200)
            beside += 1
        reader.join()
        self.assertGreater(beside, 20)
        answer = json.load(answers[0])
        self.assertEqual([len(one["logprobs"]["content"]) for one in answer["choices"]], [400] * 64)
        connection.close()

    def test_who_leaves_while_it_is_written_is_gone(self):
        body = json.dumps({**CHAT, "n": 32, "max_tokens": 100, "ignore_eos": True, "logprobs": True, "top_logprobs": 20})
        leaver = socket.create_connection(("127.0.0.1", server.port))
        leaver.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}"
                       .encode())
        while server.metrics()["inflight_num_requests_running"] == 0:
            pass
        while server.metrics()["inflight_num_requests_running"] > 0:
            pass
        leaver.close()
        while server.metrics()["inflight_http_requests_open"] > 1:  # but this one
            pass
        self.assertEqual(server.post("/v1/completions", STORY)["usage"]["completion_tokens"], 8)


class Memory(unittest.TestCase):
    def test_a_longest_body_beyond_the_usual_memory_is_read(self):
        with Server(PROGRAM, "--max-body-megabytes", "300") as large:
            status, _, answer = large.request("POST", "/tokenize", b" " * (257 << 20))
            self.assertEqual((status, "empty" in answer["error"]["message"] or "JSON" in answer["error"]["message"]),
                             (400, True), answer)

    def test_a_refused_prompt_is_not_copied_for_each_answer(self):
        with Server(PROGRAM) as fresh:
            before = fresh.resident_kilobytes("VmHWM")
            body = {"prompt": "word " * (1 << 20), "n": 128, "echo": True}
            status, _, answer = fresh.request("POST", "/v1/completions", body)
            self.assertEqual(status, 400, answer)
            self.assertLess(fresh.resident_kilobytes("VmHWM") - before, 128 * (5 << 10) // 2)  # half of the copies


class Origins(unittest.TestCase):
    POSTS = ("/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/responses/input_tokens", "/v1/messages",
             "/v1/messages/count_tokens", "/v1/embeddings", "/v1/load_lora_adapter", "/v1/unload_lora_adapter",
             "/reset_prefix_cache", "/tokenize", "/detokenize", "/inflight/simulate")

    def ask(self, path, origin, body=b"{}", host=None):
        """As a browser does for fetch() with a Blob of no type: without a Content-Type, so without asking first."""
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        connection.request("POST", path, body, {"Origin": origin, **({"Host": host} if host else {})})
        answer = connection.getresponse()
        data = json.loads(answer.read())
        connection.close()
        return answer.status, data

    def test_pages_of_other_sites_may_not_post(self):
        described = server.request("GET", "/openapi.json")[2]["paths"]
        self.assertEqual(sorted(self.POSTS), sorted(path for path, methods in described.items() if "post" in methods))
        for path in self.POSTS:
            for origin in ("http://evil.example", "null", f"http://127.0.0.1:{server.port + 1}"):
                status, answer = self.ask(path, origin)
                self.assertEqual((status, answer["error"]["type"]), (403, "permission_error"), path)
                self.assertIn(f"pages of {origin} may not use this server", answer["error"]["message"])

    def test_a_name_that_was_made_to_lead_here_is_another_site(self):
        """DNS rebinding: for the browser page and server have one origin, so the server must know its own names."""
        for host in (f"evil.example:{server.port}", "evil.example", "localhost.evil.example", "127.evil.example", "[::1].evil"):
            self.assertEqual(self.ask("/reset_prefix_cache", f"http://{host}", host=host)[0], 403, host)
        for host in (f"localhost:{server.port}", "LocalHost", f"127.0.0.1:{server.port}", "127.1.2.3", f"[::1]:{server.port}",
                     "[::1]", "page.example"):
            self.assertEqual(self.ask("/reset_prefix_cache", f"http://{host}", host=host), (200, {}), host)

    def test_own_pages_and_those_allowed_may(self):
        for origin in (f"http://127.0.0.1:{server.port}", f"https://127.0.0.1:{server.port}", "http://page.example"):
            self.assertEqual(self.ask("/reset_prefix_cache", origin), (200, {}))
        with Server(PROGRAM, "--cors-origin", "*") as open_to_all:
            status, fields, _ = open_to_all.request("POST", "/tokenize", {"prompt": "a"}, {"Origin": "http://any.example"})
            self.assertEqual((status, fields["Access-Control-Allow-Origin"]), (200, "*"))


class WithoutVocabulary(unittest.TestCase):
    """A model that knows token ids only: what would need their texts is refused, and the server goes on."""

    def test_texts_of_tokens_are_refused(self):
        model = (SOURCE / "models/tinyworld/tinyworld-f16.gguf").read_bytes()
        key = b"tokenizer.ggml.model"
        self.assertEqual(model.count(key), 1)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "ids.gguf")
            path.write_bytes(model.replace(key, b"tokenizer.ggml.other"))
            with Server(PROGRAM, "-m", str(path)) as ids_only:
                body = {"prompt": [1, 2, 3], "max_tokens": 4}
                self.assertEqual(ids_only.post("/v1/completions", body)["usage"]["completion_tokens"], 4)
                for more in ({"logprobs": 1}, {"logprobs": 1, "stream": True}, {"prompt_logprobs": 1}, {"echo": True}):
                    status, _, answer = ids_only.request("POST", "/v1/completions", {**body, **more})
                    self.assertEqual((status, "no vocabulary" in answer["error"]["message"]), (400, True), answer)
                status, _, answer = ids_only.request("GET", "/tokenizer_info")
                self.assertEqual((status, "no vocabulary" in answer["error"]["message"]), (404, True), answer)
                self.assertEqual(ids_only.request("GET", "/health")[0], 200)


class Limits(unittest.TestCase):
    ENDPOINTS = (("/v1/completions", {"prompt": "Once", "n": 64}), ("/v1/chat/completions", {**CHAT, "n": 64}),
                 ("/v1/responses", {"input": "Tell me a story."}), ("/v1/messages", CHAT))

    def test_a_request_whose_time_is_over_ends_with_an_error(self):
        with Server(PROGRAM, "--request-timeout-ms", "15") as hasty:
            for path, body in self.ENDPOINTS:
                limit = "max_output_tokens" if path == "/v1/responses" else "max_tokens"
                body = {**body, limit: 450, "min_tokens": 450}
                status, _, answer = hasty.request("POST", path, body)
                self.assertEqual((status, answer["error"]["code"]), (504, "timeout"), (path, answer))
                self.assertIn("time is over", answer["error"]["message"])
                connection, streamed = hasty.open_stream(path, body)
                text = streamed.read().decode()
                connection.close()
                last = text if streamed.status == 504 else text.strip().split("data: ")[-1]  # late for its first token, or not
                event = json.loads(last)
                self.assertEqual(event["error"]["code"], "timeout", (path, text[-500:]))
                if path == "/v1/responses" and streamed.status == 200:  # OpenAI's event
                    self.assertEqual({key: event[key] for key in ("type", "code", "message", "param")},
                                     {"type": "error", **{key: event["error"][key] for key in ("code", "message", "param")}})
                    self.assertEqual(event["sequence_number"], text.count("data: ") - 1)
                self.assertNotIn("[DONE]", text)
            self.assertEqual(hasty.wait_idle()["inflight_kv_cache_usage_perc"], 0)

    def test_without_a_wish_a_request_gets_the_limit(self):
        with Server(PROGRAM, "--max-tokens-limit", "12", "--clip-max-tokens", "off") as strict:
            for path, body in self.ENDPOINTS:
                one = {key: value for key, value in body.items() if key != "n"}
                usage = strict.post(path, {**one, "ignore_eos": True})["usage"]
                self.assertEqual(usage.get("completion_tokens", usage.get("output_tokens")), 12, path)
            self.assertEqual(strict.post("/v1/messages", {**CHAT, "ignore_eos": True})["stop_reason"], "max_tokens")
            status, _, answer = strict.request("POST", "/v1/chat/completions", {**CHAT, "max_tokens": 13})
            self.assertEqual((status, "max_tokens is 13" in answer["error"]["message"]), (400, True))


if __name__ == "__main__":
    unittest.main()
