#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls of functions in the model's own form: what published chat templates write for a call, by Python's jinja2, is what the
grammar lets come, and what comes under the grammar is read by the rules that vLLM's parsers have for that form.
    tool_calls_test.py RENDER_CHAT FOLLOW_GRAMMAR MODEL SHARED_DATA"""
import ast
import json
import pathlib
import re
import subprocess
import sys
import unittest

import jinja_test  # exits with 77 where jinja2 is missing

FOLLOW, MODEL = sys.argv[2], sys.argv[3]
DATA = pathlib.Path(sys.argv[4])
END = {"own": "[end]", "Qwen": "<|im_end|>", "meta-llama": "<|eot_id|>", "mistralai": "</s>"}
TOOLS = [{"type": "function", "function": {"name": name, "description": "a tool", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city"], "additionalProperties": False}}} for name in ("get_weather", "get-time.v2")]
WEATHER, TIME = ("get_weather", {"city": "Zürich \"4\"", "days": 3}), ("get-time.v2", {"city": "{Rome}"})


def hermes(text):
    calls = map(json.loads, re.findall(r"<tool_call>(.*?)</tool_call>", text, re.S))
    return [(call["name"], call["arguments"]) for call in calls]


def llama(text):
    call = json.loads(text)
    return [(call["name"], call["parameters"])]


def mistral(text):
    calls = json.loads(text.split("[TOOL_CALLS]")[1])
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", call["id"]) for call in calls)
    return [(call["name"], call["arguments"]) for call in calls]


def own(text):
    return [(call["name"], call["arguments"]) for call in json.loads(text)]


READERS = {"Qwen": hermes, "meta-llama": llama, "mistralai": mistral}


def templates():
    for path in sorted((DATA / "chat_templates").glob("*.jinja")):
        yield path.stem, path.stem.split("-")[0] if not path.stem.startswith("meta") else "meta-llama", path.read_text()


def conversation(calls):
    messages = [{"role": "user", "content": "What is the weather?"}]
    if calls:
        messages.append({"role": "assistant", "content": "", "tool_calls": [
            {"id": f"call{i:05}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for i, (name, arguments) in enumerate(calls)]})
        messages += [{"role": "tool", "content": "sunny", "tool_call_id": f"call{i:05}"} for i in range(len(calls))]
    return messages


def written(template, family, calls):
    """What the template makes of an answer with these calls; None: it refuses."""
    def render(messages, **more):
        return jinja_test.truth(jinja_test.task_of(template, {"messages": messages, "tools": TOOLS, **more}))
    prompt, whole = render(conversation([]), add_generation_prompt=True), render(conversation(calls))
    if isinstance(whole, Exception):
        return None
    assert whole.startswith(prompt)
    return whole[len(prompt):].split(END[family])[0]


def follow(tasks):
    text = "".join(json.dumps(task) + "\n" for task in tasks)
    done = subprocess.run([FOLLOW, MODEL], input=text.encode(), capture_output=True, timeout=600, check=True)
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def task_of(template, accept=(), walks=0, **wanted):
    return {"kind": "tool_calls", "template": template, "text": json.dumps({"tools": TOOLS, "tool_choice": "required", **wanted}),
            "accept": list(accept), "walks": walks, "seed": 3}


class PlainNames(unittest.TestCase):
    """Forms of which the arguments alone are JSON, by templates of our own."""
    FORMS = {("[CALLS]", "[ARGS]", ""): r"\[CALLS\](.+?)\[ARGS\](.*?)(?=\[CALLS\]|$)",
             ("<fn=", ">", "</fn>"): r"<fn=(.+?)>(.*?)</fn>",
             ("<call>do.", ":{{ loop.index0 }}<with>", "</call>"): r"<call>do\.(.+?):\d{1,4}<with>(.*?)</call>",
             ("<call>{{ c.id }}|", "\n```json\n", "\n```</call>"): r"<call>[a-zA-Z0-9]{9}\|(.+?)\n```json\n(.*?)\n```</call>"}

    def test_both_ways(self):
        for (begin, middle, end), pattern in self.FORMS.items():
            template = ("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls or [] %}" + begin +
                        "{{ c.function.name }}" + middle + "{{ c.function.arguments | tojson }}" + end + "{% endfor %}"
                        "[end]{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}")
            calls = [WEATHER, TIME, WEATHER]
            good = [written(template, "own", calls[:count]) for count in (1, 2, 3)]
            bad = [good[0].replace("get_weather", '"get_weather"'), good[0].replace("3", "0"), good[0] + "x", " " + good[0]]
            answer, = follow([task_of(template, good + bad, walks=12)])
            self.assertTrue(answer["from_template"], begin)
            self.assertEqual(answer["accepted"], [True] * len(good) + [False] * len(bad), begin)
            for text in good + [text for text in answer["walks"] if not text.endswith("<no end>")]:
                found = re.findall(pattern, text, re.S)
                self.assertEqual(len(re.sub(pattern, "", text, flags=re.S)), 0, text)
                for called, arguments in found:
                    self.assertIn(called, ("get_weather", "get-time.v2"))
                    self.assertLessEqual({"city"}, set(json.loads(arguments)))


class Elements(unittest.TestCase):
    """Forms whose arguments are elements, by templates of our own; read by the rules of those models' parsers in vLLM: what
    stands between a parameter's tags, a newline at both ends apart, is a string, or JSON where the schema says so."""
    FORMS = {("<tool_call>\n<function=", ">\n", "<parameter=", ">\n", "\n</parameter>\n", "</function>\n</tool_call>"):
             (r"<tool_call>\n<function=(.+?)>\n(.*?)</function>\n</tool_call>\n?",
              r"<parameter=(.+?)>\n(.*?)\n?</parameter>\n"),
             ("<call name=\"", "\">", "<p name=\"", "\">", "</p>", "</call>"):
             (r"<call name=\"(.+?)\">(.*?)</call>\n?", r"<p name=\"(.+?)\">(.*?)</p>"),
             ("<tool_call>", "\n", "<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n", "</tool_call>"):
             (r"<tool_call>([^\n]*)\n(.*?)</tool_call>\n?", r"<arg_key>(.*?)</arg_key>\n<arg_value>(.*?)</arg_value>\n"),
             ("<tool_call>", "", "<arg_key>", "</arg_key><arg_value>", "</arg_value>", "</tool_call>"):
             (r"<tool_call>([^<]*)(.*?)</tool_call>\n?", r"<arg_key>(.*?)</arg_key><arg_value>(.*?)</arg_value>"),
             ("<calls>\n<fn name=\"", "\">\n", "<arg name=\"", "\" string=\"{{ 'true' if v is string else 'false' }}\">",
              "</arg>\n", "</fn>\n</calls>"):
             (r"<calls>\n<fn name=\"(.+?)\">\n(.*?)</fn>\n</calls>\n?",
              r"<arg name=\"(.+?)\" string=\"(?:(?<=days\" string=\")false|(?<!days\" string=\")true)\">(.*?)</arg>\n")}
    TOOLS = [{"type": "function", "function": {"name": name, "description": "a tool", "parameters": {
        "type": "object", "properties": {"city": {"enum": ["Zürich \"4\"", "{Rome}"]}, "days": {
            "type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 9}, "minItems": 1, "maxItems": 2},
                                         "note": {"type": "string", "maxLength": 5}},
        "required": ["city", "days"], "additionalProperties": False}}} for name in ("get_weather", "get-time.v2")]
    WEATHER = ("get_weather", {"city": "Zürich \"4\"", "days": [3, 4]})
    TIME = ("get-time.v2", {"city": "{Rome}", "days": [1], "note": "a\n<b"})

    @staticmethod
    def template(form, answer="", prompt=""):
        begin, middle, opened, between, closed, end = form
        return ("{% for m in messages %}[{{ m.role }}]{% if m.role == 'assistant' %}" + answer + "{% endif %}{{ m.content }}"
                "{% for c in m.tool_calls or [] %}{{ '' if loop.first else '\\n' }}" + begin + "{{ c.function.name }}" + middle +
                "{% for k, v in c.function.arguments | items %}" + opened + "{{ k }}" + between +
                "{{ v if v is string else v | tojson }}" + closed + "{% endfor %}" + end + "{% endfor %}[end]{% endfor %}"
                "{% if add_generation_prompt %}[assistant]" + prompt + "{% endif %}")

    def test_both_ways(self):
        for form, (call, parameter) in self.FORMS.items():
            def read(text, call=call, parameter=parameter):
                self.assertEqual(re.sub(call, "", text, flags=re.S), "", text)
                return [(name, {key: json.loads(value) if key == "days" else value
                                for key, value in re.findall(parameter, arguments, re.S)})
                        for name, arguments in re.findall(call, text, re.S)]
            for answer, prompt in (("", ""), ("<think>\n\n</think>\n\n", "<think>\n")):
                template = self.template(form, answer, prompt)
                calls = [self.WEATHER, self.TIME, self.WEATHER]
                good = [written(template, "own", calls[:count]).removeprefix("\n</think>\n\n") for count in (1, 2, 3)]
                self.assertEqual(read(good[2]), calls)  # what is compared with is right itself
                bad = [good[0].replace("get_weather", "get_wether"), good[0].replace("city", "town"), good[0][:-1],
                       good[0] + "x", " " + good[0], good[0].replace("Zürich", "Bern"), good[0].replace("3", "0"),
                       good[1].replace("a\n<b", "longer")]
                done, = follow([{**task_of(template, good + bad, walks=12), "text": json.dumps(
                    {"tools": self.TOOLS, "tool_choice": "required"})}])
                self.assertTrue(done["from_template"], form)
                self.assertEqual(done["accepted"], [True] * len(good) + [False] * len(bad), form)
                ended = [text for text in done["walks"] if not text.endswith("<no end>")]
                self.assertGreater(len(ended), 0, form)
                for text in ended:
                    for name, arguments in read(text):
                        self.assertIn(name, ("get_weather", "get-time.v2"))
                        self.assertIn(arguments.pop("city"), ("Zürich \"4\"", "{Rome}"), text)
                        self.assertLessEqual(set(arguments.pop("days")), set(range(1, 10)), text)
                        self.assertLessEqual(set(arguments), {"note"}, text)


class PythonCalls(unittest.TestCase):
    """Calls as a list of Python's, by a template of our own; read by Python's own parser, as vLLM reads them."""
    TOOLS = [{"type": "function", "function": {"name": name, "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}, "note": {"type": "string", "maxLength": 5},
                                         "unit": {"enum": ["it's", "F\"", None]}, "warm": {"type": "boolean"},
                                         "more": {"type": "array", "items": {"type": "object"}}},
        "required": ["city", "warm"], "additionalProperties": False}}} for name in ("get_weather", "get_time")]
    TEMPLATE = ("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% if m.tool_calls %}<calls>[{% for c in m.tool_calls %}"
                "{{ '' if loop.first else ', ' }}{{ c.function.name }}({% for k, v in c.function.arguments | items %}"
                "{{ '' if loop.first else ', ' }}{{ k }}={{ \"'\" + v + \"'\" if v is string else v }}{% endfor %})"
                "{% endfor %}]</calls>{% endif %}[end]{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}")

    @staticmethod
    def read(text):
        calls = ast.parse(text.removeprefix("<calls>").removesuffix("</calls>"), mode="eval").body.elts
        return [(call.func.id, {one.arg: ast.literal_eval(one.value) for one in call.keywords}) for call in calls]

    def test_both_ways(self):
        weather = ("get_weather", {"city": "Zürich \"4\"", "unit": "F\"", "warm": True, "more": [{"a": [1, None, "x"]}]})
        time = ("get_time", {"city": "", "warm": False})
        good = [written(self.TEMPLATE, "own", calls) for calls in ([weather], [time, weather], [weather, time, time])]
        self.assertEqual(self.read(good[1]), [time, weather])  # what is compared with is right itself
        bad = [good[0].replace("get_weather", "get_wether"), good[0].replace("city", "town"), good[0][:-1], good[0] + "x",
               good[0].replace("True", "true"), good[0].replace("'F", "'G"), good[1].replace("city=''", "city='a'b'")]
        done, = follow([{**task_of(self.TEMPLATE, good + bad, walks=40), "text": json.dumps(
            {"tools": self.TOOLS, "tool_choice": "required"})}])
        self.assertTrue(done["from_template"])
        self.assertEqual(done["accepted"], [True] * len(good) + [False] * len(bad))
        ended = [text for text in done["walks"] if not text.endswith("<no end>")]
        self.assertGreater(len(ended), 0)
        for text in ended:
            for name, arguments in self.read(text):
                self.assertIn(name, ("get_weather", "get_time"))
                self.assertIsInstance(arguments.pop("city"), str)
                self.assertIsInstance(arguments.pop("warm"), bool)
                self.assertIn(arguments.pop("unit", None), ("it's", "F\"", None), text)
                self.assertLessEqual(len(arguments.pop("note", "")), 5, text)
                self.assertTrue(all(isinstance(one, dict) for one in arguments.pop("more", [])), text)
                self.assertEqual(arguments, {})


class ToolCalls(unittest.TestCase):
    def setUp(self):
        if not (DATA / "chat_templates").exists():
            self.skipTest(f"needs {DATA}/chat_templates (set -DINFLIGHT_SHARED_DATA to its folder)")

    def test_what_templates_write_is_what_the_grammar_gives(self):
        seen = 0
        for name, family, template in templates():
            if family not in READERS:
                continue
            seen += 1
            one, both = written(template, family, [WEATHER]), written(template, family, [WEATHER, TIME])
            good = [one] + ([both] if both else [])
            self.assertEqual(READERS[family](one), [WEATHER], name)  # what is compared with is right itself
            bad = [one.replace("get_weather", "get_wether"), one[:-1], one + "x", one.replace("3", "0"),
                   one.replace("city", "town"), " " + one]
            everything, single, named = follow([
                task_of(template, good + bad), task_of(template, good, parallel_tool_calls=False),
                task_of(template, good, tool_choice={"type": "function", "function": {"name": "get-time.v2"}})])
            self.assertTrue(everything["from_template"], name)
            self.assertEqual(everything["accepted"], [True] * len(good) + [False] * len(bad), name)
            self.assertEqual(single["accepted"], [True] + [False] * (len(good) - 1), name)
            self.assertEqual(named["accepted"], [False] * len(good), name)
        self.assertEqual(seen, 4)

    def test_what_comes_under_the_grammar_is_calls(self):
        for name, family, template in templates():
            answer, = follow([task_of(template, walks=12)])
            self.assertEqual(answer["from_template"], family in READERS, name)
            for text in answer["walks"]:
                if text.endswith("<no end>"):
                    continue
                calls = READERS.get(family, own)(text)
                self.assertGreaterEqual(len(calls), 1, (name, text))
                for called, arguments in calls:
                    self.assertIn(called, ("get_weather", "get-time.v2"))
                    self.assertIsInstance(arguments["city"], str)
                    self.assertIn(arguments.get("days", 1), range(1, 10))
                    self.assertLessEqual(set(arguments), {"city", "days"})

    def test_templates_without_calls_are_told_of_them(self):
        messages = [{"role": "system", "content": "Be brief."}, *conversation([WEATHER, TIME]),
                    {"role": "user", "content": "Thanks!"}]
        for name, family, template in templates():
            if family in READERS:
                continue
            request = {"messages": messages[1:] if family == "google" else messages, "tools": TOOLS, "enable_thinking": False}
            task = {**jinja_test.task_of(template, request), "adapt": True}
            answer, = jinja_test.answers([task])
            text = answer.get("text", "")
            for part in ("get-time.v2", '{"name": "get_weather", "arguments": {"city": "Zürich \\"4\\"", "days": 3}}', "sunny",
                         "What is the weather?", "Thanks!", "JSON list"):
                self.assertIn(part, text, (name, answer))

    def test_ids_of_other_length_are_brought_to_the_forms(self):
        for name, family, template in templates():
            if family != "mistralai":
                continue
            messages = json.loads(json.dumps(conversation([WEATHER])).replace("call00000", "call_0123456789abcdef"))
            answer, = jinja_test.answers([{**jinja_test.task_of(template, {"messages": messages}), "adapt": True}])
            self.assertIn('"id": "789abcdef"', answer.get("text", str(answer)), name)
            self.assertIn('"call_id": "789abcdef"', answer["text"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
