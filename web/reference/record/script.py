"""A builder for streams that are written by hand, for terminal features that programs seldom use."""


class Script:
    def __init__(self, cols=80, rows=24, note=""):
        self.cols, self.rows = cols, rows
        self.initial_size = (cols, rows)
        self.note = note
        self.bytes = bytearray()
        self.resizes = []

    def raw(self, data):
        self.bytes += data
        return self

    def text(self, *parts):
        for part in parts:
            self.bytes += part.encode()
        return self

    def csi(self, *sequences):
        for sequence in sequences:
            self.bytes += b"\x1b[" + sequence.encode()
        return self

    def at(self, row, col, *parts):
        return self.csi(f"{row};{col}H").text(*parts)

    def resize(self, cols, rows):
        self.cols, self.rows = cols, rows
        self.resizes.append({"offset": len(self.bytes), "cols": cols, "rows": rows})
        return self

    def fill(self, mark=""):
        """Writes different text to every row, so that moved rows are recognizable."""
        for row in range(1, self.rows + 1):
            self.at(row, 1, f"{mark}{row:02} ", "abcdefghijklmnopqrstuvwxyz"[: max(1, min(26, self.cols - 12))], f"\x1b[3{row % 8}m{row}\x1b[m")
        return self
