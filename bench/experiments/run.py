#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The field's published results, again.

Each row measures both arms with the program (INFLIGHT names it, else build/release/bin/inflight) and puts its section
(table, picture, a plain sentence) into docs/RESULTS.md; sections of other rows stay."""

import argparse
import re
import time

import batching
import lab
import policies
import speculation
import system

ROWS = {**batching.ROWS, **policies.ROWS, **speculation.ROWS, **system.ROWS}
PAGE = lab.ROOT / "docs/RESULTS.md"
HEAD = """# Published results, reproduced

Each section is written by `bench/experiments/run.py ROW` and says what was published, what came out here and whether the
claim holds. Unless a section says "live", runs are simulated: the engine's own scheduler, cache and policies on a virtual
clock over the device profile that is named ([how](SIMULATOR.md)). What did not come out stays.
"""


def sections():
    text = PAGE.read_text() if PAGE.exists() else ""
    return {int(m[1]): m[0].rstrip() for m in re.finditer(r"^## (\d+)\. .*?(?=^## |\Z)", text, flags=re.M | re.S)}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [str(row) for row in sorted(ROWS)]
    options.add_argument("rows", nargs="*", metavar="ROW", choices=[*known, "all"], default="all", help="1 to 21, or all")
    wanted = options.parse_args().rows
    found = sections()
    for row in map(int, known if "all" in wanted else wanted):
        title, published, function = ROWS[row]
        begin = time.monotonic()
        body = function()
        print(f"{row:2d}. {title}: {time.monotonic() - begin:.1f} s", flush=True)
        print("    " + re.search(r"\*\*.*", body)[0], flush=True)
        found[row] = f"## {row}. {title}\n\nPublished: {published}\n\n{body}\n\nAgain: `bench/experiments/run.py {row}`"
        PAGE.write_text(HEAD + "\n" + "\n\n".join(found[key] for key in sorted(found)) + "\n")


if __name__ == "__main__":
    main()
