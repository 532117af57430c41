"""Rows of a view: each record of the first source, with every combination of records that its joins attach.

Joins are left outer joins, and compare values as texts (``behaviour`` 5.2, 11.33, 11.47). The caller passes a lookup
function for records of attached sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from xxhash import xxh3_128_digest

from sowctl.engine.search.matcher import evaluate_records
from sowctl.engine.views.definition import Program, ViewRecord
from sowctl.expressions.environment import NO_HEADER, Header
from sowctl.store.codec import KEY_SIZE
from sowctl.values.fields import Row

Texts: TypeAlias = tuple[bytes | None, ...]
Lookup: TypeAlias = Callable[[int, Texts], Sequence[ViewRecord]]
"""Returns the records that match the texts of a step (by its number), in key order."""
NO_PARTNER = bytes(9)
"""Represents a missing record in the order of a row; it sorts before any record."""
_PARTNER = b"\x01"
MAX_ORDER_BYTES = 400
"""Maximum size of the keys of attached records in an order."""


class JoinedRow(NamedTuple):
    """A row to be grouped. ``order``: the key of its first record, then 9 bytes for each attached source; rows of a
    group are processed in this order. ``stamp``: txid and time of its latest record."""

    order: bytes
    stamp: tuple[int, ...]
    header: Header | None
    values: Row

    @property
    def key(self) -> bytes:
        """The key of its first record."""
        return self.order[:KEY_SIZE]


def build_rows(program: Program, records: Iterable[ViewRecord], lookup: Lookup) -> list[JoinedRow]:
    """Return the rows of some records of the first source that match the view's filter, in their order."""
    if program.direct:
        return [JoinedRow(one.key, one.stamp, one.header, one.values) for one in records]
    return finish_rows(program, [row for record in records for row in join_record(program, record, lookup)])


def finish_rows(program: Program, rows: list[tuple[ViewRecord | None, ...]]) -> list[JoinedRow]:
    """Convert rows of records that match the view's filter to rows for grouping. Raises LimitError ``SOW-EXP-030``."""
    if program.filter is not None:
        tested = [program.read_values(row, program.tested) for row in rows]
        test, keys = program.filter, [row[0].key for row in rows if row[0] is not None]
        places = evaluate_records(
            lambda part: test.find_matches(tested[part], program.environment), keys, program.query.sources[0].name
        )
        rows = [rows[place] for place in places]
    return [
        JoinedRow(
            encode_order(row),
            # The stamp of a row is that of its newest record (behaviour 11.50).
            max(one.stamp for one in row if one is not None),
            row[0].header if row[0] is not None else NO_HEADER,
            program.read_values(row, program.places),
        )
        for row in rows
    ]


def join_record(program: Program, record: ViewRecord, lookup: Lookup) -> list[tuple[ViewRecord | None, ...]]:
    """Return the rows that begin with a record; each row has one record or None per source, by source number."""
    count = len(program.query.sources)
    rows: list[tuple[ViewRecord | None, ...]] = [(record, *(None,) * (count - 1))]
    for number, (place, _, _) in enumerate(program.step_places):
        wider = []
        for row in rows:
            texts = read_left_texts(program, number, row)
            found = lookup(number, texts) if texts is not None else ()
            # An outer join: a row without a partner is kept, with NULL in the fields of this source.
            wider += [(*row[:place], other, *row[place + 1 :]) for other in found] or [row]
        rows = wider
    return rows


def read_left_texts(program: Program, number: int, row: Sequence[ViewRecord | None]) -> Texts | None:
    """Return the texts by which a row finds partners in a step; None if a NULL prevents any match."""
    found = [(row[source], place) for source, place in program.step_places[number].left]
    texts = tuple([None if one is None else one.texts[place] for one, place in found])
    return None if None in texts and not program.query.nulls_match else texts


def read_right_texts(program: Program, number: int, record: ViewRecord) -> Texts | None:
    """Return the texts by which a record is found in a step; None if a NULL prevents any match."""
    texts = tuple([record.texts[place] for place in program.step_places[number].right])
    return None if None in texts and not program.query.nulls_match else texts


def encode_order(row: Sequence[ViewRecord | None]) -> bytes:
    """Encode the order of a row within its group: the keys of its records, source by source."""
    first, *others = row
    assert first is not None
    rest = b"".join(NO_PARTNER if one is None else _PARTNER + one.key for one in others)
    # LMDB keys have at most 511 bytes. With this many sources, the order of rows is arbitrary but deterministic.
    return first.key + (rest if len(rest) <= MAX_ORDER_BYTES else xxh3_128_digest(rest))


def find_no_partners(_: int, __: Texts) -> Sequence[ViewRecord]:
    """Return no records: the lookup of a view without joins."""
    return ()


class JoinIndex:
    """The records of all attached sources in memory, indexed by the texts of their step."""

    def __init__(self, program: Program, sources: Callable[[int], Iterable[list[ViewRecord]]]) -> None:
        """Read all attached sources; ``sources`` returns the records of a source by its number."""
        self._tables: list[dict[Texts, list[ViewRecord]]] = []
        for number, step in enumerate(program.steps):
            table: dict[Texts, list[ViewRecord]] = {}
            for batch in sources(program.find_source(step.source)):
                for record in batch:
                    texts = read_right_texts(program, number, record)
                    if texts is not None:
                        table.setdefault(texts, []).append(record)
            self._tables.append(table)

    def __call__(self, number: int, texts: Texts) -> Sequence[ViewRecord]:
        return self._tables[number].get(texts, ())
