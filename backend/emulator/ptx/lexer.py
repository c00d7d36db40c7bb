"""The tokens of a PTX text, and a cursor that walks over them (PTX 4.1, 4.2, 4.4).

A token is its spelling. An opcode with its modifiers (``ld.global.v4.f32``) and a name with its element (``%tid.x``) are one token
each, a directive (``.reg``) is one, a number is one with whatever letters touch it. Comments, lines of the C preprocessor and
``@@DWARF`` lines are whitespace.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NoReturn

from tilec.diagnostics import SourceLocation, TilecError, register_source

_TOKEN = re.compile(
    r"""(?: \s++ | //[^\n]*+ | /\*(?s:.*?)\*/ | \#[^\n]*+ | @@[^\n]*+ )*+
    (
      [A-Za-z_$%][A-Za-z0-9_$]*+ (?: (?:\.|::) [A-Za-z0-9_$]++ )*+
    | \. (?: [A-Za-z_] [A-Za-z0-9_$]*+ | [0-9]+[a-df-zA-DF-Z_][A-Za-z0-9_]*+ ) (?: ::[A-Za-z0-9_]++ )*+
    | 0[xXfFdDbB][A-Za-z0-9_]*+
    | (?: [0-9]++ (?:\.[0-9]*+)?+ | \.[0-9]++ ) (?: [eE][+-]?+[0-9]++ )?+ [A-Za-z0-9_]*+
    | "(?: [^"\\\n] | \\. )*+"
    | /\*
    | << | >> | <= | >= | == | != | && | \|\|
    | [-+*/%~!&|^?:;,(){}\[\]<>=@]
    | \Z
    | .
    )""",
    re.VERBOSE,
)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_$]*|[_$%][A-Za-z0-9_$]+")
_KNOWN_START = re.compile(r"[-A-Za-z0-9_$%\"+*/~!&|^?:;,(){}\[\]<>=@]|\.[A-Za-z0-9_]")
_LONGEST_NUMBER = 1024

END = ""
"""The token after the last."""


class Cursor:
    """The tokens of one text and a place among them.

    `texts` are the spellings, `starts` their offsets in `source`; the last token is `END`. `at` is the index of the next token.
    """

    def __init__(self, source: str, file: str) -> None:
        register_source(file, source)
        self.source = source
        self.file = file
        self.at = 0
        self.texts: list[str] = []
        self.starts: list[int] = []
        for match in _TOKEN.finditer(source):
            self.texts.append(match[1])
            self.starts.append(match.start(1))
        self._lines = [0, *(m.end() for m in re.finditer("\n", source))]
        for index, text in enumerate(self.texts):
            if len(text) > _LONGEST_NUMBER and text[0].isdigit():
                self.fail(f"a number of {len(text)} digits", at=index)
            if text == "/*":
                self.fail("this comment is never closed", "write '*/' at its end", at=index)
            if text and not _KNOWN_START.match(text):
                what = (
                    "this string is not closed on its line"
                    if text == '"'
                    else f"unexpected character {shown(text) if text.isprintable() else repr(text)}"
                )
                self.fail(what, at=index)

    def place(self, at: int) -> tuple[int, int]:
        """Line and column, from 1, of a token."""
        start = self.starts[at]
        line = bisect_right(self._lines, start)
        return line, start - self._lines[line - 1] + 1

    def fail(self, message: str, hint: str | None = None, *, at: int | None = None) -> NoReturn:
        """Stop with an error at a token: the next one, if none is named."""
        line, column = self.place(self.at if at is None else at)
        raise TilecError(message, SourceLocation(self.file, line, column), hint)

    def fail_after(self, message: str, hint: str | None = None) -> NoReturn:
        """Stop with an error just behind the last token that was taken."""
        line, column = self.place(self.at - 1)
        raise TilecError(message, SourceLocation(self.file, line, column + len(self.texts[self.at - 1])), hint)

    def peek(self) -> str:
        return self.texts[self.at]

    def take(self) -> str:
        text = self.texts[self.at]
        if text != END:
            self.at += 1
        return text

    def accept(self, text: str) -> bool:
        """Step over the next token if it is `text`."""
        if self.texts[self.at] == text:
            self.at += 1
            return True
        return False

    def expect(self, text: str, after: str) -> None:
        """Step over `text`, which must come after `after` (words for the message)."""
        if self.texts[self.at] != text:
            self.fail(f"expected '{text}' after {after}, not {shown(self.peek())}")
        self.at += 1

    def semicolon(self, after: str) -> None:
        """Step over the ';' that ends a statement."""
        if self.texts[self.at] != ";":
            self.fail_after(f"missing ';' after {after}", "end every statement with ';'")
        self.at += 1

    def name(self, of: str) -> str:
        """Take an identifier without an element; `of` says what it names."""
        text = self.peek()
        if not is_name(text):
            self.fail(f"expected the name of {of}, not {shown(text)}")
        self.at += 1
        return text

    def between(self, first: int, end: int) -> str:
        """The text of the tokens [first, end) in one line, without comments."""
        text = self.source[self.starts[first] : self.starts[end - 1] + len(self.texts[end - 1])]
        if "//" in text or "/*" in text:
            text = re.sub(r"//[^\n]*|/\*(?s:.*?)\*/", " ", text)
        return " ".join(text.split())

    def skip_block(self, opening: str, closing: str) -> None:
        """Step over a block whose contents do not matter, with the blocks in it; `opening` is the next token."""
        begin, depth = self.at, 0
        while True:
            text = self.take()
            if text == END:
                self.fail(f"this '{opening}' is never closed", f"write '{closing}' at its end", at=begin)
            depth += (text == opening) - (text == closing)
            if depth == 0:
                return


def is_name(text: str) -> bool:
    """Whether a token is an identifier (PTX 4.4)."""
    return _NAME.fullmatch(text) is not None


def shown(text: str) -> str:
    """A token, for a message."""
    return f"'{text}'" if text != END else "the end of the text"
