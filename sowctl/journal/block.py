"""The values that a reader returns: blocks, positions, and reports of damage and tails.

These values have no access to files; :mod:`sowctl.journal.files`, ``walk`` and ``scan`` create them for all readers of
a journal. Specified in ``sow-journal(5)``, "Blocks" and "Reading".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.errors import DamageError
from sowctl.journal.blockcodec import BlockHeader, BlockMap
from sowctl.journal.format import COMPRESSED_SUFFIXES, format_block_place
from sowctl.remote.place import Place
from sowctl.values.topicref import TopicRef

if TYPE_CHECKING:
    from sowctl.journal.arrays import EntryArrays
    from sowctl.journal.entries import DecodedEntries, Entry


class Position(Struct, frozen=True):
    """A position between two groups: byte ``offset`` in file ``number``; ``txid`` is the last one before it."""

    number: int
    offset: int
    txid: int


class EndedHistory(Struct, frozen=True):
    """A history of an instance that a restore ended: the history of ``lineage`` (16 bytes), continued by the next one.

    Entries up to ``last_txid`` belong to both. Later entries were undone; ``above`` is the highest txid that they may
    have, and the next history begins after it. ``time`` is the time of the restore in microseconds UTC.
    """

    lineage: bytes
    last_txid: int
    above: int
    time: int


class TopicState(Struct, frozen=True):
    """The last entry of a topic: its txid, its time (microseconds UTC), and the position before its group.

    A topic without entries has txid 0, time 0 and position None.
    """

    last_txid: int
    last_time: int
    position: Position | None


class FileInfo(Struct, frozen=True):
    """One journal file. ``last_txid`` is None for the file that grows; ``size`` is the stored size in bytes."""

    path: Place
    number: int
    size: int
    first_txid: int
    last_txid: int | None
    created: int

    @property
    def is_compressed(self) -> bool:
        """True for a compressed file, to which nothing can be appended."""
        return self.path.suffix in COMPRESSED_SUFFIXES


class TailReport(Struct, frozen=True):
    """The part at the end of the last file that a reader skipped.

    ``size`` bytes from ``offset`` on belong to no block (0: nothing torn); ``open_group`` is the first txid of a group
    without its last block (0: none), ``last_txid`` the last used txid, including those of the open group. ``begun``:
    the bytes may result from an interrupted append, as the beginning of a block or as space that was not written;
    otherwise something else wrote them. ``copy``: the file to which a writer copied them before it cut them off.
    ``chain``: the header CRC of the last intact block before the tail.
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
        """The torn or unfinished part as one clause; used by findings and notes."""
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
        """The torn part, its position, and the action of the writer, as one line for people."""
        if self.copy is not None:
            done = f"; they were copied to {self.copy} and cut off"
        elif self.size:
            done = "; they are skipped, and the next command that writes saves and cuts them off"
        else:
            done = ""
        return f"{format_block_place(self.path, self.offset)}: {self.text}{done}"


class Damage(Struct, frozen=True):
    """A damaged stretch that a resyncing reader skipped; txids are the missing ones (last None: unknown)."""

    path: Place
    offset: int
    size: int
    first_txid: int
    last_txid: int | None
    error: DamageError


class Gap(Struct, frozen=True):
    """A part that a repair cut out of a file: ``size`` bytes at ``offset``, with ``first_txid`` to ``last_txid``.

    ``receipt`` is the name of the file with the removed bytes. ``topic_refs`` are the topics that had entries there;
    None if unknown.
    """

    path: Place
    offset: int
    size: int
    first_txid: int
    last_txid: int
    receipt: str
    topic_refs: tuple[TopicRef, ...] | None

    def concerns_topic(self, topic: TopicRef) -> bool:
        """Return whether entries of a topic are, or may be, missing."""
        # Unknown counts as all topics: a reader must not skip a loss silently.
        return self.topic_refs is None or topic in self.topic_refs

    @property
    def text(self) -> str:
        """The missing part as one clause; used by findings and notes."""
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
        """The missing part and its position, as one line for people."""
        return f"{format_block_place(self.path, self.offset)}: {self.text}"


class Block:
    """One verified block of a complete group; entries and payloads are decompressed on first access.

    ``header`` has group, first and last txid, count and times; ``start`` is the position before the block and ``end``
    the position after it. The block keeps its bytes, so it outlives its file.
    """

    __slots__ = (
        "_arrays",
        "_columns",
        "_entries",
        "_payloads",
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
        # Both positions follow from header and offset, so that callers need not add offsets.
        self.end = Position(number, offset + header.size, header.last_txid)
        # Kept as stored: a block in memory has its compressed size until it is used.
        self._columns = columns
        self._entries: DecodedEntries | None = None
        self._arrays: EntryArrays | None = None
        self._payloads = _StoredPayloads(path, offset, header, payloads)

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
        """Topics by the index in the topic column."""
        return [row.topic for row in self.map.topic_rows]

    @property
    def publishers(self) -> list[tuple[int, str]]:
        """(hash, client name) by the index in the publisher column."""
        return [(row.hash, row.client) for row in self.map.publishers]

    def decode_columns(self) -> DecodedEntries:
        """Return the entries by columns. Raises DamageError ``SOW-JRN-014`` if they contradict header or map."""
        if self._entries is None:
            from sowctl.journal.columns import decompress_part, unpack_columns

            header = self.header
            try:
                # Decompressed on first access: a reader that needs only txids or counts decompresses neither part.
                raw = decompress_part(header.codec, self._columns, header.columns_raw)
                self._entries = unpack_columns(
                    raw,
                    range(header.first_txid, header.last_txid + 1),
                    header.flags,
                    header.payloads_raw,
                    self.topic_refs,
                    self.publishers,
                    self._payloads.read,
                )
            except ValueError as error:
                raise _describe_contradiction(self.path, self.start.offset, header, error) from error
        return self._entries

    def decode_numpy_columns(self) -> EntryArrays:
        """Return the columns as numpy arrays on the same memory. Raises as :meth:`decode_columns`."""
        if self._arrays is None:
            from sowctl.journal.arrays import EntryArrays

            self._arrays = EntryArrays(self.decode_columns())
        return self._arrays

    def decompress_payloads(self) -> memoryview:
        """Return all payloads back to back, decompressed once. Raises DamageError ``SOW-JRN-014``."""
        return self._payloads.read()

    def list_payloads(self) -> list[bytes]:
        """Return one payload per entry."""
        return list(self.decode_columns().payloads)

    def iter_entries(self) -> Iterator[Entry]:
        """Iterate over the entries in order."""
        return self.decode_columns().iterate_entries()

    def iter_entries_at(self, places: Sequence[int]) -> Iterator[Entry]:
        """Iterate over the entries at these ascending indexes, starting at 0; only their payloads are copied."""
        return self.decode_columns().take(places).iterate_entries()


class _StoredPayloads:
    """The payloads of a block as stored; decompressed once.

    Separate from the block, because its entries read them, too: a reference cycle between a block and its entries would
    keep both in memory until the next garbage collection.
    """

    __slots__ = ("_header", "_offset", "_path", "_raw", "_stored")

    def __init__(self, path: Place, offset: int, header: BlockHeader, stored: memoryview) -> None:
        self._path, self._offset, self._header, self._stored = path, offset, header, stored
        self._raw: memoryview | None = None

    def read(self) -> memoryview:
        """Return all payloads back to back. Raises DamageError ``SOW-JRN-014``."""
        if self._raw is None:
            from sowctl.journal.columns import decompress_part

            try:
                self._raw = decompress_part(self._header.codec, self._stored, self._header.payloads_raw)
            except ValueError as error:
                raise _describe_contradiction(self._path, self._offset, self._header, error) from error
        return self._raw


def _describe_contradiction(path: Place, offset: int, header: BlockHeader, error: ValueError) -> DamageError:
    first, last = header.first_txid, header.last_txid
    return DamageError(
        "SOW-JRN-014",
        f"a block (txids {first} to {last}) is inconsistent: {error}",
        place=format_block_place(path, offset),
        hint="report this: it is a bug of the writer, or the file was manipulated; sowctl check shows other damage",
        offset=offset,
        first_txid=first,
        last_txid=last,
    )
