"""Record bytes of the SOW file: header, optional parts, payload, checksum (``sow-store(5)``, "Records").

A value is ``header (36) | extra | payload | CRC-32``. The checksum covers the 8-byte SOW key and the value up to the
checksum; because it is at the end, the CRC-32 over key and whole value is a constant, :data:`CRC_RESIDUE`, if no bit
was altered. Current records, history versions and tombstones are such values; the keys of versions and expirations are
also encoded here ("History", "Expiry"): they sort in the order of reading.

Every module above the store may call this one; these bytes are encoded and decoded nowhere else.
:mod:`sowctl.store.integrity` verifies many values at once.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from operator import add, itemgetter
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from sowctl.checksum import crc32
from sowctl.errors import DamageError

REBUILD_HINT = "run sowctl replay for this topic; without a journal, sowctl store repair saves the intact records"
"""The hint of damage, of which topic is not known here."""
USER_KEY_FLAG = 1
CORRELATION_FLAG = 2
LOGICAL_TOPIC_FLAG = 4
TOMBSTONE_FLAG = 8
LOSSY_FLAG = 16
OPTIONAL_PART_FLAGS = USER_KEY_FLAG | CORRELATION_FLAG | LOGICAL_TOPIC_FLAG
ALL_FLAGS = OPTIONAL_PART_FLAGS | TOMBSTONE_FLAG | LOSSY_FLAG

# A CRC over data and its own CRC has a value that depends only on the polynomial: verifying needs no slicing and no
# comparison with a stored number.
CRC_RESIDUE = 0x2144DF1C
"""CRC-32 over anything followed by its own little-endian CRC-32."""
HEADER_LAYOUT = struct.Struct("<HHQqq8s")
HEADER_SIZE = HEADER_LAYOUT.size
HEADER_DTYPE = [
    ("flags", "<u2"),
    ("extra", "<u2"),
    ("txid", "<u8"),
    ("time", "<i8"),
    ("expiration", "<i8"),
    ("check", "=u8"),
]
"""The same header as a numpy record without padding; check words in memory byte order."""
STAMP_DTYPE = [("txid", "<u8"), ("time", "<i8")]
"""The result of :func:`extract_raw_stamps` as a numpy record."""
TXID_AT, TIME_AT = 4, 12
"""Offsets of txid and time in a value, 8 bytes each, for readers of many values in one run of bytes."""
CRC_SIZE = 4
KEY_CHECK_SLICE = slice(HEADER_SIZE - 8, HEADER_SIZE)
"""The check word of a value, a second digest of the key fields that distinguishes colliding keys."""
VALUE_OVERHEAD_BYTES = HEADER_SIZE + CRC_SIZE
"""Bytes of a value besides optional parts and payload."""
# Flags and size of the optional parts, both zero.
PLAIN_PREFIX = bytes(4)
"""The beginning of a value without flags and optional parts: its payload follows the header directly."""
KEY_SIZE, HISTORY_KEY_SIZE, EXPIRY_KEY_SIZE = 8, 24, 16
MAX_PART_BYTES = 0xFFFF

# The header with flags and size of the optional parts as one number, which is 0 for a plain record.
_PLAIN = struct.Struct("<IQqq8s")
_CRC = struct.Struct("<I")
_FLAGS = itemgetter(0)
_PLAIN_PAYLOAD = itemgetter(slice(HEADER_SIZE, -CRC_SIZE))
_LENGTH = struct.Struct("<H")
_STAMPS = struct.Struct("<Qq")
_RAW_STAMPS = itemgetter(slice(4, 20))
_CONTENT = slice(20, -CRC_SIZE)
"""The part of a value after txid and time: expiration, check word, optional parts and payload."""
_HEAD = itemgetter(slice(HEADER_SIZE))
_CHECK = itemgetter(KEY_CHECK_SLICE)
TIME_OFFSET = 1 << 63
"""Added to a time in a sort key, so that bytes sort like signed numbers."""
_HISTORY = struct.Struct(">8sQQ")
extract_sow_key: Callable[[bytes], bytes] = itemgetter(slice(KEY_SIZE))
"""Extracts the SOW key from the key of a record or version. In C, for ``map`` over many keys."""
extract_expiring_key: Callable[[bytes], bytes] = itemgetter(slice(EXPIRY_KEY_SIZE - KEY_SIZE, None))
"""Extracts the SOW key from a key of the expiry index."""


class Record(Struct):
    """One stored record or version. Times are microseconds since 1970 UTC; expiration 0 means none.

    ``value`` is the stored value; a tombstone has the flag and an empty payload.
    """

    key: bytes
    check: bytes
    txid: int
    time: int
    expiration: int
    flags: int
    payload: bytes
    user_key: bytes | None
    correlation_id: bytes | None
    logical_topic: bytes | None
    value: bytes

    @property
    def is_tombstone(self) -> bool:
        """True if this version is a deletion of the key."""
        return bool(self.flags & TOMBSTONE_FLAG)

    @property
    def is_lossy(self) -> bool:
        """True if versions after this one were dropped by the granularity rule."""
        return bool(self.flags & LOSSY_FLAG)


def compute_next_key(key: bytes) -> bytes | None:
    """Return the key after ``key`` in key order, or None for the highest key."""
    number = int.from_bytes(key, "big") + 1
    return number.to_bytes(KEY_SIZE, "big") if number < 1 << 8 * KEY_SIZE else None


OptionalParts: TypeAlias = Sequence[bytes | None]
"""The user key, the correlation id and the logical topic of a record; None for one that it has not."""
NO_OPTIONAL_PARTS: OptionalParts = (None, None, None)


def encode_record(
    key: bytes,
    check: bytes,
    txid: int,
    time: int,
    expiration: int,
    flags: int,
    payload: bytes,
    optional: OptionalParts = NO_OPTIONAL_PARTS,
) -> bytes:
    """Return the bytes of one value. ``flags`` may hold TOMBSTONE and LOSSY; the flags of optional parts follow from
    what is given.

    Raises ValueError when a part is longer than 65,535 bytes or the parts together are.
    """
    part_flags, extra = _encode_optional_parts(optional)
    # A flag always matches its part: the flags of parts are set only if the part is written.
    flags = flags & (TOMBSTONE_FLAG | LOSSY_FLAG) | part_flags
    # The checksum includes the key, which is not in the value: a valid value under another key is detected as damaged.
    body = HEADER_LAYOUT.pack(flags, len(extra), txid, time, expiration, check) + extra + payload
    return body + _CRC.pack(crc32(body, crc32(key)))


def _encode_optional_parts(parts: OptionalParts) -> tuple[int, bytes]:
    """Return the flags of the given parts, and the encoded parts after the header. Raises ValueError."""
    flags, extra = 0, b""
    # Parts are in the order of their flags, each after two bytes of its length; an empty part is stored, a missing one
    # is not.
    for flag, part in zip((USER_KEY_FLAG, CORRELATION_FLAG, LOGICAL_TOPIC_FLAG), parts, strict=True):
        if part is not None:
            flags |= flag
            if len(part) > MAX_PART_BYTES:
                raise ValueError(f"an optional part of {len(part)} bytes is longer than {MAX_PART_BYTES}")
            extra += _LENGTH.pack(len(part)) + part
    if len(extra) > MAX_PART_BYTES:
        raise ValueError(f"optional parts of {len(extra)} bytes together are longer than {MAX_PART_BYTES}")
    return flags, extra


def encode_plain_records(
    keys: Sequence[bytes],
    checks: Iterable[bytes],
    txids: Iterable[int],
    times: Iterable[int],
    expirations: Iterable[int],
    payloads: Iterable[bytes],
    flags: int = 0,
) -> list[bytes]:
    """Return values of records without optional parts, many at once; the arguments are parallel, ``flags`` apply to
    all."""
    # Columns through C functions: no bytecode runs per message. Nearly all published records have this form.
    heads = map(_PLAIN.pack, repeat(flags), txids, times, expirations, checks)
    bodies = list(map(add, heads, payloads))
    return list(map(add, bodies, map(_CRC.pack, map(crc32, bodies, map(crc32, keys)))))


def replace_flags(key: bytes, value: bytes, flags: int) -> bytes:
    """Return ``value`` with TOMBSTONE and LOSSY as in ``flags`` and a new checksum; all other parts are kept."""
    # All flags fit into the low byte of the 16-bit field; the high byte is 0.
    kept = value[0] & OPTIONAL_PART_FLAGS | flags & (TOMBSTONE_FLAG | LOSSY_FLAG)
    body = _LENGTH.pack(kept) + value[2:-CRC_SIZE]
    return body + _CRC.pack(crc32(body, crc32(key)))


def is_sound(key: bytes, value: bytes) -> bool:
    """Return whether the checksum of ``value`` under its 8-byte ``key`` is right."""
    # An entry of the expiry index has the same residue; its size shows that it is no record.
    return crc32(value, crc32(key)) == CRC_RESIDUE and len(value) >= VALUE_OVERHEAD_BYTES


def decode_record(key: bytes, value: bytes) -> Record:
    """Decode a value. Raises :class:`DamageError` SOW-STO-001 (checksum) or SOW-STO-002 (inconsistent parts)."""
    # Checksum first: afterwards, an inconsistency is a bug of the writer, not a disk error, and is reported as such
    # (SOW-STO-002).
    if not is_sound(key, value):
        raise damaged_record_error(key)
    flags, extra, txid, time, expiration, check = HEADER_LAYOUT.unpack_from(value)
    start = HEADER_SIZE + extra
    parts = (
        _read_optional_parts(key, value, flags, start) if extra or flags & OPTIONAL_PART_FLAGS else (None, None, None)
    )
    # An unknown flag may mean parts that this version cannot find: rejected, not guessed.
    if start > len(value) - CRC_SIZE or flags & ~ALL_FLAGS:
        raise _key_mismatch_error(key)
    return Record(key, check, txid, time, expiration, flags, value[start:-CRC_SIZE], *parts, value)


def _read_optional_parts(
    key: bytes, value: bytes, flags: int, stop: int
) -> tuple[bytes | None, bytes | None, bytes | None]:
    found: list[bytes | None] = []
    at = HEADER_SIZE
    try:
        for flag in (USER_KEY_FLAG, CORRELATION_FLAG, LOGICAL_TOPIC_FLAG):
            if not flags & flag:
                found.append(None)
                continue
            # A length may exceed the value: slices end there silently, so the sum is compared below.
            end = at + 2 + _LENGTH.unpack_from(value, at)[0]
            found.append(value[at + 2 : end])
            at = end
    except struct.error:
        raise _key_mismatch_error(key) from None
    # The parts must have exactly the size in the header.
    if at != stop:
        raise _key_mismatch_error(key)
    return found[0], found[1], found[2]


def read_logical_topic(value: bytes) -> bytes | None:
    """Return the logical topic of a verified value without decoding the rest; None if it has none."""
    flags = value[0]
    # The value is verified, so its lengths need no checks.
    if not flags & LOGICAL_TOPIC_FLAG:
        return None
    at = HEADER_SIZE
    for flag in (USER_KEY_FLAG, CORRELATION_FLAG):
        if flags & flag:
            at += 2 + _LENGTH.unpack_from(value, at)[0]
    return value[at + 2 : at + 2 + _LENGTH.unpack_from(value, at)[0]]


def damaged_record_error(key: bytes, place: str | None = None) -> DamageError:
    """Return the error for a value with a wrong checksum."""
    return DamageError(
        "SOW-STO-001",
        f"record {int.from_bytes(extract_sow_key(key), 'big')} is damaged: its checksum does not match",
        place=place,
        hint=REBUILD_HINT,
        sow_key=int.from_bytes(extract_sow_key(key), "big"),
    )


def _key_mismatch_error(key: bytes) -> DamageError:
    number = int.from_bytes(extract_sow_key(key), "big")
    return DamageError("SOW-STO-002", f"record {number} has parts that do not match its length", sow_key=number)


Numbers: TypeAlias = Any
"""A sequence of ints, or a numpy array of int64."""


class Offsets(NamedTuple):
    """The locations of values: first byte and size of each, in parallel, and the last four bytes of all, end to end."""

    starts: Numbers
    sizes: Numbers
    sums: bytes

    def select_range(self, start: int, stop: int) -> Offsets:
        """Return a range of them."""
        return Offsets(self.starts[start:stop], self.sizes[start:stop], self.sums[CRC_SIZE * start : CRC_SIZE * stop])


class LazyValues(Sequence[bytes]):
    """Values that are copied one by one on demand, while all payloads are already available."""

    __slots__ = ()

    @abstractmethod
    def list_payloads(self) -> list[bytes]:
        """Return the payloads of all values; callers must not change them."""

    @abstractmethod
    def select_values(self, places: Sequence[int]) -> Sequence[bytes]:
        """Return some of the values."""


def extract_payloads(values: Iterable[bytes]) -> list[bytes]:
    """Return the payloads of many values, unchecked (their reader has verified them)."""
    if isinstance(values, LazyValues):
        return values.list_payloads()
    values = list(values)
    # One test for the whole batch: without flags every payload is at the same offset.
    if not any(map(_FLAGS, values)):  # and so without optional parts
        return list(map(_PLAIN_PAYLOAD, values))
    return [
        value[HEADER_SIZE:-CRC_SIZE]
        if value[2:4] == b"\0\0"
        else value[HEADER_SIZE + count_optional_bytes(value) : -CRC_SIZE]
        for value in values
    ]


def has_payload(value: bytes, payload: bytes) -> bool:
    """Return whether ``payload`` is the payload of a value, without copying it."""
    # Compared in place: unchanged payloads are frequent, and copying each for the comparison would double the cost.
    start = HEADER_SIZE + count_optional_bytes(value)
    return len(value) == start + len(payload) + CRC_SIZE and value.startswith(payload, start)


def has_content(
    value: bytes,
    payload: bytes,
    expiration: int,
    user_key: bytes | None = None,
    correlation_id: bytes | None = None,
    logical_topic: bytes | None = None,
) -> bool:
    """Return whether a value has this payload, expiration and optional parts: all except key, check word, txid and
    time.

    Raises ValueError as :func:`encode_record` does.
    """
    if not has_payload(value, payload) or read_expiration(value) != expiration:
        return False
    flags, extra = _encode_optional_parts((user_key, correlation_id, logical_topic))
    # The payloads have equal lengths and so have the values, so the optional parts have equal lengths, too.
    return value[0] & OPTIONAL_PART_FLAGS == flags and value.startswith(extra, HEADER_SIZE)


def has_same_content(value: bytes, other: bytes) -> bool:
    """Return whether two values of one key differ only in txid and time."""
    # The checksums at the end cover these two, so they differ as well.
    return value[:4] == other[:4] and value[_CONTENT] == other[_CONTENT]


def count_optional_bytes(value: bytes) -> int:
    """Return the number of bytes of the optional parts of a value."""
    return int.from_bytes(value[2:4], "little")


def read_stamps(value: bytes) -> tuple[int, int]:
    """Return ``(txid, time)`` of a value."""
    return _STAMPS.unpack_from(value, TXID_AT)


def read_txid(value: bytes) -> int:
    """Return the txid of a value."""
    return int.from_bytes(value[TXID_AT:TIME_AT], "little")


def read_check(value: bytes) -> bytes:
    """Return the check word of a value, 8 bytes."""
    return value[KEY_CHECK_SLICE]


def read_checks(values: Iterable[bytes]) -> list[bytes]:
    """Return :func:`read_check` of many values."""
    return list(map(_CHECK, values))


def read_all_stamps(values: Iterable[bytes]) -> list[tuple[int, int]]:
    """Return :func:`read_stamps` of many values."""
    return list(map(_STAMPS.unpack_from, values, repeat(TXID_AT)))


def read_plain_stamps(values: Iterable[bytes]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
    """Return txids, times and expirations of many values; None if one has flags or optional parts, or there is none."""
    columns = tuple(zip(*_PLAIN.iter_unpack(extract_headers(values)), strict=True))
    return (columns[1], columns[2], columns[3]) if columns and not any(columns[0]) else None


def extract_raw_stamps(values: Iterable[bytes]) -> bytes:
    """Return txid (u64) and time (i64) of many values end to end, little-endian as stored."""
    return b"".join(map(_RAW_STAMPS, values))


def extract_headers(values: Iterable[bytes]) -> bytes:
    """Return the headers of many values end to end, in the format of :data:`HEADER_DTYPE`."""
    return b"".join(map(_HEAD, values))


def read_expiration(value: bytes) -> int:
    """Return the expiration of a value, microseconds; 0 means none."""
    return int.from_bytes(value[20:28], "little", signed=True)


def build_history_key(key: bytes, value: bytes) -> bytes:
    """Return the history key of a version whose value is ``value``."""
    txid, time = read_stamps(value)
    # Big-endian and offset: the bytes then sort like (key, time, txid), the order in which versions are read.
    return _HISTORY.pack(key, time + TIME_OFFSET, txid)


def split_history_key(history: bytes) -> tuple[bytes, int, int]:
    """Return ``(key, time, txid)`` of a history key."""
    key, time, txid = _HISTORY.unpack(history)
    return key, time - TIME_OFFSET, txid


def encode_expiry_key(expiration: int, key: bytes) -> bytes:
    """Return the 16-byte key in the expiry index: expiration (positive, microseconds), SOW key."""
    return expiration.to_bytes(8, "big") + key


def encode_expiry_value(entry: bytes) -> bytes:
    """Return the value in the expiry index: CRC-32 of its key, so that :data:`CRC_RESIDUE` verifies it too."""
    # An index entry has no content of its own; the checksum distinguishes its page from a page of another sub-database.
    return crc32(entry).to_bytes(4, "little")


def find_damaged_entries(keys: Sequence[bytes], values: Sequence[bytes]) -> list[int]:
    """Return the indexes of damaged entries of the expiry index."""
    # The same residue as for values: one pass over all entries; single entries are checked only after a mismatch.
    if not keys or set(map(crc32, values, map(crc32, keys))) == {CRC_RESIDUE}:
        return []
    return [index for index, key in enumerate(keys) if values[index] != encode_expiry_value(key)]
