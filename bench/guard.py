#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares a change with its base in one run: builds both, lets them take turns, compares the fastest of each.

    bench/guard.py BASE [--filter REGEX] [--rounds N] [--threshold R]      BASE: a commit; the change is this working tree
    bench/guard.py --programs BASE_PROGRAM CHANGE_PROGRAM ...              two inflight_microbench that are built already

Prints one line a benchmark: the base's and the change's time, and their ratio. Exit 1 when some ratio is above the threshold
(1.05 = 5 % slower), 2 when nothing could be compared. A ratio above the threshold is measured again, twice as often, before
it counts: machines are shared."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(HERE)
TARGET = "inflight_microbench"


def run(command, **options):
    done = subprocess.run(command, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"guard: {' '.join(command)} ended with {done.returncode}")
    return done


def build(source):
    folder = os.path.join(source, "build", "guard")  # as far from the sources as every build folder: compiler caches hit
    run(["cmake", "-S", source, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"], stdout=subprocess.DEVNULL)
    run(["cmake", "--build", folder, "--target", TARGET], stdout=subprocess.DEVNULL)
    return os.path.join(folder, "bin", TARGET)


def measure(program, pattern):
    """Nanoseconds of each benchmark of one run, by name."""
    done = run([program, f"--benchmark_filter={pattern}", "--benchmark_format=json"], stdout=subprocess.PIPE,
               stderr=subprocess.DEVNULL)
    # Processor time, which other programs disturb least; where a benchmark times itself, what it says.
    def time(entry):
        return entry["real_time"] if "manual_time" in entry["name"] else entry["cpu_time"]

    units = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
    return {entry["name"]: time(entry) * units[entry["time_unit"]] for entry in json.loads(done.stdout)["benchmarks"]
            if not entry.get("error_occurred") and entry.get("run_type", "iteration") == "iteration"}


def compare(programs, pattern, rounds, fastest):
    """The fastest time of each benchmark on each side, which take turns; who begins changes."""
    for turn in range(rounds):
        for side in ((0, 1) if turn % 2 == 0 else (1, 0)):
            for name, time in measure(programs[side], pattern).items():
                fastest[side][name] = min(time, fastest[side].get(name, float("inf")))


def slower(fastest, threshold):
    return [name for name in fastest[0] if name in fastest[1] and fastest[1][name] > threshold * fastest[0][name]]


def guard(programs, args):
    fastest = ({}, {})
    compare(programs, args.filter, args.rounds, fastest)
    suspects = slower(fastest, args.threshold)
    if suspects:
        compare(programs, "^(" + "|".join(suspects) + ")$", 2 * args.rounds, fastest)
        suspects = slower(fastest, args.threshold)
    common = [name for name in fastest[0] if name in fastest[1]]
    for name in common:
        base, change = fastest[0][name], fastest[1][name]
        mark = "  SLOWER" if name in suspects else ""
        print(f"{name:<56} {base:>14.1f} ns {change:>14.1f} ns {change / base:>7.3f}{mark}")
    for side, text in ((0, "only in the base"), (1, "only in the change")):
        for name in fastest[side]:
            if name not in fastest[1 - side]:
                print(f"{name:<56} {text}")
    if not common:
        print("guard: no benchmark is in both", file=sys.stderr)
        return 2
    return 1 if suspects else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", nargs="?", help="a commit")
    parser.add_argument("--programs", nargs=2, metavar=("BASE", "CHANGE"), help="built already")
    parser.add_argument("--filter", default="Scheduler|BlockPool|RadixTree|Tokenizer|Sampler", help="regular expression")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threshold", type=float, default=1.05, help="ratio above which a change is slower")
    args = parser.parse_args()
    if (args.base is None) == (args.programs is None):
        parser.error("either BASE or --programs")
    if args.programs:
        return guard(args.programs, args)
    with tempfile.TemporaryDirectory() as folder:
        tree = os.path.join(folder, "base")
        run(["git", "-C", SOURCE, "worktree", "add", "--detach", "--quiet", tree, args.base])
        try:
            return guard((build(tree), build(SOURCE)), args)
        finally:
            run(["git", "-C", SOURCE, "worktree", "remove", "--force", tree])


if __name__ == "__main__":
    sys.exit(main())
