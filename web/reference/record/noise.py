"""Bytes that no program should send, and random sequences."""

import random

from script import Script

INVALID = [
    b"\x80", b"\xbf", b"\xc0\x80", b"\xc1\xbf", b"\xc3", b"\xc3(", b"\xe2\x82", b"\xe2(\xa1", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xef\xbb\xbf", b"\xef\xbf\xbe", b"\xef\xbf\xbf",
    b"\xf0\x90\x28\xbc", b"\xf0\x9f\x92", b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xf8\x88\x80\x80\x80", b"\xfe", b"\xff", b"\xe2\x80", b"\xe3\x80", b"\xf0\x9f\x80", b"\xc2",
    b"\xe2\x80\x9c", b"\xe3\x80\x81", b"\xf0\x9f\x80\x84", b"\xe6\xbc\xa2",
]
C1 = [chr(c).encode() for c in range(0x80, 0xA0)]


def invalid():
    s = Script(52, 14, "invalid UTF-8 of every kind, C1 controls in UTF-8 and as bare bytes, controls within sequences")
    for n in range(4):
        for i, wrong in enumerate(INVALID):
            s.text(f"{i}<").raw(wrong).text(">").raw(wrong * 2).raw(INVALID[(i + n + 1) % len(INVALID)]).text("|").raw(wrong).csi("1m").raw(wrong).csi("m")
        s.text("\r\n")
    for i, control in enumerate(C1):
        s.text(f"{i + 128:x}").raw(control).text("3;4Hz\x1b\\").raw(bytes([0x80 + i])).text("y\r\n")
        s.raw(b"\x1b[3" + control + b"1mq\x1b[m\x1b]2;t" + control + b"i\x07\x1b\\")
    for control in [*range(0x20), 0x7F]:
        c = bytes([control])
        s.text("a").raw(c + b"b\x1b" + c + b"D\x1b[" + c + b"2" + c + b";3" + c + b"Hc\x1b]2;x" + c + b"y\x1b\\\x1b(" + c + b"Bd\x1bP1$" + c + b"q" + c + b"\x1b\\e\r\n")
    for broken in (b"\x1b[31\x1b[32mA", b"\x1b[3\x181mB", b"\x1b[\xe6\xbc\xa21mC", b"\x1b[3?1mD", b"\x1b[?3 h1E", b"\x1b[ 3qF", b"\x1b[!!!!pG", b"\x1b[$$pH", b"\x1b[<1;2;3MI", b"\x1b[>0qJ", b"\x1b\xc3\xa9K", b"\x1b \xc3\xa9L", b"\x1b  FM", b"\x1b#3N", b"\x1b[1;2;3;4;5;6;7;8;9;10;11;12;13;14;15;16;17;18;19;20;21;22;23;24;25;26;27;28;29;30;31;32;33;34;35;36mO", b"\x1b[99999999999999999999;5HP", b"\x1b[1:2:3:4HQ", b"\x1b_\xc3\xa9R\x1b\\", b"\x1bP\xc3\xa9S\x1b\\", b"\x1bP1;2|\xc3\xa9T\x1b\\", b"\x1bP<>~U\x1b\\V"):
        s.raw(b"\x1b[m" + broken + b"|" + broken).text("\r\n")
    return s


def sequence(chance, cols, rows):
    """A random text or sequence. Excludes CSI 1 J in the last column, which makes xterm.js 6.0.0 throw."""
    number = lambda limit: str(chance.choice([0, 1, 2, 3, chance.randrange(limit + 3)])) if chance.random() < 0.9 else ""
    colour = lambda: chance.choice([str(chance.choice([*range(30, 38), *range(40, 48), *range(90, 98), *range(100, 108), 39, 49])), f"38;5;{chance.randrange(256)}", f"48;2;{chance.randrange(256)};7;9", f"38:2::1:{chance.randrange(256)}:3", f"58;5;{chance.randrange(256)}"])
    flag = lambda: str(chance.choice([0, 1, 2, 3, 4, 5, 7, 8, 9, 21, 22, 23, 24, 25, 27, 28, 29, 53, 55, 59, "4:3", "4:0"]))
    words = ["word", "漢字", "e\u0301", "long text that goes on and on ", "\u0301", "👍🏽", "한", "\u200d", "x" * cols, "#"]
    # Links and underlines are ended before the cursor is saved: xterm.js saves only a part of them.
    end_of_styles = "\x1b]8;;\x07\x1b[24m"
    kinds = [
        (30, lambda: chance.choice(words)),
        (8, lambda: chance.choice(["\r\n", "\n", "\r", "\b", "\t", "\x0b"])),
        (10, lambda: f"\x1b[{number(rows)};{number(cols)}H"),
        (8, lambda: f"\x1b[{number(cols)}{chance.choice('ABCDEFGd`ae')}"),
        (12, lambda: f"\x1b[{';'.join(chance.choice([colour, flag])() for _ in range(chance.randrange(1, 4)))}m"),
        (8, lambda: f"\x1b[{number(9)}{chance.choice('@PXLMSTbIZ')}"),
        (5, lambda: f"\x1b[{chance.choice(['', '0', '2', '?', '?2', '?0'])}{chance.choice('JK')}"),
        (2, lambda: f"\x1b[1K\x1b[{number(cols - 2)}G\x1b[1J" if chance.random() < 0.5 else "\x1b[?1K"),
        (4, lambda: f"\x1b[{number(rows)};{number(rows)}r"),
        (5, lambda: f"\x1b[?{chance.choice([1, 6, 7, 9, 25, 45, 66, 1000, 1002, 1003, 1004, 1006, 1016, 2004, 2026])}{chance.choice('hl')}"),
        (3, lambda: f"\x1b[{chance.choice([4, 20])}{chance.choice('hl')}"),
        (2, lambda: f"{end_of_styles}\x1b[?{chance.choice([47, 1047, 1048, 1049])}{chance.choice('hl')}"),
        (4, lambda: end_of_styles + chance.choice(["\x1b7", "\x1b8", "\x1b[s", "\x1b[u"])),
        (4, lambda: chance.choice(["\x1bD", "\x1bE", "\x1bM", "\x1bH", "\x1b[g", "\x1b=", "\x1b>", "\x84", "\x85", "\x88"])),
        (3, lambda: chance.choice(["\x0e", "\x0f", "\x1b(0", "\x1b(B", "\x1b)0", "\x1b)B", "\x1bn", "\x1b*A", "\x1b(K", "\x1bo"])),
        (2, lambda: f"\x1b]{chance.choice(['2;title', '8;;http://a', '8;id=1;http://b', '8;;', '4;3;#fff', '104', '11;#123', '111', '0;x'])}{chance.choice([chr(7), chr(27) + chr(92)])}"),
        (2, lambda: f"\x1b[{chance.randrange(7)} q"),
        (1, lambda: f"\x1b[{chance.randrange(3)}\"q"),
        (1, lambda: f"\x1b[{number(5)}{chance.choice([' @', ' A', chr(39) + '}', chr(39) + '~'])}"),
        (0.3, lambda: "\x1b[!p"),
        (0.1, lambda: "\x1bc"),
        (0.2, lambda: "\x1b[?6l\x1b#8"),
        (0.3, lambda: "\x1b[3g"),
        (0.3, lambda: "\x1b[3J"),
    ]
    return chance.choices([make for _, make in kinds], [weight for weight, _ in kinds])[0]()


def random_sequences(seed, cols, rows, note, resized=False, garbage=0.0):
    def make():
        chance = random.Random(seed)
        s = Script(cols, rows, note)
        while len(s.bytes) < 24_000:
            if chance.random() < garbage:
                s.raw(bytes(b for b in chance.randbytes(chance.randrange(1, 12)) if b not in b"J"))
                if chance.random() < 0.3:
                    s.raw(b"\x18")
            s.text(sequence(chance, s.cols, s.rows))
            if resized and chance.random() < 0.006:
                s.resize(chance.randrange(2, 120), chance.randrange(1, 50))
        return s

    return make


STREAMS = {
    "invalid": invalid,
    "random": random_sequences(1, 37, 13, "random sequences"),
    "random-resized": random_sequences(2, 60, 20, "random sequences in windows of random size", resized=True),
    "garbage": random_sequences(3, 45, 15, "random sequences with random bytes between them", garbage=0.3),
}
