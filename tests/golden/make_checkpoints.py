#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small random models as transformers saves them, and what transformers makes of them.

    make_checkpoints.py        (pip install transformers torch)

Writes checkpoints/NAME/ and checkpoints.json: texts with their token ids, and the log probabilities of all tokens behind one list
of ids, computed in float32 from the weights as they are stored."""
import json
import pathlib
import shutil

import tokenizers
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
TEXTS = ["Hello, world!", "  two  spaces\n\nand 12345 digits", "It's 3.14 o'clock, isn't it?", "",
         "caf\u00e9 \u00e9 \u65e5\u672c \U0001F642", "<|im_start|>user\nHi<|im_end|>\n", "x<extra>y", "\t\r\n  end "]
CORPUS = ["Hello world, this is a small text about a dog that ran home in 12345 days.",
          "It's a caf\u00e9, isn't it? \u65e5\u672c \u65e5\u672c the the the",
          "one two three  four\n\nfive six seven; eight nine ten: 10 20 30",
          "the dog and the cat and the fox ran and ran home"] * 4
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "max_position_embeddings": 128, "vocab_size": 400}
LLAMA3_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
                  r"\s+(?!\S)|\s+")
QWEN2_PATTERN = LLAMA3_PATTERN.replace("{1,3}", "")


def by_bytes(steps, normalizer=None, **model):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(**model))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(steps) if len(steps) > 1 else steps[0]
    tokenizer.normalizer = normalizer
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=360, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
                                             show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def split(pattern):
    return [tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated"),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]


def sentencepiece(prepends):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    steps = [tokenizers.normalizers.Prepend("\u2581")] if prepends else []
    tokenizer.normalizer = tokenizers.normalizers.Sequence([*steps, tokenizers.normalizers.Replace(" ", "\u2581")])
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=360, show_progress=False, special_tokens=[
        "<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))])
    tokenizer.train_from_iterator(CORPUS, trainer)
    if not prepends:  # as Gemma's
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split(" ", "merged_with_previous")
    told = json.loads(tokenizer.to_str())  # bytes are no special tokens, which a text could spell
    told["added_tokens"] = told["added_tokens"][:3]
    return tokenizers.Tokenizer.from_str(json.dumps(told))


def surround(tokenizer, template, token):
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single=template, special_tokens=[(token, tokenizer.token_to_id(token))])


def digits():
    return [tokenizers.pre_tokenizers.Digits(individual_digits=True), tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)]


def cases():
    """name, configuration, tokenizer, begin token, end token, how weights are saved"""
    yield ("llama", transformers.LlamaConfig(**SIZES, rope_scaling=LLAMA3, rope_theta=500.0, tie_word_embeddings=False),
           by_bytes(split(LLAMA3_PATTERN), ignore_merges=True), "<|begin|>", "<|end|>", {"max_shard_size": "30KB"})
    yield ("smollm", transformers.LlamaConfig(**SIZES, tie_word_embeddings=True, attention_bias=True), by_bytes(digits()),
           None, "<|im_end|>", {})
    yield ("mistral", transformers.MistralConfig(**SIZES | {"head_dim": 16}, sliding_window=24), sentencepiece(True), "<s>",
           "</s>", {})
    yield ("qwen2", transformers.Qwen2Config(**SIZES, rope_theta=1e6),
           by_bytes(split(QWEN2_PATTERN), tokenizers.normalizers.NFC()), None, "<|im_end|>", {})
    yield ("qwen3", transformers.Qwen3Config(**SIZES, head_dim=16, tie_word_embeddings=True),
           by_bytes(split(QWEN2_PATTERN), tokenizers.normalizers.NFC()), None, "<|im_end|>", {})
    yield ("granite", transformers.GraniteConfig(**SIZES, embedding_multiplier=6.0, residual_multiplier=0.22, logits_scaling=8.0,
                                                 attention_multiplier=0.5), by_bytes(digits()), None, "<|im_end|>", {})
    yield ("smollm3", transformers.SmolLM3Config(**SIZES | {"num_hidden_layers": 5}, tie_word_embeddings=True),
           by_bytes(split(LLAMA3_PATTERN), ignore_merges=True), None, "<|im_end|>", {})
    yield ("olmo2", transformers.Olmo2Config(**SIZES), by_bytes(digits()), None, "<|im_end|>", {})
    yield ("gemma3", transformers.Gemma3TextConfig(**SIZES | {"num_hidden_layers": 7, "head_dim": 16}, sliding_window=24,
                                                   query_pre_attn_scalar=24), sentencepiece(False), "<s>", "</s>", {})
    yield ("phi3", transformers.Phi3Config(
        **SIZES, sliding_window=24, pad_token_id=0, original_max_position_embeddings=32, partial_rotary_factor=0.75,
        rope_scaling={"type": "longrope", "short_factor": [1.0, 1.1, 1.3], "long_factor": [2.0, 3.0, 5.0]}), by_bytes(digits()),
        None, "<|im_end|>", {})
    yield ("qwen3_classifier", transformers.Qwen3Config(**SIZES, head_dim=16, num_labels=3),
           by_bytes(split(QWEN2_PATTERN), tokenizers.normalizers.NFC()), None, "<|im_end|>", {})


def main():
    shutil.rmtree(HERE / "checkpoints", ignore_errors=True)
    told = []
    for number, (name, config, tokenizer, begin, end, saving) in enumerate(cases()):
        torch.manual_seed(number)
        folder = HERE / "checkpoints" / name
        classifies = name.endswith("classifier")
        tokenizer.add_special_tokens([token for token in (begin, end, "<|im_start|>", "<|im_end|>", "<|endoftext|>")
                                      if token and tokenizer.token_to_id(token) is None])
        tokenizer.add_tokens([tokenizers.AddedToken("<extra>", normalized=False)])
        if begin:
            surround(tokenizer, f"{begin} $A", begin)
        elif classifies:  # as Qwen3-Embedding's
            surround(tokenizer, "$A <|endoftext|>", "<|endoftext|>")
        config.eos_token_id = tokenizer.token_to_id(end)
        config.bos_token_id = tokenizer.token_to_id(begin) if begin else None
        kind = transformers.AutoModelForSequenceClassification if classifies else transformers.AutoModelForCausalLM
        config.pad_token_id = 0 if classifies else None
        model = kind.from_config(config)
        with torch.no_grad():  # so that nothing is 0 or 1
            for weight in model.parameters():
                weight.add_(torch.randn_like(weight) * (0.3 if weight.dim() == 1 else 0.15))
        stored = torch.float16 if name == "qwen2" else torch.bfloat16
        model.to(stored).save_pretrained(folder, **saving)
        if name in ("smollm3", "gemma3", "phi3", "olmo2"):  # as by hand: without the defaults
            stated = json.loads((folder / "config.json").read_text())
            default = type(config)(**({"pad_token_id": 0} if name in ("smollm3", "phi3") else {}))
            for key in ("rope_theta", "rms_norm_eps"):
                if stated[key] == getattr(default, key):
                    del stated[key]
            (folder / "config.json").write_text(json.dumps(stated, indent=2) + "\n")
        fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=begin, eos_token=end)
        fast.save_pretrained(folder)
        model = kind.from_pretrained(folder, dtype=torch.float32).eval()
        ids = torch.randint(3, 340, (1, 40), generator=torch.Generator().manual_seed(number))
        with torch.no_grad():
            logits = model(ids, attention_mask=torch.ones_like(ids)).logits.double()
        last = logits[0] if classifies else logits[0, -1]
        told.append({"folder": name, "texts": [{"text": text, "ids": fast(text)["input_ids"]} for text in TEXTS],
                     "ids": ids[0].tolist(), "log_probabilities": [round(x, 5) for x in torch.log_softmax(last, -1).tolist()]})
    text = ",\n ".join(json.dumps(case) for case in told)
    (HERE / "checkpoints.json").write_text(f'{{"cases": [\n {text}\n]}}\n')


if __name__ == "__main__":
    main()
