"""The one codec of journal files: headers, maps, checkpoints, names (``sow-journal(5)``).

Every byte of a journal is packed and unpacked here and in :mod:`sowctl.journal.columns`, nowhere else. Nothing in here
opens files. Sanity rules stand beside the fields they are about, because the reader stops at them and the check
reports them.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any, TypeAlias

from sowctl.checksum import crc32
from sowctl.errors import DamageError, SowError, UsageError, VersionError
from sowctl.tuples import NamedTuple

VERSION = 1
FILE_MAGIC = b"\x89SOWJ\r\n\x1a"
BLOCK_MAGIC = b"\x89block\r\n"
TOPICS_MAGIC = b"\x89topics\n"

FILE_HEADER = struct.Struct("<8sHHI16sQQqI16xI")
BLOCK_HEADER = struct.Struct("<8sBBHIQQQQqqIIIIIIII4xI")
TOPICS_HEADER = struct.Struct("<8sII")
_CRC = struct.Struct("<I")
_PLACE = struct.Struct("<16sQQ")
FILE_HEADER_SIZE = 80
BLOCK_HEADER_SIZE = 104
assert FILE_HEADER.size == FILE_HEADER_SIZE
assert BLOCK_HEADER.size == BLOCK_HEADER_SIZE
assert TOPICS_HEADER.size == 16

CODEC_NONE = 0
CODEC_ZSTD = 1

LAST = 1
ABORT = 2
USER_KEYS = 4
CORRELATION_IDS = 8
LOGICAL_TOPICS = 16
_BLOCK_FLAGS = LAST | ABORT | USER_KEYS | CORRELATION_IDS | LOGICAL_TOPICS

PUBLISH = 1
DELETE = 2

HAS_USER_KEY = 1
HAS_CORRELATION_ID = 2
HAS_LOGICAL_TOPIC = 4
INSERTED = 32
UNKEYED = 64
"""An entry of a topic without a SOW: key and check word are zeros and mean nothing."""

NO_PUBLISHER = 0xFFFF
MAX_COUNT = 1 << 20
MAX_MAP = 16 << 20
MAX_RAW = 256 << 20

FILE_MODE = 0o640
DIRECTORY_MODE = 0o750

RECORD_FIELDS = {
    "key": "keys",
    "check": "checks",
    "txid": "txid",
    "time": "times",
    "expiration": "expirations",
    "flags": "flags",
    "user_key": "user_keys",
    "correlation_id": "correlation_ids",
    "logical_topic": "logical_topics",
    "payload": "payloads",
}
"""Field of a store's record -> where a journal keeps it: attributes of :class:`~sowctl.journal.columns.Columns`,
``payloads``, and ``txid``, which is counted."""

Topic: TypeAlias = tuple[str, str]
"""Topic name, message type."""


class FileHeader(NamedTuple):
    """Facts at the start of a file; ``created`` in microseconds since 1970 UTC; ``checkpoint_size`` in bytes."""

    lineage: bytes
    first_txid: int
    number: int
    created: int
    checkpoint_size: int
    checkpoint_crc: int

    @property
    def blocks_offset(self) -> int:
        """Where the first block starts."""
        return FILE_HEADER_SIZE + self.checkpoint_size


class BlockHeader(NamedTuple):
    """Facts of one block. Times in microseconds since 1970 UTC, sizes in bytes."""

    codec: int
    flags: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which a header has no use for
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
    crc: int

    @property
    def size(self) -> int:
        """Header and body."""
        return BLOCK_HEADER_SIZE + self.map_size + self.columns_stored + self.payloads_stored

    @property
    def is_last(self) -> bool:
        """Whether it ends its group."""
        return bool(self.flags & LAST)

    @property
    def is_abort(self) -> bool:
        """Whether it says that its group has not happened."""
        return bool(self.flags & ABORT)


class MapTopic(NamedTuple):
    """One topic of a block: its last txid and the time of that entry."""

    topic: Topic
    last_txid: int
    last_time: int


class MapPublisher(NamedTuple):
    """One publisher of a block: hash of the client name, the name, highest sequence."""

    hash: int
    client: str
    sequence: int


class BlockMap(NamedTuple):
    """Who is in a block."""

    topics: tuple[MapTopic, ...]
    publishers: tuple[MapPublisher, ...]

    def has(self, topic: Topic) -> bool:
        """Whether the block holds an entry of ``topic``."""
        return any(row.topic == topic for row in self.topics)


def check_instance(instance: str) -> str:
    """``instance`` if it can start a file name. Raises UsageError ``SOW-JRN-015``."""
    if not instance or instance[0] == "." or "/" in instance or "\0" in instance or len(instance.encode()) > 200:
        raise UsageError(
            "SOW-JRN-015",
            f"the instance name {instance!r} cannot be part of a file name",
            hint="use a name without '/', not starting with '.', of at most 200 bytes",
        )
    return instance


def file_name(instance: str, number: int) -> str:
    """Name of the journal file with this number."""
    return f"{instance}.{number:010d}.journal"


def name_pattern(instance: str) -> re.Pattern[str]:
    """Matches the names of an instance's journal files; group 1 is the number."""
    return re.compile(re.escape(instance) + r"\.(\d{10})\.journal")


def pack_file_header(lineage: bytes, first_txid: int, number: int, created: int, checkpoint: bytes) -> bytes:
    """Header and checkpoint of a new file."""
    crc = crc32(checkpoint)
    raw = FILE_HEADER.pack(
        FILE_MAGIC, VERSION, FILE_HEADER_SIZE, len(checkpoint), lineage, first_txid, number, created, crc, 0
    )
    return raw[:-4] + _CRC.pack(crc32(raw[:-4])) + checkpoint


def unpack_file_header(raw: bytes, place: str) -> FileHeader:
    """Read the first 80 bytes of a file.

    Raises DamageError ``SOW-JRN-002`` (not a journal) or ``SOW-JRN-004`` (damaged), VersionError ``SOW-JRN-003``.
    """
    if len(raw) < FILE_HEADER_SIZE or raw[:8] != FILE_MAGIC:
        raise DamageError(
            "SOW-JRN-002", "this is not a journal file", place=place, hint="restore the file from a copy", offset=0
        )
    _, version, size, checkpoint, lineage, first, number, created, checkpoint_crc, crc = FILE_HEADER.unpack(raw)
    if crc != crc32(raw[:76]):
        raise DamageError(
            "SOW-JRN-004",
            "the header of the journal file is damaged",
            place=place,
            hint="restore the file from a copy; the blocks behind the header are intact",
            offset=0,
        )
    if version > VERSION:
        raise newer(version, place)
    if size != FILE_HEADER_SIZE or version < 1 or first < 1:
        raise DamageError("SOW-JRN-004", "the header of the journal file makes no sense", place=place, offset=0)
    return FileHeader(lineage, first, number, created, checkpoint, checkpoint_crc)


def newer(version: int, place: str) -> SowError:
    """The error for a format version above ours: VersionError ``SOW-JRN-003``."""
    return VersionError(
        "SOW-JRN-003",
        f"written in journal format {version}, this program knows up to {VERSION}",
        place=place,
        hint="use the release of sowctl that wrote it, or a later one",
    )


def place_seed(lineage: bytes, number: int, offset: int) -> int:
    """Start value of the header CRC of the block at ``offset`` of file ``number``."""
    return crc32(_PLACE.pack(lineage, number, offset))


def pack_block_header(header: BlockHeader, synced_txid: int, seed: int) -> bytes:
    """The 104 bytes before a block's body; the header's own ``synced_txid`` and ``crc`` are not looked at."""
    raw = BLOCK_HEADER.pack(
        BLOCK_MAGIC,
        VERSION,
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
        0,
    )
    return raw[:-4] + _CRC.pack(crc32(raw[:-4], seed))


def unpack_block_header(raw: bytes | memoryview, seed: int, place: str) -> BlockHeader | None:
    """Read a block header; None where there is no valid one. Raises VersionError ``SOW-JRN-003``."""
    if len(raw) < BLOCK_HEADER_SIZE or raw[:8] != BLOCK_MAGIC:
        return None
    fields = BLOCK_HEADER.unpack(raw)
    if fields[-1] != crc32(raw[:100], seed):
        return None
    if fields[1] > VERSION:
        raise newer(fields[1], place)
    header = BlockHeader(*fields[2:])
    return header if _is_sane(header) else None


def _is_sane(header: BlockHeader) -> bool:
    """Whether the fields of a header with a right CRC fit one another."""
    if header.codec > CODEC_ZSTD or header.flags & ~_BLOCK_FLAGS or header.count > MAX_COUNT:
        return False
    if header.map_size > MAX_MAP or max(header.columns_raw, header.payloads_raw) > MAX_RAW:
        return False
    if header.is_abort:
        return header.count == 0 and header.is_last and header.group == header.first_txid <= header.last_txid
    return header.count > 0 and header.group <= header.first_txid == header.last_txid - header.count + 1


def follows(header: BlockHeader, last_txid: int, group: int) -> bool:
    """Whether a block may stand behind one that ended with ``last_txid``; ``group`` is the open group, 0 for none."""
    if header.is_abort:
        return group != 0 and header.group == group and header.last_txid == last_txid
    return header.first_txid == last_txid + 1 and header.group == (group or header.first_txid)


def pack_map(map: BlockMap) -> bytes:
    """The map of a block as it is stored."""
    topics = [[*row.topic, row.last_txid, row.last_time] for row in map.topics]
    return pack_rows([topics, [[row.hash, row.client, row.sequence] for row in map.publishers]])


def pack_rows(rows: list[Any]) -> bytes:
    """A msgpack array."""
    import msgpack

    raw: bytes = msgpack.packb(rows)
    return raw


def unpack_map(raw: bytes | memoryview, place: str) -> BlockMap:
    """Read a map whose CRC was right. Raises DamageError ``SOW-JRN-014``."""
    try:
        topics, publishers = unpack_rows(raw, 2)
        return BlockMap(
            tuple(
                MapTopic((text_of(name), text_of(kind)), number_of(txid), number_of(at))
                for name, kind, txid, at in topics
            ),
            tuple(MapPublisher(number_of(who), text_of(client), number_of(seq)) for who, client, seq in publishers),
        )
    except (ValueError, TypeError) as error:
        raise DamageError(
            "SOW-JRN-014", f"the list of topics of a block cannot be read ({error})", place=place
        ) from error


def unpack_rows(raw: bytes | memoryview, length: int) -> list[Any]:
    """A msgpack array of ``length``. Raises ValueError for everything that it is not."""
    import msgpack

    try:
        rows = msgpack.unpackb(raw)
    except Exception as error:  # msgpack raises a family of unrelated classes, some of them not ValueErrors
        raise ValueError(f"not msgpack: {type(error).__name__}") from error
    if not isinstance(rows, list) or len(rows) != length:
        raise ValueError(f"not an array of {length}")
    return rows


def text_of(value: Any) -> str:
    if type(value) is not str:
        raise ValueError("a text was expected")
    return value


def number_of(value: Any) -> int:
    if type(value) is not int:
        raise ValueError("a number was expected")
    return value


def block_place(path: Path, offset: int) -> str:
    """How errors name a byte of a file."""
    return f"{path}@{offset}"
