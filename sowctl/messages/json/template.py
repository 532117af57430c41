"""The template of JSON messages: the bytes that are the same in all of them, and the slots between these.

Built from one message, which is known to be a JSON object. Messages that cannot have one raise
:class:`NoTemplateError`: backslashes, line breaks, an object with duplicate members, long messages. The checks that
both template readers need are here as well: exact match of a template's own bytes, and UTF-8.
"""

from __future__ import annotations

import re
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from sowctl.values.depth import MAX_DEPTH, is_deep

MAX_TEMPLATE_BYTES = 4096
"""Maximum size of a message from which a template is built."""
MAX_TEMPLATE_SLOTS = 256
SLOT_PATTERNS = {
    # Bytes from 0x80 on are characters, since the whole text is UTF-8.
    "string": rb"[\x20\x21\x23-\x5b\x5d-\xff]*+",
    "number": rb"-?(?!0[0-9])[0-9]++(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+",
    "word": rb"(?:true|false|null)",
}
"""Patterns of the values of slots, without the quotes of strings."""
_SCALAR_PATTERN = rb'(?:"%(string)b"|%(number)b|%(word)b)' % {name.encode(): one for name, one in SLOT_PATTERNS.items()}
SLOT_PATTERNS["list"] = rb"\[\x20*+(?:%b\x20*+(?:,\x20*+%b\x20*+)*+)?+\]" % (_SCALAR_PATTERN, _SCALAR_PATTERN)
_LIST_PATTERN = re.compile(SLOT_PATTERNS["list"])
_TOKEN_PATTERN = re.compile(
    rb'"(?P<text>[^"\\\x00-\x1f]*+)"|(?P<number>-?(?:0|[1-9][0-9]*+)(?P<rest>(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?))'
    rb"|(?P<word>true|false|null)|[{}\[\],:]| ++"
)
_WORD_VALUES = {b"true": True, b"false": False, b"null": None}
ARRAY_MARKER = object()
"""Represents an array that contains objects or arrays in the tree of a template."""
SlotKind: TypeAlias = Literal["string", "number", "word", "list"]


class NoTemplateError(Exception):
    """Raised for messages for which no template can be built."""


class TemplateSlot(Struct):
    """A variable place of a template. ``whole``: a number without point and exponent. A ``list`` is an array of any
    length, with its brackets, whose elements are strings, numbers and words.
    """

    kind: SlotKind
    whole: bool = True


class Template:
    """One message, split. ``fixed`` are the constant bytes, one piece more than ``slots``. ``tree`` has the members by
    name: the number of a slot, an object, or :data:`ARRAY_MARKER`. ``words`` has the word in each word slot.

    Raises NoTemplateError.
    """

    def __init__(self, message: bytes) -> None:
        if len(message) > MAX_TEMPLATE_BYTES or not message.startswith(b"{") or is_deep(message, MAX_DEPTH):
            raise NoTemplateError
        self.slots: list[TemplateSlot] = []
        self.tree: dict[str, Any] = {}
        self.words: dict[int, bool | None] = {}
        self._fixed = [bytearray()]
        self._open: list[dict[str, Any] | None] = []
        self._name: str | None = None
        place = 0
        while place < len(message):
            values = _LIST_PATTERN.match(message, place)
            if values is not None:
                # One slot: messages with more values, or none, have the same template.
                self._add_slot("list")
                place = values.end()
                continue
            token = _TOKEN_PATTERN.match(message, place)
            if token is None or len(self.slots) > MAX_TEMPLATE_SLOTS:
                raise NoTemplateError
            place = token.end()
            self._add_token(token)
        self.fixed = [bytes(piece) for piece in self._fixed]

    def _add_token(self, token: re.Match[bytes]) -> None:
        text = token[0]
        inside = self._open[-1] if self._open else None
        if token["text"] is not None:
            named = inside is not None and self._name is None
            if named:
                self._fixed[-1] += text
                self._name = token["text"].decode()
                # Of duplicate members one counts, and which one depends on the reader.
                if self._name in inside:  # type: ignore[operator]  # an object, as it is named
                    raise NoTemplateError
            else:
                self._fixed[-1] += b'"'
                self._add_slot("string")
                self._fixed[-1] += b'"'
        elif token["number"] is not None:
            self._add_slot("number")
            self.slots[-1].whole = not token["rest"]
        elif token["word"] is not None:
            self.words[len(self.slots)] = _WORD_VALUES[text]
            self._add_slot("word")
        else:
            self._fixed[-1] += text
            self._add_structure(text)

    def _add_slot(self, kind: SlotKind) -> None:
        self._set_member(len(self.slots))
        self.slots.append(TemplateSlot(kind))
        self._fixed.append(bytearray())

    def _add_structure(self, text: bytes) -> None:
        if text == b"{":
            made: dict[str, Any] = {} if self._open else self.tree
            self._set_member(made)
            self._open.append(made)
        elif text == b"[":
            self._set_member(ARRAY_MARKER)
            self._open.append(None)
        elif text in (b"}", b"]"):
            if not self._open:
                raise NoTemplateError
            self._open.pop()

    def _set_member(self, value: Any) -> None:
        """Set the last name's member to the value just read, unless it is in a list."""
        inside = self._open[-1] if self._open else None
        if inside is not None and self._name is not None:
            inside[self._name] = value
            self._name = None


def escape_pattern(text: bytes) -> bytes:
    """A pattern that matches exactly these bytes: none of them is special in the pattern."""
    return b"".join([b"\\x%02x" % byte for byte in text])


def is_utf8(raw: bytes) -> bool:
    """Return True if bytes are UTF-8, as required for the strings of a template."""
    if not raw.isascii():
        try:
            raw.decode()
        except UnicodeDecodeError:
            return False
    return True
