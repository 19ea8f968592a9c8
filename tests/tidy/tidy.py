#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The style that a script can check, as a test:  tidy.py ROOT  prints one line a finding; exit 1 when there is any.

Rules: a folder includes only what cmake/layers.txt allows; OpenCL's header only in src/device/cl.h; SPDX line; sizes of
files, lines and functions; unique file names; unique names in a folder's anonymous namespaces; every source has its mirrored
test; banned calls and words with their replacement; no leftovers; one H1 a page; no large files; scripts are executable.
tidy_test.py plants a violation of each.
"""
import pathlib
import re
import shutil
import subprocess
import sys

CODE = {".h", ".hpp", ".c", ".cpp", ".cl"}
LINES_MAX = {".h": 450, ".hpp": 700, ".c": 600, ".cpp": 600, ".cl": 450, ".py": 600}
COLUMNS_MAX = 130
FUNCTION_LINES_MAX = 90
FILE_BYTES_MAX = 200_000
PUBLIC_HEADERS = "include/inflight/"
PUBLIC_LINES_MAX = 700

LIBRARY = tuple(f"src/{f}/" for f in "base core text model cache sched sample device ops exec plugin_host engine".split())

BANNED = [  # pattern, what to write instead, where it holds
    (r"\bstd::shared_ptr\b", "unique ownership (std::unique_ptr)", LIBRARY),
    (r"\bstd::regex\b", "PCRE2", ("src/", "bindings_c/")),
    (r"\bfmt::print\(stderr", "print_to_stderr(), which does not throw", ("src/",)),
    (r"#include <iostream>", "fmt or the log sink", LIBRARY),
    (r"\bstd::format\b", "fmt::format", ("src/", "bindings_c/")),
    (r"\bprintf\s*\(", "fmt::print in programs, the log sink in the library", LIBRARY),
    (r"\b(std::)?(rand|srand|time)\s*\(\s*(NULL|nullptr|0)?\s*\)", "Rng and Clock", ("src/",)),
    (r"\bsteady_clock::now|\bsystem_clock::now", "the Clock that was handed in",
     ("src/cache", "src/sched", "src/sample", "src/plugin_host", "src/text", "src/sim")),
    (r"\busing namespace\b", "qualified names", ("src/", "bindings_c/", "plugins/")),
    (r"\b(atoi|atof|strtol|strtod)\s*\(", "std::from_chars", ("src/", "bindings_c/")),
]
# One name per thing (docs/GLOSSARY.md); left: what not to write in code.
SYNONYMS = [
    (r"\bpage_table\b|\bblock_list\b", "block_table"),
    (r"\bseq_group\b|\bseq_id\b", "sequence"),
    (r"\bn_past\b|\bpast_len\b|\bcached_len\b", "computed_token_count"),
    (r"\bextend_len\b|\bquery_len\b", "scheduled_token_count"),
    (r"\bmicro_?batch\b|\bubatch\b", "batch plan"),
    (r"\bprefix_trie\b|\bPrefixCache\b", "RadixTree"),
    (r"\bblock_manager\b|\bBlockManager\b|\bBlockAllocator\b", "BlockPool"),
]
LEFTOVERS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b(?!\(#\d+\))")
NO_MIRROR = {"main.cpp"}
FORMATTER = "clang-format-19"


def read_layers(root):
    """folder -> set of folders it may include ("public" = include/inflight)"""
    layers = {}
    for line in (root / "cmake/layers.txt").read_text().splitlines():
        match = re.match(r"^([a-z_]+)\s*:([^|]*)\|", line)
        if match:
            layers[match[1]] = set(match[2].split())
    return layers


def tracked(root):
    """Files git knows or would add; every file where there is no git."""
    try:
        command = ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard"]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        names = [n for n in out.splitlines() if (root / n).is_file()]
    except (subprocess.CalledProcessError, FileNotFoundError):
        names = [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()]
    return sorted(names)


def layer_of(name):
    parts = name.split("/")
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    if parts[0] in ("bindings_c", "plugins") and "examples" not in parts:
        return parts[0]
    return None


def check_includes(name, text, layers):
    layer = layer_of(name)
    if layer is None:
        if name.startswith(PUBLIC_HEADERS):
            for inc in re.findall(r'#include [<"]([^>"]+)[>"]', text):
                if not inc.startswith("inflight/") and not inc.startswith("std") and name.endswith(".h"):
                    yield f"public header includes {inc}; allowed: stddef.h, stdint.h, inflight/"
        return
    if layer not in layers:
        yield f"folder {layer} has no row in cmake/layers.txt"
        return
    allowed = layers[layer] | {layer}
    for inc in re.findall(r'#include "([^"]+)"', text):
        folder = inc.split("/")[0] if "/" in inc else layer
        folder = "public" if folder == "inflight" else folder
        if folder in layers or folder == "public":
            if folder not in allowed:
                yield f'includes "{inc}"; {layer} may include only: {" ".join(sorted(allowed))}'
    for inc in re.findall(r"#include <(CL/[^>]+)>", text):
        if name != "src/device/cl.h":
            yield f"includes <{inc}>; only src/device/cl.h may"


def check_functions(name, lines):
    """Google style begins a function in column 0, indents what its signature is continued by, and puts its closing brace
    alone in column 0."""
    start, in_body = None, False
    for number, line in enumerate(lines, 1):
        if not in_body:
            if re.match(r"[A-Za-z_]", line):
                is_type = re.match(r"(namespace|struct|class|enum|union|template|extern)\b[^()]*$", line)
                start = None if is_type else number
            in_body = start is not None and line.endswith("{")
        elif line.startswith("}"):
            if line == "}" and number - start + 1 > FUNCTION_LINES_MAX:
                yield f"function at line {start} has {number - start + 1} lines, at most {FUNCTION_LINES_MAX}"
            start, in_body = None, False


def check_mirror(name, names):
    """src/<folder>/<file>.cpp has tests/unit/<folder>/<file>_test.cpp, or a test with a line "// Covers: folder/file.cpp"."""
    match = re.match(r"^src/([a-z_]+)/([a-z0-9_]+)\.cpp$", name)
    if not match or match[1] in ("cli", "server") or pathlib.Path(name).name in NO_MIRROR:
        return
    if f"tests/unit/{match[1]}/{match[2]}_test.cpp" not in names:
        yield f"no tests/unit/{match[1]}/{match[2]}_test.cpp, and no test says \"Covers: {match[1]}/{match[2]}.cpp\""


def anonymous_names(lines):
    """(line, name, what it is) of what stands in column 0 of an anonymous namespace: functions, constants, types, aliases"""
    inside = False
    for number, line in enumerate(lines, 1):
        if re.match(r"namespace \{|\}  // namespace", line):
            inside = line.startswith("namespace")
        elif inside and not re.match(r"template|namespace|extern|static_assert|[A-Z0-9_]+\(", line):
            named = re.match(r"(?:struct|class|enum class|using) (\w+)", line)
            found = named or re.match(r"[A-Za-z][^(={;]*?\b(\w+)(?:\[\w*\])*\s?[({=;]", line)
            if found:
                yield number, found[1], line if line.startswith("using") else None


def check_anonymous_names(name, lines, first):
    """A unity build compiles a folder's files as one: what has one name twice clashes, or an overload is taken for another.
    first: (folder, name) -> where it was seen first."""
    if not re.match(r"(src|tests|bindings_c)/(?!plugins/).*\.cpp$", name):  # a plugin is one file
        return
    for number, found, alias in anonymous_names(lines):
        before, meaning = first.setdefault((pathlib.Path(name).parent, found), (name, alias))
        if before != name and (alias is None or alias != meaning):  # the same alias may be there twice
            yield number, f"{found} is a name in {before}'s anonymous namespace, too"


def check(root):
    names = tracked(root)
    layers = read_layers(root)
    known = set(names)
    covered = set()
    for name in names:
        if name.startswith("tests/"):
            text = (root / name).read_text(errors="replace")
            for group in re.findall(r"(?://|#) Covers: (.*)", text):
                covered.update("src/" + item.strip().rstrip(".") for item in group.split(","))
    basenames = {}
    anonymous = {}
    for name in names:
        path = root / name
        suffix = path.suffix
        if path.stat().st_size > FILE_BYTES_MAX and not name.startswith("models/") and not name.startswith("docs/"):
            yield name, 1, f"{path.stat().st_size} bytes, at most {FILE_BYTES_MAX} outside models/ and docs/"
        if name.startswith(("scripts/", ".ci/")) and suffix in ("", ".sh") and not path.stat().st_mode & 0o100:
            yield name, 1, "is not executable"
        if suffix == ".md":
            text = re.sub(r"```.*?```", "", path.read_text(errors="replace"), flags=re.S)
            if len(re.findall(r"^# ", text, flags=re.M)) != 1:
                yield name, 1, "has not exactly one H1"
        if suffix not in CODE and suffix != ".py":
            continue
        text = path.read_text(errors="replace")
        lines = text.splitlines()
        if name.startswith("models/"):
            continue
        free_names = ("tests/", "bindings_c/examples/", "plugins/template/")
        if suffix in CODE and path.name in basenames and not name.startswith(free_names):
            yield name, 1, f"same file name as {basenames[path.name]}"
        basenames.setdefault(path.name, name)
        if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(lines[:3]):
            yield name, 1, "no SPDX-License-Identifier line"
        most = PUBLIC_LINES_MAX if name.startswith(PUBLIC_HEADERS) else LINES_MAX[suffix]
        if len(lines) > most:
            yield name, 1, f"{len(lines)} lines, at most {most}"
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS_MAX:
                yield name, number, f"{len(line)} columns, at most {COLUMNS_MAX}"
            if suffix in CODE:
                for pattern, instead, where in BANNED:
                    if name.startswith(where) and re.search(pattern, line):
                        yield name, number, f"{re.search(pattern, line)[0]!r}: use {instead}"
                for pattern, instead in SYNONYMS:
                    if re.search(pattern, line) and not name.startswith("tests/tidy"):
                        yield name, number, f"{re.search(pattern, line)[0]!r}: the project's word is {instead}"
            if LEFTOVERS.search(line) and not name.startswith("tests/tidy"):
                yield name, number, "leftover; a note for later needs an issue: TODO(#12)"
        if suffix in CODE:
            for message in check_includes(name, text, layers):
                yield name, 1, message
        if suffix in (".cpp", ".c"):
            for message in check_functions(name, lines):
                yield name, 1, message
        for number, message in check_anonymous_names(name, lines, anonymous):
            yield name, number, message
        if name not in covered:
            for message in check_mirror(name, known):
                yield name, 1, message


def check_format(root):
    """clang-format's opinion, where the version that the style is written for is installed; else a word on standard error."""
    tool = shutil.which(FORMATTER)
    files = [n for n in tracked(root) if pathlib.Path(n).suffix in {".h", ".hpp", ".cpp", ".c"}]
    files = [n for n in files if not n.startswith("include/")]  # tables by hand
    if tool is None:
        print(f"skipped: format: {FORMATTER} is not installed", file=sys.stderr)
    if tool is None or not files:
        return
    out = subprocess.run([tool, "--dry-run", *files], cwd=root, capture_output=True, text=True).stderr
    pattern = r"^([^:\n]+):(\d+):\d+: warning: code should be clang-formatted"
    for name in sorted({match[0] for match in re.findall(pattern, out, flags=re.M)}):
        yield name, 1, f"not formatted: {FORMATTER} -i"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    found = list(check(root)) + list(check_format(root))
    for name, line, message in found:
        print(f"{name}:{line}: {message}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
