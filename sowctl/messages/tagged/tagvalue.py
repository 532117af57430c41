"""The base of fix and nvfix: ``tag=value`` fields between separators (``sowctl-messages(7)``, fix, nvfix).

The first ``=`` of a field ends its tag; a piece without one is no field and is preserved; a repeated tag is an array;
an empty value is NULL. So every sequence of bytes is a message, unless it is too large.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sowctl.errors import ConfigError, InputError, UsageError
from sowctl.messages.base import (
    BAD_DEFINITION,
    MAX_FIELDS,
    MAX_MESSAGE_BYTES,
    NO_SUCH_FIELD,
    UNWRITABLE_CODE,
    Extractor,
    KeyExtractor,
    KeyTexts,
    Members,
    PayloadRefused,
    SelectList,
    Tree,
    build_field_count_refusal,
    build_input_error,
    find_size_problem,
)
from sowctl.messages.tagged.columns import JoinedPayloads, build_slot_column, build_text_column
from sowctl.messages.tagged.fields import (
    TaggedField,
    assign_fields,
    collect_repeated,
    merge_fields,
    require_tag,
    select_fields,
)
from sowctl.values.fields import FieldWrite, Refusal, Row, Slot, SlotValue
from sowctl.values.paths import Path
from sowctl.values.scalars import to_scalar, to_text, to_untyped_scalar

if TYPE_CHECKING:
    from sowctl.messages.definition import TypeDefinition


class TagValueType:
    """A message type of tag=value fields; subclasses define its kind and the tags that can be written."""

    kind = ""
    filterable = selectable = mergeable = constructible = True
    line_framed = True
    json_text = rooted = typed = nested = False
    repeatable = replaces_bytes = True

    def __init__(self, max_message: int = MAX_MESSAGE_BYTES, *, definition: TypeDefinition | None = None) -> None:
        self.name = self.kind if definition is None else definition.name
        self.max_message = max_message
        self.separator = b"\x01" if definition is None else definition.field_separator
        # Fields would end at the sign that ends their tags, and no message would be readable.
        if self.separator == b"=":
            assert definition is not None
            words = f"the field separator of message type {self.name!r} is the equals sign, which ends the tags"
            raise ConfigError(BAD_DEFINITION, words, place=definition.place, hint="choose another FieldSeparator")

    def build_extractor(self, slots: Sequence[Slot]) -> Extractor:
        """A reader of ``slots``."""
        wanted = tuple(slots)
        refused: Row = (None,) * len(wanted)

        def extract(payloads: Sequence[bytes]) -> tuple[list[Row], list[Refusal]]:
            readable, refusals = self._blank_large_payloads(payloads)
            # Without slots there are no columns from which to build rows, but each payload still has a row.
            if not wanted:
                return [()] * len(payloads), refusals
            # Joined once: every slot is searched for in the same bytes.
            joined = JoinedPayloads(readable, self.separator)
            rows: list[Row] = list(zip(*[build_slot_column(joined, slot) for slot in wanted], strict=True))
            for refusal in refusals:
                rows[refusal.index] = refused
            return rows, refusals

        return extract

    def build_key_extractor(self, paths: Sequence[Path]) -> KeyExtractor:
        """A reader of the texts of first values."""
        wanted = tuple(paths)

        def extract(payloads: Sequence[bytes]) -> tuple[list[KeyTexts], list[Refusal]]:
            readable, refusals = self._blank_large_payloads(payloads)
            if not wanted:
                return [()] * len(payloads), refusals
            joined = JoinedPayloads(readable, self.separator)
            return list(zip(*[build_text_column(joined, path) for path in wanted], strict=True)), refusals

        return extract

    def check_payloads(self, payloads: Sequence[bytes]) -> list[Refusal]:
        """Return refusals: only the size and the number of fields can be invalid."""
        return self._blank_large_payloads(payloads)[1]

    def select_fields(self, payload: bytes, select_list: SelectList) -> bytes:
        """``payload`` without the excluded fields; all others are unchanged."""
        fields, end = self._split_fields(payload)
        # A tag that is not UTF-8 must survive the comparison with names, which are texts.
        kept = select_fields(fields, select_list, lambda tag: tag.decode("utf-8", "surrogateescape"))
        return payload if len(kept) == len(fields) else self._join_fields(kept, end)

    def merge_delta(self, base: bytes, delta: bytes, *, set_nulls: bool = False) -> bytes:
        """``base`` with the fields of ``delta``, merged by tag. Raises InputError for a message that is too large."""
        fields, end = self._split_fields(base, "base")
        result = merge_fields(fields, self._split_fields(delta, "delta")[0], set_nulls=set_nulls)
        return base if result is None else self._join_fields(result, end)

    def assign_fields(self, payload: bytes, writes: Sequence[FieldWrite]) -> bytes:
        """``payload`` with fields written and removed. Raises InputError and, for an invalid tag, UsageError."""
        fields, end = self._split_fields(payload)
        changes = []
        for write in writes:
            tag = self._tag_of_path(write.destination.names)
            changes.append((tag, None if write.remove else self._make_tag_field(tag, write.value)))
        return self._join_fields(assign_fields(fields, changes), end) if changes else payload

    def build_message(self, fields: Members) -> bytes:
        """A message of these fields, each followed by the separator. Raises as :meth:`assign_fields`."""
        tags = [self._tag_of_path(names) for names, _ in fields]
        made = [(tag, self._make_tag_field(tag, value)) for tag, (_, value) in zip(tags, fields, strict=True)]
        return self._join_fields(assign_fields([], made), self.separator)

    def build_from_tree(self, tree: Tree) -> bytes:
        """A message of these fields; a list becomes several fields of its tag. Tags may be given by their names in
        views.

        Raises as :meth:`assign_fields`, and ListRefused.
        """
        made = []
        for names, values in collect_repeated(tree):
            if (
                values == (None,)
                and self.find_named_tag(names[0]) is None
                and not self.can_write_tag(names[0].encode())
            ):
                # A member without a value, such as one of many in another program's JSON, is no field.
                continue
            tag = (self.find_named_tag(names[0]) if len(names) == 1 else None) or self._tag_of_path(names)
            made += [self._make_tag_field(tag, to_untyped_scalar(value)) for value in values]
        return self._join_fields(made, self.separator)

    def view(self, payload: bytes) -> bytes:
        """One JSON object: arrays for repeated tags, numbers as written if they are valid JSON, null for no value."""
        from sowctl.messages.json.text import format_member_start, format_untyped

        names = self.find_tag_names()
        found: dict[str, list[bytes]] = {}
        for piece in payload.split(self.separator):
            tag, equals, value = piece.partition(b"=")
            if equals:
                # A repeated tag becomes an array, in the order of the message.
                found.setdefault(names.get(tag) or tag.decode("utf-8", "replace"), []).append(value)
        members = []
        for name, values in found.items():
            if len(values) == 1:
                text = format_untyped(values[0])
            else:
                text = b"[" + b",".join(map(format_untyped, values)) + b"]"
            members.append(format_member_start(name) + text)
        return b"{" + b",".join(members) + b"}"

    members_view = view

    def find_tag_names(self) -> Mapping[bytes, str]:
        """Return the names that a view shows instead of some tags."""
        return {}

    def find_named_tag(self, name: str) -> bytes | None:
        """Return the tag that views may show by this name; None if there is none."""
        return None

    def can_write_tag(self, tag: bytes) -> bool:
        """Return True if a field of this tag can be written."""
        return b"=" not in tag and self.separator not in tag

    def _blank_large_payloads(self, payloads: Sequence[bytes]) -> tuple[Sequence[bytes], list[Refusal]]:
        """The payloads, with too large ones replaced by empty ones, and their refusals."""
        # A field has at least its separator: a payload with fewer bytes than the limit cannot have too many fields.
        if max(map(len, payloads), default=0) <= min(self.max_message, MAX_FIELDS):
            return payloads, []
        # Refused payloads are emptied, not removed, so that rows correspond to the payloads.
        readable, refusals = list(payloads), []
        for index, payload in enumerate(payloads):
            if problem := self._find_payload_problem(payload):
                readable[index] = b""
                refusals.append(Refusal(index, problem.code, problem.message, problem.offset))
        return readable, refusals

    def _find_payload_problem(self, payload: bytes) -> PayloadRefused | None:
        if problem := find_size_problem(payload, self.max_message):
            return problem
        # Counting separators limits the fields before any are created.
        many = len(payload) > MAX_FIELDS and payload.count(self.separator) > MAX_FIELDS
        return build_field_count_refusal() if many else None

    def _split_fields(self, payload: bytes, part: str | None = None) -> tuple[list[TaggedField], bytes]:
        """The fields, and the text after the last one: the separator (also without fields) or nothing."""
        if problem := self._find_payload_problem(payload):
            raise build_input_error(problem, part)
        pieces = payload.split(self.separator)
        # Recorded, so that a message without a trailing separator is written back without one.
        ended = not pieces[-1]
        if ended:
            pieces.pop()
        fields = []
        for piece in pieces:
            tag, equals, value = piece.partition(b"=")
            # Without an equals sign the piece is no field: it has no tag by which it could be replaced or selected.
            fields.append(TaggedField(tag if equals else None, piece, not value))
        return fields, self.separator if ended else b""

    def _join_fields(self, fields: Sequence[TaggedField], end: bytes) -> bytes:
        return self.separator.join([field.raw for field in fields]) + end if fields else b""

    def _tag_of_path(self, names: Sequence[str]) -> bytes:
        tag = require_tag(names, self.name)
        if self.can_write_tag(tag):
            return tag
        raise UsageError(NO_SUCH_FIELD, f"a message of type {self.name} can have no field /{names[0]}")

    def _make_tag_field(self, tag: bytes, value: SlotValue) -> TaggedField:
        text = _field_bytes(value)
        # There is no escape: written unchanged, the value would end early and its rest would be another field.
        if self.separator in text:
            words = f"the value for /{tag.decode()} holds the byte 0x{self.separator.hex()} that ends a field"
            raise InputError(UNWRITABLE_CODE, words, hint="replace it in the expression")
        return TaggedField(tag, tag + b"=" + text, not text)


def _field_bytes(value: SlotValue) -> bytes:
    """A value as in a field: NULL is empty, Booleans are 1 and 0, computed NaN and infinities 0."""
    scalar = to_scalar(value)
    # NaN and the infinities are the numbers whose difference from themselves is not 0. Numbers from a message keep
    # their text: 1E400 may be an identifier.
    if isinstance(scalar, float) and scalar - scalar != 0:
        return b"0"
    return to_text(scalar) or b""
