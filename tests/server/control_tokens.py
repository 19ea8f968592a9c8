# SPDX-License-Identifier: Apache-2.0
"""The demo model with control tokens of other models."""
import pathlib
import struct

DEMO = pathlib.Path(__file__).parents[2] / "models/tinyworld/tinyworld-f16.gguf"


class Header:
    """Reads what stands before a GGUF file's tensors, and notes where."""
    SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
    STRING, ARRAY = 8, 9

    def __init__(self, data):
        self.data, self.at, self.places = data, 24, {}
        tensors, pairs = struct.unpack_from("<QQ", data, 8)
        for _ in range(pairs):
            key = self.text()
            self.places[key] = (self.at + 16, self.value(self.number("I")))
        for _ in range(tensors):
            self.text()
            dimensions = self.number("I")
            self.at += 8 * dimensions + 12

    def number(self, kind):
        value = struct.unpack_from("<" + kind, self.data, self.at)[0]
        self.at += struct.calcsize("<" + kind)
        return value

    def text(self):
        length = self.number("Q")
        self.at += length
        return self.data[self.at - length:self.at].decode()

    def value(self, kind):
        if kind == self.STRING:
            return self.text()
        if kind == self.ARRAY:
            inner, count = self.number("I"), self.number("Q")
            return [self.value(inner) for _ in range(count)]
        self.at += self.SIZES[kind]
        return self.data[self.at - self.SIZES[kind]:self.at]


def with_control_tokens(names):
    """The demo model with these in the place of tokens for bytes that UTF-8 has not; and their ids."""
    data = DEMO.read_bytes()
    header = Header(data)
    types_at = header.places["tokenizer.ggml.token_type"][0]
    tokens_at, tokens = header.places["tokenizer.ggml.tokens"]
    unused = [tokens.index(chr(byte)) for byte in (0xC0, 0xC1, *range(0xF5, 0x100))]
    ids = dict(zip(names, unused))
    new = dict(zip(unused, names))
    changed = bytearray(data)
    for token in ids.values():
        struct.pack_into("<i", changed, types_at + 4 * token, 3)
    old_list = b"".join(struct.pack("<Q", len(text.encode())) + text.encode() for text in tokens)
    new_list = b"".join(struct.pack("<Q", len(text.encode())) + text.encode()
                        for text in (new.get(i, text) for i, text in enumerate(tokens)))
    assert changed[tokens_at:tokens_at + len(old_list)] == old_list
    head = changed[:tokens_at] + new_list + changed[tokens_at + len(old_list):header.at]
    head += bytes(-len(head) % 32)
    return bytes(head + changed[header.at + (-header.at % 32):]), ids
