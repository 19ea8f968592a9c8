# SPDX-License-Identifier: Apache-2.0
"""A running `inflight serve` and a plain client for it: what the server's tests share."""
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time


class Server:
    """with Server(PROGRAM, "--max-num-seqs", "2") as server: ..."""

    def __init__(self, program, *flags, environment=None, stdin=None):
        """environment: variables beside those of this process."""
        self.lines = []
        self.described = None  # JSON Schema's errors of a body, by path; see expect_described()
        self.process = subprocess.Popen([program, "serve", "--port", "0", *flags], stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **(environment or {})}, stdin=stdin)
        self.port = None
        for line in self.process.stderr:
            self.lines.append(line)
            if match := re.search(r"serving on http://[^:]+:(\d+)", line):
                self.port = int(match[1])
                break
        if self.port is None:
            raise RuntimeError("the server did not start: " + "".join(self.lines))
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.process.stderr))
        self.reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.send_signal(signal.SIGTERM)
        self.wait()

    def wait(self):
        """The exit status."""
        status = self.process.wait(timeout=120)
        self.reader.join()
        self.process.stderr.close()
        return status

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def request(self, method, path, body=None, headers=None):
        """(status, headers, body): JSON where the server says so."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        headers = dict(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        if data and answer.headers.get_content_type() == "application/json":
            data = json.loads(data)
        if answer.status == 200 and self.described and path in self.described:
            errors = [error.message for error in self.described[path](json.loads(body))]
            assert not errors, (path, body, errors)
        return answer.status, answer.headers, data

    def expect_described(self):
        """From now on what the server takes must be valid by /openapi.json; without effect where PyPI's jsonschema is missing."""
        try:
            import jsonschema
        except ImportError:
            return self
        document = self.request("GET", "/openapi.json")[2]
        self.described = {
            path: jsonschema.Draft202012Validator({**document, **method["post"]["requestBody"]["content"]["application/json"]
                                                   ["schema"]}).iter_errors
            for path, method in document["paths"].items() if "requestBody" in method.get("post", {})}
        return self

    def post(self, path, body, **headers):
        """The body of an answer that must be 200."""
        status, _, data = self.request("POST", path, body, headers)
        assert status == 200, (status, data)
        return data

    def open_stream(self, path, body):
        """(connection, answer) with the answer's head read."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("POST", path, json.dumps({**body, "stream": True}), {"Content-Type": "application/json"})
        return connection, connection.getresponse()

    def stream(self, path, body):
        """The events of a whole streamed answer; checks that [DONE] ends it."""
        connection, answer = self.open_stream(path, body)
        text = answer.read().decode()
        connection.close()
        assert answer.status == 200, (answer.status, text)
        lines = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
        if not path.endswith("responses"):
            assert lines.pop() == "[DONE]", lines
        return [json.loads(line) for line in lines]

    def metrics(self):
        """name -> value of the samples without further labels than the model's name."""
        _, _, text = self.request("GET", "/metrics")
        pattern = r'^([a-z0-9_:]+)(?:\{model_name="[^"]*"\})? ([0-9.e+-]+)$'
        return {name: float(value) for name, value in re.findall(pattern, text.decode(), flags=re.M)}

    def labelled(self, name, label):
        """The samples of metric `name`, by the value of `label`."""
        _, _, text = self.request("GET", "/metrics")
        pattern = rf'^{name}\{{[^}}]*{label}="([^"]*)"[^}}]*\}} ([0-9.e+-]+)$'
        return {key: float(value) for key, value in re.findall(pattern, text.decode(), flags=re.M)}

    def wait_idle(self, seconds=30):
        """Waits until nothing runs; the metrics then."""
        end = time.monotonic() + seconds
        while True:
            now = self.metrics()
            if now["inflight_num_requests_running"] == 0 and now["inflight_num_requests_waiting"] == 0:
                return now
            if time.monotonic() > end:
                raise AssertionError(f"still running after {seconds} s: {now}")

    def threads(self):
        return len(list(pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()))

    def open_files(self):
        return len(list(pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def resident_kilobytes(self, which="VmRSS"):
        """which: "VmHWM" for the most until now."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"{which}:\s+(\d+)", status)[1])
