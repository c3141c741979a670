"""A program on a terminal of its own, and every byte it writes."""

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
"""So long without output, and the program waits for something."""
LONGEST_S = 20

ANSWERS = [
    # What programs ask at their start and xterm.js answers; without it some of them keep to a smaller set.
    (re.compile(rb"\x1b\[0?c"), b"\x1b[?1;2c"),
    (re.compile(rb"\x1b\[>0?c"), b"\x1b[>0;276;0c"),
    (re.compile(rb"\x1b\]11;\?(\x07|\x1b\\)"), b"\x1b]11;rgb:1e1e/1e1e/1e1e\x1b\\"),
    (re.compile(rb"\x1b\]10;\?(\x07|\x1b\\)"), b"\x1b]10;rgb:d4d4/d4d4/d4d4\x1b\\"),
]


class Session:
    """`with Session(["vim", "a.rs"], cols=80, rows=24) as s: s.type("ihello\\x1b")`"""

    def __init__(self, command, cols=80, rows=24, env=None, note=""):
        self.cols, self.rows, self.note = cols, rows, note
        self.first = (cols, rows)
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
        """What comes within this time; False when nothing did."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            self.bytes += os.read(self.master, 65536)
        except OSError:
            return False  # It is gone.
        for question, answer in ANSWERS:
            for found in question.finditer(self.bytes, max(self.answered - 16, 0)):
                if found.end() > self.answered:
                    os.write(self.master, answer)
        self.answered = len(self.bytes)
        return True

    def settle(self, quiet=QUIET_S):
        end = time.monotonic() + LONGEST_S
        while self.read(quiet) and time.monotonic() < end:
            pass
        return self

    def run(self, seconds):
        """Lets a program that never is quiet go on."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.read(left)
        return self

    def type(self, text, quiet=QUIET_S):
        os.write(self.master, text.encode())
        return self.settle(quiet)

    def keys(self, text, quiet=0.03):
        """One by one, as a person types."""
        for key in text:
            self.type(key, quiet)
        return self.settle()

    def resize(self, cols, rows, quiet=QUIET_S):
        """The program is told by SIGWINCH, at this offset of its output."""
        self.cols, self.rows = cols, rows
        self.resizes.append({"offset": len(self.bytes), "cols": cols, "rows": rows})
        self._size(self.master, cols, rows)
        return self.settle(quiet)
