"""Tables of a temporary store for replaying the history of a view: rows, groups, and for joins the records.

The tables are those of :mod:`sowctl.store.tables`; only this module defines their keys and values.
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
"""Size of a seek: a join step and the digest of the texts sought in it."""
MAX_REMEMBERED_SEEKS = 10_000
"""Size of the cache of encoded seeks: many records have the same few."""


def encode_stamp(stamp: Sequence[int]) -> bytes:
    """Return txid and time as bytes that sort in the same order."""
    return _STAMP_LAYOUT.pack(stamp[0], stamp[1] + TIME_OFFSET)


@lru_cache(maxsize=MAX_REMEMBERED_SEEKS)
def encode_seek(step: int, texts: Texts) -> bytes:
    """Encode a join step and the digest of the sought texts; ``None`` differs from every text."""
    return bytes((step,)) + xxh3_128_digest(encode_slots([text if text is None else bytes(text) for text in texts]))


def record_seeks(lookup: Lookup, sought: set[bytes]) -> Lookup:
    """Return a lookup that adds every seek to ``sought``."""

    def found(number: int, texts: Texts) -> Sequence[ViewRecord]:
        sought.add(encode_seek(number, texts))
        return lookup(number, texts)

    return found


def encode_record(record: ViewRecord) -> bytes:
    """Encode a record for the table of records: ``[stamp, header or nil, values, texts]``."""
    header = None if record.header is None else list(astuple(record.header))
    return encode_slots([list(record.stamp), header, list(record.values), list(record.texts)])


def decode_record(key: bytes, data: bytes) -> ViewRecord:
    """Decode the bytes of :func:`encode_record`."""
    stamp, header, values, texts = decode_slots(data)
    return ViewRecord(key, tuple(stamp), None if header is None else Header(*header), tuple(values), tuple(texts))


class JoinTables:
    """The tables of joins in a transaction: the records of all sources, and which first records seek which texts."""

    def __init__(self, program: Program, table: Callable[[str], Table]) -> None:
        self._program = program
        self._records, self._partners = table(RECORDS_TABLE), table(PARTNERS_TABLE)
        self._seekers, self._roots = table(SEEKERS_TABLE), table(ROOTS_TABLE)
        self._steps: dict[int, list[int]] = {}
        for number, (place, _, _) in enumerate(program.step_places):
            self._steps.setdefault(place, []).append(number)

    def read_record(self, source: int, key: bytes) -> ViewRecord | None:
        """Return the stored record of a source."""
        found = self._records.get(bytes((source,)) + key)
        return None if found is None else decode_record(key, found)

    def find_records(self, number: int, texts: Texts) -> list[ViewRecord]:
        """Return the records that match the texts of a step, in key order."""
        source = self._program.step_places[number].source
        keys = [key[SEEK_BYTES:] for key, _ in self._partners.walk(encode_seek(number, texts))]
        found = [self.read_record(source, key) for key in keys]
        return [one for one in found if one is not None and read_right_texts(self._program, number, one) == texts]

    def replace_record(self, source: int, key: bytes, old: ViewRecord | None, new: ViewRecord | None) -> set[bytes]:
        """Replace, add or remove a record. Return the keys of the first records whose rows may change."""
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
                # First records that seek these texts gain, lose or change a partner.
                concerned |= {found[SEEK_BYTES:] for found, _ in self._seekers.walk(seek)}
        return concerned

    def replace_seeks(self, root: bytes, sought: set[bytes]) -> None:
        """Replace the stored seeks of a first record's rows."""
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
        """Return the order of each row of a first record, and its key in the table of rows."""
        if not joined:
            found = self.places.get(root)
            return [] if found is None else [(root, found + root)]
        return [(order, place + order) for order, place in self.places.walk(root)]

    def iterate_group(self, digest: bytes, descending: bool) -> Iterator[bytes]:
        """Yield the encoded contributions of a group, ordered by stamp."""
        return (value for _, value in self.rows.walk(digest, descending=descending))
