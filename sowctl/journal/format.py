"""The codec of journal files: headers, names, rows, and the numbers of operations (``sow-journal(5)``).

All bytes of a journal are packed and unpacked here, in :mod:`sowctl.journal.blockcodec` (headers and maps of blocks)
and in :mod:`sowctl.journal.columns`. This module opens no files. Only the journal calls it; the constants of entries
are used by every reader and writer of entries.
"""

from __future__ import annotations

import re
import struct
from typing import Any

from msgspec import Struct

from sowctl.checksum import crc32
from sowctl.errors import DamageError, SowError, UsageError, VersionError
from sowctl.remote.place import Place

BLOCK_VERSION = 1
"""Format version of blocks and of the topics file."""
FILE_VERSION = 2
"""Format version of files: 2 if the checkpoint names histories that a restore ended."""
# Built like PNG's: a byte above 127 and both line ends detect a transfer that changed either of them.
FILE_MAGIC = b"\x89SOWJ\r\n\x1a"
TOPICS_MAGIC = b"\x89topics\n"

FILE_HEADER = struct.Struct("<8sHHI16sQQqIIQ4xI")
TOPICS_HEADER = struct.Struct("<8sII")
CRC_LAYOUT = struct.Struct("<I")
"""A checksum, after the bytes that it covers."""
FILE_HEADER_SIZE = 80
assert FILE_HEADER.size == FILE_HEADER_SIZE
assert TOPICS_HEADER.size == 16

COMPRESSED_SUFFIXES = (".gz", ".zst")
"""Suffixes of compressed journal files, after ``.journal``."""

PUBLISH = 1
DELETE = 2
ACK = 3
EXPIRE = 4
REQUEUE = 5
BEGIN = 6
OPERATIONS = {
    PUBLISH: "publish",
    DELETE: "delete",
    ACK: "ack",
    EXPIRE: "expire",
    REQUEUE: "requeue",
    BEGIN: "begin",
}
"""Names of operations in dumps."""
QUEUE_OPERATIONS = frozenset((ACK, EXPIRE, REQUEUE, BEGIN))
"""Entries about a queue: their topic is the queue's name; they have no key and no payload."""

# Flags of entries; the flags of optional texts are defined with their columns (``entries``).
INSERTED_FLAG = 32
UNKEYED_FLAG = 64
"""An entry without a SOW key: of a topic without a SOW (key and check word are zeros), or of a queue (key and check
word are the two numbers of a bookmark)."""

# The highest number of the two-byte column: a block lists at most 65,535 publishers.
NO_PUBLISHER = 0xFFFF

MANIFEST_SUFFIX = ".manifest"
"""Suffix of an archive's manifest, after the instance name."""


class FileHeader(Struct, frozen=True):
    """Header of a file; ``created`` in microseconds since 1970 UTC; ``checkpoint_size`` in bytes.

    ``chain`` is the header CRC of the last block before this file and ``chain_offset`` its offset in the previous file;
    both are 0 if unknown.
    """

    lineage: bytes
    first_txid: int
    number: int
    created: int
    checkpoint_size: int
    checkpoint_crc: int
    chain: int = 0
    chain_offset: int = 0
    version: int = 1

    @property
    def blocks_offset(self) -> int:
        """The offset of the first block."""
        return FILE_HEADER_SIZE + self.checkpoint_size


def check_instance(instance: str) -> str:
    """Return ``instance`` if it can start a file name. Raises UsageError ``SOW-JRN-015``."""
    # A leading dot would hide the files, and is reserved for temporary names; 200 bytes leave room for number and
    # suffix in a name of 255.
    if not instance or instance[0] == "." or "/" in instance or "\0" in instance or len(instance.encode()) > 200:
        raise UsageError(
            "SOW-JRN-015",
            f"the instance name {instance!r} cannot be used in file names",
            hint="use a name without '/', not starting with '.', of at most 200 bytes",
        )
    return instance


def format_file_name(instance: str, number: int) -> str:
    """Return the name of the journal file with this number."""
    # Ten digits: names sort as numbers do.
    return f"{instance}.{number:010d}.journal"


def build_name_pattern(instance: str) -> re.Pattern[str]:
    """Return the pattern of an instance's journal file names; group 1 is the number, group 2 the compression suffix."""
    return re.compile(re.escape(instance) + r"\.(\d{10})\.journal(\.gz|\.zst)?")


def is_receipt(name: str, instance: str) -> bool:
    """Return whether a file of this name holds the part that a repair cut out of a journal file."""
    return re.fullmatch(re.escape(instance) + r"\.\d{10}\.journal\.cut-\d+", name) is not None


def build_own_files_pattern(instance: str) -> re.Pattern[str]:
    """Return the pattern of all file names of an instance's journal, in its directory or in the archive."""
    return re.compile(
        re.escape(instance) + r"\.(\d{10}\.journal(\.torn-\d+|\.cut-\d+|\.gz|\.zst)?|topics|lock|upkeep|places)"
    )


def pack_file_header(
    lineage: bytes,
    first_txid: int,
    number: int,
    created: int,
    checkpoint: bytes,
    chain: tuple[int, int] = (0, 0),
    version: int = 1,
) -> bytes:
    """Return header and checkpoint of a new file; ``chain``: offset and header CRC of the last block before it."""
    # The header's CRC covers that of the checkpoint, so one check of 80 bytes covers both.
    crc = crc32(checkpoint)
    raw = FILE_HEADER.pack(
        FILE_MAGIC,
        version,
        FILE_HEADER_SIZE,
        len(checkpoint),
        lineage,
        first_txid,
        number,
        created,
        crc,
        chain[1],
        chain[0],
        0,
    )
    return raw[:-4] + CRC_LAYOUT.pack(crc32(raw[:-4])) + checkpoint


def unpack_file_header(raw: bytes, place: str) -> FileHeader:
    """Read the first 80 bytes of a file.

    Raises DamageError ``SOW-JRN-002`` (not a journal) or ``SOW-JRN-004`` (damaged), VersionError ``SOW-JRN-003``.
    """
    if len(raw) < FILE_HEADER_SIZE or raw[:8] != FILE_MAGIC:
        raise DamageError(
            "SOW-JRN-002", "the file is not a journal file", place=place, hint="restore the file from a copy", offset=0
        )
    _, version, size, checkpoint, lineage, first, number, created, *rest = FILE_HEADER.unpack(raw)
    checkpoint_crc, chain, chain_offset, crc = rest
    # Checksum before version: a wrong bit in the version must not be reported as a newer format.
    if crc != crc32(raw[:76]):
        raise DamageError(
            "SOW-JRN-004",
            "the header of the journal file is damaged",
            place=place,
            hint="restore the file from a copy; the blocks after the header are intact",
            offset=0,
        )
    if version > FILE_VERSION:
        raise newer_version_error(version, place)
    # The CRC is right, so this program never wrote such a header.
    if size != FILE_HEADER_SIZE or version < 1 or first < 1:
        raise DamageError("SOW-JRN-004", "the header of the journal file is invalid", place=place, offset=0)
    return FileHeader(lineage, first, number, created, checkpoint, checkpoint_crc, chain, chain_offset, version)


def newer_version_error(version: int, place: str) -> SowError:
    """Return the error for an unsupported newer format version: VersionError ``SOW-JRN-003``."""
    return VersionError(
        "SOW-JRN-003",
        f"the file has journal format version {version}; this release reads up to {FILE_VERSION}",
        place=place,
        hint="use the release that wrote it, or a later one",
    )


def pack_rows(rows: list[Any]) -> bytes:
    """Return ``rows`` as a msgpack array."""
    import msgpack

    raw: bytes = msgpack.packb(rows)
    return raw


def unpack_rows(raw: bytes | memoryview, length: int) -> list[Any]:
    """Return the msgpack array of ``length``. Raises ValueError for anything else."""
    import msgpack

    try:
        rows = msgpack.unpackb(raw)
    except Exception as error:  # msgpack raises a family of unrelated classes, some of them not ValueErrors
        raise ValueError(f"not msgpack: {type(error).__name__}") from error
    if not isinstance(rows, list) or len(rows) != length:
        raise ValueError(f"not an array of {length}")
    return rows


def require_text(value: Any) -> str:
    """Return ``value`` if it is a text. Raises ValueError otherwise."""
    if type(value) is not str:
        raise ValueError("a text was expected")
    return value


def require_number(value: Any) -> int:
    """Return ``value`` if it is a number. Raises ValueError otherwise."""
    # bool is a subclass of int, but not valid as a number.
    if type(value) is not int:
        raise ValueError("a number was expected")
    return value


def format_block_place(path: Place, offset: int) -> str:
    """Format a path and byte offset for errors."""
    return f"{path}@{offset}"
