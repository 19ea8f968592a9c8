#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes quants.gguf: one tensor "input" (F32) and its rounding to every type as PyPI's gguf package does it, tensors
"F16", "BF16", "Q8_0", "Q4_0"; for the types that are only read, random blocks; and "<type>_back", what that package
reads back.    make_quants.py OUT    (pip install gguf)"""
import sys

import gguf
import numpy as np
from gguf.constants import GGMLQuantizationType as T

COLUMNS = 64


def blocks():
    rng = np.random.default_rng(20250101)
    zeros = np.zeros(32, np.float32)
    yield zeros
    yield np.where(np.arange(32) % 3 == 0, np.float32(-0.0), np.float32(1))
    yield np.arange(32, dtype=np.float32)
    yield np.float32(-16) + np.arange(32, dtype=np.float32)  # the largest is negative
    ties = zeros.copy()  # scale 1 in Q8_0: halves fall between two integers
    ties[:12] = 127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5, -126.5, 63.5, 64.5, -127
    yield ties
    ties = zeros.copy()  # scale 1 in Q4_0, and both signs as large: the first decides
    ties[:10] = -8, 8, 7.5, -7.5, 0.5, -0.5, 1.5, -1.5, 6.5, 7.49999
    yield ties
    yield ties[::-1].copy()
    yield np.where(np.arange(32) == 17, np.float32(3e-7), np.float32(0))  # the scale is subnormal in F16
    yield rng.standard_normal(32).astype(np.float32) * np.float32(1e-9)   # the scale is 0 in F16
    yield rng.standard_normal(32).astype(np.float32) * np.float32(2e4)
    yield np.float32(2.0) ** rng.integers(-24, 15, 32).astype(np.float32)
    yield from blocks_that_tell_fused_rounding(rng, 8)
    for scale in np.geomspace(1e-5, 1e4, 53):
        yield rng.standard_normal(32).astype(np.float32) * np.float32(scale)
    for _ in range(64):
        yield rng.standard_normal(32).astype(np.float32) * np.float32(0.02)


def blocks_that_tell_fused_rounding(rng, count):
    """Blocks that Q4_0 stores otherwise when product and sum are rounded once, by a fused multiply-add."""
    while count > 0:
        x = (rng.standard_normal(32) * 0.05).astype(np.float32)
        x = (x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)  # few digits: ties are common
        inverse = np.float32(1) / (x[np.abs(x).argmax()] / np.float32(-8))
        fused = (x.astype(np.float64) * np.float64(inverse) + 8.5).astype(np.float32)
        if (np.trunc(fused) != np.trunc(x * inverse + np.float32(8.5))).any():
            count -= 1
            yield x


# Bytes of a block's half scales, which random bits would often make infinite.
READ_ONLY = {T.Q4_1: (0, 2), T.Q5_0: (0,), T.Q5_1: (0, 2), T.Q2_K: (80, 82), T.Q3_K: (108,), T.Q4_K: (0, 2),
             T.Q5_K: (0, 2), T.Q6_K: (208,), T.IQ4_NL: (0,), T.IQ4_XS: (0,), T.MXFP4: ()}


def random_blocks(kind, scales, rng, rows=3, columns=512):
    numbers, size = gguf.GGML_QUANT_SIZES[kind]
    stored = rng.integers(0, 256, (rows, columns // numbers, size), dtype=np.uint8)
    for at in scales:
        halves = (rng.standard_normal((rows, columns // numbers, 1)) * 0.01).astype(np.float16)
        stored[:, :, at:at + 2] = halves.view(np.uint8)
    return stored.reshape(rows, -1)


def main():
    x = np.stack(list(blocks())).reshape(-1, COLUMNS)
    assert np.isfinite(x).all() and np.abs(x).max() < 65504
    writer = gguf.GGUFWriter(sys.argv[1], "llama")
    writer.add_tensor("input", x)
    for kind in (T.F16, T.BF16, T.Q8_0, T.Q4_0):
        stored = gguf.quants.quantize(x, kind)
        writer.add_tensor(kind.name, stored, raw_dtype=kind)
        writer.add_tensor(kind.name + "_back", gguf.quants.dequantize(stored, kind).astype(np.float32))
    rng = np.random.default_rng(20261121)
    for kind, scales in READ_ONLY.items():
        stored = random_blocks(kind, scales, rng)
        writer.add_tensor(kind.name, stored, raw_dtype=kind)
        writer.add_tensor(kind.name + "_back", gguf.quants.dequantize(stored, kind).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main()
