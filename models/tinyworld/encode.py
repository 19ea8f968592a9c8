#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""corpus.txt, val.txt -> train.npz / val.npz (uint16 tokens and document starts)."""
import sys, numpy as np
from tokenizers import Tokenizer
tok = Tokenizer.from_file("tokenizer.json")
for name in ("corpus", "val"):
    docs = open(name + ".txt", encoding="utf-8").read().split("<|endoftext|>")[:-1]
    ids, starts, n = [], [], 0
    for i in range(0, len(docs), 4000):
        for e in tok.encode_batch(docs[i:i + 4000], add_special_tokens=False):
            starts.append(n)
            a = np.array(e.ids + [0], dtype=np.uint16)
            ids.append(a); n += len(a)
    np.savez(("train" if name == "corpus" else "val") + ".npz", ids=np.concatenate(ids), starts=np.array(starts, dtype=np.int64))
    print(name, len(docs), "docs", n, "tokens", "mean", n / len(docs))
