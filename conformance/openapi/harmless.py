"""Keeps generated requests harmless. The server runs the programs that they name, perhaps as root.

The `tame_*` functions make a harmful request harmless right before it is sent. `refuse_harmful` inspects the bytes
that are sent and stops a request that they have missed.
"""

import json
from urllib.parse import unquote, urlsplit

# Programs and their arguments; None keeps the generated arguments.
COMMANDS = [("true", None), ("false", None), ("echo", None), ("cat", []), ("sleep", ["0.05"])]
SHELL_LINES = ["true", "echo out; echo err >&2", "exit 7"]
MAX_WAIT_MS = 500
# A larger number is meant to break arithmetic, not to wait.
HUGE_MS = 1 << 40

START_PATHS = ("/v1/processes", "/v1/processes/run")


class HarmfulRequest(Exception):
    pass


def is_number(value):
    return isinstance(value, int) and not isinstance(value, bool)


def choose(options, value):
    """Chooses an option; the same one for the same request."""
    return options[sum(repr(value).encode()) % len(options)]


def limited(value):
    """Limits a time. An invalid value stays, for the server to refuse."""
    if value is None:
        return MAX_WAIT_MS
    return min(value, MAX_WAIT_MS) if is_number(value) and value > 0 else value


def tame_command(body):
    """Makes a body for `POST /v1/processes` or `/v1/processes/run` harmless; most other fields stay as generated."""
    if not isinstance(body, dict):
        # serde may accept a list as the fields of an object in their order.
        return {"command": "true"} if isinstance(body, list) else body
    body = dict(body)
    # The server must refuse an empty command or one that is not a string, so those stay.
    if isinstance(body.get("command"), str) and body["command"].strip():
        if body.get("shell") is True:
            body["command"] = choose(SHELL_LINES, body["command"])
        else:
            body["command"], arguments = choose(COMMANDS, body["command"])
            if arguments is not None:
                body["args"] = arguments
    body["timeoutMs"] = limited(body.get("timeoutMs"))
    if isinstance(body.get("env"), dict):
        # The prefix prevents names such as LD_PRELOAD and PATH. Invalid names stay, for the server to refuse.
        is_invalid = lambda name: not name or "=" in name or "\0" in name
        body["env"] = {name if is_invalid(name) else f"X_{name}": value for name, value in body["env"].items()}
    if isinstance(body.get("restart"), dict) and body["restart"].get("mode") in ("always", "on-failure"):
        body["restart"] = {"mode": body["restart"]["mode"], "maxRestarts": 1, "delayMs": 10}
    if isinstance(body.get("limits"), dict) and is_number(body["limits"].get("coreBytes")):
        body["limits"] = body["limits"] | {"coreBytes": 0}
    return body


def tame_query(path, query):
    if not isinstance(query, dict):
        return query
    query = dict(query)
    # A followed log or output may never end.
    if "true" in str(query.get("follow")).lower():
        query["follow"] = "false"
    # A program that a request has stopped with SIGSTOP does not react to TERM, so the grace time must be short.
    if path.endswith(("/stop", "/restart")) and str(query.get("graceMs")).isdecimal():
        query["graceMs"] = min(int(query["graceMs"]), MAX_WAIT_MS)
    return query


def refuse_harmful(request):
    """Raises if the prepared request is harmful."""
    if request.method != "POST":
        return
    path = unquote(urlsplit(request.url).path).rstrip("/")
    if path == "/v1/upgrade":
        raise HarmfulRequest("an upgrade would replace the server under test")
    if path not in START_PATHS or not request.body:
        return
    try:
        body = json.loads(request.body)
    except ValueError:
        return
    if isinstance(body, list):
        raise HarmfulRequest(f"a list could start a program: {body!r}")
    command = body.get("command") if isinstance(body, dict) else None
    if not isinstance(command, str) or not command.strip():
        return
    fixed = {name: arguments for name, arguments in COMMANDS}
    is_line = body.get("shell") is True and command in SHELL_LINES
    is_program = command in fixed and (fixed[command] is None or body.get("args") == fixed[command])
    if not is_line and (body.get("shell") is True or not is_program):
        raise HarmfulRequest(f"would start {command!r} with {body.get('args')!r}")
