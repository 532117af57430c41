"""The change list: the keys touched by every transaction, so that derived data can be updated incrementally.

An entry leads from one digest of the store to the next (``sow-store(5)``, "The change list"). For data derived from the
records of an earlier state, the list gives the keys that changed since, or shows that it does not reach back far
enough. The list may be truncated or missing at any time: no result depends on it. Written by ``write``, read by
``read`` and the check.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from struct import Struct
from typing import Any

from sowctl.checksum import crc32
from sowctl.errors import DamageError
from sowctl.store.codec import KEY_SIZE, REBUILD_HINT

MAX_CHANGE_ENTRIES = 256
"""Number of entries above which the older half is merged into one."""
MIN_LISTED_KEYS = 4096
"""Minimum number of listed keys, whatever the number of records. A limit, not measured: 32 KiB. At least the number of
changes for which indexes are updated (``index_tolerated_changes`` in ``engine/search/figures.py``)."""
MAX_CHANGED_DIVISOR = 4
"""Above one changed record in N, the list is not kept. A limit of its size, not measured: readers give up at a smaller
share (``index_max_changed_divisor`` in ``engine/search/figures.py``)."""

_HEAD = Struct("<16s16s")
_CRC = Struct("<I")
_NUMBER = Struct(">Q")
_CHECKSUM_SEED = crc32(b"changes")
"""Seed of the checksums, so that pages of the list are not mistaken for valid pages of records."""


def encode_change(number: int, before: int, after: int, keys: bytes) -> tuple[bytes, bytes]:
    """Return key and value of an entry: digests before and after, the keys (8 bytes each) end to end, a checksum of
    all."""
    key = _NUMBER.pack(number)
    body = _HEAD.pack(before.to_bytes(16, "little"), after.to_bytes(16, "little")) + keys
    return key, body + _CRC.pack(_checksum_entry(key, body))


def decode_change(key: bytes, value: bytes) -> tuple[int, int, bytes] | None:
    """Return ``(before, after, keys)`` of an entry; None for a damaged one."""
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
    """Add an entry within ``txn`` and drop entries that exceed the limits; ``records`` is the store's record count.

    Raises DamageError ``SOW-STO-055``, with ``place``, if the last entry is damaged: its page may belong to another
    database.
    """
    # A transaction that touched more than a quarter of the records empties the list: recomputing derived data is as
    # fast.
    most = max(records // MAX_CHANGED_DIVISOR, MIN_LISTED_KEYS)
    if len(keys) > most * KEY_SIZE:
        txn.drop(database)
        return
    cursor = txn.cursor(database)
    number = 1
    if cursor.last():
        # Checked before the list is extended: a damaged last entry shows that this page may belong to another
        # sub-database, and writing to it would destroy records.
        if decode_change(cursor.key(), cursor.value()) is None:
            message = "an entry of the change list is damaged: its checksum does not match"
            raise DamageError("SOW-STO-055", message, place=place, hint=REBUILD_HINT)
        number += _NUMBER.unpack(cursor.key())[0]
    cursor.put(*encode_change(number, before, after, keys))
    held = txn.stat(database)
    # The list stays at about twice the largest useful entry. Dropping half at a time keeps the cost per transaction
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
    """Merge the oldest entries into one if they are contiguous; otherwise drop them, as they are useless."""
    cursor.first()
    pairs = list(islice(cursor.iternext(), entries))
    way = _find_path([decode_change(*pair) for pair in pairs])
    _delete_entries(cursor, entries)
    if way is not None:
        # The merged entry has the number of its last part, so that numbers still ascend without renumbering the rest.
        before, after, keys = way
        cursor.put(*encode_change(_NUMBER.unpack(pairs[-1][0])[0], before, after, b"".join(sorted(set(keys)))))


def _find_path(entries: Sequence[tuple[int, int, bytes] | None]) -> tuple[int, int, list[bytes]] | None:
    """Return the digests at both ends of the chain of entries, and their keys; None if entries are damaged or
    missing."""
    keys: list[bytes] = []
    start = end = -1
    for entry in entries:
        # An entry must begin with the digest with which the previous one ended. An unlisted transaction (a bulk load,
        # an older program) leaves a gap that the chain cannot cross.
        if entry is None or (end >= 0 and entry[0] != end):
            return None
        if end < 0:
            start = entry[0]
        end = entry[1]
        keys += [entry[2][at : at + KEY_SIZE] for at in range(0, len(entry[2]), KEY_SIZE)]
    return (start, end, keys) if end >= 0 else None


def find_changed_keys(txn: Any, database: Any, since: int, now: int) -> set[bytes] | None:
    """Return the keys touched between the digests ``since`` and ``now``; None if the list does not lead there."""
    if since == now:
        return set()
    found = []
    # From the newest back: the requested state is nearly always a recent one.
    for key, value in txn.cursor(database).iterprev():
        entry = decode_change(key, value)
        if entry is None:
            return None
        found.append(entry)
        if entry[0] == since:
            way = _find_path(found[::-1])
            # The chain must also end at the current state; a digest that occurs again has the same content, so either
            # occurrence is right.
            return set(way[2]) if way is not None and way[1] == now else None
    return None
