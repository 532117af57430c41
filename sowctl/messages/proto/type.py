"""Message type ``protobuf``: messages of one type of a schema (``sowctl-messages(7)``, protobuf). Needs its extra.

The schema comes from the definition by way of :mod:`sowctl.messages.proto.files`, the reading is that of the library of
protobuf, see :mod:`sowctl.messages.proto.library`; here stands what is needed to ask for the type.
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
    input_error,
    missing_extra,
    read_each,
    sized,
    too_large,
    without_fields,
)
from sowctl.messages.definition import TypeDefinition
from sowctl.values.compare import text_of
from sowctl.values.fields import Refusal, Row, Slot, Write
from sowctl.values.paths import Path


class ProtobufType:
    """Messages of one protobuf type; deltas are merged if its file has the syntax ``proto2``.

    Raises ConfigError ``SOW-MSG-007`` for a definition that names no such type, ``SOW-MSG-011`` without the library.
    """

    kind = "protobuf"
    filterable = True
    selectable = constructible = False
    line_framed = json_text = rooted = False
    typed = True

    def __init__(self, max_message: int = MAX_MESSAGE_BYTES, *, definition: TypeDefinition | None = None) -> None:
        self.name = "protobuf" if definition is None else definition.name
        self.max_message = max_message
        if definition is None:
            raise ConfigError(BAD_DEFINITION, "message type protobuf needs a definition", hint="add a MessageType")
        try:
            # Imported here, so that the absence of the library is an error of this type and of no other.
            from sowctl.messages.proto import files, library
        except ImportError:
            raise missing_extra(self.name, "protobuf", "protobuf") from None
        self._schema = library.Schema(files.message_class(definition))

    @property
    def mergeable(self) -> bool:
        """Whether absent fields can be told from default values."""
        return self._schema.mergeable

    def extractor(self, slots: Sequence[Slot]) -> Extractor:
        """A reader of ``slots``: one decoding per payload."""
        readers = [self._schema.reader(slot.path, slot.listed) for slot in slots]
        refused: Row = (None,) * len(readers)

        def row(payload: bytes) -> Row:
            message = self._parse_message(payload)
            return tuple([read(message) for read in readers])

        return lambda payloads: read_each(payloads, row, refused)

    def key_texts(self, paths: Sequence[Path]) -> KeyExtractor:
        """A reader of the texts of first values; a number's is its canonical text."""
        readers = [self._schema.reader(path, False) for path in paths]
        refused: KeyTexts = (None,) * len(readers)

        def texts(payload: bytes) -> KeyTexts:
            message = self._parse_message(payload)
            return tuple([text_of(read(message)) for read in readers])

        return lambda payloads: read_each(payloads, texts, refused)

    def check(self, payloads: Sequence[bytes]) -> list[Refusal]:
        """The payloads that are no messages."""
        return read_each(payloads, self._parse_message, None)[1]

    def select(self, payload: bytes, select_list: SelectList) -> bytes:
        """Raises UsageError ``SOW-MSG-005``: a message without a field has its default value."""
        words = f"select lists do not apply to messages of type {self.name}: what is left out reads as its default"
        raise UsageError(NO_FIELDS, words, hint="leave out the select list")

    def merge(self, base: bytes, delta: bytes, *, set_nulls: bool = False) -> bytes:
        """``base`` with the fields that are set in ``delta``, or ``delta``, see ``mergeable``. Raises InputError."""
        for part, payload in (("base", base), ("delta", delta)):
            # Without merging the base is not read, so its size does not matter.
            problem = too_large(payload, self.max_message)
            if problem and (part == "delta" or self.mergeable):
                raise input_error(problem, part)
        if not self.mergeable:
            return delta
        part = "base"
        try:
            old = self._schema.decode(base)
            part = "delta"
            new = self._schema.decode(delta)
        except PayloadRefused as problem:
            raise input_error(problem, part) from None
        return self._schema.merged(base, old, new, set_nulls=set_nulls)

    def assign(self, payload: bytes, writes: Sequence[Write]) -> bytes:
        """Raises UsageError ``SOW-MSG-005``: the schema says what a message has."""
        raise without_fields(self.name, "to write")

    def build(self, fields: Members) -> bytes:
        """Raises UsageError ``SOW-MSG-005``."""
        raise without_fields(self.name, "to write")

    def view(self, payload: bytes) -> bytes:
        """One line of JSON with the fields that paths find; what cannot be read as the Base64 form of its bytes."""
        from sowctl.messages.nested.view import base64_line, json_line

        try:
            return json_line(self._schema.tree(self._parse_message(payload)), lambda item: item)
        except PayloadRefused:
            return base64_line(payload)

    members_view = view

    def exact_view(self, payload: bytes) -> bytes:
        """As :meth:`members_view`, with the words NaN, Infinity and -Infinity for what these are."""
        from sowctl.messages.nested.view import base64_line, exact_line

        try:
            return exact_line(self._schema.tree(self._parse_message(payload)), lambda item: item)
        except PayloadRefused:
            return base64_line(payload)

    def _parse_message(self, payload: bytes) -> Any:
        """The message of the library. Raises PayloadRefused."""
        return self._schema.decode(sized(payload, self.max_message))
