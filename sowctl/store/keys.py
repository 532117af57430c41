"""The keys under which versions and expirations are filed: history keys and entries of the expiry index.

They sort as the store is read: versions by SOW key, time, txid; expirations by time. Called by everybody who reads or
writes versions and by those who look for what has expired. Ruled by ``sow-store(5)``, "History" and "Expiry".
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from sowctl.checksum import crc32
from sowctl.store.codec import RESIDUE, stamps

TIME_OFFSET = 1 << 63
"""Added to a time in a sort key, so that bytes sort as signed numbers do."""
_HISTORY = Struct(">8sQQ")


def history_key(key: bytes, time: int, txid: int) -> bytes:
    """The 24-byte key under which a version is filed: SOW key, time (offset by 2**63), txid; sorts by all three."""
    return _HISTORY.pack(key, time + TIME_OFFSET, txid)


def history_key_of(key: bytes, value: bytes) -> bytes:
    """The history key of a version whose value is ``value``."""
    txid, time = stamps(value)
    return _HISTORY.pack(key, time + TIME_OFFSET, txid)


def split_history_key(history: bytes) -> tuple[bytes, int, int]:
    """``(key, time, txid)`` of a history key."""
    key, time, txid = _HISTORY.unpack(history)
    return key, time - TIME_OFFSET, txid


def expiry_key(expiration: int, key: bytes) -> bytes:
    """The 16-byte key of the expiry index: expiration (positive, microseconds), SOW key."""
    return expiration.to_bytes(8, "big") + key


def expiry_value(entry: bytes) -> bytes:
    """The value of an entry of the expiry index: CRC-32 of its key, so that :data:`RESIDUE` verifies it too."""
    return crc32(entry).to_bytes(4, "little")


def damaged_entries(keys: Sequence[bytes], values: Sequence[bytes]) -> list[int]:
    """Indexes of the damaged entries of the expiry index."""
    if not keys or set(map(crc32, values, map(crc32, keys))) == {RESIDUE}:
        return []
    return [index for index, key in enumerate(keys) if values[index] != expiry_value(key)]
