#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The model of reference_gqa_linear.gguf in several files, as PyPI's gguf package writes them.

    make_parts.py        (pip install gguf numpy)

Writes parts-0000?-of-0000?.gguf."""
import functools

import gguf
import make_reference

make_reference.gguf.GGUFWriter = functools.partial(gguf.GGUFWriter, split_max_tensors=12)
make_reference.write_model(make_reference.HERE / "parts.gguf", "gqa_linear")
