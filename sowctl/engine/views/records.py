"""Reading the records of a view's sources: those that match its filter, with the fields that the view reads.

Called by :mod:`sowctl.engine.views.computation`, and by the tasks of Spark's job ``view``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sowctl.engine.search.matcher import Matcher, build_headers
from sowctl.engine.views.definition import Program, ViewRecord
from sowctl.errors import InputError
from sowctl.store.codec import extract_payloads, read_all_stamps

if TYPE_CHECKING:
    from sowctl.engine.sources.source import Pairs
    from sowctl.engine.views.joins import Texts
    from sowctl.values.fields import Refusal, Row


class SourceRecords(NamedTuple):
    """Records as parallel sequences: keys, stored values, fields read, texts of join keys."""

    keys: list[bytes]
    values: list[bytes]
    rows: Sequence[Row]
    texts: Sequence[Texts]


class RecordReader:
    """Reads records of source ``number``. Reuse it for all batches, because creating it compiles the filter."""

    def __init__(self, program: Program, number: int) -> None:
        source = program.query.sources[number]
        self._topic = source.name
        kind = program.instance.find_message_type(source.message_type)
        self._matcher = build_matcher(program, number)
        self._extract = kind.build_extractor(program.slots[number])
        sides = program.sides[number]
        self._key_texts = kind.build_key_extractor([side.path for side in sides]) if sides else None
        self._headers = number == 0 and program.projection.uses_header

    def read_fields(self, keys: list[bytes], values: list[bytes]) -> SourceRecords:
        """Read the view's fields of the records that match the filter. Raises InputError ``SOW-QRY-004``."""
        places = self._matcher.find_matches(keys, values)
        if len(places) < len(keys):
            keys, values = [keys[place] for place in places], [values[place] for place in places]
        messages = extract_payloads(values)
        rows, refused = self._extract(messages)
        # An unreadable record fails the view: without the record, groups would be wrong silently.
        if refused:
            raise build_unreadable_error(refused[0], keys[refused[0].index], self._topic)
        texts: Sequence[Texts] = self._key_texts(messages)[0] if self._key_texts is not None else [()] * len(keys)
        return SourceRecords(keys, values, rows, texts)

    def read(self, keys: list[bytes], values: list[bytes]) -> list[ViewRecord]:
        """Like :meth:`read_fields`, but return one :class:`ViewRecord` per record."""
        keys, values, rows, texts = self.read_fields(keys, values)
        headers = build_headers(keys, values, self._topic) if self._headers else [None] * len(keys)
        return list(map(ViewRecord, keys, read_all_stamps(values), headers, rows, texts))


def filters_records(program: Program) -> bool:
    """Return whether a view's filter applies to records as they are read; in a join it applies to joined rows."""
    return program.query.filter is not None and len(program.query.sources) == 1


def build_matcher(program: Program, number: int) -> Matcher:
    """Build the matcher that applies the view's filter to records of source ``number``."""
    source, query = program.query.sources[number], program.query
    text = query.filter if filters_records(program) else None
    kind = program.instance.find_message_type(source.message_type)
    return Matcher(text, kind, source.name, program.environment, functions=program.functions, view_of=query.qualifiers)


def build_unreadable_error(refused: Refusal, key: bytes, topic: str) -> InputError:
    """Return the error for a record whose message is invalid for its type."""
    number = str(int.from_bytes(key, "big"))
    return InputError(
        "SOW-QRY-004",
        f"record {number} has an invalid message: {refused.message}",
        place=topic,
        sow_key=number,
    )


def read_records(program: Program, number: int, found: Iterable[Pairs]) -> Iterator[list[ViewRecord]]:
    """Yield the records of source ``number`` in ``found``, batch by batch."""
    reader = RecordReader(program, number)
    for keys, values in found:
        yield reader.read(keys, values)
