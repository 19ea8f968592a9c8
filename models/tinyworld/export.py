#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ckpt.pt -> hf/ (float16 safetensors) and tinyworld-*.gguf (F16, Q8_0).  Norm weights are float16-exact too,
so that every artefact but Q8_0 holds exactly the same numbers."""
import json, os, sys, numpy as np, torch, gguf
from safetensors.torch import save_file
NAME = "tinyworld"
CK = sys.argv[1] if len(sys.argv) > 1 else "ckpt.pt"
ck = torch.load(CK, weights_only=True); c = ck["cfg"]
sd = {k: v.to(torch.float16) for k, v in ck["model"].items()}
assert all(torch.isfinite(v).all() for v in sd.values())
hf = {("model." + k): v.contiguous() for k, v in sd.items()}
os.makedirs("hf", exist_ok=True)
save_file(hf, "hf/model.safetensors", metadata={"format": "pt"})
hd = c["dim"] // c["heads"]
TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
dump = lambda p, o: open(p, "w").write(json.dumps(o, indent=2, ensure_ascii=False) + "\n")
dump("hf/config.json", {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": c["vocab"], "hidden_size": c["dim"],
    "intermediate_size": c["ffn"], "num_hidden_layers": c["layers"], "num_attention_heads": c["heads"], "num_key_value_heads": c["kv"],
    "head_dim": hd, "hidden_act": "silu", "max_position_embeddings": c["ctx"], "rms_norm_eps": c["eps"], "rope_theta": c["theta"],
    "rope_scaling": None, "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False, "attention_dropout": 0.0,
    "initializer_range": 0.02, "use_cache": True, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0, "torch_dtype": "float16"})
dump("hf/generation_config.json", {"bos_token_id": 0, "eos_token_id": [2, 0], "pad_token_id": 0, "do_sample": False, "max_new_tokens": 256})
tj = json.load(open("tokenizer.json")); dump("hf/tokenizer.json", tj)
special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
dump("hf/tokenizer_config.json", {
    "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": c["ctx"], "bos_token": special[0], "eos_token": special[2],
    "pad_token": special[0], "add_bos_token": False, "add_eos_token": False, "clean_up_tokenization_spaces": False, "add_prefix_space": False,
    "added_tokens_decoder": {str(i): {"content": s, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": True}
                             for i, s in enumerate(special)}, "chat_template": TEMPLATE})
dump("hf/special_tokens_map.json", {"bos_token": special[0], "eos_token": special[2], "pad_token": special[0]})

vocab = sorted(tj["model"]["vocab"].items(), key=lambda kv: kv[1])
assert [i for _, i in vocab] == list(range(c["vocab"]))
merges = [m if isinstance(m, str) else " ".join(m) for m in tj["model"]["merges"]]


def permute(w, n_head):            # HF half-rotation rows -> llama.cpp interleaved rows
    return w.reshape(n_head, 2, w.shape[0] // n_head // 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)


def write_gguf(path, kind):
    w = gguf.GGUFWriter(path, "llama")
    w.add_name(NAME); w.add_description("Very small story and chat model, trained from scratch on generated text")
    w.add_context_length(c["ctx"]); w.add_embedding_length(c["dim"]); w.add_block_count(c["layers"]); w.add_feed_forward_length(c["ffn"])
    w.add_head_count(c["heads"]); w.add_head_count_kv(c["kv"]); w.add_layer_norm_rms_eps(c["eps"]); w.add_rope_freq_base(c["theta"])
    w.add_rope_dimension_count(hd); w.add_vocab_size(c["vocab"]); w.add_key_length(hd); w.add_value_length(hd)
    w.add_file_type({"F16": gguf.LlamaFileType.MOSTLY_F16, "Q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}[kind])
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    w.add_tokenizer_model("gpt2"); w.add_tokenizer_pre("gpt-2")
    w.add_token_list([t for t, _ in vocab]); w.add_token_merges(merges)
    w.add_token_types([gguf.TokenType.CONTROL if i < 3 else gguf.TokenType.NORMAL for i in range(c["vocab"])])
    w.add_bos_token_id(0); w.add_eos_token_id(2); w.add_eot_token_id(2); w.add_pad_token_id(0); w.add_add_bos_token(False); w.add_add_space_prefix(False)
    w.add_chat_template(TEMPLATE)
    names = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
             "post_attention_layernorm": "ffn_norm"}
    for k, v in sd.items():
        a = v.numpy()
        if k == "embed_tokens.weight": n = "token_embd.weight"
        elif k == "norm.weight": n = "output_norm.weight"
        else:
            _, i, rest = k.split(".", 2); n = "blk.%s.%s.weight" % (i, names[rest[:-7]])
            if "q_proj" in rest: a = permute(a, c["heads"])
            if "k_proj" in rest: a = permute(a, c["kv"])
        if a.ndim == 1:
            w.add_tensor(n, a.astype(np.float32))
        elif kind == "F16":
            w.add_tensor(n, np.ascontiguousarray(a))
        else:
            q = gguf.quants.quantize(np.ascontiguousarray(a.astype(np.float32)), gguf.GGMLQuantizationType.Q8_0)
            w.add_tensor(n, q, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()


for kind in ("F16", "Q8_0"):
    write_gguf("%s-%s.gguf" % (NAME, kind.lower()), kind)
for f in ["hf/" + name for name in sorted(os.listdir("hf"))] + ["%s-%s.gguf" % (NAME, kind) for kind in ("f16", "q8_0")]:
    print("%-40s %9d" % (f, os.path.getsize(f)))
print("params", sum(v.numel() for v in sd.values()), "step", ck["step"], "val", ck["val"])
