#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prometheus text on stdin -> JSON {"name{a=b}": value} on stdout, read by Prometheus' own Python client.

Exit 3: the client is not installed. Exit 1: the text is not what the format asks for.
"""
import json
import math
import sys

try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError:
    sys.exit(3)


def main():
    values, seen = {}, set()
    for family in text_string_to_metric_families(sys.stdin.read()):
        if family.name in seen or not family.documentation or family.type == "unknown" or not family.samples:
            sys.exit(f"{family.name}: declared twice, without help, type or samples")
        seen.add(family.name)
        below = None
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            key = f"{sample.name}{{{labels}}}" if labels else sample.name
            if key in values:
                sys.exit(f"{key}: twice")
            values[key] = sample.value if math.isfinite(sample.value) else str(sample.value)
            if sample.name.endswith("_bucket"):
                if below is not None and sample.value < below:
                    sys.exit(f"{key}: buckets do not accumulate")
                below = sample.value
            elif sample.name.endswith("_count") and family.type == "histogram":
                if sample.value != below:
                    sys.exit(f"{key}: not the last bucket")
                below = None
    json.dump(values, sys.stdout)


main()
