#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/CHECKLIST.md says which test shows which row, and it is so.  Tests carry the numbers of rows in comments,
"checklist 41, 54-56: ...", above or behind the test's first line, or in the file's head. This script compares the page
with them:  checklist_test.py ROOT  prints what differs; --write puts the tests into the page. A row without a test says
in its last column what stands in for one, or that it is not built.
"""
import pathlib
import re
import sys

PAGE = "docs/CHECKLIST.md"
NUMBERS = re.compile(r"[Cc]hecklist:? +(\d+(?:-\d+)?(?:(?:, ?| and )\d+(?:-\d+)?)*)")
NAME = re.compile(r"^TEST(?:_F|_P)?\((\w+), *(\w+)\)|^    def (test_\w+)")
ROW = re.compile(r"^\| (\d+) \| (.*?) \| (.*?) \| (.*?) ?\|$")


def rows_of(text):
    for match in NUMBERS.finditer(text):
        for part in re.findall(r"\d+(?:-\d+)?", match[1]):
            first, _, last = part.partition("-")
            yield from range(int(first), int(last or first) + 1)


def tests_of(path):
    """(row, name) of every number in a file: of the test that follows the comment, or of the file."""
    lines = path.read_text(errors="replace").splitlines()
    first_test = next((i for i, line in enumerate(lines) if NAME.match(line)), len(lines))
    for i, line in enumerate(lines):
        for row in rows_of(line):
            in_head = i < first_test and lines[i + 1 : i + 2] and not any(
                NAME.match(after) for after in lines[i : i + 4]
            )
            name = None if in_head else next((m for m in map(NAME.match, lines[i:]) if m), None)
            yield row, "" if name is None else name[3] or f"{name[1]}.{name[2]}"


def shown(root):
    """row -> sorted texts of the third column."""
    found = {}
    for path in sorted((root / "tests").rglob("*")):
        if path.suffix in {".cpp", ".py"} and path.name != "checklist_test.py":
            for row, name in tests_of(path):
                text = f"`{path.relative_to(root / 'tests')}`" + (f" {name}" if name else "")
                found.setdefault(row, set()).add(text)
    return {row: ", ".join(sorted(texts)) for row, texts in found.items()}


def main():
    root = pathlib.Path(sys.argv[1])
    tests, lines, problems, seen = shown(root), [], [], set()
    for line in (root / PAGE).read_text().splitlines():
        match = ROW.match(line)
        if match:
            row, title, listed, note = int(match[1]), match[2], match[3], match[4]
            seen.add(row)
            actual = tests.get(row, "-")
            if listed != actual:
                problems.append(f"row {row}: the page says {listed}, the tests say {actual}")
            if actual == "-" and not note:
                problems.append(f"row {row}: no test and no word about it")
            line = f"| {row} | {title} | {actual} | {note} |"
        lines.append(line)
    problems += [f"row {row}: not on the page" for row in sorted(tests.keys() - seen)]
    if "--write" in sys.argv:
        (root / PAGE).write_text("\n".join(lines) + "\n")
        return 0
    if not seen:
        problems.append("the page has no rows")
    if problems:
        print("\n".join(problems), "--write brings the page up to date", sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
