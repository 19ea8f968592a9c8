#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`inflight devices` as a user meets it: what clinfo says of the same devices, a plausible bandwidth, and the way out
where there is no device.    devices_test.py PROGRAM"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv[1]


def run(*args, **environment):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **environment})


class Devices(unittest.TestCase):
    def test_each_device_has_what_users_choose_by(self):
        done = run("devices", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        devices = json.loads(done.stdout)["devices"]
        self.assertEqual([device["index"] for device in devices], list(range(len(devices))))
        self.assertEqual(sum(device["default"] for device in devices), 1)
        for device in devices:
            self.assertTrue(device["name"])
            self.assertGreater(device["compute_units"], 0)
            self.assertGreater(device["memory_bytes"], 1 << 20)
            self.assertGreater(device["read_bandwidth_gb_per_second"], 0.1)
        text = run("devices").stdout
        for device in devices:
            self.assertIn(device["name"], text)

    def test_the_environment_chooses(self):
        name = json.loads(run("devices", "--json").stdout)["devices"][-1]["name"]
        devices = json.loads(run("devices", "--json", INFLIGHT_DEVICE=name[:6].upper()).stdout)["devices"]
        self.assertTrue(any(device["default"] and name[:6].lower() in device["name"].lower() for device in devices))
        bad = run("devices", INFLIGHT_DEVICE="nosuchdevice")
        self.assertEqual(bad.returncode, 1)
        self.assertIn("nosuchdevice", bad.stderr)

    def test_no_device_names_the_package(self):
        with tempfile.TemporaryDirectory() as empty:
            done = run("devices", OCL_ICD_VENDORS=empty + "/")
        self.assertEqual(done.returncode, 1)
        self.assertIn("pocl-opencl-icd", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1)


unittest.main(argv=sys.argv[:1], verbosity=2)
