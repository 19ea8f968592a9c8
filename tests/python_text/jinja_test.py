#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chat templates against Python's jinja2, set up as transformers does: every published template on every conversation, and
snippets of every construct.    jinja_test.py RENDER_CHAT SHARED_DATA"""
import datetime
import functools
import json
import pathlib
import subprocess
import sys
import unittest

try:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox
except ImportError:
    print("skipped: needs Python's jinja2 (Debian package python3-jinja2)")
    sys.exit(77)

import chat_cases

PROGRAM, DATA = sys.argv[1], pathlib.Path(sys.argv[2])
TIME = 1_730_000_000


class Generation(jinja2.ext.Extension):
    """transformers' {% generation %}: its text counts, the mark does not."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_text"), [], [], body).set_lineno(line)

    def _text(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def strftime_now(form):
    return datetime.datetime.fromtimestamp(TIME).strftime(form)


ENVIRONMENT = jinja2.sandbox.ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
ENVIRONMENT.filters["tojson"] = tojson
ENVIRONMENT.globals.update(raise_exception=raise_exception, strftime_now=strftime_now)


@functools.cache
def compiled(template):
    return ENVIRONMENT.from_string(template)


def truth(task):
    variables = {"tools": None, "documents": None, "add_generation_prompt": False,
                 "bos_token": task["bos"], "eos_token": task["eos"], **task["request"]}
    try:
        return compiled(task["template"]).render(**variables)
    except Exception as error:  # pylint: disable=broad-except  -- whatever Python raises, ours must be an error too
        return error


def answers(tasks):
    text = "".join(json.dumps(task) + "\n" for task in tasks)
    done = subprocess.run([PROGRAM], input=text.encode(), capture_output=True, timeout=600, check=True)
    lines = done.stdout.decode().splitlines()
    assert len(lines) == len(tasks)
    return [json.loads(line) for line in lines]


def task_of(template, request):
    return {"template": template, "request": request, "bos": "<s>", "eos": "</s>", "time": TIME}


class Jinja(unittest.TestCase):
    maxDiff = None

    def compare(self, named_tasks):
        errors = 0
        for (name, task), answer in zip(named_tasks, answers([task for _, task in named_tasks])):
            with self.subTest(name=name):
                expected = truth(task)
                if isinstance(expected, Exception):
                    errors += 1
                    self.assertIn("error", answer, f"jinja2 says {expected!r}")
                    self.assertRegex(answer["error"], r"\Achat template( line \d+)?: [^\n]+\Z")
                    if type(expected) is jinja2.exceptions.TemplateError:  # from raise_exception()
                        self.assertTrue(answer["error"].endswith(str(expected)), answer["error"])
                else:
                    self.assertEqual(answer.get("text", answer), expected)
        return errors

    def test_published_templates(self):
        folder = DATA / "chat_templates"
        if not folder.exists():
            self.skipTest(f"needs {folder} (set -DINFLIGHT_SHARED_DATA to its folder)")
        tasks = []
        for path in sorted(folder.glob("*.jinja")):
            for name, messages in chat_cases.CONVERSATIONS.items():
                for number, variant in enumerate(chat_cases.VARIANTS):
                    request = {"messages": messages, **variant}
                    tasks.append(((path.stem, name, number), task_of(path.read_text(), request)))
        errors = self.compare(tasks)
        self.assertGreater(len(tasks) - errors, 500)  # most conversations can be rendered

    def test_snippets(self):
        request = {"messages": [chat_cases.HELLO, chat_cases.ANSWER], **chat_cases.DATA}
        self.compare([(snippet, task_of(snippet, request)) for snippet in chat_cases.SNIPPETS])
        whole = "\n".join(snippet for snippet in chat_cases.SNIPPETS
                          if not isinstance(truth(task_of(snippet, request)), Exception))
        self.compare([("all at once", task_of(whole, request))])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
