"""Runs a suite's Python checks. Called by python.mjs; the last line is `python: N passed, M failed`."""

import argparse
import sys
import traceback

# Both modules belong to the suite: `checks` registers its checks, `Context` is the argument of each.
import checks
from context import Context
from runner import REGISTERED, run_one


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--only", action="append", default=[])
    arguments = parser.parse_args()
    passed = failed = 0
    for name, function in REGISTERED:
        if arguments.only and name not in arguments.only:
            continue
        try:
            run_one(function, Context(arguments.base_url.rstrip("/")))
            passed += 1
            print(f"ok {name}")
        except BaseException as error:
            failed += 1
            print(f"FAIL {name}: {type(error).__name__}: {reason(error)}")
    print(f"python: {passed} passed, {failed} failed", flush=True)
    return 1 if failed else 0


def reason(error):
    text = " ".join(str(error).split())[:300] or traceback.format_exception(error)[-1].strip()
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == checks.__file__]
    return f"{text} (line {lines[0]})" if lines else text


if __name__ == "__main__":
    sys.exit(main())
