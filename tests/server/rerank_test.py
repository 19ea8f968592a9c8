#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""/v1/rerank. The truths: what llama-server says of the same file (tests/golden/make_rerank.py), and of the demo model, whose
classifier is made from tokens, how likely the same server says that it answers with them.
    rerank_test.py PROGRAM [unittest arguments]"""
import json
import math
import pathlib
import sys
import unittest

from control_tokens import DEMO
from server_process import Server

PROGRAM = sys.argv.pop(1)
GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
QUERY = "Who ran home?"
DOCUMENTS = ["The dog ran home.", "Two plus two is four.", "", "<|im_end|> é 🙂"]
JUDGE = [{"role": "system", "content": "Judge whether the Document meets the requirements based on the Query and the Instruct "
          "provided. Note that the answer can only be \"yes\" or \"no\"."},
         {"role": "user", "content": "<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n"
          "<Query>: {query}\n<Document>: {document}"}]


def scores_of(answer):
    return [result["relevance_score"] for result in sorted(answer["results"], key=lambda result: result["index"])]


class FromAFile(unittest.TestCase):
    def test_scores_are_llama_cpps(self):
        for case in json.loads((GOLDEN / "rerank.json").read_text())["cases"]:
            with Server(PROGRAM, "-m", str(GOLDEN / case["file"]), "--kv-cache-dtype", "f32") as server:
                server.expect_described()
                answer = server.post("/v1/rerank", {"query": case["query"], "documents": case["documents"]})
                self.assertIn("/v1/rerank", server.request("GET", "/openapi.json")[2]["paths"])
            self.assertGreater(max(case["scores"]) - min(case["scores"]), 0.1)
            for found, expected in zip(scores_of(answer), case["scores"], strict=True):
                self.assertAlmostEqual(found, expected, delta=1e-4)


class FromTokens(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(PROGRAM, "--classifier-from-token", "he,yes")
        cls.addClassCleanup(cls.server.__exit__)
        cls.server.expect_described()

    def ids_of(self, text):
        return self.server.post("/tokenize", {"prompt": text, "add_special_tokens": False})["tokens"]

    def rerank(self, **more):
        return self.server.post("/v1/rerank", {"query": QUERY, "documents": DOCUMENTS, **more})

    def test_scores_are_how_likely_the_tokens_are(self):
        template = self.server.post("/tokenize", {"messages": JUDGE, "chat_template_kwargs": {"enable_thinking": False}})
        text = self.server.post("/detokenize", {"tokens": template["tokens"]})["prompt"]
        for document, score in zip(DOCUMENTS[:3], scores_of(self.rerank())[:3]):
            prompt = text.replace("{query}", QUERY).replace("{document}", document)
            ids = self.ids_of(prompt)
            logprobs = []
            for token in (*self.ids_of("he"), *self.ids_of("yes")):
                answer = self.server.post("/v1/completions", {"prompt": [*ids, token], "max_tokens": 0, "prompt_logprobs": 0})
                logprobs.append(answer["choices"][0]["prompt_logprobs"][-1][str(token)]["logprob"])
            self.assertAlmostEqual(score, 1 / (1 + math.exp(logprobs[0] - logprobs[1])), delta=2e-3)

    def test_form(self):
        answer = self.rerank()
        scores = [result["relevance_score"] for result in answer["results"]]
        self.assertEqual((answer["object"], answer["id"].startswith("rerank-"), scores), ("list", True,
                                                                                         sorted(scores, reverse=True)))
        self.assertEqual(sorted(result["index"] for result in answer["results"]), [0, 1, 2, 3])
        self.assertTrue(all(0 < score < 1 for score in scores))
        for result in answer["results"]:
            self.assertEqual(result["document"], {"text": DOCUMENTS[result["index"]]})
        self.assertEqual(answer["usage"]["total_tokens"], answer["usage"]["prompt_tokens"])
        best = self.rerank(top_n=2, return_documents=False)["results"]
        self.assertEqual(best, [{key: result[key] for key in ("index", "relevance_score")} for result in answer["results"][:2]])
        objects = self.rerank(documents=[{"text": text} for text in DOCUMENTS], model="default")
        for path in ("/rerank", "/v2/rerank"):
            again = self.server.post(path, {"query": QUERY, "documents": DOCUMENTS})
            self.assertEqual(again["results"], objects["results"])
        alone = [self.rerank(documents=[text])["results"][0]["relevance_score"] for text in DOCUMENTS]
        self.assertEqual(alone, scores_of(answer))  # as in company

    def test_control_tokens_of_documents_are_text(self):
        ended = self.rerank(documents=["a<|im_end|>", "a"])["usage"]["prompt_tokens"]
        plain = self.rerank(documents=["a", "a"])["usage"]["prompt_tokens"]
        self.assertEqual(len(self.ids_of("<|im_end|>")), 1)
        self.assertGreater(ended - plain, 1)

    def test_refusals(self):
        for body, field in (({"documents": DOCUMENTS}, "query"), ({"query": 1, "documents": DOCUMENTS}, "query"),
                            ({"query": QUERY}, "documents"), ({"query": QUERY, "documents": []}, "documents"),
                            ({"query": QUERY, "documents": "x"}, "documents"),
                            ({"query": QUERY, "documents": [1]}, "documents[0]"),
                            ({"query": QUERY, "documents": ["x", {"title": "y"}]}, "documents[1]"),
                            ({"query": QUERY, "documents": ["x"], "top_n": 0}, "top_n"),
                            ({"query": QUERY, "documents": ["x"], "stream": True}, "stream"),
                            ({"query": QUERY, "documents": ["x", "y " * 5000]}, "documents[1]")):
            status, _, answer = self.server.request("POST", "/v1/rerank", body)
            self.assertEqual((status, answer["error"]["param"]), (400, field), answer)

    def test_models_without_a_classifier(self):
        with Server(PROGRAM, "-m", str(DEMO)) as server:
            status, _, answer = server.request("POST", "/v1/rerank", {"query": QUERY, "documents": DOCUMENTS})
            self.assertNotIn("/v1/rerank", server.request("GET", "/openapi.json")[2]["paths"])
        self.assertEqual(status, 400)
        self.assertIn("has no classifier (cls.output.weight)", answer["error"]["message"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
