"""What a person sees on a terminal, from what was written to it: as much of one as tuner asks for."""

from __future__ import annotations

import re

_PIECE = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n]+)", re.DOTALL)


class Emulator:
    """A terminal without a lower end: *rows* is all that was ever on it and was not drawn over."""

    def __init__(self) -> None:
        self.rows: list[str] = [""]
        self.unknown: list[str] = []  #: sequences that no view of ours should write
        self._row = self._column = 0

    def feed(self, written: str) -> None:
        for found in _PIECE.finditer(written):
            count, command, is_return, is_line, text = found.groups()
            if command == "A":
                self._row = max(0, self._row - int(count or 1))
            elif command == "J":
                del self.rows[self._row + 1 :]
                self.rows[self._row] = self.rows[self._row][: self._column]
            elif command == "K":
                self.rows[self._row] = self.rows[self._row][: self._column]
            elif command is not None and command != "m":
                self.unknown.append(found[0])
            elif is_return:
                self._column = 0
            elif is_line:
                self._row, self._column = self._row + 1, 0
                if self._row == len(self.rows):
                    self.rows.append("")
            elif text:
                row = self.rows[self._row].ljust(self._column)
                self.rows[self._row] = row[: self._column] + text + row[self._column + len(text) :]
                self._column += len(text)

    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.rows).rstrip() + "\n"
