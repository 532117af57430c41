"""Message type ``protobuf``: messages of one type of a schema (``sowctl-messages(7)``, protobuf). Needs its extra.

The schema comes from the definition through :mod:`sowctl.messages.proto.files`; the library of protobuf decodes the
messages, see :mod:`sowctl.messages.proto.library`; this module can be imported without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sowctl.errors import ConfigError, UsageError
from sowctl.messages.base import (
    BAD_DEFINITION,
    MAX_MESSAGE_BYTES,
    NO_FIELDS,
    Extractor,
    KeyExtractor,
    KeyTexts,
    Members,
    PayloadRefused,
    SelectList,
    Tree,
    build_input_error,
    build_missing_extra_error,
    build_no_fields_error,
    find_size_problem,
    read_each,
    require_size,
)
from sowctl.messages.definition import TypeDefinition
from sowctl.values.fields import FieldWrite, Refusal, Row, Slot
from sowctl.values.paths import Path
from sowctl.values.scalars import to_text


class ProtobufType:
    """Messages of one protobuf type; deltas are merged if its file has the syntax ``proto2``.

    Raises ConfigError ``SOW-MSG-007`` for a definition that names no such type, ``SOW-MSG-011`` without the library.
    """

    kind = "protobuf"
    filterable = True
    selectable = constructible = False
    line_framed = json_text = rooted = False
    typed = True
    repeatable = False
    nested = True

    def __init__(self, max_message: int = MAX_MESSAGE_BYTES, *, definition: TypeDefinition | None = None) -> None:
        self.name = "protobuf" if definition is None else definition.name
        self.max_message = max_message
        if definition is None:
            raise ConfigError(BAD_DEFINITION, "message type protobuf needs a definition", hint="add a MessageType")
        try:
            # Imported here, so that a missing library is an error only of this type.
            from sowctl.messages.proto import files, library
        except ImportError:
            raise build_missing_extra_error(self.name, "protobuf", "protobuf") from None
        self._schema = library.Schema(files.build_message_class(definition))

    @property
    def mergeable(self) -> bool:
        """True if absent fields are distinguishable from default values."""
        return self._schema.mergeable

    def build_extractor(self, slots: Sequence[Slot]) -> Extractor:
        """A reader of ``slots``: one decoding per payload."""
        readers = [self._schema.build_reader(slot.path, slot.listed) for slot in slots]
        refused: Row = (None,) * len(readers)

        def row(payload: bytes) -> Row:
            message = self._parse_message(payload)
            return tuple([read(message) for read in readers])

        return lambda payloads: read_each(payloads, row, refused)

    def build_key_extractor(self, paths: Sequence[Path]) -> KeyExtractor:
        """A reader of the texts of first values; a number's is its canonical text."""
        readers = [self._schema.build_reader(path, False) for path in paths]
        refused: KeyTexts = (None,) * len(readers)

        def texts(payload: bytes) -> KeyTexts:
            message = self._parse_message(payload)
            return tuple([to_text(read(message)) for read in readers])

        return lambda payloads: read_each(payloads, texts, refused)

    def check_payloads(self, payloads: Sequence[bytes]) -> list[Refusal]:
        """The payloads that are no messages."""
        return read_each(payloads, self._parse_message, None)[1]

    def select_fields(self, payload: bytes, select_list: SelectList) -> bytes:
        """Raises UsageError ``SOW-MSG-005``: a message without a field has its default value."""
        words = f"select lists do not apply to messages of type {self.name}: what is left out reads as its default"
        raise UsageError(NO_FIELDS, words, hint="leave out the select list")

    def merge_delta(self, base: bytes, delta: bytes, *, set_nulls: bool = False) -> bytes:
        """``base`` with the fields that are set in ``delta``, or ``delta``, see ``mergeable``. Raises InputError."""
        for part, payload in (("base", base), ("delta", delta)):
            # Without merging the base is not read, so its size does not matter.
            problem = find_size_problem(payload, self.max_message)
            if problem and (part == "delta" or self.mergeable):
                raise build_input_error(problem, part)
        if not self.mergeable:
            return delta
        part = "base"
        try:
            old = self._schema.decode_message(base)
            part = "delta"
            new = self._schema.decode_message(delta)
        except PayloadRefused as problem:
            raise build_input_error(problem, part) from None
        return self._schema.merge_messages(base, old, new, set_nulls=set_nulls)

    def assign_fields(self, payload: bytes, writes: Sequence[FieldWrite]) -> bytes:
        """Raises UsageError ``SOW-MSG-005``: the schema determines the fields of a message."""
        raise build_no_fields_error(self.name, "to write")

    def build_message(self, fields: Members) -> bytes:
        """Raises UsageError ``SOW-MSG-005``."""
        raise build_no_fields_error(self.name, "to write")

    def build_from_tree(self, tree: Tree) -> bytes:
        """Raises UsageError ``SOW-MSG-005``."""
        raise build_no_fields_error(self.name, "to write")

    def view(self, payload: bytes) -> bytes:
        """One line of JSON with the fields that paths find, bytes as Base64; an unreadable message as a whole as
        Base64."""
        from sowctl.messages.nested.view import format_base64_line, format_json_line

        try:
            return format_json_line(self._schema.build_tree(self._parse_message(payload)), lambda item: item)
        except PayloadRefused:
            return format_base64_line(payload)

    members_view = view

    def exact_view(self, payload: bytes) -> bytes:
        """As :meth:`members_view`, with the words NaN, Infinity and -Infinity for these numbers."""
        from sowctl.messages.nested.view import format_base64_line, format_exact_line

        try:
            return format_exact_line(self._schema.build_tree(self._parse_message(payload)), lambda item: item)
        except PayloadRefused:
            return format_base64_line(payload)

    def _parse_message(self, payload: bytes) -> Any:
        """The message of the library. Raises PayloadRefused."""
        return self._schema.decode_message(require_size(payload, self.max_message))
