"""The words of ``.proto`` files, with their places; for :mod:`sowctl.messages.protoparse` alone."""

from __future__ import annotations

import re
from typing import NamedTuple

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
