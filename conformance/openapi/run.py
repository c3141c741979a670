"""Sends made-up requests to a live server and compares the answers with its own OpenAPI document.

The server must be fresh and must not ask for a token. Prints a line per operation, then `N passed, M failed`.
"""

import argparse
import sys
from collections import defaultdict
from pathlib import Path

import requests
import schemathesis
from schemathesis.engine import Status, events, from_schema

import harmless
from fixtures import SPECS, Fixtures

HERE = Path(__file__).parent
# More of the same says nothing new.
MOST_FAILURES_SHOWN = 5
# schemathesis learns the ids that it was answered, and would hardly ever ask for one that is not there.
NOBODY = "proc_nobody"


def guard_what_is_sent():
    """Below everything that could make a request, ours and schemathesis's."""
    send = requests.adapters.HTTPAdapter.send

    def guarded(self, request, **kwargs):
        harmless.refuse(request)
        return send(self, request, **kwargs)

    requests.adapters.HTTPAdapter.send = guarded


def point(case, fixtures):
    """Most requests about a process are about one that is there."""
    given = case.path_parameters
    if not given or not isinstance(given.get("id"), str):
        return
    kind = harmless.choose([*SPECS, None, NOBODY], [given, case.query, str(case.body)])
    if waits_long(case):
        # Fine where there is nothing left to wait for.
        kind = "exited"
    if kind is not None:
        case.path_parameters = given | {"id": NOBODY if kind == NOBODY else fixtures.id_of(kind)}


def waits_long(case):
    timeout = case.body.get("timeoutMs") if isinstance(case.body, dict) else None
    # What waits for a process ends with it; nobody comes to listen on a port that was made up.
    is_of_process = case.operation.path.endswith("/{id}/wait")
    return is_of_process and harmless.is_number(timeout) and timeout > harmless.HUGE_MS


def install_hooks(fixtures):
    @schemathesis.hook
    def before_call(context, case, kwargs):
        path = case.operation.path
        point(case, fixtures)
        case.query = harmless.tame_query(path, case.query)
        if path in harmless.STARTS_SOMETHING:
            case.body = harmless.tame_command(case.body)
        elif path.endswith("/wait") and isinstance(case.body, dict) and not waits_long(case):
            case.body = case.body | {"timeoutMs": harmless.limited(case.body.get("timeoutMs"))}

    @schemathesis.hook
    def after_call(context, case, response):
        if case.operation.path in fixtures.limits and response.status_code == 200 and case.method == "POST":
            fixtures.restore_limits()


class Report:
    def __init__(self, operations):
        self.operations = operations
        self.requests = defaultdict(int)
        self.failures = defaultdict(dict)
        self.seen = set()

    def scenario(self, event):
        if event.status == Status.SKIP:
            return
        recorder = event.recorder
        self.seen.add(recorder.label)
        self.requests[recorder.label] += len(recorder.cases)
        for case_id, checks in recorder.checks.items():
            for check in checks:
                if check.status == Status.FAILURE:
                    failure = check.failure_info.failure
                    example = check.failure_info.code_sample
                    title = f"{check.name}: {failure.title}"
                    self.failures[recorder.label].setdefault(title, f"{failure.message}\n{example}")

    def error(self, event):
        self.failures[event.label].setdefault("error", f"{type(event.value).__name__}: {event.value}")

    def print(self):
        failed = 0
        for label in self.operations:
            failures = dict(self.failures.get(label, {}))
            if label not in self.seen:
                failures["not reached"] = "the time was over before, or nothing could be generated"
            print(f"{'FAIL' if failures else 'ok'} {label} ({self.requests[label]} requests)")
            for title, text in list(failures.items())[:MOST_FAILURES_SHOWN]:
                print(f"    {title}")
                print("".join(f"        {line}\n" for line in str(text).splitlines()), end="")
            failed += bool(failures)
        # What belongs to no operation is not lost.
        for label in self.failures.keys() - set(self.operations):
            print(f"FAIL {label}: {self.failures[label]}")
            failed += 1
        print(f"{len(self.operations) - failed} passed, {failed} failed", flush=True)
        return failed


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--base-url", required=True)
    base_url = arguments.parse_args().base_url.rstrip("/")

    guard_what_is_sent()
    install_hooks(Fixtures(base_url))
    config = schemathesis.Config.from_path(HERE / "schemathesis.toml")
    print(f"schemathesis {schemathesis.__version__}, seed {config.seed}")
    schema = schemathesis.openapi.from_url(f"{base_url}/v1/openapi.json", config=config)
    operations = [found.ok().label for found in schema.get_all_operations()]
    report = Report(operations)
    for event in from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            report.scenario(event)
        elif isinstance(event, events.NonFatalError):
            report.error(event)
        elif isinstance(event, events.FatalError):
            raise event.exception
        elif isinstance(event, events.EngineFinished):
            print(f"{event.running_time:.0f} s, {sum(report.requests.values())} requests, {event.stop_reason.value}")
    return 1 if report.print() else 0


if __name__ == "__main__":
    sys.exit(main())
