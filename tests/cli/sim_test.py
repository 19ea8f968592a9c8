#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The simulating commands as a user runs them:  sim_test.py PROGRAM

sim, tune-limits, doctor, calibrate and bench sched: keys, files, exit status, one-line errors."""

import csv
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile

PROGRAM = sys.argv[1]


def run(*arguments, status=0):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == status, (arguments, done.returncode, done.stderr)
    return done.stderr if status else done.stdout


def check_sim(folder):
    keys = {
        "steps",
        "requests",
        "useful_slot_share",
        "static_efficiency",
        "makespan_s",
        "output_tokens_per_second",
        "ttft_ms",
        "itl_ms",
        "e2e_ms",
        "preemptions",
        "prefix_hit_rate",
        "wall_s",
        "decision_hash",
    }
    four = json.loads(run("sim", "--workload", "lengths=50,60,400,80", "--max-num-seqs", 4, "--batching", "static", "--json"))
    assert keys <= four.keys(), keys - four.keys()
    assert (
        four["static_efficiency"] == 0.36875
        and four["steps"] == 400
        and set(four["ttft_ms"]) >= {"mean", "p50", "p95", "p99"}
    )
    work = ["sim", "--workload", "bimodal,requests=40", "--max-num-seqs", 4]
    run(*work, "--html", folder / "a.html", "--chrome-trace", folder / "a.json", "--csv", folder / "a.csv")
    assert "<svg" in (folder / "a.html").read_text()
    assert json.loads((folder / "a.json").read_text())["traceEvents"]
    assert len((folder / "a.csv").read_text().splitlines()) == 41
    run(*work, "--record", folder / "a.rec")
    replay = json.loads(run("sim", "--replay", folder / "a.rec", "--json"))
    assert replay["identical"] and replay["requests"] == 40
    # Another policy: one line with the first difference, and a status that a script can see.
    for command in (["replay", folder / "a.rec"], ["sim", "--replay", folder / "a.rec"]):
        assert "all identical" in run(*command)
        for form in ([], ["--json"]):
            done = subprocess.run([PROGRAM, *map(str, command), "--policy", "lof", *form], capture_output=True, text=True)
            assert done.returncode == 1 and done.stderr == "", (command, done)
            if form:
                told = json.loads(done.stdout)
                assert not told["identical"] and told["difference"]["recorded"] != told["difference"]["replayed"]
            else:
                assert re.fullmatch(r"step \d+ differs, after \d+ equal plans: recorded .+, replayed .+\n", done.stdout), done
    whole = (folder / "a.rec").read_bytes()
    (folder / "cut.rec").write_bytes(whole[: len(whole) // 2])
    assert re.search(r"all identical; it ends before \d+ of them do", run("replay", folder / "cut.rec"))
    assert "cut off in the recording" in run("sim", "--trace", folder / "cut.rec")
    assert "cut off" not in run("sim", "--trace", folder / "a.rec")
    (folder / "zero.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n1,10,5\n2,10,0\n3,0,5\n")
    assert "left out of the trace 2: they have no prompt or no output tokens" in run("sim", "--trace", folder / "zero.csv")
    assert json.loads(run("sim", "--trace", folder / "zero.csv", "--json"))["requests_left_out"] == 2
    served = json.loads(run("sim", "--trace", folder / "a.rec", "--max-num-seqs", 4, "--json"))
    assert served["requests"] == 40
    runs = json.loads(
        run(
            "sim",
            "--workload",
            "bimodal,requests=40",
            "--compare",
            "batching=static|continuous",
            "--compare",
            "max-num-seqs=4|8",
            "--html",
            folder / "b.html",
            "--json",
        )
    )["runs"]
    assert [r["result"]["max_num_seqs"] for r in runs] == [4, 8, 4, 8]
    seven = json.loads(run("sim", "--workload", "bimodal,requests=40", "--repeat", 7, "--json"))
    assert seven["decision_hash"] == json.loads(run("sim", "--workload", "bimodal,requests=40", "--json"))["decision_hash"]
    timeline = json.loads(run("sim", "--workload", "lengths=5,9", "--timeline", "on", "--json"))["timeline"]
    assert len(timeline["rows"]) == 2 and sum(decodes for *_, decodes in timeline["steps"]) >= 12, timeline
    error = run("sim", "--workload", "bimodal", "--repeat", 2, "--timeline", "on", status=2)
    assert "--repeat cannot be combined" in error and error.count("\n") == 1, error
    sweep = ["sim", "--workload", "poisson,requests=60", "--html", folder / "c.html", "--compare"]
    rising = run(*sweep, "rate=1:9:5").splitlines()
    knee = re.fullmatch(r"p95 of E2E becomes twice that at rate 1 between rate (\d) and (\d)", rising[-1])
    assert knee and int(knee[2]) - int(knee[1]) == 2, rising  # two neighbours
    assert run(*sweep, "rate=9|7|5|3|1").splitlines()[-1] == rising[-1]
    assert "Along the sweep" in (folder / "c.html").read_text()
    assert "p95 of E2E stays below twice that at rate 0.01\n" in run(*sweep, "rate=0.01:0.03:3")


GUESSES = "spec_decode_num_draft_tokens"


def check_speculation(folder):
    """checklist 124: the same figures in the summary, the JSON, the CSV and the report; a trace and a live run have them, too."""
    config = ["--speculative-config", '{"method": "ngram", "num_speculative_tokens": 4}']
    work = ["sim", "--workload", "closed,requests=20,output=50,acceptance=0.7", *config]
    found = json.loads(run(*work, "--csv", folder / "s.csv", "--html", folder / "s.html", "--json"))
    lines = list(csv.DictReader((folder / "s.csv").open()))
    drafted, accepted = (sum(int(line[key]) for line in lines) for key in ("draft_tokens", "accepted_tokens"))
    assert 0 < accepted == found["spec_decode_num_accepted_tokens"] < drafted == found[GUESSES]
    assert found["spec_decode_acceptance_rate"] == accepted / drafted
    assert found["spec_decode_mean_acceptance_length"] == 1 + accepted / found["spec_decode_num_drafts"]
    assert f"<td>{drafted}<td>{100 * accepted / drafted:.1f} %<td>" in (folder / "s.html").read_text()
    assert f"guessed {drafted} tokens in {found['spec_decode_num_drafts']} drafts" in run(*work)
    assert "guessed" not in run("sim", "--workload", "closed,requests=20,output=50", *config)
    runs = json.loads(run(*work, "--compare", "acceptance=0|0.5|1", "--json"))["runs"]
    lengths = [r["result"]["spec_decode_mean_acceptance_length"] for r in runs]
    assert lengths[0] == 1 < lengths[1] < lengths[2], lengths
    run(*work, "--record", folder / "s.rec")
    assert json.loads(run("sim", "--replay", folder / "s.rec", "--json"))["identical"]
    trace = ["sim", "--trace", folder / "s.rec", *config, "--json"]
    assert json.loads(run(*trace))[GUESSES] == 0
    assert json.loads(run(*trace, "--trace-acceptance", 0.7))[GUESSES] > 0
    error = run(*trace, "--trace-acceptance", 2, status=2)
    assert "trace_acceptance is 2, allowed: 0 to 1" in error, error
    error = run("sim", "--workload", "closed", "--speculative-config", "4", status=2)
    assert "speculative_config is '4', allowed: a JSON object" in error, error
    lived = json.loads(run("bench", "workload", "--workload", "closed,requests=4,prompt=8,output=120", *config, "--json"))
    assert lived["spec_decode_num_accepted_tokens"] <= lived[GUESSES] and lived[GUESSES] > 0, lived


def check_errors():
    for arguments, text in (
        (["sim"], "nothing to simulate: give a workload or a trace"),
        (["sim", "--workload", "bimodel"], "workload 'bimodel' is unknown, allowed: lengths"),
        (["sim", "--workload", "closed", "--batching", "lazy"], "batching is 'lazy', allowed: continuous"),
        (["sim", "--workload", "closed", "--device", "abacus"], "device 'abacus' is unknown"),
        (["sim", "--workload", "closed", "--seed", 1 << 64], "allowed: a whole number up to 18446744073709551615"),
        (["sim", "--workload", "closed", "--kv-blocks", 99999999999], "allowed: a whole number up to 2147483647"),
        (["sim", "--workload", "closed,output=99999999"], "output is '99999999', allowed: N, LOW-HIGH"),
        (["sim", "--workload", "closed,think_ms=9"], "think_ms in 'closed,think_ms=9' has no effect, allowed: with concurrency"),
        (["sim", "--workload", "poisson,rate=1e-6,requests=20000"], "s after the begin, allowed: up to 4000000000 s"),
        (["sim", "--workload", "closed,requests=60,prompt=20000,output=1", "--device", "unit,pair_ns=1e9"],
         "the simulation goes beyond 4000000000 s of virtual time"),
        (["tune-limits", "--workload", "closed", "--itl-p95-ms", -5], "itl_p95_ms is -5, allowed: 0 (whatever) or more"),
        (["sim", "--workload", "closed", "--wall-limit-s", "0.0000001"], "takes longer than 1e-07 s"),
        (["plugin", "check", "x.ifp.so", "--seed", "1.5"], "--seed is '1.5', allowed: a whole number from 0"),
        (["plugin", "check", "x.ifp.so", "--seed", 10**30], "allowed: a whole number from 0"),
        (["bench", "workload", "--trace", "x", "--trace-speed", -1], "not in range 0.000000 to 1000000000.000000"),
        (["sim", "--trace", "x", "--trace-speed", 1e10], "trace_speed is 10000000000, allowed: 0 to 1000000000"),
        (["sim", "--workload", "closed", "--repeat", "0x2"], "--repeat is '0x2', allowed: a whole number in [1 - 1000]"),
        (["doctor", "--workload", "closed", "--timeline", "on"], "--timeline"),
        (["tune-limits", "--workload", "closed", "--ttft-p95-ms", "nan"], "ttft_p95_ms is nan, allowed: 0"),
    ):
        error = run(*arguments, status=2)
        assert text in error and error.count("\n") == 1, error
    for flag in ("--workload-requests-max", "--workload-tokens-max", "--max-num-queued-reqs"):
        assert "is '-1', allowed: 0 or more" in run("sim", "--workload", "closed", flag, -1, status=2), flag
    assert "the COUNT of 'rate=1:8:0' is 0, allowed: 2 to 1000" in run(
        "sim", "--workload", "closed", "--compare", "rate=1:8:0", status=2)
    for command in (["sim", "--workload", "closed", "--policy"], ["plugin", "check"]):
        assert "/tmp/: is a folder, allowed: a plugin file" in run(*command, "/tmp/", status=1)
    assert "/etc/passwd is no recording" in run("replay", "/etc/passwd", status=1)
    assert "--trace excludes TRACE" in run("doctor", "a.rec", "--trace", "b.rec", status=2)
    assert "No such file" in run("sim", "--trace", "/nowhere.csv", status=1)


def check_options_that_exclude_each_other(folder):
    """What cannot be meant is refused in one line, and nothing is written."""
    out = folder / "unwritten"
    work = ["sim", "--workload", "closed,requests=4"]
    compared = [*work, "--compare", "max-num-seqs=1|2"]
    replayed = ["sim", "--replay", folder / "a.rec"]
    for arguments, text in (
        ([*compared, "--csv", out], "--compare cannot be combined with --csv, allowed: --html"),
        ([*compared, "--chrome-trace", out], "--compare cannot be combined with --chrome-trace"),
        ([*compared, "--record", out], "--compare cannot be combined with --record"),
        ([*compared, "--repeat", 2], "--compare cannot be combined with --repeat"),
        ([*compared, "--timeline", "on"], "--compare cannot be combined with --timeline"),
        ([*replayed, "--html", out], "--replay cannot be combined with --html, allowed: --policy, --evict, --json"),
        ([*replayed, "--max-num-seqs", 2], "--replay cannot be combined with --max-num-seqs"),
        ([*replayed, "--compare", "seed=1|2"], "--replay cannot be combined with --compare"),
        ([*work, "--replicas", 2, "--record", out], "--record writes down one engine's decisions, found --replicas 2"),
        ([*work, "--trace-speed", 2], "trace_speed is of traces, found the workload 'closed,requests=4'"),
        (["sim", "--workload", "closed,output=4,output=4"], "workload key 'output' is given twice"),
        ([*work, "--device", "unit,host_us=1,host_us=2"], "device field 'host_us' is given twice"),
        ([*work, "--policy", "vtc:weight_output=3,weight_output=3"], "has the parameter 'weight_output' twice"),
    ):
        error = run(*arguments, status=2)
        assert text in error and error.count("\n") == 1, error
    assert not out.exists()
    assert "--trace-speed requires --trace" in run("bench", "workload", "--workload", "closed", "--trace-speed", 2, status=2)
    assert json.loads(run(*replayed, "--policy", "fcfs", "--json"))["identical"]
    run(*work, "--replicas", 2, "--chrome-trace", folder / "two.json")
    names = [event["args"]["name"] for event in json.loads((folder / "two.json").read_text())["traceEvents"][:2]]
    assert names == ["steps of replica 0", "rows of the batch of replica 0"], names


def check_recording_of_a_failed_run(folder):
    """What fails leaves no half of a recording and nothing else, and the recording that was there as it was."""
    folder = folder / "failed"
    folder.mkdir()
    kept, work = folder / "kept.rec", ["sim", "--workload", "closed,requests=2"]
    kept.write_text("keep")
    large = ["sim", "--workload", "closed,requests=50"]

    def limit_files():  # as a disk that is full after 4 KiB
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    for path in (kept, folder / "new.rec"):
        run(*work, "--policy", "nosuch", "--record", path, status=1)
        run(*work, "--wall-limit-s", 1e-9, "--record", path, status=2)
        full = subprocess.run([PROGRAM, *large, "--record", path], preexec_fn=limit_files, restore_signals=False,
                              capture_output=True)
        assert full.returncode == 1 and b": File too large" in full.stderr, full
    assert [file.name for file in folder.iterdir()] == ["kept.rec"] and kept.read_text() == "keep"
    run(*work, "--record", kept)
    whole = kept.read_bytes()
    assert [file.name for file in folder.iterdir()] == ["kept.rec"] and len(whole) > 700
    # What is no file is written as it stands.
    pipe, link = folder / "pipe", folder / "link.rec"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
    run(*work, "--record", pipe)
    assert reader.communicate()[0] == whole and pipe.is_fifo()
    done = subprocess.run([PROGRAM, *work, "--record", "/dev/stdout"], capture_output=True)
    assert done.stdout.startswith(whole) and done.returncode == 0, done
    link.symlink_to(kept)
    run(*work, "--record", link)
    assert link.is_symlink() and kept.read_bytes() == whole
    assert "/dev/full: No space left on device" in run(*work, "--record", "/dev/full", status=1)


def check_outputs_over_inputs(folder):
    """No output is written over a file that the command reads."""
    model, trace, device = folder / "model.gguf", folder / "in.csv", folder / "dev.json"
    lengths, plugin = folder / "lens.txt", folder / "policy.ifp.so"
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n1,10,5\n")
    device.write_text('{"overhead_us": 1000}')
    lengths.write_text("5\n9\n")
    for path in (model, plugin):
        path.write_text("not looked at")
    work, from_lengths = ["--workload", "closed,requests=2"], ["--workload", f"closed,requests=2,output=file:{lengths}"]
    for path, *arguments in (
        (device, "sim", *work, "--device", device, "--csv", device),
        (device, "sim", *work, "--device", f"{device},host_us=5", "--html", device),
        (lengths, "sim", *from_lengths, "--csv", lengths),
        (lengths, "sim", *work, "--compare", f"output=9|file:{lengths}", "--html", lengths),
        (plugin, "sim", *work, "--policy", f"{plugin}:a=1", "--record", plugin),
        (trace, "bench", "workload", "--trace", trace, "--record", trace),
        (lengths, "bench", "workload", *from_lengths, "--profile", lengths),
        (model, "calibrate", "-m", model, "-o", model),
        (model, "calibrate", "-m", model, "--steps", model),
        (trace, "calibrate", "--trace", trace, "--profile", trace),
        (plugin, "bench", "workload", *work, "--evict", plugin, "--record", plugin),
    ):
        before = path.read_bytes()
        error = run(*arguments, status=2)
        assert "which is read; give the output another name" in error and error.count("\n") == 1, (arguments, error)
        assert path.read_bytes() == before, arguments
    error = run("calibrate", "-o", folder / "both", "--record", folder / "both", status=2)
    assert "--output and --record are both" in error, error


def check_names_that_are_no_utf8(folder):
    """Names of files are bytes: opened as they are, shown with U+FFFD in JSON."""
    trace, device = folder / "tr\udcff.csv", folder / "dev\udcff.json"
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n1,10,5\n2,10,5\n")
    device.write_text('{"overhead_us": 1000}')
    simulated = ["--trace", trace, "--device", device, "--json"]
    assert json.loads(run("sim", *simulated))["workload"] == "tr\ufffd.csv"
    assert json.loads(run("doctor", trace, "--device", device, "--json"))["run"]["workload"] == "tr\ufffd.csv"
    compared = json.loads(run("sim", *simulated, "--compare", "max-num-seqs=1|2"))["runs"]
    assert [one["result"]["workload"] for one in compared] == ["tr\ufffd.csv"] * 2
    assert json.loads(run("tune-limits", *simulated))["tried"]
    assert json.loads(run("bench", "workload", "--trace", trace, "--json"))["workload"].endswith("tr\ufffd.csv")
    (folder / "bad\udcff.ifp.so").write_text("no plugin")
    listed = subprocess.run([PROGRAM, "plugin", "list", "--json"], env={**os.environ, "INFLIGHT_PLUGIN_PATH": str(folder)},
                            capture_output=True)
    assert listed.returncode == 0, listed
    assert any("bad\ufffd.ifp.so" in problem for problem in json.loads(listed.stdout)["problems"]), listed


def check_no_file_is_left(folder):
    """The recording that a live run makes for itself goes with it, also when there is no engine."""
    left = folder / "left"
    left.mkdir()
    for model, status in (([], 0), (["-m", folder / "nosuch.gguf"], 1)):
        done = subprocess.run(
            [PROGRAM, "bench", "workload", "--workload", "closed,requests=1,prompt=8,output=2", *map(str, model)],
            env={**os.environ, "TMPDIR": str(left)}, capture_output=True)
        assert done.returncode == status, done
        assert not list(left.glob("inflight-??????")), (model, list(left.iterdir()))


def check_tools():
    tuned = json.loads(
        run("tune-limits", "--workload", "closed,requests=40,prompt=32,output=30", "--itl-p95-ms", 8, "--json")
    )
    assert tuned["meets_goal"] and tuned["best"]["itl_p95_ms"] <= 8
    found = json.loads(
        run("doctor", "--workload", "bimodal,requests=80", "--batching", "static", "--max-num-seqs", 8, "--json")
    )
    assert [f["problem"] for f in found["findings"]] == ["low_utilisation"]
    (trial,) = found["findings"][0]["tried"]
    assert trial["set"] == {"batching": "continuous"} and trial["mends"]
    assert trial["output_tokens_per_second"] > 2 * found["run"]["output_tokens_per_second"]
    bench = json.loads(run("bench", "sched", "--running", 16, "--waiting", 50, "--repeat", 1, "--policy", "lpm", "--json"))
    assert {"requests_per_second", "step_us_p50", "step_us_p99", "scheduled_tokens", "steps"} <= bench.keys()
    assert bench["scheduled_tokens"] == 66 * 639
    for flag, value in (("--waiting", 2**31 - 1), ("--running", 0), ("--prompt-tokens", 2**31 - 1), ("--output-tokens", 0),
                        ("--repeat", 0), ("--kv-blocks", -1), ("--max-num-batched-tokens", 0)):
        wrong = run("bench", "sched", flag, value, status=2)
        assert str(value) in wrong and wrong.count("\n") == 1, wrong


def check_calibrate(folder):
    """What calibrate says that its profile predicts for each live run is the median of what sim predicts with it, its
    jitter (and the linear layers of few rows) at the pace of that run, and fifteen seeds; where nobody comes by the clock,
    the engine and the simulator decide the same."""
    profile, steps, paced = folder / "here.json", folder / "steps.csv", folder / "paced.json"
    found = json.loads(run("calibrate", "-o", profile, "--steps", steps, "--rounds", 1, "--json"))
    assert json.loads(profile.read_text()) == found["profile"]
    # The demo model: 4 layers of 2 KV heads with 32 numbers of 2 bytes for K and for V, each with a float scale where they
    # are kept as integers; 256 floats of hidden state.
    sizes = {"layers": 4, "hidden_bytes": 256 * 4}
    assert sizes.items() <= found["profile"].items(), found["profile"]
    assert found["profile"]["kv_bytes_per_token"] in (4 * 2 * 2 * 32 * 2, 4 * 2 * 2 * (32 * 2 + 4)), found["profile"]
    lines = list(csv.DictReader(steps.open()))
    assert found["measured_steps"] == sum(line["workload"] == "training" and float(line["us"]) > 0 for line in lines) >= 20
    assert {line["workload"] for line in lines} == {"training", *(check["workload"] for check in found["checks"])}
    assert all(float(line["predicted_us"]) > 0 for line in lines)
    assert 0 <= found["others_share"] <= 1 and found["pace_spread"] > 0, found
    assert found["median_error"] > 0 and found["held_out_error"] > 0 and len(found["profile"]["linear_us"]) > 2
    assert ["same_decisions" in check and check["same_decisions"] for check in found["checks"]] == [True, True, False]
    for check in found["checks"]:
        (pace,) = check["paces"]
        device = json.loads(profile.read_text())
        few, many = pace["decode"], pace["decode"][-1]  # of 1, 2 to 3, 4 to 7, 8 to 15, 16 and more rows
        device["linear_us"] = [[n, us * few[min(n.bit_length(), 5) - 1] / many] for n, us in device["linear_us"]]
        for key, pace in ("decode_jitter", many), ("prompt_jitter", pace["prompt"]):
            device[key] = [[since, [value * pace for value in values]] for since, values in device.get(key, [[0, [1]]])]
        paced.write_text(json.dumps(device))
        again = ["--max-num-seqs", 32, "--max-num-batched-tokens", 512, "--prefix-caching", "off"]
        seeds = range(15)
        runs = [run("sim", "--workload", check["workload"], "--device", paced, *again, "--seed", s, "--json") for s in seeds]
        simulated = statistics.median(json.loads(one)["makespan_s"] for one in runs)
        assert abs(simulated / check["makespan_s"]["simulated"] - 1) < 1e-6, (check, simulated)
        assert 0 < check["makespan_s"]["lowest"] <= check["makespan_s"]["live"] <= check["makespan_s"]["highest"]
    error = run("calibrate", "--max-model-len", 100, status=2)
    assert "the model's length is 100 tokens, calibrate needs 512" in error and error.count("\n") == 1, error


def check_live():
    """The live engine takes the simulator's steps: the same scheduler, another executor."""
    for work, slots, batching, overlap in (
        ("lengths=50,60,400,80", 4, "static", "on"),
        ("bimodal,requests=40,output=mix:0.8:10-50:100-200", 8, "static", "off"),
        ("bimodal,requests=40,output=mix:0.8:10-50:100-200", 8, "continuous", "off"),
        ("bimodal,requests=40,output=mix:0.8:10-50:100-200", 8, "continuous", "on"),
        # Each turn holds the answers before, the engine's own: it finds them stored.
        ("multiturn,requests=10,arrivals=all,concurrency=1,think_ms=0,prefix=20,prompt=10,output=20", 8, "continuous", "on"),
    ):
        arguments = ["--workload", work, "--max-num-seqs", slots, "--batching", batching, "--overlap", overlap, "--json"]
        live = json.loads(run("bench", "workload", *arguments))
        simulated = json.loads(run("sim", *arguments, "--max-num-batched-tokens", 512, "--device", "unit"))
        for key in ("decision_hash", "steps", "requests", "output_tokens", "preemptions", "useful_slot_share", "prefix_hit_rate"):
            assert live[key] == simulated[key], (work, batching, key, live[key], simulated[key])
    urgent = ["--workload", "closed,requests=24,prompt=30,output=20,e2e_ms=600000,tight_share=0.5", "--policy", "edf"]
    urgent += ["--max-num-seqs", 3, "--max-num-batched-tokens", 128, "--json"]  # the policy sees the deadlines
    live, simulated = (json.loads(run(*command, *urgent)) for command in (("bench", "workload"), ("sim", "--device", "unit")))
    assert live["decision_hash"] == simulated["decision_hash"], (live, simulated)
    followed = json.loads(run("bench", "workload", "--workload", "closed,requests=9,concurrency=3,prompt=20,output=5", "--json"))
    assert (followed["requests"], followed["output_tokens"]) == (9, 45), followed
    branches = "branches,requests=9,branches=3,concurrency=1,prompt=20,output=5"  # each client's next three at once
    followed = json.loads(run("bench", "workload", "--workload", branches, "--json"))
    assert (followed["requests"], followed["output_tokens"]) == (9, 45), followed
    assert "give either --workload or --trace" in run("bench", "workload", status=2)
    queue = ["--workload", "closed,requests=20,prompt=8,output=8", "--max-num-seqs", 2, "--max-num-queued-reqs", 6, "--json"]
    for command in (["sim"], ["bench", "workload"]):  # two find a free row, six may wait
        counted = json.loads(run(*command, *queue))
        assert (counted["requests"], counted["requests_rejected"]) == (8, 12), (command, counted)


# What `sim` and `serve` both have, and no recording's configuration tells of.
NOT_RECORDED = {"--help", "--device", "--record", "--overlap", "--max-num-queued-reqs", "--max-queued-requests"}
SHARED = {  # each unlike its default and unlike the others: one that set another's field would show
    "--schedule-policy --policy": "vtc:weight_output=3",
    "--radix-eviction-policy --evict": "s3fifo",
    "--batching": "dynamic",
    "--max-num-seqs": 3,
    "--max-num-batched-tokens": 41,
    "--max-prefill-tokens --chunked-prefill-size --chunk": 23,
    "--long-prefill-token-threshold": 11,
    "--max-model-len": 272,
    "--max-requests": 51,
    "--enable-mixed-chunk": "on",
    "--max-batch-delay-ms": 1.5,
    "--schedule-conservativeness": 0.25,
    "--kv-headroom": 0.125,
    "--kv-blocks": 97,
    "--block-size": 8,
    "--prefix-caching --enable-prefix-caching": "off",
    "--preempt": "auto",
    "--preempt-victim": "cheapest",
    "--host-kv-blocks": 7,
    "--speculative-config": '{"num_speculative_tokens": 5, "prompt_lookup_min": 3, "prompt_lookup_max": 4,'
    ' "disable_by_batch_size": 2, "adaptive": false}',
    "--max-loras": 2,
    "--priority-preemption-threshold": 6,
}


def options_of(*command):
    lines = re.findall(r"^ +(-\S+)", run(*command, "--help"), re.M)
    return {name for line in lines for name in line.split(",") if name.startswith("--")}


def configuration(recording):
    data = recording.read_bytes()
    return json.JSONDecoder().raw_decode(data[data.index(b"{") :].decode("latin-1"))[0]


def check_shared_options(folder):
    """One name, one meaning: what the simulator and the engine both take sets the same of the scheduler's configuration,
    by each of its names."""
    shared = (options_of("sim") & options_of("serve")) - NOT_RECORDED
    names = {names: [name for name in names.split() if name in shared] for names in SHARED}
    assert all(names.values()), names
    assert shared == {name for known in names.values() for name in known}, shared
    work = ["--workload", "closed,requests=2,prompt=8,output=8", "--json"]
    for turn in range(max(map(len, names.values()))):
        options = [f"{known[turn % len(known)]}={SHARED[key]}" for key, known in names.items()]
        live, simulated = folder / "live.rec", folder / "sim.rec"
        run("bench", "workload", *work, *options, "--record", live)
        run("sim", *work, *options, "--record", simulated)
        live, simulated = configuration(live), configuration(simulated)
        plain = configuration(folder / "a.rec")  # of check_sim(): the defaults but for max_num_seqs
        for key in ("block_bytes", "latency_ns", "seed"):  # the model's, the device's
            for setup in (live, simulated):
                setup.pop(key, None)
        assert live == simulated, (options, live, simulated)
        same = {key for key, value in plain.items() if simulated.get(key) == value}
        models = {"sliding_window", "has_state", "kept_states", "draft_model", "local_window", "local_slots", "local_share"}
        assert same <= models | {"max_num_partial_prefills", "host_cache_blocks"}, same


with tempfile.TemporaryDirectory() as name:
    check_sim(pathlib.Path(name))
    check_options_that_exclude_each_other(pathlib.Path(name))
    check_recording_of_a_failed_run(pathlib.Path(name))
    check_outputs_over_inputs(pathlib.Path(name))
    check_names_that_are_no_utf8(pathlib.Path(name))
    check_no_file_is_left(pathlib.Path(name))
    check_speculation(pathlib.Path(name))
    check_shared_options(pathlib.Path(name))
    check_calibrate(pathlib.Path(name))
check_errors()
check_tools()
check_live()
