"""Message type ``binary``: opaque bytes without fields, so publishers choose the keys of topics of this type."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sowctl.errors import UsageError
from sowctl.messages.base import (
    MAX_MESSAGE_BYTES,
    NO_FIELDS,
    Extractor,
    KeyExtractor,
    KeyTexts,
    Members,
    SelectList,
    Tree,
    build_input_error,
    build_no_fields_error,
    find_size_problem,
    refuse_large,
)
from sowctl.values.fields import FieldWrite, Refusal, Row, Slot, SlotValue, ValueList
from sowctl.values.paths import Path

if TYPE_CHECKING:
    from sowctl.messages.definition import TypeDefinition


class BinaryType:
    """Any bytes are a message; it has no fields."""

    kind = "binary"
    filterable = selectable = mergeable = constructible = False
    line_framed = True
    json_text = rooted = False
    typed = True
    repeatable = nested = False

    def __init__(self, max_message: int = MAX_MESSAGE_BYTES, *, definition: TypeDefinition | None = None) -> None:
        self.name = "binary" if definition is None else definition.name
        self.max_message = max_message

    def build_extractor(self, slots: Sequence[Slot]) -> Extractor:
        """Rows without values, so that filters with only message functions work."""
        empty: tuple[SlotValue, ...] = tuple(ValueList(()) if slot.listed else None for slot in slots)
        refused: Row = (None,) * len(slots)

        def extract(payloads: Sequence[bytes]) -> tuple[list[Row], list[Refusal]]:
            refusals = self.check_payloads(payloads)
            rows = [empty] * len(payloads)
            for refusal in refusals:
                rows[refusal.index] = refused
            return rows, refusals

        return extract

    def build_key_extractor(self, paths: Sequence[Path]) -> KeyExtractor:
        """Every key field is NULL."""
        nothing: KeyTexts = (None,) * len(paths)
        return lambda payloads: ([nothing] * len(payloads), self.check_payloads(payloads))

    def check_payloads(self, payloads: Sequence[bytes]) -> list[Refusal]:
        """Only the size can be invalid."""
        return refuse_large(payloads, self.max_message)

    def select_fields(self, payload: bytes, select_list: SelectList) -> bytes:
        """Raises UsageError ``SOW-MSG-005``: there are no fields to select."""
        words = f"messages of type {self.name} have no fields to select"
        raise UsageError(NO_FIELDS, words, hint="leave out the select list")

    def merge_delta(self, base: bytes, delta: bytes, *, set_nulls: bool = False) -> bytes:
        """The new message: there is nothing to merge. Raises InputError for one that is too large."""
        if problem := find_size_problem(delta, self.max_message):
            raise build_input_error(problem, "delta")
        return delta

    def assign_fields(self, payload: bytes, writes: Sequence[FieldWrite]) -> bytes:
        """Raises UsageError ``SOW-MSG-005``: there are no fields to write."""
        raise build_no_fields_error(self.name, "to write")

    def build_message(self, fields: Members) -> bytes:
        """Raises UsageError ``SOW-MSG-005``: there are no fields to write."""
        raise build_no_fields_error(self.name, "to write")

    def build_from_tree(self, tree: Tree) -> bytes:
        """Raises UsageError ``SOW-MSG-005``."""
        raise build_no_fields_error(self.name, "to write")

    def view(self, payload: bytes) -> bytes:
        """A JSON string with the Base64 form of ``payload``."""
        return b'"%b"' % b64encode(payload)

    members_view = view
