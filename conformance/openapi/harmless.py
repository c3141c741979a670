"""What may be sent. Requests are made up, and the server runs what it is told to, perhaps as root.

`tame` changes a request that would do harm into one that does not, as late as possible: right before it is sent.
`refuse` looks at the bytes that go out and stops whatever `tame` has overlooked.
"""

import json
from urllib.parse import unquote, urlsplit

# Program, and the arguments it is given; None leaves those that were made up.
COMMANDS = [("true", None), ("false", None), ("echo", None), ("cat", []), ("sleep", ["0.05"])]
SHELL_LINES = ["true", "echo out; echo err >&2", "exit 7"]
MOST_MS = 500
# Above this a number is meant to break arithmetic, not to wait.
HUGE_MS = 1 << 40

STARTS_SOMETHING = ("/v1/processes", "/v1/processes/run")


class Harmful(Exception):
    pass


def is_number(value):
    return isinstance(value, int) and not isinstance(value, bool)


def choose(among, value):
    """The same one for the same request."""
    return among[sum(repr(value).encode()) % len(among)]


def limited(value):
    """A time that is over soon. What is no time stays, for the server to refuse."""
    if value is None:
        return MOST_MS
    return min(value, MOST_MS) if is_number(value) and value > 0 else value


def tame_command(body):
    """A body for `POST /v1/processes` or `/v1/processes/run`, of which only the program is not the caller's choice."""
    if not isinstance(body, dict):
        # A list could be taken for the fields of an object, in their order.
        return {"command": "true"} if isinstance(body, list) else body
    body = dict(body)
    # No string, or an empty one, is refused; it stays so that this is seen.
    if isinstance(body.get("command"), str) and body["command"].strip():
        if body.get("shell") is True:
            body["command"] = choose(SHELL_LINES, body["command"])
        else:
            body["command"], arguments = choose(COMMANDS, body["command"])
            if arguments is not None:
                body["args"] = arguments
    body["timeoutMs"] = limited(body.get("timeoutMs"))
    if isinstance(body.get("env"), dict):
        # Not LD_PRELOAD, nor PATH. Names that are refused stay.
        bad = lambda name: not name or "=" in name or "\0" in name
        body["env"] = {name if bad(name) else f"X_{name}": value for name, value in body["env"].items()}
    if isinstance(body.get("restart"), dict) and body["restart"].get("mode") in ("always", "on-failure"):
        body["restart"] = {"mode": body["restart"]["mode"], "maxRestarts": 1, "delayMs": 10}
    if isinstance(body.get("limits"), dict) and is_number(body["limits"].get("coreBytes")):
        body["limits"] = body["limits"] | {"coreBytes": 0}
    return body


def tame_query(path, query):
    if not isinstance(query, dict):
        return query
    query = dict(query)
    # A followed log or output has no end.
    if "true" in str(query.get("follow")).lower():
        query["follow"] = "false"
    # A program that was sent SIGSTOP takes no TERM: the KILL must not be far.
    if path.endswith(("/stop", "/restart")) and str(query.get("graceMs")).isdecimal():
        query["graceMs"] = min(int(query["graceMs"]), MOST_MS)
    return query


def refuse(request):
    """Raises unless these bytes are harmless. `request` is what goes out."""
    if request.method != "POST":
        return
    path = unquote(urlsplit(request.url).path).rstrip("/")
    if path == "/v1/upgrade":
        raise Harmful("an upgrade would replace the server under test")
    if path not in STARTS_SOMETHING or not request.body:
        return
    try:
        body = json.loads(request.body)
    except ValueError:
        return
    if isinstance(body, list):
        raise Harmful(f"a list could start something: {body!r}")
    command = body.get("command") if isinstance(body, dict) else None
    if not isinstance(command, str) or not command.strip():
        return
    fixed = {name: arguments for name, arguments in COMMANDS}
    is_line = body.get("shell") is True and command in SHELL_LINES
    is_program = command in fixed and (fixed[command] is None or body.get("args") == fixed[command])
    if not is_line and (body.get("shell") is True or not is_program):
        raise Harmful(f"would start {command!r} with {body.get('args')!r}")
