#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reasoning apart from the answer over HTTP. The demo model is given templates whose end mark of reasoning is a control token of
its vocabulary, which a bias makes it write now and then; the truth is what the same server says with --reasoning-format none.
    reasoning_test.py PROGRAM [unittest arguments]"""
import contextlib
import json
import sys
import tempfile
import unittest

from control_tokens import with_control_tokens
from server_process import Server

PROGRAM = sys.argv.pop(1)
END, END_ID = "<|im_start|>", "1"
NO_ENDS = {"0": -100, "2": -100}  # <|endoftext|> and <|im_end|>, which no content shows
# Whether the prompt begins the reasoning is a variable.
MARKED = ("{% for m in messages %}[{{ m.role }}]{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n" + END + "\n\n"
          "{% endif %}{{ m.content }}[end]{% endfor %}{{ reasoning_effort }}{% if add_generation_prompt %}[assistant]\n"
          "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n" + END + "\n\n"
          "{% elif opens %}<think>\n{% endif %}{% endif %}")
HARMONY = ("{% for m in messages %}<|start|>{{ m.role }}{% if m.role == 'assistant' %}<|channel|>{% if m.thinking %}analysis"
           "<|message|>{{ m.thinking }}<|end|><|start|>assistant<|channel|>{% endif %}final{% endif %}<|message|>"
           "{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}")
MESSAGES = [{"role": "user", "content": "Tell me a story."}]
ASK = {"messages": MESSAGES, "max_tokens": 60, "temperature": 2, "ignore_eos": True}
SCHEMA = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"], "additionalProperties": False}
FORMAT = {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}
TOOLS = [{"type": "function", "function": {"name": "pick", "parameters": SCHEMA}}]


@contextlib.contextmanager
def serving(template, *options):
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as file:
        file.write(template)
        file.flush()
        with Server(PROGRAM, "--chat-template", file.name, *options) as server:
            server.expect_described()
            yield server


def opened(seed, **more):
    """A request whose prompt begins the reasoning."""
    return {**ASK, "seed": seed, "logit_bias": {END_ID: 7, **NO_ENDS}, "chat_template_kwargs": {"opens": True}, **more}


def streamed(server, body):
    """(reasoning, content) of a chat's stream; each chunk has one of them."""
    told = {"reasoning_content": "", "content": ""}
    for event in server.stream("/v1/chat/completions", body):
        for choice in event["choices"]:
            for key, text in choice["delta"].items():
                if key in told:
                    told[key] += text or ""
    return told["reasoning_content"], told["content"]


def taken_apart(raw):
    """What the marks say of the whole text, by hand."""
    reasoning, mark, content = raw.partition(END)
    return reasoning.strip(" \t\r\n"), content.lstrip(" \t\r\n") if mark else ""


class Reasoning(unittest.TestCase):
    def one_token(self, server, text):
        ids = server.post("/tokenize", {"prompt": text, "add_special_tokens": False})["tokens"]
        self.assertEqual(len(ids), 1, text)
        return str(ids[0])

    def test_every_format(self):
        with serving(MARKED, "--reasoning-format", "none") as server:
            raw = {}
            for seed in range(1, 9):
                choice = server.post("/v1/chat/completions", opened(seed, skip_special_tokens=False))["choices"][0]
                self.assertNotIn("reasoning_content", choice["message"])
                raw[seed] = choice["message"]["content"]
        apart = [taken_apart(text) for text in raw.values()]
        for part in (0, 1):  # some have reasoning, some an answer
            self.assertTrue(any(texts[part] for texts in apart), raw)
        with serving(MARKED) as server:
            for seed, text in raw.items():
                reasoning, content = taken_apart(text)
                answer = server.post("/v1/chat/completions", opened(seed, return_token_ids=True))
                message = answer["choices"][0]["message"]
                self.assertEqual((message.get("reasoning_content", ""), message["content"] or ""), (reasoning, content))
                self.assertEqual(streamed(server, opened(seed)), (reasoning, content))
                ids = answer["choices"][0]["token_ids"]
                count = ids.index(int(END_ID)) + 1 if int(END_ID) in ids else len(ids)
                self.assertEqual(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], count)
                hidden = server.post("/v1/chat/completions", opened(seed, include_reasoning=False))["choices"][0]["message"]
                self.assertEqual((hidden.get("reasoning_content"), hidden["content"]), (None, content))
                self.check_responses(server, seed, reasoning, content, count)
                self.check_messages(server, seed, reasoning, content)

    def check_responses(self, server, seed, reasoning, content, count):
        body = {"input": MESSAGES, "max_output_tokens": 60, **{key: value for key, value in opened(seed).items()
                                                                if key not in ("messages", "max_tokens")}}
        answer = server.post("/v1/responses", body)
        self.assertEqual(answer["usage"]["output_tokens_details"]["reasoning_tokens"], count)
        told = [(item["type"], item["content"][0]["type"], item["content"][0]["text"]) for item in answer["output"]]
        wanted = [item for item in (("reasoning", "reasoning_text", reasoning), ("message", "output_text", content)) if item[2]]
        self.assertEqual(told, wanted)
        parts, kinds = {"response.reasoning_text.delta": "", "response.output_text.delta": ""}, []
        for event in server.stream("/v1/responses", body):
            kinds.append(event["type"])
            if event["type"] in parts:
                parts[event["type"]] += event["delta"]
        self.assertEqual(list(parts.values()), [reasoning, content])
        self.assertEqual(kinds.count("response.output_item.done"), len(wanted))
        self.assertEqual(kinds.count("response.reasoning_text.done"), 1 if reasoning else 0)

    def check_messages(self, server, seed, reasoning, content):
        answer = server.post("/v1/messages", opened(seed))
        told = [(block["type"], block.get("thinking", block.get("text"))) for block in answer["content"]]
        self.assertEqual(told, [block for block in (("thinking", reasoning), ("text", content)) if block[1]])
        deltas = {"thinking": "", "text": ""}
        connection, stream = server.open_stream("/v1/messages", opened(seed))
        lines = stream.read().decode().split("\n")
        connection.close()
        for event in (json.loads(line[6:]) for line in lines if line.startswith("data: ")):
            if event["type"] == "content_block_delta":
                kind = event["delta"]["type"].removesuffix("_delta")
                deltas[kind] += event["delta"][kind]
        self.assertEqual(list(deltas.values()), [reasoning, content])

    def prompt_of(self, server, **request):
        ids = server.post("/tokenize", {"add_generation_prompt": False, **request})["tokens"]
        return server.post("/detokenize", {"tokens": ids})["prompt"]

    def test_requests(self):
        """What is sent back, and how much to think, reach the template."""
        with serving(MARKED) as server:
            turns = [*MESSAGES, {"role": "assistant", "content": "Once", "reasoning": "Hm"}]
            self.assertIn("<think>\nHm\n" + END + "\n\nOnce[end]", self.prompt_of(server, messages=turns))

            def length(path, **body):
                return server.post(path, body)["input_tokens"]
            # "high" is a word more of the prompt, and "none" also closes the reasoning.
            plain = length("/v1/responses/input_tokens", input="Hello")
            high = length("/v1/responses/input_tokens", input="Hello", reasoning={"effort": "high"})
            none = length("/v1/responses/input_tokens", input="Hello", reasoning={"effort": "none"})
            closed = length("/v1/responses/input_tokens", input="Hello", chat_template_kwargs={"enable_thinking": False,
                                                                                               "reasoning_effort": "none"})
            self.assertGreater(high, plain)
            self.assertEqual(none, closed)
            hello = [{"role": "user", "content": "Hello"}]
            off = length("/v1/messages/count_tokens", messages=hello, thinking={"type": "disabled"})
            self.assertEqual(off, length("/v1/messages/count_tokens", messages=hello,
                                         chat_template_kwargs={"enable_thinking": False}))
            # A turn of reasoning and text is one message, in both forms.
            item = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]}
            one = length("/v1/responses/input_tokens", input=[*MESSAGES, item, {"role": "assistant", "content": "Once"}, *hello])
            block = {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm", "signature": ""},
                                                      {"type": "text", "text": "Once"}]}
            two = length("/v1/messages/count_tokens", messages=[*MESSAGES, block, *hello])
            ids = server.post("/tokenize", {"messages": [*turns, *hello]})["tokens"]
            self.assertEqual([one, two], [len(ids)] * 2)
            for value in ("much", 3):
                status, _, error = server.request("POST", "/v1/chat/completions", json.dumps({**ASK, "reasoning_effort": value}))
                self.assertEqual((status, error["error"]["param"]), (400, "reasoning_effort"))

    def test_structured(self):
        """A schema holds behind the reasoning, which is free, whether the prompt or the model has begun it."""
        with serving(MARKED) as server:
            braces = {self.one_token(server, text): -100 for text in ("{", '{"')}
            mark = self.one_token(server, "<")
            thoughts = []
            for seed in range(1, 5):
                biases = {END_ID: 10, **braces}
                for body in (opened(seed, logit_bias=biases), {**ASK, "seed": seed, "logit_bias": biases},
                             opened(seed, logit_bias=biases, tools=TOOLS)):
                    body = {**body, "max_tokens": 400, "ignore_eos": False, "response_format": FORMAT}
                    message = server.post("/v1/chat/completions", body)["choices"][0]["message"]
                    thoughts.append(message.get("reasoning_content"))
                    calls = message.get("tool_calls") if "tools" in body else None
                    said = calls[0]["function"]["arguments"] if calls else message["content"]
                    self.assertIn(json.loads(said), ({"a": "x"}, {"a": "y"}), message)
                body = opened(seed, tools=TOOLS, tool_choice="required", max_tokens=400, ignore_eos=False,
                              logit_bias={END_ID: 10})
                choice = server.post("/v1/chat/completions", body)["choices"][0]
                thoughts.append(choice["message"].get("reasoning_content"))
                self.assertIn(json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"])["a"], "xy")
                self.assertEqual(choice["finish_reason"], "tool_calls")
                # Without reasoning, where the model does not begin it, or the template has ended it.
                for more in ({"logit_bias": {mark: -100}}, {"chat_template_kwargs": {"enable_thinking": False}}):
                    body = {**ASK, "seed": seed, "ignore_eos": False, "response_format": FORMAT, **more}
                    message = server.post("/v1/chat/completions", body)["choices"][0]["message"]
                    self.assertNotIn("reasoning_content", message)
                    self.assertIn(json.loads(message["content"])["a"], "xy")
            self.assertGreater(len([thought for thought in thoughts if thought]), len(thoughts) / 2, thoughts)

    def test_calls_as_elements(self):
        """Calls whose arguments are elements stand behind the reasoning, whole or streamed."""
        call = ("{{ m.content }}{% for c in m.tool_calls or [] %}<call>\n<fn={{ c.function.name }}>\n{% for k, v in "
                "c.function.arguments | items %}<arg={{ k }}>\n{{ v }}\n</arg>\n{% endfor %}</fn>\n</call>{% endfor %}")
        with serving(MARKED.replace("{{ m.content }}", call)) as server:
            thoughts = []
            for seed in range(1, 5):
                body = opened(seed, tools=TOOLS, tool_choice="required", max_tokens=400, ignore_eos=False,
                              logit_bias={END_ID: 10})
                message = server.post("/v1/chat/completions", body)["choices"][0]["message"]
                thoughts.append(message.get("reasoning_content") or "")
                for called in message["tool_calls"]:
                    self.assertEqual(called["function"]["name"], "pick")
                    self.assertIn(json.loads(called["function"]["arguments"]), ({"a": "x"}, {"a": "y"}))
                self.assertIsNone(message["content"])
                self.assertEqual(streamed(server, body), (thoughts[-1], ""))
            self.assertGreater(len([thought for thought in thoughts if thought]), 1, thoughts)

    def test_harmony(self):
        """Messages with channels: the header is the model's to write, here under a grammar and biases."""
        with serving(HARMONY) as server:
            analysis = server.post("/tokenize", {"prompt": "<|channel|>analysis", "add_special_tokens": False})["tokens"]
            final = server.post("/tokenize", {"prompt": "<|channel|>final", "add_special_tokens": False})["tokens"]
            place = next(i for i, pair in enumerate(zip(analysis, final)) if pair[0] != pair[1])
            body = {**ASK, "seed": 3, "ignore_eos": False, "response_format": FORMAT}
            said = server.post("/v1/chat/completions", {**body, "logit_bias": {str(analysis[place]): -100}})["choices"][0]
            self.assertIn(json.loads(said["message"]["content"])["a"], "xy")
            self.assertNotIn("reasoning_content", said["message"])
            thought = server.post("/v1/chat/completions", {**body, "logit_bias": {str(final[place]): -100}})
            message = thought["choices"][0]["message"]
            self.assertTrue(message["reasoning_content"])
            self.assertEqual((message["content"], thought["choices"][0]["finish_reason"]), (None, "length"))
            self.assertEqual(thought["usage"]["completion_tokens_details"]["reasoning_tokens"], 60)
            body = {**ASK, "seed": 3, "ignore_eos": False, "tools": TOOLS, "tool_choice": "required", "max_tokens": 200,
                    "logit_bias": {str(analysis[place]): -100}}
            called = server.post("/v1/chat/completions", body)["choices"][0]
            call = called["message"]["tool_calls"][0]["function"]
            self.assertEqual((call["name"], called["finish_reason"]), ("pick", "tool_calls"))
            self.assertIn(json.loads(call["arguments"])["a"], "xy")
            turns = [*MESSAGES, {"role": "assistant", "content": "Once", "reasoning_content": "Hm"}]
            self.assertIn("<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>Once<|end|>",
                          self.prompt_of(server, messages=turns))


    def test_harmonys_own_tokens(self):
        """As gpt-oss has them, control tokens: a grammar writes the headers, biases end the reasoning."""
        names = ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>"]
        data, ids = with_control_tokens(names)
        with tempfile.NamedTemporaryFile(suffix=".gguf") as model:
            model.write(data)
            model.flush()
            with serving(HARMONY, "-m", model.name) as server:
                def written(choice):
                    return server.post("/detokenize", {"tokens": choice["token_ids"]})["prompt"]

                start = server.post("/tokenize", {"messages": MESSAGES})["tokens"]
                self.assertEqual(start[0], ids["<|start|>"])
                final = server.post("/tokenize", {"prompt": "final", "add_special_tokens": False})["tokens"][0]
                comment = server.post("/tokenize", {"prompt": "commentary", "add_special_tokens": False})["tokens"][0]
                biases = {str(ids["<|end|>"]): 10, **NO_ENDS}
                body = {**ASK, "ignore_eos": False, "max_tokens": 300, "return_token_ids": True}
                thoughts = ""
                for seed in range(1, 5):
                    for more in ({"response_format": FORMAT}, {"tools": TOOLS, "tool_choice": "required"}):
                        # At the beginning the answer's own channel is banned, behind the reasoning it is the only one.
                        led = {**body, **more, "seed": seed, "logit_bias": {**biases, str(final): -100, str(comment): -100}}
                        choice = server.post("/v1/chat/completions", led)["choices"][0]
                        header, _, rest = written(choice).partition("<|message|>")
                        thought, mark, rest = rest.partition("<|end|>")
                        self.assertEqual((header, mark), ("<|channel|>analysis", "<|end|>"))
                        thoughts += thought
                        self.assertEqual(choice["message"].get("reasoning_content", ""), thought)
                        called = "tools" in more
                        wanted = "commentary to=functions.pick <|constrain|>json" if called else "final"
                        self.assertTrue(rest.startswith("<|start|>assistant<|channel|>" + wanted + "<|message|>{"), rest)
                        said = choice["message"]["content"]
                        if called:
                            self.assertIsNone(said)
                            said = choice["message"]["tool_calls"][0]["function"]["arguments"]
                        self.assertIn(json.loads(said)["a"], "xy")
                        self.assertEqual(choice["finish_reason"], "tool_calls" if called else "stop")
                        self.assertEqual(streamed(server, led), (thought, "" if called else said))
                self.assertNotEqual(thoughts, "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
