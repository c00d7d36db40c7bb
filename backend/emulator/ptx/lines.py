"""The lines of the program that was compiled to PTX (PTX 11.5.3, 11.5.4)."""

from __future__ import annotations

import re

from tilec.backend.emulator.ptx.lexer import END, Cursor
from tilec.backend.emulator.ptx.syntax import SourceLine


class SourceLines:
    """Reads `.file` and `.loc`; `current` is where the instructions that follow come from.

    Compilers write `.file` behind the functions whose `.loc` name it: all are looked up before anything else is read.
    """

    def __init__(self, cursor: Cursor) -> None:
        self.current: SourceLine | None = None
        self._seen: dict[tuple[str, int, int], SourceLine] = {}
        texts = cursor.texts
        places = [at for at, text in enumerate(texts) if text == ".file" and texts[at + 1] != END]
        self._files = {texts[at + 1]: _unquoted(texts[at + 2]) for at in places}

    def file(self, cursor: Cursor) -> None:
        """Take ``.file 1 "name", timestamp, size``."""
        cursor.at += 1
        index = cursor.take()
        name = cursor.peek()
        if not index.isdigit() or name[:1] != '"':
            cursor.fail("malformed .file", 'write .file 1 "name.cu"')
        cursor.at += 1
        for what in ("timestamp", "size"):
            if cursor.accept(","):
                self._number(cursor, what)

    def begin_function(self) -> None:
        """Forget the lines of the function before."""
        self.current = None
        self._seen.clear()

    def loc(self, cursor: Cursor) -> None:
        """Take ``.loc file line column, function_name label+offset, inlined_at file line column``."""
        cursor.at += 1
        place = self._place(cursor)
        inlined_at: SourceLine | None = None
        while cursor.accept(","):
            if cursor.accept("function_name"):
                cursor.take()
                if cursor.accept("+"):
                    cursor.take()
            elif cursor.accept("inlined_at"):
                call = self._place(cursor)
                inlined_at = self._seen.get(call) or SourceLine(*call)
            else:
                cursor.fail("expected 'function_name' or 'inlined_at' in .loc")
        self.current = self._seen[place] = SourceLine(*place, inlined_at)

    def _place(self, cursor: Cursor) -> tuple[str, int, int]:
        index = str(self._number(cursor, "file index"))
        return self._files.get(index, f"<file {index}>"), self._number(cursor, "line"), self._number(cursor, "column")

    def _number(self, cursor: Cursor, what: str) -> int:
        text = cursor.peek()
        if not text.isdigit():
            cursor.fail(f"expected a {what}, not '{text}'")
        cursor.at += 1
        return int(text)


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1])
