#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""/v1/messages, Anthropic's form: the fields and the order of events that its published reference has, and the answers of
/v1/chat/completions to the same conversation as truth for their content.
    messages_test.py PROGRAM [unittest arguments]"""
import concurrent.futures
import datetime
import json
import sys
import unittest

from server_process import Server

PROGRAM = sys.argv.pop(1)
QUESTION = [{"role": "user", "content": "What color is the sky?"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 10}}, "required": ["city"],
          "additionalProperties": False}
TOOLS = [{"name": "get_weather", "description": "Weather of a city", "input_schema": SCHEMA}]
BODY = {"messages": QUESTION, "max_tokens": 20, "temperature": 0}


def setUpModule():
    global server
    server = Server(PROGRAM, "--max-num-seqs", "4").expect_described()


def tearDownModule():
    server.__exit__()


def stream(body):
    """(event, data) of a whole streamed answer."""
    connection, answer = server.open_stream("/v1/messages", body)
    text = answer.read().decode()
    connection.close()
    assert answer.status == 200, text
    events = []
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n")
        events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return events


def joined(events):
    """The message that the events make, as a client puts it together."""
    message, arguments = None, {}
    for name, event in events:
        assert event["type"] == name, event
        if name == "message_start":
            message = event["message"]
        elif name == "content_block_start":
            assert event["index"] == len(message["content"]), event
            message["content"].append(dict(event["content_block"]))
            arguments[event["index"]] = ""
        elif name == "content_block_delta":
            delta, block = event["delta"], message["content"][event["index"]]
            if delta["type"] == "text_delta":
                block["text"] += delta["text"]
            else:
                assert delta["type"] == "input_json_delta", delta
                arguments[event["index"]] += delta["partial_json"]
        elif name == "content_block_stop":
            if arguments[event["index"]]:
                message["content"][event["index"]]["input"] = json.loads(arguments[event["index"]])
        elif name == "message_delta":
            message |= event["delta"]
            message["usage"] |= event["usage"]
    return message


def same(test, one, other):
    """But for what differs between two requests."""
    for key in ("type", "role", "model", "stop_reason", "stop_sequence"):
        test.assertEqual(one[key], other[key], key)
    for first, second in zip(one["content"], other["content"], strict=True):
        test.assertEqual({**first, "id": ""}, {**second, "id": ""})
    test.assertEqual(one["usage"]["output_tokens"], other["usage"]["output_tokens"])


class Messages(unittest.TestCase):
    def test_whole_and_streamed(self):
        status, headers, answer = server.request("POST", "/v1/messages", BODY)
        self.assertEqual((status, "msg_" + headers["request-id"]), (200, answer["id"]))
        chat = server.post("/v1/chat/completions", BODY)
        self.assertTrue(answer["id"].startswith("msg_"))
        self.assertEqual((answer["type"], answer["role"], answer["stop_sequence"]), ("message", "assistant", None))
        self.assertEqual(answer["content"], [{"type": "text", "text": chat["choices"][0]["message"]["content"]}])
        self.assertEqual(answer["stop_reason"], {"stop": "end_turn", "length": "max_tokens"}[chat["choices"][0]["finish_reason"]])
        self.assertEqual(answer["usage"]["output_tokens"], chat["usage"]["completion_tokens"])
        events = stream(BODY)
        same(self, joined(events), answer)
        names = [name for name, _ in events]
        self.assertEqual(names[:2], ["message_start", "content_block_start"])
        self.assertEqual(set(names[2:-3]), {"content_block_delta"})
        self.assertEqual(names[-3:], ["content_block_stop", "message_delta", "message_stop"])

    def test_cached_tokens_are_told_apart(self):
        body = {**BODY, "system": "You are a fox who lives in the wood and speaks to the birds. " * 4, "cache_salt": "a"}
        first, second = (server.post("/v1/messages", body)["usage"] for _ in range(2))
        self.assertEqual(first["cache_read_input_tokens"], 0)
        self.assertGreaterEqual(second["cache_read_input_tokens"], 32)
        count = server.post("/v1/messages/count_tokens", {key: body[key] for key in ("messages", "system")})
        self.assertEqual(first["input_tokens"], count["input_tokens"])
        self.assertEqual(second["input_tokens"] + second["cache_read_input_tokens"], first["input_tokens"])

    def test_stop_reasons(self):
        text = server.post("/v1/messages", BODY)["content"][0]["text"]
        stop = text[8:11]
        answer = server.post("/v1/messages", {**BODY, "stop_sequences": [stop, "zzz"]})
        self.assertEqual((answer["stop_reason"], answer["stop_sequence"]), ("stop_sequence", stop))
        self.assertEqual(answer["content"][0]["text"], text[:text.index(stop)])
        same(self, joined(stream({**BODY, "stop_sequences": [stop]})), answer)
        cut = server.post("/v1/messages", {**BODY, "max_tokens": 2, "ignore_eos": True})
        self.assertEqual((cut["stop_reason"], cut["usage"]["output_tokens"]), ("max_tokens", 2))
        none = server.post("/v1/messages", {**BODY, "max_tokens": 0})
        self.assertEqual((none["stop_reason"], none["content"], none["usage"]["output_tokens"]), ("max_tokens", [], 0))
        full = server.post("/v1/messages", {**BODY, "max_tokens": 100000, "ignore_eos": True})
        self.assertEqual(full["stop_reason"], "model_context_window_exceeded")
        counts = full["usage"]
        self.assertEqual(counts["input_tokens"] + counts["cache_read_input_tokens"] + counts["output_tokens"], 512)

    def test_forced_calls(self):
        for choice in ({"type": "any"}, {"type": "tool", "name": "get_weather"}):
            body = {**BODY, "max_tokens": 200, "tools": TOOLS, "tool_choice": {**choice, "disable_parallel_tool_use": True}}
            answer = server.post("/v1/messages", body)
            self.assertEqual(answer["stop_reason"], "tool_use")
            call = answer["content"][-1]
            self.assertEqual((len(answer["content"]), call["type"], call["name"]), (1, "tool_use", "get_weather"))
            self.assertEqual(list(call["input"]), ["city"])
            events = stream(body)
            same(self, joined(events), answer)
            started = [event["content_block"] for name, event in events if name == "content_block_start"]
            self.assertEqual([block["input"] for block in started], [{}])

    def test_results_go_on(self):
        turns = [*QUESTION, {"role": "assistant", "content": [{"type": "text", "text": "Let me look."},
                                                              {"type": "tool_use", "id": "t1", "name": "get_weather",
                                                               "input": {"city": "Rome"}}]},
                 {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "sunny"}]}]
        chat = [*QUESTION, {"role": "assistant", "content": "Let me look.", "tool_calls": [
            {"id": "t1", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Rome\"}"}}]},
                {"role": "tool", "tool_call_id": "t1", "content": "sunny"}]
        tools = [{"type": "function", "function": {"name": "get_weather", "description": "Weather of a city",
                                                   "parameters": SCHEMA}}]
        there = server.post("/tokenize", {"messages": chat, "tools": tools})["count"]
        self.assertEqual(server.post("/v1/messages/count_tokens", {"messages": turns, "tools": TOOLS}), {"input_tokens": there})
        self.assertIn("content", server.post("/v1/messages", {**BODY, "messages": turns, "tools": TOOLS}))

    def test_models(self):
        page = server.request("GET", "/v1/models")[2]
        names = [model["id"] for model in page["data"]]
        self.assertEqual((page["first_id"], page["last_id"], page["has_more"]), (names[0], names[-1], False))
        model = server.request("GET", "/v1/models/" + names[0])[2]
        self.assertEqual(model, page["data"][0])
        self.assertEqual((model["type"], model["display_name"]), ("model", names[0]))
        created = datetime.datetime.fromisoformat(model["created_at"].replace("Z", "+00:00"))
        self.assertEqual(created.timestamp(), model["created"])

    def test_instructions_among_the_turns(self):
        turns = [*QUESTION, {"role": "assistant", "content": "Blue."}, {"role": "user", "content": "And the grass?"},
                 {"role": "system", "content": [{"type": "text", "text": "Be brief."}]}]
        chat = [{"role": "system", "content": "Be kind."}, *turns]
        there = server.post("/tokenize", {"messages": chat})["count"]
        body = {"messages": turns, "system": "Be kind."}
        self.assertEqual(server.post("/v1/messages/count_tokens", body), {"input_tokens": there})
        self.assertIn("content", server.post("/v1/messages", {**BODY, **body}))
        turns[-1]["content"][0]["type"] = "image"
        status, _, answer = server.request("POST", "/v1/messages", {**BODY, **body})
        self.assertEqual(status, 400)
        self.assertIn("allowed for role system: text", answer["error"]["message"])

    def test_a_begun_answer_goes_on(self):
        turns = [*QUESTION, {"role": "assistant", "content": "The sky is very"}]
        told = server.post("/v1/messages", {**BODY, "messages": turns})["content"][0]["text"]
        chat = server.post("/v1/chat/completions", {**BODY, "messages": turns, "add_generation_prompt": False,
                                                    "continue_final_message": True})
        self.assertEqual(told, chat["choices"][0]["message"]["content"])

    def test_structured_output(self):
        schema = {"type": "object", "properties": {"color": {"enum": ["red", "blue"]}}, "required": ["color"],
                  "additionalProperties": False}
        answer = server.post("/v1/messages", {**BODY, "output_config": {"format": {"type": "json_schema", "schema": schema}}})
        self.assertIn(json.loads(answer["content"][0]["text"])["color"], ("red", "blue"))

    def test_errors(self):
        for body, kind, says in (({"max_tokens": 4}, "invalid_request_error", "'messages' is missing"),
                                 ({**BODY, "stop": "x"}, "invalid_request_error", "unknown field 'stop'"),
                                 ({**BODY, "stream": True, "output_config": {"format": {
                                     "type": "json_schema", "schema": {"type": "frob"}}}}, "invalid_request_error", "frob")):
            status, _, answer = server.request("POST", "/v1/messages", body)
            self.assertEqual((status, answer["type"], answer["error"]["type"]), (400, "error", kind))
            self.assertIn(says, answer["error"]["message"])

    def test_errors_have_anthropics_types(self):
        def check(status, kind, where, path, body, headers=None):
            got, _, answer = where.request("POST", path, body, headers)
            self.assertEqual((got, answer["type"], answer["error"]["type"]), (status, "error", kind), path)

        for path in ("/v1/messages", "/v1/messages/count_tokens"):
            check(404, "not_found_error", server, path, {"messages": QUESTION, "model": "other"})
            check(413, "request_too_large", server, path, b"x" * (17 << 20))
            check(403, "permission_error", server, path, BODY, {"Origin": "http://evil.example"})
        check(404, "invalid_request_error", server, "/v1/completions", {"prompt": "x", "model": "other"})  # OpenAI's
        endless = {**BODY, "max_tokens": 450, "ignore_eos": True}
        with Server(PROGRAM, "--max-num-seqs", "1", "--max-queued-requests", "1") as full:
            with concurrent.futures.ThreadPoolExecutor(12) as pool:
                answers = list(pool.map(lambda _: full.request("POST", "/v1/messages", endless), range(12)))
            refused = {(status, answer["error"]["type"]) for status, _, answer in answers if status != 200}
            self.assertEqual(refused, {(429, "rate_limit_error")})
        with Server(PROGRAM, "--max-num-seqs", "2") as leaving:
            story = {"prompt": "Once upon a time", "max_tokens": 450, "ignore_eos": True, "n": 128}  # for a while
            connection, answer = leaving.open_stream("/v1/completions", story)
            answer.readline()
            leaving.terminate()
            while leaving.request("GET", "/ready")[0] != 503:
                pass
            check(503, "overloaded_error", leaving, "/v1/messages", BODY)
            connection.close()

    def test_keys(self):
        with Server(PROGRAM, "--api-key", "secret") as locked:
            for headers, status in (({}, 401), ({"X-Api-Key": "wrong"}, 401), ({"X-Api-Key": "secret"}, 200),
                                    ({"Authorization": "Bearer secret"}, 200)):
                got, _, answer = locked.request("POST", "/v1/messages", BODY, headers)
                self.assertEqual(got, status, headers)
                self.assertEqual(answer.get("error", {}).get("type"), "authentication_error" if status == 401 else None)


if __name__ == "__main__":
    unittest.main()
