"""The values that a reader returns: blocks, positions, and reports of damage and tails.

Values without access to files; made by :mod:`sowctl.journal.files`, ``walk`` and ``scan``, used by everything that
reads a journal. Ruled by ``sow-journal(5)``, "Blocks" and "Reading".
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


class Block:
    """One verified block of a complete group; entries and payloads are decompressed when first asked for.

    ``header`` has the facts (group, first and last txid, count, times); ``start`` is the position before the block and
    ``end`` the one behind it. The bytes are held, so a block outlives its file.
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
        # Both positions follow from header and place: no caller adds offsets by hand.
        self.end = Position(number, offset + header.size, header.last_txid)
        # Held as stored: a block that is kept in memory takes its compressed size until it is used.
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
        """Topics by the index that the topic column uses."""
        return [row.topic for row in self.map.topic_rows]

    @property
    def publishers(self) -> list[tuple[int, str]]:
        """(hash, client name) by the index that the publisher column uses."""
        return [(row.hash, row.client) for row in self.map.publishers]

    def decode_columns(self) -> DecodedEntries:
        """The entries by columns. Raises DamageError ``SOW-JRN-014`` where they contradict header or map."""
        if self._entries is None:
            from sowctl.journal.columns import decompress_part, unpack_columns

            header = self.header
            try:
                # Decompressed when first asked for: a reader that needs only txids, or only counts, pays for neither
                # part.
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
        """The columns as numpy arrays on the same memory. Raises as :meth:`decode_columns`."""
        if self._arrays is None:
            from sowctl.journal.arrays import EntryArrays

            self._arrays = EntryArrays(self.decode_columns())
        return self._arrays

    def decompress_payloads(self) -> memoryview:
        """All payloads back to back, decompressed once. Raises DamageError ``SOW-JRN-014``."""
        return self._payloads.read()

    def list_payloads(self) -> list[bytes]:
        """One payload per entry."""
        return list(self.decode_columns().payloads)

    def iter_entries(self) -> Iterator[Entry]:
        """The entries in order."""
        return self.decode_columns().iterate_entries()

    def iter_entries_at(self, places: Sequence[int]) -> Iterator[Entry]:
        """The entries at these ascending places, 0 for the first; of the payloads no others are cut out."""
        return self.decode_columns().take(places).iterate_entries()


class _StoredPayloads:
    """The payloads of a block as it stores them; decompressed once.

    Apart from the block, because its entries read them, too: a block and its entries that held each other would stay in
    memory until the garbage collector came.
    """

    __slots__ = ("_header", "_offset", "_path", "_raw", "_stored")

    def __init__(self, path: Place, offset: int, header: BlockHeader, stored: memoryview) -> None:
        self._path, self._offset, self._header, self._stored = path, offset, header, stored
        self._raw: memoryview | None = None

    def read(self) -> memoryview:
        """All payloads back to back. Raises DamageError ``SOW-JRN-014``."""
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
