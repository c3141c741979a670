"""A register of checks, a deadline for each, and facts to wait for."""

import asyncio
import inspect
import json
import random
import signal
import time
import urllib.request
from contextlib import contextmanager

REGISTERED = []
DEADLINE_S = 60
# Longer than anything should take, even on a busy machine.
PATIENCE_S = 20


def check(function):
    """Registers a check, a function or a coroutine function of a context. It passes if it returns."""
    REGISTERED.append((f"python_{function.__name__}", function))
    return function


def run_one(function, context):
    if inspect.iscoroutinefunction(function):
        asyncio.run(_run_coroutine(function, context))
        return
    try:
        with _deadline():
            function(context)
    finally:
        context.clean_up()


async def _run_coroutine(function, context):
    try:
        await asyncio.wait_for(function(context), DEADLINE_S)
    finally:
        await context.clean_up()


@contextmanager
def _deadline():
    def late(number, stack):
        raise TimeoutError(f"not done within {DEADLINE_S} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(DEADLINE_S)
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
    """A word that nothing else on this machine has in its command line."""
    return f"mark{random.randrange(1 << 48):x}"


def request(method, url, body=None):
    """A request that no official client makes; its answer is JSON."""
    data = None if body is None else json.dumps(body).encode()
    sent = urllib.request.Request(url, data, method=method)
    if data is not None:
        sent.add_header("content-type", "application/json")
    # A wait of the server's own lasts as long as our patience.
    with urllib.request.urlopen(sent, timeout=PATIENCE_S + 5) as response:
        return json.loads(response.read() or b"null")
