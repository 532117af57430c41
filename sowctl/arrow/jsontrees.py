"""One JSON message as a tree of Python values, every number with its own digits.

Called by :mod:`sowctl.arrow.struct_decoder` for messages that its typed decoder does not accept, and by
:mod:`sowctl.arrow.inference`. Which messages are readable is decided here, by the message alone: all that the message
type ``json`` accepts (:mod:`sowctl.messages.json.exact_reader`), and of duplicate members the first counts. An unpaired
surrogate, which no typed column can represent, becomes the text of its escape, in values and in names
(sowctl-types(7), Special values).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from sowctl.messages.json.batch import DECODE_ERRORS
from sowctl.messages.json.exact_reader import parse_json
from sowctl.values.depth import MAX_DEPTH, is_deep
from sowctl.values.fields import Number, Scalar
from sowctl.values.jsontree import keep_first_members
from sowctl.values.unique_members import has_all_members

if TYPE_CHECKING:
    from msgspec import Raw

_NEGATIVE_ZERO_PATTERN = re.compile(rb"-0[,\]}\s]")
_HALF_PATTERN = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u([dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""An escape of JSON: a surrogate pair, an unpaired surrogate, or another one, so that ``\\\\`` counts as one escape."""
_MAX_SAFE_DIGITS = 4000
"""Digits of the longest whole number that Python and msgspec accept."""


class Unreadable(Exception):
    """A message that the message type ``json`` does not accept."""


UNREADABLE = object()
"""Represents such a message among the values of others."""


class TreeReader:
    """Reads messages one by one. Whole numbers are ``int``; all others, and a negative zero, are ``msgspec.Raw`` with
    their own text.

    ``exact``: messages are exact views, in which NaN and infinities are words; these become ``float``.
    """

    def __init__(self, *, exact: bool = False) -> None:
        import msgspec

        self._decode = msgspec.json.Decoder(float_hook=msgspec.Raw).decode
        self._raw = msgspec.Raw
        self._exact = exact

    def read_tree(self, message: bytes) -> Any:
        """The value of one message. Raises :class:`Unreadable`."""
        if is_deep(message):
            raise Unreadable
        # msgspec reads -0 as the whole number 0, which has lost its sign
        if b"-0" not in message or _NEGATIVE_ZERO_PATTERN.search(message) is None:
            try:
                found = self._decode(message)
            except DECODE_ERRORS:
                # A library may refuse texts that the message type accepts, such as numbers of 5,000 digits.
                pass
            else:
                if has_all_members(message, (found,)):
                    return found
        spelled = _spell_halves(message)
        if spelled != message:
            return self.read_tree(spelled)
        from sowctl.messages.base import PayloadRefused

        try:
            # The exact reader is slower, and accepts exactly the texts that the message type accepts.
            return self._simplify_tree(parse_json(message))
        except PayloadRefused:
            if self._exact and (b"NaN" in message or b"Infinity" in message):
                return self._read_with_words(message)
            raise Unreadable from None

    def read_trees(self, messages: Sequence[bytes]) -> list[Any]:
        """The value of each message, :data:`UNREADABLE` for those without one."""
        joined = b"".join(messages)
        if not has_suspects(messages, joined, signed=True):
            try:
                found = list(map(self._decode, messages))
            except DECODE_ERRORS:
                pass
            else:
                # Counted together: one by one this takes twice as long.
                if has_all_members(joined, found):
                    return found
        return list(map(self._read_or_mark, messages))

    def _read_or_mark(self, message: bytes) -> Any:
        try:
            return self.read_tree(message)
        except Unreadable:
            return UNREADABLE

    def _read_with_words(self, message: bytes) -> Any:
        """The value of a message with words for NaN and infinities."""
        import json

        def whole(text: str) -> Any:
            return self._raw(text.encode()) if text == "-0" else int(text)

        def broken(text: str) -> Any:
            return self._raw(text.encode())

        try:
            return json.loads(message, parse_int=whole, parse_float=broken, object_pairs_hook=keep_first_members)
        except ValueError:
            raise Unreadable from None

    def _simplify_tree(self, value: Any) -> Any:
        """A tree of the exact reader in the form of msgspec's trees."""
        if isinstance(value, dict):
            return {name: self._simplify_tree(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._simplify_tree(inner) for inner in value]
        if isinstance(value, Number):
            text = value.text.strip()
            whole = text.removeprefix(b"-").isdigit() and text != b"-0" and len(text) < _MAX_SAFE_DIGITS
            return int(text) if whole else self._raw(text)
        return value


def _spell_halves(message: bytes) -> bytes:
    """The message with the text ``\\\\ud800`` for the escape ``\\ud800`` of an unpaired surrogate."""
    if b"\\ud" not in message and b"\\uD" not in message:
        return message
    return _HALF_PATTERN.sub(lambda match: match[0] if match[1] is None else b"\\\\u" + match[1].lower(), message)


def has_suspects(messages: Sequence[bytes | None], joined: bytes | None = None, *, signed: bool = False) -> bool:
    """True if a typed decoder may accept messages that the message type refuses, or reads differently.

    A decoder skips undeclared members without checking UTF-8, and is limited in depth only by the stack. ``joined``:
    the joined messages, if the caller has them. ``signed``: doubles are declared, for which the decoder converts ``-0``
    to 0.0.
    """
    present = [message for message in messages if message is not None]
    joined = b"".join(present) if joined is None else joined
    if signed and b"-0" in joined and _NEGATIVE_ZERO_PATTERN.search(joined) is not None:
        return True
    if not joined.isascii():
        try:
            joined.decode()
        except UnicodeDecodeError:
            return True
    # A container needs two bytes: shorter messages cannot be too deep, and are not checked one by one.
    return max(map(len, present), default=0) > 2 * MAX_DEPTH and any(map(is_deep, present))


def convert_tree(value: Any, convert: Callable[[Any], Scalar]) -> Any:
    """A decoded message of another format as such a tree, in which binary data are bytes.

    ``convert`` converts the format's own kinds to slot values. NaN and infinities are None, as in the JSON view.
    """
    from msgspec import Raw

    if isinstance(value, dict):
        return {
            name.decode(errors="replace") if isinstance(name, bytes) else str(name): convert_tree(inner, convert)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [convert_tree(inner, convert) for inner in value]
    if not isinstance(value, str | int | bytes | None):
        value = convert(value)
    if isinstance(value, float):
        return Raw(repr(value)) if isfinite(value) else None
    return value


def read_digits(number: Raw) -> str:
    """The digits of a number that is not an ``int``."""
    return bytes(number).decode()
