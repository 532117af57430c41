"""What the typed formats with nested messages have in common: MessagePack and BSON (``sowctl-messages(7)``).

A format gives four things: how a payload becomes a tree of :mod:`sowctl.messages.nested.paths`, how a tree becomes a
payload, what a scalar of its library is as a slot value, and the reverse. Everything else is here. Only merging,
writing and selecting make new payloads; all else leaves the bytes alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from sowctl.errors import InputError
from sowctl.messages.base import (
    MAX_DEPTH,
    MAX_MESSAGE_BYTES,
    TOO_DEEP,
    UNWRITABLE_CODE,
    Extractor,
    KeyExtractor,
    KeyTexts,
    Members,
    PayloadRefused,
    SelectList,
    input_error,
    read_each,
    sized,
)
from sowctl.messages.definition import TypeDefinition
from sowctl.messages.directives import directives
from sowctl.messages.nested.paths import key_reader, reader
from sowctl.messages.nested.write import Tree, is_null, made, overlay, selected, write
from sowctl.values.compare import choose_kind, plain
from sowctl.values.fields import Refusal, Row, Scalar, Slot, SlotValue, Write
from sowctl.values.paths import Path


class TreeType(ABC):
    """A typed format whose messages are maps of fields. A message of anything else has no fields."""

    kind: str
    filterable = selectable = mergeable = constructible = True
    line_framed = json_text = rooted = False
    typed = True

    def __init__(self, max_message: int = MAX_MESSAGE_BYTES, *, definition: TypeDefinition | None = None) -> None:
        self.name = self.kind if definition is None else definition.name
        self.max_message = max_message

    @abstractmethod
    def decode(self, payload: bytes) -> object:
        """The tree of one payload of acceptable size. Raises PayloadRefused."""

    @abstractmethod
    def encode(self, tree: Tree) -> bytes:
        """The payload of a tree. Raises ValueError, TypeError or OverflowError for what the format cannot hold."""

    @abstractmethod
    def scalar(self, item: object) -> Scalar:
        """What a scalar of the library is as a slot value."""

    def tree(self, payload: bytes) -> object:
        """The tree of one payload. Raises PayloadRefused."""
        return self.decode(sized(payload, self.max_message))

    def extractor(self, slots: Sequence[Slot]) -> Extractor:
        """A reader of ``slots``: one decoding per payload."""
        readers = [reader(slot, self.scalar) for slot in slots]
        refused: Row = (None,) * len(readers)
        tree = self.tree

        def row(payload: bytes) -> Row:
            root = tree(payload)
            return tuple([read(root) for read in readers])

        return lambda payloads: read_each(payloads, row, refused)

    def key_texts(self, paths: Sequence[Path]) -> KeyExtractor:
        """A reader of the texts of first values; a Double's is the shortest that reads back."""
        readers = [key_reader(path, self.scalar) for path in paths]
        refused: KeyTexts = (None,) * len(readers)

        def texts(payload: bytes) -> KeyTexts:
            root = self.tree(payload)
            return tuple([read(root) for read in readers])

        return lambda payloads: read_each(payloads, texts, refused)

    def check(self, payloads: Sequence[bytes]) -> list[Refusal]:
        """The payloads that cannot be decoded."""
        return self.extractor(())(payloads)[1]

    def select(self, payload: bytes, select_list: SelectList) -> bytes:
        """``payload`` without what the list leaves out; itself where nothing can go. Raises InputError."""
        tree = self._open_payload(payload)
        # A list that leaves nothing out keeps the very bytes, which writing anew might change.
        if not isinstance(tree, dict) or all(include for include, _ in select_list):
            return payload
        return self._encode_checked(selected(tree, directives(select_list)))

    def merge(self, base: bytes, delta: bytes, *, set_nulls: bool = False) -> bytes:
        """``base`` with the fields of ``delta``, merged by path; itself where none counts. Raises InputError."""
        old, new = self._open_payload(base, "base"), self._open_payload(delta, "delta")
        if not isinstance(old, dict) or not isinstance(new, dict):
            # A message that is no map has no fields to merge by: it is replaced as a whole.
            return base if is_null(new) and not set_nulls else delta
        return self._encode_checked(old) if overlay(old, new, set_nulls) else base

    def assign(self, payload: bytes, writes: Sequence[Write]) -> bytes:
        """``payload`` with fields written and removed. Raises InputError."""
        tree = self._open_payload(payload)
        # A message that is no map makes room for one, because its fields need a map to stand in.
        root = tree if isinstance(tree, dict) else {}
        write(root, writes, self.native)
        return self._encode_checked(root)

    def build(self, fields: Members) -> bytes:
        """A message of these fields."""
        return self._encode_checked(made(fields, self.native))

    def made(self, tree: Tree) -> bytes:
        """A message of a whole tree, lists and binary data included. Raises InputError."""
        return self._encode_checked(tree)

    def view(self, payload: bytes) -> bytes:
        """One line of JSON; what cannot be read is shown as the Base64 form of its bytes."""
        from sowctl.messages.nested.view import base64_line, json_line

        try:
            return json_line(self.tree(payload), self.scalar)
        except PayloadRefused:
            return base64_line(payload)

    members_view = view

    def exact_view(self, payload: bytes) -> bytes:
        """As :meth:`members_view`, with the words NaN, Infinity and -Infinity for what these are."""
        from sowctl.messages.nested.view import base64_line, exact_line

        try:
            return exact_line(self.tree(payload), self.scalar)
        except PayloadRefused:
            return base64_line(payload)

    def native(self, value: SlotValue) -> object:
        """What is written for the first value: numbers by their value, bytes as text where they are UTF-8."""
        # The formats have numbers of their own, so the text of what is a number is not needed.
        scalar = plain(choose_kind(value))
        if isinstance(scalar, bytes):
            try:
                return scalar.decode()
            except UnicodeDecodeError:
                return scalar
        return scalar

    def _open_payload(self, payload: bytes, part: str | None = None) -> object:
        try:
            return self.tree(payload)
        except PayloadRefused as problem:
            raise input_error(problem, part) from None

    def _encode_checked(self, tree: Tree) -> bytes:
        try:
            return self.encode(tree)
        except (ValueError, TypeError, OverflowError) as problem:
            raise InputError(UNWRITABLE_CODE, f"the new message cannot be written as {self.kind}: {problem}") from None


def too_deep() -> PayloadRefused:
    """Why a message with too many containers inside one another is refused."""
    return PayloadRefused(TOO_DEEP, f"more than {MAX_DEPTH} maps and arrays inside one another")
