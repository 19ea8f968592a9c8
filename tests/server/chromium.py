# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium driven through its DevTools protocol, with nothing but Python's own library; what tests of pages share."""
import base64
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from server_process import Server

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")


class Chromium:
    """with Chromium() as browser: page = browser.open(url, 1280, 900)"""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        read_commands, self.commands = os.pipe()
        self.answers, write_answers = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
                 "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={self.folder.name}"]
        # The protocol's pipes are the descriptors 3 and 4.
        script = f'exec "$@" 3<&{read_commands} 4>&{write_answers}'
        self.process = subprocess.Popen(
            ["bash", "-c", script, "bash", PROGRAM, *flags, "about:blank"], pass_fds=(read_commands, write_answers),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(read_commands)
        os.close(write_answers)
        self.received = b""
        self.number = 0
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        self.folder.cleanup()

    def read(self, seconds):
        """The next message."""
        end = time.monotonic() + seconds
        while b"\0" not in self.received:
            if not select.select([self.answers], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"Chromium said nothing for {seconds} s")
            part = os.read(self.answers, 1 << 16)
            if not part:
                raise RuntimeError("Chromium has ended")
            self.received += part
        message, _, self.received = self.received.partition(b"\0")
        return json.loads(message)

    def call(self, method, session=None, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read(60)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, url, width, height, dark=False):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, session, url, width, height, dark)


class Page:
    def __init__(self, browser, session, url, width, height, dark):
        self.browser, self.session = browser, session
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def run(self, script):
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, script, seconds=60):
        """Waits until the expression is true; its value."""
        end = time.monotonic() + seconds
        while True:
            value = self.run(script)
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds} s: {script}")
            time.sleep(0.05)

    def key(self, key, **modifiers):
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        code = {"Enter": 13, "Escape": 27, "Tab": 9}.get(key, 0)
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=text if kind == "keyDown" else "",
                      windowsVirtualKeyCode=code, **modifiers)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def report(self, name):
        """A screenshot for people, where INFLIGHT_REPORT_DIR says."""
        if folder := os.environ.get("INFLIGHT_REPORT_DIR"):
            os.makedirs(folder, exist_ok=True)
            self.screenshot(f"{folder}/{name}.png")

    def complaints(self):
        """What the page's console and the browser's log hold, and answers that are errors."""
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"])
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                found.append(params["args"])
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
            elif event["method"] == "Network.responseReceived" and params["response"]["status"] >= 400:
                found.append((params["response"]["status"], params["response"]["url"]))
        return found

    def requested(self):
        return [event["params"]["request"]["url"] for event in self.browser.events
                if event.get("sessionId") == self.session and event["method"] == "Network.requestWillBeSent"]


class PageTest(unittest.TestCase):
    """Tests of pages: one server and one browser for all tests of a class."""
    program = None  # set by main()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(PageTest.program)
        cls.addClassCleanup(cls.server.__exit__)
        cls.browser = Chromium()
        cls.addClassCleanup(cls.browser.__exit__)


def main():
    """TEST.py PROGRAM [unittest arguments];  exit 77 where Chromium is absent."""
    if PROGRAM is None:
        print("skipped: no chromium on this machine (Debian: apt install chromium)")
        sys.exit(77)
    PageTest.program = sys.argv.pop(1)
    unittest.main()
