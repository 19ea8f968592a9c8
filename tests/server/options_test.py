#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every generation option over HTTP has the effect that it names, in OpenAI's and vLLM's forms, with the demo model.
    options_test.py PROGRAM [unittest arguments]"""
import math
import pathlib
import subprocess
import sys
import unittest

import jinja2

from server_process import Server

PROGRAM = sys.argv.pop(1)
STORY = {"prompt": "Once upon a time", "max_tokens": 24, "temperature": 0}
CHAT = {"messages": [{"role": "user", "content": "What color is the sky?"}], "max_tokens": 16, "temperature": 0}


def setUpModule():
    global server
    server = Server(PROGRAM).expect_described()


def tearDownModule():
    server.__exit__()


def choice(**options):
    return server.post("/v1/completions", {**STORY, **options})["choices"][0]


def ids_of(text):
    return server.post("/tokenize", {"prompt": text})["tokens"]


class Ends(unittest.TestCase):
    def test_stop_strings_across_tokens_are_never_shown(self):
        whole = choice()["text"]
        stop = whole[10:17]  # within words, over several tokens
        before = whole[:whole.index(stop)]
        for stops in (stop, [stop], ["never there", stop]):
            answer = choice(stop=stops)
            self.assertEqual((answer["text"], answer["finish_reason"], answer["stop_reason"]), (before, "stop", stop))
        self.assertEqual(choice(stop=stop, include_stop_str_in_output=True)["text"], before + stop)
        events = server.stream("/v1/completions", {**STORY, "stop": stop})
        self.assertEqual("".join(event["choices"][0]["text"] for event in events), before)
        self.assertEqual(events[-1]["choices"][0]["stop_reason"], stop)
        self.assertIsNone(choice()["stop_reason"])
        chat = server.post("/v1/chat/completions", CHAT)["choices"][0]["message"]["content"]
        stopped = server.post("/v1/chat/completions", {**CHAT, "stop": chat[3:6]})["choices"][0]
        self.assertEqual((stopped["message"]["content"], stopped["stop_reason"]), (chat[:chat.index(chat[3:6])], chat[3:6]))

    def test_stop_tokens_and_min_tokens(self):
        comma = ids_of(",")[-1]
        answer = choice(stop_token_ids=[comma])
        self.assertEqual((answer["text"], answer["stop_reason"]), ("", comma))
        shown = choice(stop_token_ids=[comma], include_stop_str_in_output=True, logprobs=1)
        self.assertEqual((shown["text"], shown["logprobs"]["tokens"], shown["stop_reason"]), (",", [","], comma))
        later = server.post("/v1/completions", {**STORY, "stop_token_ids": [comma], "min_tokens": 10})
        self.assertGreaterEqual(later["usage"]["completion_tokens"], 10)

    def test_no_tokens_at_all_scores_the_prompt(self):
        """As evaluation harnesses ask for it: the log probabilities are those that the same prompt has with an answer."""
        scored = {**STORY, "echo": True, "logprobs": 1}
        whole = server.post("/v1/completions", {**scored, "max_tokens": 1})["choices"][0]["logprobs"]
        answer = server.post("/v1/completions", {**scored, "max_tokens": 0})
        told = answer["choices"][0]["logprobs"]
        self.assertEqual(told["tokens"], whole["tokens"][:-1])
        self.assertEqual(told["token_logprobs"], whole["token_logprobs"][:-1])
        self.assertEqual(answer["choices"][0]["text"], STORY["prompt"])
        self.assertEqual(answer["choices"][0]["finish_reason"], "length")
        self.assertEqual(answer["usage"]["completion_tokens"], 0)
        ids = [ids_of(text) for text in ("Once upon a time", "One day, a fox")]
        several = server.post("/v1/completions", {**scored, "prompt": ids, "max_tokens": 0, "seed": 1})["choices"]
        self.assertEqual(several[0]["logprobs"]["token_logprobs"], told["token_logprobs"])
        self.assertEqual([len(each["logprobs"]["tokens"]) for each in several], [len(each) for each in ids])
        events = server.stream("/v1/completions", {**STORY, "max_tokens": 0})
        self.assertEqual([event["choices"][0]["finish_reason"] for event in events], ["length"])
        refused = server.request("POST", "/v1/completions", {**STORY, "max_tokens": 0, "n": 2})
        self.assertEqual((refused[0], "2 answers" in refused[2]["error"]["message"]), (400, True))

    def test_usage_in_each_event(self):
        options = {"include_usage": True, "continuous_usage_stats": True}
        for path, body in (("/v1/completions", STORY), ("/v1/completions", {**STORY, "echo": True}),
                           ("/v1/chat/completions", CHAT)):
            events = server.stream(path, {**body, "stream_options": options})
            counts = [event["usage"]["completion_tokens"] for event in events]
            self.assertEqual(counts, sorted(counts))
            self.assertEqual(counts[-1], counts[-2])
            self.assertEqual(len({event["usage"]["prompt_tokens"] for event in events}), 1)

    def test_token_ids_and_special_tokens(self):
        body = {**CHAT, "max_tokens": 5, "ignore_eos": True, "return_token_ids": True}
        answer = server.post("/v1/chat/completions", body)
        self.assertEqual(answer["prompt_token_ids"], server.post("/tokenize", {"messages": CHAT["messages"]})["tokens"])
        text = server.post("/detokenize", {"tokens": answer["choices"][0]["token_ids"]})["prompt"]
        self.assertEqual(len(answer["choices"][0]["token_ids"]), 5)
        self.assertEqual(text.strip(), answer["choices"][0]["message"]["content"].strip())
        one = server.post("/v1/completions", {**STORY, "return_token_ids": True})["choices"][0]
        self.assertEqual(one["prompt_token_ids"], ids_of(STORY["prompt"]))
        self.assertEqual(len(one["token_ids"]), 24)
        for path, given, whole in (("/v1/chat/completions", body, answer["choices"][0]["token_ids"]),
                                   ("/v1/completions", {**STORY, "return_token_ids": True}, one["token_ids"])):
            events = [event for event in server.stream(path, given)]
            told = [event["choices"][0].get("prompt_token_ids", event.get("prompt_token_ids")) for event in events]
            self.assertEqual(told[0], one["prompt_token_ids"] if "prompt" in given else answer["prompt_token_ids"])
            self.assertEqual(told[1:], [None] * (len(told) - 1))
            self.assertEqual(sum((event["choices"][0].get("token_ids", []) for event in events), []), whole)
        begin = server.post("/tokenize", {"prompt": "<|im_start|>"})["tokens"][-1]
        led = {**STORY, "max_tokens": 2, "logit_bias": {str(begin): 100}}
        self.assertEqual(server.post("/v1/completions", led)["choices"][0]["text"], "")
        shown = server.post("/v1/completions", {**led, "skip_special_tokens": False})["choices"][0]["text"]
        self.assertEqual(shown, "<|im_start|>" * 2)

    def test_the_tokenizer_is_told(self):
        info = server.request("GET", "/tokenizer_info")[2]
        end = server.post("/tokenize", {"prompt": info["eos_token"], "add_special_tokens": False})["tokens"]
        self.assertEqual(len(end), 1)
        self.assertEqual(choice(logit_bias={str(end[0]): 100})["finish_reason"], "stop")
        begin = server.post("/tokenize", {"prompt": "a", "return_token_strs": True})["token_strs"][0]
        self.assertEqual(info["add_bos_token"], begin == info["bos_token"])
        self.assertEqual(info["model_max_length"], server.post("/tokenize", {"prompt": "a"})["max_model_len"])
        template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(info["chat_template"])
        prompt = server.post("/detokenize", {"tokens": server.post("/tokenize", {"messages": CHAT["messages"]})["tokens"]})
        self.assertEqual(template.render(messages=CHAT["messages"], add_generation_prompt=True), prompt["prompt"])

    def test_an_answer_goes_on_with_the_last_message(self):
        turns = [*CHAT["messages"], {"role": "assistant", "content": "The sky is very"}]
        body = {**CHAT, "messages": turns, "add_generation_prompt": False, "continue_final_message": True,
                "return_token_ids": True}
        answer = server.post("/v1/chat/completions", body)
        prompt = server.post("/detokenize", {"tokens": answer["prompt_token_ids"]})["prompt"]
        self.assertTrue(prompt.endswith("The sky is very"), prompt)
        strings = server.post("/tokenize", {"messages": turns, "add_generation_prompt": False, "continue_final_message": True,
                                            "return_token_strs": True})
        self.assertEqual(strings["tokens"], answer["prompt_token_ids"])
        self.assertTrue("".join(strings["token_strs"]).endswith("The sky is very"))
        begun = {"messages": turns, "add_generation_prompt": False, "continue_final_message": True}
        for text in ("", " \n", "<", "im", "|", "end"):  # not behind its end mark, nor within it
            turns[-1]["content"] = text
            tokens = server.post("/tokenize", begun)["tokens"]
            self.assertEqual(server.post("/detokenize", {"tokens": tokens})["prompt"],
                             prompt.removesuffix("The sky is very") + text)
        for path in ("/v1/chat/completions", "/tokenize"):
            refused = server.request("POST", path, {"messages": CHAT["messages"], "continue_final_message": True})
            self.assertEqual((refused[0], refused[2]["error"]["param"]), (400, "continue_final_message"), path)

    def test_ignore_eos_and_lengths(self):
        self.assertEqual(server.post("/v1/completions", {**STORY, "max_tokens": 300, "ignore_eos": True})["usage"]
                         ["completion_tokens"], 300)


class Budget(unittest.TestCase):
    def test_tokens_of_a_step(self):
        default = 256 if "vnni" in pathlib.Path("/proc/cpuinfo").read_text() else 128
        for flags, wanted in (((), default), (("--max-num-seqs", "300"), 300), (("--max-num-batched-tokens", "70"), 70)):
            with Server(PROGRAM, *flags) as one:
                self.assertEqual(one.request("GET", "/inflight/stats")[2]["max_num_batched_tokens"], wanted, flags)


class Logits(unittest.TestCase):
    def test_bias_of_what_is_no_token(self):
        refused = server.request("POST", "/v1/completions", {**STORY, "logit_bias": {"1024": 1}})
        self.assertEqual((refused[0], refused[2]["error"]["message"]),
                         (400, "logit bias id 1024 is no token, allowed: 0 to 1023"))

    def test_more_biases_than_there_may_be(self):
        many = {**STORY, "logit_bias": {f"{id:06}": 0 for id in range(4097)}}
        status, _, refused = server.request("POST", "/v1/completions", many)
        self.assertEqual((status, refused["error"]["param"]), (400, "logit_bias"), refused)

    def test_top_p_0_is_greedy(self):
        for path, body in (("/v1/completions", STORY), ("/v1/chat/completions", CHAT)):
            greedy = server.post(path, body)["choices"]
            self.assertEqual(server.post(path, {**body, "temperature": 2, "seed": 3, "top_p": 0})["choices"], greedy)

    def test_bias_forces_and_bans(self):
        comma, dog = ids_of(",")[-1], ids_of(" dog")[-1]
        self.assertTrue(choice()["text"].startswith(","))
        self.assertFalse(choice(logit_bias={str(comma): -100})["text"].startswith(","))
        forced = choice(logit_bias={str(dog): 100}, max_tokens=4)["text"]
        self.assertEqual(forced.count("dog"), 4)

    def test_bad_words(self):
        word = next(word for word in choice()["text"].replace(",", " ").split() if len(word) > 2)
        self.assertNotIn(word, choice(bad_words=[word])["text"])

    def test_penalties_change_what_repeats(self):
        body = {"prompt": "dog dog dog dog dog dog dog dog", "max_tokens": 12}
        plain = choice(**body)["text"]
        self.assertNotEqual(choice(**body, repetition_penalty=10)["text"], plain)
        for option in ("presence_penalty", "frequency_penalty"):
            self.assertNotEqual(choice(**body, **{option: 2})["text"], choice(**body, **{option: -2})["text"], option)

    def test_dry_ends_a_repetition(self):
        body = {"logit_bias": {str(ids_of(" dog")[-1]): 60}, "max_tokens": 12, "dry_multiplier": 100}
        dogs = " dog" * 12
        self.assertEqual(choice(**{**body, "dry_multiplier": 0})["text"], dogs)
        self.assertNotEqual(choice(**body)["text"], dogs)
        self.assertEqual(choice(**body, dry_allowed_length=12)["text"], dogs)
        self.assertEqual(choice(**body, dry_sequence_breakers=["dog"])["text"], dogs)
        self.assertNotEqual(choice(**body, dry_sequence_breakers=["cat"])["text"], dogs)
        refused = server.request("POST", "/v1/completions", {**STORY, **body, "dry_sequence_breakers": ["cat", "cat dog"]})
        self.assertEqual((refused[0], refused[2]["error"]["message"]),
                         (400, "dry_sequence_breakers[1] is 'cat dog', allowed: a text that a token of the vocabulary has in it"))
        self.assertEqual(choice(**body, dry_penalty_last_n=2)["text"], dogs)  # it sees one repeated token

    def test_filters_leave_the_best_token(self):
        greedy = choice()["text"]
        for narrow in ({"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1}):
            self.assertEqual(choice(temperature=1, seed=3, **narrow)["text"], greedy, narrow)
        texts = {choice(temperature=1, seed=seed, typical_p=0.2)["text"] for seed in range(4)}
        self.assertNotEqual(texts, {choice(temperature=1, seed=seed)["text"] for seed in range(4)})


class Choices(unittest.TestCase):
    def test_answers_share_the_prompt_and_are_those_of_the_seed(self):
        body = {**STORY, "temperature": 1, "seed": 5, "n": 4, "prompt": "Tom was " * 30}
        many = server.post("/v1/completions", body)
        self.assertEqual([one["index"] for one in many["choices"]], [0, 1, 2, 3])
        self.assertEqual(len({one["text"] for one in many["choices"]}), 4)
        self.assertEqual(many["usage"]["prompt_tokens"], len(ids_of(body["prompt"])))
        alone = server.post("/v1/completions", {**body, "n": 1})
        self.assertEqual(alone["choices"][0]["text"], many["choices"][0]["text"])
        self.assertGreater(alone["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        streamed = [""] * 4
        for event in server.stream("/v1/completions", body):
            streamed[event["choices"][0]["index"]] += event["choices"][0]["text"]
        self.assertEqual(streamed, [one["text"] for one in many["choices"]])

    def test_best_of_gives_the_likeliest(self):
        body = {**STORY, "temperature": 1, "seed": 5, "logprobs": 0, "ignore_eos": True}

        def mean(one):
            return sum(one["logprobs"]["token_logprobs"]) / len(one["logprobs"]["token_logprobs"])

        every = server.post("/v1/completions", {**body, "n": 5})["choices"]
        best = server.post("/v1/completions", {**body, "n": 2, "best_of": 5})["choices"]
        expected = sorted(every, key=mean, reverse=True)[:2]
        self.assertEqual([one["text"] for one in best], [one["text"] for one in expected])

    def test_salts_keep_prefixes_apart(self):
        body = {**STORY, "prompt": "The salted prompt of this test " * 12}
        server.post("/v1/completions", {**body, "cache_salt": "one"})
        for salt, cached in (("two", 0), ("one", 16)):
            usage = server.post("/v1/completions", {**body, "cache_salt": salt})["usage"]
            self.assertGreaterEqual(usage["prompt_tokens_details"]["cached_tokens"], cached, salt)
            self.assertEqual(usage["prompt_tokens_details"]["cached_tokens"] > 0, cached > 0, salt)

    def test_no_text_ends_at_a_nul(self):
        for path, field, body in (("/v1/completions", "cache_salt", {**STORY, "cache_salt": "a\0b"}),
                                  ("/v1/completions", "prediction",
                                   {**STORY, "prediction": {"type": "content", "content": "a\0b"}}),
                                  ("/v1/completions", "model", {**STORY, "model": "a\0b"})):
            status, _, answer = server.request("POST", path, body)
            self.assertEqual((status, answer["error"]["param"]), (400, field), answer)
            self.assertIn("NUL", answer["error"]["message"])
        status, _, answer = server.request("GET", "/v1/models/a%00b")
        self.assertEqual(status, 404)
        self.assertIn("b", answer["error"]["message"].split("\0")[1], answer)

    def test_prefixes_are_forgotten_when_asked_for(self):
        body = {**STORY, "prompt": "The prompt that is forgotten " * 12}
        for cached, forget in ((0, False), (16, True), (0, False), (16, False)):
            usage = server.post("/v1/completions", body)["usage"]
            self.assertGreaterEqual(usage["prompt_tokens_details"]["cached_tokens"], cached)
            self.assertEqual(usage["prompt_tokens_details"]["cached_tokens"] > 0, cached > 0)
            if forget:
                self.assertEqual(server.post("/reset_prefix_cache", {}), {})


class Logprobs(unittest.TestCase):
    def test_completions_form(self):
        answer = choice(logprobs=3, max_tokens=8)
        logprobs = answer["logprobs"]
        self.assertEqual("".join(logprobs["tokens"]), answer["text"])
        for token, logprob, top, offset in zip(*(logprobs[key] for key in (
                "tokens", "token_logprobs", "top_logprobs", "text_offset"))):
            self.assertEqual(len(top), 3)
            self.assertEqual(max(top, key=top.get), token)  # greedy
            self.assertEqual(top[token], logprob)
            self.assertLess(sum(math.exp(value) for value in top.values()), 1.0 + 1e-5)
            self.assertEqual(answer["text"][offset:offset + len(token)], token)

    def test_a_token_drawn_below_the_top_is_told_too(self):
        answer = choice(logprobs=1, temperature=2, seed=1)
        sizes = {len(top) for top in answer["logprobs"]["top_logprobs"]}
        self.assertEqual(sizes, {1, 2})

    def test_chat_form(self):
        for top in (0, 5):
            answer = server.post("/v1/chat/completions", {**CHAT, "logprobs": True, "top_logprobs": top})["choices"][0]
            content = answer["logprobs"]["content"]
            self.assertEqual(bytes(sum((token["bytes"] for token in content), [])).decode().strip(),
                             answer["message"]["content"].strip())
            for token in content:
                self.assertEqual(len(token["top_logprobs"]), top)
                if top:
                    self.assertEqual({key: token[key] for key in ("token", "logprob", "bytes")}, token["top_logprobs"][0])
        events = server.stream("/v1/chat/completions", {**CHAT, "logprobs": True, "top_logprobs": 5})
        streamed = sum((event["choices"][0]["logprobs"]["content"] for event in events
                        if event["choices"][0]["logprobs"]), [])
        self.assertEqual(streamed, content)

    def test_what_was_generated_is_as_likely_as_a_prompt(self):
        ids = ids_of(STORY["prompt"])
        answer = choice(logprobs=2, prompt=ids, max_tokens=12)
        known = ids + ids_of(STORY["prompt"] + answer["text"])[len(ids):]
        again = choice(prompt=known, echo=True, logprobs=2, max_tokens=1)
        self.assertTrue(again["text"].startswith(STORY["prompt"] + answer["text"]))
        self.assertIsNone(again["logprobs"]["token_logprobs"][0])
        self.assertIsNone(again["logprobs"]["top_logprobs"][0])
        self.assertEqual(again["logprobs"]["tokens"][len(ids):-1], answer["logprobs"]["tokens"])
        self.assertEqual(again["logprobs"]["token_logprobs"][len(ids):-1], answer["logprobs"]["token_logprobs"])
        self.assertEqual(again["logprobs"]["top_logprobs"][len(ids):-1], answer["logprobs"]["top_logprobs"])

    def test_prompt_logprobs_form(self):
        ids = ids_of(STORY["prompt"])
        told = choice(prompt_logprobs=2, n=2)["prompt_logprobs"]
        self.assertEqual(len(told), len(ids))
        self.assertIsNone(told[0])
        for token, position in zip(ids[1:], told[1:]):
            self.assertIn(str(token), position)
            ranks = sorted(entry["rank"] for entry in position.values() if entry["rank"] is not None)
            self.assertEqual(ranks, [1, 2])
        chat = server.post("/v1/chat/completions", {**CHAT, "prompt_logprobs": 0})
        self.assertEqual(len(chat["prompt_logprobs"]), chat["usage"]["prompt_tokens"])
        self.assertEqual({len(position) for position in chat["prompt_logprobs"][1:]}, {1})


class Refusals(unittest.TestCase):
    def test_the_engine_names_what_http_let_pass(self):
        for body, says in (({"stop": ["x" * 1025]}, "1025"), ({"stop_token_ids": [1 << 30]}, str(1 << 30)),
                           ({"bad_words": ["fox " * 100]}, "64")):
            status, _, answer = server.request("POST", "/v1/completions", {**STORY, **body})
            self.assertEqual(status, 400, answer)
            self.assertIn(says, answer["error"]["message"])

    def test_tenants_are_the_keys(self):
        self.assertEqual(server.request("POST", "/v1/completions", {**STORY, "tenant": 7, "user": "me"})[0], 200)
        with Server(PROGRAM, "--api-key", "one", "--api-key", "two") as guarded:
            headers = {"Authorization": "Bearer two"}
            for tenant, status in ((2, 200), (1, 400)):
                got, _, answer = guarded.request("POST", "/v1/completions", {**STORY, "tenant": tenant}, headers)
                self.assertEqual(got, status, answer)
            self.assertEqual(answer["error"]["param"], "tenant")
        keys = [option for i in range(4096) for option in ("--api-key", f"key{i}")]
        done = subprocess.run([PROGRAM, "serve", *keys], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--api-key is given 4096 times, allowed: at most 4095", done.stderr)


if __name__ == "__main__":
    unittest.main()
