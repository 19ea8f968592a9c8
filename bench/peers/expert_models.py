#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A mixture of experts in the shape of a published one, with random weights, to measure speed with.
    expert_models.py SHAPE TYPE TOKENIZER.gguf OUT.gguf        Needs: pip install gguf numpy
SHAPE: granite-1b-a400m (Granite 3.1), olmoe-1b-7b, qwen3-30b-a3b-8l (8 of its 48 layers), gpt-oss-20b, gpt-oss-20b-8l (8 of
24 layers).   TYPE: f16, q8_0, q4_0, with which the matrix of the logits is q8_0, or mxfp4, with which all but the experts is.
TOKENIZER: a file with a SentencePiece vocabulary, of which 32,000 tokens are taken; gpt-oss-20b has 201,088 with those that
are made up.
Weights depend on the tensor's name alone."""
import sys
import zlib

import gguf
import numpy as np

# architecture, layers, E, heads, KV heads, head size, F of an expert, experts, of a token, tied, normed heads, scales, RoPE base,
# tokens
SHAPES = {
    "granite-1b-a400m": ("granitemoe", 24, 1024, 16, 8, 64, 512, 32, 8, True, 0, (12.0, 0.22, 0.015625, 6.0), 1e4, 32000),
    "olmoe-1b-7b": ("olmoe", 16, 2048, 16, 16, 128, 1024, 64, 8, False, 2048, (), 1e4, 32000),
    "qwen3-30b-a3b-8l": ("qwen3moe", 8, 2048, 32, 4, 128, 768, 128, 8, False, 128, (), 1e6, 32000),
    "gpt-oss-20b": ("gpt-oss", 24, 2880, 64, 8, 64, 2880, 32, 4, False, 0, (), 1.5e5, 201088),
    "gpt-oss-20b-8l": ("gpt-oss", 8, 2880, 64, 8, 64, 2880, 32, 4, False, 0, (), 1.5e5, 32000),
}
TYPES = {name: gguf.GGMLQuantizationType[name.upper()] for name in ("f16", "q8_0", "q4_0", "mxfp4")}
STANDARD_DEVIATION = 0.02


def add_tokenizer(writer, path, count):
    fields = gguf.GGUFReader(path).fields
    part = {key: fields[f"tokenizer.ggml.{key}"].contents()[:count] for key in ("tokens", "scores", "token_type")}
    missing = range(len(part["tokens"]), count)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(part["tokens"] + [f"\u2581d{i}" for i in missing])
    writer.add_token_scores(part["scores"] + [-1e6 for _ in missing])
    writer.add_token_types(part["token_type"] + [1 for _ in missing])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)


def mxfp4(rng, dimensions):
    """Blocks of random numbers with that deviation; rounding floats to them takes numpy long."""
    blocks = rng.integers(0, 256, (*dimensions[:-1], dimensions[-1] // 32, 17), dtype=np.uint8)
    blocks[..., 0] = rng.integers(119, 122, blocks.shape[:-1])
    return blocks.reshape(*dimensions[:-1], -1)


def main():
    if len(sys.argv) != 5 or sys.argv[1] not in SHAPES or sys.argv[2] not in TYPES:
        sys.exit(__doc__)
    shape, kind = sys.argv[1], TYPES[sys.argv[2]]
    architecture, layers, hidden, heads, kv_heads, head, size, experts, used, tied, norm, scales, base, vocabulary = SHAPES[shape]
    oss = architecture == "gpt-oss"
    writer = gguf.GGUFWriter(sys.argv[4], architecture, use_temp_file=True)
    writer.add_name(f"{shape}-random")
    writer.add_block_count(layers)
    writer.add_context_length(4096)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(size)
    writer.add_expert_feed_forward_length(size)
    writer.add_expert_count(experts)
    writer.add_expert_used_count(used)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_rope_dimension_count(head)
    writer.add_rope_freq_base(base)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(vocabulary)
    if oss:
        writer.add_sliding_window(128)
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(32.0)
        writer.add_rope_scaling_orig_ctx_len(4096)
    for key, value in zip(("embedding_scale", "residual_scale", "attention.scale", "logit_scale"), scales):
        writer.add_float32(f"{architecture}.{key}", value)
    add_tokenizer(writer, sys.argv[3], vocabulary)

    def vector(name, *dimensions, value=1.0):
        writer.add_tensor(name, np.full(dimensions, value, np.float32))

    def matrix(name, *dimensions, kind=kind):
        rng = np.random.Generator(np.random.SFC64(zlib.crc32(name.encode())))
        if kind == TYPES["mxfp4"]:
            writer.add_tensor(name, mxfp4(rng, dimensions), raw_dtype=kind)
            return
        numbers = rng.standard_normal(dimensions, dtype=np.float32) * np.float32(STANDARD_DEVIATION)
        if kind == gguf.GGMLQuantizationType.F32:
            writer.add_tensor(name, numbers)
        else:
            writer.add_tensor(name, gguf.quants.quantize(numbers, kind), raw_dtype=kind)

    logits = TYPES["q8_0"] if sys.argv[2] in ("q4_0", "mxfp4") else kind
    dense = TYPES["q8_0"] if sys.argv[2] == "mxfp4" else kind
    matrix("token_embd.weight", vocabulary, hidden, kind=logits if tied else dense)
    for i in range(layers):
        print(f"\r{shape} {sys.argv[2]}: layer {i + 1} of {layers}", end="", file=sys.stderr, flush=True)
        block = f"blk.{i}."
        vector(block + "attn_norm.weight", hidden)
        for name, rows in (("q", heads * head), ("k", kv_heads * head), ("v", kv_heads * head)):
            matrix(f"{block}attn_{name}.weight", rows, hidden, kind=dense)
            if oss:
                vector(f"{block}attn_{name}.bias", rows, value=0.0)
        if norm:
            vector(block + "attn_q_norm.weight", norm)
            vector(block + "attn_k_norm.weight", norm)
        matrix(block + "attn_output.weight", hidden, heads * head, kind=dense)
        vector(block + ("post_attention_norm.weight" if oss else "ffn_norm.weight"), hidden)
        if oss:
            vector(block + "attn_output.bias", hidden, value=0.0)
            vector(block + "attn_sinks.weight", heads)
            vector(block + "ffn_gate_inp.bias", experts, value=0.0)
            for name, rows in (("gate", size), ("up", size), ("down", hidden)):
                vector(f"{block}ffn_{name}_exps.bias", experts, rows, value=0.0)
        matrix(block + "ffn_gate_inp.weight", experts, hidden, kind=gguf.GGMLQuantizationType.F32)
        matrix(block + "ffn_gate_exps.weight", experts, size, hidden)
        matrix(block + "ffn_up_exps.weight", experts, size, hidden)
        matrix(block + "ffn_down_exps.weight", experts, hidden, size)
    print(file=sys.stderr)
    vector("output_norm.weight", hidden)
    if not tied:
        matrix("output.weight", vocabulary, hidden, kind=logits)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
