"""A register of checks, and what they work with."""

import json
import random
import signal
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.models.sandboxes import SandboxEndpoint
from opensandbox.sync.adapters.command_adapter import CommandsAdapterSync
from opensandbox.sync.adapters.health_adapter import HealthAdapterSync
from opensandbox.sync.adapters.metrics_adapter import MetricsAdapterSync

REGISTERED = []
PATIENCE_S = 20


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


def mark():
    return f"mark{random.randrange(1 << 48):x}"


class Context:
    def __init__(self, base):
        self.base = base
        self.domain = f"{base.removeprefix('http://')}/opensandbox"
        self.config = ConnectionConfigSync(protocol="http").with_transport_if_missing()
        self.endpoint = SandboxEndpoint(endpoint=self.domain)
        self.at_end = []

    @property
    def commands(self):
        return CommandsAdapterSync(self.config, self.endpoint)

    @property
    def health(self):
        return HealthAdapterSync(self.config, self.endpoint)

    @property
    def metrics(self):
        return MetricsAdapterSync(self.config, self.endpoint)

    def run(self, command, **options):
        from opensandbox.models.execd import RunCommandOpts

        execution = self.commands.run(command, opts=RunCommandOpts(**options))
        assert execution.id, "every stream begins with an id"
        return execution

    def background(self, command, **options):
        execution = self.run(command, background=True, **options)
        self.at_end.append(lambda: self.commands.interrupt(execution.id))
        return execution.id

    def until_over(self, id):
        def look():
            status = self.commands.get_command_status(id)
            assert status.running in (True, False)
            return None if status.running else status

        return eventually(f"the end of {id}", look)

    def http(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.domain}{path}", data, method=method)
        if data is not None:
            request.add_header("content-type", "application/json")
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return json.loads(response.read() or b"null")

    def clean_up(self):
        for step in reversed(self.at_end):
            try:
                step()
            except Exception:
                pass  # It has ended, or the server is what is broken.
