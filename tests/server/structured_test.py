#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Structured output of the demo model, judged by others: JSON by python's jsonschema, texts by python's re, calls by
their schemas; the same tokens with overlap on and off, alone and in company.
    structured_test.py PROGRAM [unittest arguments]"""
import concurrent.futures
import json
import random
import re
import subprocess
import sys
import unittest

try:
    import jsonschema
except ImportError:
    print("skipped: needs Python's jsonschema (Debian package python3-jsonschema)")
    sys.exit(77)

from server_process import Server

PROGRAM = sys.argv.pop(1)
WORD = {"type": "string", "maxLength": 12}
SCHEMAS = [
    {"type": "object", "properties": {"name": WORD, "age": {"type": "integer", "minimum": 0, "maximum": 130}},
     "required": ["name", "age"], "additionalProperties": False},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 5},
    {"enum": ["red", "green", 3, None, {"deep": [1]}]},
    {"type": "object", "properties": {"kind": {"const": "fox"}, "tags": {"type": "array", "items": WORD, "maxItems": 3}},
     "required": ["kind", "tags"], "additionalProperties": False},
    {"anyOf": [{"type": "object", "properties": {"a": {"type": "number", "minimum": 0, "maximum": 9}}, "required": ["a"],
                "additionalProperties": False}, {"type": "string", "pattern": "^[a-f]{2,6}$"}]},
    {"type": "string", "format": "date"},
    {"$defs": {"leaf": {"type": "object", "properties": {"v": {"type": "integer", "minimum": -5, "maximum": 5}},
                        "required": ["v"], "additionalProperties": False}},
     "type": "array", "prefixItems": [{"$ref": "#/$defs/leaf"}, {"$ref": "#/$defs/leaf"}], "minItems": 2, "items": False},
    {"type": "object", "properties": {"é \"quoted\"": {"type": "null"}}, "required": ["é \"quoted\""],
     "additionalProperties": False},
]
REGEXES = [r"[a-z]{3,8} (and|or) [a-z]{3,8}", r"\d{3}-\d{4}", r"(yes|no|maybe)!?", r"#[0-9A-F]{6}", r"(ab|cd){2,4}\.",
           r"[A-Z][a-z]+, [A-Z][a-z]{1,5}"]
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "parameters": {
        "type": "object", "properties": {"city": WORD, "unit": {"enum": ["C", "F"]}}, "required": ["city", "unit"],
        "additionalProperties": False}}},
    {"type": "function", "function": {"name": "move", "parameters": {
        "$defs": {"axis": {"enum": ["x", "y"]}}, "type": "object",
        "properties": {"axis": {"$ref": "#/$defs/axis"}, "steps": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["axis", "steps"], "additionalProperties": False}}},
    {"type": "function", "function": {"name": "now"}}]
CHAT = {"messages": [{"role": "user", "content": "What color is the sky?"}], "max_tokens": 200, "temperature": 0}


def setUpModule():
    global server
    server = Server(PROGRAM).expect_described()


def tearDownModule():
    server.__exit__()


def generated_schema(rng, depth=0):
    kind = rng.choice(["integer", "word", "enum", "boolean", "null"] + ["object", "array", "anyOf"] * (depth < 3))
    if kind == "object":
        names = rng.sample(["a", "bb", "c c", "d\"d", "ü"], rng.randint(0, 3))
        return {"type": "object", "properties": {name: generated_schema(rng, depth + 1) for name in names},
                "required": rng.sample(names, rng.randint(0, len(names))), "additionalProperties": False}
    if kind == "array":
        low = rng.randint(0, 2)
        return {"type": "array", "items": generated_schema(rng, depth + 1), "minItems": low, "maxItems": low + rng.randint(0, 2)}
    if kind == "anyOf":
        return {"anyOf": [generated_schema(rng, depth + 1) for _ in range(2)]}
    if kind == "integer":
        low = rng.randint(-50, 50)
        return {"type": "integer", "minimum": low, "maximum": low + rng.randint(0, 200)}
    if kind == "word":
        return {"type": "string", "minLength": rng.randint(0, 2), "maxLength": rng.randint(2, 9)}
    return {"enum": ["x", 1.5, None]} if kind == "enum" else {"type": kind}


def bodies_of_schemas():
    rng = random.Random(5)
    schemas = SCHEMAS + [generated_schema(rng) for _ in range(40)]
    return [({"prompt": "Once upon a time", "max_tokens": 400, "temperature": index % 3 / 2, "seed": index + 1,
              "guided_json": schema}, schema) for index, schema in enumerate(schemas)]


def together(bodies, path="/v1/completions"):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        return list(pool.map(lambda body: server.post(path, body)["choices"][0], bodies))


class Description(unittest.TestCase):
    def test_takes_what_the_server_takes(self):
        document = server.request("GET", "/openapi.json")[2]
        call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        question, tools = {"role": "user", "content": "Once"}, [{"type": "function", "function": {"name": "f"}}]
        result = {"role": "tool", "tool_call_id": "c1", "content": "3"}
        for messages in ([{"role": "assistant", "content": None, "tool_calls": [call]}, result],
                         [{"role": "assistant", "tool_calls": [call]}, result], [{"role": "assistant", "content": None}]):
            body = {"messages": [question, *messages, question], "tools": tools, "max_tokens": 1}
            self.assertEqual(list(self.errors(document, "ChatRequest", body)), [])
            self.assertEqual(server.request("POST", "/v1/chat/completions", body)[0], 200)
        flat = {"type": "function", "name": "f"}
        for name, path, body in (
                ("CompletionRequest", "/v1/completions", {"prompt": ["Once", [5, 6]]}),
                ("CompletionRequest", "/v1/completions", {"prompt": "a", "response_format": {
                    "type": "json_schema", "schema": {"type": "object"}}}),
                ("CompletionRequest", "/v1/completions", {"prompt": "a", "structured_outputs": {"json": True}}),
                ("CompletionRequest", "/v1/completions", {"prompt": "a", "structured_outputs": {"json": None, "regex": "a"}}),
                ("EmbeddingRequest", "/v1/embeddings", {"input": ["Once", [5, 6]]}),
                ("ChatRequest", "/v1/chat/completions", {"messages": [question], "tools": [flat]}),
                ("ChatRequest", "/v1/chat/completions", {"messages": [question], "tools": tools, "tool_choice": {
                    "type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": tools}}}),
                ("ChatRequest", "/v1/chat/completions", {"messages": [
                    {"role": "user", "content": [{"type": "input_text", "text": "Once"}]},
                    {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}, question]}),
                ("ResponseRequest", "/v1/responses", {"input": ""}),
                ("ResponseRequest", "/v1/responses", {"input": "Once", "tools": [flat], "tool_choice": flat}),
                ("ResponseRequest", "/v1/responses", {"input": "Once", "tools": [flat], "tool_choice": {
                    "type": "allowed_tools", "mode": "auto", "tools": [flat]}}),
                ("ResponseRequest", "/v1/responses", {"input": [
                    {"type": "message", **question}, {"type": "reasoning", "id": "r", "summary": []},
                    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
                    {"type": "function_call_output", "call_id": "c1", "output": "3"}]}),
                ("MessagesRequest", "/v1/messages", {"messages": [
                    question, {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": ""},
                                                                {"type": "tool_use", "id": "c1", "name": "f", "input": {}}]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "3"}]}]}),
                ("TokenizeRequest", "/tokenize", {"messages": [question], "add_generation_prompt": False,
                                                  "continue_final_message": True})):
            if name not in ("EmbeddingRequest", "TokenizeRequest"):
                body = {**body, "max_output_tokens" if name == "ResponseRequest" else "max_tokens": 8}
            self.assertEqual([error.message for error in self.errors(document, name, body)], [], body)
            status, _, answer = server.request("POST", path, body)
            self.assertEqual(status, 200, (body, answer))
        message = {"messages": [{"role": "user"}]}
        for name, path, body in (
                ("ChatRequest", "/v1/chat/completions", message),
                ("ChatRequest", "/v1/chat/completions", {"messages": [question], "tools": tools * 513}),
                ("CompletionRequest", "/v1/completions", {"prompt": ["a"] * 129}),
                ("CompletionRequest", "/v1/completions", {"prompt": "a", "bad_words": ["a"] * 1025}),
                ("CompletionRequest", "/v1/completions", {"prompt": "a", "dry_sequence_breakers": ["a"] * 17}),
                ("CompletionRequest", "/v1/completions", {"prompt": "a", "logit_bias": {f"{id:04}": 0 for id in range(4097)}}),
                ("CompletionRequest", "/v1/completions", {"prompt": "a", "structured_outputs": {"json": {}, "regex": "a"}}),
                ("ChatRequest", "/v1/chat/completions", {"messages": [question], "tools": [{**flat, "function": 5}]}),
                ("MessagesRequest", "/v1/messages", {"messages": [{"role": "user", "content": [
                    {"type": "tool_use", "id": "c1", "name": "f", "input": {}}]}]}),
                ("EmbeddingRequest", "/v1/embeddings", {"input": ["a"] * 2049})):
            self.assertNotEqual(list(self.errors(document, name, body)), [], name)
            self.assertEqual(server.request("POST", path, body)[0], 400)

    @staticmethod
    def errors(document, name, body):
        schema = {**document, "$ref": f"#/components/schemas/{name}"}
        return jsonschema.Draft202012Validator(schema).iter_errors(body)


class Texts(unittest.TestCase):
    def test_every_schema_is_satisfied(self):
        cases = bodies_of_schemas()
        for (_, schema), answer in zip(cases, together([body for body, _ in cases])):
            self.assertEqual(answer["finish_reason"], "stop", (schema, answer))
            value = json.loads(answer["text"])
            jsonschema.Draft202012Validator(schema).validate(value)

    def test_json_objects(self):
        for fields in ({"response_format": {"type": "json_object"}}, {"structured_outputs": {"json_object": True}}):
            ended = 0
            for seed in range(1, 9):
                body = {"prompt": "Once", "max_tokens": 250, "temperature": 1, "seed": seed, **fields}
                answer = server.post("/v1/completions", body)["choices"][0]
                self.assertTrue(answer["text"].startswith("{"))
                if answer["finish_reason"] == "stop":
                    self.assertIsInstance(json.loads(answer["text"]), dict)
                    ended += 1
            self.assertGreater(ended, 0)

    def test_regexes_choices_and_grammars(self):
        bodies = [{"prompt": "Once upon", "max_tokens": 100, "temperature": 1, "seed": seed, "guided_regex": regex}
                  for regex in REGEXES for seed in range(1, 6)]
        for body, answer in zip(bodies, together(bodies)):
            if answer["finish_reason"] == "stop":
                self.assertRegex(answer["text"], re.compile(f"\\A(?:{body['guided_regex']})\\Z"))
            else:
                self.assertEqual(body["guided_regex"], REGEXES[-1])  # the only one without an end of its own
        choices = ["the dog", "a \"cat\" \\ or so", "ü"]
        seen = {server.post("/v1/completions", {"prompt": "I saw ", "temperature": 2, "seed": seed, "max_tokens": 60,
                                                "structured_outputs": {"choice": choices}})["choices"][0]["text"]
                for seed in range(1, 30)}
        self.assertLessEqual(seen, set(choices))
        self.assertGreater(len(seen), 1)
        grammar = 'root ::= "(" [0-9] ("+" [0-9]){1,3} ")"'
        text = server.post("/v1/completions", {"prompt": "Sum: ", "guided_grammar": grammar})["choices"][0]["text"]
        self.assertRegex(text, r"^\(\d(\+\d){1,3}\)$")

    def test_options_go_together(self):
        schema = {"type": "array", "items": {"enum": ["one", "two", "three"]}, "minItems": 3, "maxItems": 3}
        body = {"prompt": "Count: ", "guided_json": schema, "max_tokens": 100, "temperature": 1, "seed": 2}
        plain = server.post("/v1/completions", {**body, "n": 4})["choices"]
        for answer in plain:
            self.assertEqual(len(json.loads(answer["text"])), 3)
        streamed = [""] * 4
        for event in server.stream("/v1/completions", {**body, "n": 4}):
            streamed[event["choices"][0]["index"]] += event["choices"][0]["text"]
        self.assertEqual(streamed, [answer["text"] for answer in plain])
        stopped = server.post("/v1/completions", {**body, "stop": ","})["choices"][0]
        self.assertEqual(stopped["text"], plain[0]["text"].split(",")[0])
        short = server.post("/v1/completions", {**body, "max_tokens": 3})["choices"][0]
        self.assertEqual(short["finish_reason"], "length")
        self.assertTrue(plain[0]["text"].startswith(short["text"]))
        late = server.post("/v1/completions", {**body, "min_tokens": 90})["choices"][0]  # the grammar ends it before
        self.assertEqual(late["finish_reason"], "stop")
        likely = server.post("/v1/completions", {**body, "logprobs": 2})["choices"][0]
        self.assertEqual("".join(likely["logprobs"]["tokens"]), likely["text"])
        self.assertEqual(len(json.loads(likely["text"])), 3)
        self.assertLess(min(likely["logprobs"]["token_logprobs"]), 0)

    def test_the_same_tokens_in_every_company(self):
        bodies = [body for body, _ in bodies_of_schemas()[:16]]
        crowded = [answer["text"] for answer in together(bodies)]
        alone = [server.post("/v1/completions", body)["choices"][0]["text"] for body in bodies]
        self.assertEqual(crowded, alone)
        with Server(PROGRAM, "--overlap", "off", "--kv-blocks", "64") as other:
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                texts = list(pool.map(lambda body: other.post("/v1/completions", body)["choices"][0]["text"], bodies))
        self.assertEqual(texts, alone)


class Calls(unittest.TestCase):
    def check(self, calls, allowed):
        self.assertTrue(calls)
        for call in calls:
            tool = next(tool["function"] for tool in TOOLS if tool["function"]["name"] == call["function"]["name"])
            self.assertIn(tool["name"], allowed)
            jsonschema.Draft202012Validator(tool.get("parameters", {"type": "object"})).validate(
                json.loads(call["function"]["arguments"]))

    def test_forced_calls(self):
        for seed in range(1, 7):
            body = {**CHAT, "tools": TOOLS[:2], "tool_choice": "required", "temperature": 1, "seed": seed}
            answer = server.post("/v1/chat/completions", body)["choices"][0]
            if answer["finish_reason"] == "length":
                continue  # a long list
            self.assertEqual(answer["finish_reason"], "tool_calls")
            self.assertIsNone(answer["message"]["content"])
            self.check(answer["message"]["tool_calls"], ("get_weather", "move"))
            one = server.post("/v1/chat/completions", {**body, "parallel_tool_calls": False})["choices"][0]
            self.assertEqual(len(one["message"]["tool_calls"]), 1)
            events = server.stream("/v1/chat/completions", {**body, "parallel_tool_calls": False})
            deltas = [event["choices"][0]["delta"] for event in events]
            streamed = [call for delta in deltas for call in delta.get("tool_calls", [])]
            self.assertEqual([call["index"] for call in streamed], [0] * len(streamed))
            self.assertEqual([call["function"]["name"] for call in streamed if "id" in call],
                             [call["function"]["name"] for call in one["message"]["tool_calls"]])
            self.assertEqual("".join(call["function"]["arguments"] for call in streamed),
                             one["message"]["tool_calls"][0]["function"]["arguments"])
            self.assertGreater(len(streamed), 1)  # the arguments come as they are written
            self.assertFalse(any(delta.get("content") for delta in deltas))
            self.assertEqual(events[-1]["choices"][0]["finish_reason"], "tool_calls")

    def test_calls_that_are_cut(self):
        """By a stop text or by max_tokens: no call is told as whole that is not, and no half of one as text."""
        body = {**CHAT, "tools": TOOLS[:1], "tool_choice": "required"}
        answer = server.post("/v1/chat/completions", {**body, "stop": ["city"]})["choices"][0]
        arguments = answer["message"]["tool_calls"][0]["function"]["arguments"]
        self.assertEqual((answer["finish_reason"], answer["stop_reason"], arguments.strip()), ("stop", "city", "{\""))
        last = server.stream("/v1/chat/completions", {**body, "stop": ["city"]})[-1]["choices"][0]
        self.assertEqual((last["finish_reason"], last["stop_reason"]), ("stop", "city"))
        anthropic = {"messages": CHAT["messages"], "tools": [{"name": "get_weather", "input_schema": TOOLS[0]["function"][
            "parameters"]}], "tool_choice": {"type": "any"}, "temperature": 0}
        message = server.post("/v1/messages", {**anthropic, "max_tokens": 200, "stop_sequences": ["city"]})
        self.assertEqual((message["content"], message["stop_reason"], message["stop_sequence"]), ([], "stop_sequence", "city"))
        for tokens in range(1, 60):
            answer = server.post("/v1/chat/completions", {**body, "max_tokens": tokens})["choices"][0]
            if answer["finish_reason"] == "tool_calls":
                break
            self.assertEqual((answer["finish_reason"], answer["message"]["content"]), ("length", None), tokens)
            message = server.post("/v1/messages", {**anthropic, "max_tokens": tokens})
            self.assertEqual(message["stop_reason"], "max_tokens")
            for block in message["content"]:
                self.assertEqual((block["type"], list(block["input"])), ("tool_use", ["city", "unit"]))
        self.assertGreater(tokens, 10)

    def test_a_format_is_about_the_text_and_leaves_calls_possible(self):
        path, schema = "/v1/chat/completions", SCHEMAS[0]
        form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
        forced = server.post(path, {**CHAT, "tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False,
                                    "response_format": form})
        self.assertEqual(forced["choices"][0]["finish_reason"], "tool_calls")
        self.check(forced["choices"][0]["message"]["tool_calls"], ("get_weather", "move", "now"))
        for letter in ("[", "{"):  # the demo model's calls are a list
            ids = server.post("/tokenize", {"prompt": letter, "add_special_tokens": False})["tokens"]
            body = {**CHAT, "max_tokens": 300, "tools": TOOLS, "response_format": form, "logit_bias": {str(ids[-1]): 100}}
            first = server.post(path, {**body, "max_tokens": 1, "logprobs": True})["choices"][0]
            self.assertEqual(first["logprobs"]["content"][0]["token"], letter)
        complete = 0
        for seed in range(20):
            answer = server.post(path, {**CHAT, "max_tokens": 300, "tools": TOOLS, "response_format": form, "seed": seed,
                                        "temperature": 1})["choices"][0]
            if answer["finish_reason"] == "length":
                continue
            complete += 1
            if answer["message"].get("tool_calls"):
                self.check(answer["message"]["tool_calls"], ("get_weather", "move", "now"))
            else:
                jsonschema.Draft202012Validator(schema).validate(json.loads(answer["message"]["content"]))
        self.assertGreater(complete, 5)

    def test_a_function_without_parameters_is_called_without(self):
        for function in ({"name": "f"}, {"name": "f", "parameters": {"type": "object", "properties": {}}}):
            answer = server.post("/v1/chat/completions", {**CHAT, "tool_choice": "required", "parallel_tool_calls": False,
                                                          "tools": [{"type": "function", "function": function}]})
            self.assertEqual(json.loads(answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]), {})

    def test_named_calls(self):
        for name in ("get_weather", "move"):
            for choice in ({"type": "function", "function": {"name": name}}, {"type": "function", "name": name}):
                answer = server.post("/v1/chat/completions", {**CHAT, "tools": TOOLS, "tool_choice": choice})["choices"][0]
                self.assertEqual(len(answer["message"]["tool_calls"]), 1)
                self.check(answer["message"]["tool_calls"], (name,))

    def test_responses(self):
        body = {"input": "What color is the sky?", "max_output_tokens": 200, "temperature": 0}
        flat = [{"type": "function", **tool["function"]} for tool in TOOLS]
        answer = server.post("/v1/responses", {**body, "tools": flat, "tool_choice": {"type": "function", "name": "move"}})
        self.assertEqual([item["type"] for item in answer["output"]], ["function_call"])
        self.check([{"function": answer["output"][0]}], ("move",))
        schema = SCHEMAS[0]
        form = {"type": "json_schema", "name": "n", "schema": schema}
        answer = server.post("/v1/responses", {**body, "text": {"format": form}})
        jsonschema.Draft202012Validator(schema).validate(json.loads(answer["output"][0]["content"][0]["text"]))
        self.assertEqual(answer["text"]["format"]["schema"], schema)
        answer = server.post("/v1/responses", {**body, "text": {"format": {"type": "json_object"}}})
        self.assertEqual(answer["text"]["format"], {"type": "json_object"})


class Refusals(unittest.TestCase):
    def check(self, path, body, param, says):
        for stream in (False, True):
            status, _, answer = server.request("POST", path, {**body, "stream": stream})
            self.assertEqual(status, 400, answer)
            self.assertEqual(answer["error"]["param"], param)
            self.assertIn(says, answer["error"]["message"])

    def test_what_is_wrong_with_a_grammar_is_said(self):
        path, body = "/v1/completions", {"prompt": "x"}
        self.check(path, {**body, "guided_json": {"not": {}}}, "guided_json", "'not'")
        self.check(path, {**body, "guided_json": "{"}, "guided_json", "JSON")
        self.check(path, {**body, "guided_json": 5}, "guided_json", "a JSON Schema")
        self.check(path, {**body, "guided_regex": "(a"}, "guided_regex", "")
        self.check(path, {**body, "guided_grammar": "root = x"}, "guided_grammar", "line 1")
        self.check(path, {**body, "structured_outputs": {"json_": {}}}, "structured_outputs.json_", "allowed: json, regex")
        self.check(path, {**body, "structured_outputs": {"regex": "a"}, "guided_json": {}}, "guided_json", "at most one")
        self.check(path, {**body, "response_format": {"type": "json_schema"}}, "response_format.json_schema", "is missing")
        self.check(path, {**body, "guided_choice": []}, "guided_choice", "one text or more")
        chat = "/v1/chat/completions"
        self.check(chat, {**CHAT, "tool_choice": "required"}, "tool_choice", "no 'tools'")
        named = {"type": "function", "function": {"name": "fly"}}
        self.check(chat, {**CHAT, "tools": TOOLS, "tool_choice": named}, "tool_choice", "get_weather, move, now")
        self.check(chat, {**CHAT, "tools": TOOLS, "tool_choice": "required", "guided_regex": "a"}, "guided_regex", "not allowed")
        numbers = {"type": "object", "properties": {"n": {"type": "array", "items": {"enum": list(range(9))}, "uniqueItems": True,
                                                          "maxItems": 3}}, "required": ["n"], "additionalProperties": False}
        form = {"name": "n", "schema": numbers}
        place = "response_format.json_schema.schema"
        for strict in ({}, {"strict": True}, {"strict": None}):
            asked = {"type": "json_schema", "json_schema": {**form, **strict}}
            self.check(chat, {**CHAT, "response_format": asked}, place, "keyword 'uniqueItems' is not supported")
        tool = {"type": "function", "function": {"name": "sum", "parameters": numbers, "strict": True}}
        for choice in ("required", "auto"):
            self.check(chat, {**CHAT, "tools": [tool], "tool_choice": choice}, "tools", "keyword 'uniqueItems' is not supported")
        self.check(chat, {**CHAT, "response_format": {"type": "json_schema", "json_schema": {**form, "strict": 1}}},
                   "response_format.json_schema.strict", "true or false")
        asked = {"type": "json_schema", "json_schema": {**form, "strict": False}}
        items = {"items": {"enum": list(range(9))}, "maxItems": 3}
        loose = jsonschema.Draft202012Validator({**numbers, "properties": {"n": items}})
        answer = server.post(chat, {**CHAT, "response_format": asked})["choices"][0]
        loose.validate(json.loads(answer["message"]["content"]))
        tool["function"]["strict"] = False
        answer = server.post(chat, {**CHAT, "tools": [tool], "tool_choice": "required", "parallel_tool_calls": False})
        loose.validate(json.loads(answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]))
        self.assertEqual(server.wait_idle()["inflight_kv_cache_usage_perc"], 0)

    def test_a_hostile_grammar_ends_its_own_request_only(self):
        story = {"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0}
        expected = server.post("/v1/completions", story)["choices"][0]["text"]
        hostile = ['root ::= e e\ne ::= [a-z ] e e | [a-z] e | ""', 'root ::= a a a a\na ::= [a-z ]* b*\nb ::= a a | [a-z]']
        for grammar in hostile:
            status, _, answer = server.request("POST", "/v1/completions", {**story, "max_tokens": 60, "guided_grammar": grammar})
            if status != 200:
                self.assertEqual((status, answer["error"]["param"]), (400, "guided_grammar"), answer)
            self.assertEqual(server.post("/v1/completions", story)["choices"][0]["text"], expected)
        status, _, answer = server.request("POST", "/v1/completions", {**story, "max_tokens": 60, "guided_grammar": hostile[0]})
        self.assertIn("ambiguous", answer["error"]["message"])


class CommandLine(unittest.TestCase):
    def run_program(self, *flags):
        done = subprocess.run([PROGRAM, "run", "-p", "Once upon a time", "--json", *flags], capture_output=True, text=True,
                              timeout=120)
        return done.returncode, done.stderr if done.returncode else json.loads(done.stdout)["outputs"][0]["text"]

    def test_flags(self):
        schema = json.dumps(SCHEMAS[0])
        status, text = self.run_program("--json-schema", schema)
        self.assertEqual(status, 0)
        jsonschema.Draft202012Validator(SCHEMAS[0]).validate(json.loads(text))
        self.assertRegex(self.run_program("--regex", r"\d{3}-\d{4}")[1], r"^\d{3}-\d{4}$")
        self.assertIn(self.run_program("--choice", "left", "--choice", "right")[1], ("left", "right"))
        self.assertRegex(self.run_program("--grammar", 'root ::= "<" [a-z]{2} ">"')[1], "^<[a-z]{2}>$")
        for flags, says in ((("--regex", "(a"), "regular expression"), (("--grammar", "@/nowhere"), "/nowhere"),
                            (("--regex", "a", "--choice", "b"), "--regex excludes --choice")):
            status, message = self.run_program(*flags)
            self.assertIn(status, (1, 2), message)
            self.assertIn(says, message)


if __name__ == "__main__":
    unittest.main()
