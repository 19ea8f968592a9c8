#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A LoRA adapter of random numbers for a model, as GGUF, written from the format's description.
    write_adapter.py INFLIGHT MODEL OUT [RANK] [SEED] [STRENGTH]
RANK 16; SEED 1; STRENGTH 0.3: how large its products are beside the model's. alpha is twice the rank."""
import array
import json
import random
import struct
import subprocess
import sys

ALIGNMENT, F32, STRING, FLOAT = 32, 0, 8, 6


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def write_adapter(program, model, out, rank=16, seed=1, strength=0.3):
    shown = subprocess.run([program, "inspect", str(model), "--json"], capture_output=True, text=True, check=True)
    spec = json.loads(shown.stdout)["spec"]
    hidden, inner = spec["hidden_size"], spec["feed_forward_size"]
    query, key = (spec[name] * spec["head_size"] for name in ("head_count", "kv_head_count"))
    shapes = {"attn_q": (hidden, query), "attn_k": (hidden, key), "attn_v": (hidden, key), "attn_output": (query, hidden),
              "ffn_gate": (hidden, inner), "ffn_up": (hidden, inner), "ffn_down": (inner, hidden)}
    numbers = random.Random(seed)
    entries, data, offset = [], [], 0

    def add(name, columns, rows, spread):
        nonlocal offset
        values = array.array("f", (numbers.uniform(-spread, spread) for _ in range(columns * rows))).tobytes()
        entries.append(text(name) + struct.pack("<IQQIQ", 2, columns, rows, F32, offset))
        data.append(values + b"\0" * (-len(values) % ALIGNMENT))
        offset += len(data[-1])

    for layer in range(spec["layer_count"]):
        for target, (depth, outputs) in shapes.items():
            name = f"blk.{layer}.{target}.weight"
            add(name + ".lora_a", depth, rank, (3 / depth) ** 0.5)
            add(name + ".lora_b", rank, outputs, strength / 2 * (3 / rank) ** 0.5)
    keys = [text(name) + struct.pack("<I", STRING) + text(value) for name, value in
            (("general.type", "adapter"), ("general.architecture", spec["architecture"]), ("adapter.type", "lora"))]
    keys.append(text("adapter.lora.alpha") + struct.pack("<If", FLOAT, 2.0 * rank))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(entries), len(keys)) + b"".join(keys) + b"".join(entries)
    with open(out, "wb") as file:
        file.write(head + b"\0" * (-len(head) % ALIGNMENT) + b"".join(data))


if __name__ == "__main__":
    write_adapter(*sys.argv[1:4], *(kind(given) for kind, given in zip((int, int, float), sys.argv[4:])))
