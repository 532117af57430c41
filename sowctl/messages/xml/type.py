"""Message type ``xml``, with the XML readers and writers of this package (``sowctl-messages(7)``, xml).

:mod:`~sowctl.messages.xml.parse` defines the accepted texts, :mod:`~sowctl.messages.xml.read` reads fields by path,
:mod:`~sowctl.messages.xml.tree` splits a payload so that :mod:`~sowctl.messages.xml.write` can change parts of it.
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
    Tree,
    build_input_error,
    read_each,
    require_size,
)
from sowctl.messages.definition import TypeDefinition
from sowctl.messages.xml.parse import check_payload
from sowctl.messages.xml.read import build_key_reader, build_reader, read_document
from sowctl.messages.xml.tree import XmlDocument, parse_document
from sowctl.values.fields import FieldWrite, Refusal, Row, Slot
from sowctl.values.paths import Path


class XmlType:
    """XML without document type and namespaces; the root element is the first step of every path."""

    kind = "xml"
    filterable = selectable = mergeable = constructible = True
    line_framed = rooted = True
    json_text = typed = False
    repeatable = nested = True

    def __init__(self, max_message: int = MAX_MESSAGE_BYTES, *, definition: TypeDefinition | None = None) -> None:
        self.name = "xml" if definition is None else definition.name
        self.max_message = max_message

    def build_extractor(self, slots: Sequence[Slot]) -> Extractor:
        """A reader of ``slots``: one parse per payload."""
        readers = [build_reader(slot) for slot in slots]
        refused: Row = (None,) * len(readers)

        def row(payload: bytes) -> Row:
            root = read_document(require_size(payload, self.max_message))
            return tuple([one(root) for one in readers])

        return lambda payloads: read_each(payloads, row, refused)

    def build_key_extractor(self, paths: Sequence[Path]) -> KeyExtractor:
        """A reader of the texts of first values, unchanged from the payload."""
        readers = [build_key_reader(path) for path in paths]
        refused: KeyTexts = (None,) * len(readers)

        def texts(payload: bytes) -> KeyTexts:
            root = read_document(require_size(payload, self.max_message))
            return tuple([one(root) for one in readers])

        return lambda payloads: read_each(payloads, texts, refused)

    def check_payloads(self, payloads: Sequence[bytes]) -> list[Refusal]:
        """The payloads that are not acceptable XML."""
        return read_each(payloads, lambda payload: check_payload(require_size(payload, self.max_message)), None)[1]

    def select_fields(self, payload: bytes, select_list: SelectList) -> bytes:
        """``payload`` without the excluded fields; all others keep their bytes. Raises InputError."""
        from sowctl.messages.xml.write import select_fields

        document = self._parse_or_raise(payload)
        if all(include for include, _ in select_list):
            return payload
        select_fields(document.root, select_list)
        return document.build_payload()

    def merge_delta(self, base: bytes, delta: bytes, *, set_nulls: bool = False) -> bytes:
        """``base`` with the fields of ``delta``, merged by path. Raises InputError."""
        from sowctl.messages.xml.write import merge_part

        old, new = self._parse_or_raise(base, "base"), self._parse_or_raise(delta, "delta")
        # Another root element is another kind of document, without common fields: it replaces.
        if old.root.name != new.root.name:
            return delta
        return old.build_payload() if merge_part(old.root, new.root, set_nulls) else base

    def assign_fields(self, payload: bytes, writes: Sequence[FieldWrite]) -> bytes:
        """``payload`` with fields written and removed. Raises InputError, UsageError for invalid XML names."""
        from sowctl.messages.xml.write import assign_fields

        document = self._parse_or_raise(payload)
        assign_fields(document.root, writes)
        return document.build_payload()

    def build_message(self, fields: Members) -> bytes:
        """A document of these fields, which must share their first step. Raises as :meth:`assign_fields`."""
        from sowctl.messages.xml.write import build_document

        return build_document(fields)

    def build_from_tree(self, tree: Tree) -> bytes:
        """A document of a tree with one member, the root element; the inverse of :meth:`view`. Raises as
        :meth:`build_message`, and ListRefused."""
        from sowctl.messages.xml.write import build_tree_document

        return build_tree_document(tree)

    def view(self, payload: bytes) -> bytes:
        """One line of JSON: attributes as ``@name``, text beside them as ``#text``, repeated elements as an array."""
        from sowctl.messages.nested.view import format_base64_line
        from sowctl.messages.xml.tree import format_json_line

        try:
            return format_json_line(self._parse_payload(payload).root)
        except PayloadRefused:
            return format_base64_line(payload)

    members_view = view

    def _parse_payload(self, payload: bytes) -> XmlDocument:
        return parse_document(require_size(payload, self.max_message))

    def _parse_or_raise(self, payload: bytes, part: str | None = None) -> XmlDocument:
        try:
            return self._parse_payload(payload)
        except PayloadRefused as problem:
            raise build_input_error(problem, part) from None
