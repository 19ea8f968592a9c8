#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema Test Suite against grammars of schemas, where $INFLIGHT_SCHEMA_SUITE names its folder "tests" (in the
source package of PyPI's jsonschema: json/tests). For each schema that is compiled no document marked invalid may be
given, and every valid one is, but for what grammar_json.h says is not written; each schema that is not compiled is
refused in one line that names the keyword.    schema_suite_test.py FOLLOW_GRAMMAR MODEL"""
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys

SUITE = os.environ.get("INFLIGHT_SCHEMA_SUITE", "")
DRAFTS = ["draft2020-12", "draft7"]
ORDERS_MAX = 120
REFUSAL = re.compile(r"JSON schema, (#[^:]*|#.*): "
                     r"(keywords? '[^']+'.* (is|are) not supported.*|"
                     r"reference '[^']*' (is not supported, only: #/\.\.\.|points to nothing))|"
                     r"no text satisfies the grammar")
FORMATS = {"date", "time", "date-time", "duration", "uuid", "hostname", "ipv4", "ipv6", "email", "uri"}
# The keywords of one type; types_of() has the same order.
MEANT = [("object", {"properties", "required", "additionalProperties", "propertyNames", "patternProperties"}),
         ("array", {"items", "prefixItems", "uniqueItems"}), ("string", {"pattern", "minLength", "maxLength"}),
         ("number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})]
TYPES = {"object": dict, "array": list, "string": str, "number": (int, float)}
# Valid documents that mean something else than what grammar_json.h lists: (schema's description, document's).
NOT_WRITTEN = {
    ("anyOf complex types", "both anyOf valid (complex)"),  # each alternative declares its own properties
    ("ref overrides any sibling keywords", "ref valid, maxItems ignored"),  # siblings count, as since draft 2019-09
    ("root pointer ref", "match"), ("root pointer ref", "recursive match"),  # an object is meant in every place
    ("schema that uses custom metaschema with with no validation vocabulary",
     "no validation: invalid number, but it still validates"),
}


def orders(document):
    """The document with its properties in every order, not too many."""
    if isinstance(document, dict) and len(document) <= 4:
        for names in itertools.permutations(document):
            values = itertools.product(*(list(itertools.islice(orders(document[name]), 24)) for name in names))
            yield from (dict(zip(names, chosen)) for chosen in itertools.islice(values, 24))
    elif isinstance(document, list):
        items = itertools.product(*(list(itertools.islice(orders(item), 24)) for item in document))
        yield from (list(chosen) for chosen in itertools.islice(items, 24))
    else:
        yield document


def texts_of(document):
    for ordered in itertools.islice(orders(document), ORDERS_MAX):
        for spacing in ({}, {"indent": 2}, {"separators": (",", ":")}):
            yield json.dumps(ordered, ensure_ascii=False, **spacing)


def parts(value):
    yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
        yield from parts(part)


def not_written(schema, document):
    """Whether grammar_json.h says that this valid document is not written."""
    if any(isinstance(part, float) and part.is_integer() for part in [*parts(document), *parts(schema)]):
        return True
    if not isinstance(schema, dict):
        return False
    if "type" not in schema:
        for kind, keywords in MEANT:
            if keywords & schema.keys():
                if not isinstance(document, TYPES[kind]) or isinstance(document, bool):
                    return True
                break
    properties = schema.get("properties", {})
    if isinstance(document, dict):
        patterns = schema.get("patternProperties", {})
        undeclared = [name for name in document.keys() - properties.keys()
                      if not any(re.search(pattern, name) for pattern in patterns)]
        if (properties or patterns) and "additionalProperties" not in schema and undeclared:
            return True
        return any(not_written(properties[name], value) for name, value in document.items() if name in properties)
    return isinstance(document, str) and schema.get("format") in FORMATS


def load(draft):
    for file in sorted(pathlib.Path(SUITE, draft).glob("*.json")):
        for case in json.loads(file.read_text()):
            yield file.name, case


def answers(program, model, cases):
    tasks = [{"kind": "json_schema", "text": json.dumps(case["schema"]), "walks": 4, "seed": number,
              "accept": [text for test in case["tests"] for text in texts_of(test["data"])]}
             for number, (_, case) in enumerate(cases)]
    done = subprocess.run([program, model], input="".join(json.dumps(task) + "\n" for task in tasks).encode(),
                          capture_output=True, timeout=600, check=True)
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def walked(draft, schema, texts):
    """What is wrong with random texts of the grammar, by Python's jsonschema where it is there."""
    try:
        import jsonschema
    except ImportError:
        return
    validator = {"draft7": jsonschema.Draft7Validator}.get(draft, jsonschema.Draft202012Validator)(schema)
    for text in texts:
        if not text.endswith("<no end>") and not validator.is_valid(json.loads(text)):
            yield f"{text!r} was written"


def main():
    if not pathlib.Path(SUITE, DRAFTS[0]).is_dir() or not SUITE:
        print("skipped: $INFLIGHT_SCHEMA_SUITE does not name the folder tests/ of the JSON Schema Test Suite")
        return 77
    failures = []
    for draft in DRAFTS:
        cases = list(load(draft))
        count = dict.fromkeys(["compiled", "refused", "invalid", "valid", "not written"], 0)
        for (file, case), answer in zip(cases, answers(*sys.argv[1:3], cases), strict=True):
            schema, where = case["schema"], f"{draft}/{file}: {case['description']}"
            if "error" in answer:
                count["refused"] += 1
                if not REFUSAL.fullmatch(answer["error"]):
                    failures.append(f"{where}: unclear refusal: {answer['error']}")
                if answer["error"].startswith("no text") and any(test["valid"] for test in case["tests"]):
                    failures.append(f"{where}: 'no text satisfies', but some do")
                continue
            count["compiled"] += 1
            accepted = iter(answer["accepted"])
            for test in case["tests"]:
                given = any(list(itertools.islice(accepted, len(list(texts_of(test["data"]))))))
                place = f"{where}, {test['description']}: {json.dumps(test['data'])}"
                if given != test["valid"]:
                    narrowed = (case["description"], test["description"]) in NOT_WRITTEN
                    if given or not (narrowed or not_written(schema, test["data"])):
                        failures.append(f"{place} is {'given' if given else 'not given'}: {json.dumps(schema)}")
                        continue
                    count["not written"] += 1
                count["valid" if test["valid"] else "invalid"] += 1
            failures += [f"{where}: {wrong}" for wrong in walked(draft, schema, answer["walks"])]
        print(f"{draft}: {count['compiled']} schemas compiled, {count['refused']} refused; {count['invalid']} invalid "
              f"documents rejected, {count['valid'] - count['not written']} valid ones accepted, {count['not written']} "
              "valid ones that are not written")
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
