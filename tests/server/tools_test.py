#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls of functions over HTTP in the form of published chat templates, which the demo model is given: forced and free calls,
streamed and whole, several at once, and what the template writes for the very same call.
    tools_test.py PROGRAM SHARED_DATA [unittest arguments]"""
import contextlib
import json
import pathlib
import re
import sys
import tempfile
import unittest

from server_process import Server

PROGRAM = sys.argv.pop(1)
TEMPLATES = pathlib.Path(sys.argv.pop(1)) / "chat_templates"
ASK = {"messages": [{"role": "user", "content": "What is the weather?"}], "max_tokens": 200, "temperature": 1, "seed": 4,
       "chat_template_kwargs": {"enable_thinking": False}}  # which the demo model would not end
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {
    "type": "object", "properties": {"city": {"enum": ["Rome", "Zürich"]}, "warm": {"type": "boolean"}},
    "required": ["city", "warm"], "additionalProperties": False}}} for name in ("get_weather", "get_time")]
MARKS = {"Qwen-Qwen2.5-7B-Instruct": "<tool_call>", "Qwen-Qwen3-0.6B": "<tool_call>",
         "mistralai-Mistral-Nemo-Instruct-2407": "[TOOL_CALLS]", "meta-llama-Llama-3.1-8B-Instruct": "", "": ""}


def joined(events):
    """(content, calls, finish reason) of a streamed answer's chunks."""
    content, calls, reason = "", [], None
    for event in events:
        for choice in event["choices"]:
            content += choice["delta"].get("content") or ""
            for part in choice["delta"].get("tool_calls", []):
                if part["index"] == len(calls):
                    calls.append({"id": part["id"], "type": part["type"], "function": {"name": part["function"]["name"],
                                                                                       "arguments": ""}})
                calls[part["index"]]["function"]["arguments"] += part["function"]["arguments"]
            reason = choice["finish_reason"] or reason
    return content, calls, reason


@contextlib.contextmanager
def serving(template):
    """A server whose model has this chat template; None: its own."""
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as file:
        file.write(template or "")
        file.flush()
        with Server(PROGRAM, *([] if template is None else ["--chat-template", file.name])) as server:
            server.expect_described()
            yield server


def squeezed(text):
    """Without the blanks of JSON, where a model is free."""
    return re.sub(r"\s", "", text)


class Tools(unittest.TestCase):
    def check(self, server, mark):
        for choice, parallel in (("required", True), ("required", False),
                                 ({"type": "function", "function": {"name": "get_time"}}, True)):
            body = {**ASK, "tools": TOOLS, "tool_choice": choice, "parallel_tool_calls": parallel}
            answer = server.post("/v1/chat/completions", {**body, "return_token_ids": True})
            message = answer["choices"][0]["message"]
            calls = message["tool_calls"]
            self.assertIsNone(message["content"])
            self.assertEqual(answer["choices"][0]["finish_reason"], "tool_calls")
            if not parallel or choice != "required":
                self.assertEqual(len(calls), 1)
            for call in calls:
                self.assertIn(call["function"]["name"], ["get_time"] if choice != "required" else ["get_weather", "get_time"])
                arguments = json.loads(call["function"]["arguments"])
                self.assertEqual(list(arguments), ["city", "warm"])
                self.assertEqual(call["type"], "function")
            self.assertEqual(len({call["id"] for call in calls}), len(calls))
            written = server.post("/detokenize", {"tokens": answer["choices"][0]["token_ids"]})["prompt"]
            self.assertTrue(written.startswith(mark), written)
            content, streamed, reason = joined(server.stream("/v1/chat/completions", body))
            self.assertEqual((content, reason), ("", "tool_calls"))
            self.assertEqual([call["function"] for call in streamed], [call["function"] for call in calls])
            # The template writes the same call in the same way.
            results = [{"role": "tool", "tool_call_id": call["id"], "content": "sunny"} for call in calls]
            turns = [*ASK["messages"], message, *results]
            ids = server.post("/tokenize", {"messages": turns, "tools": TOOLS})["tokens"]
            rendered = server.post("/detokenize", {"tokens": ids})["prompt"]
            wanted = re.sub(r'(?<="id": ")[a-zA-Z0-9]{9}', "", re.split(r"<\|(?:im_end|endoftext)\|>", written)[0])
            rendered = re.sub(r'(?<="id": ")[a-zA-Z0-9]{9}', "", rendered)
            self.assertIn(*(re.sub(r"#\d+", "", squeezed(text)) for text in (wanted, rendered)))  # calls may be counted anyhow
            told = server.post("/v1/responses", {"input": "What is the weather?", "tools": TOOLS, "tool_choice": choice,
                                                 "parallel_tool_calls": parallel, "max_output_tokens": 200, "temperature": 1,
                                                 "seed": 4, "chat_template_kwargs": ASK["chat_template_kwargs"]})
            self.assertEqual({item["type"] for item in told["output"]}, {"function_call"})

    def test_each_form(self):
        if not TEMPLATES.exists():
            self.skipTest(f"needs {TEMPLATES} (set -DINFLIGHT_SHARED_DATA to its folder)")
        for name, mark in MARKS.items():
            template = None
            if name:  # without what it says of the tools, for which the demo model's context is too short
                template = "{%- set tools = none %}" + (TEMPLATES / f"{name}.jinja").read_text()
            with self.subTest(name=name), serving(template) as server:
                self.check(server, mark)

    def test_plain_names(self):
        """A form of which the arguments alone are JSON."""
        template = ("{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
                    "<call>{{ c.function.name }}#{{ loop.index0 }}[with]{{ c.function.arguments | tojson }}</call>{% endfor %}"
                    "[end]{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}")
        with serving(template) as server:
            self.check(server, "<call>")

    def test_elements(self):
        """A form whose arguments are elements, behind a prompt that begins and ends the reasoning; Anthropic's endpoint, too."""
        template = ("{% for m in messages %}[{{ m.role }}]{% if m.role == 'assistant' %}<think></think>{% endif %}"
                    "{{ m.content or '' }}{% for c in m.tool_calls or [] %}{{ '' if loop.first else '\\n' }}"
                    "<tool_call>\n<function={{ c.function.name }}>\n"
                    "{% for k, v in c.function.arguments | items %}<parameter={{ k }}>\n{{ v if v is string else v | tojson }}\n"
                    "</parameter>\n{% endfor %}</function>\n</tool_call>{% endfor %}[end]{% endfor %}"
                    "{% if add_generation_prompt %}[assistant]<think></think>{% endif %}")
        with serving(template) as server:
            self.check(server, "<tool_call>\n<function=")
            tools = [{"name": tool["function"]["name"], "input_schema": tool["function"]["parameters"]} for tool in TOOLS]
            said = server.post("/v1/messages", {"messages": ASK["messages"], "max_tokens": 200, "tools": tools, "temperature": 1,
                                                "tool_choice": {"type": "tool", "name": "get_time"}})
            self.assertEqual((said["stop_reason"], [block["type"] for block in said["content"]]), ("tool_use", ["tool_use"]))
            self.assertIn(said["content"][0]["input"]["city"], ("Rome", "Zürich"))
            self.assertIsInstance(said["content"][0]["input"]["warm"], bool)

    def test_keys_and_values(self):
        """As GLM writes calls: nothing behind a name, keys and values in tags of their own, turns that end with the next mark."""
        template = ("{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}</think>{% endif %}"
                    "{{ m.content or '' }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }}"
                    "{% for k, v in c.function.arguments | items %}<arg_key>{{ k }}</arg_key>"
                    "<arg_value>{{ v if v is string else v | tojson }}</arg_value>{% endfor %}</tool_call>{% endfor %}"
                    "{% endfor %}{% if add_generation_prompt %}<|assistant|></think>{% endif %}")
        with serving(template) as server:
            self.check(server, "<tool_call>get_")

    def test_elements_that_say_what_is_a_string(self):
        """As DeepSeek V3.2 writes calls."""
        template = ("{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
                    "<f={{ c.function.name }}>{% for k, v in c.function.arguments | items %}"
                    "<p={{ k }} string={{ 'true' if v is string else 'false' }}>{{ v if v is string else v | tojson }}</p>"
                    "{% endfor %}</f>{% endfor %}[end]{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}")
        with serving(template) as server:
            self.check(server, "<f=get_")

    def test_members(self):
        """As Gemma 4 writes calls, and in Python's spelling, of which the model may take either quote."""
        template = ("{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
                    "<call>{{ c.function.name }}BEGIN{% for k, v in c.function.arguments | items %}"
                    "{{ '' if loop.first else ', ' }}{{ k }}=TEXT{% endfor %}END</call>{% endfor %}"
                    "[end]{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}")
        quoted = ("{% if v is string %}<|\"|>{{ v }}<|\"|>{% elif v is mapping %}{{ '{' }}{% for a, b in v | items %}{{ a }}:"
                  "<|\"|>{{ b }}<|\"|>{% endfor %}{{ '}' }}{% else %}{{ v | tojson }}{% endif %}")
        python = "{{ \"'\" + v + \"'\" if v is string else v }}"
        with serving(template.replace("BEGIN", "{{ '{' }}").replace("END", "}").replace("=TEXT", ":" + quoted)) as server:
            self.check(server, "<call>get_")
        with serving(template.replace("BEGIN", "(").replace("END", ")").replace("TEXT", python)) as server:
            for seed in range(1, 5):
                body = {**ASK, "tools": TOOLS, "tool_choice": "required", "seed": seed}
                whole = server.post("/v1/chat/completions", body)["choices"][0]["message"]
                content, calls, _ = joined(server.stream("/v1/chat/completions", body))
                self.assertEqual([call["function"] for call in calls], [call["function"] for call in whole["tool_calls"]])
                self.assertEqual((content, whole["content"] or ""), ("", ""))
                for call in calls:
                    arguments = json.loads(call["function"]["arguments"])
                    self.assertIn(arguments["city"], ("Rome", "Zürich"))
                    self.assertIsInstance(arguments["warm"], bool)

    def test_free_calls(self):
        """The model may write what it likes, but what begins as a call goes on as one. Biases make it write nothing but "<" and
        "{", and the template says that "<{" begins a call."""
        template = ("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls or [] %}"
                    "<{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}{% endfor %}"
                    "[end]{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}")
        with serving(template) as server:
            begin, brace = (server.post("/tokenize", {"prompt": text})["tokens"] for text in "<{")
            self.assertEqual((len(begin), len(brace)), (1, 1))
            led = {**ASK, "tools": TOOLS, "parallel_tool_calls": False,
                   "logit_bias": {str(begin[0]): 100, str(brace[0]): 100}}
            prompt = server.post("/tokenize", {"messages": ASK["messages"], "tools": TOOLS})["tokens"]
            chat_only = ("messages", "tools", "parallel_tool_calls", "chat_template_kwargs")
            plain = {key: value for key, value in led.items() if key not in chat_only}
            for seed in range(1, 6):
                answer = server.post("/v1/chat/completions", {**led, "seed": seed})["choices"][0]
                content, calls, reason = joined(server.stream("/v1/chat/completions", {**led, "seed": seed}))
                free = server.post("/v1/completions", {**plain, "prompt": prompt, "seed": seed})["choices"][0]["text"]
                first = answer["message"]["tool_calls"][0]["function"]
                self.assertEqual(list(json.loads(first["arguments"])), ["city", "warm"])
                self.assertIn(first["name"], ("get_weather", "get_time"))
                self.assertEqual(answer["message"]["content"] or "", content)
                self.assertEqual([call["function"] for call in calls], [first])
                self.assertEqual((answer["finish_reason"], reason), ("tool_calls", "tool_calls"))
                # Up to the call it is what the model writes behind the same prompt without tools.
                self.assertTrue(free.startswith(content + "<{"), (free, content))
            # Of several functions, those that are allowed.
            allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [TOOLS[1]]}}
            for seed in range(1, 4):
                body = {**ASK, "tools": TOOLS, "tool_choice": allowed, "seed": seed}
                calls = server.post("/v1/chat/completions", body)["choices"][0]["message"]["tool_calls"]
                self.assertEqual({call["function"]["name"] for call in calls}, {"get_time"})
            unknown = {**TOOLS[0]["function"], "parameters": {"type": "object", "not": {}}}
            odd = server.post("/v1/chat/completions", {**led, "tools": [{"type": "function", "function": unknown}],
                                                       "max_tokens": 400})
            self.assertEqual(odd["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "get_weather")


if __name__ == "__main__":
    unittest.main(verbosity=2)
