#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From a GGUF file of the llama or qwen families two whose answers are the same, to measure what a draft model can bring
(docs/performance/steps.md, speculative decoding): a target of the file's size, of whose layers behind the first N the
output projections are zero, so that they add nothing, and a draft model of the first N layers. Every guess is right.
    draft_pair.py MODEL.gguf N TARGET.gguf DRAFT.gguf          Needs: pip install gguf"""
import re
import sys

import gguf


def copy(reader, path, layers, zero_from):
    """The first `layers` layers, those from `zero_from` on without effect."""
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(path, architecture)
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        value, kind = field.contents(), field.types[0]
        if name == f"{architecture}.block_count":
            value = layers
        writer.add_key_value(name, value, kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    for tensor in reader.tensors:
        layer = re.match(r"blk\.(\d+)\.(.*)\.weight$", tensor.name)
        number = int(layer[1]) if layer else -1
        if number >= layers:
            continue
        silent = number >= zero_from and layer[2] in ("attn_output", "ffn_down")
        data = tensor.data * 0 if silent else tensor.data
        writer.add_tensor(tensor.name, data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    model, kept, target, draft = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    reader = gguf.GGUFReader(model)
    all_layers = reader.fields[reader.fields["general.architecture"].contents() + ".block_count"].contents()
    if not 0 < kept < all_layers:
        sys.exit(f"N is {kept}, allowed: 1 to {all_layers - 1}")
    copy(reader, target, all_layers, kept)
    copy(reader, draft, kept, kept)


if __name__ == "__main__":
    main()
