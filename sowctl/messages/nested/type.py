"""The base of the typed formats with nested messages: MessagePack and BSON (``sowctl-messages(7)``).

A format defines four things: decoding a payload to a tree of :mod:`sowctl.messages.nested.paths`, encoding a tree to a
payload, converting a scalar of its library to a slot value, and the reverse. Everything else is here. Only merging,
writing and selecting create new payloads; all other operations leave the bytes unchanged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from sowctl.errors import InputError
from sowctl.messages.base import (
    MAX_MESSAGE_BYTES,
    TOO_DEEP_CODE,
    UNWRITABLE_CODE,
    Extractor,
    KeyExtractor,
    KeyTexts,
    Members,
    PayloadRefused,
    SelectList,
    build_input_error,
    read_each,
    require_size,
)
from sowctl.messages.definition import TypeDefinition
from sowctl.messages.directives import build_directives
from sowctl.messages.nested.paths import build_key_reader, build_reader
from sowctl.messages.nested.write import Tree, apply_writes, build_tree, is_null, merge_tree, select_tree
from sowctl.values.depth import MAX_DEPTH
from sowctl.values.fields import FieldWrite, Refusal, Row, Scalar, Slot, SlotValue
from sowctl.values.paths import Path
from sowctl.values.scalars import choose_written_scalar, to_plain_scalar


class TreeType(ABC):
    """A typed format whose messages are maps of fields. A message of any other kind has no fields."""

    kind: str
    filterable = selectable = mergeable = constructible = True
    line_framed = json_text = rooted = False
    typed = nested = replaces_bytes = True
    repeatable = False

    def __init__(self, max_message: int = MAX_MESSAGE_BYTES, *, definition: TypeDefinition | None = None) -> None:
        self.name = self.kind if definition is None else definition.name
        self.max_message = max_message

    @abstractmethod
    def decode_tree(self, payload: bytes) -> object:
        """The tree of one payload of acceptable size. Raises PayloadRefused."""

    @abstractmethod
    def encode_tree(self, tree: Tree) -> bytes:
        """The payload of a tree. Raises ValueError, TypeError or OverflowError for values that it cannot represent."""

    @abstractmethod
    def convert_scalar(self, item: object) -> Scalar:
        """Convert a scalar of the library to a slot value."""

    def read_tree(self, payload: bytes) -> object:
        """The tree of one payload. Raises PayloadRefused."""
        return self.decode_tree(require_size(payload, self.max_message))

    def build_extractor(self, slots: Sequence[Slot]) -> Extractor:
        """A reader of ``slots``: one decoding per payload."""
        readers = [build_reader(slot, self.convert_scalar) for slot in slots]
        refused: Row = (None,) * len(readers)
        tree = self.read_tree

        def row(payload: bytes) -> Row:
            root = tree(payload)
            return tuple([read(root) for read in readers])

        return lambda payloads: read_each(payloads, row, refused)

    def build_key_extractor(self, paths: Sequence[Path]) -> KeyExtractor:
        """A reader of the texts of first values; for a Double the shortest text that reads back."""
        readers = [build_key_reader(path, self.convert_scalar) for path in paths]
        refused: KeyTexts = (None,) * len(readers)

        def texts(payload: bytes) -> KeyTexts:
            root = self.read_tree(payload)
            return tuple([read(root) for read in readers])

        return lambda payloads: read_each(payloads, texts, refused)

    def check_payloads(self, payloads: Sequence[bytes]) -> list[Refusal]:
        """The payloads that cannot be decoded."""
        return self.build_extractor(())(payloads)[1]

    def select_fields(self, payload: bytes, select_list: SelectList) -> bytes:
        """``payload`` without the excluded fields; itself if nothing can be dropped. Raises InputError."""
        tree = self._open_payload(payload)
        # A list that excludes nothing keeps the original bytes, which re-encoding might change.
        if not isinstance(tree, dict) or all(include for include, _ in select_list):
            return payload
        return self._encode_or_raise(select_tree(tree, build_directives(select_list)))

    def merge_delta(self, base: bytes, delta: bytes, *, set_nulls: bool = False) -> bytes:
        """``base`` with the fields of ``delta``, merged by path; itself if none counts. Raises InputError."""
        old, new = self._open_payload(base, "base"), self._open_payload(delta, "delta")
        if not isinstance(old, dict) or not isinstance(new, dict):
            # A message that is no map has no fields to merge: it is replaced completely.
            return base if is_null(new) and not set_nulls else delta
        return self._encode_or_raise(old) if merge_tree(old, new, set_nulls) else base

    def assign_fields(self, payload: bytes, writes: Sequence[FieldWrite]) -> bytes:
        """``payload`` with fields written and removed. Raises InputError."""
        tree = self._open_payload(payload)
        # A message that is no map is replaced by one, because fields need a map.
        root = tree if isinstance(tree, dict) else {}
        apply_writes(root, writes, self.convert_native)
        return self._encode_or_raise(root)

    def build_message(self, fields: Members) -> bytes:
        """A message of these fields."""
        return self._encode_or_raise(build_tree(fields, self.convert_native))

    def build_from_tree(self, tree: Tree) -> bytes:
        """A message of a whole tree, lists and binary data included. Raises InputError."""
        return self._encode_or_raise(tree)

    def view(self, payload: bytes) -> bytes:
        """One line of JSON; an unreadable message as the Base64 form of its bytes."""
        from sowctl.messages.nested.view import format_base64_line, format_json_line

        try:
            return format_json_line(self.read_tree(payload), self.convert_scalar)
        except PayloadRefused:
            return format_base64_line(payload)

    members_view = view

    def exact_view(self, payload: bytes) -> bytes:
        """As :meth:`members_view`, with the words NaN, Infinity and -Infinity for these numbers."""
        from sowctl.messages.nested.view import format_base64_line, format_exact_line

        try:
            return format_exact_line(self.read_tree(payload), self.convert_scalar)
        except PayloadRefused:
            return format_base64_line(payload)

    def convert_native(self, value: SlotValue) -> object:
        """Convert the first value for writing: numbers by their value, bytes as text if they are UTF-8."""
        # The formats have numbers of their own, so the text of a number is not needed.
        scalar = to_plain_scalar(choose_written_scalar(value))
        if isinstance(scalar, bytes):
            try:
                return scalar.decode()
            except UnicodeDecodeError:
                return scalar
        return scalar

    def _open_payload(self, payload: bytes, part: str | None = None) -> object:
        try:
            return self.read_tree(payload)
        except PayloadRefused as problem:
            raise build_input_error(problem, part) from None

    def _encode_or_raise(self, tree: Tree) -> bytes:
        try:
            return self.encode_tree(tree)
        except (ValueError, TypeError, OverflowError) as problem:
            raise InputError(UNWRITABLE_CODE, f"the new message cannot be written as {self.kind}: {problem}") from None


def build_depth_refusal() -> PayloadRefused:
    """The reason to refuse a message with too deeply nested containers."""
    return PayloadRefused(TOO_DEEP_CODE, f"more than {MAX_DEPTH} maps and arrays inside one another")
