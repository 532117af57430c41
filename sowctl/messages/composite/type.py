"""The base of both composite types: message frame and types of the parts (``sowctl-messages(7)``).

On the wire each part is 4 bytes with its length, big-endian, and its bytes; the bytes after the last defined part are
preserved unread. A message may end after any part: missing parts are equivalent to empty ones. A part that its type
cannot read is skipped: it has no fields, and does not affect the others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar

from sowctl.errors import ConfigError
from sowctl.messages.base import (
    BAD_DEFINITION,
    MALFORMED_CODE,
    Extractor,
    KeyExtractor,
    MessageType,
    PayloadRefused,
    Tree,
    build_input_error,
    read_each,
    replaces_bytes,
    require_size,
)
from sowctl.messages.definition import TypeDefinition
from sowctl.values.display import format_count
from sowctl.values.fields import Refusal, Slot
from sowctl.values.paths import Path

T = TypeVar("T")
_LENGTH_PREFIX_BYTES = 4


class CompositeType(ABC):
    """A message of several parts, each with a type of its own: ``parts``, which the table of types creates and passes.

    Raises ConfigError ``SOW-MSG-007`` without parts.
    """

    kind: str
    filterable = True
    line_framed = json_text = rooted = False

    def __init__(self, max_message: int, *, definition: TypeDefinition, parts: Sequence[MessageType]) -> None:
        self.name = definition.name
        self.max_message = max_message
        if not parts:
            words = f"message type {self.name!r} of module {self.kind} names no types of parts"
            hint = "add a MessageType for each part"
            raise ConfigError(BAD_DEFINITION, words, place=definition.place or None, hint=hint)
        self.parts = tuple(parts)
        self.typed = all(part.typed for part in parts)
        self.replaces_bytes = any(map(replaces_bytes, parts))

    @abstractmethod
    def build_extractor(self, slots: Sequence[Slot]) -> Extractor:
        """A reader of ``slots``."""

    @abstractmethod
    def build_key_extractor(self, paths: Sequence[Path]) -> KeyExtractor:
        """A reader of the texts of first values."""

    def check_payloads(self, payloads: Sequence[bytes]) -> list[Refusal]:
        """The payloads that cannot be split into parts."""
        return self.split_batch(payloads)[1]

    def view(self, payload: bytes) -> bytes:
        """A JSON array of the parts: null for an empty one, the Base64 form of an unreadable one."""
        from sowctl.messages.nested.view import format_base64_line

        try:
            parts, rest = self.split_payload(payload)
        except PayloadRefused:
            return format_base64_line(payload)
        shown = [self.build_part_view(kind, part) for kind, part in zip(self.parts, parts, strict=True)]
        return b"[" + b",".join([*shown, format_base64_line(rest)] if rest else shown) + b"]"

    @abstractmethod
    def members_view(self, payload: bytes) -> bytes:
        """A JSON object whose members are where paths find them, for columns; no object if :meth:`view` fails."""

    def build_part_views(self, payload: bytes) -> list[bytes] | None:
        """The parts as JSON, None for a payload that cannot be split."""
        try:
            parts, _ = self.split_payload(payload)
        except PayloadRefused:
            return None
        return [self.build_part_view(kind, part) for kind, part in zip(self.parts, parts, strict=True)]

    def build_part_view(self, kind: MessageType, part: bytes) -> bytes:
        """One part as JSON."""
        from sowctl.messages.nested.view import format_base64_line

        # Empty, or missing because the message ends before it.
        if not part:
            return b"null"
        # An unreadable part is shown as bytes, and the others in their own form.
        return format_base64_line(part) if kind.check_payloads([part]) else kind.view(part)

    def split_batch(self, payloads: Sequence[bytes]) -> tuple[list[list[bytes]], list[Refusal]]:
        """The parts of every payload, empty ones for a refused one, and the refusals."""
        return read_each(payloads, lambda payload: self.split_payload(payload)[0], [b""] * len(self.parts))

    def split_payload(self, payload: bytes) -> tuple[list[bytes], bytes]:
        """The defined parts, and the following bytes. Raises PayloadRefused."""
        payload = require_size(payload, self.max_message)
        parts: list[bytes] = []
        position = 0
        # The definition determines the number of parts; the following bytes are passed on unread.
        for number in range(len(self.parts)):
            # Parts at the end may be missing; they are empty.
            if position == len(payload):
                parts.append(b"")
                continue
            start = position + _LENGTH_PREFIX_BYTES
            end = start + int.from_bytes(payload[position:start])
            # The length itself may be truncated: then fewer than four bytes were read, and ``end`` is meaningless.
            if start > len(payload) or end > len(payload):
                words = (
                    f"part {number} has {format_count(end - start, 'byte')} by its length"
                    if start <= len(payload)
                    else "a length"
                )
                words += f" at byte {position:,}, and the message ends at {len(payload):,}"
                raise PayloadRefused(MALFORMED_CODE, words, position)
            parts.append(payload[start:end])
            position = end
        return parts, payload[position:]

    def split_or_raise(self, payload: bytes, part: str | None = None) -> tuple[list[bytes], bytes]:
        """:meth:`split_payload`. Raises InputError."""
        try:
            return self.split_payload(payload)
        except PayloadRefused as problem:
            raise build_input_error(problem, part) from None


def join_parts(parts: Sequence[bytes], rest: bytes) -> bytes:
    """The payload of these parts."""
    return b"".join([len(part).to_bytes(_LENGTH_PREFIX_BYTES) + part for part in parts]) + rest


def number_parts(parts: Sequence[Any]) -> Tree:
    """The parts of a view by their numbers, as in paths."""
    return {str(number): part for number, part in enumerate(parts)}


def replace_refused(rows: list[T], refusals: Sequence[Refusal], refused: T) -> tuple[list[T], list[Refusal]]:
    """Replace the rows of refused payloads, as extractors do."""
    for refusal in refusals:
        rows[refusal.index] = refused
    return rows, list(refusals)
