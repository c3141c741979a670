"""Characters that take two cells or none."""

from script import Script

SAMPLES = [
    "漢字とひらがなとカタカナ", "한글과 자모 ᄒ\u1161\u11ab", "ﾊﾝｶｸ ＦＵＬＬ", "e\u0301a\u0308\u0323o\u0302\u0301", "नमस्ते क्षत्रिय हिन्दी", "தமிழ் ไทย ກຳ",
    "👩‍👩‍👧‍👦 👍🏽 ❤️ 🏳️‍🌈 🇩🇪🇯🇵 1️⃣", "עברית العربية فارسی", "\u200bzero\u200cwidth\u200d\u2060x\ufeff\u00ad", "ⅷ①㊙️☎️⌚⏰⏳⚽", "𝒳𝔘 𠀀𠮷 🀄🂡", "‐–—‘’“”…‰", "a\u20dd b\u0336\u0335 \u0301start", "\U000e0001\U000e0041 \u180e \u061c",
]


def wide():
    s = Script(40, 14, "wide and combining characters: at both edges, halves overwritten, marks at the end of lines, joiners, flags")
    for sample in SAMPLES:
        s.text(sample, "\r\n")
        for col in (1, 2, 36, 37, 38, 39, 40):
            s.csi(f"{col}G").text(sample[:3], "|")
        s.text("\r\n").csi("31m").text(sample).csi("m", "1D", "K", "2D").text(sample[::-1], "\r\n")
    for col in range(1, 41):
        s.at(3, 1, "漢字" * 10).csi(f"{col}G").text("x").at(4, 1, "漢字" * 10).csi(f"{col}G").text("字").at(5, 1, "漢字" * 10).csi(f"{col}G", "42mX" if col % 2 else "43m\x1b[2X", "m")
        s.at(6, 1, "漢字" * 10).csi(f"{col}G", "P" if col % 2 else "@").text("y").at(7, 1, "x" + "漢字" * 10).csi(f"7;{col}H", "K" if col % 2 else "1K")
        s.at(8, col, "e\u0301").csi("D").text("\u0302").at(9, col, "漢\u0301").csi("m").text("\u0301z").at(10, col, "a\u0301\x1b[3b")
    for mark in ("\u0301", "\u200d", "\ufe0f", "\u3099", "\U0001f3fd"):
        s.at(11, 39, "ab", mark, mark, "c\r\n", "x" * 40, mark, "\r\n", "x" * 40, "\x1b[m", mark, mark, "y\r\n", "x" * 40, "\x1b[m", mark, "\nlf\r\n", "漢" * 20, mark, "字", mark, "\r\n", "x" * 39, "漢", mark, "\r\n")
        s.text(mark, "at the start\r\n", "\t", mark, "after a tab\r\n").csi("m").text("a").csi("m").text(mark, "own cell", mark, "\b", mark, "\b\bw\r\n")
    s.csi("?7l").at(5, 39, "漢字").at(5, 40, "漢").text("x").at(6, 39, "漢").text("y").at(6, 38, "漢字z漢\u0301").csi("?7h")
    s.csi("4h").at(7, 38, "漢").at(7, 1, "漢").at(7, 2, "字").at(7, 40, "漢").at(7, 39, "漢x").csi("4l")
    for sample in SAMPLES:
        s.text((sample + " ") * 6, "\r\n")
    return s


def wide_reflowed():
    s = Script(40, 12, "wide characters in windows of changing width: lines that end one cell early, halves that are cut off")
    for turn, sizes in enumerate(((39, 12), (21, 12), (40, 12), (55, 8), (17, 20), (41, 12), (80, 5), (40, 12), (8, 8), (40, 12))):
        for sample in SAMPLES[turn % 5 :: 3]:
            s.text((sample + " ") * 3, "\r\n")
        s.text("漢字" * 35, "\r\n", "x" + "漢字" * 35, "\r\n").csi("44m").text("colour" * 9, "漢" * 14).csi("m").text("\r\n", "e\u0301" * 50, "\r\n")
        s.csi("4:3;58;5;9m").text("curly " * 12).csi("m").text("\r\n" if turn % 3 else "").resize(*sizes).text("after", "\r\n" if turn % 2 else "漢" * 9)
        if turn % 4 == 1:
            s.csi("?1049h").text("漢字" * 50, "\r\n" * 3).resize(sizes[0] - 5, sizes[1] + 2).text("on the alternate screen").csi("2J", "H").text("漢" * 30).resize(*sizes).csi("2J", "?1049l")
        if turn % 4 == 3:
            s.csi("3;5r").text("\x1b7").resize(sizes[0] + 1, sizes[1]).text("\x1b8", "saved").resize(*sizes).text("\r\n")
    return s


STREAMS = {"wide": wide, "wide-reflowed": wide_reflowed}
