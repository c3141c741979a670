"""Runs a suite's checks in Python. Called by python.mjs; the last line is `python: N passed, M failed`."""

import argparse
import sys
import traceback

# Both are the suite's: what registers its checks, and what each of them is given.
import checks
from context import Context
from frame import REGISTERED, run_one


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--base-url", required=True)
    arguments.add_argument("--only", action="append", default=[])
    given = arguments.parse_args()
    passed = failed = 0
    for name, function in REGISTERED:
        if given.only and name not in given.only:
            continue
        try:
            run_one(function, Context(given.base_url.rstrip("/")))
            passed += 1
            print(f"ok {name}")
        except BaseException as error:
            failed += 1
            print(f"FAIL {name}: {type(error).__name__}: {reason(error)}")
    print(f"python: {passed} passed, {failed} failed", flush=True)
    return 1 if failed else 0


def reason(error):
    said = " ".join(str(error).split())[:300] or traceback.format_exception(error)[-1].strip()
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == checks.__file__]
    return f"{said} (line {lines[0]})" if lines else said


if __name__ == "__main__":
    sys.exit(main())
