"""The change list: which keys every transaction touched, so that what was derived from records can catch up.

An entry leads from one digest of the store to the next (``sow-store(5)``, "The change list"). What is derived from
the records of a state finds here the keys that changed since, or that the list does not reach so far back. The list may
be cut or missing at any time: no answer depends on it. Written by ``write``, read by ``read`` and the check.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from struct import Struct
from typing import Any

from sowctl.checksum import crc32
from sowctl.errors import DamageError
from sowctl.store.codec import KEY_SIZE
from sowctl.store.lmdberrors import REBUILD_HINT

MAX_CHANGE_ENTRIES = 256
"""Entries above which the older half becomes one."""
MIN_LISTED_KEYS = 4096
"""So many keys are listed at least, whatever the number of records. A bound, not measured: 32 KiB. No fewer than those
to which indexes are caught up (``index_tolerated_changes`` in ``engine/search/figures.py``)."""
MAX_CHANGED_DIVISOR = 4
"""Above one changed record in N, the list is not kept. A bound of its room, not measured: readers give
up at a smaller share (``index_max_changed_divisor`` in ``engine/search/figures.py``)."""

_HEAD = Struct("<16s16s")
_CRC = Struct("<I")
_NUMBER = Struct(">Q")
_CHECKSUM_SEED = crc32(b"changes")
"""What checksums begin with, so that its pages where records belong are not taken for sound ones."""


def encode_change(number: int, before: int, after: int, keys: bytes) -> tuple[bytes, bytes]:
    """Key and value of an entry: digests before and after, the keys (8 bytes each) end to end, a checksum over all."""
    key = _NUMBER.pack(number)
    body = _HEAD.pack(before.to_bytes(16, "little"), after.to_bytes(16, "little")) + keys
    return key, body + _CRC.pack(_checksum_entry(key, body))


def decode_change(key: bytes, value: bytes) -> tuple[int, int, bytes] | None:
    """``(before, after, keys)`` of an entry; None for a damaged one."""
    size = len(value) - _HEAD.size - _CRC.size
    if size < 0 or size % KEY_SIZE:
        return None
    if _checksum_entry(key, value[: -_CRC.size]) != _CRC.unpack_from(value, len(value) - _CRC.size)[0]:
        return None
    before, after = _HEAD.unpack_from(value)
    return int.from_bytes(before, "little"), int.from_bytes(after, "little"), value[_HEAD.size : -_CRC.size]


def _checksum_entry(key: bytes, body: bytes) -> int:
    return crc32(body, crc32(key, _CHECKSUM_SEED))


def append_change(txn: Any, database: Any, before: int, after: int, keys: bytes, records: int, place: str) -> None:
    """Add an entry within ``txn`` and forget what is not worth its room; ``records`` is how many the store has.

    Raises DamageError ``SOW-STO-055``, with ``place``, where the last entry is damaged: its page may be another's.
    """
    # A transaction that touched more than a quarter of the records empties the list: whatever was derived is made anew,
    # which is as fast.
    most = max(records // MAX_CHANGED_DIVISOR, MIN_LISTED_KEYS)
    if len(keys) > most * KEY_SIZE:
        txn.drop(database)
        return
    cursor = txn.cursor(database)
    number = 1
    if cursor.last():
        # Checked before the list is written on: a damaged last entry shows that this page may belong to another
        # sub-database, and writing to it would destroy records.
        if decode_change(cursor.key(), cursor.value()) is None:
            message = "an entry of the change list is damaged: its checksum does not match"
            raise DamageError("SOW-STO-055", message, place=place, hint=REBUILD_HINT)
        number += _NUMBER.unpack(cursor.key())[0]
    cursor.put(*encode_change(number, before, after, keys))
    held = txn.stat(database)
    # The list stays at about twice the largest useful entry. Forgetting half at a time keeps the cost per transaction
    # constant.
    if (held["overflow_pages"] + held["leaf_pages"]) * held["psize"] > 2 * most * KEY_SIZE + 2 * held["psize"]:
        _delete_entries(cursor, held["entries"] // 2)
    elif held["entries"] > MAX_CHANGE_ENTRIES:
        _merge_entries(cursor, MAX_CHANGE_ENTRIES // 2)


def _delete_entries(cursor: Any, entries: int) -> None:
    cursor.first()
    for _ in range(entries):
        cursor.delete()


def _merge_entries(cursor: Any, entries: int) -> None:
    """Make one entry of the oldest ones, if they follow one another; else they are of no use."""
    cursor.first()
    pairs = list(islice(cursor.iternext(), entries))
    way = _find_path([decode_change(*pair) for pair in pairs])
    _delete_entries(cursor, entries)
    if way is not None:
        # The merged entry takes the number of its last part, so that numbers still ascend without renumbering the rest.
        before, after, keys = way
        cursor.put(*encode_change(_NUMBER.unpack(pairs[-1][0])[0], before, after, b"".join(sorted(set(keys)))))


def _find_path(entries: Sequence[tuple[int, int, bytes] | None]) -> tuple[int, int, list[bytes]] | None:
    """Return the digests at both ends of the chain of entries, and their keys; None if entries are damaged or
    missing."""
    keys: list[bytes] = []
    start = end = -1
    for entry in entries:
        # An entry must begin with the digest with which the one before ended. A transaction that was not listed (a bulk
        # load, an older program) leaves a gap, and no way leads across it.
        if entry is None or (end >= 0 and entry[0] != end):
            return None
        if end < 0:
            start = entry[0]
        end = entry[1]
        keys += [entry[2][at : at + KEY_SIZE] for at in range(0, len(entry[2]), KEY_SIZE)]
    return (start, end, keys) if end >= 0 else None


def find_changed_keys(txn: Any, database: Any, since: int, now: int) -> set[bytes] | None:
    """The keys touched between the digests ``since`` and ``now``; None if the list does not lead there."""
    if since == now:
        return set()
    found = []
    # From the newest back: the state sought is nearly always a recent one.
    for key, value in txn.cursor(database).iterprev():
        entry = decode_change(key, value)
        if entry is None:
            return None
        found.append(entry)
        if entry[0] == since:
            way = _find_path(found[::-1])
            # The way must also end at the present state; a digest that comes back later stands for the same content, so
            # either occurrence is right.
            return set(way[2]) if way is not None and way[1] == now else None
    return None
