#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""LoRA adapters over HTTP, as vLLM has them: the model's name selects one, /v1/models lists them, they come and go at run
time, and concurrent requests get what they get alone.    lora_test.py PROGRAM SOURCE"""
import concurrent.futures
import pathlib
import subprocess
import sys
import tempfile
import unittest

from server_process import Server

PROGRAM, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
MODEL = SOURCE / "models/tinyworld/tinyworld-f16.gguf"
sys.path.insert(0, str(SOURCE / "tests/support"))
sys.dont_write_bytecode = True
from write_adapter import write_adapter  # noqa: E402


class Lora(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.files = {name: str(pathlib.Path(cls.folder.name, name)) for name in ("a", "b", "c")}
        for seed, path in enumerate(cls.files.values()):
            write_adapter(PROGRAM, MODEL, path, rank=4 + seed, seed=seed)
        cls.server = Server(PROGRAM, "-m", str(MODEL), "--served-model-name", "base", "--lora", f"a={cls.files['a']}",
                            "--lora", f"b={cls.files['b']}", "--allow-runtime-lora-updating")
        cls.addClassCleanup(cls.server.__exit__)

    def post(self, path, body, status=200):
        found, _, answer = self.server.request("POST", path, body)
        self.assertEqual(found, status, answer)
        return answer

    def test_no_name_ends_at_a_nul(self):
        for field in ("lora_name", "lora_path"):
            body = {"lora_name": "c", "lora_path": self.files["c"]}
            answer = self.post("/v1/load_lora_adapter", {**body, field: body[field] + "\0z"}, 400)
            self.assertIn(f"'{field}' holds a NUL", answer["error"]["message"])
        self.post("/v1/unload_lora_adapter", {"lora_name": "a\0z"}, 400)

    def complete(self, model, status=200):
        return self.post("/v1/completions", {"model": model, "prompt": [1, 50, 60, 70], "max_tokens": 24, "temperature": 0,
                                             "ignore_eos": True}, status)

    def text(self, model):
        answer = self.complete(model)
        self.assertEqual(answer["model"], model)
        return answer["choices"][0]["text"]

    def models(self):
        return {model["id"]: model for model in self.server.request("GET", "/v1/models")[2]["data"]}

    def test_the_model_selects_an_adapter(self):
        alone = {model: self.text(model) for model in ("base", "a", "b")}
        self.assertEqual(len(set(alone.values())), 3)
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            for model, text in zip(list(alone) * 8, pool.map(self.text, list(alone) * 8)):
                self.assertEqual(text, alone[model])
        self.assertIn("does not exist", self.complete("z", 404)["error"]["message"])

    def test_models_are_listed_with_their_parent(self):
        models = self.models()
        self.assertEqual((models["a"]["parent"], models["a"]["root"]), ("base", self.files["a"]))
        self.assertIsNone(models["base"]["parent"])
        one = self.server.request("GET", "/v1/models/b")
        self.assertEqual((one[0], one[2]["parent"]), (200, "base"))

    # checklist 126
    def test_adapters_come_and_go(self):
        loaded = self.post("/v1/load_lora_adapter", {"lora_name": "c", "lora_path": self.files["c"]})
        self.assertEqual(loaded["message"], "Success: LoRA adapter 'c' added successfully.")
        self.assertIn("c", self.models())
        self.assertNotEqual(self.text("c"), self.text("base"))
        again = self.post("/v1/load_lora_adapter", {"lora_name": "c", "lora_path": self.files["c"]}, 400)
        self.assertIn("is loaded already", again["error"]["message"])
        self.post("/v1/unload_lora_adapter", {"lora_name": "c"})
        self.assertNotIn("c", self.models())
        self.complete("c", 404)
        self.post("/v1/unload_lora_adapter", {"lora_name": "c"}, 404)
        self.post("/v1/load_lora_adapter", {"lora_name": "d", "lora_path": "/nowhere.gguf"}, 404)
        self.post("/v1/load_lora_adapter", {"lora_name": "d", "lora_path": str(MODEL)}, 400)
        missing = self.post("/v1/load_lora_adapter", {"lora_name": "d"}, 400)
        self.assertIn("'lora_path' is missing", missing["error"]["message"])
        unknown = self.post("/v1/unload_lora_adapter", {"lora_name": "d", "x": 1}, 400)
        self.assertIn("unknown field 'x'", unknown["error"]["message"])

    def test_names_of_the_model_itself_are_not_free(self):
        for name in ("base", "default"):
            refused = self.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": self.files["c"]}, 400)
            self.assertEqual((refused["error"]["param"], refused["error"]["message"]),
                             ("lora_name", f"an adapter cannot be named '{name}', which is a name of the model itself"))
            done = subprocess.run([PROGRAM, "serve", "-m", str(MODEL), "--port", "0", "--served-model-name", "base", "--lora",
                                   f"{name}={self.files['a']}"], capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"an adapter cannot be named '{name}'", done.stderr)
        self.assertEqual(list(self.models()), ["base", "a", "b"])

    def test_vllms_number_of_an_adapter_has_no_effect(self):
        self.post("/v1/load_lora_adapter", {"lora_name": "e", "lora_path": self.files["c"], "lora_int_id": 7})
        self.post("/v1/unload_lora_adapter", {"lora_name": "e", "lora_int_id": 7})

    def test_the_models_that_there_are_are_named(self):
        self.assertIn("served: base, a, b", self.complete("z", 404)["error"]["message"])

    def test_only_where_the_server_allows_it(self):
        with Server(PROGRAM, "-m", str(MODEL), "--max-loras", "1") as server:
            status, _, answer = server.request("POST", "/v1/load_lora_adapter", {"lora_name": "a", "lora_path": "x"})
            self.assertEqual(status, 403)
            self.assertIn("--allow-runtime-lora-updating", answer["error"]["message"])


unittest.main()
