"""Message type ``xml``: the door to the XML readers and writers of this room (``sowctl-messages(7)``, xml).

:mod:`~sowctl.messages.xml.parse` says what is accepted, :mod:`~sowctl.messages.xml.read` reads fields by path,
:mod:`~sowctl.messages.xml.tree` takes a payload apart so that :mod:`~sowctl.messages.xml.write` can change parts of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sowctl.messages.base import (
    MAX_MESSAGE_BYTES,
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
from sowctl.messages.xml.parse import check
from sowctl.messages.xml.read import key_reader, read_document, reader
from sowctl.messages.xml.tree import XmlDocument, parse_document
from sowctl.values.fields import Refusal, Row, Slot, Write
from sowctl.values.paths import Path


class XmlType:
    """XML without document type and namespaces; the root element is the first step of every path."""

    kind = "xml"
    filterable = selectable = mergeable = constructible = True
    line_framed = rooted = True
    json_text = typed = False

    def __init__(self, max_message: int = MAX_MESSAGE_BYTES, *, definition: TypeDefinition | None = None) -> None:
        self.name = "xml" if definition is None else definition.name
        self.max_message = max_message

    def extractor(self, slots: Sequence[Slot]) -> Extractor:
        """A reader of ``slots``: one parse per payload."""
        readers = [reader(slot) for slot in slots]
        refused: Row = (None,) * len(readers)

        def row(payload: bytes) -> Row:
            root = read_document(sized(payload, self.max_message))
            return tuple([one(root) for one in readers])

        return lambda payloads: read_each(payloads, row, refused)

    def key_texts(self, paths: Sequence[Path]) -> KeyExtractor:
        """A reader of the texts of first values, as they stand in the payload."""
        readers = [key_reader(path) for path in paths]
        refused: KeyTexts = (None,) * len(readers)

        def texts(payload: bytes) -> KeyTexts:
            root = read_document(sized(payload, self.max_message))
            return tuple([one(root) for one in readers])

        return lambda payloads: read_each(payloads, texts, refused)

    def check(self, payloads: Sequence[bytes]) -> list[Refusal]:
        """The payloads that are not acceptable XML."""
        return read_each(payloads, lambda payload: check(sized(payload, self.max_message)), None)[1]

    def select(self, payload: bytes, select_list: SelectList) -> bytes:
        """``payload`` without what the select list leaves out; what stays keeps its bytes. Raises InputError."""
        from sowctl.messages.xml.write import select

        document = self._parse_or_raise(payload)
        if all(include for include, _ in select_list):
            return payload
        select(document.root, select_list)
        return document.text()

    def merge(self, base: bytes, delta: bytes, *, set_nulls: bool = False) -> bytes:
        """``base`` with the fields of ``delta``, merged by path. Raises InputError."""
        from sowctl.messages.xml.write import merge

        old, new = self._parse_or_raise(base, "base"), self._parse_or_raise(delta, "delta")
        # Another root element is another kind of document, with no field in common: it replaces.
        if old.root.name != new.root.name:
            return delta
        return old.text() if merge(old.root, new.root, set_nulls) else base

    def assign(self, payload: bytes, writes: Sequence[Write]) -> bytes:
        """``payload`` with fields written and removed. Raises InputError, UsageError for what XML cannot name."""
        from sowctl.messages.xml.write import assign

        document = self._parse_or_raise(payload)
        assign(document.root, writes)
        return document.text()

    def build(self, fields: Members) -> bytes:
        """A document of these fields, which must share their first step. Raises as :meth:`assign`."""
        from sowctl.messages.xml.write import build

        return build(fields)

    def view(self, payload: bytes) -> bytes:
        """One line of JSON: attributes as ``@name``, text beside them as ``#text``, repeated elements as an array."""
        from sowctl.messages.nested.view import base64_line
        from sowctl.messages.xml.tree import json_line

        try:
            return json_line(self._parse_payload(payload).root)
        except PayloadRefused:
            return base64_line(payload)

    members_view = view

    def _parse_payload(self, payload: bytes) -> XmlDocument:
        return parse_document(sized(payload, self.max_message))

    def _parse_or_raise(self, payload: bytes, part: str | None = None) -> XmlDocument:
        try:
            return self._parse_payload(payload)
        except PayloadRefused as problem:
            raise input_error(problem, part) from None
