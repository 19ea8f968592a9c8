# SPDX-License-Identifier: Apache-2.0
"""Row 21: at which loads speculative decoding pays."""

import json

from lab import plot, sim, table, verdict

# Device: its limits, the lengths of a chat, with how many running sequences a step still waits for memory.
DEVICES = {
    "gpu-8b": (
        dict(max_num_seqs=256, max_num_batched_tokens=2048),
        "poisson,requests=1500,prompt=lognormal:256:0.8,output=lognormal:200:0.6",
        32,
    ),
    "pocl-135m": (
        dict(max_num_seqs=32, max_num_batched_tokens=256),
        "poisson,requests=600,prompt=lognormal:64:0.8,output=lognormal:100:0.6",
        2,
    ),
}
LOADS = (0.05, 0.2, 0.4, 0.6, 0.8, 0.95)
ACCEPTANCES = (0.3, 0.7)


def arms(few):
    return {
        "2": dict(num_speculative_tokens=2, adaptive=False),
        "4": dict(num_speculative_tokens=4, adaptive=False),
        "4, adaptive": dict(num_speculative_tokens=4),
        f"4, adaptive, off above {few} sequences": dict(num_speculative_tokens=4, disable_by_batch_size=few),
    }


def by_load():
    """Rows, the gains of E2E by load and those of what is served at most, by (device, acceptance, arm), and pictures."""
    rows, gains, most_gains, pictures = [], {}, {}, []
    for device, (limits, work, few) in DEVICES.items():
        keys = dict(device=device, prefix_caching="off", **limits)
        most = sim(f"{work},arrivals=all", **keys)["requests_per_second"]
        rates = [f"rate={load * most:.4g}" for load in LOADS]
        plain = [sim(f"{work},{rate}", **keys) for rate in rates]
        for acceptance in ACCEPTANCES:
            for arm, config in arms(few).items():
                guessing = dict(speculative_config=json.dumps(config), **keys)
                own = f"{work},acceptance={acceptance}"
                runs = [sim(f"{own},{rate}", **guessing) for rate in rates]
                key = device, acceptance, arm
                gains[key] = [a["e2e_ms"]["mean"] / b["e2e_ms"]["mean"] for a, b in zip(plain, runs)]
                most_gains[key] = sim(f"{own},arrivals=all", **guessing)["requests_per_second"] / most
                tpot = [a["tpot_ms"]["mean"] / b["tpot_ms"]["mean"] for a, b in zip(plain, runs)]
                cells = [f"{gain:.2f} ({share:.2f})" for gain, share in zip(gains[key], tpot)]
                length = f"{runs[0]['spec_decode_mean_acceptance_length']:.2f}"
                rows.append((*key, length, *cells, f"{most_gains[key]:.2f}"))
        series = [
            (f"{key[1]}: {key[2]}", list(LOADS), values)
            for key, values in gains.items()
            if key[0] == device and "off above" not in key[2]
        ]
        pictures.append(
            plot(f"speculation-{device}", f"{device}: E2E without guesses over that with", "load", "speedup", series)
        )
    return rows, gains, most_gains, pictures


def speculation():
    rows, gains, most_gains, pictures = by_load()
    fixed = [key for key in gains if "adaptive" not in key[2]]
    low = [gains[key][0] for key in fixed]
    losing = [1 / most_gains[key] for key in fixed if most_gains[key] < 1.0]
    winning = [", ".join(map(str, key)) for key in fixed if most_gains[key] >= 1.0]
    remedy = [min(values) for key, values in gains.items() if "off above" in key[2]]
    adaptive = [most_gains[key] for key in gains if key[2].endswith("adaptive")]
    unlikely = [key for key in fixed if key[1] == min(ACCEPTANCES)]
    return "\n\n".join(
        [
            (
                "Requests at random times. Load 1 is the rate served without guesses when all are there at once; the last column"
                " is what guessing makes of that rate. Each guess is right with the probability in the second column when those"
                " before it are. A cell is the speedup of the mean E2E and, in brackets, of the mean TPOT. Guesses are rows of"
                " the step; making them costs nothing (a draft model would). Adaptive is the engine's own rule: one guess more"
                " than were right the last time."
            ),
            table(
                ["device", "right", "guesses", "tokens a step", *(f"load {load}" for load in LOADS), "served at most"], rows
            ),
            *pictures,
            verdict(
                min(low) > 1.0 and all(most_gains[key] < 1.0 and gains[key][-1] < 1.0 for key in unlikely),
                f"At low load every arm with a fixed number of guesses gains: {min(low):.2f} to {max(low):.2f} times. Of the most"
                f" that can be served, {len(losing)} of {len(fixed)} lose, {min(losing):.2f} to {max(losing):.2f} times"
                f" (published: 1.4 to 1.8); near that limit the waiting list makes far more of it (E2E down to"
                f" {min(min(gains[key]) for key in fixed):.2f} of the speed)."
                + (f" More is served with: {'; '.join(winning)}." if winning else "")
                + f" The adaptive rule loses less: it serves {min(adaptive):.2f} to {max(adaptive):.2f} of the rate. With"
                f" `disable_by_batch_size` the gain at low load stays and no load has less than {min(remedy):.2f} of the speed.",
            ),
        ]
    )


ROWS = {
    21: (
        "Speculative decoding by load",
        "1.5 to 2.8 x at low request rates, 1.4 to 1.8 x slower at high ones (vLLM's blog, 2024; Liu et al. 2024, arXiv"
        " 2406.14066).",
        speculation,
    )
}
