# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's server, as long as something is asked of it."""
import contextlib
import json
import socket
import subprocess
import time
import urllib.request


@contextlib.contextmanager
def served(server, path, *more):
    """What posts to a llama-server with float32 KV."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    arguments = ["-m", path, "--port", port, "-c", 128, "-np", 1, "-ctk", "f32", "-ctv", "f32", "-fa", "off", "--no-warmup"]
    process = subprocess.Popen([server, *map(str, arguments), *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def post(place, body):
        request = urllib.request.Request(url + place, json.dumps(body).encode(), {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request, timeout=60))

    try:
        for _ in range(300):
            try:
                if urllib.request.urlopen(url + "/health", timeout=1).status == 200:
                    break
            except OSError:
                time.sleep(0.1)
        yield post
    finally:
        process.terminate()
        process.wait()
