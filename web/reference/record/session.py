"""Runs a program on a pseudo-terminal and records every byte it writes."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

QUIET_S = 0.25
"""After this time without output, the program is assumed to wait for input."""
SETTLE_TIMEOUT_S = 20

REPLIES = [
    # Replies of xterm.js to queries that programs send when they start. Without them some programs use fewer features.
    (re.compile(rb"\x1b\[0?c"), b"\x1b[?1;2c"),
    (re.compile(rb"\x1b\[>0?c"), b"\x1b[>0;276;0c"),
    (re.compile(rb"\x1b\]11;\?(\x07|\x1b\\)"), b"\x1b]11;rgb:1e1e/1e1e/1e1e\x1b\\"),
    (re.compile(rb"\x1b\]10;\?(\x07|\x1b\\)"), b"\x1b]10;rgb:d4d4/d4d4/d4d4\x1b\\"),
]


class Session:
    """`with Session(["vim", "a.rs"], cols=80, rows=24) as s: s.type("ihello\\x1b")`"""

    def __init__(self, command, cols=80, rows=24, env=None, note=""):
        self.cols, self.rows, self.note = cols, rows, note
        self.initial_size = (cols, rows)
        self.bytes = bytearray()
        self.resizes = []
        self.answered = 0
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            self._size(0, cols, rows)
            os.execvpe(command[0], command, {**os.environ, **(env or {})})
        self._size(self.master, cols, rows)
        self.settle()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.settle()
        os.close(self.master)
        for number in (signal.SIGHUP, signal.SIGKILL):
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                return
            os.kill(self.pid, number)
            time.sleep(0.2)
        os.waitpid(self.pid, 0)

    @staticmethod
    def _size(terminal, cols, rows):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def read(self, seconds):
        """Reads output that arrives within this time. Returns False if there is none."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            self.bytes += os.read(self.master, 65536)
        except OSError:
            return False  # The program has exited.
        for query, reply in REPLIES:
            for match in query.finditer(self.bytes, max(self.answered - 16, 0)):
                if match.end() > self.answered:
                    os.write(self.master, reply)
        self.answered = len(self.bytes)
        return True

    def settle(self, quiet=QUIET_S):
        end = time.monotonic() + SETTLE_TIMEOUT_S
        while self.read(quiet) and time.monotonic() < end:
            pass
        return self

    def run(self, seconds):
        """Records for this time, for programs that print continuously."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.read(left)
        return self

    def type(self, text, quiet=QUIET_S):
        os.write(self.master, text.encode())
        return self.settle(quiet)

    def keys(self, text, quiet=0.03):
        """Types one key at a time."""
        for key in text:
            self.type(key, quiet)
        return self.settle()

    def resize(self, cols, rows, quiet=QUIET_S):
        """Resizes the terminal, which sends SIGWINCH to the program, and records the offset of its output."""
        self.cols, self.rows = cols, rows
        self.resizes.append({"offset": len(self.bytes), "cols": cols, "rows": rows})
        self._size(self.master, cols, rows)
        return self.settle(quiet)
