"""A journal file in an archive, as described by the manifest (``sow-archive(5)``).

Written by :mod:`sowctl.journal.maintenance.upload`, read and written by :mod:`sowctl.journal.archive.manifest`.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET, Struct, UnsetType

from sowctl.journal.block import Position
from sowctl.journal.blockcodec import BLOCK_HEADER_SIZE, BlockHeader
from sowctl.journal.format import COMPRESSED_SUFFIXES, FileHeader
from sowctl.journal.stretch import Segment
from sowctl.values.times import Micros
from sowctl.values.topicref import TopicRef


class ArchivedFile(Struct, frozen=True):
    """A journal file in an archive. ``size`` and ``sha256`` describe the stored bytes, ``length`` is the decompressed
    size, and all offsets refer to decompressed content. Times in microseconds UTC; ``earliest`` and ``latest`` are 0
    without entries.

    ``header``: version, checkpoint size, checkpoint CRC, chain, chain offset. ``topics``: name, message type, txid and
    time of the last entry of each topic that has entries in the file. ``last_block``: offset and header CRC. ``index``:
    the offset of the first group and of some later ones, each with the txid before it. ``gaps``: number of parts that
    were cut out. ``seekable``: compressed with a table of its frames, so that it can be read at any offset; set only
    for such files.
    """

    name: str
    number: int
    size: int
    sha256: str
    length: int
    lineage: str
    created: Micros
    header: tuple[int, int, int, int, int]
    first_txid: int
    last_txid: int
    entries: int
    payload_bytes: int
    earliest: Micros
    latest: Micros
    topics: tuple[tuple[str, str, int, Micros], ...]
    last_block: tuple[int, int]
    index: tuple[tuple[int, int], ...]
    gaps: int = 0
    seekable: bool | UnsetType = UNSET

    @property
    def is_compressed(self) -> bool:
        """True for a compressed file."""
        return self.name.endswith(COMPRESSED_SUFFIXES)

    @property
    def fingerprint(self) -> str:
        """A short text that distinguishes this file from other files of its number, for the parts of a plan."""
        return self.sha256[:16]

    def build_file_header(self) -> FileHeader:
        """Return the header of the file."""
        version, checkpoint, crc, chain, offset = self.header
        return FileHeader(
            bytes.fromhex(self.lineage),
            self.first_txid,
            self.number,
            self.created,
            checkpoint,
            crc,
            chain,
            offset,
            version,
        )

    def may_hold_entries(self, topic: TopicRef | None, low: Micros | None, high: Micros | None) -> bool:
        """Return whether the file can have entries of a topic (None: of any) within two times, both inclusive."""
        if topic is not None and all(known[:2] != topic for known in self.topics):
            return False
        return self.entries > 0 and (low is None or low <= self.latest) and (high is None or high >= self.earliest)

    def build_segment(self) -> Segment:
        """Return the segment for a plan. A file that must be read from its beginning is not divided, and has no index
        there."""
        # UNSET if the manifest does not say so: then the file is read from its beginning.
        whole = self.is_compressed and self.seekable is not True
        size, index = (self.size, ()) if whole else (self.length, self.index)
        ends = self.last_txid, self.last_block
        return Segment(self.number, size, self.first_txid, *ends, whole, None, index, self.fingerprint)

    def build_summary_header(self) -> BlockHeader:
        """Return a header that summarizes all its blocks: their entries, and their stored and decompressed bytes."""
        txids = self.first_txid, self.first_txid, self.last_txid, self.last_txid
        sizes = 0, self.size - BLOCK_HEADER_SIZE, 0, 0, self.payload_bytes
        return BlockHeader(0, 0, self.entries, *txids, self.earliest, self.latest, *sizes, 0, 0, 0, 0, 0)

    def iter_positions(self) -> Iterator[Position]:
        """Yield the positions before some of its groups, including the first one."""
        for txid, offset in self.index:
            yield Position(self.number, offset, txid)
