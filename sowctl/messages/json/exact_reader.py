"""The exact JSON reader: slow, iterative, and the definition of what message type ``json`` accepts and means.

It accepts the JSON grammar (RFC 8259) in UTF-8, with white space around the value. In addition:

* of duplicate members only the first counts; or only the last, for a type defined so;
* numbers keep their original text; without point and exponent they are Integers within -2**63 .. 2**64-1, all others
  are Doubles, which may be infinite (``1e999``);
* an escaped unpaired surrogate (``\\ud800``) reads as U+FFFD, in values and in member names;
* more than ``max_depth`` nested containers are refused.

:mod:`sowctl.messages.json.fast_reader` must agree with this module on every payload.
"""

from __future__ import annotations

import re
from typing import NoReturn, TypeAlias, cast

from sowctl.messages.base import MALFORMED_CODE, NOT_UTF8_CODE, TOO_DEEP_CODE, PayloadRefused
from sowctl.values.depth import MAX_DEPTH
from sowctl.values.fields import Number

_SPACE_PATTERN = re.compile(rb"[ \t\n\r]*+")
# Possessive quantifiers (*+, ++) never backtrack: every pattern passes over a payload once, whatever it contains.
_PLAIN_STRING_PATTERN = re.compile(rb'"([^"\\\x00-\x1f]*+)"')
_STRING_PATTERN = re.compile(rb'"((?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+)"')
# Not possessive as a whole: in Python 3.11.2, the text that the last, incomplete escape has consumed would belong to
# the match. So it is bounded, because each repetition is recorded.
_STRING_PIECE = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})){1,1000}')
_NUMBER_PATTERN = re.compile(rb"-?(?:0|[1-9][0-9]*+)((?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)")
_WORD_PATTERN = re.compile(rb"[A-Za-z]++")
# Two adjacent escapes of code units are matched together, because only both show whether they are a pair.
_ESCAPE_PATTERN = re.compile(r"\\(?:u([0-9a-fA-F]{4})(?:\\u([dD][c-fC-F][0-9a-fA-F]{2}))?|(.))")
_SURROGATE_PATTERN = re.compile("[\ud800-\udfff]")
_SHORT_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORD_VALUES: dict[bytes, bool | None] = {b"true": True, b"false": False, b"null": None}
_MAX_INTEGER_CHARACTERS = 20
"""Maximum digits and sign of an integer in range."""

Json: TypeAlias = dict[str, "Json"] | list["Json"] | str | Number | bool | None


class JsonRefused(PayloadRefused):
    """The reason why a payload is refused: code, message with line and column (in characters), byte offset."""

    offset: int


class SpannedValue:
    """A value with its place ``[start, end)`` in the payload; ``value`` as in :data:`Json`, but with Spanned parts."""

    __slots__ = ("end", "start", "value")

    def __init__(self, start: int, end: int, value: object) -> None:
        self.start = start
        self.end = end
        self.value = value


def parse_json(payload: bytes, max_depth: int = MAX_DEPTH, *, last: bool = False, halves: bool = False) -> Json:
    """The value of ``payload``; with ``last``, the last duplicate member counts. Raises :class:`JsonRefused`.

    ``halves``: unpaired surrogates stay in values (not in names), so that the caller can distinguish them.
    """
    return _ExactReader(payload, max_depth, spans=False, last=last, halves=halves).read_json()


def parse_spans(payload: bytes, max_depth: int = MAX_DEPTH, *, last: bool = False) -> SpannedValue:
    """The value with places: every value is a :class:`SpannedValue`; names are plain. Raises :class:`JsonRefused`."""
    return _ExactReader(payload, max_depth, spans=True, last=last).read_spans()


def parse_members(payload: bytes, max_depth: int = MAX_DEPTH) -> tuple[SpannedValue, list[str]]:
    """:func:`parse_spans`, and the duplicate names of the outermost object. Raises :class:`JsonRefused`.

    Unpaired surrogates stay in values.
    """
    reader = _ExactReader(payload, max_depth, spans=True, halves=True)
    return reader.read_spans(), reader.repeated


def parse_number(text: bytes) -> int | float:
    """The value of a JSON number: an Integer if it has neither point nor exponent and is in range, else a Double."""
    # The time of int() grows with the square of the digits; no longer number can be in range.
    if len(text) <= _MAX_INTEGER_CHARACTERS and text.lstrip(b"-").isdigit():
        value = int(text)
        if -(1 << 63) <= value < 1 << 64:
            return value
    return float(text)


def unescape_string(raw: bytes, *, halves: bool = False) -> str:
    """The characters of a valid JSON string, given the text between its quotes; ``halves`` as in :func:`parse_json`."""
    text = raw.decode()
    # Most strings have no escape and skip the search.
    if "\\" not in text:
        return text
    text = _ESCAPE_PATTERN.sub(_decode_escape, text)
    return text if halves else replace_surrogates(text)


def replace_surrogates(text: str) -> str:
    """``text`` with U+FFFD for every surrogate, which is always unpaired in the text of a string."""
    return text if text.isascii() else _SURROGATE_PATTERN.sub("\ufffd", text)


def _decode_escape(match: re.Match[str]) -> str:
    first, second, short = match.groups()
    if short is not None:
        return _SHORT_ESCAPES[short]
    unit = int(first, 16)
    # Two escapes are one character only as a high surrogate followed by a low one; any other pair stays two units.
    if second is not None:
        low = int(second, 16)
        if 0xD800 <= unit < 0xDC00:
            return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00))
        return chr(unit) + chr(low)
    return chr(unit)


class _ExactReader:
    """One pass over one payload, with the open containers in a list instead of on the Python stack."""

    def __init__(
        self, payload: bytes, max_depth: int, *, spans: bool, last: bool = False, halves: bool = False
    ) -> None:
        self.payload = payload
        self.halves = halves
        self.last = last
        self.max_depth = max_depth
        self.spans = spans
        self.position = 0
        # The open containers, each with the offset of its beginning; ``names`` are the members of objects that wait for
        # their value.
        self.open: list[tuple[dict[str, object] | list[object], int]] = []
        self.names: list[str] = []
        self.repeated: list[str] = []

    def read_json(self) -> Json:
        """Read the value, for a reader without spans."""
        return cast(Json, self.read_document())

    def read_spans(self) -> SpannedValue:
        """Read the value with its places, for a reader with spans."""
        found = self.read_document()
        assert isinstance(found, SpannedValue)
        return found

    def read_document(self) -> object:
        try:
            self.payload.decode()
        except UnicodeDecodeError as error:
            byte = self.payload[error.start]
            self.fail(error.start, f"byte 0x{byte:02x} is not valid UTF-8", NOT_UTF8_CODE)
        self.skip_space()
        # Containers are in a list: the limit bounds the memory for any depth, and no Python stack is used.
        while True:
            complete, value = self.start_value()
            while complete:
                # The outermost value is complete: only white space may follow.
                if not self.open:
                    self.skip_space()
                    if self.position != len(self.payload):
                        self.fail(self.position, f"{self.describe_position()} after the end of the value")
                    return value
                complete, value = self.add_value(value)

    def start_value(self) -> tuple[bool, object]:
        """Read a scalar or an empty container, or open a container: ``(complete, value)``."""
        start = self.position
        head = self.payload[start : start + 1]
        if head == b'"':
            return True, self.build_value(start, unescape_string(self.read_string(), halves=self.halves))
        if head == b"{" or head == b"[":
            # Refused when it opens, so that no payload makes the list longer than the limit.
            if len(self.open) == self.max_depth:
                self.fail(start, f"more than {self.max_depth} objects and arrays inside one another", TOO_DEEP_CODE)
            self.open.append(({} if head == b"{" else [], start))
            self.position += 1
            self.skip_space()
            if self.payload[self.position : self.position + 1] == (b"}" if head == b"{" else b"]"):
                return True, self.close_container()
            if head == b"{":
                self.read_member_name()
            return False, None
        number = _NUMBER_PATTERN.match(self.payload, start)
        if number is not None:
            return True, self.read_number(number)
        word = _WORD_PATTERN.match(self.payload, start)
        # The whole word is compared, so nullx is refused as such, not after null.
        if word is not None and word[0] in _WORD_VALUES:
            self.position = word.end()
            return True, self.build_value(start, _WORD_VALUES[word[0]])
        return self.fail(start, f"a value is expected, not {self.describe_position(word)}")

    def add_value(self, value: object) -> tuple[bool, object]:
        """Add ``value`` to the innermost container and go to the next one; a closed container is a complete value
        itself."""
        container = self.open[-1][0]
        if isinstance(container, dict):
            name = self.names.pop()
            # Of duplicate members the first counts, unless the caller requested the last.
            if self.last or name not in container:
                container[name] = value
            # Only duplicate names of the outermost object are needed, for envelopes.
            elif len(self.open) == 1:
                self.repeated.append(name)
        else:
            container.append(value)
        self.skip_space()
        mark = self.payload[self.position : self.position + 1]
        if mark == b",":
            self.position += 1
            self.skip_space()
            if isinstance(container, dict):
                self.read_member_name()
            return False, None
        closer = b"}" if isinstance(container, dict) else b"]"
        if mark == closer:
            return True, self.close_container()
        return self.fail(self.position, f"a comma or {closer.decode()} is expected, not {self.describe_position()}")

    def close_container(self) -> object:
        container, start = self.open.pop()
        self.position += 1
        return self.build_value(start, container)

    def read_member_name(self) -> None:
        if self.payload[self.position : self.position + 1] != b'"':
            self.fail(self.position, f"a member name in double quotes is expected, not {self.describe_position()}")
        self.names.append(unescape_string(self.read_string()))
        self.skip_space()
        if self.payload[self.position : self.position + 1] != b":":
            self.fail(self.position, f"a colon is expected, not {self.describe_position()}")
        self.position += 1
        self.skip_space()

    def read_string(self) -> bytes:
        """Read the bytes between the quotes of the string at the position, and move the position after it."""
        # Strings without an escape, which most are, by the simpler pattern.
        match = _PLAIN_STRING_PATTERN.match(self.payload, self.position) or _STRING_PATTERN.match(
            self.payload, self.position
        )
        if match is not None:
            self.position = match.end()
            return match[1]
        # Refused. The length of its valid beginning determines the fault.
        end = self.position + self.payload.startswith(b'"', self.position)
        while (piece := _STRING_PIECE.match(self.payload, end)) is not None:
            end = piece.end()
        if end == len(self.payload):
            self.fail(self.position, "a string has no closing quote")
        if self.payload[end : end + 1] == b"\\":
            self.fail(end, "a string has an escape that JSON does not know")
        return self.fail(end, f"a string has a bare control character 0x{self.payload[end]:02x}")

    def read_number(self, match: re.Match[bytes]) -> object:
        self.position = match.end()
        text = match[0]
        follower = self.payload[self.position : self.position + 1]
        # ``01`` and ``1.`` begin like a number without being one: the fault is the whole text, not only its rest.
        if follower.isalnum() or follower == b".":
            self.fail(match.start(), "a number is malformed")
        return self.build_value(match.start(), Number(parse_number(text), text))

    def build_value(self, start: int, value: object) -> object:
        return SpannedValue(start, self.position, value) if self.spans else value

    def skip_space(self) -> None:
        match = _SPACE_PATTERN.match(self.payload, self.position)
        if match is not None:
            self.position = match.end()

    def describe_position(self, word: re.Match[bytes] | None = None) -> str:
        """Describe the character or word at the position, for messages."""
        if word is not None:
            return repr(word[0][:20].decode())
        if self.position >= len(self.payload):
            return "the end of the text"
        # Four bytes contain any character of UTF-8; the rest is cut off.
        character = self.payload[self.position : self.position + 4].decode(errors="ignore")[:1]
        return ascii(character) if character.isprintable() else f"U+{ord(character):04X}"

    def fail(self, offset: int, message: str, code: str = MALFORMED_CODE) -> NoReturn:
        # The offset counts bytes, the column characters.
        before = self.payload[:offset]
        line = before.count(b"\n") + 1
        column = len(before[before.rfind(b"\n") + 1 :].decode(errors="replace")) + 1
        raise JsonRefused(code, f"{message} (line {line}, column {column})", offset)
