"""The codec of block headers and maps, and the rule for which block may follow which.

All their bytes are packed and unpacked here; the columns after them in :mod:`sowctl.journal.columns`, the files in
:mod:`sowctl.journal.format`. Called by the modules of the journal. Each validity rule is next to its fields, because
the reader stops at a violation and the check reports it. Specified in ``sow-journal(5)``, "Blocks".
"""

from __future__ import annotations

import struct

from msgspec import Struct

from sowctl.checksum import crc32
from sowctl.errors import DamageError
from sowctl.journal.entries import TEXT_BLOCK_FLAGS
from sowctl.journal.format import (
    BLOCK_VERSION,
    CRC_LAYOUT,
    newer_version_error,
    pack_rows,
    require_number,
    require_text,
    unpack_rows,
)
from sowctl.values.topicref import TopicRef

# A byte above 127, a word and both line ends: a transfer that changes text damages the magic, and text hardly ever
# contains it.
BLOCK_MAGIC = b"\x89block\r\n"
# The fields in the order of sow-journal(5), "Blocks"; the chain and the header's own CRC are the last two.
BLOCK_HEADER = struct.Struct("<8sBBHIQQQQqqIIIIIIIIII")
_PLACE = struct.Struct("<16sQQ")
BLOCK_HEADER_SIZE = 104
assert BLOCK_HEADER.size == BLOCK_HEADER_SIZE

CODEC_NONE = 0
CODEC_ZSTD = 1

# Bits of a block's flags besides those of text columns: two about its group, one for a gap.
LAST_BLOCK_FLAG = 1
ABORT_FLAG = 2
GAP_FLAG = 32
_BLOCK_FLAGS = LAST_BLOCK_FLAG | ABORT_FLAG | GAP_FLAG | TEXT_BLOCK_FLAGS
GAP_VERSION = 2
"""Version of gap blocks; older programs report that the format is newer."""

# Limits that a reader can rely on before it allocates: a header that exceeds them is invalid.
MAX_ENTRY_COUNT = 1 << 20
MAX_MAP_BYTES = 16 << 20
MAX_RAW_BYTES = 256 << 20


class BlockHeader(Struct, frozen=True):
    """Header of one block. Times in microseconds since 1970 UTC, sizes in bytes.

    ``chain`` is the header CRC of the previous block, also across files; 0 if the writer did not support chains.
    """

    codec: int
    flags: int
    count: int
    group: int
    first_txid: int
    last_txid: int
    synced_txid: int
    earliest: int
    latest: int
    map_size: int
    columns_stored: int
    columns_raw: int
    payloads_stored: int
    payloads_raw: int
    map_crc: int
    columns_crc: int
    payloads_crc: int
    chain: int
    crc: int

    @property
    def size(self) -> int:
        """Size of header and body."""
        return BLOCK_HEADER_SIZE + self.map_size + self.columns_stored + self.payloads_stored

    @property
    def is_last(self) -> bool:
        """True for the last block of its group."""
        return bool(self.flags & LAST_BLOCK_FLAG)

    @property
    def is_abort(self) -> bool:
        """True for a marker that aborts its group."""
        return bool(self.flags & ABORT_FLAG)

    @property
    def is_gap(self) -> bool:
        """True for a block that replaces a removed part: it has txids and no entries."""
        return bool(self.flags & GAP_FLAG)


class MapTopic(Struct, frozen=True):
    """One topic of a block: its last txid and the time of that entry."""

    topic: TopicRef
    last_txid: int
    last_time: int


class MapPublisher(Struct, frozen=True):
    """One publisher of a block: hash of the client name, the name, highest sequence."""

    hash: int
    client: str
    sequence: int


class BlockMap(Struct, frozen=True):
    """The topics and publishers of a block. It lets a reader of one topic skip blocks without reading them."""

    topic_rows: tuple[MapTopic, ...]
    publishers: tuple[MapPublisher, ...]

    def has_topic(self, topic: TopicRef) -> bool:
        """Return whether the block has an entry of ``topic``."""
        return any(row.topic == topic for row in self.topic_rows)


def compute_header_seed(lineage: bytes, number: int, offset: int) -> int:
    """Return the seed of the header CRC of the block at ``offset`` of file ``number``."""
    return crc32(_PLACE.pack(lineage, number, offset))


def pack_block_header(header: BlockHeader, synced_txid: int, seed: int, chain: int = 0) -> bytes:
    """Return the 104 bytes before a block's body; the header's own ``synced_txid``, ``chain`` and ``crc`` are ignored.

    ``chain`` is the header CRC of the previous block, 0 for none.
    """
    raw = BLOCK_HEADER.pack(
        BLOCK_MAGIC,
        GAP_VERSION if header.is_gap else BLOCK_VERSION,
        header.codec,
        header.flags,
        header.count,
        header.group,
        header.first_txid,
        header.last_txid,
        synced_txid,
        header.earliest,
        header.latest,
        header.map_size,
        header.columns_stored,
        header.columns_raw,
        header.payloads_stored,
        header.payloads_raw,
        header.map_crc,
        header.columns_crc,
        header.payloads_crc,
        chain,
        0,
    )
    return raw[:-4] + CRC_LAYOUT.pack(crc32(raw[:-4], seed))


def unpack_block_header(raw: bytes | memoryview, seed: int, place: str) -> BlockHeader | None:
    """Decode a block header; None if it is invalid. Raises VersionError ``SOW-JRN-003``."""
    # Magic, then CRC, then version: bytes that are no header have no meaningful version.
    if len(raw) < BLOCK_HEADER_SIZE or raw[:8] != BLOCK_MAGIC:
        return None
    fields = BLOCK_HEADER.unpack(raw)
    # The CRC covers the 100 bytes before it; its seed binds them to journal, file and offset.
    if fields[-1] != crc32(raw[:100], seed):
        return None
    # Only gaps have version 2: any other block with that version has a newer format.
    if fields[1] > (GAP_VERSION if fields[3] & GAP_FLAG else BLOCK_VERSION):
        raise newer_version_error(fields[1], place)
    header = BlockHeader(*fields[2:])
    return header if _is_sane(header) else None


def _is_sane(header: BlockHeader) -> bool:
    """Return whether the fields of a header with a right CRC are consistent."""
    if header.codec > CODEC_ZSTD or header.flags & ~_BLOCK_FLAGS or header.count > MAX_ENTRY_COUNT:
        return False
    if header.map_size > MAX_MAP_BYTES or max(header.columns_raw, header.payloads_raw) > MAX_RAW_BYTES:
        return False
    if header.is_gap:
        # A gap may contain no txid at all, if an abort marker was lost.
        if header.count or header.codec != CODEC_NONE or (header.is_abort and not header.is_last):
            return False
        return 0 < header.first_txid <= header.last_txid + 1
    # A marker has no entries of its own: its txids are those of the group that it aborts.
    if header.is_abort:
        # A marker repeats the txids of its group, so that its last txid continues the sequence.
        return header.count == 0 and header.is_last and header.group == header.first_txid <= header.last_txid
    # Txids within a block have no gaps: the last one follows from the first one and the count.
    return header.count > 0 and header.group <= header.first_txid == header.last_txid - header.count + 1


def can_follow(header: BlockHeader, last_txid: int, group: int) -> bool:
    """Return whether a block may follow one that ended with ``last_txid``; ``group`` is the open group, 0 for none."""
    if header.is_gap:
        # The group of a gap was derived from the surrounding blocks when the gap was made.
        return header.first_txid == last_txid + 1
    if header.is_abort:
        return group != 0 and header.group == group and header.last_txid == last_txid
    # Within an open group the block must name that group; otherwise it must begin one, whose number is its own first
    # txid.
    return header.first_txid == last_txid + 1 and header.group == (group or header.first_txid)


def continues_chain(header: BlockHeader, chain: int) -> bool:
    """Return whether a block was written after the one with header CRC ``chain``; 0 on either side means unknown."""
    return not chain or not header.chain or header.chain == chain


def pack_block_map(map: BlockMap) -> bytes:
    """Return the stored form of a block's map."""
    topic_rows = [[*row.topic, row.last_txid, row.last_time] for row in map.topic_rows]
    return pack_rows([topic_rows, [[row.hash, row.client, row.sequence] for row in map.publishers]])


def unpack_block_map(raw: bytes | memoryview, place: str) -> BlockMap:
    """Decode a map with a verified CRC. Raises DamageError ``SOW-JRN-014``."""
    try:
        # The CRC was right, so wrong types are a bug of the writer or a forgery, not a disk error.
        topic_rows, publishers = unpack_rows(raw, 2)
        return BlockMap(
            tuple(
                MapTopic(TopicRef(require_text(name), require_text(kind)), require_number(txid), require_number(at))
                for name, kind, txid, at in topic_rows
            ),
            tuple(
                MapPublisher(require_number(who), require_text(client), require_number(seq))
                for who, client, seq in publishers
            ),
        )
    except (ValueError, TypeError) as error:
        raise DamageError("SOW-JRN-014", f"invalid list of topics in a block ({error})", place=place) from error
