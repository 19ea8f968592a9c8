#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The official `openai` Python package, unmodified, against `inflight serve`: sync and async, streaming, errors, tools,
structured output, embeddings. openai_test.py checks the same without the package.
    openai_sdk_test.py PROGRAM [unittest arguments]
Skips with a message where the package cannot be imported (pip install openai)."""
import asyncio
import json
import sys
import unittest

try:
    import openai
except ImportError as missing:
    print(f"SKIPPED: {missing}")
    sys.exit(77)

from server_process import Server

PROGRAM = sys.argv.pop(1)
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
QUESTION = [{"role": "user", "content": "What color is the sky?"}]


def setUpModule():
    global server, client, model
    server = Server(PROGRAM, "--api-key", "secret")
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="secret", max_retries=0)
    model = client.models.list().data[0].id


def tearDownModule():
    client.close()
    server.__exit__()


class Sync(unittest.TestCase):
    def test_models(self):
        self.assertEqual(client.models.retrieve(model).id, model)
        with self.assertRaises(openai.NotFoundError):
            client.models.retrieve("other")

    def test_completions(self):
        whole = client.completions.create(model=model, prompt="Once upon a time", max_tokens=12, temperature=0)
        self.assertEqual(whole.usage.completion_tokens, 12)
        parts = client.completions.create(model=model, prompt="Once upon a time", max_tokens=12, temperature=0, stream=True)
        self.assertEqual("".join(part.choices[0].text for part in parts), whole.choices[0].text)

    def test_chat(self):
        whole = client.chat.completions.create(model=model, messages=QUESTION, max_tokens=20, temperature=0, logprobs=True)
        message = whole.choices[0].message
        self.assertEqual(message.role, "assistant")
        self.assertTrue(message.content)
        self.assertTrue(whole.choices[0].logprobs.content)
        events = list(client.chat.completions.create(model=model, messages=QUESTION, max_tokens=20, temperature=0,
                                                     stream=True, stream_options={"include_usage": True}))
        self.assertEqual("".join(event.choices[0].delta.content or "" for event in events if event.choices), message.content)
        self.assertEqual(events[-1].usage.completion_tokens, whole.usage.completion_tokens)
        self.assertEqual(events[-2].choices[0].finish_reason, whole.choices[0].finish_reason)

    def test_chat_stream_helper_and_n(self):
        with client.chat.completions.stream(model=model, messages=QUESTION, max_tokens=20, temperature=1, seed=3, n=2) as stream:
            for _ in stream:
                pass
            final = stream.get_final_completion()
        again = client.chat.completions.create(model=model, messages=QUESTION, max_tokens=20, temperature=1, seed=3, n=2)
        self.assertEqual([choice.message.content for choice in final.choices],
                         [choice.message.content for choice in again.choices])

    def test_tools_are_offered(self):
        answer = client.chat.completions.create(model=model, messages=QUESTION, tools=TOOLS, tool_choice="auto", max_tokens=20)
        self.assertIn(answer.choices[0].finish_reason, ("stop", "length", "tool_calls"))

    def test_forced_tools(self):
        for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
            options = {"model": model, "messages": QUESTION, "tools": TOOLS, "tool_choice": choice, "max_tokens": 200,
                       "temperature": 0, "parallel_tool_calls": False}
            message = client.chat.completions.create(**options).choices[0].message
            self.assertEqual(message.tool_calls[0].function.name, "get_weather")
            self.assertIn("city", json.loads(message.tool_calls[0].function.arguments))
            with client.chat.completions.stream(**options) as stream:
                for _ in stream:
                    pass
                final = stream.get_final_completion().choices[0].message
            self.assertEqual(final.tool_calls[0].function.arguments, message.tool_calls[0].function.arguments)

    def test_response_format(self):
        schema = {"type": "object", "properties": {"color": {"enum": ["red", "blue"]}}, "required": ["color"],
                  "additionalProperties": False}
        answer = client.chat.completions.create(model=model, messages=QUESTION, max_tokens=100, response_format={
            "type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}})
        self.assertIn(json.loads(answer.choices[0].message.content)["color"], ("red", "blue"))
        told = client.responses.create(model=model, input="What color is the sky?", max_output_tokens=100, text={
            "format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}})
        self.assertIn(json.loads(told.output_text)["color"], ("red", "blue"))

    def test_embeddings(self):
        packed = client.embeddings.create(model=model, input=["a dog", "a cat"])  # the package asks for base64
        plain = client.embeddings.create(model=model, input=["a dog", "a cat"], encoding_format="float")
        self.assertEqual(len(packed.data), 2)
        for one, other in zip(packed.data, plain.data):
            self.assertEqual(len(one.embedding), len(other.embedding))
            self.assertLess(max(abs(x - y) for x, y in zip(one.embedding, other.embedding)), 1e-7)

    def test_options(self):
        answer = client.completions.create(model=model, prompt="Once upon a time", max_tokens=12, temperature=0, logprobs=2,
                                           stop=["zzz"], presence_penalty=0.5, frequency_penalty=0.5, logit_bias={"5": -100},
                                           n=2, best_of=3, seed=1, user="me", extra_body={"min_p": 0.1, "top_k": 5})
        self.assertEqual(len(answer.choices), 2)
        self.assertEqual(len(answer.choices[0].logprobs.tokens), 12)

    def test_responses(self):
        whole = client.responses.create(model=model, input="What color is the sky?", max_output_tokens=20, temperature=0)
        self.assertTrue(whole.output_text)
        text, last = "", None
        for event in client.responses.create(model=model, input="What color is the sky?", max_output_tokens=20,
                                             temperature=0, stream=True):
            last = event
            if event.type == "response.output_text.delta":
                text += event.delta
        self.assertEqual(text, whole.output_text)
        self.assertIn(last.type, ("response.completed", "response.incomplete"))
        self.assertEqual(last.response.usage.output_tokens, whole.usage.output_tokens)

    def test_errors(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            client.completions.create(model=model, prompt="x", max_tokens=-1)
        self.assertEqual(caught.exception.param, "max_tokens")
        with self.assertRaises(openai.AuthenticationError):
            client.with_options(api_key="wrong").models.list()
        self.assertTrue(client.models.with_raw_response.list().headers["x-request-id"])


class Async(unittest.TestCase):
    def test_many_streams_at_once(self):
        async def one(asynchronous, seed):
            text = ""
            stream = await asynchronous.chat.completions.create(model=model, messages=QUESTION, max_tokens=16, seed=seed,
                                                                temperature=1, stream=True)
            async for event in stream:
                text += event.choices[0].delta.content or ""
            return text

        async def all_of_them():
            async with openai.AsyncOpenAI(base_url=str(client.base_url), api_key="secret") as asynchronous:
                return await asyncio.gather(*(one(asynchronous, seed) for seed in range(1, 33)))

        texts = asyncio.run(all_of_them())
        alone = client.chat.completions.create(model=model, messages=QUESTION, max_tokens=16, seed=5, temperature=1)
        self.assertEqual(texts[4], alone.choices[0].message.content)

    def test_leaving_a_stream_early(self):
        async def leave():
            async with openai.AsyncOpenAI(base_url=str(client.base_url), api_key="secret") as asynchronous:
                stream = await asynchronous.completions.create(model=model, prompt="Once upon", max_tokens=400, stream=True,
                                                               extra_body={"ignore_eos": True})
                async for _ in stream:
                    await stream.close()
                    return

        asyncio.run(leave())
        self.assertEqual(server.wait_idle()["inflight_kv_cache_usage_perc"], 0)


if __name__ == "__main__":
    unittest.main()
