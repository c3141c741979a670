"""Streams written by hand, one per feature of a terminal."""

from script import Script


def alternate():
    s = Script(60, 16, "the alternate screen: 47, 1047, 1048 and 1049 in all orders, left half-way, with saved cursors")
    number = 0
    switches = ["?47", "?1047", "?1049"]
    for enter in switches:
        for leave in switches:
            for saved in ("", "\x1b7", "\x1b[?1048h", "\x1b[s"):
                number += 1
                s.text(f"main {number} before\r\n").csi("31m").at(3 + number % 9, 5 + number % 20, saved, f"at {number}")
                s.csi(enter + "h").text(f"on the other one {number}").csi(f"{2 + number % 5};{9 + number % 3}r", "44m")
                s.at(2 + number % 4, 2, "other").text("\x1b7").csi("m", "K", "1;4m").at(12, 3, "text\n\n\n\nmore\x1b[2J", "x").text("\x1b8")
                if number % 5 == 0:
                    # Enter the alternate screen again without leaving it.
                    s.csi(enter + "h").text("again").csi("?1049h").text("and again").csi("?1048l")
                s.csi(leave + "l").text(f"back {number}")
                if number % 3 == 0:
                    s.csi(leave + "l").text(" twice").csi("?1048l").text("restored")
                s.text("\x1b8", f"eight {number}").csi("m").text("\r\n")
    s.csi("41m", "?1049h").text("filled with the colour of now").csi("m").text("\x1bH\t.\t.").csi("3g", "5G").text("\x1bH", "\r\t|").csi("?1049l").text("\r\t|\r\n")
    s.csi("?1049h", "3;9r").fill("half ").csi("?47l").text("never left with 1049").csi("?47h").fill("end ")
    return s


def modes():
    s = Script(50, 12, "modes: mouse, paste, focus, keypad, cursor shapes, wrap, reverse wrap, insert, new line, synchronized output")
    private = [1, 9, 12, 25, 45, 66, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 2004, 2026, 2027, 5, 8, 3, 40, 69, 1034, 1007]
    for turn in range(3):
        for i, mode in enumerate(private):
            s.csi(f"?{mode}h").text(f"{mode}+ ")
            s.csi(f"?{private[(i * 7 + turn) % len(private)]}l").text(f"{private[(i * 7 + turn) % len(private)]}- ")
            if i % 4 == turn:
                s.csi("?1;2004;1004h")
            s.csi(f"{(i + turn) % 9} q").text("\x1b=" if i % 3 else "\x1b>")
        s.csi("?7l").text("no wrap " * 9, "X", "\r\n").text("漢" * 30, "字x漢").csi("?7h").text("wrap " * 14, "\r\n")
        s.csi("?45h").text("w" * 55).text("\b" * 12, "back").text("漢" * 26, "\b" * 9, "over").csi("?45l").text("\b" * 60, "left", "\r\n")
        s.csi("4h").text("\rinserted").csi("5D").text("漢字", "in").csi("4l").text("replaced\r\n")
        s.csi("20h").text("new\nline\nmode\x0bvt\x0cff").csi("20l").text("old\nline\nmode\r\n")
        s.csi("?6h", "?6l", "4;20h", "4;20l", "2h", "12h", "?h", "h", "?l", "l", "?25;7;25h", "?1000;1006h", ">4;2m", ">1u", "=1u", "?u")
        s.csi("!p").text("soft\r\n") if turn == 1 else s.csi("?1002;1006;2004h")
    for seq in ("c", ">c", "=c", "5n", "6n", "?6n", "?15n", "18t", "22;0t", "23;0t", "?2026$p", "4$p", '61"p', "0;1t"):
        s.csi(seq).text("q")
    return s


def tabs():
    s = Script(70, 14, "tab stops: set, cleared, forwards, backwards, at the edge, on both screens, after resizes")
    ruler = "".join(str(i % 10) for i in range(70))
    for turn in range(4):
        s.text("\r\n", ruler, "\r", "\t".join("abcdefghijkl"), "\r\n")
        for col in (3, 5 + turn, 17, 33, 69, 70):
            s.csi(f"{col}G").text("\x1bH" if turn % 2 else "\u0088", "^")
        s.text("\r", "\t*" * 12).csi("3Z").text("<").csi("2I").text(">").csi("99I").text("E").csi("99Z").text("B\r\n")
        s.csi("17G", "g").csi("9G", "0g").csi("2g", "1g").text("\r", "\t+" * 9, "\r\n")
        s.text("x" * 70, "\t", "pending\tnot\r\n").text("x" * 69, "\t", "y\r\n").text("x" * 70).csi("Z").text("z").csi("I").text("\x1bH\r\n")
        s.csi("?1049h").text("\r", "\t-" * 9).csi("3g", "7G").text("\x1bH\r\t!\t!").csi("?1049l").text("\r", "\t=" * 9)
        s.csi("3g").text("\r\tno stops\r\n").csi("11G").text("\x1bH\r\tone\r\n")
        if turn == 1:
            s.resize(50, 14).text("\r", "\tn" * 9, "\r\n").resize(95, 14).text("\r", "\tw" * 14, "\r\n").resize(70, 14)
        if turn == 2:
            s.resize(70, 20).text("\r", "\tr" * 9, "\r\n").resize(70, 14)
    return s


def regions():
    s = Script(48, 16, "scroll regions with and without origin mode: line feeds, reverse ones, insert and delete lines, scrolls")
    for top, bottom in ((1, 16), (1, 10), (4, 12), (6, 16), (3, 3), (12, 4), (0, 0), (5, 99), (15, 16)):
        for origin in ("l", "h"):
            s.csi("m", "r").fill(f"{top}-{bottom} ").csi(f"{top};{bottom}r", f"?6{origin}")
            s.at(1, 1, "home").at(99, 99, "end").text("z").at(4, 10, "four", "\n" * 3, "d\x1bD\x1bE", "nel").csi("42m")
            s.at(99, 1, "\n\nlast\n").csi("m").at(1, 5, "\x1bM\x1bM", "up").csi("45m", "2L").text("il").csi("m", "3M").text("dl").csi("2S", "46m", "S", "T", "m", "3T")
            s.at(3, 3, "rel").csi("A").text("a").csi("2B").text("b").csi("5C").text("c").csi("3D").text("d").csi("E").text("e").csi("2F").text("f").csi("20G").text("g").csi("3d").text("h").csi("2e").text("i").csi("4a").text("j").csi("9`").text("k")
            s.csi("99A").text("top").csi("99B").text("bot").csi("99C").text("R").csi("99D").text("L")
            s.at(2, 40, "wraps over the edge and into the next line, at the end of the region too " * 3)
            s.csi("?6l").at(16, 1, "below\n\n\nbelow").at(1, 1, "\x1bM\x1bMabove").at(16, 40, "wraps on the last line below").text("\r\n")
    s.csi("r").fill("x").csi("3;9r", "?1049h").fill("alt ").csi("5;8r").at(8, 1, "\n\n\n").csi("?1049l").at(9, 1, "\n\nstill the region of before")
    return s


def editing():
    s = Script(40, 12, "editing: ICH, DCH, ECH, IL, DL, SU, SD, EL, ED, REP, insert mode, SL, SR, columns; with colours of the background")
    for turn, count in enumerate(("", "0", "1", "2", "3", "7", "39", "40", "99")):
        for wide in (False, True):
            row = "漢字かな交じり文の行" * 2 if wide else "abcdefghijklmnopqrstuvwxyz0123456789ABCD"
            s.csi("m")
            for line in range(1, 11):
                s.at(line, 1, row)
            s.csi(f"4{turn % 8}m", "31;1m")
            for line, final in enumerate("@PXLM", 1):
                s.csi(f"{line};{4 + turn + wide}H", f"{count}{final}")
            for line, sequence in enumerate(("K", "1K", "2K", "?K", "?1K"), 6):
                s.csi(f"{line};{6 + turn}H", sequence)
            s.at(2, 20, "R").csi(f"{count}b").text("漢").csi(f"{count}b").text("e\u0301").csi(f"{count or 1}b").csi("b").text("r")
            s.csi("4h").at(3, 7, "INS漢").at(3, 39, "IN").at(3, 40, "漢").csi("4l")
            s.csi(f"{count}S", f"{count}T").at(5, 8).csi(f"{count} @").at(6, 8).csi(f"{count} A").at(7, 8).csi(f"{count}'}}").at(7, 9).csi(f"{count}'~")
            s.at(6, 15).csi("J" if turn % 3 else "1J").at(4, 30).csi("0J" if turn % 2 else "?J")
            s.at(12, 40, "x").csi("K").text("y").at(11, 40, "x").csi("1K").at(10, 40, "x").csi("J").at(9, 40, "z").csi("@").text("q").at(9, 40, "z").csi("P").text("q")
    s.csi("m").text('\x1b[1"qprotected\x1b[0"qfree\x1b[1"q漢字\x1b[2"q').csi("?2K").text("\r\x1b[?1J\x1b[?2J").at(1, 1).csi('1"q').text("A").csi("m").text("B").csi("?K", "2J")
    for _ in range(30):
        s.csi("44m").text("lines\r\nthat scroll\r\n").csi("m")
    s.csi("3J").text("nothing above\r\n", "more\r\n" * 20, "\x1b7", "x\r\n").csi("3J").text("\x1b8", "saved")
    return s


def charsets():
    s = Script(56, 14, "character sets: DEC graphics, national ones, G0 to G3, shifts, saved and restored ones")
    every = "".join(chr(c) for c in range(0x20, 0x7F))
    for final in "0AB4C5RQKYE6ZH7=":
        for g in "()*+-.":
            s.text(f"\x1b{g}{final}", "#@[\\]^_`{|}~", "\x0e", "lqk~#", "\x0f", "xyz{|}")
            s.text("\x1bn", "abc`", "\x1bo", "def{", "\x1b~", "g|", "\x1b}", "h}", "\x1b|", "i~", "\x0f", "\x1b)B\x1b(B")
        s.text("\r\n")
    s.text("\x1b(0", every, "\x1b(B\r\n", "\x1b)0\x0e", every, "\x0f", every)
    s.text("\x1b(0\x1b7", "lqk", "\x1b(B", "lqk", "\x1b8", "lqk", "\x0f", "lqk", "\x1b7\x0e\x1b8", "lqk\r\n")
    s.text("\x1b(0\x1b[?1049h", "lqk", "\x1b(B\x1b[?1049l", "mqj", "\x1b(B", "x\x1b(0\x1b[!p", "x\r\n")
    s.text("\x1b*0\x1bn", "tqu", "\x1b%G", "tqu", "\x1b%@", "tqu\x1b(0tqu", "\x1b[?2h", "tqu\r\n", "\x1b)0\x0e", "漢字é qqq", "\x1b/0\x1b/A", "\x1b(U\x1b(\x22", "\x1bNq\x1bOq", "\r\n")
    s.text("\x1b(0", "q\x1b[9b", "q" * 70, "\x1b(B\r\n", "\x1b(4]\x1b[3b\x1b(B", "\x1b(0").csi("?1048h").text("\x1b(B").csi("?1048l").text("lqk").csi("m").text("\x1b(B\r\n")
    return s


def titles():
    s = Script(64, 14, "OSC: titles, links, colours, and those that mean nothing to a screen")
    for turn, end in enumerate(("\x07", "\x1b\\", "\x07", "\x1b\\")):
        s.text(f"\x1b]0;title {turn} 漢字 é{end}", f"\x1b]2;other; title {turn}{end}", f"\x1b]1;icon{end}", "text\r\n", f"\x1b]2;{end}" if turn == 2 else "")
        s.text(f"\x1b]8;;https://example.com/{turn}?a=1;b=2{end}a link", "\r\nthat goes on", f"\x1b]8;;{end}, plain ")
        s.text(f"\x1b]8;id=x{turn % 2}:foo=bar;https://example.com/named{end}").csi("4:3;31m").text("named").csi("m").text(" still", f"\x1b]8;;{end} off ", f"\x1b]8;a;{end}", "?\r\n")
        s.text(f"\x1b]8;;file:///a{end}one", f"\x1b]8;;file:///b{end}two").csi("4m").text("underlined").csi("24m").text("not", "\r\n", f"\x1b]8;;{end}")
        s.text(f"\x1b]8;;http://wraps.example/{end}", "a link over the edge " * 5, f"\x1b]8;;{end}\r\n", f"\x1b]8;;http://x{end}").csi("!p").text("no link after a soft reset\r\n")
        s.text(f"\x1b]4;1;rgb:ff/00/{turn}0;2;#0f0;3;#123456789abc;300;rgb:1/1/1;4;?{end}", f"\x1b]10;#ff8800{end}", f"\x1b]11;rgb:1111/2222/3333;#abc{end}", f"\x1b]12;rgb:f/f/{turn}{end}")
        s.text("coloured\r\n", f"\x1b]104;2;3{end}", f"\x1b]110{end}" if turn == 1 else "", f"\x1b]112;{end}" if turn == 2 else "", f"\x1b]104{end}" if turn == 2 else "", f"\x1b]111{end}" if turn == 3 else "")
        s.text(f"\x1b]7;file://garden/tmp{end}", f"\x1b]52;c;aGVsbG8={end}", f"\x1b]133;A{end}", f"\x1b]1337;x=y{end}", f"\x1b]x;y{end}", f"\x1b]{end}", f"\x1b];z{end}", f"\x1b]2{end}")
        s.text("\x1b]2;broken off\x18", "\x1b]2;and this\x1a", "\x1b]2;no end", "\x1b[1m", "bold\x1b[m", "\x1b]2;c1 end\u009c", "\u009d2;c1 begin\x07", "\x1b]2;con\ttrol\r\nin it\x07", "\r\n")
        s.text("\x1bP$qm\x1b\\", "\x1bPq#0;2;0;0;0~~\x1b\\", "\x1b_apc text\x1b\\", "\x1b^pm\x1b\\", "\x1bXsos\x1b\\", "after\r\n")
    return s


def colours():
    s = Script(72, 18, "SGR: all attributes, 256 colours, true colour with semicolons and colons, underline styles and colours")
    for n in list(range(0, 30)) + list(range(30, 60)) + list(range(90, 108)) + [73, 74, 75, 110]:
        s.csi(f"{n}m").text(f"{n} ").csi(f"1;3;4;{n}m").text("x")
        if n % 7 == 0:
            s.csi("m").text("\r\n")
    for n in range(0, 256, 5):
        s.csi(f"38;5;{n}m", f"48;5;{255 - n}m").text("▀").csi(f"38:5:{n}m", f"48:5:{n // 2}m").text("▄").csi(f"58;5;{n};4m").text("u").csi("m")
    s.text("\r\n")
    for n in range(0, 256, 9):
        s.csi(f"38;2;{n};{255 - n};128m", f"48;2;0;{n};{n}m").text("a").csi(f"38:2::{n}:1:2m", f"48:2::3:{n}:4m").text("b").csi(f"38:2:{n}:5:6m").text("c").csi(f"4:{n % 7};58:2::{n}:9:9m").text("d").csi("59m").text("e")
    s.csi("m").text("\r\n")
    for style in range(7):
        s.csi(f"4:{style}m").text(f"style{style}").csi("58;2;255;0;0m").text("red").csi("58:5:33m").text("blue").csi("59m").text("own").csi("24m").text("off").csi("4m").text("on").csi("21m").text("double").csi("m").text(" ")
    for odd in ("38m", "38;5m", "38;2m", "38;2;1m", "38;2;1;2m", "38;7;1;2;3;4;5;31m", "38;0;1;2;3;4;5;32m", "38:5m", "38:2m", "38:5:m", "38::5m", "4:m", "4:9m", "4:0m", ":3m", ";m", ";;31;;m", "48;5;300m", "38;2;300;-1;5m", "38;5:7m", "1:2m", "0:1m", "38;5;1;48;5;2;1;4;9;53;58;5;3m"):
        s.csi("m", odd).text("odd").csi("0m")
    s.csi(";".join(["1"] * 40) + "m").text("many").csi(";".join(["31"] * 31) + ";42;43;44m").text("many").csi("38:5:" + "1" * 30 + "m").text("big").csi("m")
    s.csi("31;42;1m").text("\r\n").csi("K").text("erased").csi("K", "7m", "2K").text("reverse is not erased with").csi("m").text("\r\n")
    for n in range(25):
        s.csi(f"4{n % 8}m").text("\r\nscrolled in colour").csi("m")
    for bits in range(0, 512, 3):
        on = [str(a) for i, a in enumerate((1, 2, 3, 4, 5, 7, 8, 9, 53)) if bits >> i & 1]
        s.csi(";".join(on) + "m").text("#").csi(f"{(22, 23, 24, 25, 27, 28, 29, 55, 39)[bits % 9]}m").text("-")
        s.csi("m") if bits % 4 == 0 else None
    return s


def cursors():
    s = Script(44, 12, "cursors: DECSC and DECRC at edges and after scrolling, soft reset, full reset, DECALN, moves beyond the screen")
    for turn in range(6):
        s.fill(f"{turn} ").csi("1;33;44m").at(5, 7, "\x1b7", "saved").csi("m").at(9, 20, "\x1b8", "restored").csi("m")
        s.at(3, 44, "e", "\x1b7", "wrapped", "\x1b8", "E").at(12, 1, "\n\n", "\x1b8", "moved").csi("s").at(1, 1).csi("u").text("u")
        s.csi("3;9r", "?6h").at(2, 2, "\x1b7").csi("?6l", "r").at(12, 12).text("\x1b8", "o").csi("?6h", "4;7r").text("\x1b8", "p").csi("?6l", "r")
        s.at(6, 44, "x").csi("C").text("y").at(6, 44, "x\b").text("b").at(6, 44, "x\r").text("r").at(6, 44, "x\n").text("n").at(7, 44, "x").csi("A").text("a").at(8, 44, "x\x1bD").text("i").at(8, 44, "x\x1bM").text("m").at(8, 44, "x").csi("K").text("k").at(8, 44, "x\t").text("t").at(9, 44, "x").csi("m").text("l").at(9, 44, "x").csi("X").text("c")
        for jump in ("999;999H", ";H", "0;0H", "5H", ";5H", "5;H", "f", "3;3f", "999A", "999B", "999C", "999D", "99E", "99F", "G", "d", "7d", "7G", "2147483647C", "4294967296B", "3;4;5;6H"):
            s.csi(jump).text("*")
        s.csi("4;8r", "31m").text("\x1b#8") if turn % 2 else s.csi("41;4m").text("\x1b#8").csi("m")
        s.csi("r", "?6l").at(2, 2, "\x1b(0\x1b7q\x1b(B").csi("?25l", "?1h", "?2004h", "4h", "6 q", "?1000h").text("x")
        if turn == 2:
            s.csi("!p").text("soft\x1b8", "s")
        if turn == 4:
            s.csi("5;9r", "?1049h", "!p").text("soft\x1b8", "s").csi("?1049l").text("t")
        if turn in (1, 5):
            s.text("\x1b]2;title\x07\x1b]8;;http://x\x07").csi("20h", "?12h").text("\x1bc", "full\nreset", "\x1b8", "r").csi("20l", "?25h")
        s.csi("4l", "m").text("\r\n")
    return s


STREAMS = {
    "alternate": alternate, "modes": modes, "tabs": tabs, "regions": regions, "editing": editing, "charsets": charsets, "titles": titles,
    "colours": colours, "cursors": cursors,
}
