"""Message type ``bflat``: typed fields without nesting (``sowctl-messages(7)``, bflat).

Arrays, and several fields of one tag, are value lists. Integers of any width and doubles are numbers without an
original text; a datetime is its text in UTC; there are no Booleans, which are written as 1 and 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sowctl.messages.base import (
    MAX_MESSAGE_BYTES,
    Extractor,
    KeyExtractor,
    KeyTexts,
    Members,
    PayloadRefused,
    SelectList,
    Tree,
    build_input_error,
    read_each,
    require_size,
)
from sowctl.messages.tagged.bflatcodec import ScannedField, encode_field, scan_fields
from sowctl.messages.tagged.fields import (
    TaggedField,
    assign_fields,
    collect_repeated,
    merge_fields,
    require_tag,
    select_fields,
)
from sowctl.values.fields import FieldWrite, Refusal, Row, Scalar, Slot, SlotValue, ValueList
from sowctl.values.paths import Path
from sowctl.values.scalars import choose_written_scalar, to_plain_scalar, to_text

if TYPE_CHECKING:
    from sowctl.messages.definition import TypeDefinition


class BflatType:
    """BFlat messages, format version 1.02."""

    kind = "bflat"
    filterable = selectable = mergeable = constructible = True
    line_framed = json_text = rooted = nested = False
    typed = repeatable = replaces_bytes = True

    def __init__(self, max_message: int = MAX_MESSAGE_BYTES, *, definition: TypeDefinition | None = None) -> None:
        self.name = "bflat" if definition is None else definition.name
        self.max_message = max_message

    def build_extractor(self, slots: Sequence[Slot]) -> Extractor:
        """A reader of ``slots``."""
        asked = [(_flat_tag(slot.path), slot.path.steps[0].index, slot.listed) for slot in slots]
        wanted = frozenset(tag for tag, _, _ in asked if tag is not None)
        refused: Row = (None,) * len(asked)

        def row(payload: bytes) -> Row:
            found = self._find_tags(payload, wanted)
            return tuple([_slot_value(found.get(tag, []), index, listed) for tag, index, listed in asked])

        return lambda payloads: read_each(payloads, row, refused)

    def build_key_extractor(self, paths: Sequence[Path]) -> KeyExtractor:
        """A reader of the texts of first values."""
        asked = [(_flat_tag(path), path.steps[0].index or 0) for path in paths]
        wanted = frozenset(tag for tag, _ in asked if tag is not None)
        refused: KeyTexts = (None,) * len(asked)

        def texts(payload: bytes) -> KeyTexts:
            found = self._find_tags(payload, wanted)
            return tuple([to_text(ValueList(tuple(found.get(tag, [])[at : at + 1]))) for tag, at in asked])

        return lambda payloads: read_each(payloads, texts, refused)

    def check_payloads(self, payloads: Sequence[bytes]) -> list[Refusal]:
        """The payloads that are no sequence of fields."""
        return read_each(payloads, lambda payload: len(self._find_tags(payload, frozenset())), 0)[1]

    def select_fields(self, payload: bytes, select_list: SelectList) -> bytes:
        """``payload`` without the excluded fields. Raises InputError."""
        kept = select_fields(
            self._read_fields(payload), select_list, lambda tag: tag.decode("utf-8", "surrogateescape")
        )
        return _join_fields(kept)

    def merge_delta(self, base: bytes, delta: bytes, *, set_nulls: bool = False) -> bytes:
        """``base`` with the fields of ``delta``, merged by tag. Raises InputError."""
        result = merge_fields(self._read_fields(base, "base"), self._read_fields(delta, "delta"), set_nulls=set_nulls)
        return base if result is None else _join_fields(result)

    def assign_fields(self, payload: bytes, writes: Sequence[FieldWrite]) -> bytes:
        """``payload`` with fields written and removed. Raises InputError; UsageError for paths of several steps."""
        changes = []
        for write in writes:
            tag = require_tag(write.destination.names, self.name)
            changes.append((tag, None if write.remove else _make_field(tag, write.value)))
        return _join_fields(assign_fields(self._read_fields(payload), changes))

    def build_message(self, fields: Members) -> bytes:
        """A message of these fields. Raises UsageError for paths of several steps."""
        made = [(require_tag(names, self.name), value) for names, value in fields]
        return _join_fields(assign_fields([], [(tag, _make_field(tag, value)) for tag, value in made]))

    def build_from_tree(self, tree: Tree) -> bytes:
        """A message of these fields; a list becomes several fields of its tag. Raises as :meth:`build_message`, and
        ListRefused."""
        made = []
        for names, values in collect_repeated(tree):
            tag = require_tag(names, self.name)
            made += [_make_field(tag, value) for value in values]
        return _join_fields(made)

    def view(self, payload: bytes) -> bytes:
        """One JSON object, arrays for several values; Base64 for bytes that are no text, and for a whole unreadable
        message."""
        from sowctl.messages.json.text import format_json, quote_string
        from sowctl.messages.nested.view import format_bytes

        try:
            fields = scan_fields(payload)
        except PayloadRefused:
            from sowctl.messages.nested.view import format_base64_line

            return format_base64_line(payload)
        # An array of one value is shown as an array: its flag counts, not the number of values.
        listed = {field.tag for field in fields if payload[field.start] & 0x80}
        values: dict[bytes, list[Scalar]] = {}
        for field in fields:
            # Fields of one tag are one value list, whether an array, several fields, or both.
            values.setdefault(field.tag, []).extend(field.values)
        members = []
        for tag, items in values.items():
            texts = [format_json(format_bytes(item) if isinstance(item, bytes) else item) for item in items]
            single = len(texts) == 1 and tag not in listed
            text = texts[0] if single else b"[" + b",".join(texts) + b"]"
            members.append(quote_string(tag.decode("utf-8", "replace")) + b":" + text)
        return b"{" + b",".join(members) + b"}"

    members_view = view

    def _find_tags(self, payload: bytes, wanted: frozenset[bytes]) -> dict[bytes | None, list[Scalar]]:
        """The values of the wanted tags. Raises PayloadRefused."""
        found: dict[bytes | None, list[Scalar]] = {}
        for field in scan_fields(require_size(payload, self.max_message), wanted):
            found.setdefault(field.tag, []).extend(field.values)
        return found

    def _read_fields(self, payload: bytes, part: str | None = None) -> list[TaggedField]:
        """The fields. Raises InputError."""
        try:
            fields = scan_fields(require_size(payload, self.max_message))
            return [TaggedField(one.tag, payload[one.start : one.end], _is_null(one)) for one in fields]
        except PayloadRefused as problem:
            raise build_input_error(problem, part) from None


def _flat_tag(path: Path) -> bytes | None:
    """The tag that a path names; None if no field can be there."""
    return path.steps[0].name.encode("utf-8", "surrogateescape") if len(path.steps) == 1 else None


def _slot_value(items: list[Scalar], index: int | None, listed: bool) -> SlotValue:
    if index is not None:
        items = items[index : index + 1]
    if listed or len(items) > 1:
        return ValueList(tuple(items))
    return items[0] if items else None


def _is_null(field: ScannedField) -> bool:
    # An array of only NULLs counts as NULL, and so does an empty one.
    return all(value is None or value == "" or value == b"" for value in field.values)


def _make_field(tag: bytes, value: SlotValue) -> TaggedField:
    scalar = to_plain_scalar(choose_written_scalar(value))
    return TaggedField(tag, encode_field(tag, scalar), scalar is None)


def _join_fields(fields: Sequence[TaggedField]) -> bytes:
    return b"".join([field.raw for field in fields])
