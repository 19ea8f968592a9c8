#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model in the shape of a published one, with random weights, to measure speed with.
    random_models.py SHAPE TYPE TOKENIZER.gguf OUT.gguf        Needs: pip install gguf numpy
SHAPE, mixtures of experts: granite-1b-a400m (Granite 3.1), olmoe-1b-7b, qwen3-30b-a3b-8l (8 of its 48 layers), gpt-oss-20b,
gpt-oss-20b-8l (8 of 24 layers), qwen3.5-35b-a3b-8l (8 of 40), glm-4.7-flash-8l (8 of 47), qwen3-next-80b-a3b-4l (4 of 48),
nemotron-3-nano-30b-a3b-8l (8 of 52), gemma-4-26b-a4b-6l (6 of 30); dense: qwen3.5-0.8b, qwen3.5-2b, qwen3.5-4b, lfm2-1.2b,
granite-4.0-h-1b, gemma-3-1b, gemma-4-e2b, gemma-4-e4b, gemma-4-31b-6l (6 of 60).
TYPE: f16, q8_0, q4_0, with which the matrix of the logits is q8_0, or mxfp4, with which all but the experts is.
TOKENIZER: a file with a SentencePiece vocabulary, of which up to 32,000 tokens are taken; where the shape has more, the others
are made up.
Weights depend on the tensor's name alone."""
import sys
import zlib

import gguf
import numpy as np

# Qwen3.5's numbers. Layers, E, heads, KV heads, head size, F, tied, RoPE's base and share of a head (a quarter), tokens: launch
# scripts for the published weights, scripts/models/qwen3.5-*.sh of the repositories THUDM/slime (0.8B; 35B-A3B with its experts
# and delta net), radixark/miles (4B) and williammtan/miles (2B). Delta nets of 2B and 4B: metadata (ssm.*) of their GGUF files as
# users print it; of 0.8B: with 16 heads of 128 a file has the 752.39 M parameters and 763.78 MiB that llama-bench prints of the
# published one in Q8_0. By these numbers the others have 1.88, 4.21 and (40 layers) 34.66 G, as published. Convolution and
# interval are the same in all. Left out: the layer that guesses a further token and the image encoder.
# delta_net: key heads, value heads, size of a head, numbers of a convolution, every which layer has attention instead
GPT_OSS = {"sinks": True, "post_attention": True}
QWEN35 = {"rope": 64, "post_attention": True}
SMALL_QWEN35 = QWEN35 | {"delta_net": (16, 16, 128, 4, 4)}
LARGE_QWEN35 = QWEN35 | {"delta_net": (16, 32, 128, 4, 4)}

# LFM2-1.2B: the config.json of derived models (hidden size, heads, convolution, RoPE, tokens) and the KV heads of each layer as
# LiquidAI's GGUF file states them (gpustack/gguf-parser-go, issue 31); F is what conversion/lfm2.py of llama.cpp makes of 12288.
# Granite 4.0 H 1B: metadata of its GGUF file as ollama.com shows it (library/granite4:1b-h-q8_0); which layers attend: the
# config.json of a derived model of these numbers (bnbnoman01/test); KV heads: as the 350M's, with as many heads. By these numbers
# the two have 1.17 and 1.46 G, as published (1.2 B; 1.6 GB in Q8_0).
# short_convolution: tokens, the layers that have attention instead
# mamba: groups, heads, size of a head, of a key, numbers of a convolution, the layers that have attention instead
LFM2 = {"short_convolution": (3, (2, 5, 8, 10, 12, 14))}
GRANITE_HYBRID = {"mamba": (1, 48, 64, 128, 4, (5, 15, 25, 35))}

# Qwen3-Next 80B-A3B, Nemotron 3 Nano 30B-A3B: metadata of their GGUF files as users print it (ggml-org/llama.cpp, issues 17578,
# 19345 and 20570; lmstudio-bug-tracker, issue 1365).
# grouped: the value heads of a key head lie side by side
# lone: the layers that are a feed-forward alone, without gates; the others have none
NEXT = LARGE_QWEN35 | {"shared": 512, "grouped": True}
NEMOTRON = {"mamba": (8, 64, 64, 128, 4, (5,)), "lone": (1, 3, 6), "rope": 84, "shared": 3712}

# GLM 4.7 Flash: its config.json.
# latent: rank, that of queries, a head's numbers that are not rotated, its values; dense: the first so many layers without
# experts, their F
GLM = {"latent": (512, 768, 192, 256), "rope": 64, "dense": (1, 10240), "shared": 1536}

# Gemma 3 1B, Gemma 4: their config.json; of published files of Gemma 4 E2B and E4B one matrix is BF16.
# windows: tokens, every which layer has none; local_head: size of a head of those with one; sharing: the last so many layers
# attend to K and V of earlier ones, wide: F of these; layer_embeddings: numbers of a token's embedding in each layer;
# local_kv_heads: of layers with a window, the others have no V; beside: F of the dense feed-forward beside the experts
GEMMA = {"post_norms": True, "windows": (512, 6)}
GEMMA4 = GEMMA | {"local_head": 256, "local_base": 1e4}
SMALL_GEMMA4 = GEMMA4 | {"layer_embeddings": 256}
LARGE_GEMMA4 = GEMMA4 | {"windows": (1024, 6)}

# architecture, layers, E, heads, KV heads, head size, F (of an expert), experts, of a token, tied, normed heads, scales,
# RoPE base, tokens, extras
SHAPES = {
    "granite-1b-a400m": ("granitemoe", 24, 1024, 16, 8, 64, 512, 32, 8, True, 0, (12.0, 0.22, 0.015625, 6.0), 1e4, 32000, {}),
    "olmoe-1b-7b": ("olmoe", 16, 2048, 16, 16, 128, 1024, 64, 8, False, 2048, (), 1e4, 32000, {}),
    "qwen3-30b-a3b-8l": ("qwen3moe", 8, 2048, 32, 4, 128, 768, 128, 8, False, 128, (), 1e6, 32000, {}),
    "gpt-oss-20b": ("gpt-oss", 24, 2880, 64, 8, 64, 2880, 32, 4, False, 0, (), 1.5e5, 201088, GPT_OSS),
    "gpt-oss-20b-8l": ("gpt-oss", 8, 2880, 64, 8, 64, 2880, 32, 4, False, 0, (), 1.5e5, 32000, GPT_OSS),
    "qwen3.5-0.8b": ("qwen35", 24, 1024, 8, 2, 256, 3584, 0, 0, True, 256, (), 1e7, 248320, SMALL_QWEN35),
    "qwen3.5-2b": ("qwen35", 24, 2048, 8, 2, 256, 6144, 0, 0, True, 256, (), 1e7, 248320, SMALL_QWEN35),
    "qwen3.5-4b": ("qwen35", 32, 2560, 16, 4, 256, 9216, 0, 0, True, 256, (), 1e7, 248320, LARGE_QWEN35),
    "qwen3.5-35b-a3b-8l": ("qwen35moe", 8, 2048, 16, 2, 256, 512, 256, 8, False, 256, (), 1e7, 32000,
                           LARGE_QWEN35 | {"shared": 512}),
    "qwen3-next-80b-a3b-4l": ("qwen3next", 4, 2048, 16, 2, 256, 512, 512, 10, False, 256, (), 1e7, 32000, NEXT),
    "nemotron-3-nano-30b-a3b-8l": ("nemotron_h_moe", 8, 2688, 32, 2, 128, 1856, 128, 6, False, 0, (), 1e4, 32000, NEMOTRON),
    "glm-4.7-flash-8l": ("deepseek2", 8, 2048, 20, 1, 576, 1536, 64, 4, False, 0, (), 1e6, 32000, GLM),
    "lfm2-1.2b": ("lfm2", 16, 2048, 32, 8, 64, 8192, 0, 0, True, 64, (), 1e6, 65536, LFM2),
    "gemma-3-1b": ("gemma3", 26, 1152, 4, 1, 256, 6912, 0, 0, True, 256, (), 1e6, 262144, GEMMA),
    "gemma-4-e2b": ("gemma4", 35, 1536, 8, 1, 512, 6144, 0, 0, True, 512, (), 1e6, 262144,
                    SMALL_GEMMA4 | {"windows": (512, 5), "sharing": 20, "wide": 12288}),
    "gemma-4-e4b": ("gemma4", 42, 2560, 8, 2, 512, 10240, 0, 0, True, 512, (), 1e6, 262144,
                    SMALL_GEMMA4 | {"sharing": 18, "wide": 10240}),
    "gemma-4-26b-a4b-6l": ("gemma4", 6, 2816, 16, 2, 512, 704, 128, 8, True, 512, (), 1e6, 32000,
                           LARGE_GEMMA4 | {"local_kv_heads": 8, "beside": 2112}),
    "gemma-4-31b-6l": ("gemma4", 6, 5376, 32, 4, 512, 21504, 0, 0, True, 512, (), 1e6, 32000,
                       LARGE_GEMMA4 | {"local_kv_heads": 16}),
    "granite-4.0-h-1b": ("granitehybrid", 40, 1536, 12, 4, 128, 4096, 0, 0, True, 0, (12.0, 0.22, 0.0078125, 6.0), 1e4, 100352,
                         GRANITE_HYBRID),
}
BF16 = gguf.GGMLQuantizationType.BF16
TYPES = {name: gguf.GGMLQuantizationType[name.upper()] for name in ("f16", "q8_0", "q4_0", "mxfp4")}
F32 = gguf.GGMLQuantizationType.F32
STANDARD_DEVIATION = 0.02
PIECE_NUMBERS = 1 << 26  # of a matrix are made at a time


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


def has_state(extras, layer):
    """In the place of attention."""
    if "delta_net" in extras:
        return (layer + 1) % extras["delta_net"][-1] != 0
    if layer in extras.get("lone", ()):
        return False
    return any(layer not in extras[kind][-1] for kind in ("short_convolution", "mamba") if kind in extras)


def add_state_keys(writer, extras):
    if "short_convolution" in extras:
        writer.add_shortconv_l_cache(extras["short_convolution"][0])
    elif "mamba" in extras:
        groups, heads, size, key, convolution, _ = extras["mamba"]
        add_ssm_keys(writer, convolution, key, groups, heads, heads * size)
        writer.add_rope_scaling_finetuned(False)
    elif "delta_net" in extras:
        key_heads, value_heads, state, convolution, interval = extras["delta_net"]
        add_ssm_keys(writer, convolution, state, key_heads, value_heads, value_heads * state)
        writer.add_full_attention_interval(interval)
        if not extras.get("grouped"):
            writer.add_rope_dimension_sections([11, 11, 10, 0])  # of an image's time, height, width


def add_ssm_keys(writer, convolution, state, groups, heads, inner):
    writer.add_ssm_conv_kernel(convolution)
    writer.add_ssm_state_size(state)
    writer.add_ssm_group_count(groups)
    writer.add_ssm_time_step_rank(heads)
    writer.add_ssm_inner_size(inner)


def mxfp4(rng, dimensions):
    """Blocks of random numbers with that deviation; rounding floats to them takes numpy long."""
    blocks = rng.integers(0, 256, (*dimensions[:-1], dimensions[-1] // 32, 17), dtype=np.uint8)
    blocks[..., 0] = rng.integers(119, 122, blocks.shape[:-1])
    return blocks.reshape(*dimensions[:-1], -1)


def main():
    if len(sys.argv) != 5 or sys.argv[1] not in SHAPES or sys.argv[2] not in TYPES:
        sys.exit(__doc__)
    shape, kind = sys.argv[1], TYPES[sys.argv[2]]
    (architecture, layers, hidden, heads, kv_heads, head, size, experts, used, tied, norm, scales, base, vocabulary,
     extras) = SHAPES[shape]
    oss, delta_net, shared = extras.get("sinks"), extras.get("delta_net"), extras.get("shared", 0)
    latent, (dense_layers, dense_size) = extras.get("latent"), extras.get("dense", (0, size))
    layer_size, beside = extras.get("layer_embeddings", 0), extras.get("beside")
    writer = gguf.GGUFWriter(sys.argv[4], architecture, use_temp_file=True)
    writer.add_name(f"{shape}-random")
    writer.add_block_count(layers)
    writer.add_context_length(4096)
    writer.add_embedding_length(hidden)
    sharing = range(layers - extras.get("sharing", 0), layers)
    lone = extras.get("lone", ())
    sizes = [extras["wide"] if i in sharing else 0 if lone and i not in lone else beside or dense_size for i in range(layers)]
    writer.add_feed_forward_length(sizes if sharing or lone else sizes[0])
    if experts:
        writer.add_expert_feed_forward_length(size)
        writer.add_expert_count(experts)
        writer.add_expert_used_count(used)
    if shared and not latent:
        writer.add_expert_shared_feed_forward_length(shared)
    writer.add_head_count(heads)
    by_layers = "short_convolution" in extras or "mamba" in extras
    window, global_every = extras.get("windows", (0, 1))
    local = [(i + 1) % global_every != 0 for i in range(layers)]
    attending = [i for i in range(layers) if not has_state(extras, i) and i not in lone]
    heads_of = [0 if i not in attending else extras.get("local_kv_heads", kv_heads) if local[i] else kv_heads
                for i in range(layers)]
    writer.add_head_count_kv(heads_of if by_layers or "local_kv_heads" in extras else kv_heads)
    writer.add_key_length(head)
    writer.add_value_length(latent[0] if latent else head)
    writer.add_rope_dimension_count(extras.get("rope", head))
    writer.add_rope_freq_base(base)
    writer.add_layer_norm_rms_eps(1e-6)
    if lone:
        writer.add_layer_norm_eps(1e-6)
        writer.add_expert_shared_count(1)
        writer.add_expert_weights_scale(2.5)
        writer.add_expert_weights_norm(True)
    writer.add_vocab_size(vocabulary)
    if latent:
        writer.add_kv_lora_rank(latent[0])
        writer.add_q_lora_rank(latent[1])
        writer.add_key_length_mla(latent[2] + extras["rope"])
        writer.add_value_length_mla(latent[3])
        writer.add_leading_dense_block_count(dense_layers)
        writer.add_expert_shared_count(shared // size)
        writer.add_expert_weights_scale(1.8)
        writer.add_expert_weights_norm(True)
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if oss:
        writer.add_sliding_window(128)
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(32.0)
        writer.add_rope_scaling_orig_ctx_len(4096)
    if window:
        writer.add_sliding_window(window)
    if "local_head" in extras:
        writer.add_sliding_window_pattern(local)
        writer.add_key_length_swa(extras["local_head"])
        writer.add_value_length_swa(extras["local_head"])
        writer.add_rope_dimension_count_swa(extras["local_head"])
        writer.add_rope_freq_base_swa(extras["local_base"])
        writer.add_shared_kv_layers(len(sharing))
        writer.add_embedding_length_per_layer_input(layer_size)
        writer.add_final_logit_softcapping(30.0)
    add_state_keys(writer, extras)
    for key, value in zip(("embedding_scale", "residual_scale", "attention.scale", "logit_scale"), scales):
        writer.add_float32(f"{architecture}.{key}", value)
    add_tokenizer(writer, sys.argv[3], vocabulary)

    def vector(name, *dimensions, value=1.0):
        writer.add_tensor(name, np.full(dimensions, value, np.float32))

    def generator(name):
        return np.random.Generator(np.random.SFC64(zlib.crc32(name.encode())))

    def matrix(name, *dimensions, kind=kind):
        rng = generator(name)
        if kind == TYPES["mxfp4"]:
            writer.add_tensor(name, mxfp4(rng, dimensions), raw_dtype=kind)
            return
        def quantised(*dimensions):
            numbers = rng.standard_normal(dimensions, dtype=np.float32) * np.float32(STANDARD_DEVIATION)
            return numbers if kind == F32 else gguf.quants.quantize(numbers, kind)

        rows = max(PIECE_NUMBERS // int(np.prod(dimensions[1:])), 1)
        pieces = [quantised(min(rows, dimensions[0] - i), *dimensions[1:]) for i in range(0, dimensions[0], rows)]
        writer.add_tensor(name, np.concatenate(pieces), raw_dtype=kind)

    def attention(block, layer):
        """Of a model with delta nets each head has rows of the query, then as many of its gate."""
        own_keys, whole = layer not in sharing, not local[layer]
        size = head if whole else extras.get("local_head", head)
        rows_q = heads * size * (2 if delta_net else 1)
        keys = [("k", heads_of[layer] * size), ("v", heads_of[layer] * size)] if own_keys else []
        if whole and "local_kv_heads" in extras:
            keys = keys[:1]
        for name, rows in [("q", rows_q)] + keys:
            matrix(f"{block}attn_{name}.weight", rows, hidden, kind=dense)
            if oss:
                vector(f"{block}attn_{name}.bias", rows, value=0.0)
        for name in ("q", "k") if norm and own_keys else ("q",) if norm else ():
            vector(f"{block}attn_{name}_norm.weight", min(norm, size))
        matrix(block + "attn_output.weight", hidden, heads * size, kind=dense)

    def latent_attention(block):
        rank, query_rank, unrotated, value = latent
        rope = extras["rope"]
        matrix(block + "attn_q_a.weight", query_rank, hidden, kind=dense)
        vector(block + "attn_q_a_norm.weight", query_rank)
        matrix(block + "attn_q_b.weight", heads * (unrotated + rope), query_rank, kind=dense)
        matrix(block + "attn_kv_a_mqa.weight", rank + rope, hidden, kind=dense)
        vector(block + "attn_kv_a_norm.weight", rank)
        matrix(block + "attn_k_b.weight", heads, rank, unrotated, kind=dense)
        matrix(block + "attn_v_b.weight", heads, value, rank, kind=dense)
        matrix(block + "attn_output.weight", hidden, heads * value, kind=dense)

    def state_layer(block):
        """Decays are below 1 and reach from almost 1 to almost 0, so no state grows and none vanishes."""
        if "short_convolution" in extras:
            short_convolution(block)
        elif "mamba" in extras:
            mamba(block)
        else:
            delta_layer(block)

    def decays(rng, size):
        return -np.exp(rng.uniform(np.log(0.02), np.log(4.0), size)).astype(np.float32)

    def taps(rng, *dimensions):
        return rng.standard_normal(dimensions, dtype=np.float32) * 0.5

    def short_convolution(block):
        matrix(block + "shortconv.in_proj.weight", 3 * hidden, hidden, kind=dense)
        writer.add_tensor(block + "shortconv.conv.weight", taps(generator(block + "shortconv"), hidden,
                                                                extras["short_convolution"][0]))
        matrix(block + "shortconv.out_proj.weight", hidden, hidden, kind=dense)

    def mamba(block):
        groups, count, size, key, convolution, _ = extras["mamba"]
        inner, channels = count * size, count * size + 2 * groups * key
        rng = generator(block + "ssm")
        matrix(block + "ssm_in.weight", inner + channels + count, hidden, kind=dense)
        writer.add_tensor(block + "ssm_conv1d.weight", taps(rng, channels, convolution))
        vector(block + "ssm_conv1d.bias", channels, value=0.0)
        vector(block + "ssm_dt.bias", count, value=0.0)
        writer.add_tensor(block + "ssm_a", decays(rng, (count, 1)))
        vector(block + "ssm_d", count, 1)
        vector(block + "ssm_norm.weight", groups, inner // groups)
        matrix(block + "ssm_out.weight", hidden, inner, kind=dense)

    def delta_layer(block):
        key_heads, value_heads, state, convolution, _ = delta_net
        values = value_heads * state
        channels = 2 * key_heads * state + values
        rng = generator(block + "ssm")
        matrix(block + "attn_qkv.weight", channels, hidden, kind=dense)
        matrix(block + "attn_gate.weight", values, hidden, kind=dense)
        writer.add_tensor(block + "ssm_conv1d.weight", taps(rng, channels, convolution))
        if extras.get("grouped"):
            matrix(block + "ssm_ba.weight", 2 * value_heads, hidden, kind=dense)
        else:
            matrix(block + "ssm_alpha.weight", value_heads, hidden, kind=dense)
            matrix(block + "ssm_beta.weight", value_heads, hidden, kind=dense)
        vector(block + "ssm_dt.bias", value_heads, value=0.0)
        writer.add_tensor(block + "ssm_a", decays(rng, value_heads))
        vector(block + "ssm_norm.weight", state)
        matrix(block + "ssm_out.weight", hidden, values, kind=dense)

    def mixture(block):
        if oss:
            vector(block + "ffn_gate_inp.bias", experts, value=0.0)
            for name, rows in (("gate", size), ("up", size), ("down", hidden)):
                vector(f"{block}ffn_{name}_exps.bias", experts, rows, value=0.0)
        matrix(block + "ffn_gate_inp.weight", experts, hidden, kind=F32)
        if beside:
            matrix(block + "ffn_gate_up_exps.weight", experts, 2 * size, hidden)
            matrix(block + "ffn_down_exps.weight", experts, hidden, size)
            vector(block + "ffn_down_exps.scale", experts)
            for name in ("ffn_gate_inp.scale", "pre_ffw_norm_2.weight", "post_ffw_norm_1.weight", "post_ffw_norm_2.weight"):
                vector(block + name, hidden)
            return
        gates = [] if lone else ["gate"]
        for name in [*gates, "up", "down"]:
            matrix(f"{block}ffn_{name}_exps.weight", experts, *((hidden, size) if name == "down" else (size, hidden)))
        if lone:
            vector(block + "exp_probs_b.bias", experts, value=0.0)
        if shared and gates and not latent:
            matrix(block + "ffn_gate_inp_shexp.weight", hidden, kind=F32)
        for name in [*gates, "up", "down"] if shared else []:
            matrix(f"{block}ffn_{name}_shexp.weight", *((hidden, shared) if name == "down" else (shared, hidden)), kind=dense)

    logits = TYPES["q8_0"] if sys.argv[2] in ("q4_0", "mxfp4") else kind
    dense = TYPES["q8_0"] if sys.argv[2] == "mxfp4" else kind
    matrix("token_embd.weight", vocabulary, hidden, kind=logits if tied else dense)
    if layer_size:
        matrix("per_layer_token_embd.weight", vocabulary, layers * layer_size, kind=logits)
        matrix("per_layer_model_proj.weight", layers * layer_size, hidden, kind=BF16)
        vector("per_layer_proj_norm.weight", layer_size)
    if "local_head" in extras:
        factors = [1.0] * (head // 8) + [1e30] * (head // 2 - head // 8)  # a quarter of the numbers is rotated
        writer.add_tensor("rope_freqs.weight", np.array(factors, np.float32))
    for i in range(layers):
        print(f"\r{shape} {sys.argv[2]}: layer {i + 1} of {layers}", end="", file=sys.stderr, flush=True)
        block = f"blk.{i}."
        vector(block + "attn_norm.weight", hidden)
        if has_state(extras, i):
            state_layer(block)
        elif latent:
            latent_attention(block)
        elif i in attending:
            attention(block, i)
        if lone and i not in lone:
            continue
        if not lone:
            vector(block + ("post_attention_norm.weight" if extras.get("post_attention") else "ffn_norm.weight"), hidden)
        if oss:
            vector(block + "attn_output.bias", hidden, value=0.0)
            vector(block + "attn_sinks.weight", heads)
        if experts and i >= dense_layers:
            mixture(block)
            if not beside:
                continue
        matrix(block + "ffn_gate.weight", sizes[i], hidden, kind=dense)
        matrix(block + "ffn_up.weight", sizes[i], hidden, kind=dense)
        matrix(block + "ffn_down.weight", hidden, sizes[i], kind=dense)
        if extras.get("post_norms"):
            vector(block + "post_attention_norm.weight", hidden)
            vector(block + "post_ffw_norm.weight", hidden)
        if layer_size:
            matrix(block + "inp_gate.weight", layer_size, hidden, kind=dense)
            matrix(block + "proj.weight", hidden, layer_size, kind=dense)
            vector(block + "post_norm.weight", hidden)
        if "local_head" in extras:
            vector(block + "layer_output_scale.weight", 1)
    print(file=sys.stderr)
    vector("token_embd_norm.weight" if "short_convolution" in extras else "output_norm.weight", hidden)
    if not tied:
        matrix("output.weight", vocabulary, hidden, kind=logits)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
