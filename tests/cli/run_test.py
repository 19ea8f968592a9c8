#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`inflight run` and `inflight bench` as a user meets them: answers equal to the demo model's expected outputs, the JSON
keys that scripts rely on, one clear line and the right exit status for every mistake.    run_test.py PROGRAM SOURCE_DIR"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
DEMO = SOURCE / "models/tinyworld/tinyworld-f16.gguf"
GOLDEN = json.loads((SOURCE / "models/tinyworld/golden.json").read_text())


def run(*args, **options):
    return subprocess.run([PROGRAM, *map(str, args)], capture_output=True, timeout=300, **options)


class Run(unittest.TestCase):
    def good(self, *args, **options):
        done = run(*args, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode()

    def bad(self, status, text, *args, **options):
        done = run(*args, **options)
        message = done.stderr.decode()
        self.assertEqual(done.returncode, status, message)
        self.assertIn(text, message)
        self.assertEqual(len(message.splitlines()), 1, message)
        self.assertTrue(message.startswith("inflight: "), message)

    def test_no_output_is_written_over_what_is_read(self):
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder, "model.gguf")
            model.write_bytes(DEMO.read_bytes())
            beside = pathlib.Path(folder, "beside")
            for option in ("--record", "--profile"):
                self.bad(2, "which is read", "run", "-m", model, "-p", "a", option, f"{folder}/./model.gguf")
                self.bad(2, "which is read", "run", "-p", "a", option, model, "--speculative-config",
                         json.dumps({"model": f"{folder}/./model.gguf", "num_speculative_tokens": 2}))
            self.bad(2, "--record and --profile are both", "run", "-p", "a", "--record", beside,
                     "--profile", f"{folder}/./beside")
            self.assertEqual(model.read_bytes(), DEMO.read_bytes())
            self.assertFalse(beside.exists())

    def test_an_output_that_cannot_be_written_is_found_before_the_work(self):
        with tempfile.TemporaryDirectory() as folder:
            for given, why in ((folder, "a folder"), (f"{folder}/none/trace", "No such file")):
                done = run("run", "-p", "a", "-n", 1, "--profile", given)
                self.assertIn(why, done.stderr.decode())
                self.assertIn("--profile is", done.stderr.decode())
                self.assertEqual(done.stdout, b"")
            self.bad(1, "Is a directory", "run", "--prompts", folder)
            self.bad(1, "No such file", "run", "--prompts", f"{folder}/none")

    def test_a_full_standard_error_changes_nothing(self):
        with open("/dev/full", "wb") as full:
            for arguments, status in ((("run", "-p", "Once", "-n", 3), 0), (("run", "-m", "/nowhere", "-p", "a"), 1),
                                      (("foo",), 2)):
                done = subprocess.run([PROGRAM, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=full)
                self.assertEqual(done.returncode, status, arguments)

    def test_answers_equal_the_expected_outputs(self):
        cases = [case for case in GOLDEN["cases"] if case["min_margin"] > 0.003]
        self.assertGreater(len(cases), 5)
        arguments = []
        for case in cases:
            arguments += ["--prompt-ids", ",".join(map(str, case["prompt_ids"]))]
        answer = json.loads(self.good("run", "-n", len(cases[0]["greedy_ids"]), "--ignore-eos", "--json", *arguments))
        for case, output in zip(cases, answer["outputs"]):
            self.assertEqual(output["token_ids"], case["greedy_ids"])
            self.assertEqual(output["prompt_tokens"], len(case["prompt_ids"]))

    def test_json_has_the_promised_keys(self):
        answer = json.loads(self.good("run", "-p", "Once upon a time", "-p", "One day", "-n", 8, "--json"))
        self.assertEqual([output["index"] for output in answer["outputs"]], [0, 1])
        for output in answer["outputs"]:
            self.assertLessEqual({"index", "text", "token_ids", "prompt_tokens", "cached_tokens", "finish_reason"},
                                 set(output))
            self.assertEqual(output["finish_reason"], "length")
            self.assertEqual(len(output["token_ids"]), 8)
        self.assertLessEqual({"load_ms", "ttft_ms", "prefill_tokens_per_second", "decode_tokens_per_second"},
                             set(answer["timings"]))
        self.assertTrue(answer["device"])
        self.assertGreater(answer["timings"]["ttft_ms"], 0)
        one = json.loads(self.good("run", "-p", "Once", "-n", 1, "--json"))["timings"]
        self.assertIsNone(one["decode_tokens_per_second"])
        none = json.loads(self.good("run", "-p", "Once", "-n", 0, "--json"))["timings"]
        self.assertEqual([none["ttft_ms"], none["prefill_tokens_per_second"]], [None, None])

    def test_output_that_cannot_be_written_is_an_error(self):
        for words in (("run", "-p", "Once", "-n", "2"), ("run", "-p", "Once", "-n", "2", "--json"), ("run", "--help"),
                      ("--version",), ("serve", "--print-config")):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, check=False)
            self.assertEqual(done.returncode, 1, words)
            self.assertEqual(done.stderr.splitlines()[-1],
                             b"inflight: cannot write to standard output: No space left on device")
        with open("/dev/full", "wb") as full:  # it is no use to compute on: no figures of the whole answer are told
            done = subprocess.run([PROGRAM, "run", "-p", "Once", "-n", "9"], stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertNotIn(b"tokens/s", done.stderr)

    def test_text_is_the_same_from_standard_input_and_alone_or_together(self):
        alone = json.loads(self.good("run", "-n", 24, "--json", input=b"Once upon a time"))["outputs"][0]
        together = json.loads(self.good("run", "-n", 24, "--json", "-p", "One day, Ben", "-p", "Once upon a time"))
        self.assertEqual(alone["text"], together["outputs"][1]["text"])
        shown = self.good("run", "-n", 24, "-p", "Once upon a time")
        self.assertEqual(shown, "Once upon a time" + alone["text"] + "\n")

    def test_seeds_draw_equal_answers(self):
        flags = ("run", "-p", "Once", "-n", 16, "--temperature", 1, "--top-k", 50, "--json", "--seed")
        texts = [json.loads(self.good(*flags, seed))["outputs"][0]["text"] for seed in (1, 1, 2)]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])

    def test_chat_follows_the_conversation(self):
        answer = self.good("run", "--chat", "-n", 40, input=b"What is the opposite of big?\n/exit\n")
        self.assertIn("small", answer.lower())

    def test_a_chat_tells_reasoning_on_standard_error(self):
        template = "{{ messages[-1].content }}{% if add_generation_prompt %}<think>\n{% endif %}"
        with tempfile.NamedTemporaryFile("w", suffix=".jinja") as file:
            file.write(template)
            file.flush()
            done = run("run", "--chat", "--chat-template", file.name, "-n", 12, input=b"Once upon a time\n")
        plain = json.loads(self.good("run", "--json", "-n", 12, "-p", "Once upon a time<think>\n"))["outputs"][0]["text"]
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, b"\n")  # the model ended no reasoning
        self.assertIn(plain.strip(), done.stderr.decode())

    def test_a_chat_at_a_terminal_goes_on_after_a_message_that_is_too_long(self):
        try:
            typed, terminal = os.openpty()
        except OSError as error:
            self.skipTest(f"no terminals here: {error}")
        os.write(typed, b"big small " * 300 + b"\nWhat is the opposite of big?\n/exit\n")
        done = run("run", "--chat", "-n", 40, "--max-model-len", 128, stdin=terminal)
        os.close(terminal)
        os.close(typed)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("inflight: the prompt is too long", done.stderr.decode())
        self.assertIn("small", done.stdout.decode().lower())

    def test_prompts_from_a_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("Once upon a time\nOne day\n")
            file.flush()
            outputs = json.loads(self.good("run", "--prompts", file.name, "-n", 2, "--json"))["outputs"]
            self.assertEqual(len(outputs), 2)
            self.bad(2, "which is read", "run", "--prompts", file.name, "-n", 2, "--record", file.name)
            pathlib.Path(file.name).write_bytes(b"Once upon a time\r\n\r\nOne day\r\n")  # as Windows ends lines
            self.assertEqual(json.loads(self.good("run", "--prompts", file.name, "-n", 2, "--json"))["outputs"], outputs)

    def test_profile_is_a_chrome_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "trace.json"
            self.good("run", "-p", "Once", "-n", 3, "--profile", path)
            events = json.loads(path.read_text())["traceEvents"]
            self.assertGreater(len(events), 3)
            self.assertTrue(all("ts" in event and "name" in event for event in events if event["ph"] == "X"))

    def test_figures_of_the_steps_are_told_where_asked_for(self):
        for interval, lines in (((), 0), (("--log-interval-steps", 4), 2)):
            done = run("run", "-p", "Once upon a time", "-n", 10, "--ignore-eos", *interval)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stderr.count(b"inflight: info: step="), lines, done.stderr)

    def test_a_recording_replays_and_explains(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "run.trace"
            self.good("run", "-p", "Once", "-p", "One day", "-n", 5, "--record", path, "--scheduling-profile", "batch")
            replayed = json.loads(self.good("replay", path, "--json"))
            self.assertIsNone(replayed["difference"])
            self.assertEqual(replayed["requests"], 2)
            self.assertIn("decode", self.good("explain", path, 2))
            self.bad(2, "REQUEST is -1, allowed: a number from 1", "explain", path, "-1")

    def test_guesses_are_explained_as_guesses(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "run.trace"
            answer = json.loads(self.good("run", "-p", "Once upon a time", "-n", 30, "--ignore-eos", "--json", "--record", path,
                                          "--speculative-config", '{"num_speculative_tokens": 4}'))["outputs"][0]
            lines = json.loads(self.good("explain", path, 1, "--json"))["lines"]
        self.assertEqual([line["what"] for line in lines], ["arrived", "prefilled", "decoded", "finished"])
        decoded = lines[2]
        self.assertGreater(decoded["guessed_tokens"], 0)
        steps = decoded["last_step"] - decoded["first_step"] + 1
        self.assertEqual(decoded["tokens"] - decoded["guessed_tokens"], steps)  # one a step, and the guesses
        last = answer["prompt_tokens"] + 29
        self.assertRegex(decoded["text"], f"guessed, ({last - 1}|{last}) in all")

    def test_guesses_change_nothing(self):  # checklist 124
        story = "The cat sat. The dog ran. The cat sat. The dog"
        for options in ((), ("--temperature", "0.8", "--seed", "7"), ("--overlap", "off")):
            words = ("run", "-p", story, "-p", "Once", "-n", 50, "--json", *options)
            guessing = self.good(*words, "--speculative-config", '{"num_speculative_tokens": 5}')
            self.assertEqual(json.loads(guessing)["outputs"], json.loads(self.good(*words))["outputs"])
            model = str(SOURCE / "models/tinyworld/tinyworld-q8_0.gguf")
            drafted = self.good(*words, "--speculative-config", json.dumps({"model": model, "num_speculative_tokens": 3}))
            self.assertEqual(json.loads(drafted)["outputs"], json.loads(self.good(*words))["outputs"])
        self.bad(2, "num_speculative_tokens is 0, allowed: 1 to 64", "run", "-p", "x", "--speculative-config",
                 '{"num_speculative_tokens": 0}')
        self.bad(1, "nowhere.gguf", "run", "-p", "x", "--speculative-config",
                 '{"num_speculative_tokens": 2, "model": "nowhere.gguf"}')

    def test_mistakes_get_one_clear_line(self):
        self.bad(1, "missing.gguf", "run", "-m", "missing.gguf", "-p", "x")
        self.bad(2, "the prompt is empty", "run", "-p", "")
        self.bad(2, "the prompt is empty", "run", input=b"")
        self.bad(2, "maximum context length is 512 tokens", "run", "--prompt-ids", ",".join(["5"] * 600))
        self.bad(2, "prompt id 1024", "run", "--prompt-ids", "1024")
        self.bad(2, "'x' is no token id", "run", "--prompt-ids", "1,x")
        self.bad(2, "temperature", "run", "-p", "x", "--temperature", "-1")
        self.bad(2, "top_p", "run", "-p", "x", "--top-p", "2")
        self.bad(2, "max_tokens", "run", "-p", "x", "-n", "-1")
        self.bad(1, "nosuchdevice", "run", "-p", "x", "--device", "nosuchdevice")
        self.bad(1, "nosuchpolicy", "run", "-p", "x", "--policy", "nosuchpolicy")
        self.bad(1, "allowed: rag, batch, tenant, sla", "run", "-p", "x", "--scheduling-profile", "nosuch")
        self.bad(2, "max_num_queued_tokens", "run", "-p", "x", "--max-num-queued-tokens", "-1")
        self.bad(2, "max_tokens is 9, allowed: 1 to 5", "run", "-p", "x", "-n", 9, "--max-tokens-limit", 5,
                 "--clip-max-tokens", "off")
        self.bad(2, "batching is 'fast'", "run", "-p", "x", "--batching", "fast")
        self.bad(2, "block", "run", "-p", "x", "--block-size", "12")
        self.bad(2, "--frobnicate", "run", "-p", "x", "--frobnicate")
        self.bad(2, "max_num_seqs", "run", "-p", "x", "--max-num-seqs", "-3")
        self.bad(2, "--max-tokens is 'abc', allowed: a whole number", "run", "-p", "x", "--max-tokens", "abc")
        self.bad(2, "--max-tokens is '99999999999'", "run", "-p", "x", "--max-tokens", "99999999999")
        self.bad(2, "--seed is '-1', allowed: a whole number from 0", "run", "-p", "x", "--seed", "-1")
        self.bad(2, "--port is '0x1', allowed: a whole number in [0 - 65535]", "serve", "--port", "0x1")
        self.bad(2, "--choices: Value 0 not in range 1 to 128", "run", "-p", "x", "--choices", "0")
        self.bad(2, "--regex excludes --grammar", "run", "-p", "x", "--regex", "a", "--grammar", 'root ::= "a"')
        self.bad(2, "--lora-name is 'a', allowed: the NAME of a --lora", "run", "-p", "x", "--lora-name", "a")
        self.bad(2, "JSON schema: parse error at line 1", "run", "-p", "x", "--json-schema", "{")
        self.bad(2, "--prompt excludes --chat", "run", "--chat", "-p", "x")
        self.bad(2, "--chat excludes --choices", "run", "--chat", "--choices", 2)
        self.bad(2, "--system requires --chat", "run", "--system", "x", "-p", "x")
        self.bad(2, "regular expression, position 1", "run", "-p", "x", "--regex", "[")

    def test_numbers_are_read_by_the_base_ten(self):
        answer, = json.loads(self.good("run", "-p", "Once", "-n", "08", "--ignore-eos", "--json"))["outputs"]
        self.assertEqual(len(answer["token_ids"]), 8)
        self.assertIn("\nport = 9181\n", self.good("serve", "--port", "09181", "--print-config"))

    def test_a_cut_file_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "cut.gguf"
            path.write_bytes(DEMO.read_bytes()[:100_000])
            self.bad(1, "cut.gguf", "run", "-m", path, "-p", "x")

    def test_a_cache_folder_that_cannot_be_written_is_no_obstacle(self):
        environment = {**os.environ, "INFLIGHT_CACHE_DIR": "/proc/nowhere"}
        self.good("run", "-p", "Once", "-n", 2, "--cache-weights", env=environment)

    def test_kept_weights_give_the_same_answers(self):
        with tempfile.TemporaryDirectory() as folder:
            model, cache = pathlib.Path(folder) / "model.gguf", pathlib.Path(folder) / "cache"
            environment = {**os.environ, "INFLIGHT_CACHE_DIR": str(cache)}

            def answer(*more):
                return json.loads(self.good("run", "-m", model, "-p", "Once upon a time", "-n", 24, "--logprobs", 5, "--json",
                                            *more, env=environment))["outputs"]

            def kept():
                return [file.stat().st_mtime_ns for file in cache.glob("model.gguf.*.packed")]
            model.write_bytes(DEMO.read_bytes())
            self.good("run", "-m", model, "-p", "x", "-n", 1, env=environment)  # compiles
            packed = answer()
            self.assertEqual(kept(), [])
            self.assertEqual(answer("--cache-weights"), packed)
            first = kept()
            self.assertEqual(len(first), 1)
            self.assertEqual(answer("--cache-weights"), packed)
            self.assertEqual(kept(), first, "was written again")
            self.good("quantize", DEMO, model, "q4_0")
            smaller = answer()
            self.assertNotEqual(smaller, packed)
            self.assertEqual(answer("--cache-weights"), smaller)
            self.assertNotEqual(kept(), first)
            self.assertEqual(answer("--cache-weights"), smaller)

    def test_a_folder_is_the_model_that_is_made_of_it(self):
        """Of Llama, whose rows of queries and keys lie in another order in the file."""
        checkpoint = SOURCE / "tests/golden/checkpoints/llama"
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder, "model.gguf")
            self.good("quantize", checkpoint, model, "bf16")
            answers = [json.loads(self.good("run", "-m", path, "-p", "the dog ran", "-n", 8, "--ignore-eos", "--json"))
                       for path in (model, f"{checkpoint}/")]
        for key in ("text", "token_ids"):
            self.assertEqual(*(answer["outputs"][0][key] for answer in answers))
        self.bad(1, "is a directory without config.json", "run", "-m", SOURCE, "-p", "x")


class Bench(unittest.TestCase):
    KEYS = {"prefill_tokens_per_second", "decode_tokens_per_second", "read_bandwidth_gb_per_second",
            "bandwidth_fraction"}

    def check_phases(self, figures, batch):
        """What each phase achieves follows from its tokens a second and the model: 4 layers of 8 heads of 32 over 2 KV
        heads, 256 to 512, 1,024 tokens, half numbers."""
        layers = 4 * (256 * 256 * 2 + 256 * 64 * 2 + 3 * 256 * 512)
        token = 2 * layers + 2 * 1024 * 256
        context = 16 + 8 / 2
        decode = token + 4 * 4 * 256 * context
        self.assertAlmostEqual(figures["decode_gflop_per_second"] * 1e9 / figures["decode_tokens_per_second"] / decode, 1, 5)
        prefill = 2 * layers + 2 * 1024 * 256 / 16 + 4 * 4 * 256 * 17 / 2
        self.assertAlmostEqual(figures["prefill_gflop_per_second"] * 1e9 / figures["prefill_tokens_per_second"] / prefill, 1, 5)
        kv = 4 * 2 * 2 * 32 * 2
        step = figures["decode_gb_per_second"] * 1e9 / (figures["decode_tokens_per_second"] / batch)
        self.assertGreater(step, 2 * layers + batch * context * kv)  # half weights, norms, the tied output
        self.assertLess(step, 1.02 * (2 * (layers + 1024 * 256) + batch * context * kv))
        self.assertGreater(figures["scheduler_us_per_step"], 0)
        self.assertLess(figures["scheduler_share"] + figures["loop_efficiency"], 1)

    def test_no_time_in_which_all_decode(self):
        size = ("--batch", 8, "--max-num-batched-tokens", 64, "--prompt-tokens", 64, "--repeat", 1, "--json")
        short = run("bench", "throughput", *size, "--output-tokens", 3)
        figures = json.loads(short.stdout)
        for key in ("decode_tokens_per_second", "bandwidth_fraction", "decode_gflop_per_second", "decode_gb_per_second"):
            self.assertIsNone(figures[key], key)
        self.assertIn("no decode rate: at no time did all 8 sequences decode; give more --output-tokens", short.stderr.decode())
        long = run("bench", "throughput", *size, "--output-tokens", 40)
        self.assertGreater(json.loads(long.stdout)["decode_tokens_per_second"], 0)
        self.assertNotIn("decode rate", long.stderr.decode())

    # checklist 13, 16, 59: achieved FLOP/s and bytes/s of each phase; the scheduler's time a step and its share; what a
    # bare loop over the same steps would keep of the engine's time.
    def test_latency_and_throughput_report_the_promised_keys(self):
        size = ("--prompt-tokens", 16, "--output-tokens", 8, "--repeat", 2, "--json")
        latency = run("bench", "latency", *size)
        self.assertEqual(latency.returncode, 0, latency.stderr)
        throughput = run("bench", "throughput", "--batch", 4, *size)
        self.assertEqual(throughput.returncode, 0, throughput.stderr)
        for figures in (json.loads(latency.stdout), json.loads(throughput.stdout)):
            self.assertLessEqual(self.KEYS, set(figures))
            self.assertTrue(all(figures[key] > 0 for key in self.KEYS), figures)
            self.check_phases(figures, figures["batch"])
        self.assertIn("total_tokens_per_second", json.loads(throughput.stdout))

    def test_the_lengths_that_are_allowed_can_be_measured(self):
        for given in (("--output-tokens", 3), ("--prompt-tokens", 384, "--output-tokens", 128)):
            done = run("bench", "latency", "--repeat", 1, *given, "--json")
            self.assertEqual((done.returncode, done.stderr), (0, b""), given)
            self.assertGreater(json.loads(done.stdout)["decode_tokens_per_second"], 0)
        for given, message in (
                (("--prompt-tokens", 384, "--output-tokens", 129),
                 b"--prompt-tokens is 384 and --output-tokens 129: max_model_len is 513, allowed: 2 to 512"),
                (("--output-tokens", 2), b"--output-tokens: Value 2 not in range 3 to 1048576")):
            done = run("bench", "latency", *given)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)
            self.assertIn(message, done.stderr)


unittest.main(argv=sys.argv[:1], verbosity=2)
