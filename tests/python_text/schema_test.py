#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Grammars of JSON schemas against python's jsonschema: random texts under the mask are valid, valid documents are given,
invalid ones are not; on schemas by hand and on generated ones.    schema_test.py FOLLOW_GRAMMAR MODEL"""
import fractions
import json
import random
import subprocess
import sys
import unittest

try:
    import jsonschema
except ImportError:
    print("skipped: needs Python's jsonschema (Debian package python3-jsonschema)")
    sys.exit(77)

PROGRAM, MODEL = sys.argv[1:3]
FORMATS = jsonschema.FormatChecker(formats=["date", "ipv4", "ipv6", "email", "uuid"])


def multiple_of(validator, step, instance, schema):
    """In decimal digits, where jsonschema divides floating-point numbers."""
    if validator.is_type(instance, "number") and fractions.Fraction(str(instance)) % fractions.Fraction(str(step)):
        yield jsonschema.ValidationError(f"{instance} is no multiple of {step}")


DRAFT = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"multipleOf": multiple_of})

# (schema, valid documents, invalid ones)
CASES = [
    (True, [None, 1, "x", [1], {"a": []}], []),
    ({"type": "string"}, ["", "é\n\"\\/🙂"], [1, None]),
    ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "a🙂c", "\n\t"], ["a", "abcd"]),
    ({"type": "string", "pattern": "^[a-c]+\"?$"}, ["abc", "a\""], ["", "d", "a\"\""]),
    ({"type": "string", "pattern": "x\\d"}, ["ax1b", "x0"], ["x", "xa"]),
    ({"type": "string", "format": "date"}, ["2024-02-28", "1999-12-31"], ["2024-13-01", "2024-02-31", "24-01-01"]),
    ({"type": "string", "format": "ipv4"}, ["0.0.0.0", "255.1.20.199"], ["256.1.1.1", "1.1.1"]),
    ({"type": "string", "format": "uuid"}, ["123e4567-e89b-12d3-a456-426614174000"], ["123e4567"]),
    ({"type": "string", "format": "email"}, ["a.b@c-d.org"], ["ab", "a.b"]),
    ({"type": "string", "format": "ipv6"},
     ["::", "::1", "1::", "1:2:3:4:5:6:7:8", "fe80::aB:1", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1::3:4:5:6:7:8",
      "1:2:3::7:8", "::1.2.3.4", "::ffff:192.168.0.1"],
     ["", ":", "1", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3", "12345::", "::g", ":::", "1:2:3:4:5:6:7:8::",
      "1.2.3.4", "::1.2.3.256"]),
    ({"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5}, ["ab", "abcde"], ["a", "abcdef", "aB", ""]),
    ({"type": "string", "pattern": "\\d", "maxLength": 3}, ["1", "a🙂2", "\n1\"", "\x011"], ["", "abc", "abc1"]),
    ({"type": "string", "pattern": "^[^a]+$", "minLength": 3}, ["é字🙂", "\"\\\n", "bcdefg"], ["é字", "bac", "bb"]),
    ({"type": "array", "maxItems": 1000, "items":
      {"type": "array", "maxItems": 100, "items": {"type": "string", "maxLength": 100}}},
     [[], [["a" * 100] * 100, []], [["a"]] * 1000], [["a"], [["a" * 101]], [["a"] * 101], [[]] * 1001]),
    ({"type": "object", "properties": {str(i): {"type": "string", "maxLength": 65535} for i in range(12)}},
     [{}, {"0": "a", "11": "é" * 9000}], [{"0": 1}]),
    ({"type": "string", "maxLength": 1e300, "minLength": 1.0}, ["a", "abc"], [""]),
    ({"type": "integer", "enum": [1e19, 2.5]}, [1e19], [2.5, 3]),
    ({"type": "string", "pattern": "^a", "minLength": 0}, ["a", "abc"], ["", "ba"]),
    ({"type": "string", "pattern": "^(ab)*$", "minLength": 3, "maxLength": 5000}, ["abab", "ab" * 200], ["ab", "abc", ""]),
    ({"anyOf": [{"type": "string", "pattern": "^(ab)*$", "minLength": 3, "maxLength": 3}, {"type": "null"}]},
     [None], ["ab", "abab", "aba"]),
    ({"type": "string", "format": "date", "pattern": "^2024-0[12]", "maxLength": 10}, ["2024-02-28"],
     ["2023-02-28", "2024-03-01"]),
    ({"type": "integer", "multipleOf": 7}, [0, 7, -14, 7 * 10**18], [1, -6, 15]),
    ({"type": "integer", "multipleOf": 5, "minimum": 0, "maximum": 50}, list(range(0, 51, 5)), [-5, 1, 49, 55, 7.5]),
    ({"type": "integer", "multipleOf": 2.5, "exclusiveMinimum": -10}, [-5, 0, 10], [-10, 2, 2.5]),
    ({"type": "integer", "multipleOf": 1}, [0, 13], [1.5]),
    ({"type": "number", "multipleOf": 0.01, "minimum": 0, "maximum": 5}, [0, 1, 0.07, 4.99, 5, 2.5], [0.001, 5.01, -1]),
    ({"type": "number", "multipleOf": 0.25}, [0, -0.75, 10.5, 3], [0.1, 1.3, 0.255]),
    ({"type": "number", "multipleOf": 30}, [0, 90, -30], [1, 30.5, 45]),
    ({"anyOf": [{"type": "integer", "multipleOf": 4, "minimum": 5, "maximum": 7}, {"const": "x"}]}, ["x"], [4, 6, 8]),
    ({"type": "integer"}, [0, -1, 123456789012345678901234567890], [1.5, "1", True]),
    ({"type": "number"}, [0, -1.5, 1e300, 2.5e-7], ["1", None]),
    ({"type": "integer", "minimum": -3, "exclusiveMaximum": 12}, [-3, 0, 9, 10, 11], [-4, 12, 100]),
    ({"type": "number", "exclusiveMinimum": 0, "maximum": 1.25}, [0.001, 1, 1.25, 0.999], [0, 1.26, 2, -0.5]),
    ({"type": "integer", "minimum": 9223372036854775807, "maximum": 18446744073709551615},
     [2**63 - 1, 2**63, 10**19, 2**64 - 1], [2**63 - 2, 2**64, 0, -2**63]),
    ({"type": "integer", "minimum": -9223372036854775808, "exclusiveMaximum": -999999999999999999},
     [-2**63, -10**18, -5 * 10**18], [-2**63 - 1, -10**18 + 1, 0, 10**18]),
    ({"type": "integer", "minimum": 9223372036854775807, "exclusiveMinimum": 9223372036854775800, "maximum": 1e20},
     [2**63 - 1, 10**20], [2**63 - 2, 10**20 + 1]),
    ({"type": "integer", "minimum": 1e15, "maximum": 1e+16}, [10**15, 10**16], [10**15 - 1, 10**16 + 1]),
    ({"anyOf": [{"type": "integer", "exclusiveMinimum": -0.5, "exclusiveMaximum": 0}, {"type": "null"}]},
     [None], [0, 1, -1]),
    ({"type": "integer", "exclusiveMinimum": -1.5, "exclusiveMaximum": 2}, [-1, 0, 1], [-2, 2]),
    ({"type": "number", "minimum": 1e-06, "maximum": 1.25e-3}, [0.0005, 0.00125, 0.0001], [0, 0.00126, 0.5, 1]),
    ({"type": "number", "minimum": -1.7976931348623157e308, "maximum": 1.7976931348623157e308}, [0, -1.5, 10**307], []),
    ({"type": "number", "minimum": 5e-324, "maximum": 3.4028234663852886e+38}, [0.5, 10**38], [0, -1, 10**39]),
    ({"type": "number", "multipleOf": 1e-07, "minimum": 0}, [0, 0.25, 3], []),
    ({"type": ["string", "null"]}, ["x", None], [1]),
    ({"enum": ["a", 1, None, [1, {"b": 2}], "ü\"", True]}, ["a", 1, None, [1, {"b": 2}], "ü\"", True], ["b", 2, []]),
    ({"enum": ["a", 1], "type": "string"}, ["a"], [1]),
    ({"type": "integer", "enum": [1, 2, 3, 18446744073709551615], "minimum": 2, "exclusiveMaximum": 2**64 - 1}, [2, 3],
     [1, 2**64 - 1, 4]),
    ({"type": "string", "enum": ["a", "b", "é字", "abc"], "minLength": 2, "maxLength": 2}, ["é字"], ["a", "b", "abc"]),
    ({"enum": ["ab", "xb", 7, None, 7.5, -0.25], "pattern": "^a", "multipleOf": 0.5, "exclusiveMaximum": 7.5}, ["ab", 7, None],
     ["xb", 7.5, -0.25]),
    ({"enum": ["2024-02-28", "2024-02-31", 5], "format": "date"}, ["2024-02-28", 5], ["2024-02-31"]),
    ({"type": "array", "items": {"enum": ["x", "yy"], "maxLength": 1}, "uniqueItems": True}, [[], ["x"]], [["yy"], ["x", "x"]]),
    ({"anyOf": [{"const": 5, "maximum": 4}, {"enum": ["a"], "maxLength": 0}, {"type": "null"}]}, [None], [5, "a"]),
    ({"oneOf": [{"enum": [1, 2], "maximum": 1}, {"enum": [1, 2], "minimum": 2}]}, [1, 2], [3]),
    ({"type": "object", "propertyNames": {"enum": ["p", "qq"], "maxLength": 1}, "additionalProperties": {"type": "integer"}},
     [{}, {"p": 1}], [{"qq": 1}]),
    ({"const": {"a": [1, 2]}}, [{"a": [1, 2]}], [{"a": [1]}, {}]),
    ({"type": "array"}, [[], [1, "x", [None]]], [{}]),
    ({"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3}, [[True], [True, False, True]],
     [[], [1], [True] * 4]),
    ({"type": "array", "items": False}, [[]], [[1]]),
    ({"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
     [[], ["a"], ["a", 1]], [[1], ["a", 1, 2]]),
    ({"prefixItems": [{"type": "string"}], "items": {"type": "null"}, "minItems": 2, "maxItems": 3},
     [["a", None], ["a", None, None]], [["a"], ["a", None, None, None], [None, None]]),
    ({"prefixItems": [{}], "minItems": 5, "maxItems": 4, "type": ["array", "null"]}, [None], [[1] * 4, [1] * 5]),
    ({"allOf": [{"type": "integer", "minimum": 9007199254740993}, {"minimum": 9007199254740992}]},
     [9007199254740993], [9007199254740992]),
    ({"type": "object"}, [{}, {"a": 1, "b": {"c": []}}], [[]]),
    ({"type": "object", "properties": {"a": False, "b": {"type": "integer"}}, "additionalProperties": True},
     [{}, {"b": 1}, {"b": 1, "c": "x"}], [{"a": 1}, {"b": 1, "a": None}]),
    ({"type": "object", "properties": {"a": False}, "patternProperties": {"^b": {"type": "integer"}},
      "additionalProperties": {"type": "string"}}, [{}, {"b": 1}, {"c": "x"}], [{"a": "x"}, {"b": "x"}, {"c": 1}]),
    ({"type": "object", "properties": {"a": {"type": "string"}}, "allOf": [{"properties": {"a": {"type": "integer"}}}]},
     [{}], [{"a": []}, {"a": 1}, {"a": "x"}]),
    ({"type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": True,
      "allOf": [{"properties": {"a": False}}]}, [{}, {"b": 1}], [{"a": 1}]),
    ({"type": "object", "allOf": [{"properties": {"ab": {"type": "string"}}},
                                  {"patternProperties": {"^a": {"type": ["string", "integer"]}},
                                   "additionalProperties": False}]},
     [{}, {"ab": "x"}], [{"ab": 5}, {"b": 1}]),
    ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "b"]},
     [{"a": "x", "b": 1}, {"a": "", "b": [None]}], [{"a": "x"}, {"b": 1}]),
    ({"type": "object", "properties": {"a": {"type": "string", "required": True}}}, [{"a": "x"}, {}], [{"a": 1}]),
    ({"type": "object", "minProperties": 1}, [{"a": 1}], [{}]),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, [{}, {"x": 1, "y": 2}], [{"x": "1"}]),
    ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {}}, "required": ["b"]},
     [{"b": ""}, {"a": 1, "b": "x"}, {"a": 1, "b": "x", "c": [1]}, {"b": "x", "c": None}],
     [{}, {"a": 1}, {"a": "x", "b": ""}]),
    ({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}},
     [{}, {"a": 1}, {"a": 1, "b": "x"}, {"ab": "x"}, {"": "x"}], [{"a": "x"}, {"a": 1, "b": 2}]),
    ({"type": "object", "additionalProperties": {"const": 1},
      "properties": {"na\"me": {"type": "null"}, "ü": {"type": "null"}}},
     [{"na\"me": None, "ü": None, "na\"m": 1}, {"u": 1, "na\"mee": 1}], [{"na\"me": 1}, {"ü": 1}]),
    ({"properties": {"a": True}, "required": ["a", "z"], "additionalProperties": {"type": "integer"}},
     [{"a": "x", "z": 1}], [{"a": 1}]),
    ({"type": "object", "patternProperties": {"^[a-c]$": {"type": "integer"}}, "additionalProperties": False},
     [{}, {"a": 1, "c": 2}], [{"a": "x"}, {"d": 1}, {"ab": 1}]),
    ({"type": "object", "patternProperties": {"^x_": {"type": "boolean"}, "y$": {"const": True}}, "maxProperties": 2,
      "additionalProperties": {"type": "integer"}},
     [{}, {"x_": False}, {"x_y": True, "y": True}, {"z": 3}],
     [{"x_": 1}, {"x_y": False}, {"z": True}, {"a": 1, "b": 2, "c": 3}]),
    ({"type": "object", "patternProperties": {"^a": {"type": "number", "minimum": 3}, "\"": {"type": "integer", "maximum": 9}},
      "required": ["ab", "a"], "properties": {"a": {"type": "integer"}, "b": {"type": "null"}}},
     [{"a": 3, "b": None, "ab": 4.5}, {"a": 4, "ab": 3, "q\"": 1, "ac": 7}],
     [{"b": None, "ab": 3}, {"a": 2, "ab": 3}, {"a": 3, "ab": 3, "\"": 10}, {"a": 3, "ab": 3, "a\"": 2}, {"a": 3.5, "ab": 3}]),
    ({"type": "object", "propertyNames": {"enum": ["p", "q\n"]}, "additionalProperties": {"type": "integer"}},
     [{}, {"p": 1}, {"p": 1, "q\n": 2}], [{"r": 1}, {"p": "x"}]),
    ({"$defs": {"c": {"enum": ["r", "g"], "type": "string"}}, "type": "object", "propertyNames": {"$ref": "#/$defs/c"},
      "additionalProperties": {"type": "null"}, "minProperties": 1}, [{"r": None}, {"g": None}],
     [{}, {"b": None}, {"r": 1}]),
    ({"type": "object", "propertyNames": {"pattern": "^[a-c]+$", "maxLength": 2}, "maxProperties": 2,
      "additionalProperties": {"type": "integer"}}, [{}, {"ab": 1, "c": 2}],
     [{"abc": 1}, {"d": 1}, {"a": 1, "b": 2, "c": 3}]),
    ({"type": "object", "propertyNames": {"format": "uuid"}, "additionalProperties": {"type": "integer"}, "minProperties": 1},
     [{"123e4567-e89b-12d3-a456-426614174000": 1}], [{}, {"a": 1}]),
    ({"type": "object", "propertyNames": {"minLength": 2}, "properties": {"a": {}, "bb": {"type": "null"}}},
     [{}, {"bb": None}], [{"a": 1}, {"bb": 1}]),
    ({"type": "object", "propertyNames": False}, [{}], [{"a": 1}]),
    ({"type": "object", "maxProperties": 1, "minProperties": 1}, [{"a": []}], [{}, {"a": 1, "b": 2}]),
    ({"type": "object", "properties": {"a": {"type": "boolean"}}, "additionalProperties": {"type": "integer"},
      "maxProperties": 3}, [{}, {"a": True}, {"b": 1, "c": 2, "d": 3}, {"a": True, "b": 1, "c": 2}],
     [{"a": 1}, {"b": 1, "c": 2, "d": 3, "e": 4}, {"a": True, "b": 1, "c": 2, "d": 3}]),
    ({"type": "object", "properties": {"a": {}}, "additionalProperties": True, "maxProperties": 1},
     [{}, {"a": 1}, {"b": []}], [{"a": 1, "b": 2}, {"b": 1, "c": 2}]),
    ({"type": "object", "properties": {"a": {}, "b": {}, "c": {}, "d": {}}, "required": ["c"], "maxProperties": 2},
     [{"c": 1}, {"a": 1, "c": 2}, {"c": 1, "d": 2}], [{}, {"a": 1}, {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2}]),
    ({"type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": {"type": "null"}, "required": ["b", "z"],
      "maxProperties": 4, "minProperties": 1}, [{"b": 1, "z": None}, {"a": 1, "b": 1, "z": None, "y": None}],
     [{"b": 1}, {"a": 1, "b": 1, "z": None, "y": None, "x": None}]),
    ({"type": "object", "properties": {"a": {}, "b": {}}, "maxProperties": 0}, [{}], [{"a": 1}]),
    ({"type": "object", "properties": {"a": {}, "b": {}}, "maxProperties": 1, "minProperties": 1}, [{"a": 1}, {"b": 1}],
     [{}, {"a": 1, "b": 1}]),
    ({"anyOf": [{"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"], "maxProperties": 1},
                {"type": "null"}]}, [None], [{"a": 1}, {"a": 1, "b": 1}]),
    ({"type": "object", "properties": {f"p{i}": {"enum": [i]} for i in range(128)}, "maxProperties": 2},
     [{}, {"p127": 127}, {"p0": 0, "p99": 99}], [{"p0": 0, "p1": 1, "p2": 2}]),
    ({"type": "object", "properties": {"a": {}, "b": {}}, "minProperties": 1}, [{"a": 1}, {"b": 1}, {"a": 1, "b": 2}],
     [{}]),
    ({"type": "array", "items": {"enum": ["x", "y", "xy", "x"]}, "uniqueItems": True},
     [[], ["y", "x"], ["xy", "x", "y"]], [["x", "x"], ["z"], ["x", "y", "xy", "x"]]),
    ({"type": "array", "items": {"type": "boolean"}, "uniqueItems": True, "minItems": 2, "maxItems": 5},
     [[True, False], [False, True]], [[True], [True, True], [True, False, True]]),
    ({"type": "array", "items": {"$ref": "#/$defs/c"}, "uniqueItems": True, "maxItems": 1, "$defs": {"c": {"type": "integer"}}},
     [[], [7]], [[1, 2]]),
    ({"type": "array", "items": {"type": "null"}, "uniqueItems": False}, [[None, None]], [[1]]),
    ({"anyOf": [{"type": "string"}, {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}]},
     ["s", {"x": 1}], [1, {}]),
    ({"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"], "anyOf": [
        {"properties": {"v": {"type": "integer"}}, "required": ["v"]},
        {"properties": {"w": {"type": "null"}}, "required": ["w"]}]},
     [{"k": "a", "v": 1}, {"k": "a", "w": None}], [{"k": "a"}, {"v": 1}]),
    ({"allOf": [{"properties": {"a": {"type": "number", "minimum": 1}}, "required": ["a"]}, {"$ref": "#/$defs/b"}],
      "$defs": {"b": {"properties": {"a": {"type": "integer", "maximum": 5}, "b": {"type": "null"}}}}},
     [{"a": 1}, {"a": 5, "b": None}], [{"a": 0}, {"a": 6}, {"b": None}, {"a": 1.5}]),
    ({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "properties": {
        "value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
        "required": ["value"], "additionalProperties": False}}},
     [{"value": 1}, {"value": 1, "children": [{"value": 2, "children": []}, {"value": 3}]}],
     [{"children": []}, {"value": 1, "x": 1}]),
    ({"oneOf": [{"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind"]},
                {"$ref": "#/$defs/b%25"}, {"type": "null"}],
      "$defs": {"b%": {"type": "object", "properties": {"kind": {"const": "b"}, "x": {}}, "required": ["kind"]}}},
     [None, {"kind": "a", "x": 1}, {"kind": "b", "x": []}], [{"kind": "c"}, {"kind": "a", "x": []}, {}]),
    ({"allOf": [{"properties": {"a": {}}}], "additionalProperties": {"type": "boolean"}},
     [{"a": True}, {"b": False}], [{"a": 1}, {"b": 1}]),
    ({"allOf": [{"prefixItems": [{"type": "number"}, {"maximum": 5}]}, {"prefixItems": [{"type": "integer"}]}],
      "items": {"type": "integer", "minimum": 2}}, [[], [2], [3, 5], [3, 2, 9]], [[1], [3, 6], [3, 2, 1], ["x"]]),
    ({"type": "string", "anyOf": [{"type": "integer"}, {"minLength": 2}]}, ["ab"], ["a", 12]),
    ({"type": "object", "title": "T",
      "properties": {"next": {"$ref": "#"}, "id": {"type": "integer", "description": "d", "default": 0}}},
     [{}, {"next": {"next": {"id": 4}}}], [{"next": 1}]),
]

# (schema with something that is not supported, what is kept of it, texts that it gives where that is left out)
LENIENT = [
    ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "minItems": 2},
     {"type": "array", "items": {"type": "integer"}, "minItems": 2}, ["[1, 1]"]),
    ({"type": "object", "properties": {"a": {"type": "integer", "not": {"const": 2}}}, "required": ["a"], "if": {}},
     {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, ['{"a": 2}']),
    ({"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 3}]}, {"type": "number"}, ["2", "3.5", "3"]),
    ({"oneOf": [{"type": "object", "properties": {name: {"type": "integer"}}, "required": ["a", "b"]} for name in "ab"]},
     {"type": "object", "required": ["a", "b"]}, ['{"a": 1, "b": 2}']),
    ({"type": "string", "pattern": "^(?=a)", "maxLength": 3}, {"type": "string", "maxLength": 3}, ['"b"']),
    ({"type": "string", "pattern": "^(?=a)"}, {"type": "string"}, ['"b"']),
    ({"$ref": "http://x/y"}, True, ['"b"', "1"]),
    ({"$ref": "http://x/y", "type": "integer"}, {"type": "integer"}, ["1"]),
    ({"type": "integer", "multipleOf": 123456, "maximum": 7}, {"type": "integer", "maximum": 7}, ["5"]),
    ({"enum": ["a", "bc", 7], "minLength": 2, "not": {}}, {"enum": ["bc", 7]}, ['"bc"', "7"]),
    ({"enum": [[1], [1, 2]], "minItems": 2}, {"enum": [[1], [1, 2]]}, ["[1]"]),
    ({"enum": ["a", "b"], "pattern": "^(?=a)"}, {"enum": ["a", "b"]}, ['"b"']),
    ({"type": "object", "properties": {"a": {"type": "null"}, "b": {}}, "minProperties": 2},
     {"properties": {"a": {"type": "null"}}}, ['{"a": null}']),
    ({"type": "object", "properties": {f"p{i}": {} for i in range(129)}, "maxProperties": 1},
     {"type": "object"}, ['{"p0": 1, "p1": 2}']),
    ({"type": "object", "maxProperties": 10001}, {"type": "object"}, ['{"a": 1}']),
    ({"allOf": [{"pattern": "^a"}, {"pattern": "b$"}], "type": "string"}, {"type": "string", "pattern": "^a"}, ['"ac"']),
    ({"allOf": [{"type": "object", "patternProperties": {"^a": {}}, "additionalProperties": False},
                {"additionalProperties": {"type": "integer"}}]}, {"type": "object"}, []),
    ({"type": "object", "propertyNames": {"not": {"const": "a"}, "maxLength": 1}},
     {"propertyNames": {"maxLength": 1}}, ['{"a": 1}']),
]


def random_schema(generator, depth):
    kinds = ["string", "integer", "number", "boolean", "null", "enum", "sized"]
    if depth > 0:
        kinds += ["array", "object", "object", "anyOf", "map", "tuple"]
    kind = generator.choice(kinds)
    if kind == "enum":
        return {"enum": generator.sample(["x", "y z", 3, -1.5, None, True, [1], {"k": "v"}], 3)}
    if kind == "sized":
        low = generator.randint(0, 3)
        return {"type": "string", "minLength": low, "maxLength": low + generator.randint(0, 4)}
    if kind == "integer" and generator.random() < 0.6:
        low = generator.randint(-2000, 2000)
        return {"type": "integer", "minimum": low, "maximum": low + generator.randint(0, 3000)}
    if kind == "number" and generator.random() < 0.6:
        low = generator.randint(-2000, 2000) / 100
        return {"type": "number", "exclusiveMinimum": low, "maximum": round(low + generator.randint(1, 3000) / 100, 2)}
    if kind == "array":
        low = generator.randint(0, 2)
        schema = {"type": "array", "items": random_schema(generator, depth - 1), "minItems": low}
        return schema | ({"maxItems": low + generator.randint(0, 2)} if generator.random() < 0.7 else {})
    if kind == "tuple":
        parts = [random_schema(generator, depth - 1) for _ in range(2)]
        return {"type": "array", "prefixItems": parts, "items": False, "minItems": 1}
    if kind == "anyOf":
        return {"anyOf": [random_schema(generator, depth - 1) for _ in range(2)]}
    if kind == "map":
        return {"type": "object", "additionalProperties": random_schema(generator, depth - 1)}
    if kind == "object":
        names = generator.sample(["a", "ab", "name", "é", "q\"", "x y", "n"], generator.randint(1, 4))
        schema = {"type": "object", "properties": {name: random_schema(generator, depth - 1) for name in names},
                  "required": [name for name in names if generator.random() < 0.5]}
        schema["additionalProperties"] = generator.choice([False, False, {"type": "integer"}])
        return schema
    return {"type": kind}


def random_document(generator, schema):
    """A document that satisfies `schema`, in the order that grammars write."""
    if "enum" in schema:
        return generator.choice(schema["enum"])
    if "anyOf" in schema:
        return random_document(generator, generator.choice(schema["anyOf"]))
    kind = schema["type"]
    if kind == "string":
        length = generator.randint(schema.get("minLength", 0), schema.get("maxLength", 8))
        return "".join(generator.choice("ab \"\\\n\té字🙂/\x01{}[]:,") for _ in range(length))
    if kind == "integer":
        return generator.randint(schema.get("minimum", -10**6), schema.get("maximum", 10**6))
    if kind == "number":
        low, high = schema.get("exclusiveMinimum", -1e3), schema.get("maximum", 1e3)
        return generator.choice([high, round((low + high) / 2, 4), round(low + 0.01 * (high - low), 6)])
    if kind == "array":
        if "prefixItems" in schema:
            count = generator.randint(schema["minItems"], len(schema["prefixItems"]))
            return [random_document(generator, item) for item in schema["prefixItems"][:count]]
        count = generator.randint(schema["minItems"], schema.get("maxItems", schema["minItems"] + 2))
        return [random_document(generator, schema["items"]) for _ in range(count)]
    if kind == "object":
        document = {}
        for name, value in schema.get("properties", {}).items():
            if name in schema["required"] or generator.random() < 0.5:
                document[name] = random_document(generator, value)
        if isinstance(schema["additionalProperties"], dict):
            for name in generator.sample(["zz", "a2", "\"", "q"], generator.randint(0, 2)):
                document[name] = random_document(generator, schema["additionalProperties"])
        return document
    return {"boolean": generator.random() < 0.5, "null": None}[kind]


def spellings(document):
    return [json.dumps(document, ensure_ascii=False), json.dumps(document, ensure_ascii=False, indent=2),
            json.dumps(document, ensure_ascii=False, separators=(",", ":"))]


def answers(tasks):
    text = "".join(json.dumps({"kind": "json_schema", **task}) + "\n" for task in tasks)
    done = subprocess.run([PROGRAM, MODEL], input=text.encode(), capture_output=True, timeout=800, check=True)
    lines = done.stdout.decode().splitlines()
    assert len(lines) == len(tasks)
    return [json.loads(line) for line in lines]


class Schema(unittest.TestCase):
    def check_walks(self, schema, answer):
        self.assertNotIn("error", answer, schema)
        for text in answer["walks"]:
            if text.endswith("<no end>"):  # chance did not find the way out
                continue
            try:
                document = json.loads(text)
            except ValueError as error:
                self.fail(f"{error}: {text!r} under {schema}")
            found = [error.message for error in DRAFT(schema, format_checker=FORMATS).iter_errors(document)]
            self.assertEqual(found, [], f"{text!r} under {schema}")

    def test_cases(self):
        tasks = []
        for number, (schema, good, bad) in enumerate(CASES):
            for document in good:
                self.assertTrue(DRAFT(schema, format_checker=FORMATS).is_valid(document), (schema, document))
            for document in bad:
                self.assertFalse(DRAFT(schema, format_checker=FORMATS).is_valid(document), (schema, document))
            texts = [text for document in good + bad for text in spellings(document)]
            tasks.append({"text": json.dumps(schema), "accept": texts, "walks": 20, "seed": number})
        for (schema, good, bad), answer in zip(CASES, answers(tasks)):
            with self.subTest(schema=schema):
                self.check_walks(schema, answer)
                expected = [True] * (3 * len(good)) + [False] * (3 * len(bad))
                texts = [text for document in good + bad for text in spellings(document)]
                self.assertEqual(list(zip(texts, answer["accepted"])), list(zip(texts, expected)))

    def test_what_is_not_supported_is_left_out_where_that_is_asked_for(self):
        for schema, kept, texts in LENIENT:
            with self.subTest(schema=schema):
                task = {"text": json.dumps(schema), "accept": texts, "walks": 10, "seed": 1}
                self.assertIn("not supported", answers([task])[0]["error"])
                answer = answers([{**task, "kind": "lenient_json_schema"}])[0]
                self.check_walks(kept, answer)
                self.assertEqual(answer["accepted"], [True] * len(texts))

    def test_generated(self):
        generator = random.Random(77)
        schemas = [random_schema(generator, 3) for _ in range(250)]
        tasks = []
        for number, schema in enumerate(schemas):
            documents = [random_document(generator, schema) for _ in range(4)]
            for document in documents:
                self.assertTrue(DRAFT(schema).is_valid(document), (schema, document))
            texts = [text for document in documents for text in spellings(document)]
            tasks.append({"text": json.dumps(schema), "accept": texts, "walks": 6, "seed": number})
        for schema, task, answer in zip(schemas, tasks, answers(tasks)):
            with self.subTest(schema=schema):
                self.check_walks(schema, answer)
                refused = [text for text, accepted in zip(task["accept"], answer["accepted"]) if not accepted]
                self.assertEqual(refused, [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
