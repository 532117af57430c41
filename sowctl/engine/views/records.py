"""The records of a view's sources: those that its filter leaves, as far as the view reads them.

Called by :mod:`sowctl.engine.views.computing` and ``building``, and by the tasks of Spark's job ``view``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sowctl.engine.search.matcher import Matcher, headers_of
from sowctl.engine.views.definition import Program, ViewRecord
from sowctl.errors import InputError
from sowctl.store.codec import all_stamps, payloads

if TYPE_CHECKING:
    from sowctl.engine.sources.source import Pairs
    from sowctl.engine.views.joins import Texts
    from sowctl.values.fields import Refusal, Row


class SourceRecords(NamedTuple):
    """Records, in parallel: keys, stored values, the fields asked for, the texts of join keys."""

    keys: list[bytes]
    values: list[bytes]
    rows: Sequence[Row]
    texts: Sequence[Texts]


class RecordReader:
    """Reads records of the source ``number``. Keep it for all batches: what it compiles is compiled once."""

    def __init__(self, program: Program, number: int) -> None:
        message_type, self._topic = program.query.sources[number]
        kind = program.instance.type_of(message_type)
        self._matcher = matcher_of(program, number)
        self._extract = kind.extractor(program.slots[number])
        sides = program.sides[number]
        self._key_texts = kind.key_texts([side.path for side in sides]) if sides else None
        self._headers = number == 0 and program.projection.uses_header

    def fields(self, keys: list[bytes], values: list[bytes]) -> SourceRecords:
        """What the view reads of the records that the filter leaves. Raises InputError ``SOW-QRY-004``."""
        places = self._matcher.places(keys, values)
        if len(places) < len(keys):
            keys, values = [keys[place] for place in places], [values[place] for place in places]
        messages = payloads(values)
        rows, refused = self._extract(messages)
        # A record that cannot be read fails the view: without it the groups would be wrong in silence.
        if refused:
            raise unreadable(refused[0], keys[refused[0].index], self._topic)
        texts: Sequence[Texts] = self._key_texts(messages)[0] if self._key_texts is not None else [()] * len(keys)
        return SourceRecords(keys, values, rows, texts)

    def read(self, keys: list[bytes], values: list[bytes]) -> list[ViewRecord]:
        """:meth:`fields`, record by record."""
        keys, values, rows, texts = self.fields(keys, values)
        headers = headers_of(keys, values, self._topic) if self._headers else [None] * len(keys)
        return list(map(ViewRecord, keys, all_stamps(values), headers, rows, texts))


def filters_records(program: Program) -> bool:
    """Whether a view's filter is asked of records as they are read; of a join it is asked of whole rows."""
    return program.query.filter is not None and len(program.query.sources) == 1


def matcher_of(program: Program, number: int) -> Matcher:
    """What tells which records of the source ``number`` the view's filter leaves."""
    message_type, topic = program.query.sources[number]
    text = program.query.filter if filters_records(program) else None
    kind = program.instance.type_of(message_type)
    return Matcher(text, kind, topic, program.environment, functions=program.functions, view_of=program.query.sources)


def unreadable(refused: Refusal, key: bytes, topic: str) -> InputError:
    """The error for a record that is no message of its type."""
    number = str(int.from_bytes(key, "big"))
    return InputError(
        "SOW-QRY-004",
        f"record {number} has an invalid message: {refused.message}",
        place=topic,
        sow_key=number,
    )


def records_of(program: Program, number: int, found: Iterable[Pairs]) -> Iterator[list[ViewRecord]]:
    """The records of batches of the source ``number``, batch by batch."""
    reader = RecordReader(program, number)
    for keys, values in found:
        yield reader.read(keys, values)
