"""Tables of a temporary store while the history of a view is replayed: rows, groups, and for joins the records.

The tables are those of :mod:`sowctl.store.tables`; keys and values are made here alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from struct import Struct as Layout
from typing import TYPE_CHECKING

from msgspec.structs import astuple
from xxhash import xxh3_128_digest

from sowctl.engine.views.definition import Program, ViewRecord
from sowctl.engine.views.joins import Lookup, Texts, read_right_texts
from sowctl.expressions.environment import Header
from sowctl.expressions.rows.slotcodec import decode_slots, encode_slots
from sowctl.store.codec import TIME_OFFSET

if TYPE_CHECKING:
    from sowctl.store.tables import Table

PLACES_TABLE, ROWS_TABLE, GROUPS_TABLE = "view:places", "view:rows", "view:groups"
RECORDS_TABLE, PARTNERS_TABLE, SEEKERS_TABLE, ROOTS_TABLE = (
    "view:records",
    "view:partners",
    "view:seekers",
    "view:roots",
)
ROW_TABLES = (PLACES_TABLE, ROWS_TABLE, GROUPS_TABLE)
JOIN_TABLES = (RECORDS_TABLE, PARTNERS_TABLE, SEEKERS_TABLE, ROOTS_TABLE)

DIGEST_BYTES = 16
_STAMP_LAYOUT = Layout(">QQ")
STAMP_BYTES = _STAMP_LAYOUT.size
SEEK_BYTES = 1 + DIGEST_BYTES
"""Bytes of a step and the digest of the texts that are looked for there."""
MAX_REMEMBERED_SEEKS = 10_000
"""Seeks that are remembered: many records look for the same few."""


def encode_stamp(stamp: Sequence[int]) -> bytes:
    """Return txid and time as bytes that sort in the same order."""
    return _STAMP_LAYOUT.pack(stamp[0], stamp[1] + TIME_OFFSET)


@lru_cache(maxsize=MAX_REMEMBERED_SEEKS)
def encode_seek(step: int, texts: Texts) -> bytes:
    """A step of the join and the digest of texts there; ``None`` is a text of its own."""
    return bytes((step,)) + xxh3_128_digest(encode_slots([text if text is None else bytes(text) for text in texts]))


def record_seeks(lookup: Lookup, sought: set[bytes]) -> Lookup:
    """A lookup that adds what is looked for to ``sought``."""

    def found(number: int, texts: Texts) -> Sequence[ViewRecord]:
        sought.add(encode_seek(number, texts))
        return lookup(number, texts)

    return found


def encode_record(record: ViewRecord) -> bytes:
    """A record as the table of records has it: ``[stamp, header or nil, values, texts]``."""
    header = None if record.header is None else list(astuple(record.header))
    return encode_slots([list(record.stamp), header, list(record.values), list(record.texts)])


def decode_record(key: bytes, data: bytes) -> ViewRecord:
    """The record of :func:`encode_record`."""
    stamp, header, values, texts = decode_slots(data)
    return ViewRecord(key, tuple(stamp), None if header is None else Header(*header), tuple(values), tuple(texts))


class JoinTables:
    """The tables of joins in a transaction: the records of all sources, and who looks for whom."""

    def __init__(self, program: Program, table: Callable[[str], Table]) -> None:
        self._program = program
        self._records, self._partners = table(RECORDS_TABLE), table(PARTNERS_TABLE)
        self._seekers, self._roots = table(SEEKERS_TABLE), table(ROOTS_TABLE)
        self._steps: dict[int, list[int]] = {}
        for number, (place, _, _) in enumerate(program.step_places):
            self._steps.setdefault(place, []).append(number)

    def read_record(self, source: int, key: bytes) -> ViewRecord | None:
        """A record of a source as it is kept."""
        found = self._records.get(bytes((source,)) + key)
        return None if found is None else decode_record(key, found)

    def find_records(self, number: int, texts: Texts) -> list[ViewRecord]:
        """The records that meet the texts of a step, in key order."""
        source = self._program.step_places[number].source
        keys = [key[SEEK_BYTES:] for key, _ in self._partners.walk(encode_seek(number, texts))]
        found = [self.read_record(source, key) for key in keys]
        return [one for one in found if one is not None and read_right_texts(self._program, number, one) == texts]

    def replace_record(self, source: int, key: bytes, old: ViewRecord | None, new: ViewRecord | None) -> set[bytes]:
        """Put a record in the place of another one, or of none; the keys of the first records that it may concern."""
        if new is None:
            self._records.delete((bytes((source,)) + key,))
        else:
            self._records.put(((bytes((source,)) + key, encode_record(new)),))
        concerned = {key} if source == 0 else set()
        for number in self._steps.get(source, ()):
            for record, comes in ((old, False), (new, True)):
                texts = None if record is None else read_right_texts(self._program, number, record)
                if texts is None:
                    continue
                seek = encode_seek(number, texts)
                if comes:
                    self._partners.put(((seek + key, b""),))
                else:
                    self._partners.delete((seek + key,))
                # Whoever looks for these texts finds one record more, or less, or another one.
                concerned |= {found[SEEK_BYTES:] for found, _ in self._seekers.walk(seek)}
        return concerned

    def replace_seeks(self, root: bytes, sought: set[bytes]) -> None:
        """Say what a first record's rows look for, in the place of what was said before."""
        known = self._roots.get(root) or b""
        before = {known[at : at + SEEK_BYTES] for at in range(0, len(known), SEEK_BYTES)}
        if before == sought:
            return
        self._seekers.delete(seek + root for seek in before - sought)
        self._seekers.put(sorted((seek + root, b"") for seek in sought - before))
        if sought:
            self._roots.put(((root, b"".join(sorted(sought))),))
        elif before:
            self._roots.delete((root,))


class RowTables:
    """The tables of rows and groups in a transaction."""

    def __init__(self, table: Callable[[str], Table]) -> None:
        self.places, self.rows, self.groups = table(PLACES_TABLE), table(ROWS_TABLE), table(GROUPS_TABLE)

    def find_root_rows(self, root: bytes, *, joined: bool) -> list[tuple[bytes, bytes]]:
        """The order of each row of a first record, and where it stands in the table of rows."""
        if not joined:
            found = self.places.get(root)
            return [] if found is None else [(root, found + root)]
        return [(order, place + order) for order, place in self.places.walk(root)]

    def iterate_group(self, digest: bytes, descending: bool) -> Iterator[bytes]:
        """The packed contributions of a group by stamp."""
        return (value for _, value in self.rows.walk(digest, descending=descending))
