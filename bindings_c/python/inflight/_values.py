# SPDX-License-Identifier: Apache-2.0
"""Python's values as the C interface takes them. ctypes cuts a number to the bits of its C type and the library reads a text up
to a NUL: what does not fit is refused here."""
from __future__ import annotations

import ctypes
import operator
import os
import typing

from . import _native

Path = typing.Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
Text = typing.Union[str, bytes, bytearray]  # bytes: UTF-8
TEXTS = (str, bytes, bytearray)
Setter = typing.Callable[[typing.Any, typing.List[object]], None]  # of an option; what it must keep alive goes to the list


def integer(name: str, value: typing.Any, kind: typing.Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"option '{name}' is {value!r}, which is of a wrong type") from None
    bits = 8 * ctypes.sizeof(kind)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind(-1).value < 0 else (0, (1 << bits) - 1)
    if not low <= number <= high:
        raise ValueError(f"{name} is {number}, allowed: {low} to {high}")
    return number


def ids_of(name: str, values: typing.Iterable[int]) -> ctypes.Array[ctypes.c_int32]:
    ids = list(values)
    try:
        ids = [operator.index(value) for value in ids]  # NumPy's integers, too
    except TypeError:
        pass  # said below
    for extreme in (min(ids), max(ids)) if ids else ():
        integer(f"an entry of {name}", extreme, ctypes.c_int32)
    return (ctypes.c_int32 * len(ids))(*ids)


def utf8(text: Text) -> bytes:
    return text.encode() if isinstance(text, str) else bytes(text)


def string(name: str, value: Text) -> bytes:
    if not isinstance(value, TEXTS):
        raise TypeError(f"option '{name}' is {value!r}, which is of a wrong type")
    data = utf8(value)
    if b"\0" in data:
        raise ValueError(f"{name} is {os.fsdecode(data)!r}, allowed: text without NUL")
    return data


def strings(name: str, values: typing.Sequence[Text]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * len(values))(*[string(name, value) for value in values])


def path_of(name: str, value: Path) -> bytes:
    return string(name, os.fsencode(value))


def fill(params: ctypes.Structure, options: typing.Mapping[str, typing.Any],
          special: typing.Mapping[str, Setter]) -> list[object]:
    """Sets a parameter struct's fields by name; what they point to is returned, to be kept alive."""
    kept: list[object] = []
    fields = {field[0]: field[1] for field in params._fields_}
    for name, value in options.items():
        if name in special:
            special[name](value, kept)
        elif name not in fields or name.startswith(("reserved", "struct_size", "prompt_length")) or name.endswith("_count"):
            raise TypeError(f"unknown option '{name}'")
        elif value is not None:
            names = _native.ENUMERATIONS.get(name, {})
            if names and isinstance(value, str):
                if value not in names:
                    raise ValueError(f"{name} is {value!r}, allowed: {', '.join(names)}")
                value = names[value]
            if fields[name] in _native.INTEGERS:
                value = integer(name, value, fields[name])
            elif fields[name] is ctypes.c_char_p:
                value = string(name, value)
            try:
                setattr(params, name, value)
            except TypeError:
                raise TypeError(f"option '{name}' is {value!r}, which is of a wrong type") from None
    return kept
