#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The library from Python, Rust, Go and Node.js: each streams eight requests at once and gives the tokens that C gives.
Languages whose tools are absent are skipped, and say so.
    bindings_test.py BUILD SOURCE [unittest arguments]"""
import asyncio
import ctypes
import gc
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

BUILD, SOURCE = pathlib.Path(sys.argv.pop(1)).resolve(), pathlib.Path(sys.argv.pop(1)).resolve()
LIBRARY = BUILD / "lib"
MODEL = SOURCE / "models/tinyworld/tinyworld-q8_0.gguf"
EXAMPLES = SOURCE / "bindings_c/examples"
ENVIRONMENT = {**os.environ, "LD_LIBRARY_PATH": str(LIBRARY), "INFLIGHT_LIBRARY": str(LIBRARY / "libinflight.so")}
os.environ["INFLIGHT_LIBRARY"] = ENVIRONMENT["INFLIGHT_LIBRARY"]
sys.path.insert(0, str(SOURCE / "bindings_c/python"))
sys.dont_write_bytecode = True
import inflight  # noqa: E402
from inflight import _native  # noqa: E402


# Stands before the library: every answer ends with an error.
FAILING = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <inflight/inflight.h>
inflight_status_t inflight_stream_next(inflight_stream_t* stream, int32_t timeout_ms, inflight_stream_event_t* event) {
  inflight_status_t (*next)(inflight_stream_t*, int32_t, inflight_stream_event_t*);
  *(void**)&next = dlsym(RTLD_NEXT, "inflight_stream_next");
  inflight_status_t status = next(stream, timeout_ms, event);
  if (status == INFLIGHT_OK && event->finish_reason != INFLIGHT_FINISH_NONE) {
    event->finish_reason = INFLIGHT_FINISH_ERROR;
    event->error = "the device is gone";
  }
  return status;
}
"""


def run(*command, status=0, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **{"env": ENVIRONMENT, **options})
    if done.returncode != status:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def setUpModule():
    global folder, wanted
    folder = pathlib.Path(tempfile.mkdtemp())
    program = folder / "c"
    run("cc", EXAMPLES / "c/eight_streams.c", f"-I{SOURCE}/include", f"-L{LIBRARY}", "-linflight", "-o", program)
    wanted = answers_of(run(program, MODEL).stdout)
    assert len(wanted) == 8
    (folder / "failing.c").write_text(FAILING)
    run("cc", "-shared", "-fPIC", folder / "failing.c", f"-I{SOURCE}/include", "-Wl,--no-as-needed", f"-L{LIBRARY}",
        "-linflight", "-o", folder / "failing.so")


def tearDownModule():
    shutil.rmtree(folder)


def answers_of(text):
    """number -> answer, whatever stands between them."""
    found = re.findall(r"^\[(\d)\] (.*?)(?=^\[|^    \d+ prompt|\Z)", text, re.M | re.S)
    return {number: answer.strip() for number, answer in found}


class Examples(unittest.TestCase):
    def check(self, *command):
        self.assertEqual(answers_of(run(*command, MODEL).stdout), wanted)
        failed = run(*command, "/nowhere.gguf", status=1)
        self.assertIn("/nowhere.gguf", failed.stderr)
        self.check_failing_answers(*command, environment={"LD_PRELOAD": str(folder / "failing.so")})

    def check_failing_answers(self, *command, environment={}):
        failed = run(*command, MODEL, status=1, env={**ENVIRONMENT, **environment})
        self.assertRegex(failed.stderr, r"^(inflight|answer \d failed): the device is gone\n")

    def test_c(self):
        self.check(folder / "c")

    # Its library is the failing one: what ctypes looks up, it looks up there first.
    def test_python(self):
        example = EXAMPLES / "python/eight_streams.py"
        self.assertEqual(answers_of(run(sys.executable, example, LIBRARY / "libinflight.so", MODEL).stdout), wanted)
        self.check_failing_answers(sys.executable, example, folder / "failing.so")

    def need(self, *tools):
        for tool in tools:
            if shutil.which(tool) is None:
                self.skipTest(f"{tool} is not installed")
            version = subprocess.run([tool, "version" if tool == "go" else "--version"], capture_output=True, text=True)
            if version.returncode != 0:  # rustup without a toolchain, say
                self.skipTest(f"{tool} does not run: {version.stderr.strip().splitlines()[:1]}")

    def test_rust(self):
        self.need("rustc")
        run("rustc", "--edition", "2021", "-D", "warnings", "-O", EXAMPLES / "rust/eight_streams.rs", "-L", LIBRARY, "-o",
            folder / "rust")
        self.check(folder / "rust")

    def test_go(self):
        self.need("go", "pkg-config")
        # Go's cache does not look at headers of C: their hash among the flags has it look.
        header = hashlib.sha256((SOURCE / "include/inflight/inflight.h").read_bytes()).hexdigest()[:12]
        (folder / "inflight.pc").write_text("Name: inflight\nDescription: .\nVersion: 0.1\n"
                                            f"Cflags: -I{SOURCE}/include -DHEADER_{header}\n"
                                            f"Libs: -L{LIBRARY} -linflight\n")
        environment = {**ENVIRONMENT, "PKG_CONFIG_PATH": str(folder), "GOFLAGS": "-mod=mod", "GOPROXY": "off",
                       "GOTOOLCHAIN": "local", "CGO_ENABLED": "1"}
        run("go", "build", "-o", folder / "go", ".", cwd=EXAMPLES / "go", env=environment)
        self.check(folder / "go")

    def test_node(self):
        self.need("node", "cc")
        headers = [pathlib.Path(place) for place in ("/usr/include/node", "/usr/include/nodejs/src")]
        prefix = pathlib.Path(run("node", "-p", "process.execPath").stdout.strip()).parent.parent
        found = [place for place in (*headers, prefix / "include/node") if (place / "node_api.h").is_file()]
        if not found:
            self.skipTest("node_api.h is not installed (Debian: libnode-dev)")
        run("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{found[0]}", f"-I{SOURCE}/include",
            EXAMPLES / "node/inflight_node.c", f"-L{LIBRARY}", "-linflight", "-o", folder / "inflight.node")
        self.check("node", EXAMPLES / "node/eight_streams.js", folder / "inflight.node")


class Python(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.engine = inflight.Engine(MODEL)

    @classmethod
    def tearDownClass(cls):
        cls.engine.close()

    def test_structs_are_those_of_the_header(self):
        lines = []
        for name, struct in _native.STRUCTS.items():
            lines.append(f'  printf("{name} %zu\\n", sizeof({name}));')
            lines += [f'  printf("{name}.{field[0]} %zu\\n", offsetof({name}, {field[0]}));' for field in struct._fields_]
        (folder / "layout.c").write_text("#include <inflight/inflight.h>\n#include <stdio.h>\nint main(void) {\n"
                                         + "\n".join(lines) + "\n  return 0;\n}\n")
        run("cc", folder / "layout.c", f"-I{SOURCE}/include", "-o", folder / "layout")
        told = dict(line.rsplit(" ", 1) for line in run(folder / "layout").stdout.splitlines())
        for name, struct in _native.STRUCTS.items():
            self.assertEqual(ctypes.sizeof(struct), int(told[name]), name)
            for field in struct._fields_:
                self.assertEqual(getattr(struct, field[0]).offset, int(told[f"{name}.{field[0]}"]), f"{name}.{field[0]}")

    def test_wraps_every_function_and_has_the_librarys_version(self):
        functions = set((SOURCE / "bindings_c/symbols.txt").read_text().split())
        code = "".join((SOURCE / "bindings_c/python/inflight" / name).read_text() for name in ("__init__.py", "_handles.py"))
        self.assertEqual(functions - set(re.findall(r"library\.(inflight_\w+)", code)), {"inflight_status_name"})
        project = (SOURCE / "bindings_c/python/pyproject.toml").read_text()
        self.assertEqual(re.search(r'^version = "(.*)"', project, re.M)[1], inflight.__version__)

    def prompts(self):
        return re.findall(r'"([A-Z][^"%]{8,}[a-z])"', (EXAMPLES / "c/eight_streams.c").read_text())[:8]

    def test_eight_streams_by_threads_and_by_coroutines(self):
        prompts = self.prompts()
        self.assertEqual(len(prompts), 8)
        texts = {}

        def answer(number, prompt):
            texts[str(number)] = prompt + self.engine.generate(prompt, max_tokens=48)

        threads = [threading.Thread(target=answer, args=(i, prompt)) for i, prompt in enumerate(prompts, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({number: text.strip() for number, text in texts.items()}, wanted)

        async def one(prompt):
            return prompt + "".join([output.text async for output in self.engine.submit(prompt, max_tokens=48)])

        async def every():
            return await asyncio.gather(*map(one, prompts))

        self.assertEqual([text.strip() for text in asyncio.run(every())], [wanted[str(i)] for i in range(1, 9)])

    def test_options(self):
        engine = self.engine
        outputs = list(engine.submit("Once upon a time", max_tokens=40, stop=["there"], logprobs=2, prompt_logprobs=0))
        self.assertEqual((outputs[-1].finish_reason, outputs[-1].stop_reason), ("stop", "there"))
        self.assertNotIn("there", "".join(output.text for output in outputs))
        tops = [top for output in outputs for top in output.top_logprobs]
        self.assertTrue(tops and all(len(top) == 2 for top in tops))
        self.assertEqual(sum(len(output.prompt_logprobs) for output in outputs), outputs[0].prompt_token_count - 1)
        ids = engine.tokenize("Once upon a time")
        self.assertEqual(engine.detokenize(ids), "Once upon a time")
        with self.assertRaisesRegex(inflight.Error, "no tokens that mark an insertion"):
            engine.infill_tokenize("def f(", ")")
        self.assertEqual(engine.generate(ids, max_tokens=8), engine.generate("Once upon a time", max_tokens=8))
        forced = list(engine.submit(ids, max_tokens=3, logit_bias={ids[0]: 100.0}, ignore_eos=True))
        self.assertEqual([token for output in forced for token in output.token_ids], [ids[0]] * 3)
        seeds = [engine.generate(ids, max_tokens=12, temperature=1.5, top_p=0.9, top_k=50, seed=seed) for seed in (3, 3, 4)]
        self.assertEqual(seeds[0], seeds[1])
        self.assertNotEqual(seeds[0], seeds[2])
        several = list(engine.submit(ids, n=3, temperature=1, seed=1, max_tokens=6, ignore_eos=True))
        self.assertEqual({output.index for output in several}, {0, 1, 2})
        digits = engine.generate("The number is ", structured_regex="[0-9]{3}", max_tokens=20)
        self.assertRegex(digits, r"^[0-9]{3}$")
        self.assertIn(engine.generate("Yes or no? ", structured_choice=["yes", "no"], max_tokens=20), ("yes", "no"))
        with self.assertRaises(inflight.Error):
            engine.generate("x", structured_regex="(")
        vectors = [engine.embed("A fox", pooling) for pooling in ("last", "mean")]
        self.assertEqual([len(vector) for vector in vectors], [256, 256])
        self.assertNotEqual(vectors[0], vectors[1])
        with self.assertRaisesRegex(inflight.Unsupported, "has no classifier"):
            engine.rerank("Who?", ["A fox"])
        prompt = engine.chat_render([{"role": "user", "content": "Hi"}])
        self.assertIn("assistant", prompt)

    def test_reranks(self):
        documents = ["The dog ran home.", b"Two plus two is four."]
        with inflight.Engine(MODEL, classifier_from_token="he,yes") as engine:
            self.assertEqual(engine.info()["model"]["labels"], ["yes", "he"])
            scores = engine.rerank("Who ran home?", documents)
            again = [engine.embed(engine.rerank_tokenize("Who ran home?", document), "classify") for document in documents]
        self.assertEqual([probabilities[0] for probabilities in again], scores)
        for probabilities in again:
            self.assertAlmostEqual(sum(probabilities), 1, places=6)
        self.assertNotEqual(scores[0], scores[1])
        with self.assertRaisesRegex(inflight.InvalidArgument, "classifier_from_token: the text 'perhaps' is"):
            inflight.Engine(MODEL, classifier_from_token="perhaps")

    def test_bytes_are_text(self):
        text, engine = "Once upon a time", self.engine
        answer = engine.generate(text, max_tokens=8)
        for kind in (str.encode, lambda text: bytearray(text, "utf-8")):
            self.assertEqual(engine.generate(kind(text), max_tokens=8), answer)
            self.assertEqual(engine.tokenize(kind(text)), engine.tokenize(text))
            for stop in (kind("girl"), [kind("girl")]):
                self.assertEqual(engine.generate(text, max_tokens=8, stop=stop), answer.partition("girl")[0])
            self.assertEqual(engine.generate(text, structured_choice=kind("yes"), max_tokens=8), "yes")
            self.assertRegex(engine.generate(text, structured_regex=kind("[0-9]{3}"), max_tokens=8), r"^[0-9]{3}$")

    # Which a cancelled answer is not.
    def test_an_answer_whose_time_runs_out_is_an_error(self):
        with inflight.Engine(MODEL, request_timeout_ms=30) as engine:
            engine.pause()
            outputs = list(engine.submit("Once"))
            self.assertEqual([(output.finish_reason, output.error) for output in outputs],
                             [("abort", "the request's time has run out")])
            for cut in (engine.generate, engine.embed, lambda prompt: engine.submit(prompt, n=2, temperature=1).texts()):
                with self.assertRaisesRegex(inflight.Rejected, "the request's time has run out") as refused:
                    cut("Once")
                self.assertEqual((refused.exception.reason, refused.exception.retry_after_s), (None, 0))
        stream = self.engine.submit("Once", max_tokens=400, ignore_eos=True)
        first = next(stream)
        stream.cancel()
        outputs = list(stream)
        self.assertEqual((outputs[-1].finish_reason, outputs[-1].error, first.error), ("abort", None, None))

    # One loop is left, its generator is closed later, when the next loop waits already.
    def test_a_second_loop_goes_on_where_the_first_one_was_left(self):
        async def read():
            stream = self.engine.submit("Once upon a time", max_tokens=40, ignore_eos=True)
            texts = []
            async for output in stream:
                texts.append(output.text)
                break
            async for output in stream:
                texts.append(output.text)
            return "".join(texts)

        wanted = self.engine.generate("Once upon a time", max_tokens=40, ignore_eos=True)
        self.assertEqual(asyncio.run(asyncio.wait_for(read(), 60)), wanted)

    # The stream is not freed while another thread's cancel() uses it.
    def test_close_waits_for_a_cancel(self):
        stream = self.engine.submit("Once", max_tokens=400, ignore_eos=True)
        library, cancel, closers = inflight._library, inflight._library.inflight_stream_cancel, []

        def cancel_while_it_is_closed(handle):
            library.inflight_stream_cancel = cancel
            closers.append(threading.Thread(target=stream.close))
            closers[0].start()
            closers[0].join(0.3)
            self.assertTrue(closers[0].is_alive())
            cancel(handle)

        library.inflight_stream_cancel = cancel_while_it_is_closed
        stream.cancel()
        closers[0].join()
        stream.cancel()  # does nothing any more

    # Of a cycle of garbage Python may finalize the engine first.
    def test_streams_go_before_their_engine_also_as_garbage(self):
        library, calls = inflight._library, []
        functions = {name: getattr(library, name) for name in ("inflight_stream_destroy", "inflight_engine_destroy")}

        def noted(name):
            return lambda handle: (calls.append(name), functions[name](handle))

        class App:
            def __init__(self):
                self.engine = inflight.Engine(MODEL)
                self.stream = self.engine.submit("Once", max_tokens=400, ignore_eos=True)
                self.itself = self

        App()
        try:
            for name in functions:
                setattr(library, name, noted(name))
            gc.collect()
        finally:
            for name, function in functions.items():
                setattr(library, name, function)
        self.assertEqual(calls, list(functions))

    def test_names_stand_for_enumerations(self):
        with inflight.Engine(MODEL, kv_cache_dtype="q8_0", host_driven=True) as engine:
            self.assertEqual(engine.info()["limits"]["kv_cache_dtype"], "q8_0")
        with self.assertRaisesRegex(ValueError, "kv_cache_dtype is 'q9', allowed: auto, f16, f32, q8_0, i16"):
            inflight.Engine(MODEL, kv_cache_dtype="q9")
        with self.assertRaisesRegex(ValueError, "pooling is 'first', allowed: last, mean, model"):
            self.engine.embed("x", "first")

    def test_times_come_with_the_end(self):
        begin = time.monotonic()
        outputs = list(self.engine.submit("Once upon a time", max_tokens=8, ignore_eos=True))
        passed = time.monotonic() - begin
        last = outputs[-1]
        self.assertGreater(last.first_scheduled_s, 0)
        self.assertLess(last.first_scheduled_s, last.first_token_s)
        self.assertLess(last.first_token_s, last.last_token_s)
        self.assertLess(last.last_token_s, passed)

    def test_guesses_are_counted(self):
        guesses = {"method": "ngram", "num_speculative_tokens": 4}
        with inflight.Engine(MODEL, speculative_config=json.dumps(guesses)) as engine:
            last = list(engine.submit("a b c d e f g a b c d e f g a b c", max_tokens=32, ignore_eos=True,
                                      prediction=" d e f g"))[-1]
        self.assertGreater(last.draft_token_count, 0)
        self.assertLessEqual(last.accepted_token_count, last.draft_token_count)
        self.assertEqual(last.preemption_count, 0)

    def test_log_lines_go_to_a_function(self):
        def lines_at(level, silenced=False):
            lines = []
            with inflight.Engine(MODEL, host_driven=True, log_interval_steps=1) as engine:
                inflight.set_log(lambda line_level, message: lines.append((line_level, message)), level)
                if silenced:
                    inflight.set_log(None)
                engine.configure(max_num_seqs=65)  # refused by the step
                stream = engine.submit("Once", max_tokens=1)
                while engine.step():
                    pass
                stream.close()
                inflight.set_log(None)
            return lines

        lines = lines_at("info")
        self.assertTrue(any(level == "info" and "step=" in message for level, message in lines), lines)
        self.assertTrue(any(level == "warning" and "max_num_seqs is 65" in message for level, message in lines), lines)
        self.assertEqual({level for level, _ in lines_at("warning")}, {"warning"})
        self.assertEqual(lines_at("info", silenced=True), [])
        with self.assertRaisesRegex(ValueError, "level is 'loud'"):
            inflight.set_log(print, "loud")

    def test_errors_are_exceptions(self):
        with self.assertRaisesRegex(inflight.InvalidArgument, "temperature is -1") as refused:
            self.engine.submit("x", temperature=-1)
        self.assertIsNone(refused.exception.field)
        with self.assertRaisesRegex(inflight.InvalidArgument, "prompt is too long") as refused:
            self.engine.submit("x " * 5000)
        self.assertEqual(refused.exception.field, "prompt_length")
        with self.assertRaisesRegex(TypeError, "unknown option 'heat'"):
            self.engine.submit("x", heat=1)
        with self.assertRaisesRegex(TypeError, "max_tokens"):
            self.engine.submit("x", max_tokens="many")
        with self.assertRaises(inflight.NotFound):
            self.engine.set_policy("nosuch")
        with self.assertRaisesRegex(inflight.Error, "/nowhere.gguf"):
            inflight.Engine("/nowhere.gguf")
        self.assertIsInstance(inflight.InvalidArgument(10, ""), ValueError)

    def test_paths_are_bytes_of_the_file_system(self):
        odd = os.fsdecode(b"m\xff.gguf")
        link = folder / odd
        link.symlink_to(MODEL)
        for model in (link, str(link), os.fsencode(link)):
            with inflight.Engine(model, host_driven=True) as engine:
                self.assertEqual(engine.info()["model"]["name"], "tinyworld")
        for path in (f"/nowhere/{odd}", os.fsencode(f"/nowhere/{odd}"), pathlib.Path(f"/nowhere/{odd}")):
            with self.assertRaisesRegex(inflight.NotFound, r"(^|[ '])/nowhere/m"):
                inflight.Engine(MODEL, host_driven=True, lora_modules={"a": path})
        for options in ({"model": 5}, {"model": MODEL, "lora_modules": {"a": None}}):
            with self.assertRaisesRegex(TypeError, "expected str, bytes or os.PathLike object"):
                inflight.Engine(**options)

    # ctypes alone would cut each to what fits its C type.
    def test_numbers_and_texts_that_do_not_fit_are_refused(self):
        for options, field in (({"max_tokens": 2**40}, "max_tokens is 1099511627776, allowed: -2147483648 to 2147483647"),
                               ({"max_tokens": -2**33 + 5}, "max_tokens is -8589934587"),
                               ({"seed": -1}, "seed is -1, allowed: 0 to 18446744073709551615"),
                               ({"ignore_eos": 256}, "ignore_eos is 256, allowed: 0 to 255"),
                               ({"logit_bias": {2**32 + 3: 100.0}}, "an entry of logit_bias is 4294967299"),
                               ({"stop_token_ids": [1, -2**32]}, "an entry of stop_token_ids is -4294967296"),
                               ({"stop": ["a\0b"]}, "stop is 'a.x00b', allowed: text without NUL"),
                               ({"structured_regex": "a\0b"}, "structured_regex is 'a.x00b'"),
                               ({"structured_choice": ["a", "b\0"]}, "structured_choice is 'b.x00'")):
            with self.assertRaisesRegex(ValueError, field):
                self.engine.submit("Once", **options)
        with self.assertRaisesRegex(ValueError, "an entry of prompt_ids is 8589934593, allowed: -2147483648 to 2147483647"):
            self.engine.submit([2, 2**33 + 1, 3])
        with self.assertRaisesRegex(ValueError, "max_num_seqs is 4294967300"):
            inflight.Engine(MODEL, max_num_seqs=2**32 + 4)
        with self.assertRaisesRegex(ValueError, "model is 'x.x00y.gguf', allowed: text without NUL"):
            inflight.Engine("x\0y.gguf")
        with self.assertRaisesRegex(TypeError, "unknown option 'prompt_length'"):
            self.engine.submit("Once", prompt_length=1 << 20)
        for call in (lambda: self.engine.token_text(2**32), lambda: self.engine.detokenize([2**32]),
                     lambda: self.engine.steps(-1), lambda: self.engine.set_policy("fcfs\0"),
                     lambda: inflight.load_plugin("/x\0")):
            with self.assertRaisesRegex(ValueError, "allowed: "):
                call()
        stream = self.engine.submit("A text with \0 has its length with it", max_tokens=1)
        self.assertEqual(list(stream)[-1].prompt_token_count,
                         len(self.engine.tokenize("A text with \0 has its length with it")))

    def test_several_answers_are_several_texts(self):
        options = {"n": 3, "temperature": 1, "seed": 7, "max_tokens": 8, "ignore_eos": True}
        wanted = ["", "", ""]
        for output in self.engine.submit("Once", **options):
            wanted[output.index] += output.text
        self.assertEqual(len(set(wanted)), 3)
        self.assertEqual(self.engine.submit("Once", **options).texts(), wanted)
        with self.assertRaisesRegex(ValueError, "n is 3, allowed for one text: 1"):
            self.engine.generate("Once", **options)

    def test_an_engine_rests_changes_and_drains(self):
        with inflight.Engine(MODEL, max_num_seqs=2, scheduling_profile="rag", max_num_queued_reqs=3) as engine:
            wanted = engine.generate("Once", max_tokens=8)
            engine.pause(everything=True)
            stream = engine.submit("Once", max_tokens=8)
            self.assertIsNone(stream.next(50))
            with self.assertRaisesRegex(ValueError, "timeout_ms is 4294967296"):
                stream.next(2**32)
            engine.configure(max_num_seqs=1)
            with self.assertRaisesRegex(inflight.InvalidArgument, "max_num_seqs is 3"):
                engine.configure(max_num_seqs=3)
            engine.resume()
            self.assertEqual(stream.text(), wanted)
            engine.pause()
            waiting = [engine.submit("Once", max_tokens=8) for _ in range(4)]  # one for the free row, three beyond
            with self.assertRaisesRegex(inflight.Rejected, "queued") as refused:
                engine.submit("Once", max_tokens=8)
            self.assertEqual(refused.exception.reason, "queued_requests")
            self.assertGreaterEqual(refused.exception.retry_after_s, 1)
            self.assertFalse(engine.drain(-1))  # does not wait
            engine.resume()
            self.assertTrue(engine.drain())
            self.assertEqual([each.text() for each in waiting], [wanted] * 4)
            with self.assertRaisesRegex(inflight.Rejected, "draining") as refused:
                engine.submit("Once")
            self.assertEqual((refused.exception.reason, refused.exception.retry_after_s), ("draining", 0))
            self.assertEqual((engine.stats()["requests_finished"], engine.stats()["requests_rejected"]), (6, 2))

    def test_stored_prefixes_are_forgotten(self):
        def cached():
            return list(self.engine.submit("A beginning that is stored and found. " * 8, max_tokens=2))[-1].cached_token_count

        self.assertEqual(cached(), 0)
        self.assertGreater(cached(), 0)
        self.engine.reset_prefix_cache()
        self.assertEqual(cached(), 0)

    def test_leaving_early_frees_everything(self):
        shares = []
        with inflight.Engine(MODEL, max_num_seqs=2, progress=lambda share, what: shares.append(share)) as engine:
            self.assertTrue(shares and max(shares) <= 1)
            with engine.submit("Once", max_tokens=400, ignore_eos=True) as stream:
                self.assertTrue(next(stream).text)
            left = engine.submit("Once", max_tokens=400, ignore_eos=True)
            next(left)
            left.cancel()
            self.assertEqual(list(left)[-1].finish_reason, "abort")
            while engine.stats()["requests_running"] + engine.stats()["requests_waiting"]:
                pass
            self.assertEqual(engine.stats()["kv_blocks_used"], 0)
            engine.submit("Once", max_tokens=400, ignore_eos=True)
        with self.assertRaises(ValueError):
            engine.submit("x")

        # A stream that nobody holds is one that was left.
        async def leave():
            async for _ in self.engine.submit("Once", max_tokens=400, ignore_eos=True):
                break

        aborted = self.engine.stats()["requests_aborted"]
        asyncio.run(leave())
        for _ in self.engine.submit("Once", max_tokens=400, ignore_eos=True):
            break
        while (stats := self.engine.stats())["requests_running"]:
            pass
        self.assertEqual(stats["requests_aborted"], aborted + 2)

    def test_reports(self):
        self.assertEqual(self.engine.info()["model"]["name"], "tinyworld")
        self.assertIn("inflight_num_requests_running", self.engine.metrics_text())
        self.assertGreater(self.engine.steps()["last_step"], -1)
        self.assertEqual(inflight.simulate(workload="lengths=5,6,7", max_num_seqs=2)["output_tokens"], 18)
        tokens = self.engine.tokenize("A dog \u00e9", add_special_tokens=False)
        self.assertEqual(b"".join(map(self.engine.token_text, tokens)), "A dog \u00e9".encode())
        long = inflight.simulate(workload="bimodal,requests=4000,seed=1", max_num_seqs=64, timeline=True)
        self.assertEqual(len(long["timeline"]["rows"]), 4000)  # 288 KB of text
        with inflight.Engine(MODEL, host_driven=True, profile=True) as engine:
            stream = engine.submit("Once", max_tokens=1)
            while engine.step():
                pass
            self.assertTrue(json.loads(engine.trace_json())["traceEvents"])
            stream.close()

    def test_host_driven(self):
        with inflight.Engine(MODEL, host_driven=True) as engine:
            stream = engine.submit("Once upon a time", max_tokens=4)
            while engine.step():
                pass
            wanted = self.engine.generate("Once upon a time", max_tokens=4)
            self.assertEqual(stream.text(), wanted)
            # Who waits runs the steps, whoever else does so.
            self.assertEqual(engine.generate("Once upon a time", max_tokens=4), wanted)
            self.assertEqual(engine.embed("A fox"), self.engine.embed("A fox"))
            streams = [engine.submit("Once upon a time", max_tokens=4) for _ in range(8)]
            self.assertIsNone(streams[0].next(0))
            texts = []
            threads = [threading.Thread(target=lambda stream=stream: texts.append(stream.text())) for stream in streams]
            for thread in threads:
                thread.start()
            while engine.step():
                pass
            for thread in threads:
                thread.join()
            self.assertEqual(texts, [wanted] * 8)
            self.assertTrue(engine.drain())
            engine.resume()
            engine.submit("Once")
            self.assertFalse(engine.drain())  # does not wait

    def test_a_wheel_installs_and_runs(self):
        try:
            import setuptools  # noqa: F401
        except ImportError:
            self.skipTest("setuptools is not installed")
        source = folder / "python"
        shutil.copytree(SOURCE / "bindings_c/python", source)
        try:
            run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--quiet", "-w", folder, source)
        except AssertionError as error:
            if "No module named" in str(error) or "invalid command 'bdist_wheel'" in str(error):
                self.skipTest("pip and wheel are not installed")
            raise
        wheel = next(folder.glob("inflight-*.whl"))
        target = folder / "site"
        run(sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--quiet", "--target", target, wheel)
        script = f"import inflight; print(inflight.Engine({str(MODEL)!r}).generate('Once upon a time', max_tokens=8))"
        out = run(sys.executable, "-c", script, env={**ENVIRONMENT, "PYTHONPATH": str(target)}, cwd=folder).stdout
        self.assertEqual(out.strip(), self.engine.generate("Once upon a time", max_tokens=8).strip())


if __name__ == "__main__":
    unittest.main(verbosity=2)
