"""Registers checks, runs each with a time limit, and waits for conditions."""

import asyncio
import inspect
import json
import random
import signal
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

REGISTERED = []
TIME_LIMIT_S = 60
# Longer than any step takes, even on a busy machine.
TIMEOUT_S = 20


def check(function):
    """Registers a check: a function or coroutine function with a context as its argument. It passes if it returns."""
    REGISTERED.append((f"python_{function.__name__}", function))
    return function


def run_one(function, context):
    _remove_stale_login_lock()
    if inspect.iscoroutinefunction(function):
        asyncio.run(_run_coroutine(function, context))
        return
    try:
        with _time_limit():
            function(context)
    finally:
        context.clean_up()


async def _run_coroutine(function, context):
    try:
        await asyncio.wait_for(function(context), TIME_LIMIT_S)
    finally:
        await context.clean_up()


def _remove_stale_login_lock():
    """As login_lock.mjs: a killed login shell may leave a lock that delays all later ones."""
    lock = Path.home() / ".pyenv/shims/.pyenv-shim"
    if lock.exists() and not any(map(_is_rehash, Path("/proc").glob("[0-9]*/cmdline"))):
        lock.unlink(missing_ok=True)


def _is_rehash(command):
    try:
        return b"pyenv-rehash" in command.read_bytes()
    except OSError:
        # It has ended in the meantime.
        return False


@contextmanager
def _time_limit():
    def on_alarm(number, stack):
        raise TimeoutError(f"not done within {TIME_LIMIT_S} s")

    signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(TIME_LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)


def eventually(what, probe):
    deadline = time.monotonic() + TIMEOUT_S
    while not (found := probe()):
        assert time.monotonic() < deadline, f"timed out waiting for: {what}"
        time.sleep(0.02)
    return found


def unique_marker():
    """A word that no other command line on this machine contains."""
    return f"mark{random.randrange(1 << 48):x}"


def request(method, url, body=None):
    """Sends a request that no official client makes. The response is JSON."""
    data = None if body is None else json.dumps(body).encode()
    sent = urllib.request.Request(url, data, method=method)
    if data is not None:
        sent.add_header("content-type", "application/json")
    # A wait on the server may take up to TIMEOUT_S.
    with urllib.request.urlopen(sent, timeout=TIMEOUT_S + 5) as response:
        return json.loads(response.read() or b"null")
