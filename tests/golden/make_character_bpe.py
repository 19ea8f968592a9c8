#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes character_bpe.json: a small vocabulary of Gemma 4's kind (characters merged, spaces spelled U+2581, bytes for what has
no token) and the token ids of awkward texts, by Hugging Face `tokenizers` (PyPI: pip install tokenizers).

    make_character_bpe.py"""
import json
import random

import tokenizers
from make_pre_tokenizers import HERE, PIECES, TEXTS
from tokenizers import Regex
from tokenizers.models import BPE
from tokenizers.normalizers import Replace
from tokenizers.pre_tokenizers import Split
from tokenizers.trainers import BpeTrainer

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>"]


def tokenizer(model):
    made = tokenizers.Tokenizer(model)
    made.normalizer = Replace(" ", "\u2581")
    made.pre_tokenizer = Split(Regex(r"\n+"), "isolated")
    return made


def main():
    generator = random.Random(4)
    texts = TEXTS + ["".join(generator.choices(PIECES, k=generator.randint(2, 24))) for _ in range(100)]
    trained = tokenizer(BPE())
    # Rarer characters are left to bytes.
    trained.train_from_iterator(texts, BpeTrainer(vocab_size=700, limit_alphabet=150, special_tokens=SPECIAL + BYTES))
    model = json.loads(trained.to_str())["model"]
    whole = tokenizer(BPE(model["vocab"], [tuple(merge) for merge in model["merges"]], unk_token="<unk>", byte_fallback=True,
                          fuse_unk=True))
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    golden = {"made_with": f"tokenizers {tokenizers.__version__}", "recipe": "tests/golden/make_character_bpe.py",
              "tokens": tokens, "merges": [" ".join(merge) for merge in model["merges"]], "texts": texts,
              "ids": [whole.encode(text, add_special_tokens=False).ids for text in texts]}
    lines = [f'"{key}": {json.dumps(value, separators=(",", ":"))}' for key, value in golden.items()]
    (HERE / "character_bpe.json").write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main()
