#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Byte-level BPE (GPT-2 pre-tokenizer), 1024 entries, trained on corpus.txt."""
from tokenizers import Tokenizer, models, pre_tokenizers, decoders, trainers, processors
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
tok = Tokenizer(models.BPE())
tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
tok.decoder = decoders.ByteLevel()
tok.post_processor = processors.ByteLevel(trim_offsets=False)
tr = trainers.BpeTrainer(vocab_size=1024, special_tokens=SPECIAL, show_progress=False,
                         initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
text = open("corpus.txt", encoding="utf-8").read()[:12_000_000]
for s in SPECIAL:
    text = text.replace(s, "\n\x00")
parts = [p for p in text.split("\x00")]
tok.train_from_iterator(parts, tr)
assert tok.get_vocab_size() == 1024
assert [tok.token_to_id(s) for s in SPECIAL] == [0, 1, 2]
tok.save("tokenizer.json")
print("vocab", tok.get_vocab_size())
