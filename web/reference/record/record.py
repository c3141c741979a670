#!/usr/bin/env python3
"""Records the streams again: record.py [NAME]...

Programs run in namespaces of their own (Linux, root), so that nothing of the machine gets into the recordings: the
host is called garden, its only processes are those of the recording. A recording differs from the one before; that
is no reason to keep the old one.
"""

import json
import os
import pathlib
import sys

import garden
import noise
import programs
import shells
import wide
import written

STREAMS = pathlib.Path(__file__).resolve().parent.parent / "streams"
LARGEST = 200_000
ALL = {**programs.RECORDINGS, **shells.RECORDINGS, **written.STREAMS, **wide.STREAMS, **noise.STREAMS}
OUTSIDE = "OUTLIVE_RECORD_OUTSIDE"


def main(names):
    for name in names or ALL:
        made = ALL[name]()
        data = bytes(made.bytes)
        assert 2_000 <= len(data) <= LARGEST, f"{name} has {len(data)} bytes"
        about = {"cols": made.first[0], "rows": made.first[1], "resizes": made.resizes, "note": made.note}
        (STREAMS / f"{name}.bin").write_bytes(data)
        (STREAMS / f"{name}.json").write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n")
        print(f"{name}: {len(data)} bytes, {len(made.resizes)} resizes", flush=True)


if __name__ == "__main__":
    if os.environ.get(OUTSIDE) is None:
        # Lists of processes show this command line: no folder of the machine may be in it.
        os.environ.update({OUTSIDE: "no", "PATH": garden.SETTINGS["PATH"]})
        os.chdir(pathlib.Path(__file__).parent)
        inside = ["unshare", "--pid", "--uts", "--mount", "--net", "--fork", "--mount-proc", "python3", "record.py"]
        os.execvp(inside[0], [*inside, *sys.argv[1:]])
    garden.enter()
    main(sys.argv[1:])
