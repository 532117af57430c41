"""Message type ``xml``: the door to the XML readers and writers of this room (``sowctl-messages(7)``, xml).

:mod:`~sowctl.messages.xmlparse` says what is accepted, :mod:`~sowctl.messages.xmlread` reads fields by path,
:mod:`~sowctl.messages.xmltree` takes a payload apart so that :mod:`~sowctl.messages.xmlwrite` can change parts of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from sowctl.messages.base import (
    MAX_MESSAGE,
    Extractor,
    KeyExtractor,
    Members,
    PayloadRefused,
    SelectList,
    input_error,
    too_large,
)
from sowctl.messages.definition import TypeDefinition
from sowctl.messages.xmlparse import check
from sowctl.messages.xmlread import key_reader, read_document, reader
from sowctl.messages.xmltree import Document, parse_document
from sowctl.values.fields import Refusal, Slot, Write
from sowctl.values.paths import Path

T = TypeVar("T")


class XmlType:
    """XML without document type and namespaces; the root element is the first step of every path."""

    kind = "xml"
    filterable = selectable = mergeable = constructible = True

    def __init__(self, max_message: int = MAX_MESSAGE, *, definition: TypeDefinition | None = None) -> None:
        self.name = "xml" if definition is None else definition.name
        self.max_message = max_message

    def extractor(self, slots: Sequence[Slot]) -> Extractor:
        """A reader of ``slots``: one parse per payload."""
        readers = [reader(slot) for slot in slots]

        def row(payload: bytes) -> tuple[object, ...]:
            root = read_document(payload)
            return tuple([one(root) for one in readers])

        return self._each(row, (None,) * len(readers))  # type: ignore[arg-type]

    def key_texts(self, paths: Sequence[Path]) -> KeyExtractor:
        """A reader of the texts of first values, as they stand in the payload."""
        readers = [key_reader(path) for path in paths]

        def texts(payload: bytes) -> tuple[bytes | None, ...]:
            root = read_document(payload)
            return tuple([one(root) for one in readers])

        return self._each(texts, (None,) * len(readers))

    def check(self, payloads: Sequence[bytes]) -> list[Refusal]:
        """The payloads that are not acceptable XML."""
        return self._each(check, None)(payloads)[1]

    def select(self, payload: bytes, select_list: SelectList) -> bytes:
        """``payload`` without what the select list leaves out; what stays keeps its bytes. Raises InputError."""
        from sowctl.messages.xmlwrite import select

        document = self._document(payload)
        if all(include for include, _ in select_list):
            return payload
        select(document.root, select_list)
        return document.text()

    def merge(self, base: bytes, delta: bytes, *, set_nulls: bool = False) -> bytes:
        """``base`` with the fields of ``delta``, merged by path. Raises InputError."""
        from sowctl.messages.xmlwrite import merge

        old, new = self._document(base, "base"), self._document(delta, "delta")
        if old.root.name != new.root.name:
            return delta
        return old.text() if merge(old.root, new.root, set_nulls) else base

    def assign(self, payload: bytes, writes: Sequence[Write]) -> bytes:
        """``payload`` with fields written and removed. Raises InputError, UsageError for what XML cannot name."""
        from sowctl.messages.xmlwrite import assign

        document = self._document(payload)
        assign(document.root, writes)
        return document.text()

    def build(self, fields: Members) -> bytes:
        """A document of these fields, which must share their first step. Raises as :meth:`assign`."""
        from sowctl.messages.xmlwrite import build

        return build(fields)

    def view(self, payload: bytes) -> bytes:
        """One line of JSON: attributes as ``@name``, text beside them as ``#text``, repeated elements as an array."""
        from sowctl.messages.treeview import base64_line
        from sowctl.messages.xmltree import json_line

        try:
            return json_line(self._parsed(payload).root)
        except PayloadRefused:
            return base64_line(payload)

    def _parsed(self, payload: bytes) -> Document:
        if problem := too_large(payload, self.max_message):
            raise problem
        return parse_document(payload)

    def _document(self, payload: bytes, part: str | None = None) -> Document:
        try:
            return self._parsed(payload)
        except PayloadRefused as problem:
            raise input_error(problem, part) from None

    def _each(
        self, read: Callable[[bytes], T], refused: T
    ) -> Callable[[Sequence[bytes]], tuple[list[T], list[Refusal]]]:
        """What reads every payload of a batch by itself."""

        def extract(payloads: Sequence[bytes]) -> tuple[list[T], list[Refusal]]:
            rows: list[T] = []
            refusals: list[Refusal] = []
            for index, payload in enumerate(payloads):
                try:
                    if problem := too_large(payload, self.max_message):
                        raise problem
                    rows.append(read(payload))
                except PayloadRefused as problem:
                    refusals.append(Refusal(index, problem.code, problem.message, problem.offset))
                    rows.append(refused)
            return rows, refusals

        return extract
