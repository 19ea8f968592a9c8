#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small random models of every kind that the float64 reference claims to know, and what llama.cpp makes of them.

    make_reference.py LLAMA_SERVER [CASE...]        (pip install gguf numpy)

Writes reference_*.gguf (float32) and reference.json: for each model a list of token ids and the log probabilities of all
tokens behind them, from llama-server with float32 KV; of the cases named, or all. Of a model with recurrent layers there is a
second list: the first and eight tokens that llama-server computed one at a time. The llama3 scaling is written twice: as the
tensor rope_freqs.weight, which llama.cpp reads, and as metadata (reference_llama3_keys.gguf), which must mean the same."""
import json
import math
import pathlib
import sys

import gguf
import numpy as np

from llama_server import served

HERE = pathlib.Path(__file__).resolve().parent
VOCABULARY = 48
CONVOLUTION = 4
GENERATED = 8
LLAMA3 = {"factor": 8.0, "low": 1.0, "high": 4.0, "original": 32}

LARGE_GEMMA4 = {"post_norms": True, "window": 20, "pattern": 2, "local_head": 32, "keys_are_values": True, "head_norms": True,
                "softcaps": (None, 2.0), "factors": True}
OLMO2 = {"post_norms": True, "no_norms": True, "all_head_norms": True, "untied": True}

# architecture, E, F, H, G, D, RoPE numbers a head, RoPE base, layers, extras
# pattern: every which layer has no window; local_head, local_kv_heads: size of a head, and KV heads, of those with one;
# sharing: the last so many layers attend to K and V of earlier ones; layer_embeddings: numbers of a token's embedding in each
# layer; keys_are_values: layers without a window have no V; experts_beside: of a dense feed-forward, with norms of each
# delta_net: key heads, value heads, size of a head, every which layer has attention instead
# short_convolution: tokens, the layers that have attention instead
# latent: rank, that of queries (0: none), a head's numbers that are not rotated, its values; joined_heads: as files of before
# April 2025, which llama.cpp multiplies out
# mamba: groups, heads, size of a head, of a key, the layers that have attention instead; beside: all have both
# grouped: the value heads of a key head lie side by side, and rows of corrections and steps are by turns; joined_states: all rows
# lone: the layers that are a feed-forward alone; the others have none
CASES = {
    "gqa_linear": ("llama", 24, 20, 6, 2, 8, 8, 10000.0, 2, {"linear": 4.0, "all_biases": True}),
    "mqa_llama3": ("llama", 24, 40, 4, 1, 16, 16, 500.0, 2, {"llama3": True, "untied": True}),
    "qwen2": ("qwen2", 32, 28, 4, 2, 8, 8, 1e6, 2, {"qkv_biases": True}),
    "qwen3": ("qwen3", 24, 20, 4, 2, 16, 16, 1e6, 2, {"head_norms": True}),
    "qwen2_linear": ("qwen2", 24, 20, 1, 1, 24, 24, 1e4, 1, {"qkv_biases": True, "untied": True, "linear": 2.0}),
    "granite": ("granite", 24, 20, 4, 2, 8, 8, 1e4, 2, {"scales": (6.0, 0.22, 0.5, 8.0)}),
    "minicpm": ("minicpm", 24, 20, 3, 3, 8, 8, 1e4, 2, {"scales": (12.0, 0.7, None, 4.0), "untied": True}),
    "internlm2": ("internlm2", 24, 20, 3, 1, 8, 8, 1e4, 1, {"untied": True}),
    "exaone": ("exaone", 24, 20, 4, 2, 8, 8, 1e4, 1, {}),
    "ernie4_5": ("ernie4_5", 24, 20, 4, 2, 8, 8, 1e4, 1, {}),
    "smollm3": ("smollm3", 24, 20, 4, 2, 8, 8, 1e4, 5, {}),
    "gemma": ("gemma", 24, 20, 4, 1, 16, 16, 1e4, 2, {}),
    "gemma2": ("gemma2", 24, 20, 4, 2, 16, 16, 1e4, 3, {"post_norms": True, "window": 20, "softcaps": (1.5, 2.0)}),
    "gemma3": ("gemma3", 24, 20, 4, 2, 16, 16, 1e6, 7, {"post_norms": True, "window": 20, "head_norms": True, "linear": 8.0}),
    "gemma4": ("gemma4", 16, [12, 12, 12, 12, 24, 24], 2, 1, 64, 64, 1e6, 6,
               {"post_norms": True, "window": 20, "pattern": 2, "local_head": 32, "sharing": 2, "head_norms": True,
                "layer_embeddings": 8, "softcaps": (None, 2.0), "factors": True}),
    "gemma4_large": ("gemma4", 16, 40, 4, 1, 64, 64, 1e6, 4, LARGE_GEMMA4 | {"local_kv_heads": 2}),
    "gemma4_experts": ("gemma4", 16, 40, 4, 2, 64, 64, 1e6, 3,
                       LARGE_GEMMA4 | {"local_kv_heads": 4, "experts": (4, 2), "expert": 16, "experts_beside": True}),
    "olmo2": ("olmo2", 24, 20, 3, 1, 8, 8, 1e4, 2, OLMO2),
    "olmo2_windows": ("olmo2", 24, 20, 3, 3, 8, 8, 1e4, 5, OLMO2 | {"window": 20, "linear": 4.0}),
    "mixtral": ("llama", 32, 16, 4, 2, 8, 8, 1e4, 2, {"experts": (5, 2), "untied": True}),
    "qwen2moe": ("qwen2moe", 32, 64, 4, 4, 8, 8, 1e6, 2,
                 {"experts": (6, 2), "expert": 16, "shared": 48, "shared_gate": True, "qkv_biases": True, "untied": True}),
    "qwen3moe": ("qwen3moe", 32, 64, 4, 2, 16, 16, 1e6, 2, {"experts": (7, 3), "expert": 16, "head_norms": True}),
    "olmoe": ("olmoe", 32, 16, 4, 4, 8, 8, 1e4, 2, {"experts": (6, 3), "all_head_norms": True, "untied": True}),
    "granitemoe": ("granitemoe", 32, 16, 4, 2, 8, 8, 1e4, 2,
                   {"experts": (5, 2), "shared": 16, "scales": (6.0, 0.22, 0.5, 8.0)}),
    "bailingmoe": ("bailingmoe", 32, 40, 4, 2, 8, 8, 1e4, 2,
                   {"experts": (5, 2), "expert": 16, "shared_count": 2, "weights_norm": False, "weights_scale": 1.5,
                    "untied": True}),
    "bailingmoe2": ("bailingmoe2", 32, 40, 4, 2, 8, 4, 1e4, 2,
                    {"experts": (12, 3), "expert": 16, "shared": 16, "shared_count": 1, "weights_norm": True,
                     "weights_scale": 2.5, "sigmoid": True, "groups": (4, 2), "router_bias": True, "head_norms": True,
                     "joined_attention": True, "dense": 1, "untied": True}),
    "dots1": ("dots1", 32, 40, 4, 4, 8, 8, 1e4, 2,
              {"experts": (5, 2), "expert": 16, "shared_count": 2, "weights_norm": True, "sigmoid": True,
               "router_bias": True, "head_norms": True, "dense": 1, "untied": True}),
    "deepseek2": ("deepseek2", 32, 40, 3, 1, 40, 8, 1e4, 2,
                  {"latent": (32, 20, 24, 16), "experts": (5, 2), "expert": 16, "shared_count": 1, "weights_norm": True,
                   "weights_scale": 1.8, "sigmoid": True, "router_bias": True, "dense": 1, "untied": True}),
    "deepseek2_lite": ("deepseek2", 32, 40, 3, 1, 64, 16, 1e4, 2,
                       {"latent": (48, 0, 16, 32), "experts": (4, 2), "expert": 16, "shared_count": 2, "dense": 1,
                        "yarn": (40.0, 16), "yarn_log_multiplier": 0.0707, "untied": True}),
    "deepseek2_joined": ("deepseek2", 32, 40, 3, 3, 32, 16, 1e4, 2,
                         {"latent": (48, 0, 16, 32), "joined_heads": True, "experts": (4, 2), "expert": 16, "shared_count": 2,
                          "dense": 1, "yarn": (40.0, 16), "yarn_log_multiplier": 0.0707, "untied": True}),
    "ernie4_5_moe": ("ernie4_5-moe", 32, 40, 4, 2, 8, 8, 1e4, 3,
                     {"experts": (5, 2), "expert": 16, "shared": 32, "router_bias": True, "dense": 1}),
    "gpt_oss": ("gpt-oss", 32, 16, 4, 2, 8, 8, 1.5e5, 3,
                {"experts": (5, 2), "expert": 16, "all_biases": True, "sinks": True, "norm_renamed": True, "window": 12,
                 "yarn": (32.0, 16), "untied": True}),
    "qwen35": ("qwen35", 16, 16, 4, 2, 32, 8, 1e4, 4,
               {"delta_net": (2, 4, 32, 4), "sections": (2, 1, 1), "norm_renamed": True, "head_norms": True}),
    "qwen35moe": ("qwen35moe", 16, 16, 4, 2, 16, 4, 1e3, 4,
                  {"delta_net": (2, 4, 32, 4), "sections": (1, 1, 0), "norm_renamed": True, "experts": (3, 2), "expert": 16,
                   "shared": 16, "shared_gate": True,
                   "head_norms": True, "untied": True}),
    "granitehybrid": ("granitehybrid", 64, 8, 2, 1, 8, 8, 1e4, 2,
                      {"mamba": (2, 4, 32, 32, (1,)), "scales": (6.0, 0.22, 0.5, 8.0), "unrotated": True}),
    "granitehybrid_moe": ("granitehybrid", 32, 16, 4, 2, 8, 8, 1e4, 3,
                          {"mamba": (1, 2, 32, 64, (1,)), "experts": (3, 2), "shared": 16,
                           "scales": (6.0, 0.22, 0.5, 8.0)}),
    "nemotron_h": ("nemotron_h", 32, [0, 40, 0, 0, 40], 4, 2, 8, 8, 1e4, 5,
                   {"mamba": (2, 4, 16, 32, (3,)), "lone": (1, 4), "ungated": True, "all_biases": True}),
    "nemotron_h_moe": ("nemotron_h_moe", 32, [0, 16, 0, 16, 0], 4, 2, 16, 8, 1e4, 5,
                       {"mamba": (1, 2, 48, 32, (4,)), "lone": (1, 3), "ungated": True, "experts": (4, 2), "expert": 16,
                        "shared": 32, "shared_count": 1, "weights_norm": True, "weights_scale": 2.5, "router_bias": True,
                        "untied": True}),
    "falcon_h1": ("falcon-h1", 32, 40, 4, 2, 8, 8, 1e4, 2, {"mamba": (2, 4, 16, 32, ()), "beside": True, "untied": True}),
    "falcon_h1_unnormed": ("falcon-h1", 32, 40, 4, 1, 16, 16, 1e11, 2,
                           {"mamba": (1, 2, 32, 32, ()), "beside": True, "unnormed": True}),
    "qwen3next": ("qwen3next", 16, 16, 4, 2, 32, 8, 1e4, 3,
                  {"delta_net": (2, 6, 32, 3), "grouped": True, "norm_renamed": True, "experts": (3, 2), "expert": 16,
                   "shared": 16, "shared_gate": True, "head_norms": True, "untied": True}),
    "qwen3next_joined": ("qwen3next", 16, 16, 4, 2, 16, 4, 1e4, 2,
                         {"delta_net": (2, 4, 32, 2), "grouped": True, "joined_states": True, "norm_renamed": True,
                          "experts": (3, 2), "expert": 16, "shared": 16, "shared_gate": True, "head_norms": True}),
    "lfm2": ("lfm2", 32, 40, 4, 2, 8, 8, 1e4, 5, {"short_convolution": (3, (1, 3)), "head_norms": True}),
    "lfm2moe": ("lfm2moe", 32, 40, 4, 2, 8, 8, 1e4, 4,
                {"short_convolution": (3, (2,)), "experts": (5, 2), "expert": 16, "sigmoid": True, "router_bias": True,
                 "head_norms": True, "dense": 1}),
    "qwen2vl": ("qwen2vl", 24, 20, 3, 1, 8, 8, 1e4, 2, {"sections": (1, 2, 1), "qkv_biases": True, "untied": True}),
    "qwen3vl": ("qwen3vl", 24, 20, 3, 1, 16, 16, 1e4, 2, {"sections": (3, 3, 2), "deepstack": 1, "head_norms": True}),
    "qwen3vlmoe": ("qwen3vlmoe", 32, 64, 4, 2, 8, 8, 1e6, 2,
                   {"sections": (2, 1, 1), "deepstack": 1, "experts": (5, 2), "expert": 16, "head_norms": True}),
    "seed_oss": ("seed_oss", 24, 20, 4, 2, 8, 8, 1e7, 2, {"qkv_biases": True, "norm_renamed": True, "untied": True}),
    "chatglm": ("chatglm", 24, 20, 3, 1, 8, 4, 1e4, 2, {"joined": True, "qkv_biases": True, "untied": True}),
    "glm4": ("glm4", 24, 20, 3, 1, 8, 4, 1e4, 2,
             {"joined_feed_forward": True, "qkv_biases": True, "post_norms": True, "untied": True}),
    "glm4_sections": ("glm4", 24, 20, 3, 1, 16, 8, 1e4, 1,
                      {"sections": (2, 1, 1), "joined_feed_forward": True, "post_norms": True}),
    "glm4moe": ("glm4moe", 32, 40, 4, 2, 16, 8, 1e6, 2,
                {"experts": (6, 2), "expert": 16, "shared_count": 1, "weights_norm": True, "weights_scale": 2.5, "nextn": 1,
                 "router_bias": True, "dense": 1, "norm_renamed": True, "qkv_biases": True, "head_norms": True,
                 "untied": True}),
    "glm4moe_air": ("glm4moe", 32, 40, 4, 2, 8, 4, 1e5, 2,
                    {"experts": (5, 2), "expert": 16, "shared_count": 1, "sigmoid": True, "router_bias": True,
                     "dense": 1, "norm_renamed": True, "qkv_biases": True}),
    "minimax_m2": ("minimax-m2", 32, 16, 4, 2, 16, 8, 5e6, 2,
                   {"experts": (6, 3), "expert": 16, "sigmoid": True, "router_bias": True, "all_head_norms": True,
                    "untied": True}),
    "exaone4": ("exaone4", 24, 20, 3, 1, 8, 8, 1e6, 2, {"head_norms": True, "post_norms": True, "no_norms": True}),
    "exaone4_windows": ("exaone4", 8, 4, 1, 1, 8, 8, 1e6, 64,  # llama.cpp knows by the layers that there are windows
                        {"head_norms": True, "post_norms": True, "no_norms": True, "window": 20}),
    "mistral3": ("mistral3", 24, 20, 4, 2, 8, 8, 1e6, 2,
                 {"yarn": (4.0, 20), "yarn_log_multiplier": 1.0, "temperature": 0.5}),
    "deepseek": ("deepseek", 32, 40, 4, 4, 8, 8, 1e4, 2,
                 {"experts": (6, 3), "expert": 16, "shared_count": 2, "dense": 1, "untied": True}),
    "pangu_embedded": ("pangu-embedded", 24, 20, 3, 1, 8, 8, 1e4, 1,
                       {"qkv_biases": True, "output_bias": True, "untied": True}),
    "xverse": ("xverse", 24, 20, 3, 3, 8, 8, 1e4, 1, {"untied": True}),
    "arcee": ("arcee", 24, 20, 4, 2, 8, 8, 1e4, 2, {"ungated": True, "untied": True}),
    "starcoder2": ("starcoder2", 24, 20, 3, 1, 8, 8, 1e4, 2, {"mean": "biased", "ungated": True, "all_biases": True}),
    "gptneox": ("gptneox", 24, 20, 3, 3, 8, 4, 1e4, 2,
                {"mean": "biased", "ungated": True, "all_biases": True, "joined_attention": True, "parallel": True,
                 "untied": True}),
    "gptneox_sequential": ("gptneox", 24, 20, 3, 3, 8, 2, 1e4, 1,
                           {"mean": "biased", "ungated": True, "all_biases": True, "joined_attention": True,
                            "parallel": False, "untied": True}),
    "phi2": ("phi2", 24, 20, 3, 3, 8, 4, 1e4, 2,
             {"mean": "biased", "ungated": True, "all_biases": True, "no_second_norm": True, "logit_biases": True,
              "untied": True}),
    "stablelm": ("stablelm", 24, 20, 3, 3, 8, 2, 1e4, 2,
                 {"mean": "biased", "qkv_biases": True, "parallel": True, "untied": True}),  # which it is not
    "orion": ("orion", 24, 20, 3, 1, 8, 8, 1e4, 1, {"mean": "biased", "untied": True}),
    "nemotron": ("nemotron", 24, 20, 3, 1, 8, 4, 1e4, 2, {"mean": "biased", "ungated": True, "untied": True}),
    "olmo": ("olmo", 24, 20, 3, 3, 8, 8, 1e4, 2, {"mean": "plain", "no_norms": True, "no_last_norm": True}),
    "command_r": ("command-r", 24, 20, 3, 1, 8, 8, 1e4, 2,
                  {"mean": "plain", "no_second_norm": True, "scales": (None, None, None, 0.25)}),
    "cohere2": ("cohere2", 24, 20, 3, 1, 8, 8, 1e4, 5,
                {"mean": "plain", "no_second_norm": True, "scales": (None, None, None, 0.25), "window": 20}),
    "hunyuan_dense": ("hunyuan-dense", 24, 20, 3, 1, 16, 16, 1e4, 2, {"head_norms": True}),
    "hunyuan_moe": ("hunyuan-moe", 32, 16, 4, 2, 8, 8, 1e4, 2,
                    {"experts": (5, 2), "expert": 16, "shared": 32, "head_norms": True}),
    "maincoder": ("maincoder", 24, 20, 3, 1, 8, 8, 1e4, 1, {"head_norms": True}),
    "phi3": ("phi3", 24, 20, 3, 1, 8, 6, 1e4, 2, {"joined": True, "long_rope": True, "untied": True}),
}


def llama3_factors(base, count):
    """What each pair's frequency is divided by (Llama 3.1)."""
    factors = []
    for i in range(count // 2):
        wavelength = 2 * math.pi * base ** (2 * i / count)
        if wavelength < LLAMA3["original"] / LLAMA3["high"]:
            factors.append(1.0)
        elif wavelength > LLAMA3["original"] / LLAMA3["low"]:
            factors.append(LLAMA3["factor"])
        else:
            smooth = (LLAMA3["original"] / wavelength - LLAMA3["low"]) / (LLAMA3["high"] - LLAMA3["low"])
            factors.append(1 / ((1 - smooth) / LLAMA3["factor"] + smooth))
    return np.array(factors, np.float32)


def has_state(extras, layer):
    """In the place of attention."""
    if "delta_net" in extras:
        return (layer + 1) % extras["delta_net"][3] != 0
    if layer in extras.get("lone", ()):
        return False
    return any(layer not in extras[kind][-1] for kind in ("short_convolution", "mamba") if kind in extras)


def write_model(path, case, llama3_as_keys=False):
    architecture, hidden, feed_forward, heads, kv_heads, head_size, rope, base, layers, extras = CASES[case]
    rng = np.random.default_rng(sum(case.encode()))

    def is_global(layer):
        return (layer + 1) % extras.get("pattern", 1) == 0

    w = gguf.GGUFWriter(path, architecture)
    w.add_block_count(layers + extras.get("nextn", 0))
    w.add_context_length(128)
    w.add_embedding_length(hidden)
    w.add_feed_forward_length(feed_forward)
    w.add_head_count(heads)
    by_layers = ("short_convolution" in extras or "mamba" in extras) and not extras.get("beside")
    lone = extras.get("lone", ())
    attending = [i for i in range(layers) if extras.get("beside") or not has_state(extras, i) and i not in lone]
    if "local_kv_heads" in extras:
        w.add_head_count_kv([kv_heads if is_global(i) else extras["local_kv_heads"] for i in range(layers)])
    else:
        w.add_head_count_kv([kv_heads if i in attending else 0 for i in range(layers)] if by_layers else kv_heads)
    w.add_key_length(head_size)
    joined_heads = extras.get("joined_heads")
    w.add_value_length(extras["latent"][3 if joined_heads else 0] if "latent" in extras else head_size)
    w.add_rope_dimension_count(rope)
    w.add_rope_freq_base(base)
    if "mean" in extras or lone:
        w.add_layer_norm_eps(1e-2)
    if "parallel" in extras:
        w.add_parallel_residual(extras["parallel"])
    # 1e-2 shows where it is added; of qwen2vl llama-server does not read it and adds 0
    w.add_layer_norm_rms_eps(1e-2 if "delta_net" in extras or "mamba" in extras else 1e-12 if case == "qwen2vl" else 1e-5)
    w.add_vocab_size(VOCABULARY)
    if "linear" in extras:
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(extras["linear"])
    for key, value in zip(("embedding_scale", "residual_scale", "attention.scale", "logit_scale"), extras.get("scales", ())):
        if value is not None:
            w.add_float32(f"{architecture}.{key}", value)
    if "experts" in extras:
        w.add_expert_count(extras["experts"][0])
        w.add_expert_used_count(extras["experts"][1])
    for key, add in (("expert", w.add_expert_feed_forward_length), ("shared", w.add_expert_shared_feed_forward_length),
                     ("shared_count", w.add_expert_shared_count), ("weights_norm", w.add_expert_weights_norm),
                     ("weights_scale", w.add_expert_weights_scale), ("dense", w.add_leading_dense_block_count)):
        if key in extras:
            add(extras[key])
    if extras.get("sigmoid"):
        w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if "groups" in extras:
        w.add_expert_group_count(extras["groups"][0])
        w.add_expert_group_used_count(extras["groups"][1])
    if architecture == "ernie4_5-moe":
        w.add_interleave_moe_layer_step(1)
    if "window" in extras:
        w.add_sliding_window(extras["window"])
    if "delta_net" in extras:
        key_heads, value_heads, state, interval = extras["delta_net"]
        w.add_ssm_conv_kernel(CONVOLUTION)
        w.add_ssm_state_size(state)
        w.add_ssm_group_count(key_heads)
        w.add_ssm_time_step_rank(value_heads)
        w.add_ssm_inner_size(value_heads * state)
        w.add_full_attention_interval(interval)
    if "sections" in extras:  # of an image's time, height, width
        w.add_rope_dimension_sections([*extras["sections"], 0])
    if "deepstack" in extras:
        w.add_uint32(f"{architecture}.n_deepstack_layers", extras["deepstack"])
    if "nextn" in extras:
        w.add_nextn_predict_layers(extras["nextn"])
    if "temperature" in extras:
        w.add_float32(f"{architecture}.attention.temperature_scale", extras["temperature"])
    if "mamba" in extras:
        groups, ssm_heads, size, key, _ = extras["mamba"]
        w.add_ssm_conv_kernel(CONVOLUTION)
        w.add_ssm_state_size(key)
        w.add_ssm_group_count(groups)
        w.add_ssm_time_step_rank(ssm_heads)
        w.add_ssm_inner_size(ssm_heads * size)
    if extras.get("unrotated"):
        w.add_rope_scaling_finetuned(False)
    if "short_convolution" in extras:
        w.add_shortconv_l_cache(extras["short_convolution"][0])
    if "yarn" in extras:
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(extras["yarn"][0])
        w.add_rope_scaling_orig_ctx_len(extras["yarn"][1])
    if "yarn_log_multiplier" in extras:
        w.add_rope_scaling_yarn_log_mul(extras["yarn_log_multiplier"])
    if "latent" in extras:
        rank, query_rank, plain, value = extras["latent"]
        w.add_kv_lora_rank(rank)
        w.add_q_lora_rank(query_rank)
        if not joined_heads:
            w.add_key_length_mla(plain + rope)
            w.add_value_length_mla(value)
    if "softcaps" in extras:
        if extras["softcaps"][0]:
            w.add_attn_logit_softcapping(extras["softcaps"][0])
        w.add_final_logit_softcapping(extras["softcaps"][1])
    if "pattern" in extras:
        w.add_sliding_window_pattern([not is_global(i) for i in range(layers)])
        w.add_key_length_swa(extras["local_head"])
        w.add_value_length_swa(extras["local_head"])
        w.add_rope_dimension_count_swa(extras["local_head"])
        w.add_rope_freq_base_swa(100.0)
        w.add_shared_kv_layers(extras.get("sharing", 0))
        w.add_embedding_length_per_layer_input(extras.get("layer_embeddings", 0))
    w.add_tokenizer_model("llama")
    texts = extras.get("texts", [f"\u2581t{i}" for i in range(3, VOCABULARY)])
    w.add_token_list(["<unk>", "<s>", "</s>", *texts])
    if "labels" in extras:
        w.add_pooling_type(gguf.PoolingType.RANK)
        w.add_classifier_output_labels(extras["labels"])
        w.add_string("tokenizer.chat_template.rerank", extras["template"])
    w.add_token_scores([0.0] * VOCABULARY)
    w.add_token_types([2, 3, 3] + [1] * (VOCABULARY - 3))
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_add_bos_token(False)

    def matrix(name, rows, columns):
        w.add_tensor(name, (rng.standard_normal((rows, columns)) * 1.5 / math.sqrt(columns)).astype(np.float32))

    def vector(name, size, centre, spread=0.3):
        w.add_tensor(name, (centre + spread * rng.standard_normal(size)).astype(np.float32))

    def norm(name, suffix=".weight"):
        vector(name + suffix, hidden, 1.0)
        if extras.get("mean") == "biased":
            vector(name + ".bias", hidden, 0.0)

    def linear(name, rows, columns, bias):
        matrix(name + ".weight", rows, columns)
        if bias:
            vector(name + ".bias", rows, 0.0)

    def linears(joined, parts, columns, bias):
        """Of the names and rows in `parts`, or one with all their rows."""
        part = "joined_attention" if joined.endswith("attn_qkv") else "joined_feed_forward"
        if extras.get("joined") or extras.get(part):
            parts = {joined: sum(parts.values())}
        for name, rows in parts.items():
            linear(name, rows, columns, bias)

    def matrices(name, count, rows, columns):
        numbers = rng.standard_normal((count, rows, columns)) * 1.5 / math.sqrt(columns)
        w.add_tensor(name, numbers.astype(np.float32))

    def experts(block):
        count, expert = extras["experts"][0], extras.get("expert", feed_forward)
        matrix(block + "ffn_gate_inp.weight", count, hidden)
        if extras.get("router_bias"):
            vector(block + "exp_probs_b.bias", count, 0.0)
        if extras.get("experts_beside"):
            matrices(block + "ffn_gate_up_exps.weight", count, 2 * expert, hidden)
            matrices(block + "ffn_down_exps.weight", count, hidden, expert)
            vector(block + "ffn_down_exps.scale", count, 1.0)
            vector(block + "ffn_gate_inp.scale", hidden, math.sqrt(hidden))
            for name in ("pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"):
                vector(f"{block}{name}.weight", hidden, 1.0)
            return
        gates = [] if extras.get("ungated") else ["gate"]
        for name in [*gates, "up", "down"]:
            matrices(f"{block}ffn_{name}_exps.weight", count, *((hidden, expert) if name == "down" else (expert, hidden)))
        if extras.get("sinks"):  # gates and ups beyond what they are cut off at
            vector(block + "ffn_gate_inp.bias", count, 0.0)
            for name, size, spread in (("gate", expert, 5), ("up", expert, 5), ("down", hidden, 0.3)):
                vector(f"{block}ffn_{name}_exps.bias", (count, size), 0.0, spread)
        shared = extras.get("shared", expert * extras.get("shared_count", 0))
        if shared:
            for name in [*gates, "up", "down"]:
                matrix(f"{block}ffn_{name}_shexp.weight", *((hidden, shared) if name == "down" else (shared, hidden)))
        if extras.get("shared_gate"):
            vector(block + "ffn_gate_inp_shexp.weight", hidden, 0.0)

    def decays(size):
        """From almost 1 to almost 0, so that some heads remember and some do not."""
        return -np.exp(rng.uniform(math.log(0.02), math.log(4), size)).astype(np.float32)

    def delta_net(block):
        key_heads, value_heads, state, _ = extras["delta_net"]
        values = value_heads * state
        channels = 2 * key_heads * state + values
        if extras.get("joined_states"):
            matrix(block + "ssm_in.weight", channels + values, hidden)
        else:
            matrix(block + "attn_qkv.weight", channels, hidden)
            matrix(block + "attn_gate.weight", values, hidden)
        vector(block + "ssm_conv1d.weight", (channels, CONVOLUTION), 0.0, 0.5)
        if extras.get("grouped"):
            matrix(block + "ssm_ba.weight", 2 * value_heads, hidden)
        else:
            matrix(block + "ssm_alpha.weight", value_heads, hidden)
            matrix(block + "ssm_beta.weight", value_heads, hidden)
        vector(block + "ssm_dt.bias", value_heads, 0.0)
        w.add_tensor(block + "ssm_a", decays(value_heads))
        vector(block + "ssm_norm.weight", state, 1.0)
        matrix(block + "ssm_out.weight", hidden, values)

    def mamba(block):
        groups, count, size, key, _ = extras["mamba"]
        inner, channels = count * size, count * size + 2 * groups * key
        matrix(block + "ssm_in.weight", inner + channels + count, hidden)
        vector(block + "ssm_conv1d.weight", (channels, CONVOLUTION), 0.0, 0.5)
        vector(block + "ssm_conv1d.bias", channels, 0.0)
        vector(block + "ssm_dt.bias", count, 0.0)
        w.add_tensor(block + "ssm_a", decays((count, 1)))
        vector(block + "ssm_d", (count, 1), 0.0, 1.0)
        if not extras.get("unnormed"):
            vector(block + "ssm_norm.weight", (groups, inner // groups), 1.0)
        matrix(block + "ssm_out.weight", hidden, inner)

    def short_convolution(block):
        tokens, _ = extras["short_convolution"]
        matrix(block + "shortconv.in_proj.weight", 3 * hidden, hidden)
        vector(block + "shortconv.conv.weight", (hidden, tokens), 0.0, 0.7)
        matrix(block + "shortconv.out_proj.weight", hidden, hidden)

    def latent_attention(block):
        rank, query_rank, plain, value = extras["latent"]
        if query_rank:
            matrix(block + "attn_q_a.weight", query_rank, hidden)
            vector(block + "attn_q_a_norm.weight", query_rank, 1.0)
        matrix(block + ("attn_q_b.weight" if query_rank else "attn_q.weight"), heads * (plain + rope), query_rank or hidden)
        matrix(block + "attn_kv_a_mqa.weight", rank + rope, hidden)
        vector(block + "attn_kv_a_norm.weight", rank, 1.0)
        if joined_heads:
            matrix(block + "attn_kv_b.weight", heads * (plain + value), rank)
        else:
            matrices(block + "attn_k_b.weight", heads, rank, plain)
            matrices(block + "attn_v_b.weight", heads, value, rank)
        matrix(block + "attn_output.weight", hidden, heads * value)

    def attention(block, layer):
        """With a delta net's model each head has rows of the query, then as many of its gate."""
        whole, own_keys = is_global(layer), layer < layers - extras.get("sharing", 0)
        head = head_size if whole else extras["local_head"]
        rows_q = heads * head * (2 if "delta_net" in extras else 1)
        rows_kv = head * (kv_heads if whole else extras.get("local_kv_heads", kv_heads))
        sizes = {"attn_q": rows_q}
        if own_keys:
            sizes["attn_k"] = rows_kv
        if own_keys and not (whole and extras.get("keys_are_values")):
            sizes["attn_v"] = rows_kv
        biases = every or extras.get("qkv_biases", False)
        linears(block + "attn_qkv", {block + name: rows for name, rows in sizes.items()}, hidden, biases)
        if extras.get("head_norms") or extras.get("all_head_norms"):
            together = extras.get("all_head_norms")
            vector(block + "attn_q_norm.weight", heads * head if together else head, 1.0)
            if own_keys:
                vector(block + "attn_k_norm.weight", kv_heads * head if together else head, 1.0)
        linear(block + "attn_output", hidden, heads * head, every or extras.get("output_bias", False))

    every = extras.get("all_biases", False)
    matrix("token_embd.weight", VOCABULARY, hidden)
    if "layer_embeddings" in extras:
        size = extras["layer_embeddings"]
        matrix("per_layer_token_embd.weight", VOCABULARY, layers * size)
        matrix("per_layer_model_proj.weight", layers * size, hidden)
        vector("per_layer_proj_norm.weight", size, 1.0)
    for i in range(layers):
        block = f"blk.{i}."
        norms = not extras.get("no_norms")
        if norms:
            norm(block + "attn_norm")
        if "latent" in extras:
            latent_attention(block)
        elif i in attending:
            attention(block, i)
        elif "delta_net" in extras:
            delta_net(block)
        elif "short_convolution" in extras:
            short_convolution(block)
        if "mamba" in extras and has_state(extras, i):
            mamba(block)
        if lone and i not in lone:
            continue
        if norms and not lone and not extras.get("no_second_norm"):
            norm(block + ("post_attention_norm" if extras.get("norm_renamed") else "ffn_norm"),
                 "" if extras.get("beside") else ".weight")
        if extras.get("sinks"):
            vector(block + "attn_sinks.weight", heads, 1.0, 1.5)
        if "experts" in extras and i >= extras.get("dense", 0):
            experts(block)
            if not extras.get("experts_beside"):
                continue
        size = feed_forward[i] if isinstance(feed_forward, list) else feed_forward
        gates = {} if extras.get("ungated") else {block + "ffn_gate": size}
        linears(block + "ffn_up", gates | {block + "ffn_up": size}, hidden, every)
        linear(block + "ffn_down", hidden, size, every)
        if extras.get("post_norms"):
            vector(block + "post_attention_norm.weight", hidden, 1.0)
            vector(block + "post_ffw_norm.weight", hidden, 1.0)
        if "layer_embeddings" in extras:
            matrix(block + "inp_gate.weight", extras["layer_embeddings"], hidden)
            matrix(block + "proj.weight", hidden, extras["layer_embeddings"])
            vector(block + "post_norm.weight", hidden, 1.0)
        if "pattern" in extras:
            vector(block + "layer_output_scale.weight", 1, 0.8)
    if not extras.get("no_last_norm"):
        norm("token_embd_norm" if "short_convolution" in extras else "output_norm")
    if extras.get("untied"):
        matrix("output.weight", VOCABULARY, hidden)
    if "labels" in extras:
        matrix("cls.output.weight", len(extras["labels"]), hidden)
    if extras.get("logit_biases"):
        vector("output.bias", VOCABULARY, 0.0, 2.0)
    if extras.get("llama3") and llama3_as_keys:
        w.add_string(f"{architecture}.rope.scaling.type", "llama3")
        w.add_rope_scaling_factor(LLAMA3["factor"])
        w.add_float32(f"{architecture}.rope.scaling.low_freq_factor", LLAMA3["low"])
        w.add_float32(f"{architecture}.rope.scaling.high_freq_factor", LLAMA3["high"])
        w.add_rope_scaling_orig_ctx_len(LLAMA3["original"])
    elif extras.get("long_rope"):
        w.add_rope_scaling_orig_ctx_len(64)
        w.add_rope_scaling_attn_factors(1.19)
        w.add_tensor("rope_factors_short.weight", rng.uniform(1, 2, rope // 2).astype(np.float32))
        w.add_tensor("rope_factors_long.weight", rng.uniform(1, 8, rope // 2).astype(np.float32))
    elif extras.get("llama3"):
        w.add_tensor("rope_freqs.weight", llama3_factors(base, rope))
    elif extras.get("factors"):  # a quarter of the pairs rotates
        w.add_tensor("rope_freqs.weight", np.array([1.0] * (rope // 8) + [1e30] * (rope // 2 - rope // 8), np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def log_probabilities(server, path, ids, count):
    """Of `count` greedy steps: the ids before and the log probabilities behind them."""
    with served(server, path) as post:
        answer = post("/completion", {"prompt": ids, "n_predict": count, "n_probs": VOCABULARY, "temperature": 0,
                                      "cache_prompt": False})
    steps = answer["completion_probabilities"]
    assert len(steps) == count, f"{len(steps)} of {count} steps"
    results = []
    for step in steps:
        by_id = {entry["id"]: entry["logprob"] for entry in step["top_logprobs"]}
        assert sorted(by_id) == list(range(VOCABULARY)), f"{len(by_id)} of {VOCABULARY} tokens"
        results.append((ids, [round(by_id[i], 5) for i in range(VOCABULARY)]))
        ids = ids + [step["id"]]
    return results


def main():
    kept = json.loads((HERE / "reference.json").read_text())["cases"]
    wanted = sys.argv[2:] or list(CASES)
    cases = []
    for case in CASES:
        path = HERE / f"reference_{case}.gguf"
        if case not in wanted:
            cases += [old for old in kept if old["file"] == path.name]
            continue
        write_model(path, case)
        ids = np.random.default_rng(7).integers(3, VOCABULARY, 70).tolist()
        # llama.cpp looks GELU up in a table of half precision: a gate between two halves may become either.
        tolerance = 2e-3 if case.startswith("gemma4") else 5e-5 if CASES[case][8] < 10 else 2e-4
        count = 1 + (GENERATED if has_state(CASES[case][-1], 0) else 0)
        cases += [{"file": path.name, "ids": before, "tolerance": tolerance, "log_probabilities": logs}
                  for before, logs in log_probabilities(sys.argv[1], path, ids, count)[::GENERATED]]
    if "mqa_llama3" in wanted:
        write_model(HERE / "reference_llama3_keys.gguf", "mqa_llama3", llama3_as_keys=True)
    same = next(case for case in cases if case["file"] == "reference_mqa_llama3.gguf")
    cases.append(same | {"file": "reference_llama3_keys.gguf"})
    text = ",\n ".join(json.dumps(case) for case in cases)
    (HERE / "reference.json").write_text(f'{{"cases": [\n {text}\n]}}\n')


if __name__ == "__main__":
    main()
