"""Message type ``struct``: values at fixed offsets, given by a definition (``sowctl-messages(7)``, struct).

Only the wanted fields are read. Bytes after the last field are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sowctl.errors import UsageError
from sowctl.messages.base import (
    MALFORMED_CODE,
    MAX_MESSAGE_BYTES,
    NO_FIELDS,
    Extractor,
    KeyExtractor,
    KeyTexts,
    Members,
    PayloadRefused,
    SelectList,
    build_input_error,
    build_no_fields_error,
    find_size_problem,
    read_each,
)
from sowctl.messages.definition import TypeDefinition
from sowctl.messages.fixed.layout import parse_layout
from sowctl.messages.nested.write import Tree, put_member
from sowctl.values.display import format_count
from sowctl.values.fields import FieldWrite, Refusal, Row, Scalar, Slot, SlotValue, ValueList
from sowctl.values.paths import Path
from sowctl.values.scalars import to_text


class StructType:
    """Fixed layouts. Requires a definition with fields; raises ConfigError ``SOW-MSG-007`` for invalid ones."""

    kind = "struct"
    filterable = True
    selectable = mergeable = constructible = False
    line_framed = json_text = rooted = False
    typed = repeatable = True
    nested = False

    def __init__(self, max_message: int = MAX_MESSAGE_BYTES, *, definition: TypeDefinition | None = None) -> None:
        self.name = "struct" if definition is None else definition.name
        self.max_message = max_message
        given, place = ((), "") if definition is None else (definition.fields, definition.place)
        self._fields, self._size = parse_layout(given, place)

    def build_extractor(self, slots: Sequence[Slot]) -> Extractor:
        """A reader of ``slots``."""
        readers = [self._make_field_reader(slot.path, slot.listed) for slot in slots]
        refused: Row = (None,) * len(readers)

        def row(payload: bytes) -> Row:
            self._check_size(payload)
            return tuple([read(payload) for read in readers])

        return lambda payloads: read_each(payloads, row, refused)

    def build_key_extractor(self, paths: Sequence[Path]) -> KeyExtractor:
        """A reader of the texts of first values; a number's is its canonical text."""
        readers = [self._make_field_reader(path, False) for path in paths]
        refused: KeyTexts = (None,) * len(readers)

        def texts(payload: bytes) -> KeyTexts:
            self._check_size(payload)
            return tuple([to_text(read(payload)) for read in readers])

        return lambda payloads: read_each(payloads, texts, refused)

    def check_payloads(self, payloads: Sequence[bytes]) -> list[Refusal]:
        """The payloads that are too short."""
        return read_each(payloads, self._check_size, b"")[1]

    def select_fields(self, payload: bytes, select_list: SelectList) -> bytes:
        """Raises UsageError ``SOW-MSG-005``: fields have fixed offsets."""
        words = f"the fields of a message of type {self.name} have fixed places, so that none can be left out"
        raise UsageError(NO_FIELDS, words, hint="leave out the select list")

    def merge_delta(self, base: bytes, delta: bytes, *, set_nulls: bool = False) -> bytes:
        """The new message: a struct has all its fields. Raises InputError."""
        if problem := self._find_size_problem(delta):
            raise build_input_error(problem, "delta")
        return delta

    def assign_fields(self, payload: bytes, writes: Sequence[FieldWrite]) -> bytes:
        """Raises UsageError ``SOW-MSG-005``."""
        raise build_no_fields_error(self.name, "to write")

    def build_message(self, fields: Members) -> bytes:
        """Raises UsageError ``SOW-MSG-005``."""
        raise build_no_fields_error(self.name, "to write")

    def build_from_tree(self, tree: Tree) -> bytes:
        """Raises UsageError ``SOW-MSG-005``."""
        raise build_no_fields_error(self.name, "to write")

    def view(self, payload: bytes) -> bytes:
        """One line of JSON; the Base64 form of a message that is too short."""
        from sowctl.messages.nested.view import format_base64_line, format_json_line

        if self._find_size_problem(payload):
            return format_base64_line(payload)
        return format_json_line(self._build_tree(payload), lambda item: item)

    members_view = view

    def exact_view(self, payload: bytes) -> bytes:
        """As :meth:`members_view`, with the words NaN, Infinity and -Infinity for these numbers."""
        from sowctl.messages.nested.view import format_base64_line, format_exact_line

        return (
            format_base64_line(payload)
            if self._find_size_problem(payload)
            else format_exact_line(self._build_tree(payload), lambda item: item)
        )

    def _find_size_problem(self, payload: bytes) -> PayloadRefused | None:
        if len(payload) < self._size:
            words = f"the message has {format_count(len(payload), 'byte')}, its fields take {self._size:,}"
            return PayloadRefused(MALFORMED_CODE, words, len(payload))
        return find_size_problem(payload, self.max_message)

    def _check_size(self, payload: bytes) -> bytes:
        """Return ``payload``. Raises PayloadRefused."""
        if problem := self._find_size_problem(payload):
            raise problem
        return payload

    def _make_field_reader(self, path: Path, listed: bool) -> Callable[[bytes], SlotValue]:
        """Build the reader of the value list at ``path``: the values of all fields of that name, in order."""
        names, index = path.names, path.steps[-1].index
        # Objects are never in arrays here: any subscript but 0 on the path finds nothing.
        if any(step.index for step in path.steps[:-1]):
            return lambda payload: _wrap_listed([], listed)
        fields = [field for field in self._fields if field.path.names == names]
        # A name that only has fields below it is an object: it has no value and is not NULL.
        inner = any(field.path.names[: len(names)] == names for field in self._fields) and not fields
        if inner and not index:
            return lambda payload: ValueList((), True)
        # The common case: one field, read by one call of unpack_from() without an intermediate list.
        if len(fields) == 1 and not listed and index is None:
            read = fields[0].read

            def single(payload: bytes) -> SlotValue:
                values = read(payload)
                return values[0] if len(values) == 1 else ValueList(tuple(values))

            return single
        # All fields of one name are one value list, and the subscript counts through it.
        part = slice(None) if index is None else slice(index, index + 1)
        return lambda payload: _wrap_listed([value for field in fields for value in field.read(payload)][part], listed)

    def _build_tree(self, payload: bytes) -> Tree:
        """The message as nested objects."""
        found: dict[tuple[str, ...], list[Scalar]] = {}
        for field in self._fields:
            found.setdefault(field.path.names, []).extend(field.read(payload))
        tree: Tree = {}
        for names, values in found.items():
            put_member(tree, names, values[0] if len(values) == 1 else values)
        return tree


def _wrap_listed(values: list[Scalar], listed: bool) -> SlotValue:
    if listed or len(values) > 1:
        return ValueList(tuple(values))
    return values[0] if values else None
