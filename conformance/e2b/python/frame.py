"""A register of checks, and what they work with."""

import json
import signal
import time
import urllib.request
from contextlib import contextmanager

from e2b import Sandbox

REGISTERED = []
PATIENCE_S = 20
# Every command is a login shell: without a HOME of its own it would run the profile of whoever started the server.
ENVS = {"HOME": "/tmp"}


def check(function):
    REGISTERED.append((f"python_{function.__name__}", function))
    return function


@contextmanager
def deadline(seconds):
    def late(number, stack):
        raise TimeoutError(f"not done within {seconds} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def eventually(what, look):
    until = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < until, f"never came: {what}"
        time.sleep(0.02)
    return found


class Context:
    def __init__(self, base):
        self.base = base
        self.url = f"{base}/e2b"
        self.pids = set()

    def sandbox(self):
        return Sandbox.connect("any-id", debug=True, sandbox_url=self.url)

    def run(self, command, **options):
        options["envs"] = ENVS | options.get("envs", {})
        return self.sandbox().commands.run(command, **options)

    def background(self, command, **options):
        handle = self.run(command, **({"background": True, "timeout": 0} | options))
        self.pids.add(handle.pid)
        return handle

    def native(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, method=method)
        if data is not None:
            request.add_header("content-type", "application/json")
        with urllib.request.urlopen(request, timeout=PATIENCE_S + 5) as response:
            return json.loads(response.read() or b"null")

    def until_printed(self, pid, pattern):
        wait = {"for": "output", "pattern": pattern, "timeoutMs": PATIENCE_S * 1000, "from": 0}
        answer = self.native("POST", f"/v1/processes/pid:{pid}/wait", wait)
        assert answer["outcome"] == "matched", pattern

    def until_exited(self, pid):
        answer = self.native("POST", f"/v1/processes/pid:{pid}/wait", {"timeoutMs": PATIENCE_S * 1000})
        assert answer["outcome"] == "exited"

    def clean_up(self):
        for pid in self.pids:
            try:
                self.native("POST", f"/v1/processes/pid:{pid}/kill")
            except OSError:
                pass  # It has ended, or the server is what is broken.
