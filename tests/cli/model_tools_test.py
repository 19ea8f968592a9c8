#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`inflight inspect` and `inflight quantize` as a user meets them: output, exit status, one line an error, nothing half
written.    model_tools_test.py PROGRAM SOURCE_DIR"""
import json
import os
import pathlib
import resource
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
DEMO = SOURCE / "models/tinyworld/tinyworld-f16.gguf"
DEMO_Q8 = SOURCE / "models/tinyworld/tinyworld-q8_0.gguf"


def run(*args, **options):
    return subprocess.run([PROGRAM, *map(str, args)], capture_output=True, timeout=120, **options)


def text_of(text):
    return struct.pack("<Q", len(text)) + text


def gguf(keys, tensors=()):
    """keys: (name, type, value bytes); tensors: (name, type, dimensions, data bytes)"""
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for name, kind, value in keys:
        out += text_of(name) + struct.pack("<I", kind) + value
    offset = 0
    for name, kind, dimensions, data in tensors:
        out += text_of(name) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, kind, offset)
        offset += (len(data) + 31) // 32 * 32
    for *_, data in tensors:
        out += bytes(-len(out) % 32) + data
    return out


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, content):
        (self.folder / name).write_bytes(content)
        return self.folder / name

    def good(self, *args, **options):
        done = run(*args, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, b"")
        return done.stdout.decode()

    def bad(self, status, text, *args, **options):
        done = run(*args, **options)
        message = done.stderr.decode()
        self.assertEqual(done.returncode, status, message)
        self.assertEqual(done.stdout, b"")
        self.assertRegex(message, r"\Ainflight: [^\n]+\n\Z")
        self.assertIn(text, message)


class Inspect(Folder):
    def test_demo_model_is_the_default(self):
        self.assertEqual(self.good("inspect"), self.good("inspect", DEMO))

    def test_text(self):
        lines = [" ".join(line.split()) for line in self.good("inspect", DEMO).splitlines()]
        for line in ("parameters 2.49 M (2,492,672)", "attention 8 heads of 32 over 2 KV heads", "can be run yes",
                     # 2 * 4 layers * 2 KV heads * 32 numbers of 2 bytes, the same and a scale, of 4 bytes, or 34 bytes
                     "one token 1.0 KiB 1.1 KiB 2.0 KiB 544 B",
                     "F16 29 2,490,368 4,980,736", "llama.rope.freq_base float32 10000",
                     "blk.3.ffn_down.weight F16 [512, 256] 262,144"):
            self.assertIn(line, lines)

    def test_json(self):
        report = json.loads(self.good("inspect", DEMO, "--json"))
        self.assertEqual(report["parameters"], 2492672)
        self.assertTrue(report["runnable"])
        self.assertEqual(report["spec"]["kv_head_count"], 2)
        self.assertEqual(report["memory"]["kv_f32"], {"token_bytes": 2048, "context_bytes": 2048 * 512,
                                                      "sequences_bytes": 2048 * 512 * 16})
        tokens = report["metadata"]["tokenizer.ggml.tokens"]
        self.assertEqual((tokens["count"], tokens["first"][:2]), (1024, ["<|endoftext|>", "<|im_start|>"]))
        self.assertEqual(sum(tensor["bytes"] for tensor in report["tensors"]), report["memory"]["weights_bytes"])
        self.assertEqual(report["types"]["F16"]["bytes"], 4980736)

    def test_what_cannot_be_run_is_shown(self):
        path = self.write("q6.gguf", gguf([(b"general.architecture", 8, text_of(b"other")), (b"bad \xff\n", 8, text_of(b"\xfe"))],
                                          [(b"x.weight", 14, (256, 2), bytes(420))]))
        text = self.good("inspect", path)
        self.assertIn("no: architecture 'other' is not supported, only: llama, qwen2, qwen3", text)
        self.assertIn("Q6_K", text)
        self.assertIn(r"bad \xFF\n", text)
        report = json.loads(self.good("inspect", path, "--json"))
        self.assertEqual((report["runnable"], report["spec"]), (False, None))
        self.assertEqual(report["tensors"], [{"name": "x.weight", "type": "Q6_K", "shape": [256, 2], "bytes": 420}])

    def test_formats_become_others_when_loaded(self):
        keys = [(b"general.architecture", 8, text_of(b"llama"))]
        for name, value in (("block_count", 1), ("context_length", 64), ("embedding_length", 256), ("feed_forward_length", 256),
                            ("attention.head_count", 4)):
            keys.append((f"llama.{name}".encode(), 4, struct.pack("<I", value)))
        keys.append((b"llama.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1e-5)))
        q4_k, q5_k, q6_k = (12, 144), (13, 176), (14, 210)
        matrices = {"token_embd": q6_k, "blk.0.attn_q": q4_k, "blk.0.attn_k": q4_k, "blk.0.attn_v": q5_k,
                    "blk.0.attn_output": q4_k, "blk.0.ffn_gate": q4_k, "blk.0.ffn_up": q4_k, "blk.0.ffn_down": q6_k}
        tensors = [(f"{name}.weight".encode(), kind, (256, 256), bytes(256 * size)) for name, (kind, size) in matrices.items()]
        for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
            tensors.append((f"{name}.weight".encode(), 0, (256,), bytes(1024)))
        path = self.write("mixed.gguf", gguf(keys, tensors))
        self.assertIn("yes, when loaded Q4_K becomes Q4_1, Q5_K becomes Q5_1\n", self.good("inspect", path))
        # 65,536 numbers of 5 (Q4_1), 6 (Q5_1) and 7 bits (Q6_K), and the norms.
        report = json.loads(self.good("inspect", path, "--json"))
        self.assertEqual(report["memory"]["weights_bytes"], 65536 * (5 * 5 + 6 + 2 * 7) // 8 + 3 * 1024)

    def test_files_without_tensors(self):
        path = self.write("empty.gguf", gguf([]))
        self.assertIn("no: metadata key 'general.architecture' is missing", self.good("inspect", path))

    def test_says_what_layers_have_in_the_place_of_attention(self):
        heads = "value heads of 32 for 2 key heads of 32"
        for name, states in (("qwen35", f"delta net in 3 of the layers, 4 {heads}, 57.0 KiB"),
                             ("qwen3next", f"delta net in 2 of the layers, 6 {heads}, 55.5 KiB"),
                             ("granitehybrid", f"Mamba 2 in 1 of the layers, 4 {heads}, 19.0 KiB"),
                             ("nemotron_h", "Mamba 2 in 2 of the layers, 4 value heads of 16 for 2 key heads of 32, 20.5 KiB"),
                             ("lfm2", "convolution of 3 tokens in 3 of the layers, 768 B")):
            text = " ".join(self.good("inspect", SOURCE / f"tests/golden/reference_{name}.gguf").split())
            self.assertIn(f"states {states} a sequence", text)
            self.assertEqual("no RoPE" in text, name in ("granitehybrid", "nemotron_h"))
        self.assertIn("hidden size 32, feed-forward size 40 in 2 of them",
                      self.good("inspect", SOURCE / "tests/golden/reference_nemotron_h.gguf"))

    def test_says_what_latent_attention_keeps(self):
        for name, attention, rotated in (
                ("deepseek2", "16 over latent vectors of 32 and 8 rotated numbers, queries of rank 20", "8 of 32"),
                ("deepseek2_lite", "32 over latent vectors of 48 and 16 rotated numbers", "16 of 32")):
            text = " ".join(self.good("inspect", SOURCE / f"tests/golden/reference_{name}.gguf").split())
            self.assertIn(f"attention 3 heads with values of {attention} positions", text)
            self.assertIn(f"{rotated} numbers a head, neighbours paired", text)

    def test_says_what_layers_with_a_window_have_of_their_own(self):
        text = " ".join(self.good("inspect", SOURCE / "tests/golden/reference_gemma4_experts.gguf").split())
        self.assertIn("experts 2 of 4 a token, feed-forward size 16; a shared one for every token, 40 attention 4 heads of 64 "
                      "over 2 KV heads, with a window of 32 over 4, sliding window of 20 tokens in all layers but the last of "
                      "every 2", text)
        self.assertIn("can be run yes", text)

    def test_errors(self):
        self.bad(1, "none.gguf: cannot open: No such file", "inspect", self.folder / "none.gguf")
        self.bad(1, "is a directory", "inspect", self.folder)
        self.bad(1, "is empty", "inspect", self.write("empty", b""))
        self.bad(1, "the file ends at byte 1000", "inspect", self.write("cut.gguf", DEMO.read_bytes()[:1000]))
        self.bad(2, "not expected: --jason", "inspect", "--jason")
        self.bad(2, "FILE", "inspect", "")


class Quantize(Folder):
    def test_the_demo_model(self):
        out = self.folder / "out.gguf"
        self.assertIn("out.gguf: 2.6 MiB, was 4.8 MiB; 29 tensors converted, 9 kept", self.good("quantize", DEMO, out, "Q8_0"))
        # The shipped file differs by nothing, in the header neither.
        self.assertEqual(out.read_bytes(), DEMO_Q8.read_bytes())
        report = json.loads(self.good("quantize", out, self.folder / "q4.gguf", "q4_0", "--json"))
        self.assertEqual((report["converted_tensors"], report["kept_tensors"]), (28, 10))  # token_embd stays Q8_0
        self.assertEqual(report["output_bytes"], (self.folder / "q4.gguf").stat().st_size)

    def test_errors_leave_nothing(self):
        out = self.folder / "out.gguf"
        self.bad(2, "type 'q9' is not known; one of: f32, f16, bf16, q8_0, q4_0", "quantize", DEMO, out, "q9")
        self.bad(2, "TYPE is required", "quantize", DEMO, out)
        self.bad(2, "is the input file too", "quantize", DEMO, SOURCE / "models/../models/tinyworld/tinyworld-f16.gguf", "q8_0")
        self.bad(2, "/dev/null: is a device", "quantize", DEMO, "/dev/null", "q8_0")
        self.bad(1, "none/out.gguf: cannot create: No such file", "quantize", DEMO, self.folder / "none/out.gguf", "q8_0")

        def small_disk():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        self.bad(1, "out.gguf: cannot write 2685120 bytes: File too large", "quantize", DEMO, out, "q8_0",
                 preexec_fn=small_disk, restore_signals=False)
        self.assertEqual(list(self.folder.iterdir()), [])


class Program(Folder):
    def test_usage_mistakes(self):
        self.bad(2, "no command given; one of: ")
        self.bad(2, "unknown command 'foo'; one of: ", "foo")
        self.bad(2, "no command given; one of: list, check", "plugin")
        self.bad(2, "unknown command 'foo'; one of: list, check, lock, new, replay; see: inflight plugin --help", "plugin", "foo")
        self.bad(2, "unknown option '--foo'; see: inflight bench --help", "bench", "--foo")
        self.bad(2, "unknown option '--foo'", "--foo")
        self.assertIn("inspect", self.good("--help"))

    def test_full_standard_output(self):
        for words in (["inspect", DEMO], ["run", "--print-config"], ["sim", "--workload", "closed"]):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr, b"inflight: cannot write to standard output: No space left on device\n", words)

    def test_demo_model_of_an_installed_program(self):
        program = self.folder / "bin/inflight"
        models = self.folder / "share/inflight/models"
        program.parent.mkdir()
        models.mkdir(parents=True)
        program.write_bytes(pathlib.Path(PROGRAM).read_bytes())
        program.chmod(0o755)
        (models / "tinyworld-f16.gguf").write_bytes(DEMO.read_bytes())
        done = subprocess.run([program, "inspect", "--json"], capture_output=True, check=True)
        self.assertEqual(json.loads(done.stdout)["file"], os.path.realpath(models / "tinyworld-f16.gguf"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
