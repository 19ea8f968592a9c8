#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""/v1/embeddings as OpenAI's clients use it, with the demo model. What the numbers are is tests/unit/engine/embedding_test.cpp's.
    embeddings_test.py PROGRAM [unittest arguments]"""
import base64
import concurrent.futures
import math
import struct
import sys
import unittest

from server_process import Server

PROGRAM = sys.argv.pop(1)
TEXTS = ["The dog ran home.", "A dog went back to its house.", "Two plus two is four.", "é 🙂"]


def setUpModule():
    global server
    server = Server(PROGRAM)


def tearDownModule():
    server.__exit__()


def embed(given, **options):
    return server.post("/v1/embeddings", {"input": given, **options})


def vector(given, **options):
    return embed(given, **options)["data"][0]["embedding"]


class Embeddings(unittest.TestCase):
    def test_form_and_usage(self):
        answer = embed(TEXTS)
        self.assertEqual((answer["object"], [entry["index"] for entry in answer["data"]]), ("list", [0, 1, 2, 3]))
        self.assertEqual({entry["object"] for entry in answer["data"]}, {"embedding"})
        tokens = sum(server.post("/tokenize", {"prompt": text})["count"] for text in TEXTS)
        self.assertEqual(answer["usage"], {"prompt_tokens": tokens, "total_tokens": tokens})
        for entry, text in zip(answer["data"], TEXTS):
            self.assertAlmostEqual(math.fsum(x * x for x in entry["embedding"]), 1.0, places=5)
            self.assertEqual(entry["embedding"], vector(text))  # alone as in company
        ids = [server.post("/tokenize", {"prompt": text})["tokens"] for text in TEXTS[:2]]
        self.assertEqual(vector(ids[0]), answer["data"][0]["embedding"])
        self.assertEqual([entry["embedding"] for entry in embed(ids)["data"]],
                         [entry["embedding"] for entry in answer["data"][:2]])

    def test_a_prompt_may_fill_the_context(self):
        longest = server.post("/tokenize", {"prompt": ""})["max_model_len"]
        ids = [50 + i % 100 for i in range(longest)]
        full = vector(ids)
        self.assertAlmostEqual(math.fsum(x * x for x in full), 1.0, places=5)
        self.assertNotEqual(full, vector(ids[:-1]))
        self.assertEqual(full, embed([TEXTS[0], ids])["data"][1]["embedding"])
        scored = server.post("/v1/completions", {"prompt": ids, "max_tokens": 0, "echo": True, "logprobs": 0})
        self.assertEqual(len(scored["choices"][0]["logprobs"]["tokens"]), longest)
        for body, path in (({"input": [*ids, 50]}, "/v1/embeddings"),
                           ({"prompt": [*ids, 50], "max_tokens": 0}, "/v1/completions"),
                           ({"prompt": ids, "max_tokens": 1}, "/v1/completions")):
            status, _, answer = server.request("POST", path, body)
            left = "one left to answer" in answer["error"]["message"]
            self.assertEqual((status, left), (400, body.get("max_tokens") == 1))

    def test_base64_holds_the_same_numbers(self):
        for text in TEXTS:
            numbers = vector(text)
            raw = base64.b64decode(vector(text, encoding_format="base64"), validate=True)
            self.assertEqual(list(struct.unpack(f"<{len(numbers)}f", raw)), [struct.unpack("f", struct.pack("f", x))[0]
                                                                             for x in numbers])

    def test_poolings(self):
        token = server.post("/tokenize", {"prompt": "The"})["tokens"][-1:]
        self.assertEqual(vector(token, pooling="mean"), vector(token, pooling="last"))
        mean, last = vector(TEXTS[0]), vector(TEXTS[0], pooling="last")
        self.assertEqual(mean, vector(TEXTS[0], pooling="mean"))
        self.assertNotEqual(mean, last)
        plain = vector(TEXTS[0], normalize=False)
        length = math.sqrt(math.fsum(x * x for x in plain))
        self.assertNotAlmostEqual(length, 1.0, places=2)
        for x, y in zip(plain, mean):
            self.assertAlmostEqual(x / length, y, places=5)
        self.assertEqual(vector(TEXTS[0], dimensions=len(mean)), mean)

    def test_many_inputs_beside_answers(self):
        alone = {text: vector(text) for text in TEXTS}
        before = server.wait_idle()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            stories = [pool.submit(server.post, "/v1/completions", {"prompt": "Once", "max_tokens": 40, "ignore_eos": True})
                       for _ in range(4)]
            many = pool.submit(embed, TEXTS * 100).result()
            self.assertEqual([story.result()["usage"]["completion_tokens"] for story in stories], [40] * 4)
        self.assertEqual([entry["embedding"] for entry in many["data"]], [alone[text] for text in TEXTS * 100])
        after = server.wait_idle()
        self.assertEqual(after["inflight_generation_tokens_total"] - before["inflight_generation_tokens_total"], 160)
        self.assertEqual(after["inflight_kv_cache_usage_perc"], 0)

    def test_refusals(self):
        size = len(vector("x"))
        for body, param, says in (
                ({}, "input", "missing"), ({"input": []}, "input", "an empty array"), ({"input": [""]}, "input", "empty"),
                ({"input": ["x", ""]}, "input[1]", "'input[1]': the prompt is empty"),
                ({"input": ["x", "word " * 2000, "y"]}, "input[1]", "512"),
                ({"input": ["x", 5]}, "input[1]", "5"), ({"input": ["x"] * 2049}, "input", "2048"),
                ({"input": "x", "dimensions": size - 1}, "dimensions", str(size)),
                ({"input": "x", "dimensions": 0}, "dimensions", "between 1"),
                ({"input": "x", "encoding_format": "hex"}, "encoding_format", "base64"),
                ({"input": "x", "pooling": "cls"}, "pooling", "mean"), ({"input": "x", "stream": True}, "stream", "unknown"),
                ({"input": "x", "model": "gpt-9"}, "model", "gpt-9"), ({"input": "word " * 2000}, "input", "512")):
            status, _, answer = server.request("POST", "/v1/embeddings", body)
            self.assertEqual(status, 404 if param == "model" else 400, answer)
            self.assertEqual(answer["error"]["param"], param)
            self.assertIn(says, answer["error"]["message"])


if __name__ == "__main__":
    unittest.main()
