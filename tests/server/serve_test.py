#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`inflight serve` as its clients and operators meet it, with the demo model and nothing but Python's own library.
    serve_test.py PROGRAM [unittest arguments]"""
import concurrent.futures
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import unittest
import urllib.request

from server_process import Server

PROGRAM = sys.argv.pop(1)
STORY = {"prompt": "Once upon a time", "max_tokens": 24, "temperature": 0}
ENDLESS = {"prompt": "Once upon a time", "max_tokens": 450, "ignore_eos": True, "temperature": 0}


def setUpModule():
    global server
    server = Server(PROGRAM, "--cors-origin", "http://page.example")


def tearDownModule():
    server.__exit__()


class Text(unittest.TestCase):
    # checklist 103: the pieces are the whole answer's text, and the last event is [DONE] (Server.stream()).
    def test_streamed_text_equals_the_whole_answer(self):
        whole = server.post("/v1/completions", STORY)
        events = server.stream("/v1/completions", {**STORY, "stream_options": {"include_usage": True}})
        text = "".join(event["choices"][0]["text"] for event in events[:-1])
        self.assertEqual(text, whole["choices"][0]["text"])
        self.assertTrue(text)
        self.assertEqual(events[-1]["choices"], [])
        self.assertEqual(events[-1]["usage"]["completion_tokens"], 24)
        self.assertEqual(events[-2]["choices"][0]["finish_reason"], "length")
        for key in ("prompt_tokens", "completion_tokens", "total_tokens"):  # cached ones differ: the second had a hit
            self.assertEqual(whole["usage"][key], events[-1]["usage"][key])
        self.assertEqual(whole["usage"]["total_tokens"], whole["usage"]["prompt_tokens"] + 24)

    def test_the_same_answer_alone_and_in_company(self):
        alone = server.post("/v1/completions", {**STORY, "temperature": 1, "seed": 7})["choices"][0]["text"]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            bodies = [{**STORY, "temperature": 1, "seed": seed} for seed in range(1, 17)]
            answers = list(pool.map(lambda body: server.post("/v1/completions", body)["choices"][0]["text"], bodies))
        self.assertEqual(answers[6], alone)
        self.assertGreater(len(set(answers)), 8)

    def test_prompts_as_text_ids_and_lists(self):
        ids = server.post("/tokenize", {"prompt": STORY["prompt"]})["tokens"]
        self.assertEqual(server.post("/detokenize", {"tokens": ids})["prompt"], STORY["prompt"])
        marks = "<|im_start|>user\nOnce<|im_end|>"  # as vLLM and llama-server: nothing is left out
        marked = server.post("/tokenize", {"prompt": marks})["tokens"]
        self.assertIn(marks, server.post("/detokenize", {"tokens": marked})["prompt"])
        by_text = server.post("/v1/completions", STORY)["choices"][0]["text"]
        for prompt in (ids, [ids], [STORY["prompt"]]):
            self.assertEqual(server.post("/v1/completions", {**STORY, "prompt": prompt})["choices"][0]["text"], by_text)
        both = server.post("/v1/completions", {**STORY, "prompt": [STORY["prompt"], "Tom was"], "n": 2})
        self.assertEqual([choice["index"] for choice in both["choices"]], [0, 1, 2, 3])
        self.assertEqual(both["choices"][0]["text"], by_text)
        self.assertEqual(both["choices"][1]["text"], by_text)
        self.assertNotEqual(both["choices"][2]["text"], by_text)
        self.assertEqual(both["usage"]["completion_tokens"], sum(24 for _ in range(4)))

    def test_seeds(self):
        body = {**STORY, "temperature": 1.5, "n": 3}
        first = server.post("/v1/completions", {**body, "seed": 0})["choices"]
        again = server.post("/v1/completions", {**body, "seed": 0})["choices"]
        self.assertEqual(first, again)
        self.assertEqual(len({choice["text"] for choice in first}), 3)

    def test_echo_and_logprobs(self):
        answer = server.post("/v1/completions", {**STORY, "echo": True, "logprobs": 0})["choices"][0]
        self.assertTrue(answer["text"].startswith(STORY["prompt"]))
        logprobs = answer["logprobs"]
        prompt = len(server.post("/tokenize", {"prompt": STORY["prompt"]})["tokens"])
        self.assertEqual(len(logprobs["tokens"]), prompt + 24)
        self.assertEqual("".join(logprobs["tokens"][prompt:]), answer["text"][len(STORY["prompt"]):])
        self.assertTrue(all(value <= 0 for value in logprobs["token_logprobs"][1:]))

    def test_stop_tokens(self):
        ids = server.post("/tokenize", {"prompt": ","})["tokens"]
        answer = server.post("/v1/completions", {**STORY, "stop_token_ids": ids})["choices"][0]
        self.assertEqual((answer["text"], answer["finish_reason"]), ("", "stop"))


class Errors(unittest.TestCase):
    def check(self, status, method, path, body=None, headers=None, param=None, says=""):
        got, fields, answer = server.request(method, path, body, headers)
        self.assertEqual(got, status, answer)
        self.assertEqual(set(answer["error"]), {"message", "type", "param", "code"})
        self.assertIn(says, answer["error"]["message"])
        self.assertEqual(answer["error"]["param"], param)
        return fields

    def test_each_has_its_status_and_says_what_is_wrong(self):
        self.check(404, "GET", "/nothing", says="/nothing")
        fields = self.check(405, "DELETE", "/v1/completions", says="POST")
        self.assertEqual(fields["Allow"], "POST")
        fields = self.check(405, "DELETE", "/health", says="GET, HEAD")
        self.assertEqual(fields["Allow"], "GET, HEAD")
        self.check(404, "GET", "/v1/models/other", param="model", says="other")
        self.check(404, "POST", "/v1/completions", {**STORY, "model": "gpt-9"}, param="model", says="gpt-9")
        self.check(415, "POST", "/v1/completions", b"a=b", {"Content-Type": "application/x-www-form-urlencoded"}, says="json")
        self.check(400, "POST", "/v1/completions", b"{", says="not valid JSON")
        self.check(400, "POST", "/v1/completions", b'{"prompt": "\xff"}', says="UTF-8")
        self.check(400, "POST", "/v1/completions", b"", says="empty")
        self.check(400, "POST", "/v1/completions", {**STORY, "top_q": 1}, param="top_q", says="unknown field")
        self.check(415, "POST", "/v1/completions", STORY, {"Content-Encoding": "gzip"}, says="Content-Encoding is 'gzip'")
        self.check(400, "POST", "/v1/completions", {"prompt": ""}, param="prompt", says="prompt")
        self.check(400, "POST", "/v1/completions", {"prompt": [1 << 30]}, param="prompt", says=str(1 << 30))
        self.check(400, "POST", "/v1/completions", {**STORY, "logit_bias": {"9999": 1}}, param="logit_bias", says="9999")
        self.check(400, "POST", "/v1/completions", {**STORY, "stop_token_ids": [9999]}, param="stop_token_ids", says="9999")
        self.check(400, "POST", "/detokenize", {"tokens": [1 << 30]}, says=str(1 << 30))
        self.check(400, "POST", "/tokenize", {"prompt": 4}, param="prompt", says="string")
        self.check(400, "POST", "/tokenize", {"prompt": "a", "model": 4}, param="model", says="string")
        self.check(400, "POST", "/tokenize", {"content": None}, param="prompt", says="string")
        with_null = {"prompt": "a", "content": None, "messages": None, "add_special_tokens": None, "model": None}
        self.assertEqual(server.post("/tokenize", with_null), server.post("/tokenize", {"prompt": "a"}))
        message = {"role": "user", "content": "x", "name": 5}
        self.check(400, "POST", "/tokenize", {"messages": [message]}, param="messages[0].name", says="5")
        self.check(400, "POST", "/detokenize", {"tokens": [1.5]}, param="tokens[0]", says="1.5")
        self.assertEqual(server.post("/detokenize", {"tokens": [50.0]}), server.post("/detokenize", {"tokens": [50]}))
        self.check(413, "POST", "/v1/completions", b"x" * (17 << 20), says="16777216")
        self.assertEqual(server.request("POST", "/v1/completions", STORY, {"Content-Encoding": "identity"})[0], 200)

    def test_a_prompt_that_is_too_long_is_recognised(self):
        """By the code that OpenAI's clients know, and by the words that litellm, LangChain and Anthropic's clients look for."""
        long = "word " * 2000
        messages = [{"role": "user", "content": long}]
        for path, field, value in (("/v1/completions", "prompt", long), ("/v1/chat/completions", "messages", messages),
                                   ("/v1/responses", "input", long), ("/v1/messages", "messages", messages),
                                   ("/v1/embeddings", "input", long)):
            status, _, answer = server.request("POST", path, {field: value})
            error = answer["error"]
            self.assertEqual((status, error["type"], error["code"], error["param"]),
                             (400, "invalid_request_error", "context_length_exceeded", field), path)
            for words in ("prompt is too long", "this model's maximum context length is 512 tokens"):
                self.assertIn(words, error["message"], path)

    def test_a_model_that_is_not_served(self):
        messages = [{"role": "user", "content": "x"}]
        for path, body in (("/tokenize", {"prompt": "a"}), ("/tokenize", {"messages": messages}),
                           ("/detokenize", {"tokens": [50]}), ("/v1/messages/count_tokens", {"messages": messages}),
                           ("/v1/responses/input_tokens", {"input": "x"}), ("/v1/embeddings", {"input": "x"}),
                           ("/v1/chat/completions", {"messages": messages})):
            self.check(404, "POST", path, {**body, "model": "gpt-9"}, param="model", says="the model 'gpt-9' does not exist")
            self.assertEqual(server.request("POST", path, {**body, "model": "default"})[0], 200, path)

    def test_a_failed_request_leaves_nothing_behind(self):
        body = {"prompt": ["ok", "word " * 2000], "max_tokens": 400, "ignore_eos": True}
        for _ in range(20):
            self.assertEqual(server.request("POST", "/v1/completions", body)[0], 400)
        self.assertEqual(server.wait_idle()["inflight_kv_cache_usage_perc"], 0)


class Operation(unittest.TestCase):
    def test_health_ready_version_models_openapi(self):
        for path in ("/health", "/ready", "/version", "/v1/models", "/openapi.json"):
            self.assertEqual(server.request("GET", path)[0], 200, path)
        status, fields, body = server.request("HEAD", "/health")
        self.assertEqual((status, body), (200, b""))
        name = server.request("GET", "/v1/models")[2]["data"][0]["id"]
        self.assertEqual(server.request("GET", "/v1/models/" + name)[2]["id"], name)
        self.assertEqual(server.post("/v1/completions", {**STORY, "model": name})["model"], name)

    def test_names_with_a_slash(self):
        with Server(PROGRAM, "--served-model-name", "org/tiny", "--served-model-name", "second") as named:
            samples = [line for line in named.request("GET", "/metrics")[2].decode().splitlines() if line.startswith("vllm:")]
            self.assertTrue(samples)
            self.assertTrue(all('{model_name="org/tiny"' in line for line in samples), samples)
            text = named.request("GET", "/metrics")[2].decode()
            self.assertEqual([line for line in text.splitlines() if line[0] != "#" and '{model_name="org/tiny"' not in line], [])
            for path in ("org%2Ftiny", "org%2ftiny", "org/tiny", "%73econd"):
                status, _, answer = named.request("GET", "/v1/models/" + path)
                self.assertEqual((status, answer.get("object")), (200, "model"), path)
            for path in ("org%2", "%", "org%zztiny", "org%+2tiny"):
                self.assertEqual(named.request("GET", "/v1/models/" + path)[0], 400, path)
            status, _, answer = named.request("GET", "/v1/models/third")
            self.assertEqual((status, answer["error"]["message"]),
                             (404, "the model 'third' does not exist, served: org/tiny, second"))

    def test_what_can_never_be_asked_for_is_refused(self):
        for flag, value, says in (("--served-model-name", "", "--served-model-name is empty"),
                                  ("--cors-origin", "foo", "--cors-origin is 'foo', allowed: *, null or scheme://host[:port]"),
                                  ("--cors-origin", "http://page.example/", "http://page.example/"),
                                  ("--cors-origin", "http://Page.example", "lower case"),
                                  ("--cors-origin", "http://", "scheme://host"), ("--cors-origin", "", "is ''"),
                                  ("--cors-origin", "http://a:b", "http://a:b")):
            done = subprocess.run([PROGRAM, "serve", "--port", "0", flag, value], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, (flag, value))
            self.assertIn(says, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for value in ("null", "https://a.example:8443", "http://[::1]:80"):
            with Server(PROGRAM, "--cors-origin", value):
                pass

    def test_metrics_have_both_names(self):
        server.post("/v1/completions", STORY)
        metrics = server.metrics()
        for name in ("num_requests_running", "generation_tokens_total", "prompt_tokens_total"):
            self.assertEqual(metrics["inflight_" + name], metrics["vllm:" + name])

    def test_metrics_are_families_of_their_own_in_openmetrics_too(self):
        """Where a counter's family is called without its _total."""
        _, _, text = server.request("GET", "/metrics")
        types = re.findall(r"^# TYPE (\S+) (\S+)$", text.decode(), flags=re.M)
        families = [name.removesuffix("_total") if kind == "counter" else name for name, kind in types]
        self.assertGreater(len(families), 100)
        self.assertEqual(len(set(families)), len(families), sorted(families))

    def test_steps_can_be_watched(self):
        server.wait_idle()
        _, _, before = server.request("GET", "/inflight/stats")
        _, _, nothing = server.request("GET", f"/inflight/stats?since={before['last_step']}")
        self.assertEqual(nothing["steps"], [])
        usage = server.post("/v1/completions", {**STORY, "cache_salt": "watched"})["usage"]
        server.wait_idle()
        _, _, after = server.request("GET", f"/inflight/stats?since={before['last_step']}")
        shares = [share for step in after["steps"] for share in step["sequences"]]
        self.assertEqual({share[0] for share in shares}, {shares[0][0]})
        self.assertEqual(sum(share[2] for share in shares if not share[1]), usage["prompt_tokens"])
        self.assertEqual(sum(share[2] for share in shares if share[1]), usage["completion_tokens"] - 1)
        self.assertEqual(after["tokens"]["output"] - before["tokens"]["output"], 24)
        for bad in ("since=x", "since=", "since=-1", "until=4", "since=1&since=2"):
            status, _, answer = server.request("GET", "/inflight/stats?" + bad)
            self.assertEqual((status, answer["error"]["param"]), (400, "since"), bad)

    def test_token_counters_are_exact(self):
        before = server.wait_idle()
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            bodies = [{**ENDLESS, "max_tokens": 5 + i, "seed": i + 1, "temperature": 1} for i in range(40)]
            usages = [answer["usage"] for answer in pool.map(lambda body: server.post("/v1/completions", body), bodies)]
        after = server.wait_idle()
        for metric, key in (("generation_tokens_total", "completion_tokens"), ("prompt_tokens_total", "prompt_tokens")):
            counted = after["inflight_" + metric] - before["inflight_" + metric]
            self.assertEqual(counted, sum(usage[key] for usage in usages), metric)

    def test_cors(self):
        _, fields, _ = server.request("GET", "/health", headers={"Origin": "http://page.example"})
        self.assertEqual(fields["Access-Control-Allow-Origin"], "http://page.example")
        self.assertEqual(fields["Access-Control-Expose-Headers"], "X-Request-Id, Request-Id, Retry-After")
        _, fields, _ = server.request("GET", "/health", headers={"Origin": "http://evil.example"})
        self.assertIsNone(fields["Access-Control-Allow-Origin"])
        status, fields, _ = server.request("POST", "/v1/completions", b"x" * (17 << 20), {"Origin": "http://page.example"})
        self.assertEqual((status, fields["Access-Control-Allow-Origin"]), (413, "http://page.example"))
        self.assertTrue(fields["X-Request-Id"])
        headers = "authorization,content-type,x-stainless-os,x-stainless-retry-count,anthropic-dangerous-direct-browser-access"
        for origin, allowed in (("http://page.example", headers), ("http://evil.example", None)):
            status, fields, _ = server.request("OPTIONS", "/v1/completions", headers={
                "Origin": origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": headers})
            self.assertEqual((status, fields["Access-Control-Allow-Headers"]), (204, allowed))

    def test_api_keys(self):
        with Server(PROGRAM, "--api-key", "one", "--api-key", "two") as guarded:
            for key, status in ((None, 401), ("", 401), ("on", 401), ("onee", 401), ("one", 200), ("two", 200)):
                headers = {} if key is None else {"Authorization": "Bearer " + key}
                self.assertEqual(guarded.request("POST", "/v1/completions", STORY, headers)[0], status, key)
                self.assertEqual(guarded.request("GET", "/v1/models", headers=headers)[0], status, key)
            self.assertEqual(guarded.request("GET", "/health")[0], 200)


class People(unittest.TestCase):
    def test_a_client_that_leaves_frees_its_place(self):
        before = server.wait_idle()
        for body in (ENDLESS, {**ENDLESS, "n": 4}):
            connection, answer = server.open_stream("/v1/completions", body)
            self.assertTrue(answer.readline().startswith(b"data: "))
            answer.close()
            connection.close()
        plain = socket.create_connection(("127.0.0.1", server.port))  # not streamed: nothing would be written for long
        text = json.dumps(ENDLESS)
        plain.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
        while server.metrics()["inflight_num_requests_running"] == 0:
            pass
        plain.close()
        after = server.wait_idle()
        self.assertLess(after["inflight_generation_tokens_total"] - before["inflight_generation_tokens_total"], 6 * 450)
        self.assertEqual(after["inflight_kv_cache_usage_perc"], 0)

    def test_a_slow_reader_holds_up_nobody(self):
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        slow.connect(("127.0.0.1", server.port))
        body = json.dumps({**ENDLESS, "n": 16, "stream": True, "logprobs": 0})
        slow.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
                     f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        for _ in range(5):
            self.assertEqual(server.post("/v1/completions", STORY)["usage"]["completion_tokens"], 24)
        server.wait_idle(120)  # all of the slow one's tokens are made, though it has read none
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)  # the small one lets 4 KB a second through
        received = b""
        while not received.endswith(b"0\r\n\r\n"):  # and now it gets every one
            part = slow.recv(1 << 16)
            self.assertTrue(part)
            received += part
        slow.close()
        self.assertEqual(received.count(b'"finish_reason":"length"'), 16)

    def test_a_full_queue_says_when_to_come_back(self):
        with Server(PROGRAM, "--max-num-seqs", "1", "--max-queued-requests", "2") as small:
            with concurrent.futures.ThreadPoolExecutor(12) as pool:
                answers = list(pool.map(lambda _: small.request("POST", "/v1/completions", ENDLESS), range(12)))
            statuses = [status for status, _, _ in answers]
            self.assertEqual(set(statuses), {200, 429})
            self.assertGreaterEqual(statuses.count(200), 3)
            for status, fields, body in answers:
                if status == 429:
                    self.assertGreaterEqual(int(fields["Retry-After"]), 1)
                    self.assertTrue(body["error"]["message"].endswith(f"; retry after {fields['Retry-After']} s"), body)
                    self.assertEqual(body["error"]["type"], "rate_limit_error")
            for field in ("n", "best_of"):  # there is no point in coming back
                status, fields, body = small.request("POST", "/v1/completions", {**ENDLESS, field: 4})
                self.assertEqual((status, fields["Retry-After"], body["error"]["param"]), (400, None, field))
                self.assertEqual(body["error"]["message"], f"'{field}' makes 4 sequences, at most 3 can run and wait here")
            for path, field in (("/v1/completions", "prompt"), ("/v1/embeddings", "input")):
                status, fields, body = small.request("POST", path, {field: ["Once"] * 4})
                self.assertEqual((status, fields["Retry-After"], body["error"]["param"]), (400, None, field))
                self.assertIn("at most 3", body["error"]["message"])
                self.assertEqual(small.request("POST", path, {field: ["Once"] * 3})[0], 200)

    def test_a_log_of_requests_says_what_became_of_each(self):
        with Server(PROGRAM, "--log-requests") as logged:
            usage = logged.post("/v1/completions", STORY)["usage"]
            self.assertEqual(usage["completion_tokens"], 24)
            fields = logged.request("GET", "/%1b[31m/" + "a" * 300)[1]
            raw = socket.create_connection(("127.0.0.1", logged.port))
            raw.sendall(b"GET /\xff\x80 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            self.assertIn(b" 404 ", raw.makefile("rb").read())
            raw.close()
        text = "".join(logged.lines)
        self.assertRegex(text, r"inflight: [0-9a-f]{17,} POST /v1/completions 200 \d+ \d+ ms\n")
        self.assertRegex(text, rf"inflight: {fields['X-Request-Id']} GET /%1b\[31m/a{{191}}\.\.\. 404 \d+ \d+ ms\n")
        self.assertRegex(text, r"GET /\\xff\\x80 404 \d+ \d+ ms\n")

    def test_a_log_that_nobody_reads_stops_nothing(self):
        process = subprocess.Popen([PROGRAM, "serve", "--port", "0", "--log-requests", "--log-interval-steps", "1"],
                                   stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            if match := re.search(r"serving on http://[^:]+:(\d+)", line):
                break
        process.stderr.close()  # a line that is written now is a broken pipe
        for _ in range(3):
            with urllib.request.urlopen(urllib.request.Request(
                    f"http://127.0.0.1:{match[1]}/v1/completions", b'{"prompt": "Once", "max_tokens": 8}',
                    {"Content-Type": "application/json"}), timeout=60) as answer:
                self.assertEqual(answer.status, 200)
        process.terminate()
        self.assertEqual(process.wait(timeout=60), 0)

    def test_sigterm_lets_answers_end(self):
        with Server(PROGRAM) as leaving:
            connection, answer = leaving.open_stream("/v1/completions", {**ENDLESS, "n": 128})  # for a while
            answer.readline()
            leaving.terminate()
            while leaving.request("GET", "/ready")[0] != 503:
                pass
            status, fields, body = leaving.request("POST", "/v1/completions", STORY)
            if status != 503:
                self.assertEqual(body, "the answer ended before")
            text = answer.read()
            self.assertTrue(text.endswith(b"data: [DONE]\n\n"))
            connection.close()
            self.assertEqual(leaving.wait(), 0)

    def test_who_has_not_ended_in_time_hears_why(self):
        many = {**ENDLESS, "n": 128}  # for a while
        for flags, signals in ((("--shutdown-timeout", "0"), 1), ((), 2)):
            with Server(PROGRAM, "--max-num-seqs", "2", *flags) as leaving, concurrent.futures.ThreadPoolExecutor(1) as pool:
                connection, answer = leaving.open_stream("/v1/completions", many)
                whole = pool.submit(leaving.request, "POST", "/v1/completions", many)
                answer.readline()
                while leaving.metrics()["inflight_http_requests_open"] < 3:  # these two and the question itself
                    pass
                leaving.terminate()
                if signals == 2:
                    while leaving.request("GET", "/ready")[0] != 503:
                        pass
                    leaving.terminate()
                last = answer.read().decode().strip().split("data: ")[-1]
                self.assertEqual(json.loads(last)["error"]["code"], "shutting_down")
                status, _, body = whole.result()
                self.assertEqual((status, body["error"]["code"]), (503, "shutting_down"))
                self.assertEqual(leaving.wait(), 0)
                connection.close()
            told = [line for line in leaving.lines 
                    if line.endswith(" ms: the server is shutting down\n") and "POST" in line]
            self.assertEqual(sorted(line.split()[4] for line in told), ["200", "503"], leaving.lines)


class Watchdog(unittest.TestCase):
    def test_a_step_that_hangs_turns_health_to_503(self):
        plugin = pathlib.Path(PROGRAM).resolve().parents[1] / "test-plugins/faulty.ifp.so"
        with Server(PROGRAM, "--schedule-policy", f"{plugin}:fault=hang,from=3", "--watchdog-timeout", "1") as stuck:
            self.assertEqual(stuck.request("GET", "/health")[0], 200)
            connection, answer = stuck.open_stream("/v1/completions", ENDLESS)
            while (found := stuck.request("GET", "/health"))[0] == 200:
                pass
            self.assertEqual((found[0], found[2]["error"]["code"]), (503, "hung"))
            self.assertIn("a step of the engine hangs", found[2]["error"]["message"])
            while stuck.request("GET", "/health")[0] == 503:  # the step comes back at last
                pass
            self.assertTrue(answer.read().endswith(b"data: [DONE]\n\n"))
            connection.close()


class Rejections(unittest.TestCase):
    def test_header_and_message_name_one_time(self):
        """While a step hangs, so that nothing ends: the rate of ends, from which both come, is not known then."""
        plugin = pathlib.Path(PROGRAM).resolve().parents[1] / "test-plugins/faulty.ifp.so"
        flags = ("--schedule-policy", f"{plugin}:fault=hang,from=3", "--max-num-seqs", "1", "--max-queued-requests", "1")
        with Server(PROGRAM, *flags) as stuck, concurrent.futures.ThreadPoolExecutor(1) as pool:
            connection, answer = stuck.open_stream("/v1/completions", ENDLESS)
            pool.submit(stuck.post, "/v1/completions", ENDLESS)
            while stuck.metrics()["inflight_num_requests_waiting"] == 0:
                pass
            while (found := stuck.request("POST", "/v1/completions", STORY))[0] == 429:
                self.assertTrue(found[2]["error"]["message"].endswith(f"; retry after {found[1]['Retry-After']} s"), found[2])
            self.assertEqual(found[0], 200, found)
            answer.read()
            connection.close()


class Usage(unittest.TestCase):
    def test_a_port_in_use_is_named(self):
        done = subprocess.run([PROGRAM, "serve", "--port", str(server.port)], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"cannot listen on 127.0.0.1:{server.port}", done.stderr)

    def test_a_port_in_use_is_named_before_the_model_is_loaded(self):
        done = subprocess.run([PROGRAM, "serve", "--port", str(server.port), "-m", "/no/such.gguf"], capture_output=True,
                              text=True, timeout=120)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"cannot listen on 127.0.0.1:{server.port}", done.stderr)

    def test_an_empty_key_is_none(self):
        done = subprocess.run([PROGRAM, "serve", "--port", "0"], capture_output=True, text=True, timeout=120,
                              env={**os.environ, "INFLIGHT_API_KEY": ""})
        self.assertEqual(done.returncode, 2)
        self.assertIn("$INFLIGHT_API_KEY is empty", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        with Server(PROGRAM, "--api-key", "one", environment={"INFLIGHT_API_KEY": ""}) as guarded:
            self.assertEqual(guarded.request("GET", "/v1/models")[0], 401)

    def test_a_port_out_of_range_is_told_so(self):
        for port in ("99999", "-1"):
            done = subprocess.run([PROGRAM, "serve", "--port", port], capture_output=True, text=True, timeout=120)
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr, rf"--port.*{port}.*0.*65535")


if __name__ == "__main__":
    unittest.main()
