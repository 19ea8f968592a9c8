#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""OpenAI's wire format as the official client reads it, with nothing but Python's own library: every field that its models
require, of whole and streamed answers of all endpoints. openai_sdk_test.py does the same with the client itself.
    openai_test.py PROGRAM [unittest arguments]"""
import concurrent.futures
import json
import sys
import unittest

from server_process import Server

PROGRAM = sys.argv.pop(1)
QUESTION = [{"role": "user", "content": "What color is the sky?"}]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 10}}, "required": ["city"],
              "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}]
SCHEMA = {"type": "object", "properties": {"color": {"enum": ["red", "blue"]}}, "required": ["color"],
          "additionalProperties": False}


def setUpModule():
    global server, model
    server = Server(PROGRAM).expect_described()
    model = server.request("GET", "/v1/models")[2]["data"][0]["id"]


def tearDownModule():
    server.__exit__()


def chat(**options):
    return {"model": model, "messages": QUESTION, "max_tokens": 20, "temperature": 0, **options}


class Fields(unittest.TestCase):
    def has(self, value, **types):
        """`value` has these keys, of these types."""
        for key, kind in types.items():
            self.assertIn(key, value)
            self.assertIsInstance(value[key], kind, key)

    def check_envelope(self, answer, kind, prefix):
        self.has(answer, id=str, object=str, created=int, model=str, choices=list)
        self.assertEqual(answer["object"], kind)
        self.assertTrue(answer["id"].startswith(prefix))

    def check_usage(self, usage):
        self.has(usage, prompt_tokens=int, completion_tokens=int, total_tokens=int, prompt_tokens_details=dict)
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])
        self.has(usage["prompt_tokens_details"], cached_tokens=int)

    def test_models(self):
        answer = server.request("GET", "/v1/models")[2]
        self.assertEqual(answer["object"], "list")
        self.has(answer["data"][0], id=str, object=str, created=int, owned_by=str)

    def test_completion(self):
        body = {"model": model, "prompt": "Once upon a time", "max_tokens": 12, "temperature": 0}
        answer = server.post("/v1/completions", body)
        self.check_envelope(answer, "text_completion", "cmpl-")
        self.check_usage(answer["usage"])
        self.has(answer["choices"][0], index=int, text=str, finish_reason=str)
        self.assertIsNone(answer["choices"][0]["logprobs"])
        for event in server.stream("/v1/completions", body):
            self.check_envelope(event, "text_completion", "cmpl-")

    def test_chat(self):
        answer = server.post("/v1/chat/completions", chat(n=2))
        self.check_envelope(answer, "chat.completion", "chatcmpl-")
        self.check_usage(answer["usage"])
        for index, choice in enumerate(answer["choices"]):
            self.assertEqual(choice["index"], index)
            self.has(choice, message=dict, finish_reason=str)
            self.has(choice["message"], role=str, content=str)
        events = server.stream("/v1/chat/completions", chat(n=2, stream_options={"include_usage": True}))
        self.assertEqual({event["id"] for event in events}, {events[0]["id"]})
        self.check_usage(events[-1]["usage"])
        texts, reasons = ["", ""], {}
        for event in events[:-1]:
            self.check_envelope(event, "chat.completion.chunk", "chatcmpl-")
            self.assertIsNone(event["usage"])
            choice = event["choices"][0]
            texts[choice["index"]] += choice["delta"].get("content") or ""
            if choice["finish_reason"]:
                reasons[choice["index"]] = choice["finish_reason"]
        self.assertEqual(texts, [choice["message"]["content"] for choice in answer["choices"]])
        self.assertEqual(reasons, {choice["index"]: choice["finish_reason"] for choice in answer["choices"]})

    def test_tool_calls(self):
        body = chat(tools=TOOLS, tool_choice="required", max_tokens=200, parallel_tool_calls=False)
        message = server.post("/v1/chat/completions", body)["choices"][0]["message"]
        self.assertIsNone(message["content"])
        call = message["tool_calls"][0]
        self.has(call, id=str, type=str, function=dict)
        self.has(call["function"], name=str, arguments=str)
        self.assertIsInstance(json.loads(call["function"]["arguments"])["city"], str)
        deltas = [event["choices"][0]["delta"] for event in server.stream("/v1/chat/completions", body)]
        streamed = [part for delta in deltas for part in delta.get("tool_calls", [])]
        self.has(streamed[0], index=int, id=str, type=str, function=dict)
        self.assertEqual("".join(part["function"]["arguments"] for part in streamed), call["function"]["arguments"])
        # The whole conversation goes back with the call's result.
        messages = QUESTION + [message, {"role": "tool", "tool_call_id": call["id"], "content": "sunny"}]
        self.assertEqual(server.request("POST", "/v1/chat/completions", chat(messages=messages, tools=TOOLS))[0], 200)
        auto = server.post("/v1/chat/completions", chat(tools=TOOLS))["choices"][0]
        self.assertIn(auto["finish_reason"], ("stop", "length", "tool_calls"))

    def test_response_format(self):
        form = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA}}
        answer = server.post("/v1/chat/completions", chat(response_format=form, max_tokens=100))
        self.assertIn(json.loads(answer["choices"][0]["message"]["content"])["color"], ("red", "blue"))

    def test_responses(self):
        body = {"model": model, "input": "What color is the sky?", "max_output_tokens": 20, "temperature": 0}
        answer = server.post("/v1/responses", body)
        self.assertEqual(answer["object"], "response")
        self.has(answer, id=str, created_at=int, model=str, output=list, status=str, tools=list, parallel_tool_calls=bool,
                 tool_choice=str)
        item = answer["output"][0]
        self.has(item, id=str, type=str, role=str, status=str, content=list)
        self.has(item["content"][0], type=str, text=str, annotations=list)
        self.has(answer["usage"], input_tokens=int, output_tokens=int, total_tokens=int, input_tokens_details=dict,
                 output_tokens_details=dict)
        events = server.stream("/v1/responses", body)
        self.assertEqual([event["sequence_number"] for event in events], list(range(len(events))))
        text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
        self.assertEqual(text, item["content"][0]["text"])
        self.assertIn(events[-1]["type"], ("response.completed", "response.incomplete"))

    def test_what_a_response_repeats(self):
        body = {"model": model, "input": "What color is the sky?", "max_output_tokens": 2, "temperature": 0,
                "metadata": {"a": "b"}, "reasoning": {"effort": "high"}}
        answer = server.post("/v1/responses", body)
        self.assertEqual((answer["metadata"], answer["reasoning"]["effort"], answer["truncation"]),
                         ({"a": "b"}, "high", "disabled"))
        self.assertEqual((answer["status"], answer["output"][0]["status"]), ("incomplete", "incomplete"))
        last = server.stream("/v1/responses", body)[-1]["response"]
        self.assertEqual((last["metadata"], last["output"][0]["status"]), ({"a": "b"}, "incomplete"))
        for value in ("banana", "auto"):
            status, _, answer = server.request("POST", "/v1/responses", {**body, "truncation": value})
            self.assertEqual((status, answer["error"]["param"]), (400, "truncation"))

    def test_input_tokens_are_counted(self):
        earlier = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Blue, I think."}]}
        message = {"type": "message", "role": "user", "content": "What color is the sky?"}
        for body in ({"input": message["content"]}, {"input": [earlier, message]},
                     {"input": [message], "instructions": "Be brief."}):
            counted = server.post("/v1/responses/input_tokens", {"model": model, **body})
            usage = server.post("/v1/responses", {"model": model, "max_output_tokens": 1, **body})["usage"]
            self.assertEqual(counted, {"object": "response.input_tokens", "input_tokens": usage["input_tokens"]})

    def test_embeddings(self):
        answer = server.post("/v1/embeddings", {"model": model, "input": ["a dog", "a cat"], "encoding_format": "base64"})
        self.has(answer, object=str, data=list, model=str, usage=dict)
        self.has(answer["data"][1], object=str, index=int, embedding=str)
        self.has(answer["usage"], prompt_tokens=int, total_tokens=int)

    def test_errors(self):
        status, fields, answer = server.request("POST", "/v1/chat/completions", chat(max_tokens=-1))
        self.assertEqual((status, answer["error"]["type"], answer["error"]["param"]),
                         (400, "invalid_request_error", "max_tokens"))
        self.assertTrue(fields["x-request-id"])

    def test_many_streams_at_once(self):
        def one(seed):
            events = server.stream("/v1/chat/completions", chat(seed=seed, temperature=1, max_tokens=16))
            return "".join(event["choices"][0]["delta"].get("content") or "" for event in events)

        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            texts = list(pool.map(one, range(1, 33)))
        alone = server.post("/v1/chat/completions", chat(seed=5, temperature=1, max_tokens=16))
        self.assertEqual(texts[4], alone["choices"][0]["message"]["content"])


if __name__ == "__main__":
    unittest.main()
