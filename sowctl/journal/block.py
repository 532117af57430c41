"""The values that a reader returns: blocks, entries, positions, and reports of damage and tails.

Values without access to files; made by :mod:`sowctl.journal.files`, ``walk`` and ``scan``, used by everything that
reads a journal. Ruled by ``sow-journal(5)``, "Blocks" and "Reading".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.errors import DamageError
from sowctl.journal.blockcodec import BlockHeader, BlockMap
from sowctl.journal.format import COMPRESSED_SUFFIXES, NO_PUBLISHER, format_block_place
from sowctl.remote.place import Place
from sowctl.values.topicref import TopicRef

if TYPE_CHECKING:
    from sowctl.journal.columns import Columns, NumpyColumns
    from sowctl.journal.entries import EntryBatch


class Position(Struct, frozen=True):
    """A place between two groups: byte ``offset`` in file ``number``; ``txid`` is the last one before it."""

    number: int
    offset: int
    txid: int


class EndedHistory(Struct, frozen=True):
    """A history of an instance that a restore ended: that of ``lineage`` (16 bytes), which goes on in the next one.

    Entries up to ``last_txid`` belong to both. Those behind it were undone; ``above`` is the highest txid that they may
    have, and the next history begins behind it. ``time`` is that of the restore, microseconds UTC.
    """

    lineage: bytes
    last_txid: int
    above: int
    time: int


class TopicState(Struct, frozen=True):
    """The last entry of a topic: its txid, its time (microseconds UTC), and the position before the group it is in.

    A topic without entries has txid 0, time 0 and position None.
    """

    last_txid: int
    last_time: int
    position: Position | None


class FileInfo(Struct, frozen=True):
    """One journal file. ``last_txid`` is None for the file that still grows, ``size`` in bytes, as stored."""

    path: Place
    number: int
    size: int
    first_txid: int
    last_txid: int | None
    created: int

    @property
    def is_compressed(self) -> bool:
        """True if it is compressed: then it is read from its beginning, wherever one begins."""
        return self.path.suffix in COMPRESSED_SUFFIXES


class TailReport(Struct, frozen=True):
    """The part at the end of the last file that a reader skipped.

    ``size`` bytes from ``offset`` on belong to no block (0: nothing torn); ``open_group`` is the first txid of a group
    without its last block (0: none), ``last_txid`` the last one that is used up, those of the open group included.
    ``begun``: the bytes may be what an interrupted append leaves, the beginning of a block or space that was not
    written; else something other than an append put them there. ``copy``: where a writer put them before it cut them
    off. ``chain``: the header CRC of the last sound block before it.
    """

    path: Place
    offset: int
    size: int
    open_group: int
    last_txid: int
    begun: bool = True
    copy: Path | None = None
    chain: int = 0

    @property
    def text(self) -> str:
        """The torn or unfinished part in one clause; used by findings and notes."""
        # Nothing torn, but the last group has no end.
        if not self.size:
            return f"the group that starts at txid {self.open_group} was not finished; readers skip it"
        what = (
            "are an incomplete block: a write was interrupted"
            if self.begun
            else "are neither a block nor an interrupted write; no store and no topics file has entries in them"
        )
        return f"{self.size:,} bytes at the end {what}"

    @property
    def note(self) -> str:
        """The torn part, its place, and what a writer did about it, as one line for people."""
        if self.copy is not None:
            done = f"; they were copied to {self.copy} and cut off"
        elif self.size:
            done = "; they are skipped, and the next command that writes saves and cuts them off"
        else:
            done = ""
        return f"{format_block_place(self.path, self.offset)}: {self.text}{done}"


class Damage(Struct, frozen=True):
    """A damaged stretch that a resyncing reader passed over; txids are those that are missing (last None: unknown)."""

    path: Place
    offset: int
    size: int
    first_txid: int
    last_txid: int | None
    error: DamageError


class Gap(Struct, frozen=True):
    """A part that a repair cut out of a file: so many bytes at ``offset``, and ``first_txid`` to ``last_txid``.

    ``receipt`` is the name of the file that has the bytes. ``topic_refs`` had entries there; None where that is not
    known.
    """

    path: Place
    offset: int
    size: int
    first_txid: int
    last_txid: int
    receipt: str
    topic_refs: tuple[TopicRef, ...] | None

    def concerns_topic(self, topic: TopicRef) -> bool:
        """Return whether entries of a topic are missing, or may be."""
        # Unknown counts as all topics: a reader must not skip a loss silently.
        return self.topic_refs is None or topic in self.topic_refs

    @property
    def text(self) -> str:
        """The missing part in one clause; used by findings and notes."""
        if self.last_txid < self.first_txid:
            what = "a marker without entries was"
        elif self.last_txid == self.first_txid:
            what = f"txid {self.first_txid} was"
        else:
            what = f"txids {self.first_txid} to {self.last_txid} were"
        kept = f"; {self.receipt} has the bytes" if self.receipt else ""
        names = "" if self.topic_refs is None else f" (of {', '.join(name for name, _ in self.topic_refs)})"
        return f"{what} damaged and cut out of the journal{names}{kept}"

    @property
    def note(self) -> str:
        """The missing part and its place, as one line for people."""
        return f"{format_block_place(self.path, self.offset)}: {self.text}"


class Entry(Struct, frozen=True):
    """One entry.

    ``key`` and ``check`` 8 bytes; times in microseconds UTC; ``publisher`` the hash of the client name, or None.
    """

    txid: int
    operation: int
    topic: TopicRef
    key: bytes
    check: bytes
    time: int
    expiration: int
    publisher: int | None
    client: str | None
    sequence: int
    flags: int
    user_key: bytes | None
    correlation_id: bytes | None
    logical_topic: bytes | None
    payload: bytes


class Block:
    """One verified block of a complete group; columns and payloads are decompressed when first asked for.

    ``header`` has the facts (group, first and last txid, count, times); ``start`` is the position before the block and
    ``end`` the one behind it. The bytes are held, so a block outlives its file.
    """

    __slots__ = (
        "_arrays",
        "_columns",
        "_payloads",
        "_stored_columns",
        "_stored_payloads",
        "end",
        "header",
        "map",
        "path",
        "start",
    )

    def __init__(
        self,
        path: Place,
        number: int,
        offset: int,
        header: BlockHeader,
        map: BlockMap,
        columns: memoryview,
        payloads: memoryview,
    ) -> None:
        self.path = path
        self.header = header
        self.map = map
        self.start = Position(number, offset, header.first_txid - 1)
        # Both positions follow from header and place: no caller adds offsets by hand.
        self.end = Position(number, offset + header.size, header.last_txid)
        # Held as stored: a block that is kept in memory takes its compressed size until it is used.
        self._stored_columns = columns
        self._stored_payloads = payloads
        self._columns: Columns | None = None
        self._arrays: NumpyColumns | None = None
        self._payloads: memoryview | None = None

    def __len__(self) -> int:
        return self.header.count

    @property
    def first_txid(self) -> int:
        """Txid of entry 0; entry i has ``first_txid + i``."""
        return self.header.first_txid

    @property
    def last_txid(self) -> int:
        """Txid of the last entry."""
        return self.header.last_txid

    @property
    def identity(self) -> tuple[int, int, int]:
        """Number of its file, its offset there, its header CRC; see ``Journal.has_block``."""
        return self.start.number, self.start.offset, self.header.crc

    @property
    def topic_refs(self) -> list[TopicRef]:
        """Topics by the index that the topic column uses."""
        return [row.topic for row in self.map.topic_rows]

    @property
    def publishers(self) -> list[tuple[int, str]]:
        """(hash, client name) by the index that the publisher column uses."""
        return [(row.hash, row.client) for row in self.map.publishers]

    def decode_columns(self) -> Columns:
        """The columns in plain Python. Raises DamageError ``SOW-JRN-014`` where they contradict header or map."""
        if self._columns is None:
            from sowctl.journal.columns import decompress_part, unpack_columns

            header = self.header
            try:
                # Decompressed when first asked for: a reader that needs only txids, or only counts, pays for neither
                # part.
                raw = decompress_part(header.codec, self._stored_columns, header.columns_raw)
                self._columns = unpack_columns(
                    raw,
                    header.count,
                    header.flags,
                    header.payloads_raw,
                    len(self.map.topic_rows),
                    len(self.map.publishers),
                )
            except ValueError as error:
                raise self._contradiction_error(error) from error
        return self._columns

    def decode_numpy_columns(self) -> NumpyColumns:
        """The columns as numpy arrays on the same memory. Raises as :meth:`decode_columns`."""
        if self._arrays is None:
            from sowctl.journal.columns import NumpyColumns

            self._arrays = NumpyColumns(self.decode_columns())
        return self._arrays

    def decompress_payloads(self) -> memoryview:
        """All payloads back to back, decompressed once. Raises DamageError ``SOW-JRN-014``."""
        if self._payloads is None:
            from sowctl.journal.columns import decompress_part

            try:
                self._payloads = decompress_part(self.header.codec, self._stored_payloads, self.header.payloads_raw)
            except ValueError as error:
                raise self._contradiction_error(error) from error
        return self._payloads

    def list_payloads(self) -> list[bytes]:
        """One payload per entry."""
        # One copy of all, then slices: slices of bytes are bytes, which callers hash and compare; slices of a
        # memoryview are not.
        raw = bytes(self.decompress_payloads())
        return [raw[start:end] for start, end in pairwise(accumulate(self.decode_columns().lengths, initial=0))]

    def read_entries(self) -> EntryBatch:
        """All entries as a batch on the memory of the block; the payloads are cut out."""
        from sowctl.journal.entries import COLUMN_NAMES, EntryBatch

        columns = self.decode_columns()
        found = {name: getattr(columns, name) for name in COLUMN_NAMES}
        return EntryBatch(
            topic_refs=self.topic_refs, publishers=self.publishers, payloads=self.list_payloads(), **found
        )

    def iter_entries(self) -> Iterator[Entry]:
        """The entries in order."""
        columns = self.decode_columns()
        count = self.header.count
        topic_refs = self.topic_refs
        # The index 65535 stands for no publisher; it is an entry of the same table, so that the loop has no branch.
        whom: dict[int, tuple[int | None, str | None]] = {NO_PUBLISHER: (None, None)}
        whom.update(enumerate(self.publishers))
        nothing: list[bytes | None] = [None] * count
        keys, checks = bytes(columns.keys), bytes(columns.checks)
        rows = zip(
            range(self.header.first_txid, self.header.last_txid + 1),
            columns.operations,
            columns.topic_indexes,
            range(0, 8 * count, 8),
            columns.times,
            columns.expirations,
            columns.publisher_indexes,
            columns.sequences,
            columns.flags,
            columns.user_keys or nothing,
            columns.correlation_ids or nothing,
            columns.logical_topics or nothing,
            self.list_payloads(),
            strict=True,
        )
        for txid, kind, topic, at, time, expiration, who, sequence, flags, user, correlation, logical, payload in rows:
            publisher, client = whom[who]
            yield Entry(
                txid,
                kind,
                topic_refs[topic],
                keys[at : at + 8],
                checks[at : at + 8],
                time,
                expiration,
                publisher,
                client,
                sequence,
                flags,
                user,
                correlation,
                logical,
                payload,
            )

    def iter_entries_at(self, places: Sequence[int]) -> Iterator[Entry]:
        """The entries at these ascending places, 0 for the first; of the payloads no others are cut out."""
        columns, first, topic_refs, publishers = (
            self.decode_columns(),
            self.first_txid,
            self.topic_refs,
            self.publishers,
        )
        ends = list(accumulate(columns.lengths, initial=0))
        payloads = self.decompress_payloads() if places else memoryview(b"")
        nothing: list[bytes | None] = [None] * self.header.count
        users, ids = columns.user_keys or nothing, columns.correlation_ids or nothing
        logical = columns.logical_topics or nothing
        for place in places:
            who = columns.publisher_indexes[place]
            publisher, client = (None, None) if who == NO_PUBLISHER else publishers[who]
            yield Entry(
                first + place,
                columns.operations[place],
                topic_refs[columns.topic_indexes[place]],
                bytes(columns.keys[8 * place : 8 * place + 8]),
                bytes(columns.checks[8 * place : 8 * place + 8]),
                columns.times[place],
                columns.expirations[place],
                publisher,
                client,
                columns.sequences[place],
                columns.flags[place],
                users[place],
                ids[place],
                logical[place],
                bytes(payloads[ends[place] : ends[place + 1]]),
            )

    def _contradiction_error(self, error: ValueError) -> DamageError:
        first, last = self.header.first_txid, self.header.last_txid
        return DamageError(
            "SOW-JRN-014",
            f"a block (txids {first} to {last}) is inconsistent: {error}",
            place=format_block_place(self.path, self.start.offset),
            hint="report this: it is a bug of the writer, or the file was manipulated; sowctl check shows other damage",
            offset=self.start.offset,
            first_txid=first,
            last_txid=last,
        )
