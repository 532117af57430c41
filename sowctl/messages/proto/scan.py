"""The words of ``.proto`` files and a reader of them; for :mod:`sowctl.messages.proto.parse` alone."""

from __future__ import annotations

import re
from typing import NoReturn

from sowctl.tuples import NamedTuple

_WORD = re.compile(
    r"""(?P<space>[ \t\r\n\f\v]+|//[^\n]*|/\*.*?\*/)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<number>(?:0[xX]|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[A-Za-z0-9_]*)
      | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<mark>[{}\[\]()<>=;,.:/+-])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_SHORT = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, "'": 39, '"': 34, "?": 63}
_CLOSING = {"{": "}", "[": "]", "(": ")", "<": ">"}


class ProtoError(ValueError):
    """What a ``.proto`` file does wrong, with line and column first."""


class Word(NamedTuple):
    """One word: its kind (``name number text mark end``), its text, and where it starts in the file."""

    kind: str
    text: str
    at: int


def words(source: str) -> list[Word]:
    """The words of a file, ending with empty ones for those who look ahead. Raises ProtoError."""
    found: list[Word] = []
    position = 0
    while position < len(source):
        match = _WORD.match(source, position)
        if match is None:
            raise error(source, position, f"{source[position]!r} starts no word")
        if match.lastgroup != "space":
            found.append(Word(match.lastgroup or "", match[0], position))
        position = match.end()
    found.extend([Word("end", "", len(source))] * 3)
    return found


def error(source: str, at: int, message: str) -> ProtoError:
    """An error at an offset of a file."""
    line = source.count("\n", 0, at) + 1
    column = at - (source.rfind("\n", 0, at) + 1) + 1
    return ProtoError(f"{line}:{column}: {message}")


def text_value(word: str) -> bytes:
    """What a word in quotes stands for."""
    result = bytearray()
    position = 0
    inner = word[1:-1]
    for match in _ESCAPE.finditer(inner):
        result += inner[position : match.start()].encode()
        position = match.end()
        hexadecimal, octal, short_code, long_code, short = match.groups()
        if hexadecimal:
            result.append(int(hexadecimal, 16))
        elif octal:
            result.append(int(octal, 8) & 255)
        elif short_code or long_code:
            result += chr(int(short_code or long_code, 16)).encode("utf-8", "replace")
        elif short in _SHORT:
            result.append(_SHORT[short])
        else:
            raise ProtoError(f"a text has the unknown escape \\{short}")
    return bytes(result + inner[position:].encode())


def whole(word: str) -> int | None:
    """The value of a word that is a whole number: decimal, octal or hexadecimal."""
    try:
        if word[:2] in ("0x", "0X"):
            return int(word[2:], 16)
        return int(word, 8) if len(word) > 1 and word[0] == "0" else int(word)
    except ValueError:
        return None


class Reader:
    """Goes over the words of a file. Every method raises ProtoError where the file has something else."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.words = words(source)
        self.at = 0

    def pass_over(self) -> None:
        """Go behind the next semicolon or block."""
        while self.word.kind != "end":
            if self.word.text == "{":
                self.balanced()
                self.take(";")
                return
            if self.take(";"):
                return
            if self.word.text == "[":
                self.balanced()
            else:
                self.at += 1
        self.fail("a declaration has no end")

    def balanced(self) -> None:
        """Go behind the bracket that closes the one here."""
        closing: list[str] = []
        while self.word.kind != "end":
            word = self.word
            self.at += 1
            if word.kind == "mark" and word.text in _CLOSING:
                closing.append(_CLOSING[word.text])
            elif word.kind == "mark" and closing and word.text == closing[-1]:
                closing.pop()
                if not closing:
                    return
        self.fail("a bracket is not closed")

    @property
    def word(self) -> Word:
        """The next word."""
        return self.words[self.at]

    def take(self, text: str) -> bool:
        """Go over the next word if it is this one."""
        if self.word.text == text and self.word.kind in ("mark", "name"):
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.take(text):
            self.fail(f"{text!r} is expected, not {self.word.text or 'the end of the file'!r}")

    def name(self) -> str:
        if self.word.kind != "name":
            self.fail(f"a name is expected, not {self.word.text or 'the end of the file'!r}")
        self.at += 1
        return self.words[self.at - 1].text

    def dotted(self) -> str:
        parts = [self.name()]
        while self.take("."):
            parts.append(self.name())
        return ".".join(parts)

    def text(self) -> bytes:
        """Texts that follow one another are one."""
        if self.word.kind != "text":
            self.fail(f"a text in quotes is expected, not {self.word.text!r}")
        found = b""
        while self.word.kind == "text":
            try:
                found += text_value(self.word.text)
            except ProtoError as problem:
                self.fail(str(problem))
            self.at += 1
        return found

    def integer(self) -> int:
        sign = -1 if self.take("-") else 1
        value = whole(self.word.text) if self.word.kind == "number" else None
        if value is None or value > 1 << 31:
            self.fail(f"a whole number is expected, not {self.word.text!r}")
        self.at += 1
        return sign * value

    def fail(self, message: str) -> NoReturn:
        raise error(self.source, self.word.at, message)
