#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicted outputs over HTTP, as OpenAI has them (checklist 124): a prediction changes the usage and nothing else, in whole
and streamed answers, and mistakes in it are named.    speculative_test.py PROGRAM"""
import sys
import unittest

from server_process import Server

PROGRAM = sys.argv.pop(1)
STORY = {"prompt": "Once upon a time", "max_tokens": 60, "temperature": 0}
CHAT = {"messages": [{"role": "user", "content": "Tell me about a cat."}], "max_tokens": 60, "temperature": 0}


class Predictions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(PROGRAM, "--speculative-config", '{"method": "ngram", "num_speculative_tokens": 8}')
        cls.addClassCleanup(cls.server.__exit__)

    def chat(self, **options):
        return self.server.post("/v1/chat/completions", {**CHAT, **options})

    def story(self, **options):
        return self.server.post("/v1/completions", {**STORY, **options})

    def test_a_right_prediction_is_accepted(self):
        for options in ({}, {"temperature": 0.8, "seed": 4}, {"n": 2, "temperature": 0.9, "seed": 8}):
            plain = self.story(**options)
            answer = self.story(prediction={"type": "content", "content": plain["choices"][0]["text"]}, **options)
            self.assertEqual(answer["choices"], plain["choices"])
            self.assertGreater(answer["usage"]["completion_tokens_details"]["accepted_prediction_tokens"], 35)

    def test_a_wrong_prediction_costs_little(self):
        plain, text = self.story(), "Zebras quickly explained quantum jazz to my vexed banker. " * 4
        answer = self.story(prediction={"type": "content", "content": text})
        self.assertEqual(answer["choices"], plain["choices"])
        details = answer["usage"].get("completion_tokens_details", {"rejected_prediction_tokens": 0})
        self.assertLess(details["rejected_prediction_tokens"], 30)

    def test_chats_whole_and_streamed(self):
        plain = self.chat()
        text = plain["choices"][0]["message"]["content"]
        for content in (text, [{"type": "text", "text": text[:7]}, {"type": "text", "text": text[7:]}]):
            prediction = {"type": "content", "content": content}
            answer = self.chat(prediction=prediction)
            self.assertEqual(answer["choices"], plain["choices"])
            self.assertGreater(answer["usage"]["completion_tokens_details"]["accepted_prediction_tokens"], 3)
        events = self.server.stream("/v1/chat/completions", {**CHAT, "prediction": prediction,
                                                             "stream_options": {"include_usage": True}})
        parts = [event["choices"][0]["delta"].get("content") or "" for event in events if event["choices"]]
        self.assertEqual("".join(parts), text)
        self.assertEqual(events[-1]["usage"]["completion_tokens_details"], answer["usage"]["completion_tokens_details"])

    def test_structured_answers_stay_what_they_were(self):
        schema = {"type": "object", "properties": {"story": {"type": "string", "minLength": 90}, "end": {"type": "string"}},
                  "required": ["story", "end"]}
        structured = {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}}
        for options in (structured, {**structured, "temperature": 0.7, "seed": 5}, {"bad_words": [" cat", " dog"]}):
            plain = self.chat(**options)
            content = plain["choices"][0]["message"]["content"]
            answer = self.chat(prediction={"type": "content", "content": content}, **options)
            self.assertEqual(answer["choices"], plain["choices"])
            self.assertGreater(answer["usage"]["completion_tokens_details"]["accepted_prediction_tokens"], 5)

    def test_counters_add_up(self):
        self.story(prediction={"type": "content", "content": "a"})
        _, _, text = self.server.request("GET", "/metrics")
        values = [float(line.rsplit(" ", 1)[1]) for name in ("drafts", "draft_tokens", "accepted_tokens")
                  for line in text.decode().splitlines() if line.startswith(f"inflight_spec_decode_num_{name}_total")]
        self.assertEqual(len(values), 3)
        self.assertLessEqual(values[2], values[1])
        self.assertLessEqual(values[0], values[1])

    def test_mistakes_are_named(self):
        for prediction, name in ((5, "prediction"), ({"type": "text", "content": "a"}, "prediction"),
                                 ({"type": "content"}, "prediction.content"), ({"content": "a"}, "prediction.type"),
                                 ({"type": "content", "content": [{"type": "image"}]}, "prediction.content")):
            status, _, answer = self.server.request("POST", "/v1/chat/completions", {**CHAT, "prediction": prediction})
            self.assertEqual(status, 400, answer)
            self.assertIn(name, answer["error"]["message"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
